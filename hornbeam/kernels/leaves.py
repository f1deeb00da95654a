"""Weights of nodes, and gains of their splits, from the sums of leaves."""

from __future__ import annotations

from hornbeam.kernels import maths
from hornbeam.kernels.jit import inline, kernel

__all__ = ["rate_splits", "weigh_nodes"]


@kernel
def weigh_nodes(
    left,  # (nodes,) int32: left child, or -1; children come after their parents
    rules,  # (6,) float64: lambda, alpha, max_delta_step and others
    learning_rate,
    sums,  # (nodes, 2) float64: gradients and hessians of leaves, in; of all, out
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
        weight = maths.leaf_weight(
            sums[node, 0], sums[node, 1], rules[0], rules[1], rules[2]
        )
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
