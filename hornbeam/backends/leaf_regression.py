"""Ridge regressions of the gradients in the leaves of a tree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import LeafFeatures, LeafSlopes
from hornbeam.kernels import linear_leaves
from hornbeam.kernels.linear_leaves import RegressedRows, RegressionTables
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
    cells = most + most * (most + 1) // 2
    ranges = np.empty((threads, *shape, 2))
    ranges[..., 0], ranges[..., 1] = np.inf, -np.inf
    tables = RegressionTables(
        np.zeros((threads, *shape, 2), np.int64),
        ranges,
        np.empty((6, *shape)),
        np.zeros((threads, n_leaves, cells), np.int64),
        np.empty((threads, most)),
        np.empty((most, most)),
    )
    rows = RegressedRows(data, leaf_of, gradients, hessians, *per_unit.tolist())
    steps = np.empty(shape)
    of_leaves = columns, spans, float(linear_lambda), tables, steps
    team.run(linear_leaves.regress_leaves, threads, rows, *of_leaves)
    return LeafSlopes(steps, tables.centred)
