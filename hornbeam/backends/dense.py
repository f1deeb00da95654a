"""Rows whose bins are in memory, and gradient histograms of dense bins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import LeafFeatures, LeafSlopes, RowLoss
from hornbeam.backends.memory_rows import MemoryRows
from hornbeam.backends.round_grower import RoundBuffers, RoundCalls
from hornbeam.backends.row_partition import RowPartition
from hornbeam.backends.row_state import NO_ROWS
from hornbeam.backends.tree_grower import TreeRoot
from hornbeam.binning.layout import DenseBins, HistogramLayout, RowColumns
from hornbeam.kernels.bins import Bins
from hornbeam.kernels.histogram import (
    BinColumns,
    HistogramBuffers,
    HistogramSlots,
    QuantisedGradients,
    build_histograms,
)
from hornbeam.kernels.layout import ADD, BYTE_BINS, JOIN_BINS, REPLACE
from hornbeam.kernels.linear_leaves import NodeTerms
from hornbeam.kernels.plan import plan_histograms
from hornbeam.kernels.team import Team
from hornbeam.kernels.tree_tables import TreeRows

__all__ = ["DenseRows", "HistogramBuilder"]

#: Most columns of one task (measured: with 30 to 40 columns of bytes most of the sums
#: are found in the first-level cache; fewer read rows and gradients more often).
_TASK_COLUMNS = 40
#: Most packed histogram bins of one task.
_SCRATCH_BINS = 1 << 16
_NO_WIDE = np.empty((2, 0), np.int64)
_NO_BINS = Bins.of(np.empty((0, 0), np.uint8))
_NO_UNITS = QuantisedGradients(np.empty(0, np.int64), _NO_WIDE)


class DenseRows(MemoryRows):
    """Bins, gradients and margins in memory.

    The parameters are those of `MemoryRows`.
    """

    def _use_bins(self, bins: DenseBins) -> HistogramLayout:
        self._by_feature, self._by_row = Bins.of(bins.by_feature), Bins.of(bins.by_row)
        layout = bins.layout
        every_row = np.arange(self.n_rows, dtype=np.uint32)
        both_sides = np.empty((2, self.n_rows), np.uint32)
        self._partition = RowPartition(
            layout.feature_table, layout.n_set_words, every_row, both_sides, self._team
        )
        kind = bins.by_row.dtype
        self._builder = HistogramBuilder(layout, kind, self._team, bins.row_columns)
        return layout

    def _begin(
        self, features: NDArray[np.uint64], taken: NDArray[np.uint8] | None
    ) -> NDArray[np.uint32]:
        if self._builder.choose(features):
            #: Of the tree.
            self._columns = self._builder.columns(self._by_row, self._by_feature)
            self._tree_rows = TreeRows(self._columns, self._partition.rows)
        if taken is None:
            return self._partition.begin_with_all()
        self._partition.begin_tree(taken)
        return NO_ROWS

    def begin_rounds(self, loss: RowLoss, buffers: RoundBuffers) -> RoundCalls | None:
        if self._tree_bins is not None or not self._partition.has_all():
            return None
        numbers = self._partition.begin_with_all()
        return self._state.begin_rounds(loss, buffers, numbers)

    def end_rounds(
        self, calls: RoundCalls, leaf_values: NDArray[np.float32] | None
    ) -> None:
        self._state.end_rounds(calls, leaf_values)

    def sizes(self, nodes: NDArray[np.intp]) -> NDArray[np.int64]:
        self._partition.move(self._by_feature)
        return self._partition.sizes(nodes)

    def build_histograms(
        self,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
    ) -> None:
        self._partition.move(self._by_feature)
        build, rows, bins = self._builder.build, self._partition, self._columns
        columns = self._state.columns
        for number, column in enumerate(columns):
            own = histograms[number]
            build(rows, nodes, slots, own, bins, column.packed, column.wide)
        if len(histograms) > len(columns):
            packed, wide = self._builder.unit_hessians(self.n_rows)
            build(rows, nodes, slots, histograms[-1], bins, packed, wide)

    def root(self, *, counts_rows: bool) -> TreeRoot:
        builder, column = self._builder, self._state.columns[0]
        gradients, columns, outputs = None, None, 1
        if self.multi_output_columns > 0:
            columns, outputs = self._state.quantised_columns(), self.n_outputs
        else:
            gradients = column.quantised
        return TreeRoot(
            self._tree_rows,
            gradients,
            columns,
            self._state.leaves,
            self._partition,
            builder.blocks,
            builder.slabs,
            builder.buffers,
            builder.unit_hessians(self.n_rows) if counts_rows else _NO_UNITS,
            outputs,
        )

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        self._partition.apply_splits(nodes, splits, sets, left)

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.int64]:
        leaf_of = self._state.leaf_of
        self._partition.mark_leaves(nodes, leaves, n_leaves, self._by_feature, leaf_of)
        return self._state.sum_leaves(n_leaves)

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        self._partition.mark_left_out(self._by_feature, self._state.leaf_of)
        self._state.add_leaf_values(self._tree_output, values)

    def regress_leaves(
        self, features: LeafFeatures, linear_lambda: float
    ) -> LeafSlopes:
        return self._state.regress_leaves(features, linear_lambda)

    def add_linear_leaves(
        self, data: NDArray[Any], values: NDArray[np.float32], leaves: NodeTerms
    ) -> None:
        self._partition.mark_left_out(self._by_feature, self._state.leaf_of)
        self._state.add_linear_leaves(self._tree_output, data, values, leaves)


class HistogramBuilder:
    """Builds gradient histograms of nodes.

    Parameters
    ----------
    layout
        Of the histograms.
    bin_type
        Type of the bins: uint8 or uint16.
    team
        The threads that work.
    row_columns
        The columns of the bins by row; None: those of the layout.

    Attributes
    ----------
    slabs
        (slabs, 2, bins) int64: for partial sums of nodes of many rows.
    buffers
        Memory of the threads that add rows.
    blocks
        (blocks + 1,) int64: the first columns of tasks, and the end.
    """

    def __init__(
        self,
        layout: HistogramLayout,
        bin_type: np.dtype[Any],
        team: Team,
        row_columns: RowColumns | None = None,
    ) -> None:
        self._team = team
        stored = RowColumns.unpacked(layout) if row_columns is None else row_columns
        self._table, self._spread = stored.table, stored.histogram_bins
        self._column_of = stored.packed_in[layout.column_of]
        self._n_bins = layout.n_histogram_bins
        # The operating system allocates pages on first write. Zeros, because joins also
        # add the bins of columns that a tree does not use.
        self.slabs = np.zeros((5 * team.size, 2, self._n_bins), np.int64)
        # Columns of uint8 bins have the same size, so that kernels can locate them.
        self._packed_bins = stored.table["n_bins"].copy()
        if bin_type.itemsize == 1:
            self._packed_bins[:] = BYTE_BINS
        most_packed = max(_SCRATCH_BINS, int(self._packed_bins.max()))
        bins = min(most_packed, int(self._packed_bins.sum()))
        # Only bytes are turned into columns.
        turned = min(len(stored.table), _TASK_COLUMNS) * (bin_type.itemsize == 1)
        self.buffers = HistogramBuffers.of(team.size, bins, turned)
        #: The features of the tree, none before the first.
        self._chosen = np.empty(0, np.uint64)
        self._lengths = np.zeros(2, np.int64)
        self._ones = np.empty(0, np.int64)

    def choose(self, features: NDArray[np.uint64]) -> bool:
        """Use the columns of these features, and assign them to tasks.

        Returns whether they are others than before.
        """
        if features is self._chosen or np.array_equal(features, self._chosen):
            return False
        self._chosen = features
        columns = np.flatnonzero(np.bincount(self._column_of[features]))
        self._columns = columns.astype(np.uint64)
        self._cells = self._table["cell"][columns]
        bins = self._packed_bins[columns]
        ends = np.cumsum(bins)
        n_tasks = -(-columns.size // _TASK_COLUMNS)
        most_columns = -(-columns.size // max(n_tasks, 1))
        blocks = [0]
        while blocks[-1] < columns.size:
            begin = blocks[-1]
            most = int(ends[begin] - bins[begin]) + self.buffers.sums.shape[1]
            fitting = int(np.searchsorted(ends, most, side="right"))
            blocks.append(min(fitting, begin + most_columns))
        self.blocks = np.array(blocks)
        first = np.repeat(self.blocks[:-1], np.diff(self.blocks))
        self._starts = ends - bins - (ends - bins)[first]
        return True

    def build(
        self,
        rows: RowPartition,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
        columns: BinColumns,
        packed: NDArray[np.int64],
        wide: NDArray[np.int64],
        *,
        add: bool = False,
    ) -> None:
        """Write the histogram of each node to its slot, or `add` to what is there.

        `columns` are those of the tree, `packed` and `wide` the gradients as in
        `GradientColumn`. Histograms are (slots, parts, bins); if they have a third
        part, rows are counted in it.
        """
        blocks = self.blocks.size - 1
        most_tasks = (nodes.size + 9 * self._team.size) * blocks
        tasks = np.empty((most_tasks, 7), np.int64)
        joins = np.empty((nodes.size * (self._n_bins // JOIN_BINS + 1), 6), np.int64)
        threads = plan_histograms(
            nodes,
            slots,
            rows.table,
            self._team.size,
            False,
            self.blocks,
            self._n_bins,
            len(histograms),
            ADD if add else REPLACE,
            tasks,
            joins,
            self._lengths,
        )
        pairs = [(packed, wide, 0)]
        if histograms.shape[1] > 2:
            # Row counts are the hessians of pairs (0, 1), written to parts 1 and 2; the
            # gradients of the rows are written to parts 0 and 1 afterwards.
            pairs.insert(0, (*self.unit_hessians(rows.rows.shape[1]), 1))
        for own_packed, own_wide, first in pairs:
            self._team.run(
                build_histograms,
                threads,
                tasks[: self._lengths[0]],
                joins[: self._lengths[1]],
                columns,
                rows.rows,
                QuantisedGradients(own_packed, own_wide),
                self.buffers,
                HistogramSlots(histograms, self.slabs, first),
            )

    def columns(self, by_row: Bins, by_feature: Bins = _NO_BINS) -> BinColumns:
        """Return the chosen columns of these bins.

        `by_row` is (rows * columns,), `by_feature` (columns, rows), where no column is
        packed; without it consecutive rows are read by row, too.
        """
        return BinColumns(
            *by_row,
            self._columns,
            self._starts,
            self._cells,
            self._table,
            self._spread,
            *by_feature,
        )

    def unit_hessians(self, rows: int) -> QuantisedGradients:
        """Return packed pairs of gradient 0 and hessian 1 for each row."""
        if self._ones.size < rows:
            self._ones = np.ones(rows, np.int64)
        return QuantisedGradients(self._ones[:rows], _NO_WIDE)
