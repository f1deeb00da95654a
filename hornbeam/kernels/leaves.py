"""Weights of nodes, and gains of their splits, from the sums of leaves."""

from __future__ import annotations

import numpy as np

from hornbeam.kernels import maths
from hornbeam.kernels.jit import inline, kernel

__all__ = ["bound_nodes", "rate_splits", "weigh_nodes"]


@kernel
def weigh_nodes(
    left,  # (nodes,) int32: left child, or -1; children come after their parents
    rules,  # (8,) float64, see `backends.interface.SplitParams.rules`
    learning_rate,
    sums,  # (nodes, 2) float64: gradients and hessians of leaves, in; of all, out
    bounds,  # (nodes, 2) float64: least and largest weight; (0, 2): there are none
    rows,  # (nodes,) float64: how many there are; (0,): weights are not smoothed
    weights,  # (nodes,) float64, out
):
    """Write what each node weighs, or would weigh, as a leaf.

    Leaves' weights are shrunk by the learning rate, others' are not, as in XGBoost.
    """
    for node in range(left.size - 1, -1, -1):
        child = left[node]
        if child >= 0:
            sums[node, 0] = sums[child, 0] + sums[child + 1, 0]
            sums[node, 1] = sums[child, 1] + sums[child + 1, 1]
    for node in range(left.size):
        above = weights[node]
        weight = maths.leaf_weight(
            sums[node, 0], sums[node, 1], rules[0], rules[1], rules[2]
        )
        if rows.size > 0 and node > 0:
            weight = maths.smoothed_weight(weight, rows[node], above, rules[7])
        if bounds.size > 0:
            weight = min(max(weight, bounds[node, 0]), bounds[node, 1])
        child = left[node]
        if child >= 0:
            weights[child] = weights[child + 1] = weight  # for when it is their turn
        weights[node] = weight if child >= 0 else weight * learning_rate


@inline
def _gain(sums, rules):
    return maths.leaf_gain(sums[0], sums[1], rules[0], rules[1], rules[2])


@kernel
def rate_splits(
    left,  # (nodes,) int32: left child, or -1
    rules,  # (6,) float64: lambda, alpha, max_delta_step and others
    sums,  # (nodes, 2) float64: gradients and hessians
    gains,  # (nodes,) float64, out; 0 at leaves
):
    """Write what each split gains."""
    for node in range(left.size):
        child = left[node]
        gains[node] = 0.0
        if child >= 0:
            children = _gain(sums[child], rules) + _gain(sums[child + 1], rules)
            gains[node] = children - _gain(sums[node], rules)


@kernel
def bound_nodes(
    left,  # (nodes,) int32: left child, or -1; children come after their parents
    directions,  # (nodes,) int8: 1 or -1 where weights must rise or fall to the right
    follows,  # whether the reach of a node is that of its leaves, or its own
    reach,  # (nodes, 2) float64, in: least and largest weight there may be; out: of all
    grows,  # (nodes,) uint8, in: whether it may get other weights; out: a leaf of it
    bounds,  # (nodes, 2) float64, out: least and largest weight in the subtree
):
    """Write bounds that keep weights in order whatever becomes of the subtrees.

    Two children whose order matters are parted by the middle between the weights that
    are nearest to each other; if only one of them grows, it may come up to the other.
    """
    if follows:
        for node in range(left.size - 1, -1, -1):
            child = left[node]
            if child >= 0:
                reach[node, 0] = min(reach[child, 0], reach[child + 1, 0])
                reach[node, 1] = max(reach[child, 1], reach[child + 1, 1])
                grows[node] = grows[child] | grows[child + 1]
    bounds[0, 0] = -np.inf
    bounds[0, 1] = np.inf
    for node in range(left.size):
        child = left[node]
        if child < 0:
            continue
        for side in range(2):
            bounds[child + side, 0] = bounds[node, 0]
            bounds[child + side, 1] = bounds[node, 1]
        if directions[node] != 0:
            low = child + np.int64(directions[node] < 0)
            high = child + np.int64(directions[node] > 0)
            top, bottom = reach[low, 1], reach[high, 0]
            if grows[low] & grows[high]:
                top = bottom = (top + bottom) / 2.0
            bounds[low, 1] = min(bounds[low, 1], bottom)
            bounds[high, 0] = max(bounds[high, 0], top)
