"""The backend of entries that are stored feature by feature, in memory."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.entry_tree_grower import EntryTreeGrower, EntryTreeSearch
from hornbeam.backends.interface import (
    Backend,
    Constraints,
    GrownTree,
    GrowthLimits,
    RowSample,
    SplitParams,
)
from hornbeam.backends.margin_rows import MarginRows
from hornbeam.backends.row_loop import run_rows
from hornbeam.kernels.histogram import QuantisedGradients
from hornbeam.kernels.partition import look_up_leaves
from hornbeam.kernels.sampling import ColumnDraws
from hornbeam.kernels.tree_tables import GradientColumns

__all__ = ["EntryBackend"]

_EVERY_ROW = np.empty(0, np.uint8)


class EntryBackend(MarginRows, Backend):
    """Stored entries, and a grower that knows the node of each row.

    The parameters are those of `MarginRows`.
    """

    _grower: EntryTreeGrower
    #: In fixed point, and the value of one unit of their sums and of those of leaves:
    #: see `EntryTreeSearch`.
    _gradients: QuantisedGradients | GradientColumns
    _scales: NDArray[np.float64]
    _leaf_scales: NDArray[np.float64]

    def begin_tree(
        self,
        output: int,
        params: SplitParams,
        features: NDArray[np.uint64],
        sample: RowSample | None,
    ) -> None:
        self._output, self._params, self._chosen = output, params, features
        self._begin(output, params, sample)
        taken = self._state.draw_sample()
        self._taken = _EVERY_ROW if taken is None else taken

    @abstractmethod
    def _begin(
        self, output: int, params: SplitParams, sample: RowSample | None
    ) -> None:
        """Begin a tree: set its gradients and their scales, and those of leaves."""

    def grow(
        self,
        limits: GrowthLimits,
        draws: ColumnDraws,
        learning_rate: float | None,
        constraints: Constraints | None = None,
    ) -> GrownTree | None:
        if limits.symmetric:
            return None  # there are no histograms, see `find_level_split`
        own = constraints or Constraints()
        of_nodes = own.limits(self._params, self.n_features)
        search = EntryTreeSearch(
            self._gradients,
            self._taken,
            self._state.leaves,
            self._chosen,
            self._scales,
            self.n_outputs if self.multi_output_columns > 0 else 1,
            self._leaf_scales,
            self._params.rules,
            self._params.counts_rows,
            of_nodes,
            constraints,
        )
        return self._grower.grow(search, limits, draws, learning_rate)

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.float64]:
        self._grower.leaf_of_node[nodes] = leaves
        self._mark_leaves(self._taken, n_leaves)
        sums = self._state.sum_leaves(n_leaves) * self._leaf_scales[:, None]
        return sums if self.multi_output_columns > 0 else sums[0]

    def _mark_leaves(self, taken: NDArray[np.uint8], none: int) -> None:
        """Write the leaf of each row, or `none` if it is not taken."""
        grower = self._grower
        found = grower.leaf_of_node, grower.node_of, taken, none, self._state.leaf_of
        run_rows(self._team, look_up_leaves, self.n_rows, *found)

    def _send_left_out(self) -> None:
        """Send the rows that are not in the sample to the leaves, if they are not."""

    def _mark_left_out(self) -> None:
        if self._taken.size > 0:
            self._send_left_out()
            self._mark_leaves(_EVERY_ROW, 0)

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        self._mark_left_out()
        self._state.add_leaf_values(self._output, values)
