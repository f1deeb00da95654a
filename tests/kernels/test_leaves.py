"""Weights and bounds of nodes."""

from __future__ import annotations

from fractions import Fraction

import naive
import numpy as np
import pytest
from kernel_calls import split_rules

from hornbeam.kernels.layout import CATEGORY_SETS, ONE_CATEGORY, SPLIT_DTYPE, SplitRules
from hornbeam.kernels.leaves import (
    NodeColumns,
    bound_nodes,
    rate_splits,
    weigh_nodes,
    write_nodes,
)

#            0
#        1       2
#      3   4   5   6
#             7 8
LEFT = np.array([1, 3, 5, -1, -1, 7, -1, -1, -1], np.int32)
BELOW = {
    0: [3, 4, 7, 8, 6],
    1: [3, 4],
    2: [7, 8, 6],
    3: [3],
    4: [4],
    5: [7, 8],
    6: [6],
    7: [7],
    8: [8],
}
ALONE = np.array([-1], np.int32)
#: No splits, so that all nodes are weighed by the same rules.
ALIKE = np.empty(0, SPLIT_DTYPE)
#: No bounds, and no path smoothing.
FREE = np.empty((0, 2)), np.empty(0)


@pytest.mark.parametrize("rules", [(1, 0, 0), (0, 1, 0), (0.5, 0.25, 0.3)])
def test_weights_come_from_the_sums_of_leaves(rules):
    rng = np.random.default_rng(0)
    sums = np.full((9, 2), np.nan)
    leaves = LEFT < 0
    # Sixteenths, whose sums are exact in any order.
    sums[leaves] = rng.integers(1, 90, (leaves.sum(), 2)) / 16
    sums[leaves, 0] -= 3
    given = sums.copy()
    weights = np.empty(9)
    weigh_nodes(LEFT, ALIKE, split_rules(*rules, 0), 0.3, sums, *FREE, weights)
    for node, below in BELOW.items():
        np.testing.assert_array_equal(sums[node], given[below].sum(axis=0))
        g, h, *exact_rules = (Fraction(float(v)) for v in (*sums[node], *rules))
        weight = float(naive.leaf_weight(g, h, *exact_rules))
        rate = 0.3 if LEFT[node] < 0 else 1.0
        assert weights[node] == pytest.approx(weight * rate, rel=1e-15)


@pytest.mark.parametrize("rules", [(1, 0, 0), (0, 1, 0), (0.5, 0.25, 0.3)])
def test_gains_of_splits(rules):
    rng = np.random.default_rng(1)
    sums, gains = rng.normal(size=(9, 2)), np.full(9, np.nan)
    sums[:, 1] += 4
    rate_splits(LEFT, split_rules(*rules, 0), sums, gains)
    for node, left in enumerate(LEFT):
        exact_rules = [Fraction(rule) for rule in rules]
        expected = Fraction(0)
        if left >= 0:
            for part, sign in ((left, 1), (left + 1, 1), (node, -1)):
                g, h = (Fraction(float(v)) for v in sums[part])
                expected += sign * naive.gain(g, h, exact_rules)
        assert gains[node] == pytest.approx(float(expected), rel=1e-12, abs=1e-14)


def test_root_alone():
    sums, weights = np.array([[-3.0, 5.0]]), np.empty(1)
    weigh_nodes(ALONE, ALIKE, split_rules(1, 0, 0, 0), 0.5, sums, *FREE, weights)
    assert weights.tolist() == [0.25]


def test_root_without_rows_has_weight_zero():
    sums, weights = np.zeros((1, 2)), np.empty(1)
    weigh_nodes(ALONE, ALIKE, split_rules(0, 0, 0, 0), 0.5, sums, *FREE, weights)
    assert weights.tolist() == [0.0]


@pytest.mark.parametrize("smooth", [0.0, 20.0])
def test_children_of_sorted_categories_have_a_penalty_of_their_own(smooth):
    sums = np.zeros((9, 2))
    sums[LEFT < 0] = [[-5, 3], [4, 6], [7, 1], [-2, 2], [-9, 5]]
    splits = np.zeros(9, SPLIT_DTYPE)
    splits["is_categorical"][[0, 1, 2]] = ONE_CATEGORY, CATEGORY_SETS, 0
    splits["is_categorical"][5] = CATEGORY_SETS
    rules = SplitRules(1.0, 0.0, 0.0, 0.0, path_smooth=smooth, cat_l2=7.0)
    rows = np.arange(9.0) + 1 if smooth else np.empty(0)
    weights = np.empty(9)
    weigh_nodes(LEFT, splits, rules, 1.0, sums, np.empty((0, 2)), rows, weights)
    for node in range(9):
        ridge = 8 if node in (3, 4, 7, 8) else 1
        expected = -sums[node, 0] / (sums[node, 1] + ridge)
        if smooth and node > 0:
            above = weights[np.flatnonzero((node == LEFT) | (node == LEFT + 1))[0]]
            expected = (expected * rows[node] + smooth * above) / (rows[node] + smooth)
        assert weights[node] == pytest.approx(expected, rel=1e-14)


