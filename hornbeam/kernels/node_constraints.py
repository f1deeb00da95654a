"""Bounds on node weights, and the gain of splits under them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels import maths
from hornbeam.kernels.interactions import is_used
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.leaves import rules_of_sides, weight_of

__all__ = [
    "NO_SIDES",
    "NodeConstraints",
    "child_weight",
    "cost_of",
    "own_weight",
    "score_limited",
    "weigh_sides",
]

#: In trees of one output.
NO_SIDES = np.empty((0, 0, 0))


class NodeConstraints(NamedTuple):
    """Constraints on the splits of some nodes, in addition to `SplitRules`.

    Rows are counted as hessians are summed: in a histogram of their own, or, where all
    rows have the same hessian, in that of the hessians. In multi-output trees, bounds
    and weights have an axis of columns, the second one.

    Attributes
    ----------
    bounds
        (nodes, 2) float64: the least and the largest weight in the node's subtree.
    weights
        (nodes,) float64: the weight of the node as a leaf; NaN: computed from its sums.
    directions
        (features,) int8: 1 where weights must not fall with the feature, -1 where they
        must not rise (monotone constraints).
    costs
        (features,) float64: a penalty subtracted from the gain of a split by a feature
        that is not on the path to the node; (0,): none.
    used
        (nodes, words) uint64: the features on the path to each node; (0, 0) without
        costs.
    cost_of_rows
        Whether the penalty is multiplied by the number of rows of the node.
    one_row
        The value that one row adds to the histogram which counts rows; set by the
        backend.
    sides
        (nodes, columns, 2) float64, out: in multi-output trees, the weights of the
        children of the best splits; written by the backend.
    """

    bounds: NDArray[np.float64]
    weights: NDArray[np.float64]
    directions: NDArray[np.int8]
    costs: NDArray[np.float64]
    used: NDArray[np.uint64]
    cost_of_rows: bool = False
    one_row: float = 1.0
    sides: NDArray[np.float64] = NO_SIDES

    def part(self, begin: int, end: int) -> NodeConstraints:
        """Return the constraints of the nodes from `begin` to `end`."""
        return self._replace(
            bounds=self.bounds[begin:end],
            weights=self.weights[begin:end],
            used=self.used[begin:end],
            sides=self.sides[begin:end],
        )


@inline
def own_weight(g, h, known, bounds, rules):
    """Return the weight of a node with these sums as a leaf; `known` may be NaN."""
    weight = known
    if np.isnan(weight):
        weight = weight_of(g, h, rules)
    return min(max(weight, bounds[0]), bounds[1])


@inline
def child_weight(g, h, rows, above, bounds, rules):
    """Return the weight of a child with these sums; `above` is its parent's weight."""
    weight = weight_of(g, h, rules)
    if rules.path_smooth > 0.0:
        weight = maths.smoothed_weight(weight, rows, above, rules.path_smooth)
    return min(max(weight, bounds[0]), bounds[1])


@inline
def cost_of(feature, node, rows, limits):
    """Return the penalty of a split of a node, of so many rows, by a feature."""
    if limits.costs.size == 0 or is_used(limits.used[node], feature):
        return 0.0
    return limits.costs[feature] * (rows if limits.cost_of_rows else 1.0)


@kernel
def score_limited(
    sums, count, extra, total, node, feature, scales, rules, of_sides, limits, scores
):
    """Score the cuts that leave ``sums[k] + extra`` on the left; return the highest.

    The score is the gain of the split, minus its penalty; both children are weighted by
    the rules `of_sides`. A cut scores 0 if a side has
    too small a hessian or too few rows, or if the weights violate the feature's
    monotone constraint.
    """
    reg_lambda, reg_alpha = of_sides.reg_lambda, rules.reg_alpha
    least = max(rules.min_child_weight, np.finfo(np.float64).tiny)
    least_rows = rules.min_samples_leaf
    node_g = total.gradients * scales[0]
    node_h = total.hessians * scales[1]
    node_n = total.rows / limits.one_row
    bounds = limits.bounds[node]
    above = own_weight(node_g, node_h, limits.weights[node], bounds, rules)
    base = maths.gain_at(node_g, node_h, above, rules.reg_lambda, reg_alpha)
    base += cost_of(feature, node, node_n, limits)
    direction = np.float64(limits.directions[feature])
    for k in range(count):
        g = (sums.gradients[k] + extra.gradients) * scales[0]
        h = (sums.hessians[k] + extra.hessians) * scales[1]
        n = (sums.rows[k] + extra.rows) / limits.one_row
        left = child_weight(g, h, n, above, bounds, of_sides)
        score = maths.gain_at(g, h, left, reg_lambda, reg_alpha) - base
        g, h, n = node_g - g, node_h - h, node_n - n
        right = child_weight(g, h, n, above, bounds, of_sides)
        score += maths.gain_at(g, h, right, reg_lambda, reg_alpha)
        valid = (
            (h >= least)
            & (node_h - h >= least)
            & (n >= least_rows)
            & (node_n - n >= least_rows)
            & (direction * (right - left) >= 0.0)
        )
        scores[k] = max(score, 0.0) if valid else 0.0
    bits = scores.view(np.int64)
    highest = np.int64(0)
    for k in range(count):
        highest = max(highest, bits[k])
    return np.int64(highest).view(np.float64)


@inline
def weigh_sides(split, total_n, node, scales, rules, limits):
    """Write the weights of both sides of a split, and the numbers of rows."""
    one_row = np.int64(limits.one_row)
    node_g = split["total_gradient"] * scales[0]
    node_h = split["total_hessian"] * scales[1]
    bounds = limits.bounds[node]
    above = own_weight(node_g, node_h, limits.weights[node], bounds, rules)
    g = split["left_gradient"] * scales[0]
    h = split["left_hessian"] * scales[1]
    of_sides = rules_of_sides(split["is_categorical"], rules)
    n = split["left_rows"] // one_row
    total_n //= one_row
    split["left_rows"] = n
    split["total_rows"] = total_n
    split["left_weight"] = child_weight(g, h, np.float64(n), above, bounds, of_sides)
    split["right_weight"] = child_weight(
        node_g - g, node_h - h, np.float64(total_n - n), above, bounds, of_sides
    )
