"""Rows that the weights of a linear model descend on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.base import FilledColumns, GradientSource
from hornbeam.backends.memory import RowState
from hornbeam.kernels.linear import TASK_CELLS, descend, size_steps
from hornbeam.kernels.team import Team, give_back_team

__all__ = ["LinearRows"]

Floats = NDArray[np.float64]

#: The cost of one filled cell of a descent, in cells of a histogram.
_CELLS_PER_VALUE = 8


class LinearRows:
    """Features of rows, with margins and gradients.

    Parameters
    ----------
    columns
        The features.
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    scores
        (outputs, rows) float64: the margins.
    team
        The threads that work; given back when it is closed.
    """

    def __init__(
        self,
        columns: FilledColumns,
        targets: Floats,
        weights: Floats | None,
        scores: Floats,
        team: Team,
    ) -> None:
        self._team, self._columns = team, columns
        self._state = RowState(targets, weights, scores, team)
        self.n_outputs, self.n_rows = scores.shape
        self.n_features = columns.starts.size - 2
        longest = int(np.diff(columns.starts).max())
        self._parts = np.empty((-(-longest // TASK_CELLS), 2))
        self._members = min(
            team.members_for(_CELLS_PER_VALUE * columns.rows.size), len(self._parts)
        )

    def scores(self) -> Floats:
        """Return a copy of the margins, (outputs, rows)."""
        return self._state.scores.copy()

    def compute_gradients(self, objective: GradientSource) -> None:
        """Take the gradients of the objective at the scores."""
        self._state.compute_gradients(objective)

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Take these gradients, both of shape (outputs, rows)."""
        self._state.set_gradients(gradients, hessians)

    def begin(self, output: int, rules: Floats) -> None:
        """Begin with one output, with learning rate, lambda and alpha in `rules`."""
        self._gradients = self._state.gradients[output].astype(np.float64)
        self._hessians = self._state.hessians[output].astype(np.float64)
        self._rules = rules

    def sizes(self, weights: NDArray[np.float32]) -> Floats:
        """Return how large a step each feature's weight would take, (features,)."""
        columns, sizes = self._columns, np.empty(self.n_features)
        self._team.run(
            size_steps,
            self._team.members_for(_CELLS_PER_VALUE * columns.rows.size),
            columns.starts,
            columns.rows,
            columns.values,
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
            columns.starts,
            columns.rows,
            columns.values,
            self._rules,
            self._hessians,
            self._parts,
            self._gradients,
            weights,
        )

    def close(self) -> None:
        """Give back the threads."""
        give_back_team(self._team)
