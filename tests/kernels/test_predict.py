"""Prediction, against a reference that routes one row down one tree."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import naive
import numpy as np
import pytest
from kernel_calls import N_THREADS, call

from hornbeam.forest.layout import Layout
from hornbeam.forest.tree import Tree
from hornbeam.kernels.jit import COMPILED
from hornbeam.kernels.margins import TypedMargins
from hornbeam.kernels.predict import (
    MOST_LEVELS,
    PREDICT_ROWS,
    DescentScratch,
    add_trees,
    add_trees_to_few,
    find_leaves,
)

TYPES = [np.float32, np.float64]
FEATURES = 4


def random_tree(rng, splits, deep=False, categorical=()):
    """Return a tree of random splits; a deep one splits one leaf after the other.

    Splits on the features in `categorical` are by category, of 0 to 80.
    """
    n_nodes = 2 * splits + 1
    left = np.full(n_nodes, -1, np.int32)
    parent = np.full(n_nodes, -1, np.int32)
    leaves = [0]
    for number in range(1, n_nodes, 2):
        node = leaves.pop(-1 if deep else int(rng.integers(len(leaves))))
        left[node] = number
        parent[[number, number + 1]] = node
        leaves += [number, number + 1]
    is_leaf = left < 0
    feature = np.where(is_leaf, 0, rng.integers(0, FEATURES, n_nodes))
    by_category = ~is_leaf & np.isin(feature, list(categorical))
    rights = rng.random((n_nodes, 80)) < rng.choice([0.0, 0.1, 0.6], (n_nodes, 1))
    rights[~by_category] = False
    threshold = np.where(is_leaf, np.nan, rng.normal(size=n_nodes).round(1))
    return Tree(
        left=left,
        right=np.where(is_leaf, -1, left + 1).astype(np.int32),
        parent=parent,
        feature=feature.astype(np.int32),
        threshold=np.where(by_category, np.nan, threshold),
        default_left=np.where(is_leaf, 0, rng.integers(0, 2, n_nodes)).astype(np.uint8),
        split_type=by_category.astype(np.uint8),
        category_counts=np.count_nonzero(rights, axis=1).astype(np.int64),
        categories=np.nonzero(rights)[1].astype(np.int32),
        value=np.where(is_leaf, rng.normal(size=n_nodes), 0).astype(np.float32),
        gain=np.zeros(n_nodes, np.float32),
        cover=np.ones(n_nodes, np.float32),
        weight=np.zeros(n_nodes, np.float32),
    )


def random_rows(rng, n_rows, dtype, missing=0.2):
    """Return rows, many of whose values equal thresholds."""
    rows = rng.normal(size=(n_rows, FEATURES)).round(1).astype(dtype)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows


def forest(rng):
    """Return trees of all shapes: single nodes, balanced ones, a chain of 20 levels."""
    return [
        random_tree(rng, 0),
        random_tree(rng, 1),
        random_tree(rng, 9),
        random_tree(rng, 20, deep=True),
        random_tree(rng, 5),
    ]


def in_type(tree, dtype):
    """Return the tree with its thresholds in the type of the rows."""
    return replace(tree, threshold=tree.threshold.astype(dtype))


def margins_of(trees, outputs, rows, margins, n_threads=1, rows_together=PREDICT_ROWS):
    """Return margins with the trees added."""
    layout = Layout.of(trees, outputs, rows.dtype, FEATURES)
    margins = margins.copy()
    call(
        add_trees,
        rows,
        layout.roots,
        layout.packed,
        layout.values,
        DescentScratch.of(n_threads, rows_together),
        TypedMargins.of(margins),
        n_threads=n_threads,
    )
    return margins


def margins_of_few(trees, outputs, rows, margins, at_once):
    """Return margins with the trees added, `at_once` together."""
    layout = Layout.of(trees, outputs, rows.dtype, FEATURES)
    margins = margins.copy()
    places = np.empty(at_once, np.int32)
    add_trees_to_few(rows, *layout.arrays, places, margins)
    return margins


def leaves_of(trees, rows, n_threads=1):
    """Return the index of the leaf of each row in each tree."""
    layout = Layout.of(trees, [0] * len(trees), rows.dtype, FEATURES)
    leaves = np.full((len(rows), len(trees)), -1, np.float32)
    call(
        find_leaves,
        rows,
        layout.roots,
        layout.packed,
        layout.numbers,
        DescentScratch.of(n_threads, PREDICT_ROWS),
        leaves,
        n_threads=n_threads,
    )
    return leaves


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("missing", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("dtype", TYPES)
def test_margins_are_summed_in_the_order_of_trees(dtype, missing, n_threads):
    rng = np.random.default_rng(0)
    trees, outputs = forest(rng), [0, 1, 1, 0, 1]
    rows = random_rows(rng, 300 if COMPILED else 70, dtype, missing)
    margins = rng.normal(size=(len(rows), 2)).astype(dtype)
    exact = margins.copy()
    for tree, output in zip(trees, outputs, strict=True):
        exact[:, output] += naive.predict_tree(in_type(tree, dtype), rows)
    found = margins_of(trees, outputs, rows, margins, n_threads)
    np.testing.assert_array_equal(found, exact)
    for at_once in (1, 2, 8):
        few = margins_of_few(trees, outputs, rows[:9], margins[:9], at_once)
        np.testing.assert_array_equal(few, exact[:9])


@cache
def deep_case(missing, dtype):
    """Return trees, the second and the last of which are large, rows, and margins."""
    rng = np.random.default_rng(0)
    large = random_tree(rng, 1 << 13)
    assert large.depth() > MOST_LEVELS
    small, deep = random_tree(rng, 9), random_tree(rng, 20, deep=True)
    rows = random_rows(rng, 5000, dtype, missing)
    of_small, of_large, of_deep = (
        naive.predict_tree(in_type(tree, dtype), rows) for tree in (small, large, deep)
    )
    exact = np.zeros((len(rows), 1), dtype)
    for values in (of_small, of_large, of_deep, of_large):
        exact[:, 0] += values
    return [small, large, deep, large], rows, exact


@pytest.mark.skipif(not COMPILED, reason="too many rows for plain Python")
@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_large_deep_trees_group_their_rows(missing, dtype, n_threads):
    trees, rows, exact = deep_case(missing, dtype)
    start = np.zeros_like(exact)
    found = margins_of(trees, [0] * 4, rows, start, n_threads, rows_together=2000)
    np.testing.assert_array_equal(found, exact)


def test_a_tree_whose_children_precede_their_parents():
    rng = np.random.default_rng(0)
    tree = random_tree(rng, 30)
    number = np.concatenate([[0], np.arange(tree.n_nodes - 2, 0, -2)])
    order = np.concatenate([[0], np.stack([number[1:], number[1:] + 1], 1).ravel()])
    place = np.argsort(order)
    moved = {
        name: getattr(tree, name)[order].copy()
        for name in ("feature", "threshold", "default_left", "value")
    }
    for name in ("left", "right", "parent"):
        links = getattr(tree, name)[order]
        moved[name] = np.where(links < 0, -1, place[links]).astype(np.int32)
    mixed = replace(tree, **moved)
    assert (mixed.left[mixed.left >= 0] < np.flatnonzero(mixed.left >= 0)).any()
    layout = Layout.of([mixed], [0], np.float32, FEATURES)
    assert layout.roots[0, 1] == tree.depth()
    rows = random_rows(rng, 100, np.float32)
    found = margins_of([mixed], [0], rows, np.zeros((100, 1), np.float32))
    exact = naive.predict_tree(in_type(tree, np.float32), rows)
    np.testing.assert_array_equal(found[:, 0], exact)


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("dtype", TYPES)
def test_leaves(dtype, n_threads):
    rng = np.random.default_rng(0)
    trees = forest(rng)
    rows = random_rows(rng, 300 if COMPILED else 70, dtype)
    typed = [in_type(tree, dtype) for tree in trees]
    exact = [[naive.leaf_of(tree, row) for tree in typed] for row in rows]
    np.testing.assert_array_equal(leaves_of(trees, rows, n_threads), exact)


@pytest.mark.parametrize("n_rows", [0, 1, PREDICT_ROWS - 1, PREDICT_ROWS, 65, 128])
def test_numbers_of_rows(n_rows):
    rng = np.random.default_rng(n_rows)
    trees = [random_tree(rng, 4)]
    rows = random_rows(rng, n_rows, np.float32)
    found = margins_of(trees, [0], rows, np.zeros((n_rows, 1), np.float32))
    exact = naive.predict_tree(in_type(trees[0], np.float32), rows)
    np.testing.assert_array_equal(found[:, 0], exact.reshape(n_rows))


def test_a_float32_copy_of_a_threshold_goes_right_like_the_threshold():
    tree = random_tree(np.random.default_rng(0), 1)
    tree.feature[0] = 0
    for threshold in (0.1, 0.3):  # the nearest float32 lies above, and below
        tree.threshold[0] = threshold
        copy = np.float32(threshold)
        rows = np.zeros((3, FEATURES), np.float32)
        rows[:, 0] = np.nextafter(copy, np.float32(-1)), copy, np.float32(1)
        assert leaves_of([tree], rows)[:, 0].tolist() == [1, 2, 2]
        exact = np.array([[np.nextafter(threshold, 0), 0, 0, 0], [threshold, 0, 0, 0]])
        assert leaves_of([tree], exact)[:, 0].tolist() == [1, 2]


def test_infinite_values_follow_the_thresholds():
    tree = random_tree(np.random.default_rng(0), 1)
    tree.feature[0] = 2
    rows = np.zeros((2, FEATURES), np.float32)
    rows[:, 2] = -np.inf, np.inf
    assert leaves_of([tree], rows)[:, 0].tolist() == [1, 2]


#: Valid categories, and values that are not.
CODES = [0, 1, 2.5, 63, 63.9, 64, 79, 80, 81, 1e6, 1e20, -1, -0.5, -0.0, np.nan]


@pytest.mark.parametrize("categorical", [[0], [1, 3], range(FEATURES)], ids=str)
@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("dtype", TYPES)
def test_trees_with_splits_by_category(dtype, n_threads, categorical):
    rng = np.random.default_rng(len(categorical))
    trees = [
        random_tree(rng, 9),
        random_tree(rng, 9, categorical=categorical),
        random_tree(rng, 20, deep=True, categorical=categorical),
        random_tree(rng, 40, categorical=categorical),
    ]
    rows = random_rows(rng, 300 if COMPILED else 70, dtype)
    for f in categorical:
        rows[:, f] = rng.choice(np.array(CODES, dtype), len(rows))
        rows[::3, f] = rng.integers(0, 80, len(rows[::3]))
    typed = [in_type(tree, dtype) for tree in trees]
    exact = [[naive.leaf_of(tree, row) for tree in typed] for row in rows]
    np.testing.assert_array_equal(leaves_of(trees, rows, n_threads), exact)
    margins = np.zeros((len(rows), 1), dtype)
    summed = margins.copy()
    for tree in typed:
        summed[:, 0] += naive.predict_tree(tree, rows)
    found = margins_of(trees, [0] * 4, rows, margins, n_threads)
    np.testing.assert_array_equal(found, summed)
    few = margins_of_few(trees, [0] * 4, rows[:9], margins[:9], 3)
    np.testing.assert_array_equal(few, summed[:9])


def test_the_layout_of_wide_rows_has_only_used_features():
    rng = np.random.default_rng(0)
    tree = random_tree(rng, 9, categorical=[1])
    wide = replace(tree, feature=tree.feature * 40)
    assert Layout.of([tree], [0], np.float32, 63).features is None
    assert Layout.of([wide], [0], np.float32, 4 * 63).features is not None
    layout = Layout.of([wide], [0], np.float32, 161)
    inner = tree.left >= 0
    assert layout.features.tolist() == sorted(set(wide.feature[inner].tolist()))
    whole = Layout.of([wide], [0], np.float32, 5)
    assert whole.features is None
    feature = (layout.nodes & np.uint64((1 << 31) - 1)).astype(int)
    np.testing.assert_array_equal(layout.features[feature[inner]], wide.feature[inner])
    np.testing.assert_array_equal(layout.nodes >> 31, whole.nodes >> 31)
