"""Rows that the weights of a linear model descend on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.row_state import MarginRows
from hornbeam.binning.layout import SparseColumns
from hornbeam.kernels.linear import (
    TASK_CELLS,
    LinearColumns,
    LinearRules,
    descend,
    size_steps,
)
from hornbeam.kernels.team import Team

__all__ = ["LinearRows"]

Floats = NDArray[np.float64]

#: The cost of one filled cell of a descent, in cells of a histogram.
_CELLS_PER_VALUE = 8


class LinearRows(MarginRows):
    """Features of rows, with margins and gradients.

    Parameters
    ----------
    columns
        The features.
    targets, weights, margins, team
        As for `MarginRows`.
    """

    def __init__(
        self,
        columns: SparseColumns,
        targets: Floats,
        weights: Floats | None,
        margins: Floats,
        team: Team,
    ) -> None:
        super().__init__(targets, weights, margins, team)
        self._columns = columns
        self.n_features = columns.starts.size - 2
        longest = int(np.diff(columns.starts).max())
        self._parts = np.empty((-(-longest // TASK_CELLS), 2))
        self._members = min(
            team.members_for(_CELLS_PER_VALUE * columns.rows.size), len(self._parts)
        )

    def begin(self, output: int, rules: LinearRules) -> None:
        self._gradients = self._state.gradients[output].astype(np.float64)
        self._hessians = self._state.hessians[output].astype(np.float64)
        self._rules = rules

    def sizes(self, weights: NDArray[np.float32]) -> Floats:
        """Return how large a step each feature's weight would take, (features,)."""
        columns, sizes = self._columns, np.empty(self.n_features)
        self._team.run(
            size_steps,
            self._team.members_for(_CELLS_PER_VALUE * columns.rows.size),
            LinearColumns(columns.starts, columns.rows, columns.values),
            self._rules,
            self._gradients,
            self._hessians,
            weights,
            sizes,
        )
        return sizes

    def descend(self, order: NDArray[np.int64], weights: NDArray[np.float32]) -> None:
        """Move weights, one after the other; that of the ones is the bias."""
        columns = self._columns
        self._team.run(
            descend,
            self._members,
            order,
            LinearColumns(columns.starts, columns.rows, columns.values),
            self._rules,
            self._hessians,
            self._parts,
            self._gradients,
            weights,
        )
