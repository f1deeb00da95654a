"""TreeSHAP through the public interface: shapes, sums, threads, kinds of models."""

from __future__ import annotations

import numpy as np
import pytest
from samples import few_values, ranked

import hornbeam
from hornbeam import DMatrix
from hornbeam.kernels.jit import COMPILED

KINDS = {
    "contributions": {"pred_contribs": True},
    "steps": {"pred_contribs": True, "approx_contribs": True},
    "interactions": {"pred_interactions": True},
}
VECTOR = {
    "objective": "multi:softprob",
    "num_class": 3,
    "multi_strategy": "multi_output_tree",
}
CASES = {
    "numbers": {},
    "classes": {"objective": "multi:softprob", "num_class": 3},
    "trees of all outputs": VECTOR,
    "dart": {"booster": "dart", "rate_drop": 0.5, "one_drop": True},
    "forest": {"num_parallel_tree": 3, "subsample": 0.5},
    "linear": {"booster": "gblinear"},
}


def trained(params, rows, labels, rounds=4):
    if "num_class" in params:
        labels = ranked(labels, params["num_class"])
    depth = {} if params.get("booster") == "gblinear" else {"max_depth": 3}
    data = DMatrix(rows, labels)
    return hornbeam.train({**depth, **params}, data, rounds, verbose_eval=False)


def assert_sums(booster, data, **how):
    """Assert that contributions sum to margins for any range of rounds."""
    part = {k: v for k, v in how.items() if k == "iteration_range"}
    margins = booster.predict(data, output_margin=True, strict_shape=True, **part)
    found = booster.predict(data, strict_shape=True, **how)
    assert found.shape[:2] == margins.shape
    assert set(found.shape[2:]) == {data.num_col() + 1}
    sums = found.astype(np.float64).sum(axis=tuple(range(2, found.ndim)))
    np.testing.assert_allclose(sums, margins, rtol=1e-6, atol=2e-6)
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_contributions_add_up_to_margins(dtype, case, kind):
    rows, labels = few_values(300, missing=0.2)
    rows = rows.astype(dtype)
    rows[:, 0] += np.random.default_rng(0).normal(size=len(rows))
    booster = trained(CASES[case], rows, labels)
    outputs = 3 if "num_class" in CASES[case] else 1
    margins = np.random.default_rng(1).normal(size=(len(rows), outputs))
    data = DMatrix(rows, base_margin=margins)
    found = assert_sums(booster, data, **KINDS[kind])
    plain = booster.predict(data, **KINDS[kind])
    np.testing.assert_array_equal(plain, found[:, 0] if outputs == 1 else found)
    if case != "linear":
        assert_sums(booster, data, **KINDS[kind], iteration_range=(1, 3))


@pytest.mark.parametrize("case", ["numbers", "trees of all outputs"])
def test_interactions_of_multi_output_trees_sum_to_contributions(case):
    rows, labels = few_values(200, missing=0.2)
    booster = trained(CASES[case], rows, labels)
    single = booster.predict(DMatrix(rows), pred_contribs=True)
    pairs = booster.predict(DMatrix(rows), pred_interactions=True)
    np.testing.assert_array_equal(pairs, np.swapaxes(pairs, -1, -2))
    np.testing.assert_allclose(pairs.sum(axis=-1), single, atol=2e-6)


@pytest.mark.skipif(not COMPILED, reason="kernels are plain Python")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", ["classes", "trees of all outputs"])
def test_contributions_do_not_depend_on_the_number_of_threads(
    case, kind, thread_counts
):
    rows, labels = few_values(3001, missing=0.1)
    booster = trained({**CASES[case], "max_depth": 6}, rows, labels, 20)
    found = set()
    for threads in thread_counts:
        booster.set_param({"nthread": threads})
        found.add(booster.predict(DMatrix(rows), **KINDS[kind]).tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_contributions_of_an_estimator_and_of_zero_rows(kind):
    rows, labels = few_values(200)
    model = hornbeam.HornbeamRegressor(n_estimators=3, max_depth=3).fit(rows, labels)
    booster = model.get_booster()
    assert_sums(booster, DMatrix(rows), **KINDS[kind])
    assert len(booster.predict(DMatrix(rows[:0]), **KINDS[kind])) == 0


@pytest.mark.parametrize("case", ["numbers", "dart", "trees of all outputs"])
def test_contributions_follow_a_model_that_changes(case):
    rows, labels = few_values(200)
    booster = trained(CASES[case], rows, labels)
    data = DMatrix(rows, ranked(labels, 3) if "num_class" in CASES[case] else labels)
    for _ in range(2):  # what is kept of the trees is that of these
        before = assert_sums(booster, data, pred_contribs=True)
    assert_sums(booster, data, pred_contribs=True, iteration_range=(1, 3))
    np.testing.assert_array_equal(
        booster.predict(data, pred_contribs=True, strict_shape=True), before
    )
    booster.update(data, 4)
    after = assert_sums(booster, data, pred_contribs=True)
    same = hornbeam.Booster(model_file=booster.save_raw())
    expected = same.predict(data, pred_contribs=True, strict_shape=True)
    np.testing.assert_array_equal(after, expected)
    assert not np.array_equal(after, before)


@pytest.mark.parametrize("kind", KINDS)
def test_trees_without_splits_have_contributions_of_0(kind):
    rows, labels = few_values(200)
    untrained = hornbeam.train({}, DMatrix(rows, labels), 0)
    for booster in (trained({"gamma": 1e9}, rows, labels), untrained):
        found = assert_sums(booster, DMatrix(rows), **KINDS[kind])
        assert np.count_nonzero(found) == len(rows)


def test_interactions_of_many_features():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 300 if COMPILED else 20)).astype(np.float32)
    labels = rows[:, :20].sum(axis=1) + rows[:, 1] * rows[:, 2]
    params = {"colsample_bynode": 0.5, "min_child_weight": 0}
    booster = trained(params, rows, labels, 40 if COMPILED else 3)
    assert_sums(booster, DMatrix(rows), pred_interactions=True)
