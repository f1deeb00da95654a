"""A table as bin numbers in memory, the form that growth works on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.binning.columns import turn_columns
from hornbeam.binning.cuts import Cuts
from hornbeam.binning.layout import DenseBins, HistogramLayout, RowColumns
from hornbeam.binning.packed_features import join_columns
from hornbeam.kernels.binning import decode_rows

__all__ = ["DenseMatrix"]

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
            columns, self._row_columns = join_columns(self.by_feature, self.offsets)
            self._by_row = turn_columns(columns, n_threads)
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