def test_path_smoothing_and_bounds():
    rng = np.random.default_rng(1)
    sums = np.zeros((9, 2))
    sums[LEFT < 0] = rng.integers(-90, 90, ((LEFT < 0).sum(), 2)) / 16
    sums[:, 1] = abs(sums[:, 1]) + 1
    rows = rng.integers(1, 50, 9).astype(float)
    bounds = np.sort(rng.normal(size=(9, 2)), axis=1)
    bounds[0] = -np.inf, np.inf
    rules = split_rules(1, 0.5, 0, 0, 4, 64, 0, 20)
    weights = np.empty(9)
    weigh_nodes(LEFT, ALIKE, rules, 0.5, sums, bounds, rows, weights)
    unshrunk = np.where(LEFT < 0, 2 * weights, weights)
    for node in range(9):
        exact = [Fraction(float(v)) for v in (*sums[node], *rules[:3])]
        weight = naive.leaf_weight(*exact)
        if node > 0:
            above = unshrunk[np.flatnonzero((node == LEFT) | (node == LEFT + 1))[0]]
            weight = (float(weight) * rows[node] + 20 * above) / (rows[node] + 20)
        expected = np.clip(float(weight), *bounds[node])
        assert unshrunk[node] == pytest.approx(expected, rel=1e-12)


DIRECTIONS = np.array([1, -1, 0, 0, 0, 1, 0, 0, 0], np.int8)


def test_fixed_bounds_are_the_midpoint_between_siblings():
    own = np.array([0, -1, 4, 1, -3, 4, 5, 2, 6.0])
    bounds = np.empty((9, 2))
    reach = np.stack([own, own], axis=1)
    bound_nodes(LEFT, DIRECTIONS, False, reach, np.ones(9, np.uint8), bounds)
    inf = np.inf
    assert bounds.tolist() == [
        [-inf, inf], [-inf, 1.5], [1.5, inf], [-1, 1.5], [-inf, -1],
        [1.5, inf], [1.5, inf], [1.5, 4], [4, inf],
    ]  # fmt: skip


def test_following_bounds_are_between_the_nearest_leaves():
    own = np.array([0, -1, 4, 1, -3, 4, 5, 2, 6.0])
    reach, bounds = np.stack([own, own], axis=1), np.empty((9, 2))
    reach[7, 1] = 3.0  # its children may have weights up to this
    grows = np.zeros(9, np.uint8)
    grows[[3, 8]] = 1
    bound_nodes(LEFT, DIRECTIONS, True, reach, grows, bounds)
    # The left leaves reach up to 1, the right ones down to 2; both sides grow.
    assert bounds[1].tolist() == [-np.inf, 1.5]
    assert bounds[2].tolist() == [1.5, np.inf]
    # Only one of each pair of leaves grows.
    assert bounds[[3, 4]].tolist() == [[-3, 1.5], [-np.inf, 1]]
    assert bounds[[7, 8]].tolist() == [[1.5, 6], [3, np.inf]]


@pytest.mark.parametrize("outputs", [1, 3])
def test_columns_of_a_tree(outputs):
    rng = np.random.default_rng(0)
    n_nodes, is_leaf = LEFT.size, LEFT < 0
    splits = np.zeros(n_nodes, SPLIT_DTYPE)
    splits["feature"] = np.where(is_leaf, 0, [4, 2, 7, 0, 0, 1, 0, 0, 0])
    splits["gain"] = np.where(is_leaf, 0.0, 1e30 ** np.arange(n_nodes))
    splits["missing_left"] = ~is_leaf & (np.arange(n_nodes) % 2 == 0)
    splits["is_categorical"][1] = 1
    weights = rng.normal(size=(outputs, n_nodes))
    weights[0, 2] = -1e300  # of an inner node
    sums = rng.uniform(size=(outputs, n_nodes, 2))
    of_outputs = outputs, n_nodes
    new = NodeColumns(
        right=np.empty(n_nodes, np.int32),
        feature=np.empty(n_nodes, np.int32),
        default_left=np.empty(n_nodes, np.uint8),
        split_type=np.empty(n_nodes, np.uint8),
        value=np.empty(of_outputs, np.float32),
        gain=np.empty(n_nodes, np.float32),
        cover=np.empty(n_nodes, np.float32),
        weight=np.empty(of_outputs, np.float32),
    )
    assert not write_nodes(LEFT, splits, weights, sums, new)
    most = np.finfo(np.float32).max
    np.testing.assert_array_equal(new.right, np.where(is_leaf, -1, LEFT + 1))
    np.testing.assert_array_equal(new.feature, splits["feature"])
    np.testing.assert_array_equal(new.default_left, splits["missing_left"])
    np.testing.assert_array_equal(new.split_type, splits["is_categorical"])
    rounded = weights.clip(-most, most).astype(np.float32)
    np.testing.assert_array_equal(new.weight, rounded)
    np.testing.assert_array_equal(new.value, np.where(is_leaf, rounded, 0))
    gains = splits["gain"].clip(-most, most).astype(np.float32)
    np.testing.assert_array_equal(new.gain, gains)
    covers = sums[..., 1].sum(axis=0).astype(np.float32)
    np.testing.assert_array_equal(new.cover, covers)
    weights[-1, 8] = -1e39
    assert write_nodes(LEFT, splits, weights, sums, new)
