"""Survival objectives compared with the real XGBoost: trees, metrics and model files.

Hornbeam differs from XGBoost 3.2 in two points. XGBoost's gradients of the normal and
the extreme distribution are imprecise far from the margin, so the times are near it
here. XGBoost's Cox gradients of tied times depend on the order of rows, so there are no
ties here.
"""

from __future__ import annotations

import numpy as np
import pytest
import xgboost
from samples import few_values
from test_xgboost import LIBRARIES, as_xgboost, assert_same_model, assert_same_reports

import hornbeam

DISTRIBUTIONS = ["normal", "logistic", "extreme"]


def times(rows, seed=0):
    """Return times that depend on two columns, and the times of censoring."""
    rng = np.random.default_rng(seed)
    scores = np.nan_to_num(0.1 * rows[:, 0] - 0.1 * rows[:, 1])
    scores += 0.4 * rng.normal(size=len(rows))
    return np.exp(scores), rng.uniform(0.2, 4, len(rows))


def ends(rows):
    """Return distinct times, negative where censored."""
    found, until = times(rows)
    ranks = 1 + np.argsort(np.argsort(np.minimum(found, until)))
    return np.where(found < until, ranks, -ranks)


def bounds(rows):
    """Return label bounds: uncensored, right-, left- and interval-censored."""
    found, until = times(rows)
    kind = np.random.default_rng(1).integers(4, size=len(rows))
    lower = np.choose(kind, [found, np.minimum(found, until), 0, 0.7 * found])
    upper = np.choose(kind, [found, np.inf, 1.2 * found, 1.5 * found])
    return {"label_lower_bound": lower, "label_upper_bound": upper}


def both(params, rows, info, rounds=4):
    boosters, reports = [], []
    for library in LIBRARIES:
        data, report = library.DMatrix(rows, **info), {}
        boosters.append(
            library.train(
                {"nthread": 1, "max_depth": 4, **params},
                data,
                rounds,
                evals=[(data, "train")],
                evals_result=report,
                verbose_eval=False,
            )
        )
        reports.append(report)
    return (*boosters, *reports)


def assert_same_predictions(ours, theirs, rows):
    """Assert equality within the rounding errors of XGBoost's float32 margins."""
    predictions = [
        booster.predict(library.DMatrix(rows))
        for booster, library in zip((ours, theirs), LIBRARIES, strict=True)
    ]
    np.testing.assert_allclose(*predictions, rtol=2e-5)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_cox_trees_equal_xgboosts(missing):
    rows, _ = few_values(missing=missing)
    info = {"label": ends(rows)}
    params = {"objective": "survival:cox"}
    ours, theirs, *reports = both(params, rows, info, rounds=1)
    assert_same_model(ours, theirs)
    ours, theirs, *reports = both(params, rows, info)
    assert_same_reports(*reports)
    assert_same_predictions(ours, theirs, rows)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.8])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_aft_trees_equal_xgboosts(distribution, scale, weighted):
    rows, _ = few_values(missing=0.1)
    info = bounds(rows)
    if weighted:
        info["weight"] = 1 + np.random.default_rng(2).random(len(rows))
    params = {
        "objective": "survival:aft",
        "aft_loss_distribution": distribution,
        "aft_loss_distribution_scale": scale,
        "eval_metric": ["aft-nloglik", "interval-regression-accuracy"],
    }
    ours, theirs, *reports = both(params, rows, info)
    assert_same_model(ours, theirs)
    assert_same_reports(*reports)


@pytest.mark.parametrize("objective", ["survival:cox", "survival:aft"])
@pytest.mark.parametrize("kind", ["json", "ubj"])
def test_model_files_are_exchanged(objective, kind):
    rows, _ = few_values()
    info = {"label": ends(rows), **bounds(rows)}
    params = {"objective": objective, "nthread": 1}
    if objective == "survival:aft":
        params |= {"aft_loss_distribution": "logistic"}
        params |= {"aft_loss_distribution_scale": 1.2}
    data, other = (library.DMatrix(rows, **info) for library in LIBRARIES)
    ours = hornbeam.train(params, data, 6, verbose_eval=False)
    theirs = as_xgboost(ours, kind)
    np.testing.assert_array_equal(
        ours.predict(data, output_margin=True),
        theirs.predict(other, output_margin=True),
    )
    np.testing.assert_array_max_ulp(ours.predict(data), theirs.predict(other), 4)
    first = xgboost.train(params, other, 3)
    raw = bytes(first.save_raw(kind))
    back = hornbeam.Booster(model_file=raw)
    assert back.params.objective == objective
    np.testing.assert_array_equal(
        back.predict(data, output_margin=True),
        first.predict(other, output_margin=True),
    )
    more = hornbeam.train(params, data, 3, xgb_model=raw, verbose_eval=False)
    assert_same_predictions(
        more, xgboost.train(params, other, 3, xgb_model=first), rows
    )
