"""Rows in memory with margins and gradients, whatever their features are stored in.

Backends without histograms derive from `MarginRows`. `LeafRows` are rows whose leaves
are known (refresh, line search), `LinearRows` those of gblinear.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import GradientSource, NoSplitGradients
from hornbeam.backends.quantisation import choose_scales
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.backends.row_state import RowState
from hornbeam.binning.layout import SparseColumns
from hornbeam.kernels.linear import (
    TASK_BINS,
    LinearColumns,
    LinearRules,
    descend,
    size_steps,
)
from hornbeam.kernels.team import Team, give_back_team

__all__ = ["LeafRows", "LinearRows", "MarginRows"]

Floats = NDArray[np.float64]

#: The cost of one stored entry in coordinate descent, in histogram bins.
_CELLS_PER_VALUE = 8


class MarginRows(NoSplitGradients):
    """Rows with margins and gradients in memory.

    Parameters
    ----------
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    margins
        (outputs, rows) float64: the initial margins; kept and updated in place.
    team
        The threads that work; given back by `close`.
    numbers
        Of the rows, which random draws depend on; None: they start at 0.
    """

    def __init__(
        self,
        targets: Floats,
        weights: Floats | None,
        margins: Floats,
        team: Team,
        numbers: RowNumbers | None = None,
    ) -> None:
        self._team, self._closed = team, False
        self._state = RowState(targets, weights, margins, team, numbers)
        self._gradient_ranges: Floats | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._state.n_rows

    @property
    def n_outputs(self) -> int:
        """Number of margins of a row."""
        return self._state.n_outputs

    def margins(self) -> Floats:
        """Return a copy of the margins, (outputs, rows)."""
        return self._state.margins.copy()

    def set_margins(self, margins: Floats) -> None:
        """Set these margins, (outputs, rows)."""
        self._state.margins[...] = margins

    def compute_gradients(self, objective: GradientSource) -> None:
        """Compute gradients from the objective at the current margins."""
        self._state.compute_gradients(objective)
        self._gradient_ranges = None

    def set_gradients(
        self, gradients: NDArray[np.floating], hessians: NDArray[np.floating]
    ) -> None:
        """Set these gradients, both of shape (outputs, rows)."""
        self._state.set_gradients(gradients, hessians)
        self._gradient_ranges = None

    def leaf_of(self) -> NDArray[np.uint32]:
        """Return the leaf number of each row; `n_leaves` if it is not in the sample."""
        return self._state.leaf_of

    def gradient_ranges(self) -> Floats:
        """Return `RowState.gradient_ranges`, computed once for all outputs."""
        if self._gradient_ranges is None:
            self._gradient_ranges = self._state.gradient_ranges()
        return self._gradient_ranges

    def close(self) -> None:
        """Give back the threads.

        Without `close` they are not given back: a lease would do that from the garbage
        collector, when the pool may have lost its threads.
        """
        if not self._closed:
            self._closed = True
            give_back_team(self._team)


class LeafRows(MarginRows):
    """Rows whose leaf in each tree is known: no tree is grown on them."""

    def sums(
        self, outputs: Sequence[int], nodes: NDArray[np.uint32], n_nodes: int
    ) -> Floats:
        """Return the sums of gradients and hessians of nodes, (outputs, nodes, 2).

        `nodes`, (rows,), is the node of each row. The scales are those of the leaf sums
        of a tree that is grown on these rows.
        """
        state = self._state
        scales = choose_scales(state.gradient_ranges()[:, :2], self.n_rows).wide
        state.leaf_of[:] = nodes
        sums = np.empty((len(outputs), n_nodes, 2))
        for own, output in zip(sums, outputs, strict=True):
            own_scales = scales[output : output + 1]
            state.set_tree(output, None, own_scales)
            own[:] = state.sum_leaves(n_nodes)[0] * own_scales
        return sums


class LinearRows(MarginRows):
    """Rows of a linear model: coordinate descent on their gradients.

    Parameters
    ----------
    columns
        The features, and a column of ones for the bias.
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
        self._parts = np.empty((-(-longest // TASK_BINS), 2))
        self._threads = team.threads_for(_CELLS_PER_VALUE * columns.rows.size)

    def begin(self, output: int, rules: LinearRules) -> None:
        """Begin with the gradients of one output."""
        self._gradients = self._state.gradients[output].astype(np.float64)
        self._hessians = self._state.hessians[output].astype(np.float64)
        self._rules = rules

    def sizes(self, weights: NDArray[np.float32]) -> Floats:
        """Return the size of the next update of each feature's weight, (features,)."""
        columns, sizes = self._columns, np.empty(self.n_features)
        self._team.run(
            size_steps,
            self._threads,
            LinearColumns(columns.starts, columns.rows, columns.values),
            self._rules,
            self._gradients,
            self._hessians,
            weights,
            sizes,
        )
        return sizes

    def descend(self, order: NDArray[np.int64], weights: NDArray[np.float32]) -> None:
        """Update weights in this order; the last weight is the bias."""
        columns = self._columns
        self._team.run(
            descend,
            min(self._threads, len(self._parts)),
            order,
            LinearColumns(columns.starts, columns.rows, columns.values),
            self._rules,
            self._hessians,
            self._parts,
            self._gradients,
            weights,
        )
