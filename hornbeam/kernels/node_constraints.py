"""What holds the weights of nodes back, and how splits score under it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels import maths
from hornbeam.kernels.jit import inline

__all__ = [
    "NO_SIDES",
    "NodeConstraints",
    "child_weight",
    "own_weight",
    "score_limited",
    "weigh_sides",
]

#: In trees of one output.
NO_SIDES = np.empty((0, 0, 0))


class NodeConstraints(NamedTuple):
    """What splits of some nodes are held to, beside the rules of the tree.

    Rows are counted like hessians: in a histogram of their own, or where all rows have
    the same hessian in that of the hessians. In trees of all outputs, bounds and
    weights have an axis of columns, the second one.

    Attributes
    ----------
    bounds
        (nodes, 2) float64: the least and the largest weight in the node's subtree.
    weights
        (nodes,) float64: what the node weighs as a leaf; NaN: as its sums say.
    directions
        (features,) int8: 1 where weights must not fall with the feature, -1 where they
        must not rise.
    costs
        (nodes, features) float64: what a split by each feature has to gain in
        addition; (0, 0): nothing.
    cost_of_rows
        Whether each row of the node costs as much.
    one_row
        What one row adds to the histogram by which rows are counted; for the backend
        to fill in.
    sides
        (nodes, columns, 2) float64: in trees of all outputs, what the children of the
        best splits weigh; for the backend to write to.
    """

    bounds: NDArray[np.float64]
    weights: NDArray[np.float64]
    directions: NDArray[np.int8]
    costs: NDArray[np.float64]
    cost_of_rows: bool = False
    one_row: float = 1.0
    sides: NDArray[np.float64] = NO_SIDES

    def part(self, begin: int, end: int) -> NodeConstraints:
        """Return those of the nodes from `begin` to `end`."""
        return self._replace(
            bounds=self.bounds[begin:end],
            weights=self.weights[begin:end],
            costs=self.costs[begin:end],
            sides=self.sides[begin:end],
        )


@inline
def own_weight(g, h, known, bounds, rules):
    """Return what a node with these sums weighs as a leaf; `known` may be NaN."""
    weight = known
    if np.isnan(weight):
        weight = maths.leaf_weight(g, h, rules[0], rules[1], rules[2])
    return min(max(weight, bounds[0]), bounds[1])


@inline
def child_weight(g, h, rows, above, bounds, rules):
    """Return what a child with these sums weighs; `above` is its parent's weight."""
    weight = maths.leaf_weight(g, h, rules[0], rules[1], rules[2])
    if rules[7] > 0.0:
        weight = maths.smoothed_weight(weight, rows, above, rules[7])
    return min(max(weight, bounds[0]), bounds[1])


@inline
def score_limited(
    sums_g,
    sums_h,
    sums_n,
    count,
    extra_g,
    extra_h,
    extra_n,
    total_g,
    total_h,
    total_n,
    node,
    feature,
    steps,
    rules,
    limits,
    scores,
):
    """Score the cuts that leave ``sums[k] + extra`` on the left; return the highest.

    The score is the gain of the split, less its cost. A cut that leaves too small a
    hessian or too few rows on one side, or weights against the feature's direction,
    scores 0.
    """
    least = max(rules[3], np.finfo(np.float64).tiny)
    node_g = total_g * steps[0]
    node_h = total_h * steps[1]
    node_n = total_n / limits.one_row
    bounds = limits.bounds[node]
    above = own_weight(node_g, node_h, limits.weights[node], bounds, rules)
    base = maths.gain_at(node_g, node_h, above, rules[0], rules[1])
    if limits.costs.size > 0:
        base += limits.costs[node, feature] * (node_n if limits.cost_of_rows else 1.0)
    direction = np.float64(limits.directions[feature])
    for k in range(count):
        g = (sums_g[k] + extra_g) * steps[0]
        h = (sums_h[k] + extra_h) * steps[1]
        n = (sums_n[k] + extra_n) / limits.one_row
        left = child_weight(g, h, n, above, bounds, rules)
        score = maths.gain_at(g, h, left, rules[0], rules[1]) - base
        g, h, n = node_g - g, node_h - h, node_n - n
        right = child_weight(g, h, n, above, bounds, rules)
        score += maths.gain_at(g, h, right, rules[0], rules[1])
        valid = (
            (h >= least)
            & (node_h - h >= least)
            & (n >= rules[6])
            & (node_n - n >= rules[6])
            & (direction * (right - left) >= 0.0)
        )
        scores[k] = max(score, 0.0) if valid else 0.0
    bits = scores.view(np.int64)
    highest = np.int64(0)
    for k in range(count):
        highest = max(highest, bits[k])
    return np.int64(highest).view(np.float64)


@inline
def weigh_sides(split, total_n, node, steps, rules, limits):
    """Write the weights of both sides of a split, and how many rows there are."""
    one_row = np.int64(limits.one_row)
    node_g = split["total_gradient"] * steps[0]
    node_h = split["total_hessian"] * steps[1]
    bounds = limits.bounds[node]
    above = own_weight(node_g, node_h, limits.weights[node], bounds, rules)
    g = split["left_gradient"] * steps[0]
    h = split["left_hessian"] * steps[1]
    n = split["left_rows"] // one_row
    total_n //= one_row
    split["left_rows"] = n
    split["total_rows"] = total_n
    split["left_weight"] = child_weight(g, h, np.float64(n), above, bounds, rules)
    split["right_weight"] = child_weight(
        node_g - g, node_h - h, np.float64(total_n - n), above, bounds, rules
    )
