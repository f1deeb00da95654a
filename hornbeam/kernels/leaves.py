"""Weights of nodes from their sums."""

from __future__ import annotations

from hornbeam.kernels import maths
from hornbeam.kernels.jit import kernel

__all__ = ["weigh_nodes"]


@kernel
def weigh_nodes(
    sums,  # (nodes, 2) float64: gradients and hessians
    rules,  # (4,) float64: lambda, alpha, max_delta_step, min_child_weight
    weights,  # (nodes,) float64, out
):
    """Write the weight that each node has, or would have, as a leaf."""
    for i in range(weights.size):
        weights[i] = maths.leaf_weight(
            sums[i, 0], sums[i, 1], rules[0], rules[1], rules[2]
        )
