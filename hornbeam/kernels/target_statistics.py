"""Means of labels by level, over the rows before each row."""

from __future__ import annotations

from hornbeam.kernels.jit import kernel

__all__ = ["add_ordered_means"]


@kernel
def add_ordered_means(
    order,  # (rows,) int64: a permutation
    levels,  # (rows,) int64
    targets,  # (rows,) float64
    weights,  # (rows,) float64
    prior,  # float64
    strength,  # float64: the weight of the prior
    sums,  # (levels,) float64, zero; the sum of each level, out
    counts,  # (levels,) float64, zero; its weight, out
    means,  # (rows,) float64, added to
):
    """Add to each row the mean of its level over the rows before it in an order.

    The rows are added one after the other, so the sums have the same bits always.
    """
    for place in range(order.size):
        row = order[place]
        level = levels[row]
        known = sums[level] + strength * prior
        means[row] += known / (counts[level] + strength)
        sums[level] += weights[row] * targets[row]
        counts[level] += weights[row]
