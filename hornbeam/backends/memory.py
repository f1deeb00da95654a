"""What backends with rows in memory share: gradients as integers, samples, leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.base import Backend, GradientSource, RowSample
from hornbeam.errors import DataError
from hornbeam.kernels.gradients import find_extent, quantise, widen
from hornbeam.kernels.layout import (
    COARSE_GRADIENT_BITS,
    COARSE_HESSIAN_BITS,
    SUM_BITS,
    TASK_ROWS,
)
from hornbeam.kernels.partition import add_leaf_values, sum_leaves
from hornbeam.kernels.sampling import draw_rows
from hornbeam.kernels.team import Team, give_back_team, take_team

__all__ = ["CELLS_PER_ROW", "RowsBackend"]

#: Where the mean |g| or h is under this many coarse steps, rounding is no longer
#: small beside it, and fine steps are used. A test shows both sides of the line.
_LEAST_MEAN_STEPS = 64
#: Rows that count for nothing in these means, as if they were the largest possible: a
#: few outliers must not hide that all others are small.
_OUTLIERS = 16
#: A fixed-point value must stay below this for rounding by float64 to be exact.
_FINEST_BITS = 51
#: The inverse of a step has to be finite.
_LEAST_EXPONENT = -900
_COARSE_BITS = np.array([COARSE_GRADIENT_BITS, COARSE_HESSIAN_BITS])
#: The cost of one step of a loop over rows, in cells of a histogram.
CELLS_PER_ROW = 8


class RowsBackend(Backend):
    """Labels, scores and gradients in memory, and a team of threads.

    Parameters
    ----------
    labels, weights
        (rows,) float64; weights may be None.
    scores
        (outputs, rows) float64: the margins to begin with; kept and changed.
    threads
        Size of the team; 0 or less means all processors.
    """

    def __init__(
        self,
        labels: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        scores: NDArray[np.float64],
        threads: int,
    ) -> None:
        self._team: Team = take_team(threads)
        self._closed = False
        self._labels, self._weights = labels, weights
        self._scores = scores
        outputs, rows = scores.shape
        self._n_rows = rows
        # float32 times a weight is not a float32.
        self._gradient_type = np.dtype(np.float32 if weights is None else np.float64)
        self._gradients = np.empty((outputs, rows), self._gradient_type)
        self._hessians = np.empty((outputs, rows), self._gradient_type)
        self._packed = np.empty(rows, np.int64)
        self._wide = np.empty((2, 0), np.int64)
        #: The number of each row's leaf among the leaves of the tree.
        self._leaf_of = np.empty(rows, np.uint32)

    @property
    def n_rows(self) -> int:
        return self._n_rows

    @property
    def n_outputs(self) -> int:
        return len(self._scores)

    def scores(self) -> NDArray[np.float64]:
        return self._scores.copy()

    def set_scores(self, scores: NDArray[np.float64]) -> None:
        self._scores[...] = scores

    def close(self) -> None:
        # A backend that is never closed lets go of its team. A lease would give the
        # team back from the garbage collector, when its pool has lost its threads.
        if not self._closed:
            self._closed = True
            give_back_team(self._team)

    def compute_gradients(self, objective: GradientSource) -> None:
        objective.write_gradients(
            self._team,
            self._scores,
            self._labels,
            self._weights,
            self._gradients,
            self._hessians,
        )
        self._may_pack = True

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        with np.errstate(over="ignore"):
            self._gradients[...] = gradients
            self._hessians[...] = hessians
        self._may_pack = bool((self._hessians >= 0.0).all())

    def _draw(self, sample: RowSample) -> NDArray[np.uint8]:
        taken = np.empty(self._n_rows, np.uint8)
        self._run_rows(
            draw_rows,
            self._n_rows,
            int(sample.rate * 2.0**32),
            np.uint64(sample.tree),
            np.uint64(0),
            np.uint64(sample.seed % 2**64),
            taken,
        )
        return taken

    def _run_rows(self, kernel: Any, rows: int, *arguments: Any) -> None:
        """Run a flat loop over rows."""
        members = self._team.members_for(CELLS_PER_ROW * rows)
        self._team.run(kernel, members, *arguments)

    def _quantise(self, output: int) -> None:
        """Turn the output's gradients into integers, coarse where that is enough."""
        self._output = output
        rows = self._n_rows
        gradients = self._gradients[output]
        hessians = self._hessians[output]
        tasks = -(-rows // TASK_ROWS)
        bits = np.dtype(f"i{self._gradient_type.itemsize}").type
        extent = np.empty((tasks, 2), bits)
        self._run_rows(
            find_extent,
            rows,
            gradients.view(bits),
            hessians.view(bits),
            bits(np.iinfo(bits).max),
            extent,
        )
        largest = extent.max(axis=0).view(self._gradient_type).astype(np.float64)
        if not np.isfinite(largest).all():
            raise DataError(
                "a gradient or hessian is not a finite float32 number: labels, "
                "weights or base margins are too large, or the learning rate makes "
                "training diverge; scale the labels or weights down, or lower "
                "learning_rate"
            )
        exponents = np.frexp(largest)[1]  # largest < 2**exponent
        fine = min(_FINEST_BITS, SUM_BITS - rows.bit_length())
        self._fine_steps = np.ldexp(1.0, np.maximum(exponents - fine, _LEAST_EXPONENT))
        self._steps = np.ldexp(
            1.0, np.maximum(exponents - _COARSE_BITS, _LEAST_EXPONENT)
        )
        magnitudes = np.empty((tasks, 2), np.int64)
        self._run_rows(
            quantise, rows, gradients, hessians, *(1.0 / self._steps),
            self._packed, magnitudes,
        )  # fmt: skip
        largest_steps = np.array([1 << COARSE_GRADIENT_BITS, 1 << COARSE_HESSIAN_BITS])
        means = (magnitudes.sum(axis=0) - _OUTLIERS * largest_steps) / rows
        enough = (means >= _LEAST_MEAN_STEPS) | (largest == 0.0)
        # A caller's hessian may be negative; the packed half has no sign for it.
        self._coarse = self._may_pack and bool(enough.all())
        if not self._coarse:
            if self._wide.shape[1] == 0:
                self._wide = np.empty((2, rows), np.int64)
            self._steps = self._fine_steps
            self._run_rows(
                widen, rows, gradients, hessians, *(1.0 / self._steps), self._wide
            )

    def _sum_leaf_of(self, n_leaves: int) -> NDArray[np.float64]:
        """Return the sums of gradients and hessians, (leaves, 2), by `_leaf_of`.

        Rows of the leaf numbered `n_leaves` are left out.
        """
        members = self._team.members_for(CELLS_PER_ROW * self._n_rows)
        sums = np.zeros((members, n_leaves + 1, 2), np.int64)
        self._team.run(
            sum_leaves,
            members,
            self._leaf_of,
            self._gradients[self._output],
            self._hessians[self._output],
            *(1.0 / self._fine_steps),
            sums,
        )
        return sums.sum(axis=0)[:-1] * self._fine_steps

    def _add_values(self, values: NDArray[np.float32]) -> None:
        """Add to each score the value of the row's leaf by `_leaf_of`."""
        self._run_rows(
            add_leaf_values,
            self._n_rows,
            self._leaf_of,
            values,
            self._scores[self._output],
        )
