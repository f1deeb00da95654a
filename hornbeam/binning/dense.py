"""A dense matrix of bins in memory, column-major and row-major.

Row-major bins pack features of few bins into shared columns: two features of two bins
are one column of four. A row is then added once to the histogram of the column, and the
sums of each feature's bins are added up when the histogram is moved. As adding rows
takes most of the time of growing a tree, tables with many indicators train several
times as fast. Column-major bins, by which rows are partitioned, are not packed.
"""

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

Bins = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]

_ROWS_PER_TASK = 1 << 16
#: Most bins of a feature that is packed and of a packed column, and most additions that
#: move its sums, one for each of its bins and features. More take the time that adding
#: rows to fewer columns saves.
_MAX_FEATURE_BINS = 32
_MAX_PACKED_BINS = 256
_MAX_ADDITIONS = 512


@dataclass(slots=True)
class DenseMatrix:
    """The bins of all values. The bin of a missing value is the one after the last.

    Attributes
    ----------
    cuts
        The cuts between the bins.
    by_feature
        (features, rows) uint8, or uint16 if a feature has more than 256 bins, missing
        values included.
    has_missing
        (features,) bool: whether any value of a feature is missing.
    is_float32
        Whether every binned value is exactly a float32.
    is_categorical
        (features,) bool: whether the bins of a feature are categories. Their cuts are
        1, 2, ... and their minimum is 0, so that the bin of a category is its code.
    """

    cuts: Cuts
    by_feature: Bins
    has_missing: npt.NDArray[np.bool_]
    is_float32: bool
    is_categorical: npt.NDArray[np.bool_]
    _by_row: Bins | None = field(default=None, repr=False)
    _row_columns: RowColumns | None = field(default=None, repr=False)
    #: The decoded value of each bin, by feature, and where those of a feature begin.
    _decoded: tuple[npt.NDArray[Any], npt.NDArray[np.int64]] | None = field(
        default=None, repr=False
    )

    @property
    def bin_dtype(self) -> np.dtype[Any]:
        """The dtype of the bins: uint8 or uint16."""
        return self.by_feature.dtype

    @property
    def n_features(self) -> int:
        return self.by_feature.shape[0]

    @property
    def n_rows(self) -> int:
        return self.by_feature.shape[1]

    @property
    def dtype(self) -> npt.DTypeLike:
        """The dtype of decoded values: float32 if that is exact, else float64."""
        return self.cuts.dtype

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """First histogram bin of each feature, (features + 1,) int64."""
        n_bins = self.cuts.n_bins + self.has_missing
        return np.concatenate([[0], np.cumsum(n_bins)]).astype(np.int64)

    def by_row(self, n_threads: int = 1) -> Bins:
        """Return the row-major bins, (rows * columns,), made on first use and kept.

        Features of few bins are packed into shared columns (see `pack_features`).
        """
        if self._by_row is None:
            columns, self._row_columns = pack_features(self.by_feature, self.offsets)
            self._by_row = to_row_major(columns, n_threads)
        return self._by_row

    def as_bins(self, n_threads: int = 1) -> DenseBins:
        """Return the bins as a backend takes them."""
        by_row = self.by_row(n_threads)
        return replace(self.as_columns(), by_row=by_row, row_columns=self._row_columns)

    def as_columns(self) -> DenseBins:
        """Return the bins without a copy row by row, which devices make themselves."""
        layout = HistogramLayout.unbundled(
            self.cuts.n_bins, self.offsets, self.is_categorical
        )
        no_rows = np.empty(0, self.bin_dtype)
        return DenseBins(self.by_feature, no_rows, layout)

    def take(self, rows: npt.NDArray[Any]) -> DenseMatrix:
        """Return the bins of some rows, in this order."""
        # `take` returns a C-contiguous array; indexing would not.
        bins = self.by_feature.take(rows, axis=1)
        return replace(self, by_feature=bins, _by_row=None, _row_columns=None)

    def decode(
        self, start: int, stop: int, features: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        """Return rows `start` to `stop - 1`, decoded to the lower end of each bin.

        A decoded value lies on the same side of every cut as the value of the data.
        Missing values are NaN. With `features`, returns these columns in this order.
        """
        if features is None:
            features = np.arange(self.n_features)
        if self._decoded is None:
            parts = [self.cuts.lower_ends(f) for f in range(self.n_features)]
            starts = self.cuts.pointers[:-1] + np.arange(self.n_features)
            self._decoded = np.concatenate(parts).astype(self.dtype), starts
        decoded, starts = self._decoded
        values = np.empty((stop - start, features.size), decoded.dtype)
        decode_rows(self.by_feature, start, features, decoded, starts, values)
        return values

    def decode_column(self, feature: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return one decoded column (see `decode`) in a dtype that holds its values."""
        return self.cuts.lower_ends(feature).astype(dtype)[self.by_feature[feature]]


def to_row_major(columns: npt.NDArray[Any], n_threads: int) -> npt.NDArray[Any]:
    """Return column-major bins (columns, rows) as row-major ones, (rows * columns,)."""
    n_rows = columns.shape[1]
    by_row = np.empty(columns.size, columns.dtype)
    in_threads(
        lambda begin: interleave(
            columns, begin, min(begin + _ROWS_PER_TASK, n_rows), by_row
        ),
        range(0, n_rows, _ROWS_PER_TASK),
        n_threads,
    )
    return by_row


def pack_features(
    by_feature: NDArray[Any], offsets: NDArray[np.int64]
) -> tuple[NDArray[Any], RowColumns | None]:
    """Return columns of packed features, (columns, rows), and which features they hold.

    Parameters
    ----------
    by_feature
        (features, rows): the bins.
    offsets
        (features + 1,) int64: the first histogram bin of each feature.
    """
    n_bins = np.diff(offsets)
    groups = _group_features(n_bins)
    if len(groups) == n_bins.size or by_feature.dtype != np.uint8:
        return by_feature, None
    columns = np.empty((len(groups), by_feature.shape[1]), np.uint8)
    table = np.zeros(len(groups), COLUMN_DTYPE)
    packed_in = np.empty(n_bins.size, np.int64)
    histogram_bins = np.empty(0, np.uint32)
    for place, group in enumerate(groups):
        packed_in[group] = place
        sizes = n_bins[group]
        *steps, n_packed = np.cumprod([1, *sizes])
        table[place] = n_packed, len(group), offsets[group[0]], histogram_bins.size
        columns[place] = 0
        for feature, step in zip(group, steps, strict=True):
            columns[place] += by_feature[feature] * np.uint8(step)
        if len(group) > 1:
            unpacked = np.arange(n_packed)[:, np.newaxis] // steps % sizes
            of_group = (offsets[group] + unpacked).astype(np.uint32)
            histogram_bins = np.concatenate([histogram_bins, of_group.ravel()])
    return columns, RowColumns(table, histogram_bins, packed_in)


def _group_features(n_bins: NDArray[np.int64]) -> list[list[int]]:
    """Return the features of each column; those of many bins are placed first."""
    groups: list[list[int]] = []
    sizes: list[int] = []
    n_wide = 0
    for feature in np.argsort(-n_bins, kind="stable").tolist():
        size = int(n_bins[feature])
        n_wide += size > _MAX_FEATURE_BINS
        for place, others in enumerate(sizes[n_wide:], n_wide):
            n_packed = size * others
            n_additions = n_packed * (len(groups[place]) + 1)
            if n_packed <= _MAX_PACKED_BINS and n_additions <= _MAX_ADDITIONS:
                groups[place].append(feature)
                sizes[place] = n_packed
                break
        else:
            groups.append([feature])
            sizes.append(size)
    return groups
