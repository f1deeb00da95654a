"""Interventional SHAP values through the public interface."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from samples import few_values
from test_tree_shap import CASES, trained

import hornbeam
from hornbeam import DMatrix
from hornbeam.errors import DataError
from hornbeam.kernels.jit import COMPILED

OTHERS = 60 if COMPILED else 12
ROWS = 40 if COMPILED else 8
LEARNED = 300 if COMPILED else 60


def mean_margin(booster, background, weights=None, **how):
    margins = booster.predict(background, output_margin=True, strict_shape=True, **how)
    return np.average(margins.astype(np.float64), axis=0, weights=weights)


def assert_sums(booster, data, background, weights=None, **how):
    """Assert that values and the mean margin of the background sum to margins."""
    margins = booster.predict(data, output_margin=True, strict_shape=True, **how)
    found = booster.shap_values(data, background, strict_shape=True, **how)
    assert found.shape == (*margins.shape, data.num_col() + 1)
    sums = found.astype(np.float64).sum(axis=2)
    np.testing.assert_allclose(sums, margins, rtol=1e-6, atol=2e-6)
    mean = mean_margin(booster, background, weights, **how)
    np.testing.assert_allclose(
        found[:, :, -1], np.broadcast_to(mean, margins.shape), rtol=1e-6, atol=1e-6
    )
    return found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64] if COMPILED else [np.float32]
)
def test_values_add_up_to_margins(dtype, case):
    rows, labels = few_values(LEARNED, missing=0.2)
    rows = rows.astype(dtype)
    rows[:, 0] += np.random.default_rng(0).normal(size=len(rows))
    booster = trained(CASES[case], rows, labels)
    weights = np.random.default_rng(1).random(OTHERS)
    data, background = DMatrix(rows[:ROWS]), DMatrix(rows[-OTHERS:], weight=weights)
    found = assert_sums(booster, data, background, weights)
    plain = booster.shap_values(data, background)
    np.testing.assert_array_equal(plain, found if found.shape[1] > 1 else found[:, 0])
    if case != "linear":
        assert_sums(booster, data, background, weights, iteration_range=(1, 3))


@pytest.mark.parametrize("case", ["numbers", "trees of all outputs", "dart", "linear"])
def test_values_are_means_over_background_rows(case):
    rows, labels = few_values(LEARNED, missing=0.2)
    booster = trained(CASES[case], rows, labels)
    data, others = DMatrix(rows[:ROWS]), rows[-4:]
    whole = booster.shap_values(data, DMatrix(others))
    parts = [booster.shap_values(data, DMatrix(others[i : i + 1])) for i in range(4)]
    np.testing.assert_allclose(whole, np.mean(parts, axis=0), atol=1e-6)
    # A row as its own background has values of 0.
    own = booster.shap_values(DMatrix(others[:1]), DMatrix(others[:1]))
    assert np.count_nonzero(own[..., :-1]) == 0


def test_values_without_a_background_equal_pred_contribs():
    rows, labels = few_values(LEARNED)
    booster = trained({}, rows, labels)
    found = booster.shap_values(DMatrix(rows), iteration_range=(0, 2))
    expected = booster.predict(
        DMatrix(rows), pred_contribs=True, iteration_range=(0, 2)
    )
    np.testing.assert_array_equal(found, expected)


def test_columns_and_categories_are_matched_by_name():
    rng = np.random.default_rng(0)
    colour = rng.choice(["blue", "green", "red"], 200)
    frame = pd.DataFrame({"colour": pd.Categorical(colour), "size": rng.random(200)})
    y = (colour == "red") * 2.0 + frame["size"]
    params = {"max_depth": 3, "max_cat_to_onehot": 1}
    booster = hornbeam.train(params, DMatrix(frame, y), 5, verbose_eval=False)
    background = frame[:OTHERS][["size", "colour"]]
    background["colour"] = background["colour"].cat.reorder_categories(
        ["red", "green", "blue"]
    )
    found = assert_sums(booster, DMatrix(frame[-ROWS:]), DMatrix(background))
    same = booster.shap_values(DMatrix(frame[-ROWS:]), DMatrix(frame[:OTHERS]))
    np.testing.assert_array_equal(found[:, 0], same)


def test_base_margins_of_the_rows_are_used():
    rows, labels = few_values(LEARNED)
    booster = trained({}, rows, labels)
    background = DMatrix(rows[-OTHERS:])
    plain = booster.shap_values(DMatrix(rows[:ROWS]), background)
    start = np.arange(ROWS, dtype=float)
    data = DMatrix(rows[:ROWS], base_margin=start)
    found = booster.shap_values(data, background)
    np.testing.assert_array_equal(found[:, :-1], plain[:, :-1])
    base = float(booster.model.base_score[0])
    np.testing.assert_allclose(found[:, -1] - start, plain[:, -1] - base, atol=1e-5)


@pytest.mark.skipif(not COMPILED, reason="kernels are plain Python")
@pytest.mark.parametrize("case", ["classes", "trees of all outputs", "deep"])
def test_values_do_not_depend_on_the_number_of_threads(case, thread_counts):
    rows, labels = few_values(3001, missing=0.1)
    if case == "deep":
        rows = np.tile(np.eye(30, dtype=np.float32), (20, 1))
        labels = np.arange(len(rows)) % 30
        params = {"max_depth": 0, "min_child_weight": 0}
        data = DMatrix(rows, labels)
        booster = hornbeam.train(params, data, 2, verbose_eval=False)
        assert booster.model.trees[0].depth() > 24
    else:
        booster = trained({**CASES[case], "max_depth": 6}, rows, labels, 20)
    found = set()
    for threads in thread_counts:
        booster.set_param({"nthread": threads})
        shares = booster.shap_values(DMatrix(rows), DMatrix(rows[-OTHERS:]))
        found.add(shares.tobytes())
    assert len(found) == 1
    assert_sums(booster, DMatrix(rows), DMatrix(rows[-OTHERS:]))


def test_trees_without_splits_have_values_of_0():
    rows, labels = few_values(LEARNED)
    untrained = hornbeam.train({}, DMatrix(rows, labels), 0)
    for booster in (trained({"gamma": 1e9}, rows, labels), untrained):
        found = assert_sums(booster, DMatrix(rows), DMatrix(rows[:5]))
        assert np.count_nonzero(found) == len(rows)
        assert booster.shap_values(DMatrix(rows[:0]), DMatrix(rows)).shape == (0, 7)


def test_a_background_of_no_rows_or_no_weight_is_an_error():
    rows, labels = few_values(LEARNED)
    booster = trained({}, rows, labels)
    with pytest.raises(DataError, match="the background has no rows"):
        booster.shap_values(DMatrix(rows), DMatrix(rows[:0]))
    weighted = DMatrix(rows, weight=np.arange(len(rows)) > 2)
    with pytest.raises(DataError, match="weights of the background are all 0"):
        booster.shap_values(DMatrix(rows), weighted.slice([0, 1, 2]))
    with pytest.raises(DataError, match="columns"):
        booster.shap_values(DMatrix(rows), DMatrix(rows[:, :3]))


@pytest.mark.skipif(not COMPILED, reason="kernels are plain Python")
@pytest.mark.parametrize("depth", [2, 6, 10])
def test_values_equal_those_of_shap_with_xgboost(depth, tmp_path):
    shap = pytest.importorskip("shap")
    xgboost = pytest.importorskip("xgboost")
    rows, labels = few_values(400, missing=0.1)
    booster = trained({"max_depth": depth}, rows, labels, 20)
    path = tmp_path / "model.json"
    booster.save_model(path)
    explainer = shap.TreeExplainer(
        xgboost.Booster(model_file=path),
        data=rows[-OTHERS:],
        feature_perturbation="interventional",
    )
    found = booster.shap_values(DMatrix(rows[:ROWS]), DMatrix(rows[-OTHERS:]))
    expected = explainer.shap_values(rows[:ROWS])
    np.testing.assert_allclose(found[:, :-1], expected, atol=1e-5)
    np.testing.assert_allclose(found[:, -1], explainer.expected_value, atol=1e-5)
