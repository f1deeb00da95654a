"""Custom objectives and metrics of estimators."""

from __future__ import annotations

import numpy as np
import pytest

from hornbeam import HornbeamRanker, HornbeamRegressor


def test_custom_objective_and_metric(diabetes):
    X, y = diabetes

    def squared(labels, predictions, sample_weight=None):
        weight = np.ones_like(labels) if sample_weight is None else sample_weight
        return weight * (predictions - labels), weight

    def worst(labels, predictions, sample_weight=None):
        return np.abs(labels - predictions).max()

    weight = np.full(len(y), 2.0)
    model = HornbeamRegressor(n_estimators=5, objective=squared, eval_metric=worst)
    model.fit(X, y, sample_weight=weight, eval_set=[(X, y)], verbose=False)
    plain = HornbeamRegressor(n_estimators=5, base_score=0.5)
    plain.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-4)
    (score,) = model.evals_result()["validation_0"]["worst"][-1:]
    assert score == pytest.approx(np.abs(y - model.predict(X)).max(), rel=1e-6)


def test_custom_functions_of_a_ranker_get_groups(lists):
    X, y, qid = lists

    def first_is_best(labels, predictions):
        return float(labels[predictions.argmax()] == labels.max())

    def centred(labels, margins, group):
        ends = np.cumsum(group)[:-1]
        parts = zip(np.split(labels, ends), np.split(margins, ends), strict=True)
        gradient = [(m - m.mean()) - (y - y.mean()) for y, m in parts]
        return np.concatenate(gradient), np.ones(len(labels))

    model = HornbeamRanker(
        n_estimators=8, objective=centred, eval_metric=first_is_best, base_score=0.5
    )
    model.fit(X, y, qid=qid, eval_set=[(X, y)], eval_qid=[qid])
    values = model.evals_result()["validation_0"]["first_is_best"]
    assert values[-1] > values[0]
