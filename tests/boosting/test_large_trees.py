"""Prediction of many rows by large trees, which are laid out one by one."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import hornbeam
from hornbeam.boosting import margins as tree_margins
from hornbeam.kernels.jit import COMPILED

pytestmark = pytest.mark.skipif(not COMPILED, reason="too many rows for plain Python")

ROWS, FEATURES = 24_000, 5
#: Fewer rows descend trees that are laid out together.
FEW = 1_500
assert FEW < tree_margins.MANY_ROWS < ROWS


def rows_and_classes(missing=0.0, dtype=np.float32):
    """Return rows, and classes that they say nothing about, so that trees are large."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(ROWS, FEATURES)).astype(dtype)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows, rng.integers(0, 3, ROWS)


def forest(kind, rows, labels, trees=3):
    """Return a booster of trees that are grown until leaves are pure."""
    return kind(trees, n_jobs=1, random_state=0).fit(rows, labels).get_booster()


def sums_of_leaves(booster, rows, first=0):
    """Return margins by the leaves of rows, added in the trees' order."""
    model = booster.model
    leaves = booster.predict(hornbeam.DMatrix(rows), pred_leaf=True).astype(int)
    sums = np.empty((len(rows), model.n_outputs), np.float32)
    sums[:] = model.base_score
    for t in range(first, len(model.trees)):
        values = model.trees[t].value * model.weights[t]
        if values.ndim == 1:
            sums[:, model.tree_output[t]] += values[leaves[:, t]]
        else:
            sums += values[leaves[:, t]]
    return sums


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "kind", [hornbeam.RandomForestClassifier, hornbeam.RandomForestRegressor]
)
def test_a_forest_adds_the_leaf_values_of_each_tree(kind, dtype, missing):
    rows, labels = rows_and_classes(missing, dtype)
    booster = forest(kind, rows, labels)
    assert min(tree.n_nodes for tree in booster.model.trees) > tree_margins._LARGE_TREE
    exact = sums_of_leaves(booster, rows)
    few = [booster.inplace_predict(rows[i : i + FEW]) for i in range(0, ROWS, FEW)]
    np.testing.assert_array_equal(np.concatenate(few), exact.squeeze())
    # Each thread gets more rows than a tree has nodes.
    many, exact = np.tile(rows, (7, 1)), np.tile(exact, (7, 1))
    for threads in (1, 2, 3, 7):
        booster.set_param("nthread", threads)
        for found in (
            booster.inplace_predict(many),
            booster.predict(hornbeam.DMatrix(many)),
        ):
            np.testing.assert_array_equal(found, exact.squeeze())


def test_so_many_rows_that_trees_are_laid_out_several_times(monkeypatch):
    rows, labels = rows_and_classes()
    booster = forest(hornbeam.RandomForestClassifier, rows, labels)
    monkeypatch.setattr(tree_margins, "_ROWS_OF_PASS", 1)
    many = np.tile(rows, (5, 1))  # more than twice the nodes of a tree, twice
    start = np.random.default_rng(1).normal(size=(len(many), 3)).astype(np.float32)
    found = booster.inplace_predict(many, base_margin=start, predict_type="margin")
    exact = start.copy()
    for tree in booster.model.trees:
        leaves = tree_leaves(tree, rows)
        exact += tree.value[np.tile(leaves, 5)]
    np.testing.assert_array_equal(found, exact)


def tree_leaves(tree, rows):
    """Return the leaf of each row, level by level."""
    node = np.zeros(len(rows), np.int64)
    for _ in range(tree.depth()):
        values = rows[np.arange(len(rows)), tree.feature[node]]
        right = values >= tree.threshold[node].astype(rows.dtype)
        node = np.where(tree.left[node] < 0, node, tree.left[node] + right)
    return node


def test_weights_and_outputs_of_trees_and_ranges_of_rounds():
    rows, labels = rows_and_classes()
    params = {
        "booster": "dart",
        "objective": "multi:softprob",
        "num_class": 3,
        "rate_drop": 0.5,
        "max_depth": 20,
        "min_child_weight": 0,
        "reg_lambda": 0,
        "nthread": 1,
        "seed": 3,
    }
    booster = hornbeam.train(params, hornbeam.DMatrix(rows, labels), 3)
    model = booster.model
    sizes = [tree.n_nodes for tree in model.trees]
    assert np.mean(sizes) > tree_margins._LARGE_TREE
    assert len(set(model.weights.tolist())) > 1
    for first in (0, 1):
        found = booster.inplace_predict(
            rows, predict_type="margin", iteration_range=(first, 3)
        )
        exact = sums_of_leaves(booster, rows, first=3 * first)
        np.testing.assert_array_equal(found, exact)


def test_the_layout_of_a_forest_takes_little_memory():
    rows, labels = rows_and_classes()
    booster = forest(hornbeam.RandomForestClassifier, rows, labels, trees=12)
    trees = sum(t.left.nbytes + t.value.nbytes for t in booster.model.trees)
    tracemalloc.start()
    try:
        found = booster.inplace_predict(rows)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most - found.nbytes < 0.5 * trees, (most, trees)
