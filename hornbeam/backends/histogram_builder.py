"""Builds gradient histograms of nodes from bins in memory."""

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

#: Packed histogram bins of one task: what fits in the second-level cache.
_SCRATCH_BINS = 1 << 16
_NO_WIDE = np.empty((2, 0), np.int64)


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
        self._slabs = np.zeros((5 * team.size, 2, self._n_bins), np.int64)
        # Columns of uint8 bins have the same size, so that kernels can locate them.
        self._packed_bins = stored.table["codes"].copy()
        if bin_type.itemsize == 1:
            self._packed_bins[:] = BYTE_CELLS
        most_packed = max(_SCRATCH_BINS, int(self._packed_bins.max()))
        bins = min(most_packed, int(self._packed_bins.sum()))
        self._scratch = np.zeros((team.size, bins), np.int64)
        #: The features of the tree, none before the first.
        self._chosen = np.empty(0, np.uint64)
        self._lengths = np.zeros(2, np.int64)
        self._ones = np.empty(0, np.int64)

    def choose(self, features: NDArray[np.uint64]) -> None:
        """Use the columns of these features, and assign them to tasks."""
        if features is self._chosen or np.array_equal(features, self._chosen):
            return
        self._chosen = features
        columns = np.unique(self._column_of[features])
        self._columns = columns.astype(np.uint64)
        bins = self._packed_bins[columns]
        ends = np.cumsum(bins)
        blocks = [0]
        while blocks[-1] < columns.size:
            begin = blocks[-1]
            most = int(ends[begin] - bins[begin]) + self._scratch.shape[1]
            blocks.append(int(np.searchsorted(ends, most, side="right")))
        self._blocks = np.array(blocks)
        first = np.repeat(self._blocks[:-1], np.diff(self._blocks))
        self._starts = (ends - bins - (ends - bins)[first]).astype(np.uint64)

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
        """Write the histogram of each node to its slot, or `add` to what is there.

        `by_row` are the bins, (rows * columns,), `packed` and `wide` the gradients as
        in `GradientColumn`. Histograms are (slots, parts, bins); if they have a third
        part, rows are counted in it.
        """
        blocks = self._blocks.size - 1
        tasks = np.empty(((nodes.size + len(self._slabs)) * blocks, 7), np.int64)
        joins = np.empty((nodes.size * (self._n_bins // JOIN_CELLS + 1), 5), np.int64)
        threads = plan_histograms(
            nodes,
            slots,
            rows.table,
            self._team.size,
            self._blocks,
            self._n_bins,
            len(histograms),
            add,
            tasks,
            joins,
            self._lengths,
        )
        pairs = [(packed, wide, 0)]
        if histograms.shape[1] > 2:
            # Row counts are the hessians of pairs (0, 1), written to parts 1 and 2; the
            # gradients of the rows are written to parts 0 and 1 afterwards.
            pairs.insert(0, (*self.unit_hessians(rows.rows.shape[1]), 1))
        columns = BinColumns(
            by_row, self._columns, self._starts, self._table, self._spread
        )
        for own_packed, own_wide, first in pairs:
            self._team.run(
                build_histograms,
                threads,
                tasks[: self._lengths[0]],
                joins[: self._lengths[1]],
                columns,
                rows.rows,
                QuantisedGradients(own_packed, own_wide),
                self._scratch,
                HistogramSlots(histograms, self._slabs, first),
            )

    def unit_hessians(self, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return packed pairs of gradient 0 and hessian 1 for each row."""
        if self._ones.size < rows:
            self._ones = np.ones(rows, np.int64)
        return self._ones[:rows], _NO_WIDE
