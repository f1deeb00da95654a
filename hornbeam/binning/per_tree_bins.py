"""Columns that are cut anew for each tree, where the hessians weigh most.

The weighted quantiles of XGBoost's approximate algorithm (Chen and Guestrin 2016,
section 3.3): between two neighbouring cuts lies no more than 1/max_bin of the sum of
hessians, unless a single value has more. They are exact here, as columns are in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.binning.bin_table import categorical, category_cuts
from hornbeam.binning.cuts import (
    ColumnCuts,
    Cuts,
    Summary,
    cut_summary,
    integer_weights,
)
from hornbeam.binning.dense import to_row_major
from hornbeam.binning.layout import DenseBins, HistogramLayout, SparseBins
from hornbeam.binning.sorted_columns import ColumnBlocks
from hornbeam.binning.sparse import stays_sparse
from hornbeam.binning.threads import in_threads
from hornbeam.data.table import Table
from hornbeam.kernels.sorted_columns import code_cells, sum_weights
from hornbeam.kernels.sparse import turn_cells

__all__ = ["PerTreeCuts"]

Float64s = NDArray[np.float64]


class PerTreeCuts:
    """Columns, and the cuts and codes of the tree that grows on them.

    Parameters
    ----------
    blocks
        The columns.
    table
        That they are of.
    max_bin
        The most bins of a column of numbers.
    n_threads
        Threads that share the columns; they do not change the result.

    Attributes
    ----------
    cuts
        Those made last.
    is_sparse
        Whether only stored entries have bins.
    """

    cuts: Cuts

    def __init__(
        self,
        blocks: ColumnBlocks,
        table: Table,
        max_bin: int,
        n_threads: int,
    ) -> None:
        self._blocks, self._n_rows, self._max_bin = blocks, table.n_rows, max_bin
        self._n_threads = n_threads
        self.is_sparse = stays_sparse(table)
        self._has_missing = np.diff(blocks.starts) < table.n_rows
        self._is_categorical = categorical(table)
        self._between_categories = {
            feature: category_cuts(
                table, feature, blocks.of(feature)[1], bool(self._has_missing[feature])
            )
            for feature in np.flatnonzero(self._is_categorical).tolist()
        }

    def thresholds(self, splits: NDArray[Any]) -> Float64s:
        """Return what values that go left are below, for (splits,) `SPLIT_DTYPE`."""
        return self.cuts.thresholds(splits)

    def make_bins(self, hessians: Float64s) -> DenseBins | SparseBins:
        """Cut the columns by these weights of the rows; return codes of the cells."""
        weights = integer_weights(hessians)
        assert weights is not None
        columns: list[Any] = [None] * (self._blocks.pointers.size - 1)

        def work(feature: int) -> None:
            columns[feature] = self._cut(feature, weights)

        in_threads(work, range(len(columns)), self._n_threads)
        self.cuts = Cuts.join([column for column, _ in columns])
        ends = [own for _, own in columns]
        return self._fill(ends) if self.is_sparse else self._code(ends)

    def _cut(
        self, feature: int, weights: NDArray[np.int64]
    ) -> tuple[ColumnCuts, NDArray[np.int64]]:
        """Return a column's cuts, and of each bin the first value that is beyond it."""
        cells, values = self._blocks.of(feature)
        column = self._between_categories.get(feature)
        if column is None:
            sums = np.empty(values.size, np.int64)
            sum_weights(cells, weights, sums)
            has_missing = bool(self._has_missing[feature])
            column = cut_summary(Summary(values, sums), self._max_bin, has_missing)
        return column, np.searchsorted(values, column.upper)

    def _code(self, ends: list[NDArray[np.int64]]) -> DenseBins:
        codes = self.cuts.n_bins + self._has_missing
        by_feature = np.empty((len(ends), self._n_rows), _code_type(codes.max()))

        def work(feature: int) -> None:
            cells, _ = self._blocks.of(feature)
            if self._has_missing[feature]:
                by_feature[feature] = ends[feature].size
            code_cells(cells, ends[feature], by_feature[feature])

        in_threads(work, range(len(ends)), self._n_threads)
        layout = HistogramLayout.unbundled(
            self.cuts.n_bins,
            np.cumsum([0, *codes]).astype(np.int64),
            self._is_categorical,
        )
        by_row = to_row_major(by_feature, self._n_threads)
        return DenseBins(by_feature, by_row, layout)

    def _fill(self, ends: list[NDArray[np.int64]]) -> SparseBins:
        starts = self._blocks.starts
        rows = self._blocks.entries.astype(np.uint32)
        codes = np.empty(rows.size, _code_type(self.cuts.n_bins.max()))
        for feature, own in enumerate(ends):
            cells, _ = self._blocks.of(feature)
            until = np.searchsorted(cells, own.astype(np.uint64) << np.uint64(32))
            begin = starts[feature]
            codes[begin : begin + cells.size] = np.repeat(
                np.arange(own.size, dtype=codes.dtype), np.diff(until, prepend=0)
            )

        def by_row() -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[Any]]:
            pointers = np.zeros(self._n_rows + 1, np.int64)
            turned = np.empty_like(rows), np.empty_like(codes)
            turn_cells(starts, rows, codes, pointers, *turned)
            return pointers, *turned

        return SparseBins(starts, rows, codes, self.cuts.n_bins, by_row)


def _code_type(codes: int) -> np.dtype[Any]:
    """Return the type for so many codes."""
    return np.dtype(np.uint8 if codes <= 256 else np.uint16)
