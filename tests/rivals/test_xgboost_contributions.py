"""Contributions from a model file are equal to those of the real XGBoost."""

from __future__ import annotations

import numpy as np
import pytest
import xgboost
from samples import few_values, ranked
from test_xgboost_categories import INFO, table

import hornbeam

KINDS = {
    "contributions": {"pred_contribs": True},
    "steps": {"pred_contribs": True, "approx_contribs": True},
    "interactions": {"pred_interactions": True},
    "steps of pairs": {"pred_interactions": True, "approx_contribs": True},
}
CASES = {
    "regression": {},
    "deep": {"max_depth": 9, "min_child_weight": 0, "lambda": 0.1},
    "best first": {"grow_policy": "lossguide", "max_leaves": 20, "max_depth": 0},
    "binary": {"objective": "binary:logistic", "base_score": 0.3},
    "classes": {"objective": "multi:softprob", "num_class": 3},
    "forest": {"num_parallel_tree": 3, "subsample": 0.6, "colsample_bynode": 0.5},
    "dart": {"booster": "dart", "rate_drop": 0.3, "one_drop": True},
    "one root": {"gamma": 1e9},
}


def of_both(params, rows, labels, rounds=5, **info):
    """Return a model of XGBoost as boosters of both libraries."""
    if params.get("booster") != "gblinear":
        params = {"max_depth": 4, **params}
    data = xgboost.DMatrix(rows, labels, **info)
    theirs = xgboost.train({"nthread": 1, **params}, data, rounds)
    ours = hornbeam.Booster(model_file=bytes(theirs.save_raw("ubj")))
    return ours, theirs


def assert_same(ours, theirs, rows, info, atol, **how):
    given = hornbeam.DMatrix(rows, **info)
    found = ours.predict(given, **how)
    expected = theirs.predict(xgboost.DMatrix(rows, **info), **how)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=atol)


def assert_sums(booster, rows, info, atol, **how):
    data = hornbeam.DMatrix(rows, **info)
    margins = booster.predict(data, output_margin=True, strict_shape=True)
    found = booster.predict(data, strict_shape=True, **how).astype(np.float64)
    axes = tuple(range(2, found.ndim))
    np.testing.assert_allclose(found.sum(axis=axes), margins, rtol=1e-6, atol=atol)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("case", CASES)
def test_contributions_equal_xgboosts(case, missing, kind):
    params = CASES[case]
    rows, labels = few_values(600, missing=missing)
    if "objective" in params:
        labels = ranked(labels, params.get("num_class", 2))
    ours, theirs = of_both(params, rows, labels)
    how = KINDS[kind]
    for strict_shape in (False, True):
        shape = {"strict_shape": strict_shape}
        assert_same(ours, theirs, rows[:60], {}, 1e-5, **how, **shape)
    assert_sums(ours, rows, {}, 2e-6, **how)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_contributions_of_categorical_splits_equal_xgboosts(missing, kind):
    rows, labels = table(missing=missing)
    ours, theirs = of_both({"max_cat_to_onehot": 5}, rows, labels, **INFO)
    assert any(tree.split_type.any() for tree in ours.model.trees)
    assert_same(ours, theirs, rows[:60], INFO, 1e-5, **KINDS[kind])
    assert_sums(ours, rows, INFO, 2e-6, **KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_contributions_with_base_margins_and_round_ranges(kind):
    rows, labels = few_values(600)
    ours, theirs = of_both(CASES["classes"], rows, ranked(labels, 3))
    margins = np.random.default_rng(0).normal(size=(60, 3))
    info = {"base_margin": margins}
    how = {**KINDS[kind], "iteration_range": (0, 3)}
    assert_same(ours, theirs, rows[:60], info, 1e-5, **how)


@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_contributions_of_linear_models_equal_xgboosts(kind, classes):
    """XGBoost 3.2 fails for their interactions, which are all 0."""
    rows, labels = few_values(600, missing=0.2)
    params = {"booster": "gblinear"}
    if classes:
        labels = ranked(labels, classes)
        params |= {"objective": "multi:softprob", "num_class": classes}
    ours, theirs = of_both(params, rows, labels)
    assert_sums(ours, rows, {}, 2e-6, **KINDS[kind])
    if "pred_contribs" in KINDS[kind]:
        assert_same(ours, theirs, rows, {}, 1e-5, **KINDS[kind])
        return
    pairs = ours.predict(hornbeam.DMatrix(rows), strict_shape=True, **KINDS[kind])
    alone = ours.predict(hornbeam.DMatrix(rows), pred_contribs=True, strict_shape=True)
    np.testing.assert_array_equal(pairs, alone[..., None] * np.eye(rows.shape[1] + 1))
