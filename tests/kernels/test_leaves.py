"""Weights of nodes."""

from __future__ import annotations

from fractions import Fraction

import naive
import numpy as np
import pytest

from hornbeam.kernels.leaves import rate_splits, weigh_nodes

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


@pytest.mark.parametrize("rules", [(1, 0, 0), (0, 1, 0), (0.5, 0.25, 0.3)])
def test_nodes_weigh_what_their_leaves_sum_to(rules):
    rng = np.random.default_rng(0)
    sums = np.full((9, 2), np.nan)
    leaves = LEFT < 0
    # Sixteenths, whose sums are exact in any order.
    sums[leaves] = rng.integers(1, 90, (leaves.sum(), 2)) / 16
    sums[leaves, 0] -= 3
    given = sums.copy()
    weights = np.empty(9)
    weigh_nodes(LEFT, np.array([*rules, 0.0]), 0.3, sums, weights)
    for node, below in BELOW.items():
        np.testing.assert_array_equal(sums[node], given[below].sum(axis=0))
        g, h, *exact_rules = (Fraction(float(v)) for v in (*sums[node], *rules))
        weight = float(naive.leaf_weight(g, h, *exact_rules))
        rate = 0.3 if LEFT[node] < 0 else 1.0
        assert weights[node] == pytest.approx(weight * rate, rel=1e-15)


@pytest.mark.parametrize("rules", [(1, 0, 0), (0, 1, 0), (0.5, 0.25, 0.3)])
def test_splits_gain_what_children_gain_beyond_their_parent(rules):
    rng = np.random.default_rng(1)
    sums, gains = rng.normal(size=(9, 2)), np.full(9, np.nan)
    sums[:, 1] += 4
    rate_splits(LEFT, np.array([*rules, 0.0]), sums, gains)
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
    weigh_nodes(np.array([-1], np.int32), np.array([1.0, 0, 0, 0]), 0.5, sums, weights)
    assert weights.tolist() == [0.25]


def test_root_without_rows_weighs_nothing():
    sums, weights = np.zeros((1, 2)), np.empty(1)
    weigh_nodes(np.array([-1], np.int32), np.zeros(4), 0.5, sums, weights)
    assert weights.tolist() == [0.0]
