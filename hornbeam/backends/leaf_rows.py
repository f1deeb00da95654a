"""Rows whose leaves are known: gradients, and their sums over the nodes of a tree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.base import GradientSource
from hornbeam.backends.memory import RowState
from hornbeam.backends.steps import choose_steps
from hornbeam.kernels.team import Team, give_back_team

__all__ = ["LeafRows"]


class LeafRows:
    """Rows that no tree grows on, but that trees are revised by.

    Parameters
    ----------
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    scores
        (outputs, rows) float64: the margins.
    team
        The threads that work; given back when it is closed.
    """

    def __init__(
        self,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        scores: NDArray[np.float64],
        team: Team,
    ) -> None:
        self._team = team
        self._state = RowState(targets, weights, scores, team)
        self.n_outputs, self.n_rows = scores.shape

    def scores(self) -> NDArray[np.float64]:
        """Return a copy of the margins, (outputs, rows)."""
        return self._state.scores.copy()

    def compute_gradients(self, objective: GradientSource) -> None:
        """Take the gradients of the objective at the scores."""
        self._state.compute_gradients(objective)

    def set_gradients(
        self, gradients: NDArray[np.floating], hessians: NDArray[np.floating]
    ) -> None:
        """Take these gradients, both of shape (outputs, rows)."""
        self._state.set_gradients(gradients, hessians)

    def sums(
        self, output: int, nodes: NDArray[np.uint32], n_nodes: int
    ) -> NDArray[np.float64]:
        """Return the sums of gradients and hessians over nodes, (nodes, 2).

        `nodes`, (rows,), says in which of them each row is. The steps are those in
        which the leaves of a tree that grows on these rows are summed.
        """
        state = self._state
        steps = choose_steps(state.extents()[output, :2], self.n_rows).fine
        state.take_up(output, None, steps)
        state.leaf_of[:] = nodes
        return state.sum_leaves(n_nodes) * steps

    def close(self) -> None:
        """Give back the threads."""
        give_back_team(self._team)
