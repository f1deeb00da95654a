"""Bins that are made again for each tree, from its hessians (`tree_method="approx"`).

The cuts are the weighted quantiles of XGBoost's approximate algorithm (Chen and
Guestrin 2016, section 3.3): two neighbouring cuts enclose at most 1/max_bin of the sum
of hessians, unless a single value has more. Here they are exact, because the columns
are sorted.
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
from hornbeam.kernels.sorted_columns import bin_entries, sum_weights
from hornbeam.kernels.sparse import transpose_entries

__all__ = ["PerTreeCuts"]

Float64s = NDArray[np.float64]


class PerTreeCuts:
    """Makes cuts and bins from the hessians of a tree.

    Parameters
    ----------
    blocks
        The sorted columns.
    table
        The table of these columns.
    max_bin
        Maximum number of bins of a numeric column.
    n_threads
        Number of threads, which share the columns. It does not change the result.
    by_row
        Whether dense bins get a copy row by row, which devices make themselves.

    Attributes
    ----------
    cuts
        The cuts of the last tree.
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
        *,
        by_row: bool = True,
    ) -> None:
        self._blocks, self._n_rows, self._max_bin = blocks, table.n_rows, max_bin
        self._n_threads, self._by_row = n_threads, by_row
        self.is_sparse = stays_sparse(table)
        self._has_missing = np.diff(blocks.starts) < table.n_rows
        self._is_categorical = categorical(table)
        self._category_cuts = {
            feature: category_cuts(
                table, feature, blocks.of(feature)[1], bool(self._has_missing[feature])
            )
            for feature in np.flatnonzero(self._is_categorical).tolist()
        }

    def thresholds(self, splits: NDArray[Any], rounded: bool = False) -> Float64s:
        """Return the thresholds of splits, as `Cuts.thresholds` does."""
        return self.cuts.thresholds(splits, rounded)

    def make_bins(self, hessians: Float64s) -> DenseBins | SparseBins:
        """Cut the columns at quantiles weighted by `hessians`; return their bins."""
        weights = integer_weights(hessians)
        assert weights is not None
        columns: list[Any] = [None] * (self._blocks.pointers.size - 1)

        def work(feature: int) -> None:
            columns[feature] = self._cut(feature, weights)

        in_threads(work, range(len(columns)), self._n_threads)
        self.cuts = Cuts.join([column for column, _ in columns])
        ends = [end for _, end in columns]
        return self._sparse_bins(ends) if self.is_sparse else self._dense_bins(ends)

    def _cut(
        self, feature: int, weights: NDArray[np.int64]
    ) -> tuple[ColumnCuts, NDArray[np.int64]]:
        """Return a column's cuts, and the index of the first value above each bin."""
        entries, values = self._blocks.of(feature)
        column = self._category_cuts.get(feature)
        if column is None:
            ranks = np.empty(values.size, np.int64)
            sum_weights(entries, weights, ranks)
            has_missing = bool(self._has_missing[feature])
            column = cut_summary(Summary(values, ranks), self._max_bin, has_missing)
        return column, np.searchsorted(values, column.upper)

    def _dense_bins(self, ends: list[NDArray[np.int64]]) -> DenseBins:
        n_bins = self.cuts.n_bins + self._has_missing
        by_feature = np.empty((len(ends), self._n_rows), _bin_dtype(n_bins.max()))

        def work(feature: int) -> None:
            entries, _ = self._blocks.of(feature)
            if self._has_missing[feature]:
                by_feature[feature] = ends[feature].size
            bin_entries(entries, ends[feature], by_feature[feature])

        in_threads(work, range(len(ends)), self._n_threads)
        layout = HistogramLayout.unbundled(
            self.cuts.n_bins,
            np.cumsum([0, *n_bins]).astype(np.int64),
            self._is_categorical,
        )
        by_row = np.empty(0, by_feature.dtype)
        if self._by_row:
            by_row = to_row_major(by_feature, self._n_threads)
        return DenseBins(by_feature, by_row, layout)

    def _sparse_bins(self, ends: list[NDArray[np.int64]]) -> SparseBins:
        starts = self._blocks.starts
        rows = self._blocks.entries.astype(np.uint32)
        bins = np.empty(rows.size, _bin_dtype(self.cuts.n_bins.max()))
        for feature, end in enumerate(ends):
            entries, _ = self._blocks.of(feature)
            until = np.searchsorted(entries, end.astype(np.uint64) << np.uint64(32))
            begin = starts[feature]
            bins[begin : begin + entries.size] = np.repeat(
                np.arange(end.size, dtype=bins.dtype), np.diff(until, prepend=0)
            )

        def by_row() -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[Any]]:
            pointers = np.zeros(self._n_rows + 1, np.int64)
            features, row_bins = np.empty_like(rows), np.empty_like(bins)
            transpose_entries(starts, rows, bins, pointers, features, row_bins)
            return pointers, features, row_bins

        return SparseBins(starts, rows, bins, self.cuts.n_bins, by_row)


def _bin_dtype(n_bins: int) -> np.dtype[Any]:
    """Return the dtype of bins below `n_bins`."""
    return np.dtype(np.uint8 if n_bins <= 256 else np.uint16)
