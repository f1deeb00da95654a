"""Leaf values by line search: Friedman's gradient boosting."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from selection import REPEATS, half_slow
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.metrics import log_loss
from sklearn.tree import DecisionTreeRegressor

import hornbeam
from hornbeam import DMatrix

SEARCHED = {"leaf_solver": "line_search"}


def table(n_rows=600, n_columns=4, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
    signal = rows[:, 0] * rows[:, 1] + np.sin(3 * rows[:, 2])
    return rows, signal + 0.3 * rng.normal(size=n_rows)


# --- The textbook ---------------------------------------------------------------------


def best_split(x, r):
    """Return the reduction of the squared error of r, its column and its index."""
    best = (0.0, -1, math.nan)
    for feature, column in enumerate(x.T if r.size > 1 else ()):
        order = np.argsort(column)
        values, left = column[order], np.cumsum(r[order])
        count = np.arange(1, r.size)
        gain = left[:-1] ** 2 / count + (left[-1] - left[:-1]) ** 2 / (r.size - count)
        at = int(np.argmax(gain))
        gained = gain[at] - left[-1] ** 2 / r.size
        if gained > best[0]:
            best = gained, feature, (values[at] + values[at + 1]) / 2
    return best


def boost_residuals(x, y, rounds, rate, n_splits):
    """Return the margins of Friedman's LS_Boost (2001, algorithm 2), best-first.

    Also returns the column of each split.
    """
    margins, columns = np.full(y.size, y.mean()), []
    for _ in range(rounds):
        residuals = y - margins
        leaves = [np.arange(y.size)]
        for _ in range(n_splits):
            found = [best_split(x[own], residuals[own]) for own in leaves]
            leaf = max(range(len(leaves)), key=lambda i: found[i][0])
            _, feature, threshold = found[leaf]
            own = leaves.pop(leaf)
            is_left = x[own, feature] < threshold
            leaves += [own[is_left], own[~is_left]]
            columns.append(feature)
        for own in leaves:
            margins[own] += rate * residuals[own].mean()
    return margins, columns


@pytest.mark.parametrize("solver", [SEARCHED, {"reg_lambda": 0.0}])
@pytest.mark.parametrize("n_splits", [1, 2, 5])
def test_ls_boost_equals_friedmans_algorithm(n_splits, solver):
    x, y = table(200)
    margins, columns = boost_residuals(x.astype(np.float64), y, 12, 0.3, n_splits)
    params = {
        "tree_method": "exact",
        "grow_policy": "lossguide",
        "max_leaves": n_splits + 1,
        "max_depth": 1 if n_splits == 1 else 0,
        "learning_rate": 0.3,
        "min_child_weight": 0,
        **solver,
    }
    data = DMatrix(x, y)
    model = hornbeam.train(params, data, 12)
    np.testing.assert_allclose(model.predict(data), margins, rtol=1e-5, atol=1e-5)
    ours = [f for tree in model.model.trees for f in tree.feature[tree.left >= 0]]
    assert sorted(ours) == sorted(columns)


def sklearns(kind, loss, y, x):
    model = kind(loss=loss, n_estimators=60, min_samples_leaf=20, random_state=0)
    return model.fit(x, y)


#: Common parameters; small leaves would have ties between columns.
COMMON = {
    **SEARCHED,
    "min_samples_leaf": 20,
    "tree_method": "exact",
    "max_depth": 3,
    "learning_rate": 0.1,
    "min_child_weight": 0,
}


def test_regression_equals_scikit_learns():
    x, y = table(2000)
    train, test = slice(1000), slice(1000, 2000)
    theirs = sklearns(GradientBoostingRegressor, "squared_error", y[train], x[train])
    ours = hornbeam.train(COMMON, DMatrix(x[train], y[train]), 60)
    for part in (train, test):
        mine, other = ours.predict(DMatrix(x[part])), theirs.predict(x[part])
        np.testing.assert_allclose(mine, other, atol=2e-5)


def test_lad_treeboost_equals_friedmans_algorithm():
    """LAD_TreeBoost (Friedman 2001, algorithm 3): trees on signs, medians in leaves."""
    x, y = table(1000)
    margins = np.full(y.size, np.median(y))
    for _ in range(20):
        tree = DecisionTreeRegressor(max_depth=3, min_samples_leaf=20, random_state=0)
        leaves = tree.fit(x, np.sign(y - margins)).apply(x)
        for leaf in np.unique(leaves):
            own = leaves == leaf
            margins[own] += 0.1 * np.median((y - margins)[own])
    data = DMatrix(x, y)
    ours = hornbeam.train({**COMMON, "objective": "reg:absoluteerror"}, data, 20)
    np.testing.assert_allclose(ours.predict(data), margins, atol=1e-5)


@pytest.mark.parametrize("classes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_classification_is_not_worse_than_scikit_learns(classes):
    x, y = table(3000)
    labels = np.digitize(y, [0.0] if classes == 2 else [-0.4, 0.4])
    train, test = slice(1000), slice(1000, 3000)
    theirs = sklearns(GradientBoostingClassifier, "log_loss", labels[train], x[train])
    objective = {"objective": "binary:logistic"}
    if classes > 2:
        objective = {"objective": "multi:softprob", "num_class": classes}
    data = DMatrix(x[train], labels[train])
    ours = hornbeam.train({**COMMON, **objective}, data, 60)
    losses = {}
    for name, part in (("train", train), ("test", test)):
        mine, other = ours.predict(DMatrix(x[part])), theirs.predict_proba(x[part])
        losses[name] = log_loss(labels[part], mine), log_loss(labels[part], other)
    # One Newton step does not minimise the loss.
    assert losses["train"][0] < losses["train"][1]
    assert losses["test"][0] < 1.03 * losses["test"][1]


# --- The least loss -------------------------------------------------------------------


def softplus(m):
    return np.logaddexp(0.0, m)


def tweedie(m, y):
    return -y * np.exp(-0.5 * m) / -0.5 + np.exp(0.5 * m) / 0.5


#: By objective: the loss of margins and labels, the transform of labels, and whether
#: margins are logarithms.
LOSSES = {
    "reg:squarederror": (lambda m, y: (m - y) ** 2 / 2, np.asarray, False),
    "reg:absoluteerror": (lambda m, y: np.abs(m - y), np.asarray, False),
    "reg:quantileerror": (
        lambda m, y: np.maximum(0.7 * (m - y), 0.3 * (y - m)),
        np.asarray,
        False,
    ),
    "reg:pseudohubererror": (
        lambda m, y: np.sqrt(1 + (m - y) ** 2) - 1,
        np.asarray,
        False,
    ),
    "reg:squaredlogerror": (
        lambda m, y: (np.log(np.maximum(m + 1, 1e-6)) - np.log1p(y)) ** 2 / 2,
        np.abs,
        False,
    ),
    "binary:logistic": (lambda m, y: softplus(m) - y * m, lambda y: y > 0, True),
    "binary:hinge": (
        lambda m, y: np.maximum(0, 1 - np.where(y, m, -m)),
        lambda y: y > 0,
        False,
    ),
    "count:poisson": (
        lambda m, y: np.exp(m) - y * m,
        lambda y: np.floor(3 * np.abs(y)),
        True,
    ),
    "reg:gamma": (lambda m, y: y * np.exp(-m) + m, lambda y: np.abs(y) + 0.01, True),
    "reg:tweedie": (tweedie, lambda y: np.floor(2 * np.abs(y)), True),
}
#: The maximum change of a logarithmic margin by a leaf.
REACH = 2.0


@examples(60)
@given(
    objective=st.sampled_from([*LOSSES]),
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(30, 300),
    weighted=st.booleans(),
    share=st.sampled_from([1.0, 0.6]),
    rate=st.sampled_from([0.2, 1.0]),
)
def test_leaf_values_minimise_the_loss(objective, seed, n_rows, weighted, share, rate):
    loss, label, in_logarithms = LOSSES[objective]
    x, y = table(n_rows, seed=seed)
    y = np.asarray(label(y), float)
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 3, n_rows) if weighted else None
    data = DMatrix(x, y, weight=weights)
    params = {
        **SEARCHED,
        "objective": objective,
        "quantile_alpha": 0.3,
        "max_depth": 2,
        "learning_rate": rate,
        "subsample": share,
        "base_score": 0.4,
        "min_child_weight": 0,
    }
    if objective != "reg:quantileerror":
        del params["quantile_alpha"]
    model = hornbeam.train(params, data, 2)
    before = model.predict(data, output_margin=True, iteration_range=(0, 1))
    leaves = model.predict(data, pred_leaf=True)[:, 1].astype(int)
    tree = model.model.trees[1]
    drawn = rows_drawn(model, 1, n_rows, share)
    for leaf in np.unique(leaves[drawn]):
        own = drawn & (leaves == leaf)
        found = float(tree.value[leaf]) / rate

        def total(step, own=own):
            each = loss(before[own].astype(float) + step, y[own])
            return float(
                np.dot(each, np.ones(own.sum()) if weights is None else weights[own])
            )

        if in_logarithms:
            assert abs(found) <= REACH * (1 + 1e-6)
        least = total(found)
        for other in found + np.array([-0.1, -1e-3, 1e-3, 0.1]):
            if not in_logarithms or abs(other) < REACH:
                assert least <= total(other) + 1e-5 * abs(least) + 1e-6


def rows_drawn(model, tree, n_rows, share):
    """Return the rows of the uniform sample of a tree."""
    from hornbeam.kernels.sampling import DrawKey, draw_rows
    from hornbeam.kernels.team import Team

    taken = np.ones(n_rows, np.uint8)
    if share < 1.0:
        key = DrawKey(np.uint64(tree), np.uint64(0), np.uint64(model.params.seed))
        Team(1).run(draw_rows, 1, 0, int(share * 2.0**32), key, taken)
    return taken != 0


def test_multiclass_searches_fix_the_other_margins():
    x, y = table(400)
    labels = np.digitize(y, [-0.4, 0.4])
    data = DMatrix(x, labels)
    params = {"objective": "multi:softprob", "num_class": 3, "learning_rate": 1.0}
    model = hornbeam.train({**SEARCHED, **params, "max_depth": 2}, data, 2)
    before = model.predict(data, output_margin=True, iteration_range=(0, 1))
    leaves = model.predict(data, pred_leaf=True).astype(int)

    def total(k, own, step):
        margins = before[own].astype(float)
        margins[:, k] += step
        chosen = margins[np.arange(own.sum()), labels[own]]
        return float((np.logaddexp.reduce(margins, axis=1) - chosen).sum())

    for k in range(3):
        tree = model.model.trees[3 + k]
        for leaf in np.unique(leaves[:, 3 + k]):
            own = leaves[:, 3 + k] == leaf
            found = float(tree.value[leaf])
            others = [v for v in (found - 0.01, found + 0.01) if abs(v) < REACH]
            assert all(total(k, own, found) <= total(k, own, v) for v in others)


def test_max_delta_step_limits_the_search():
    x, y = table()
    data = DMatrix(x, y * 50)
    params = {**SEARCHED, "max_delta_step": 3.0, "learning_rate": 1.0}
    tree = hornbeam.train(params, data, 1).model.trees[0]
    values = tree.value[tree.left < 0]
    assert np.abs(values).max() == 3.0
    # It limits leaf values only, not splits.
    free = hornbeam.train({**params, "max_delta_step": 0}, data, 1).model.trees[0]
    np.testing.assert_array_equal(tree.threshold, free.threshold)
    np.testing.assert_allclose(values, np.clip(free.value[free.left < 0], -3, 3))


class Absolute:
    """Smoothed |m - y| as a compiled custom objective."""

    def gradient(self, y, m):
        return (m - y) / math.sqrt(1.0 + (m - y) ** 2)

    def hessian(self, y, m):
        return 1.0 / math.sqrt(1.0 + (m - y) ** 2)

    exact_hessian = False


def test_external_memory_is_not_supported(tmp_path):
    x, y = table()
    data = DMatrix(x, y, cache=tmp_path)
    with pytest.raises(hornbeam.DataError, match="all rows in memory, and this matrix"):
        hornbeam.train(SEARCHED, data, 1)


@pytest.mark.jit
def test_compiled_custom_objectives_are_supported():
    x, y = table()
    data = DMatrix(x, y)
    params = {**SEARCHED, "base_score": 0.0}
    ours = hornbeam.train(params, data, 5, obj=Absolute())
    named = hornbeam.train({**params, "objective": "reg:pseudohubererror"}, data, 5)
    margins = named.predict(data, output_margin=True)
    np.testing.assert_allclose(ours.predict(data), margins, rtol=1e-4, atol=1e-5)


# --- The same bits --------------------------------------------------------------------

WAYS = {
    "mean": {"objective": "reg:squarederror", "tree_method": "approx"},
    "median": {"objective": "reg:absoluteerror", "tree_method": "exact"},
    "levels": {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.7]},
    "logistic": {"objective": "binary:logistic", "scale_pos_weight": 2.0},
    "classes": {"objective": "multi:softprob", "num_class": 3},
    "hinge": {"objective": "binary:hinge"},
    "counts": {"objective": "count:poisson", "num_parallel_tree": 2},
    "amounts": {"objective": "reg:tweedie", "booster": "dart", "rate_drop": 0.5},
    "sparse": {"objective": "binary:focal"},
}


@pytest.mark.parametrize("way", half_slow(WAYS))
@pytest.mark.parametrize("weighted", [pytest.param(False, marks=REPEATS), True])
def test_the_model_does_not_depend_on_the_number_of_threads(
    way, weighted, thread_counts
):
    n_rows = 30_000
    x, y = table(n_rows)
    objective = WAYS[way]["objective"]
    labels = np.digitize(y, [-0.4, 0.4]) if way == "classes" else y
    if objective.startswith(("count", "reg:tweedie")):
        labels = np.floor(np.abs(y) * 3)
    elif objective.startswith("binary"):
        labels = y > 0
    if way == "sparse":
        x = np.where(np.random.default_rng(1).random(x.shape) < 0.97, np.nan, x)
        here = np.nonzero(~np.isnan(x))
        x = scipy.sparse.csr_matrix((x[here], here), shape=x.shape)
    weights = np.random.default_rng(2).uniform(0.5, 2, n_rows) if weighted else None
    data = DMatrix(x, labels, weight=weights)
    params = {**SEARCHED, **WAYS[way], "subsample": 0.7, "max_depth": 4}
    models = [
        hornbeam.train({**params, "nthread": threads}, data, 3)
        for threads in thread_counts
    ]
    digests = {model.digest() for model in models}
    begun = hornbeam.train(params, data, 1)
    digests.add(hornbeam.train(params, data, 2, xgb_model=begun).digest())
    assert len(digests) == 1
    assert all(tree.n_leaves > 1 for tree in models[0].model.trees)


def test_newton_steps_continue_a_line_search_model():
    x, y = table()
    data = DMatrix(x, y > 0)
    begun = hornbeam.train({**SEARCHED, "objective": "binary:logistic"}, data, 2)
    again = hornbeam.Booster(model_file=begun.save_raw())
    np.testing.assert_array_equal(begun.predict(data), again.predict(data))
    more = hornbeam.train({"objective": "binary:logistic"}, data, 2, xgb_model=begun)
    assert more.num_boosted_rounds() == 4
