"""A dense matrix of bins in memory, column-major and row-major."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from hornbeam.binning.cuts import Cuts
from hornbeam.binning.layout import DenseBins, HistogramLayout, RowColumns
from hornbeam.binning.threads import in_threads
from hornbeam.kernels.binning import decode_rows, interleave
from hornbeam.kernels.layout import COLUMN_DTYPE

__all__ = ["DenseMatrix", "pack_features", "to_row_major"]

_ROWS_OF_A_TASK = 1 << 16


def to_row_major(columns: npt.NDArray[Any], n_threads: int) -> npt.NDArray[Any]:
    """Return the codes (columns, rows) row after row, as (rows * columns,)."""
    n_rows = columns.shape[1]
    by_row = np.empty(columns.size, columns.dtype)
    in_threads(
        lambda begin: interleave(
            columns, begin, min(begin + _ROWS_OF_A_TASK, n_rows), by_row
        ),
        range(0, n_rows, _ROWS_OF_A_TASK),
        n_threads,
    )
    return by_row


#: The most codes of a column of several features: with more, moving sums costs what
#: summing fewer columns saves.
_MOST_CODES = 64
_MOST_FEATURES = 8


def pack_features(
    by_feature: NDArray[Any], offsets: NDArray[np.int64]
) -> tuple[NDArray[Any], RowColumns | None]:
    """Return the columns that rows are to hold, (columns, rows), and what is in them.

    Parameters
    ----------
    by_feature
        (features, rows): the codes.
    offsets
        (features + 1,) int64: the first cell of each feature in a histogram.
    """
    codes = np.diff(offsets)
    groups = _group(codes)
    if len(groups) == codes.size or by_feature.dtype != np.uint8:
        return by_feature, None
    columns = np.empty((len(groups), by_feature.shape[1]), np.uint8)
    table = np.zeros(len(groups), COLUMN_DTYPE)
    holding = np.empty(codes.size, np.int64)
    spread = np.empty(0, np.uint32)
    for place, group in enumerate(groups):
        holding[group] = place
        sizes = codes[group]
        *steps, n_codes = np.cumprod([1, *sizes])
        table[place] = n_codes, len(group), offsets[group[0]], spread.size
        columns[place] = 0
        for feature, step in zip(group, steps, strict=True):
            columns[place] += by_feature[feature] * np.uint8(step)
        if len(group) > 1:
            each = np.arange(n_codes)[:, np.newaxis] // steps % sizes
            cells = (offsets[group] + each).astype(np.uint32)
            spread = np.concatenate([spread, cells.ravel()])
    return columns, RowColumns(table, spread, holding)


def _group(codes: NDArray[np.int64]) -> list[list[int]]:
    """Return which features share a column; the largest come first to a place."""
    groups: list[list[int]] = []
    filled: list[int] = []
    for feature in np.argsort(-codes, kind="stable").tolist():
        own = int(codes[feature])
        for place, others in enumerate(filled):
            fits = own * others <= _MOST_CODES
            if fits and len(groups[place]) < _MOST_FEATURES:
                groups[place].append(feature)
                filled[place] *= own
                break
        else:
            groups.append([feature])
            filled.append(own)
    return groups


Codes = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]


@dataclass(slots=True)
class DenseMatrix:
    """Bin numbers of all cells. A missing cell has the number after the last bin.

    Attributes
    ----------
    cuts
        Where the bins end.
    by_feature
        (features, rows) uint8, or uint16 where a feature has more than 256 codes.
    has_missing
        (features,) bool: whether any cell of a feature is missing.
    is_float32
        Whether every value that was binned is exactly a float32.
    is_categorical
        (features,) bool: whether a feature's bins are categories. It then has a cut
        1, 2, ... above each of them and the minimum 0, so that bin and value are one.
    """

    cuts: Cuts
    by_feature: Codes
    has_missing: npt.NDArray[np.bool_]
    is_float32: bool
    is_categorical: npt.NDArray[np.bool_]
    _by_row: Codes | None = field(default=None, repr=False)
    _row_columns: RowColumns | None = field(default=None, repr=False)
    #: What the codes stand for, feature after feature, and where those of each begin.
    _ends: tuple[npt.NDArray[Any], npt.NDArray[np.int64]] | None = field(
        default=None, repr=False
    )

    @property
    def bin_dtype(self) -> np.dtype[Any]:
        """The type of the codes: uint8 or uint16."""
        return self.by_feature.dtype

    @property
    def n_features(self) -> int:
        return self.by_feature.shape[0]

    @property
    def n_rows(self) -> int:
        return self.by_feature.shape[1]

    @property
    def dtype(self) -> npt.DTypeLike:
        """The type of decoded values: float32 where that loses nothing."""
        return self.cuts.dtype

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """First cell of each feature in a histogram, (features + 1,) int64."""
        cells = self.cuts.n_bins + self.has_missing
        return np.concatenate([[0], np.cumsum(cells)]).astype(np.int64)

    def by_row(self, n_threads: int = 1) -> Codes:
        """Return the codes row after row, (rows * columns,), made on first use.

        Features of few codes share columns, as `as_bins` says.
        """
        if self._by_row is None:
            columns, self._row_columns = pack_features(self.by_feature, self.offsets)
            self._by_row = to_row_major(columns, n_threads)
        return self._by_row

    def as_bins(self, n_threads: int = 1) -> DenseBins:
        """Return the codes as a backend takes them."""
        layout = HistogramLayout.unbundled(
            self.cuts.n_bins, self.offsets, self.is_categorical
        )
        by_row = self.by_row(n_threads)
        return DenseBins(self.by_feature, by_row, layout, self._row_columns)

    def take(self, rows: npt.NDArray[Any]) -> DenseMatrix:
        """Return the codes of these rows, in this order."""
        # Indexing would leave the codes in the order of rows.
        codes = self.by_feature.take(rows, axis=1)
        return replace(self, by_feature=codes, _by_row=None, _row_columns=None)

    def decode(
        self, start: int, stop: int, features: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        """Return rows `start` to `stop` as one value of each cell's bin.

        That is the lower end of the bin, so that a decoded value lies on the same
        side of every cut as the value it stands for; NaN where missing. Only the
        columns `features`, in that order, if they are given.
        """
        if features is None:
            features = np.arange(self.n_features)
        if self._ends is None:
            parts = [self.cuts.lower_ends(f) for f in range(self.n_features)]
            starts = self.cuts.pointers[:-1] + np.arange(self.n_features)
            self._ends = np.concatenate(parts).astype(self.dtype), starts
        ends, starts = self._ends
        values = np.empty((stop - start, features.size), ends.dtype)
        decode_rows(self.by_feature, start, features, ends, starts, values)
        return values

    def decode_column(self, feature: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return one column as `decode` does, in a type that holds the values."""
        return self.cuts.lower_ends(feature).astype(dtype)[self.by_feature[feature]]
