"""SHAP values and interactions, against Shapley values by their definition."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import naive
import numpy as np
import pytest
from test_predict import CODES, FEATURES, TYPES, forest, in_type, random_rows
from test_predict import random_tree as bare_tree

from hornbeam.boosting.tree_shap import tree_shap_values
from hornbeam.forest.layout import Layout
from hornbeam.forest.tree import deleted_nodes
from hornbeam.forest.tree_paths import TreePaths
from hornbeam.kernels.jit import COMPILED
from hornbeam.kernels.team import lease

ROWS = 12 if COMPILED else 8
KINDS = {
    "features": {},
    "pairs": {"interactions": True},
    "steps": {"approximate": True},
}


def covered(rng, tree, empty=0.2):
    """Give a tree consistent covers; some leaves have no rows."""
    cover = np.where(tree.left < 0, rng.random(tree.n_nodes), 0.0)
    cover[rng.random(tree.n_nodes) < empty] = 0.0
    for node in range(tree.n_nodes - 1, 0, -1):
        cover[tree.parent[node]] += cover[node]
    tree.cover = cover.astype(np.float32)
    return tree


class Table:
    """Rows in memory, with the interface of a matrix."""

    def __init__(self, rows):
        self.n_rows, self.n_features = rows.shape
        self.dtype = rows.dtype
        self.array = rows

    def rows(self, start, stop, features=None):
        block = self.array[start:stop]
        return block if features is None else block[:, features]


def found_by(trees, outputs, rows, start, **kind):
    layout = Layout.of(trees, outputs, rows.dtype, rows.shape[1])
    with lease(1) as team:
        return tree_shap_values(
            team,
            Table(rows),
            layout,
            TreePaths.of(trees, layout),
            start,
            np.float64,
            **kind,
        )


def expected_of(tree, row, kind):
    if kind == "steps":
        return naive.steps(tree, row)
    return naive.shapley_values(tree, row)[kind == "pairs"]


def assert_as_defined(trees, outputs, rows, kind):
    """Compare with the definition, tree by tree and output by output."""
    n_outputs = max(outputs) + 1
    start = np.random.default_rng(1).normal(size=(len(rows), n_outputs))
    found = found_by(trees, outputs, rows, start, **KINDS[kind])
    expected = np.zeros_like(found)
    bias = (-1,) * (found.ndim - 2)
    expected[(slice(None), slice(None), *bias)] = start
    for tree, output in zip(trees, outputs, strict=True):
        typed = in_type(tree, rows.dtype)
        for i, row in enumerate(rows):
            expected[i, output] += expected_of(typed, row, kind)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("dtype", TYPES)
def test_trees_of_all_shapes(dtype, missing, kind):
    rng = np.random.default_rng(0)
    trees = [covered(rng, tree) for tree in forest(rng)]
    rows = random_rows(rng, ROWS, dtype, missing)
    assert_as_defined(trees, [0, 1, 1, 0, 1], rows, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", TYPES)
def test_splits_by_category(dtype, kind):
    rng = np.random.default_rng(2)
    trees = [
        covered(rng, bare_tree(rng, 12, categorical=[0, 2])),
        covered(rng, bare_tree(rng, 6)),
    ]
    rows = random_rows(rng, ROWS, dtype)
    for f in (0, 2):
        rows[:, f] = rng.choice(np.array(CODES, dtype), len(rows))
    assert_as_defined(trees, [0, 0], rows, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_multi_output_tree_equals_one_tree_for_each_output(kind):
    rng = np.random.default_rng(3)
    tree = covered(rng, bare_tree(rng, 9))
    values = np.where(tree.left[:, None] < 0, rng.normal(size=(19, 3)), 0)
    tree.value = values.astype(np.float32)
    rows = random_rows(rng, ROWS, np.float32)
    start = rng.normal(size=(len(rows), 3))
    found = found_by([tree], [0], rows, start, **KINDS[kind])
    for k in range(3):
        own = replace(tree, value=tree.value[:, k].copy())
        alone = found_by([own], [0], rows, start[:, k : k + 1], **KINDS[kind])
        np.testing.assert_array_equal(found[:, k], alone[:, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_of_wide_rows_only_the_features_in_use_are_read(kind):
    rng = np.random.default_rng(4)
    tree = covered(rng, bare_tree(rng, 9))
    rows = random_rows(rng, ROWS, np.float32)
    start = np.zeros((len(rows), 1))
    narrow = found_by([tree], [0], rows, start, **KINDS[kind])
    wide = np.full((len(rows), 40 * FEATURES), np.nan, np.float32)
    wide[:, ::40] = rows
    tree.feature *= 40
    found = found_by([tree], [0], wide, start, **KINDS[kind])
    places = np.array([*range(0, 40 * FEATURES, 40), 40 * FEATURES])
    axes = np.ix_(*[places] * (found.ndim - 2))
    np.testing.assert_array_equal(found[:, 0][:, *axes], narrow[:, 0])
    assert np.count_nonzero(found) == np.count_nonzero(narrow)


@pytest.mark.parametrize("n_rows", [0, 1, 63, 64, 65, 300])
def test_a_row_does_not_depend_on_other_rows(n_rows):
    rng = np.random.default_rng(5)
    tree = covered(rng, bare_tree(rng, 3))
    rows = random_rows(rng, n_rows, np.float32)
    start = np.zeros((n_rows, 1))
    for kind in KINDS.values():
        found = found_by([tree], [0], rows, start, **kind)
        for i in range(0, n_rows, 37):
            alone = found_by([tree], [0], rows[i : i + 1], start[:1], **kind)
            np.testing.assert_array_equal(found[i], alone[0])


def test_pruned_nodes_are_not_part_of_a_path():
    rng = np.random.default_rng(6)
    tree = covered(rng, bare_tree(rng, 7))
    inner = np.flatnonzero((tree.left > 0) & (tree.parent >= 0))[-1]
    children = [tree.left[inner], tree.right[inner]]
    tree.left[inner] = tree.right[inner] = -1
    tree.parent[children] = -1
    tree.threshold[inner], tree.feature[inner] = np.nan, 0
    tree.default_left[inner], tree.value[inner] = 0, 0.5
    assert deleted_nodes(tree, np.zeros(1, np.int64)).sum() == 2
    for kind in KINDS:
        assert_as_defined([tree], [0], random_rows(rng, 20, np.float32), kind)


@pytest.mark.slow
def test_a_chain_of_as_many_features_as_levels():
    """The integral of a polynomial of a high degree is exact."""
    n = 120 if COMPILED else 12
    rng = np.random.default_rng(7)
    tree = bare_tree(rng, n, deep=True)
    tree.feature[tree.left >= 0] = np.arange(n)
    tree.threshold[tree.left >= 0] = 0.5
    covered(rng, tree, empty=0.0)
    last = tree.n_nodes - 1
    tree.value = (np.arange(tree.n_nodes) == last).astype(np.float32)
    # A row that follows the whole path, to the only leaf with a value.
    row, parts, node = np.zeros((1, n), np.float32), np.zeros(n), last
    while node != 0:
        parent = tree.parent[node]
        row[0, tree.feature[parent]] = node == tree.right[parent]
        cover = tree.cover[[node, parent]].astype(np.float64)
        parts[tree.feature[parent]] = cover[0] / cover[1]
        node = parent
    found = found_by([tree], [0], row, np.zeros((1, 1)))[0, 0]
    for feature in (0, n // 2, n - 1):
        integrand = np.polynomial.Polynomial([Fraction(1 - parts[feature])])
        for part in np.delete(parts, feature).tolist():
            integrand *= np.polynomial.Polynomial([Fraction(part), 1 - Fraction(part)])
        exact = sum(c / (power + 1) for power, c in enumerate(integrand.coef))
        assert found[feature] == pytest.approx(float(exact), rel=1e-11)
