"""Grows whole trees of the stored entries of rows, each in one call of a kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.entry_tree_grower import (
    EntryTreeGrower,
    EntryTreeSearch,
    TreeCall,
)
from hornbeam.backends.interface import GrownTree, GrowthLimits
from hornbeam.backends.row_state import NO_ROWS
from hornbeam.binning.layout import SparseBins
from hornbeam.kernels.bins import Bins
from hornbeam.kernels.layout import SPLIT_DTYPE
from hornbeam.kernels.sampling import ColumnDraws
from hornbeam.kernels.sparse import (
    MOST_NODES,
    SparseEntries,
    SparseHistograms,
    SparseScratch,
)
from hornbeam.kernels.sparse_columns import SparseOutputs
from hornbeam.kernels.sparse_tree import (
    CELLS_PER_ENTRY,
    RowEntries,
    SparseTreeBuffers,
    SparseTreeRows,
    grow_sparse_tree,
)
from hornbeam.kernels.team import Team
from hornbeam.kernels.tree_tables import NEXT, GradientColumns, TreeTables

__all__ = ["SparseTreeGrower"]

#: If the nodes have fewer rows than one in this many, their entries are gathered before
#: the search, which costs as much as searching three times as many entries.
_GATHER_ONE_IN = 4
#: The most histograms that a tree has memory for. With all of them nodes of more than a
#: sixteenth of the rows have one.
_SLOTS = 15
#: The most bytes of those of multi-output trees.
_HISTOGRAM_BYTES = 1 << 30
#: No gradient columns.
_NO_COLUMNS = GradientColumns(
    np.empty((0, 0), np.int64), np.empty((0, 2, 0), np.int64), np.empty(0, np.uint8)
)
_Gathering = tuple[
    NDArray[np.uint32],
    SparseEntries,
    NDArray[np.int64],
    NDArray[np.uint32],
    NDArray[np.uint8],
    NDArray[np.uint16],
]


class SparseTreeGrower(EntryTreeGrower):
    """Memory for growing trees of the same rows, one after the other.

    Parameters
    ----------
    bins
        Of the rows.
    n_rows
        Their number.
    team
        The threads that work.
    max_histograms
        Maximum number of histograms; None: as many as are of use.
    """

    def __init__(
        self, bins: SparseBins, n_rows: int, team: Team, max_histograms: int | None
    ) -> None:
        super().__init__(bins.n_bins.size, n_rows, MOST_NODES, team)
        self._bins = bins
        self._marks = np.empty(n_rows, np.int64)
        self._most_entries = int(np.diff(bins.starts).max())
        self._most_bins = int(bins.n_bins.max())
        self._entries = SparseEntries(bins.starts, bins.rows, *Bins.of(bins.bins))
        no_bins = Bins.of(bins.bins[:0])
        none = SparseEntries(np.empty(0, np.int64), NO_ROWS, *no_bins)
        self._by_row = RowEntries(*none)
        #: The memory of `SparseTreeBuffers` that gathers entries.
        self._gathering: _Gathering = (
            NO_ROWS,
            none,
            np.empty(0, np.int64),
            np.empty((2, 0), np.uint32),
            *no_bins,
        )
        self._wide = np.empty((team.size, 2, 0), np.int64)
        self._bounds = np.concatenate([[0], np.cumsum(bins.n_bins)])
        #: Histograms: (slots, parts, bins), of multi-output trees (columns, slots, 2,
        #: bins).
        self._sums: NDArray[np.int64] = np.empty((0, 0, 0), np.int64)
        #: The gradient columns of multi-output trees, and those with bounds of weights.
        self._columns_of_tree = 0, 0
        self._most_slots = min(_SLOTS, max_histograms or _SLOTS)
        #: (slots,): which of them no node has.
        self._free = np.empty(0, np.uint8)
        self._outputs: SparseOutputs | None = None
        self._pairs = np.empty((0, 0, 1), np.int64)

    def grow(
        self,
        search: EntryTreeSearch,
        limits: GrowthLimits,
        draws: ColumnDraws,
        learning_rate: float | None,
    ) -> GrownTree:
        if limits.max_depth != 1 and self._by_row.pointers.size == 0:
            self._list_by_row()
        self._make_histograms(search)
        return super().grow(search, limits, draws, learning_rate)

    def _make_histograms(self, search: EntryTreeSearch) -> None:
        """Allocate histograms for trees of this kind, if the last one was of another.

        The operating system allocates pages on first write.
        """
        bins, columns = self._bounds[-1], search.columns
        is_limited = search.limits is not None
        slots, bounded = self._most_slots, columns * is_limited
        shape: tuple[int, ...] = slots, 3 if is_limited else 2, bins
        if columns > 0:
            slots = max(1, min(slots, _HISTOGRAM_BYTES // max(1, 16 * bins * columns)))
            shape = columns + (is_limited and search.counts_rows), slots, 2, bins
        if self._sums.shape != shape or self._columns_of_tree != (columns, bounded):
            self._sums, self._free = np.empty(shape, np.int64), np.ones(slots, np.uint8)
            self._columns_of_tree = columns, bounded
            self._buffers = None

    def _run(self, search: EntryTreeSearch, call: TreeCall, tables: TreeTables) -> None:
        entries, outputs = self._entries, self._outputs
        if self._state[NEXT] == 0:
            self.node_of[:] = 0
        wide, gradients = 0, None
        if isinstance(search.gradients, GradientColumns):
            assert outputs is not None
            pairs = self._pairs_of(search.gradients)
            outputs = outputs._replace(
                gradients=search.gradients, pairs=pairs, scales=search.scales
            )
        else:
            gradients = search.gradients
            wide = self._most_entries if gradients.wide.size > 0 else 0
        if self._wide.shape[2] != wide:
            self._wide = np.empty((self._team.size, 2, wide), np.int64)
        buffers = self._buffers
        self._team.run(
            grow_sparse_tree,
            self._team.threads_for(
                max(1, search.columns) * CELLS_PER_ENTRY * entries.rows.size
            ),
            SparseTreeRows(
                entries,
                self._by_row,
                search.taken,
                self.node_of,
            ),
            gradients,
            outputs,
            call.features,
            call.rules,
            call.limits,
            _GATHER_ONE_IN,
            tables,
            buffers._replace(scratch=buffers.scratch._replace(wide=self._wide)),
            call.leaves,
        )

    def _pairs_of(self, gradients: GradientColumns) -> NDArray[np.int64]:
        """Return memory for these gradients row by row."""
        columns, rows = gradients.packed.shape
        shape = rows, columns, 2 if gradients.is_wide.any() else 1
        if self._pairs.shape != shape:
            self._pairs = np.empty(shape, np.int64)
        return self._pairs

    def _list_by_row(self) -> None:
        """List the entries by row, and allocate memory for gathering some of them."""
        own = self._bins
        pointers, features, bins = own.by_row()
        self._by_row = RowEntries(pointers, features, *Bins.of(bins))
        # The operating system allocates pages on first write.
        self._gathering = (
            np.empty(self.node_of.size, np.uint32),
            SparseEntries(
                np.empty_like(own.starts),
                np.empty_like(own.rows),
                *Bins.of(np.empty_like(own.bins)),
            ),
            np.empty(self._most_bins, np.int64),
            np.empty((2, own.rows.size), np.uint32),
            *Bins.of(np.empty_like(own.bins)),
        )
        self._buffers = None

    def _new_buffers(
        self, size: int, allowed: NDArray[np.uint8], searched: int
    ) -> SparseTreeBuffers:
        own, team = self._bins, self._team.size
        columns, bounded = self._columns_of_tree
        sums, self._outputs = self._sums, None
        if columns > 0:
            counted = len(sums)
            self._outputs = SparseOutputs(
                _NO_COLUMNS,
                self._pairs,
                np.empty((columns, 2)),
                np.empty((searched, counted, 2), np.int64),
                np.empty((searched, 2)),
                np.empty((searched, columns)),
                sums,
                np.zeros((team, counted, 1, 2, self._most_bins), np.int64),
            )
            sums = sums[0, :0]
        return SparseTreeBuffers(
            np.empty(size, np.int64),
            np.empty(size, np.int64),
            np.empty(size, SPLIT_DTYPE),
            np.empty(size, np.uint32),
            np.empty(size, np.uint32),
            np.empty((max(1, columns), team, searched + 1, 3), np.int64),
            np.empty((searched, 3), np.int64),
            allowed,
            np.empty((3, own.n_bins.size), np.uint64),
            self._marks,
            SparseHistograms(
                sums,
                self._bounds,
                SparseEntries(own.starts[:0], own.rows[:0], *Bins.of(own.bins[:0])),
                *np.empty((3, searched + 1), np.int64),
            ),
            self._free,
            *self._gathering,
            SparseScratch(
                np.empty((team, 2, self._most_entries), np.int64),
                self._wide,
                np.empty((team, searched + 1), np.int64),
                np.empty((team, 8, self._most_bins + 1)),
            ),
            np.empty((team, searched), SPLIT_DTYPE),
            np.empty((team, searched, bounded, 2)),
            self._sync,
        )
