"""Importances: shares of gain and of contributions, and permutations."""

from __future__ import annotations

import numpy as np
import pytest
from report_cases import frame_of, rows_of, trained
from sklearn.inspection import permutation_importance

import hornbeam
from hornbeam.explain.report.importances import importances_of

FRAME, LABELS = frame_of(800)
MODEL = trained(FRAME, LABELS)


@pytest.fixture(scope="module")
def found():
    rows, task = rows_of(MODEL, FRAME, LABELS)
    return importances_of(MODEL, rows, task, 0, repeats=20)


def test_gains_are_shares_of_all_gain(found):
    gains = MODEL.get_score(importance_type="total_gain")
    for entry in found.features:
        share = gains.get(entry.name, 0.0) / sum(gains.values())
        assert entry.gain == pytest.approx(share, rel=1e-6)
        assert entry.splits == MODEL.get_fscore().get(entry.name, 0)


def test_contributions_are_shares_and_lead_the_order(found):
    data = hornbeam.DMatrix(FRAME)
    sizes = np.abs(MODEL.predict(data, pred_contribs=True))[:, :-1].mean(axis=0)
    shares = dict(zip(FRAME.columns, sizes / sizes.sum(), strict=True))
    order = sorted(shares, key=lambda name: -shares[name])
    assert [entry.name for entry in found.features] == order
    for entry in found.features:
        assert entry.shap == pytest.approx(shares[entry.name], rel=1e-4)


def test_permutations_are_scikit_learns(found):
    model = hornbeam.HornbeamClassifier(n_estimators=10, max_depth=3)
    model.fit(FRAME, LABELS)
    assert model.get_booster().get_dump() == MODEL.get_dump()
    other = permutation_importance(
        model, FRAME, LABELS, scoring="neg_log_loss", n_repeats=20, random_state=0
    )
    for place, name in enumerate(FRAME.columns):
        (entry,) = (e for e in found.features if e.name == name)
        spread = max(other.importances_std[place], 1e-3)
        assert entry.drop == pytest.approx(
            other.importances_mean[place], abs=2 * spread
        )
        assert len(entry.drops) == 20
        assert entry.error == pytest.approx(np.std(entry.drops))


def test_what_is_unused_is_worth_nothing():
    frame = FRAME.assign(noise=0.0)
    model = trained(frame, LABELS)
    rows, task = rows_of(model, frame, LABELS)
    entry = importances_of(model, rows, task, 0).features[-1]
    assert (entry.name, entry.gain, entry.shap, entry.drops) == ("noise", 0, 0, None)
