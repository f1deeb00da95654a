"""Interventional SHAP values, against Shapley values by their definition."""

from __future__ import annotations

from dataclasses import replace

import naive
import numpy as np
import pytest
from kernel_calls import N_THREADS
from test_predict import CODES, FEATURES, TYPES, forest, in_type, random_rows
from test_predict import random_tree as bare_tree
from test_tree_shap_kernels import Table

from hornbeam.boosting.interventional_shap import (
    InterventionalShap,
    interventional_shap_values,
)
from hornbeam.forest.layout import Layout
from hornbeam.forest.tree_paths import TreePaths
from hornbeam.kernels.jit import COMPILED
from hornbeam.kernels.team import lease

ROWS, OTHERS = (8, 7) if COMPILED else (4, 5)
OTHERS_OF_CHAIN = 600 if COMPILED else 67
WAYS = [InterventionalShap.add_by_tables, InterventionalShap.add_by_lists]


def found_by(way, trees, outputs, rows, background, shares, threads=1):
    """Return SHAP values by a method of `InterventionalShap` for all trees."""
    layout = Layout.of(trees, outputs, rows.dtype, rows.shape[1])
    ways = TreePaths.of(trees, layout)
    n_outputs = trees[0].leaf_size if trees[0].leaf_size > 1 else max(outputs) + 1
    with lease(threads) as team:
        against = InterventionalShap(
            team, Table(rows), Table(background), shares, layout, ways, n_outputs
        )
        way(against, ways.trees)
    return against.found


def found(trees, outputs, rows, background, shares, start, threads=1):
    """Return contributions as the package computes them."""
    layout = Layout.of(trees, outputs, rows.dtype, rows.shape[1])
    with lease(threads) as team:
        return interventional_shap_values(
            team,
            Table(rows),
            Table(background),
            shares,
            layout,
            TreePaths.of(trees, layout),
            start,
        )


def drawn(rng, dtype, missing=0.2):
    """Return rows, a background, and its shares."""
    shares = rng.random(OTHERS)
    shares[::4] = 0.0
    rows = random_rows(rng, ROWS, dtype, missing)
    return rows, random_rows(rng, OTHERS, dtype, missing), shares / shares.sum()


