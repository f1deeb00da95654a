"""Rows of which only the stored entries have bins, for histograms (vector leaves).

Trees of one output are grown by `SparseBackend`, without histograms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.memory_rows import MemoryRows
from hornbeam.backends.row_loop import run_rows
from hornbeam.backends.row_state import NO_ROWS
from hornbeam.binning.layout import HistogramLayout, SparseBins
from hornbeam.kernels.histogram import QuantisedGradients
from hornbeam.kernels.partition import look_up_leaves
from hornbeam.kernels.sparse import (
    MOST_NODES,
    SparseEntries,
    mark_rows,
    send_rows,
)
from hornbeam.kernels.sparse_histogram import SparseNodes, build_sparse_histograms

__all__ = ["SparseRows"]

#: Tasks per thread, so that threads that finish early take more of them.
_TASKS_PER_THREAD = 16
#: The cost of adding a stored entry to a histogram, in histogram bins.
_BINS_PER_ENTRY = 8
_EVERY_ROW = np.empty(0, np.uint8)
_NO_WIDE = np.empty((2, 0), np.int64)


class SparseRows(MemoryRows):
    """Stored entries feature by feature, and the node of each row.

    The parameters are those of `MemoryRows`.
    """

    def _use_bins(self, bins: SparseBins) -> HistogramLayout:
        self._entries = SparseEntries(bins.starts, bins.rows, bins.bins)
        has_missing = np.diff(bins.starts) < self.n_rows
        ends = np.cumsum(bins.n_bins + has_missing)
        self._bounds, self._n_bins = np.concatenate([[0], ends]), bins.n_bins
        self._node_of = np.empty(self.n_rows, np.uint32)
        self._words = np.empty(self.n_rows, np.int64)
        return HistogramLayout.unbundled(bins.n_bins, self._bounds)

    def _begin(
        self, features: NDArray[np.uint64], taken: NDArray[np.uint8] | None
    ) -> NDArray[np.uint32]:
        self._chosen = features
        self._taken = _EVERY_ROW if taken is None else taken
        self._node_of[:] = 0
        self._n_nodes = 1
        return NO_ROWS

    def sizes(self, nodes: NDArray[np.intp]) -> None:
        return None

    def build_histograms(
        self,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
    ) -> None:
        columns = [
            QuantisedGradients(column.packed, column.wide)
            for column in self._state.columns
        ]
        if len(histograms) > len(columns):  # rows are counted as hessians of 1
            columns.append(QuantisedGradients(np.ones(self.n_rows, np.int64), _NO_WIDE))
        for first in range(0, nodes.size, MOST_NODES):
            batch = slice(first, first + MOST_NODES)
            for own, gradients in zip(histograms, columns, strict=True):
                self._build(nodes[batch], slots[batch], gradients, own)

    def _build(
        self,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        gradients: QuantisedGradients,
        histograms: NDArray[np.int64],
    ) -> None:
        """Write the histograms of one gradient column."""
        place = np.full(self._n_nodes, nodes.size, np.uint32)
        place[nodes] = np.arange(nodes.size)
        threads = self._team.threads_for(8 * self.n_rows)
        sums = np.empty((threads, nodes.size + 1, 3), np.int64)
        marked = self._taken, *gradients, self._words, sums
        self._team.run(mark_rows, threads, self._node_of, place, nodes.size, *marked)
        entries, chosen = self._entries, self._chosen
        threads = self._team.threads_for(_BINS_PER_ENTRY * entries.rows.size)
        self._team.run(
            build_sparse_histograms,
            threads,
            entries,
            SparseNodes(self._words, gradients, sums.sum(axis=0)[:-1], slots),
            chosen,
            max(1, chosen.size // (threads * _TASKS_PER_THREAD)),
            self._bounds,
            self._n_bins,
            histograms,
        )

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        after = np.arange(self._n_nodes, dtype=np.uint32)
        after[nodes] = left + (splits["missing_left"] == 0)
        moved = self._entries, splits, left, after, self._node_of
        run_rows(self._team, send_rows, self.n_rows, *moved)
        self._n_nodes = int(left[-1]) + 2

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.int64]:
        self._leaf_of_node = np.zeros(self._n_nodes, np.uint32)
        self._leaf_of_node[nodes] = leaves
        self._mark_leaves(self._taken, n_leaves)
        return self._state.sum_leaves(n_leaves)

    def _mark_leaves(self, taken: NDArray[np.uint8], none: int) -> None:
        """Write the leaf of each row, or `none` if it is not taken."""
        found = self._leaf_of_node, self._node_of, taken, none, self._state.leaf_of
        run_rows(self._team, look_up_leaves, self.n_rows, *found)

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        if self._taken.size > 0:
            self._mark_leaves(_EVERY_ROW, 0)
        self._state.add_leaf_values(self._tree_output, values)
