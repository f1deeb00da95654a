"""Summing the rows of nodes into histograms, from codes in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.row_partition import RowPartition
from hornbeam.binning.layout import HistogramLayout, RowColumns
from hornbeam.kernels.histogram import (
    BinColumns,
    HistogramSlots,
    QuantisedGradients,
    build_histograms,
)
from hornbeam.kernels.layout import BYTE_CELLS, JOIN_CELLS
from hornbeam.kernels.plan import plan_histograms
from hornbeam.kernels.team import Team

__all__ = ["HistogramBuilder"]

#: Packed cells of one task: what fits in the second-level cache.
_SCRATCH_CELLS = 1 << 16
_NO_WIDE = np.empty((2, 0), np.int64)


class HistogramBuilder:
    """What sums rows into histograms.

    Parameters
    ----------
    layout
        What is in a histogram.
    code_type
        uint8 or uint16.
    team
        The threads that work.
    row_columns
        Which columns the codes have; None: those of the layout.
    """

    def __init__(
        self,
        layout: HistogramLayout,
        code_type: np.dtype[Any],
        team: Team,
        row_columns: RowColumns | None = None,
    ) -> None:
        self._team = team
        stored = RowColumns.unpacked(layout) if row_columns is None else row_columns
        self._table, self._spread = stored.table, stored.histogram_bins
        self._column_of = stored.packed_in[layout.column_of]
        self._cells = layout.n_histogram_bins
        # Pages of memory are only taken when sums are written to them. Zeros, because
        # joins also go over the cells of columns that a tree does not use.
        self._slabs = np.zeros((5 * team.size, 2, self._cells), np.int64)
        # Bytes have as many cells each, so that kernels know where one is.
        self._packed_cells = stored.table["codes"].copy()
        if code_type.itemsize == 1:
            self._packed_cells[:] = BYTE_CELLS
        most_packed = max(_SCRATCH_CELLS, int(self._packed_cells.max()))
        cells = min(most_packed, int(self._packed_cells.sum()))
        self._scratch = np.zeros((team.size, cells), np.int64)
        #: The features of the tree, none before the first.
        self._chosen = np.empty(0, np.uint64)
        self._lengths = np.zeros(2, np.int64)
        self._ones = np.empty(0, np.int64)

    def choose(self, features: NDArray[np.uint64]) -> None:
        """Take the columns of these features, and say which task sums which."""
        if features is self._chosen or np.array_equal(features, self._chosen):
            return
        self._chosen = features
        columns = np.unique(self._column_of[features])
        self._columns = columns.astype(np.uint64)
        cells = self._packed_cells[columns]
        ends = np.cumsum(cells)
        blocks = [0]
        while blocks[-1] < columns.size:
            begin = blocks[-1]
            most = int(ends[begin] - cells[begin]) + self._scratch.shape[1]
            blocks.append(int(np.searchsorted(ends, most, side="right")))
        self._blocks = np.array(blocks)
        first = np.repeat(self._blocks[:-1], np.diff(self._blocks))
        self._starts = (ends - cells - (ends - cells)[first]).astype(np.uint64)

    def build(
        self,
        rows: RowPartition,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
        by_row: NDArray[Any],
        packed: NDArray[np.int64],
        wide: NDArray[np.int64],
        *,
        add: bool = False,
    ) -> None:
        """Sum the rows of each node into its slot, cleared first unless told to `add`.

        `by_row` are the codes, (rows * columns,), `packed` and `wide` as in `RowState`.
        If histograms have a third part, rows are counted in it.
        """
        blocks = self._blocks.size - 1
        tasks = np.empty(((nodes.size + len(self._slabs)) * blocks, 7), np.int64)
        joins = np.empty((nodes.size * (self._cells // JOIN_CELLS + 1), 5), np.int64)
        members = plan_histograms(
            nodes,
            slots,
            rows.table,
            self._team.size,
            self._blocks,
            self._cells,
            len(histograms),
            add,
            tasks,
            joins,
            self._lengths,
        )
        pairs = [(packed, wide, 0)]
        if histograms.shape[1] > 2:
            # A row is the pair of 0 and 1; the zeros come where the hessians then do.
            pairs.insert(0, (*self.one_each(rows.rows.shape[1]), 1))
        columns = BinColumns(
            by_row, self._columns, self._starts, self._table, self._spread
        )
        for own_packed, own_wide, first in pairs:
            self._team.run(
                build_histograms,
                members,
                tasks[: self._lengths[0]],
                joins[: self._lengths[1]],
                columns,
                rows.rows,
                QuantisedGradients(own_packed, own_wide),
                self._scratch,
                HistogramSlots(histograms, self._slabs, first),
            )

    def one_each(self, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return packed pairs of gradient 0 and hessian 1, made on first use."""
        if self._ones.size < rows:
            self._ones = np.ones(rows, np.int64)
        return self._ones[:rows], _NO_WIDE
