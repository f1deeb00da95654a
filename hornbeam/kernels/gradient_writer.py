"""Runs the kernels of objectives on rows, into the same arrays in each round."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.gradients import LossRows, NewGradients
from hornbeam.kernels.lanes import LANE_ROWS
from hornbeam.kernels.team import Call, Team

__all__ = ["GradientWriter"]

#: The most float64 numbers in the memory of a lane, so that it stays in the second
#: cache, and the fewest rows.
_LANE_MEMORY = 1 << 13
_FEWEST_ROWS = 128
#: The cost of one row of one output, as a number of histogram updates.
_COST_PER_ROW = 8


class GradientWriter:
    """Gradients that the kernels of objectives write, round after round.

    Parameters
    ----------
    team
        The threads.
    gradients, hessians
        (outputs, rows), float64 if the rows have weights and else float32.
    """

    def __init__(
        self,
        team: Team,
        gradients: NDArray[np.floating],
        hessians: NDArray[np.floating],
    ) -> None:
        self._team, self.gradients, self.hessians = team, gradients, hessians
        self._threads = team.threads_for(_COST_PER_ROW * gradients.size)
        self.new = NewGradients.of(gradients, hessians, self._threads)
        self._largest = max((own.largest for own in self.new), key=len)
        #: The same memory: non-negative floats are ordered as their bits.
        self._largest_floats = self._largest.view(gradients.dtype)
        columns = 6 + len(gradients)
        lane = min(LANE_ROWS, max(_LANE_MEMORY // columns, _FEWEST_ROWS))
        self._scratch = np.empty((self._threads, columns, lane))

    def call(
        self,
        kernel: Callable[..., None],
        rows: LossRows,
        numbers: NDArray[np.float64],
    ) -> Call:
        """Begin to look for the largest; return the call that writes gradients."""
        self._largest.fill(0)
        return kernel, self._threads, rows, numbers, self.new, self._scratch

    def write(
        self,
        kernel: Callable[..., None],
        rows: LossRows,
        numbers: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Write the gradients of these rows; see `Objective.write_gradients`.

        `numbers` are the scalar arguments of the kernel.
        """
        self._team.run(*self.call(kernel, rows, numbers))
        if self._threads > 1:
            self._largest[0] = np.maximum.reduce(self._largest)
        return self._largest_floats[0].astype(np.float64)