def assert_as_defined(trees, outputs, rows, background, shares):
    """Compare with the definition, tree by tree and output by output."""
    n_outputs = max(outputs) + 1
    start = np.random.default_rng(1).normal(size=(len(rows), n_outputs))
    expected = np.zeros((len(rows), n_outputs, FEATURES + 1))
    expected[:, :, -1] = start
    for tree, output in zip(trees, outputs, strict=True):
        typed = in_type(tree, rows.dtype)
        for i, row in enumerate(rows):
            expected[i, output] += naive.shapley_values_against(
                typed, row, background, shares
            )
    whole = found(trees, outputs, rows, background, shares, start)
    np.testing.assert_allclose(whole, expected, rtol=0, atol=1e-12)
    for way in WAYS:
        own = found_by(way, trees, outputs, rows, background, shares)
        np.testing.assert_allclose(own, expected[:, :, :-1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("dtype", TYPES)
def test_trees_of_all_shapes(dtype, missing):
    rng = np.random.default_rng(0)
    assert_as_defined(forest(rng), [0, 1, 1, 0, 1], *drawn(rng, dtype, missing))


@pytest.mark.parametrize("dtype", TYPES)
def test_splits_by_category(dtype):
    rng = np.random.default_rng(2)
    trees = [bare_tree(rng, 12, categorical=[0, 2]), bare_tree(rng, 6)]
    rows, background, shares = drawn(rng, dtype)
    for table in (rows, background):
        for f in (0, 2):
            table[:, f] = rng.choice(np.array(CODES, dtype), len(table))
    assert_as_defined(trees, [0, 0], rows, background, shares)


def test_a_multi_output_tree_equals_one_tree_for_each_output():
    rng = np.random.default_rng(3)
    tree = bare_tree(rng, 9)
    values = np.where(tree.left[:, None] < 0, rng.normal(size=(19, 3)), 0)
    tree.value = values.astype(np.float32)
    rows, background, shares = drawn(rng, np.float32)
    for way in WAYS:
        whole = found_by(way, [tree], [0], rows, background, shares)
        for k in range(3):
            own = replace(tree, value=tree.value[:, k].copy())
            alone = found_by(way, [own], [0], rows, background, shares)
            np.testing.assert_array_equal(whole[:, k], alone[:, 0])


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("n", [30, 70] if COMPILED else [33])
def test_a_chain_of_more_features_than_tables_have(n, n_threads):
    rng = np.random.default_rng(7)
    tree = bare_tree(rng, n, deep=True)
    tree.feature[tree.left >= 0] = np.arange(n)
    tree.threshold[tree.left >= 0] = 0.5
    # Background rows in more than one word of bits.
    rows = rng.integers(2, size=(10, n)).astype(np.float32)
    background = rng.integers(2, size=(OTHERS_OF_CHAIN, n)).astype(np.float32)
    # At the end of the chain, the row follows every split.
    node = tree.n_nodes - 1
    while node != 0:
        parent = tree.parent[node]
        rows[0, tree.feature[parent]] = node == tree.right[parent]
        node = parent
    background[0] = 1 - rows[0]
    background[-1] = rows[0]
    shares = np.full(len(background), 1 / len(background))
    start = np.zeros((10, 1))
    whole = found([tree], [0], rows, background, shares, start, n_threads)
    lists = found_by(
        InterventionalShap.add_by_lists,
        [tree],
        [0],
        rows,
        background,
        shares,
        n_threads,
    )
    np.testing.assert_array_equal(whole[:, :, :-1], lists)
    one = found_by(
        InterventionalShap.add_by_lists,
        [tree],
        [0],
        rows[:1],
        background[:1],
        np.ones(1),
    )
    np.testing.assert_allclose(one[0, 0], naive_of_chain(tree, rows[0]), atol=1e-12)
    predicted = naive.predict_tree(tree, rows)
    np.testing.assert_allclose(whole[:, 0].sum(axis=1), predicted, atol=1e-12)
    mean = naive.predict_tree(tree, background).astype(np.float64).mean()
    np.testing.assert_allclose(whole[:, 0, -1], mean, atol=1e-12)


def naive_of_chain(tree, row):
    """Return contributions of the row at a chain's end against its opposite.

    The leaf that branches off the chain after d steps is reached by coalitions with the
    features of these steps and without that of the next; the last leaf, with all.
    """
    node, ways = tree.n_nodes - 1, []
    while node != 0:
        parent = tree.parent[node]
        twin = tree.left[parent] + tree.right[parent] - node
        ways.insert(0, (tree.feature[parent], tree.value[twin]))
        node = parent
    exact = np.full(row.size, float(tree.value[-1]) / row.size)
    for d, (feature, value) in enumerate(ways):
        exact[feature] -= float(value) / (d + 1)
        for inside, _ in ways[:d]:
            exact[inside] += float(value) / (d * (d + 1))
    return exact


@pytest.mark.parametrize("n_rows", [0, 1, 2, 700 if COMPILED else 3])
def test_a_row_does_not_depend_on_other_rows(n_rows):
    rng = np.random.default_rng(5)
    tree = bare_tree(rng, 3)
    rows = random_rows(rng, n_rows, np.float32)
    _, background, shares = drawn(rng, np.float32)
    start = np.zeros((n_rows, 1))
    whole = found([tree], [0], rows, background, shares, start)
    for i in range(0, n_rows, 111):
        alone = found([tree], [0], rows[i : i + 1], background, shares, start[:1])
        np.testing.assert_array_equal(whole[i], alone[0])
