"""A table of which few cells are filled, as the bins of those cells."""

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
from hornbeam.kernels.sparse import sort_by_bin, turn_cells

__all__ = ["SparseMatrix", "bin_stored_entries", "join_ranges", "stays_sparse"]

Codes = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]
Int64s = npt.NDArray[np.int64]
Uint32s = npt.NDArray[np.uint32]

#: Summary read from the table at once.
_CELLS_AT_ONCE = 1 << 20


#: A sparse table with categories has codes for all its cells, up to this many.
_MOST_CELLS = 1 << 32


@dataclass(slots=True)
class SparseMatrix:
    """Bin numbers of the filled cells; all others are missing.

    Attributes
    ----------
    cuts
        Where the bins end.
    n_rows
        Rows of the table.
    starts
        (features + 1,) int64: the first cell of each feature.
    rows
        (cells,) uint32: the rows of the cells, by feature and then by bin.
    bins
        (cells,) uint8, or uint16 where a feature has more than 256 bins: the bins.
    is_float32
        Whether every value that was binned is exactly a float32.
    """

    cuts: Cuts
    n_rows: int
    starts: Int64s
    rows: Uint32s
    bins: Codes
    is_float32: bool
    _by_row: tuple[Int64s, Uint32s, Codes] | None = field(default=None, repr=False)
    _as_bins: DenseBins | SparseBins | None = field(default=None, repr=False)

    @property
    def n_features(self) -> int:
        return self.cuts.n_features

    @property
    def has_missing(self) -> npt.NDArray[np.bool_]:
        """Whether any cell of a feature is missing, (features,) bool."""
        missing: npt.NDArray[np.bool_] = np.diff(self.starts) < self.n_rows
        return missing

    @property
    def is_categorical(self) -> npt.NDArray[np.bool_]:
        """Whether a feature's bins are categories: none is, (features,) bool."""
        return np.zeros(self.n_features, bool)

    @property
    def dtype(self) -> npt.DTypeLike:
        """The type of decoded values: float32 where that loses nothing."""
        return self.cuts.dtype

    def by_row(self) -> tuple[Int64s, Uint32s, Codes]:
        """Return the cells row after row, made on first use and kept.

        That is (pointers, features, codes): cells ``pointers[i]`` to
        ``pointers[i + 1]`` are those of row i, by ascending feature.
        """
        if self._by_row is None:
            pointers = np.zeros(self.n_rows + 1, np.int64)
            features = np.empty_like(self.rows)
            codes = np.empty_like(self.bins)
            turn_cells(self.starts, self.rows, self.bins, pointers, features, codes)
            self._by_row = pointers, features, codes
        return self._by_row

    def as_bins(self, n_threads: int = 1) -> DenseBins | SparseBins:
        """Return the cells as a backend takes them, made on first use and kept."""
        if self._as_bins is None:
            filled = SparseBins(
                self.starts, self.rows, self.bins, self.cuts.n_bins, self.by_row
            )
            self._as_bins = bundle(filled, self.n_rows, n_threads) or filled
        return self._as_bins

    def decode(
        self, start: int, stop: int, features: npt.NDArray[np.intp] | None = None
    ) -> npt.NDArray[Any]:
        """Return rows `start` to `stop` as one value of each cell's bin.

        That is the lower end of the bin, so that a decoded value lies on the same
        side of every cut as the value it stands for; NaN where missing. Only the
        columns `features`, in that order, if they are given.
        """
        pointers, cell_features, codes = self.by_row()
        cells = slice(pointers[start], pointers[stop])
        place = cell_features[cells].astype(np.intp)
        rows = np.repeat(np.arange(stop - start), np.diff(pointers[start : stop + 1]))
        values = self._lower_ends()[self.cuts.pointers[place] + codes[cells]]
        width = self.n_features
        if features is not None:
            width = len(features)
            place_of = np.full(self.n_features, -1, np.intp)
            place_of[features] = np.arange(width)
            place = place_of[place]
            here = place >= 0
            rows, place, values = rows[here], place[here], values[here]
        out = np.full((stop - start, width), np.nan, self.dtype)
        out[rows, place] = values
        return out

    def decode_column(self, feature: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return one column as `decode` does, in a type that holds the values."""
        out = np.full(self.n_rows, np.nan, dtype)
        cells = slice(self.starts[feature], self.starts[feature + 1])
        bins = self.cuts.pointers[feature] + self.bins[cells]
        out[self.rows[cells]] = self._lower_ends()[bins]
        return out

    def _lower_ends(self) -> npt.NDArray[np.float64]:
        """Return the lower end of each bin of all features, (bins,) float64."""
        lower = np.concatenate([[np.nan], self.cuts.values[:-1]])
        lower[self.cuts.pointers[:-1]] = self.cuts.minimums
        return lower

    def take(self, rows: npt.NDArray[Any]) -> SparseMatrix:
        """Return the cells of these rows, in this order."""
        pointers, features, codes = self.by_row()
        counts = np.diff(pointers)[rows]
        cells = join_ranges(pointers[:-1][rows], counts)
        features, codes = features[cells], codes[cells]
        order = np.lexsort((codes, features))
        own_rows = np.repeat(np.arange(len(rows), dtype=np.uint32), counts)
        starts = np.searchsorted(features[order], np.arange(self.n_features + 1))
        return replace(
            self,
            n_rows=len(rows),
            starts=starts,
            rows=own_rows[order],
            bins=codes[order],
            _by_row=None,
            _as_bins=None,
        )


def join_ranges(starts: Int64s, counts: Int64s) -> Int64s:
    """Return the numbers from each start on, as many as its count, end to end."""
    ends = np.cumsum(counts)
    return np.arange(counts.sum()) + np.repeat(starts - ends + counts, counts)


def stays_sparse(table: Table) -> TypeGuard[SparseTable]:
    """Return whether a table's filled cells are binned alone: if it is sparse.

    Those with columns of categories are not.
    """
    if not isinstance(table, SparseTable):
        return False
    if "c" not in (table.types or ()):
        return True
    if table.n_rows * table.n_features > _MOST_CELLS:
        raise DataError(
            f"a sparse matrix with columns of type 'c' takes codes for all its "
            f"{table.n_rows} x {table.n_features} cells, which are too many; give the "
            "categories to a frame of their own columns, or pass them as numbers",
            code=ErrorCode.NOT_ENOUGH_MEMORY,
        )
    return False


def bin_stored_entries(
    table: SparseTable,
    cut: Callable[[int, npt.NDArray[Any], npt.NDArray[Any]], ColumnCuts],
    max_bin: int,
) -> SparseMatrix:
    """Return the filled cells of a sparse table in bins.

    Parameters
    ----------
    table
        The features.
    cut
        Takes a feature, its values and their rows; returns its cuts.
    max_bin
        The most bins of a feature.
    """
    sorted_rows = np.empty(table.n_stored, np.uint32)
    sorted_codes: Any = np.empty(table.n_stored, np.uint8 if max_bin <= 256 else "u2")
    counts = np.empty(max_bin, np.int64)
    starts = np.zeros(table.n_features + 1, np.int64)
    columns = []
    is_float32 = True
    end = 0
    for first, pointers, rows, values in table.filled(_CELLS_AT_ONCE):
        is_float32 = is_float32 and are_float32(values)
        rows = rows.astype(np.uint32)
        codes = np.empty(len(values), sorted_codes.dtype)
        block = slice(end, end + len(values))
        sorted_rows[block], sorted_codes[block] = rows, 0
        for k in range(len(pointers) - 1):
            cells = slice(pointers[k], pointers[k + 1])
            column = cut(first + k, values[cells], rows[cells])
            columns.append(column)
            if column.upper.size == 1:  # in order as they are
                continue
            column.code(values[cells], codes[cells])
            sort_by_bin(
                codes[cells],
                rows[cells],
                counts[: column.upper.size],
                sorted_codes[block][cells],
                sorted_rows[block][cells],
            )
        starts[first : first + len(pointers)] = end + pointers
        end = block.stop
    return SparseMatrix(
        Cuts.join(columns),
        table.n_rows,
        starts,
        sorted_rows[:end],
        sorted_codes[:end],
        is_float32,
    )
