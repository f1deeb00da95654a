"""Sums of leaf values in float32: models that go on from margins, and their scores."""

from __future__ import annotations

import numpy as np
import pytest
from comparison import both, ours

import hornbeam

RNG = np.random.default_rng(11)
X = RNG.normal(size=(150, 6))
#: Three targets, the last one far from 0.
Y = X[:, :3] * X[:, 3:] * 40 + np.array([0.0, 60.0, 900.0])
VECTORS = {"multi_strategy": "multi_output_tree"}
KINDS = {
    "hist": {},
    "approx": {"tree_method": "approx"},
    "exact": {"tree_method": "exact"},
    "vector leaves": VECTORS,
    "parallel trees": {"num_parallel_tree": 2},
    "no base score": {"base_score": 0.0},
}


def margins_of(booster, xgb, start=None):
    return booster.predict(xgb.DMatrix(X, base_margin=start), output_margin=True)


@pytest.mark.parametrize("kind", KINDS)
def test_going_on_from_margins_equals_training_in_one_go(kind):
    def run(xgb):
        def train(rounds, start=None):
            data = xgb.DMatrix(X, Y, base_margin=start)
            return xgb.train({"max_depth": 3, **KINDS[kind]}, data, rounds)

        start = margins_of(train(4), xgb)
        whole = margins_of(train(8), xgb)
        return whole, margins_of(train(4, start), xgb, start)

    mine, other = both(run)
    np.testing.assert_array_equal(*mine)
    np.testing.assert_array_equal(*other)


class Batches(ours.DataIter):
    """The rows in three parts."""

    def __init__(self, cache):
        super().__init__(cache_prefix=cache)
        self.reset()

    def next(self, input_data):
        if self.number == 3:
            return False
        rows = slice(50 * self.number, 50 * (self.number + 1))
        input_data(data=X[rows], label=Y[rows])
        self.number += 1
        return True

    def reset(self):
        self.number = 0


class Squares(ours.objective.TreeObjective):
    """The squared error, with its own gradients or their means for the splits."""

    def __init__(self, reduce):
        self.reduce = reduce

    def __call__(self, iteration, y_pred, dtrain):
        grad = y_pred - dtrain.get_label().reshape(y_pred.shape)
        return grad, np.ones_like(grad)

    def split_grad(self, iteration, grad, hess):
        return (grad.mean(axis=1), hess.mean(axis=1)) if self.reduce else (grad, hess)


@pytest.mark.parametrize("params", [{}, VECTORS], ids=["scalar", "vector"])
def test_all_ways_to_the_same_gradients_give_the_same_model(params, tmp_path):
    given = {"max_depth": 4, "learning_rate": 1.0, "base_score": [0.5] * 3, **params}
    data = ours.DMatrix(X, Y)
    booster = ours.train(given, data, 5)
    for threads in (2, 3, 7):
        again = ours.train({**given, "nthread": threads}, data, 5)
        assert again.digest() == booster.digest()
    paged = ours.ExtMemQuantileDMatrix(Batches(str(tmp_path / "cache")))
    assert ours.train(given, paged, 5).digest() == booster.digest()
    margins = margins_of(booster, ours)
    for matrix in (data, paged):
        found = ours.train(given, matrix, 5, obj=Squares(reduce=False))
        np.testing.assert_array_equal(margins_of(found, ours), margins)


def test_going_on_with_reduced_gradients():
    def train(rounds, start=None):
        data = ours.DMatrix(X, Y, base_margin=start)
        params = {"max_depth": 3, "base_score": 0.0, **VECTORS}
        return ours.train(params, data, rounds, obj=Squares(reduce=True))

    start = margins_of(train(3), ours)
    found = margins_of(train(3, start), ours, start)
    np.testing.assert_array_equal(found, margins_of(train(6), ours))


@pytest.mark.parametrize("tree_method", ["hist", "approx", "exact"])
@pytest.mark.parametrize("levels", [0.3, [0.25, 0.5, 0.75]], ids=str)
def test_the_quantile_metric_is_that_of_the_predictions(tree_method, levels):
    pinball = pytest.importorskip("sklearn.metrics").mean_pinball_loss
    objective = "reg:quantileerror" if isinstance(levels, list) else "reg:squarederror"
    params = {
        "objective": objective,
        "quantile_alpha": levels,
        "eval_metric": "quantile",
    }
    label = Y[:, 1]

    def run(xgb):
        data, held_out = xgb.DMatrix(X, label), xgb.DMatrix(X[:40], label[:40])
        log, evals = {}, [(data, "a"), (held_out, "b")]
        booster = xgb.train(
            {"tree_method": tree_method, **params}, data, evals=evals, evals_result=log,
            verbose_eval=False,
        )  # fmt: skip
        for name, rows in (("a", slice(None)), ("b", slice(40))):
            found = booster.inplace_predict(X[rows]).reshape(len(label[rows]), -1)
            losses = [
                pinball(label[rows], column, alpha=level)
                for column, level in zip(found.T, np.atleast_1d(levels), strict=True)
            ]
            np.testing.assert_allclose(log[name]["quantile"][-1], np.mean(losses), 1e-7)

    both(run)


@pytest.mark.parametrize("booster", ["gbtree", "dart", "gblinear"])
def test_sums_in_float64_give_the_model_of_hornbeam(booster):
    params = {"booster": booster, "margin_type": "float64"}
    found = ours.train(params, ours.DMatrix(X, Y), 3)
    own = hornbeam.train({"booster": booster}, hornbeam.DMatrix(X, Y), 3)
    assert found.digest() == own.digest()


def test_labels_beyond_float32_are_an_error():
    labels = Y[:, 0].copy()
    labels[7] = 1e39

    def run(xgb):
        with pytest.raises(ValueError, match="Label contains NaN, infinity or a value"):
            xgb.train({}, xgb.DMatrix(X, labels), 1)

    both(run)
    with pytest.raises(ValueError, match=r"label 1e\+39 in row 7 is beyond .* float32"):
        ours.train({}, ours.DMatrix(X, labels), 1)
