"""The bins of the stored entries of a sparse table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from hornbeam.binning.bundling import bundle
from hornbeam.binning.cuts import ColumnCuts, Cuts, are_float32
from hornbeam.binning.layout import DenseBins, SparseBins
from hornbeam.data.containers.from_scipy import SparseTable
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode
from hornbeam.kernels.sparse import sort_by_bin, transpose_entries

__all__ = ["SparseMatrix", "bin_stored_entries", "join_ranges", "stays_sparse"]

Bins = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]
Int64s = npt.NDArray[np.int64]
Uint32s = npt.NDArray[np.uint32]

#: Entries read from the table at once.
_ENTRIES_AT_ONCE = 1 << 20
#: Most values of a sparse table with categorical columns, which becomes dense.
_MAX_DENSE_VALUES = 1 << 32


@dataclass(slots=True)
class SparseMatrix:
    """The bins of stored entries; all other values are missing.

    Attributes
    ----------
    cuts
        The cuts between the bins.
    n_rows
        Number of rows of the table.
    starts
        (features + 1,) int64: the first entry of each feature.
    rows
        (entries,) uint32: the row of each entry, by feature and then by bin.
    bins
        (entries,) uint8, or uint16 if a feature has more than 256 bins: the bin of each
        entry.
    is_float32
        Whether every binned value is exactly a float32.
    """

    cuts: Cuts
    n_rows: int
    starts: Int64s
    rows: Uint32s
    bins: Bins
    is_float32: bool
    _by_row: tuple[Int64s, Uint32s, Bins] | None = field(default=None, repr=False)
    _as_bins: DenseBins | SparseBins | None = field(default=None, repr=False)

    @property
    def n_features(self) -> int:
        return self.cuts.n_features

    @property
    def has_missing(self) -> npt.NDArray[np.bool_]:
        """Whether any value of a feature is missing, (features,) bool."""
        missing: npt.NDArray[np.bool_] = np.diff(self.starts) < self.n_rows
        return missing

    @property
    def is_categorical(self) -> npt.NDArray[np.bool_]:
        """Whether a feature is categorical: none is, (features,) bool."""
        return np.zeros(self.n_features, bool)

    @property
    def dtype(self) -> npt.DTypeLike:
        """The dtype of decoded values: float32 if that is exact, else float64."""
        return self.cuts.dtype

    def by_row(self) -> tuple[Int64s, Uint32s, Bins]:
        """Return the entries row by row (CSR), made on first use and kept.

        Returns (pointers, features, bins): entries ``pointers[i]`` to
        ``pointers[i + 1] - 1`` are those of row i, by ascending feature.
        """
        if self._by_row is None:
            pointers = np.zeros(self.n_rows + 1, np.int64)
            features = np.empty_like(self.rows)
            bins = np.empty_like(self.bins)
            transpose_entries(
                self.starts, self.rows, self.bins, pointers, features, bins
            )
            self._by_row = pointers, features, bins
        return self._by_row

    def as_bins(self, n_threads: int = 1) -> DenseBins | SparseBins:
        """Return the entries as a backend takes them, made on first use and kept.

        They are bundled into dense columns where that is faster (see `bundling`).
        """
        if self._as_bins is None:
            entries = SparseBins(
                self.starts, self.rows, self.bins, self.cuts.n_bins, self.by_row
            )
            self._as_bins = bundle(entries, self.n_rows, n_threads) or entries
        return self._as_bins

    def decode(
        self, start: int, stop: int, features: npt.NDArray[np.intp] | None = None
    ) -> npt.NDArray[Any]:
        """Return rows `start` to `stop - 1`, decoded to the lower end of each bin.

        As `DenseMatrix.decode`.
        """
        pointers, entry_features, bins = self.by_row()
        entries = slice(pointers[start], pointers[stop])
        column = entry_features[entries].astype(np.intp)
        rows = np.repeat(np.arange(stop - start), np.diff(pointers[start : stop + 1]))
        values = self._lower_ends()[self.cuts.pointers[column] + bins[entries]]
        n_columns = self.n_features
        if features is not None:
            n_columns = len(features)
            column_of = np.full(self.n_features, -1, np.intp)
            column_of[features] = np.arange(n_columns)
            column = column_of[column]
            chosen = column >= 0
            rows, column, values = rows[chosen], column[chosen], values[chosen]
        out = np.full((stop - start, n_columns), np.nan, self.dtype)
        out[rows, column] = values
        return out

    def decode_column(self, feature: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return one decoded column (see `decode`) in a dtype that holds its values."""
        out = np.full(self.n_rows, np.nan, dtype)
        entries = slice(self.starts[feature], self.starts[feature + 1])
        bins = self.cuts.pointers[feature] + self.bins[entries]
        out[self.rows[entries]] = self._lower_ends()[bins]
        return out

    def _lower_ends(self) -> npt.NDArray[np.float64]:
        """Return the lower end of each bin of all features, (bins,) float64."""
        lower = np.concatenate([[np.nan], self.cuts.values[:-1]])
        lower[self.cuts.pointers[:-1]] = self.cuts.minimums
        return lower

    def take(self, rows: npt.NDArray[Any]) -> SparseMatrix:
        """Return the entries of some rows, in this order."""
        pointers, features, bins = self.by_row()
        counts = np.diff(pointers)[rows]
        entries = join_ranges(pointers[:-1][rows], counts)
        features, bins = features[entries], bins[entries]
        order = np.lexsort((bins, features))
        new_rows = np.repeat(np.arange(len(rows), dtype=np.uint32), counts)
        starts = np.searchsorted(features[order], np.arange(self.n_features + 1))
        return replace(
            self,
            n_rows=len(rows),
            starts=starts,
            rows=new_rows[order],
            bins=bins[order],
            _by_row=None,
            _as_bins=None,
        )


