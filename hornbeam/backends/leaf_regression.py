"""Ridge regressions of the gradients in the leaves of a tree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import LeafFeatures, LeafSlopes
from hornbeam.kernels.linear_leaves import (
    centre_features,
    solve_leaves,
    sum_products,
    sum_values,
)
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
    of_rows = data, leaf_of, hessians, per_unit[1], columns, spans
    team.run(sum_values, threads, *of_rows, counts, ranges)
    centred = np.empty((6, *shape))
    centre_features(counts, ranges, per_unit[1], columns, spans, centred)
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
        centred,
        np.empty((threads, most)),
        sums,
    )
    weights, centres, radii, _, lows, highs = centred
    steps = np.empty(shape)
    factor = np.empty((most, most))
    units = 1.0 / per_unit
    solve_leaves(np.add.reduce(sums), units, weights, linear_lambda, factor, steps)
    return LeafSlopes(steps, centres, radii, lows, highs)
