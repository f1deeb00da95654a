"""Ridge regressions of the gradients in the leaves of a tree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import LeafFeatures, LeafSlopes
from hornbeam.kernels.linear_leaves import solve_leaves, sum_products, sum_values
from hornbeam.kernels.plan import CELLS_PER_ROW
from hornbeam.kernels.team import Team

__all__ = ["regress_leaves"]

Floats = NDArray[np.float64]


def regress_leaves(
    team: Team,
    leaf_of: NDArray[np.uint32],
    gradients: NDArray[Any],
    hessians: NDArray[Any],
    per_unit: Floats,
    features: LeafFeatures,
    linear_lambda: float,
) -> LeafSlopes:
    """Return the slopes of the Newton step of each leaf on its features.

    The features are centred at their means, weighted by hessians, so that the constant
    of a leaf is the same without slopes; a missing value is at the mean.

    Parameters
    ----------
    leaf_of
        (rows,): rows that are in no leaf have the number of leaves, or a higher one.
    gradients, hessians
        (rows,).
    per_unit
        (2,): 1 / the units of fixed-point sums.
    linear_lambda
        The L2 penalty on the slopes of standardised features.
    """
    data, spans, columns = features
    shape = n_leaves, most = columns.shape
    threads = team.threads_for(CELLS_PER_ROW * leaf_of.size * most)
    counts = np.zeros((threads, *shape, 2), np.int64)
    ranges = np.empty((threads, *shape, 2))
    ranges[..., 0], ranges[..., 1] = np.inf, -np.inf
    team.run(
        sum_values,
        threads,
        data,
        leaf_of,
        hessians,
        per_unit[1],
        columns,
        np.stack([spans[:, 0], _inverse(spans[:, 1])], axis=1),
        counts,
        ranges,
    )
    weights, products = np.add.reduce(counts).transpose(2, 0, 1) / per_unit[1]
    lows, highs = ranges[..., 0].min(axis=0), ranges[..., 1].max(axis=0)
    with np.errstate(all="ignore"):
        means = spans[columns, 0] + spans[columns, 1] * (products / weights)
        centres = np.clip(means, lows, highs)
        radii = np.maximum(highs - centres, centres - lows)
    is_usable = (_inverse(radii) > 0.0) & (weights > 0.0)
    centres, radii, lows, highs = (
        np.where(is_usable, own, 0.0) for own in (centres, radii, lows, highs)
    )
    cells = most + most * (most + 1) // 2
    sums = np.zeros((threads, n_leaves, cells), np.int64)
    team.run(
        sum_products,
        threads,
        data,
        leaf_of,
        gradients,
        hessians,
        *per_unit,
        columns,
        np.stack([centres, _inverse(radii)], axis=2),
        np.empty((threads, most)),
        sums,
    )
    steps = np.empty(shape)
    solve_leaves(
        np.add.reduce(sums),
        1.0 / per_unit,
        weights,
        linear_lambda,
        np.empty((most, most)),
        steps,
    )
    return LeafSlopes(steps, centres, radii, lows, highs)


def _inverse(numbers: Floats) -> Floats:
    """Return 1 / numbers; 0 where that is not finite."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        inverse = 1.0 / numbers
    return np.where(np.isfinite(inverse), inverse, 0.0)
