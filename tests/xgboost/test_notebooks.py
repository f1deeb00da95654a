"""Code from notebooks, run with both libraries."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from hornbeam import xgboost as ours

xgboost = pytest.importorskip("xgboost")
pandas = pytest.importorskip("pandas")

FACES = [ours, xgboost]
X = np.random.default_rng(0).random((60, 3)).round(1)
Y = X @ [1.0, 2.0, 0.0]


@pytest.fixture(params=FACES, ids=["ours", "theirs"])
def xgb(request):
    return request.param


#: The failing code, and text of the error that code matches.
WRONG = {
    "an infinite cell of a frame of bins": (
        lambda xgb: xgb.QuantileDMatrix([[1.0], [np.inf]]),
        "Input data contains `inf`",
    ),
    "a name for one column of three": (
        lambda xgb: xgb.DMatrix(X, feature_names=["a"]),
        "feature names must have the same length as the number of data columns",
    ),
    "a name twice": (
        lambda xgb: xgb.DMatrix(X, feature_names=["a", "b", "a"]),
        "feature_names must be unique",
    ),
    "a name with a bracket": (
        lambda xgb: xgb.DMatrix(pandas.DataFrame(X, columns=["a", "b", "c [m]"])),
        r"feature_names must be string, and may not contain \[, \] or <",
    ),
    "a type that is none": (
        lambda xgb: xgb.DMatrix(X, feature_types=["a", "q", "q"]),
        "All feature_types must be one of {int, float, i, q, c}",
    ),
    "weights of some rows": (
        lambda xgb: xgb.train({}, xgb.DMatrix(X, Y, weight=[1, 1]), 1),
        "Size of weights must equal to number of rows",
    ),
    "margins of some rows": (
        lambda xgb: xgb.train({}, xgb.DMatrix(X, Y, base_margin=[1, 1]), 1),
        "Invalid size for `base_margin`",
    ),
    "a field that is none": (
        lambda xgb: xgb.DMatrix(X).get_float_info("lable"),
        "Unknown key:lable",
    ),
    "a format that is none": (
        lambda xgb: xgb.train({}, xgb.DMatrix(X, Y), 1).save_raw("txt"),
        "Unknown model format: `txt`",
    ),
    "counts below zero": (
        lambda xgb: xgb.train({"objective": "count:poisson"}, xgb.DMatrix(X, -Y), 1),
        "label must be non-negative for Poisson/Tweedie regression",
    ),
    "validation data without labels": (
        lambda xgb: xgb.train({}, xgb.DMatrix(X, Y), 1, evals=[(xgb.DMatrix(X), "v")]),
        "label and prediction size not match",
    ),
    "the number of a GPU": (
        lambda xgb: xgb.train({"gpu_id": 0}, xgb.DMatrix(X, Y), 1),
        "`gpu_id` has been removed since 3.1. Use `device` instead",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_contain_the_text_that_code_matches(case, xgb):
    run, words = WRONG[case]
    with pytest.raises(ValueError, match=words):
        run(xgb)


def test_best_iteration_without_early_stopping_raises_attribute_error(xgb):
    booster = xgb.train({}, xgb.DMatrix(X, Y), 1)
    words = "`best_iteration` is only defined when early stopping is used"
    with pytest.raises(AttributeError, match=words):
        _ = booster.best_iteration


def test_labels_may_be_categorical(xgb):
    labels = pandas.Series((Y > 1).astype(int)).astype("category")
    model = xgb.XGBClassifier(n_estimators=2).fit(X, labels)
    np.testing.assert_array_equal(model.classes_, [0, 1])
    np.testing.assert_array_equal(xgb.DMatrix(X, labels).get_label(), Y > 1)


@pytest.mark.filterwarnings("ignore:Using the default parameters for the polars")
def test_lazy_frames_are_accepted(xgb):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [1.0, 2.0], "b": [3, 4]}).lazy()
    data = xgb.DMatrix(frame)
    assert data.feature_names == ["a", "b"] and data.num_row() == 2


def test_batches_with_a_cache_train_by_approx(xgb, tmp_path, monkeypatch):
    class Batches(xgb.DataIter):
        def __init__(self):
            super().__init__(cache_prefix=os.path.join(".", "cache"))
            self.number = 0

        def next(self, input_data):
            if self.number == 2:
                return False
            rows = slice(30 * self.number, 30 * self.number + 30)
            input_data(data=X[rows], label=Y[rows])
            self.number += 1
            return True

        def reset(self):
            self.number = 0

    monkeypatch.chdir(tmp_path)
    params = {"tree_method": "approx", "max_depth": 3}
    booster = xgb.train(params, xgb.DMatrix(Batches()), 2)
    alone = xgb.train(params, xgb.DMatrix(X, Y), 2)
    data = xgb.DMatrix(X)
    np.testing.assert_allclose(booster.predict(data), alone.predict(data), rtol=1e-5)


def test_label_bounds_that_are_not_set(xgb):
    data = xgb.DMatrix(np.arange(5.0).reshape(-1, 1))
    inf = np.inf
    data.set_float_info("label_lower_bound", np.array([10, 15, -inf, 30, 100]))
    data.set_float_info("label_upper_bound", np.array([inf, inf, 20, 50, inf]))
    result = {}
    params = {"objective": "survival:aft", "min_child_weight": 0, "max_depth": 2}
    xgb.train(
        params, data, 9, evals=[(data, "d")], evals_result=result, verbose_eval=False
    )
    losses = result["d"]["aft-nloglik"]
    assert np.isfinite(losses).all() and losses[-1] < losses[0]


def test_position_bias_is_in_the_configuration(xgb):
    ranker = xgb.XGBRanker(lambdarank_unbiased=True, n_estimators=2)
    ranker.fit(X, Y > 1.5, qid=np.repeat([0, 1], 30))
    told = json.loads(ranker.get_booster().save_config())["learner"]["objective"]
    for name in ("ti+", "tj-"):
        assert len(told[name]) == 32
        assert told[name][0] == 1