def join_ranges(starts: Int64s, counts: Int64s) -> Int64s:
    """Return `count` consecutive integers from each start, concatenated."""
    ends = np.cumsum(counts)
    return np.arange(counts.sum()) + np.repeat(starts - ends + counts, counts)


def stays_sparse(table: Table) -> TypeGuard[SparseTable]:
    """Return whether only the stored entries of a table get bins.

    True for sparse tables without categorical columns.
    """
    if not isinstance(table, SparseTable):
        return False
    if "c" not in (table.types or ()):
        return True
    if table.n_rows * table.n_features > _MAX_DENSE_VALUES:
        raise DataError(
            f"a sparse matrix with columns of type 'c' is binned as a dense matrix of "
            f"{table.n_rows} x {table.n_features} values, which is too large; pass the "
            "categorical columns in a data frame, or as numeric columns",
            code=ErrorCode.NOT_ENOUGH_MEMORY,
        )
    return False


def bin_stored_entries(
    table: SparseTable,
    cut: Callable[[int, npt.NDArray[Any], npt.NDArray[Any]], ColumnCuts],
    max_bin: int,
) -> SparseMatrix:
    """Return the bins of the stored entries of a sparse table.

    Parameters
    ----------
    table
        The features.
    cut
        Takes a feature, its values and their rows; returns its cuts.
    max_bin
        Maximum number of bins of a feature.
    """
    sorted_rows = np.empty(table.n_stored, np.uint32)
    sorted_bins: Any = np.empty(table.n_stored, np.uint8 if max_bin <= 256 else "u2")
    counts = np.empty(max_bin, np.int64)
    starts = np.zeros(table.n_features + 1, np.int64)
    columns = []
    is_float32 = True
    end = 0
    for first, pointers, rows, values in table.entry_blocks(_ENTRIES_AT_ONCE):
        is_float32 = is_float32 and are_float32(values)
        rows = rows.astype(np.uint32)
        bins = np.empty(len(values), sorted_bins.dtype)
        block = slice(end, end + len(values))
        sorted_rows[block], sorted_bins[block] = rows, 0
        for k in range(len(pointers) - 1):
            entries = slice(pointers[k], pointers[k + 1])
            column = cut(first + k, values[entries], rows[entries])
            columns.append(column)
            if column.upper.size == 1:  # one bin: already sorted
                continue
            column.map_to_bins(values[entries], bins[entries])
            sort_by_bin(
                bins[entries],
                rows[entries],
                counts[: column.upper.size],
                sorted_bins[block][entries],
                sorted_rows[block][entries],
            )
        starts[first : first + len(pointers)] = end + pointers
        end = block.stop
    return SparseMatrix(
        Cuts.join(columns),
        table.n_rows,
        starts,
        sorted_rows[:end],
        sorted_bins[:end],
        is_float32,
    )
