"""Prediction with binned features, against a reference that routes row by row."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from kernel_calls import N_THREADS, call
from test_predict import FEATURES, TYPES, in_type, random_rows, random_tree

from hornbeam.boosting.margins import binned_scratch
from hornbeam.forest.layout import Layout
from hornbeam.kernels.binned_trees import (
    MOST_CUTS,
    MOST_SLOTS,
    Entries,
    add_binned_trees,
    add_binned_trees_to_entries,
)
from hornbeam.kernels.jit import COMPILED
from hornbeam.kernels.margins import TypedMargins
from hornbeam.kernels.row_sets import SET_ROWS

ROWS = 2 * SET_ROWS + 100 if COMPILED else 12


def margins_of(trees, outputs, rows, margins, n_threads=1):
    """Return margins with the trees added."""
    layout = Layout.of(trees, outputs, rows.dtype, FEATURES)
    binned, margins = layout.binned, margins.copy()
    call(
        add_binned_trees,
        rows,
        layout.roots,
        binned,
        layout.values,
        binned_scratch(binned, n_threads, rows.dtype),
        TypedMargins.of(margins),
        n_threads=n_threads,
    )
    return margins


def margins_of_entries(trees, outputs, rows, margins, n_threads=1):
    """Return margins with the trees added to the values that are not missing."""
    layout = Layout.of(trees, outputs, rows.dtype, FEATURES)
    margins = margins.copy()
    stored = ~np.isnan(rows)
    stored[::2] = True  # stored missing values
    call(
        add_binned_trees_to_entries,
        Entries(
            np.concatenate([[0], np.cumsum(stored.sum(axis=1))]),
            np.nonzero(stored)[1].astype(np.int32),
            rows[stored],
            layout.columns_of_features(FEATURES),
        ),
        layout.roots,
        layout.binned,
        layout.values,
        binned_scratch(layout.binned, n_threads, rows.dtype),
        TypedMargins.of(margins),
        n_threads=n_threads,
    )
    return margins


def forest(rng):
    """Return single-node, balanced and deep trees."""
    return [
        random_tree(rng, 0),
        random_tree(rng, 1),
        random_tree(rng, 40),
        random_tree(rng, 30, deep=True),
        random_tree(rng, 5),
    ]


def assert_like_naive(trees, outputs, rows, n_threads=1):
    margins = np.random.default_rng(1).normal(size=(len(rows), 2)).astype(rows.dtype)
    exact = margins.copy()
    for tree, output in zip(trees, outputs, strict=True):
        exact[:, output] += naive.predict_tree(in_type(tree, rows.dtype), rows)
    for add in (margins_of, margins_of_entries):
        found = add(trees, outputs, rows, margins, n_threads)
        np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("missing", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("dtype", TYPES)
def test_margins_are_summed_in_the_order_of_trees(dtype, missing, n_threads):
    rng = np.random.default_rng(0)
    rows = random_rows(rng, ROWS, dtype, missing)
    assert_like_naive(forest(rng), [0, 1, 1, 0, 1], rows, n_threads)


def test_infinite_values_follow_the_thresholds():
    rng = np.random.default_rng(0)
    rows = random_rows(rng, 8, np.float32)
    rows[:4] = np.inf
    rows[4:] = -np.inf
    assert_like_naive(forest(rng), [0, 1, 1, 0, 1], rows)


@pytest.mark.parametrize("scale", [1e-40, 1e-20, 1e20, 3e38])
def test_values_of_any_magnitude(scale):
    rng = np.random.default_rng(0)
    trees = forest(rng)
    for tree in trees:
        tree.threshold[:] = np.clip(tree.threshold, -1, 1) * scale
    rows = np.clip(random_rows(rng, ROWS, np.float32), -1, 1) * np.float32(scale)
    assert_like_naive(trees, [0, 1, 1, 0, 1], rows)


@pytest.mark.parametrize("cover", [0.0, np.nan, np.inf])
@pytest.mark.parametrize("deep", [False, True])
def test_trees_with_more_leaves_than_slots(deep, cover):
    rng = np.random.default_rng(0)
    large = random_tree(rng, 2 * MOST_SLOTS, deep)
    large.threshold[:] = large.threshold.round(0)  # few thresholds
    large.cover[::3] = cover
    binned = Layout.of([large], [0], np.float32, FEATURES).binned
    assert binned.trees["levels"][0] > 0
    rows = random_rows(rng, ROWS, np.float32)
    assert_like_naive([random_tree(rng, 9), large], [0, 0], rows)


def test_a_balanced_tree_has_one_move_per_split():
    tree, _ = bush(63)
    binned = Layout.of([tree], [0], np.float32, FEATURES).binned
    assert binned.trees["levels"].tolist() == [0]
    assert binned.moves.size == 63


def test_a_run_of_trees_ends_when_256_bins_are_used():
    rng = np.random.default_rng(0)
    trees = [random_tree(rng, 9) for _ in range(120 if COMPILED else 80)]
    for tree in trees:
        tree.feature[tree.left >= 0] = 2
        tree.threshold[tree.left >= 0] = rng.normal(size=9)
    binned = Layout.of(trees, [0] * len(trees), np.float32, FEATURES).binned
    assert binned.runs.size > 1
    assert binned.runs["begin"].tolist() == [0, *binned.runs["end"][:-1].tolist()]
    # Missing values go to either side in all runs.
    assert binned.columns.size == 2 * binned.runs.size
    assert binned.columns["steps"].max() <= 8
    rows = random_rows(rng, 40 if COMPILED else 4, np.float32)
    assert_like_naive(trees, [0] * len(trees), rows)


def bush(splits):
    """Return a tree of one feature with the least depth, and its inner nodes."""
    tree = random_tree(np.random.default_rng(0), splits)
    number = np.arange(tree.n_nodes, dtype=np.int32)
    inner = number < splits
    tree.left[:] = np.where(inner, 2 * number + 1, -1)
    tree.right[:] = np.where(inner, 2 * number + 2, -1)
    tree.parent[:] = (number - 1) // 2
    tree.value[:] = np.where(inner, 0, number)
    tree.feature[:], tree.default_left[:] = 0, inner
    tree.threshold[:] = np.where(inner, number, np.nan)
    return tree, np.flatnonzero(inner)


def test_the_most_thresholds_of_a_feature():
    tree, inner = bush(MOST_CUTS + 1)
    tree.threshold[inner[-1]] = 0.0  # one more threshold
    rows = np.zeros((2 * MOST_CUTS if COMPILED else 40, FEATURES), np.float32)
    rows[:, 0] = np.linspace(-1, MOST_CUTS + 1, len(rows)).round()
    rows[5, 0] = np.nan
    assert_like_naive([tree], [0], rows)
    tree.threshold[inner[-1]] = MOST_CUTS
    assert Layout.of([tree], [0], np.float32, FEATURES).binned is None


def test_trees_without_a_binned_layout():
    rng = np.random.default_rng(0)
    trees = [random_tree(rng, 3), random_tree(rng, 9, categorical=range(FEATURES))]
    assert Layout.of(trees, [0, 0], np.float32, FEATURES).binned is None
