"""Binned data as the backends read it: rows by columns of bins, and their layout.

`hornbeam.binning` makes these types. A backend is made from one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.layout import COLUMN_DTYPE, FEATURE_DTYPE

__all__ = [
    "BinBlock",
    "BinBlocks",
    "DenseBins",
    "ExternalBins",
    "HistogramLayout",
    "PerTreeBins",
    "RowColumns",
    "RowSpill",
    "SortedColumns",
    "SparseBins",
    "SparseColumns",
]


@dataclass(frozen=True, slots=True)
class HistogramLayout:
    """Maps each feature to its column of bins and to its part of a histogram.

    A column holds the bins of one feature, or of a bundle of features (see
    `binning.bundling`). A row is in bin b of feature f if column ``column_of[f]`` holds
    ``first_bin[f] + b`` with b below ``n_bins[f]``. With any other bin of the column
    the feature is missing in this row.

    Attributes
    ----------
    n_bins
        (features,) int64: number of bins of each feature.
    offsets
        (columns + 1,) int64: the first histogram bin of each column. A histogram has
        one bin for every bin of the column.
    is_categorical
        (features,) bool: whether the bins of a feature are categories.
    column_of
        (features,) int64: the column of each feature.
    first_bin
        (features,) int64: the bin of the column that is bin 0 of the feature.
    """

    n_bins: NDArray[np.int64]
    offsets: NDArray[np.int64]
    is_categorical: NDArray[np.bool_]
    column_of: NDArray[np.int64]
    first_bin: NDArray[np.int64]

    @classmethod
    def unbundled(
        cls,
        n_bins: NDArray[np.int64],
        offsets: NDArray[np.int64],
        is_categorical: NDArray[np.bool_] | None = None,
    ) -> HistogramLayout:
        """Return the layout with one column per feature."""
        if is_categorical is None:
            is_categorical = np.zeros(n_bins.size, bool)
        columns, first_bin = np.arange(n_bins.size), np.zeros(n_bins.size, np.int64)
        return cls(n_bins, offsets, is_categorical, columns, first_bin)

    @property
    def n_features(self) -> int:
        return self.n_bins.size

    @property
    def n_columns(self) -> int:
        return self.offsets.size - 1

    @property
    def n_histogram_bins(self) -> int:
        """Number of bins of a histogram over all columns."""
        return int(self.offsets[-1])

    @property
    def bin_dtype(self) -> np.dtype[Any]:
        """The dtype of the bins: uint8, or uint16 if a column has more than 256."""
        return np.dtype(np.uint8 if np.diff(self.offsets).max() <= 256 else np.uint16)

    @property
    def n_set_words(self) -> int:
        """Number of 64-bit words of a bitset of a column's bins.

        0 if no feature is categorical.
        """
        # The bin of missing values may be in the set, too.
        widest = int(np.diff(self.offsets).max())
        return -(-widest // 64) if self.is_categorical.any() else 0

    @property
    def max_categories(self) -> int:
        """The largest number of categories of a feature."""
        return int(self.n_bins.max(where=self.is_categorical, initial=0))

    @property
    def feature_table(self) -> NDArray[Any]:
        """The features as kernels take them, (features,) `FEATURE_DTYPE`."""
        table = np.empty(self.n_bins.size, FEATURE_DTYPE)
        table["column"], table["low"] = self.column_of, self.first_bin
        table["bins"], table["is_categorical"] = self.n_bins, self.is_categorical
        table["cell"] = self.offsets[self.column_of] + self.first_bin
        return table


@dataclass(frozen=True, slots=True)
class RowColumns:
    """The columns of row-major bins, each of which may pack columns of a layout.

    See `binning.packed_features`.

    Attributes
    ----------
    table
        (columns,) `COLUMN_DTYPE`.
    histogram_bins
        (entries,) uint32: for each bin of a packed column, the histogram bins of the
        columns in it.
    packed_in
        (columns of the layout,) int64: the row-major column that holds each.
    """

    table: NDArray[Any]
    histogram_bins: NDArray[np.uint32]
    packed_in: NDArray[np.int64]

    @classmethod
    def unpacked(cls, layout: HistogramLayout) -> RowColumns:
        """Return the columns of the layout, none of them packed."""
        table = np.zeros(layout.n_columns, COLUMN_DTYPE)
        table["n_bins"], table["width"] = np.diff(layout.offsets), 1
        table["cell"] = layout.offsets[:-1]
        return cls(table, np.empty(0, np.uint32), np.arange(table.size))


@dataclass(frozen=True, slots=True)
class DenseBins:
    """One bin for each row and column, in memory.

    Attributes
    ----------
    by_feature
        (columns, rows) uint8 or uint16: the bins column by column.
    by_row
        (rows * columns,) uint8 or uint16: the same bins row by row.
    layout
        Which features the columns hold.
    row_columns
        Which columns of `layout` are packed in those of `by_row`; None: they are the
        same columns.
    """

    by_feature: NDArray[Any]
    by_row: NDArray[Any]
    layout: HistogramLayout
    row_columns: RowColumns | None = None


class BinBlock(Protocol):
    """Bins of the rows `begin` to `end`. Valid until the next block is read.

    Attributes
    ----------
    number
        Which block it is.
    begin, end
        Its first row, and the row after its last.
    by_feature
        (columns, rows of the block) uint8 or uint16. Only the requested columns hold
        data.
    by_row
        (rows of the block * columns,) uint8 or uint16; empty if not requested.
    """

    number: int
    begin: int
    end: int
    by_feature: NDArray[Any]
    by_row: NDArray[Any]


class BinBlocks(Protocol):
    """Bins in external memory, in blocks of rows.

    Attributes
    ----------
    n_rows, n_blocks
        Number of rows and of blocks.
    block_rows
        Rows of a block; the last one may have fewer.
    dtype
        The dtype of the bins.
    """

    n_rows: int
    n_blocks: int
    block_rows: int
    dtype: np.dtype[Any]

    def rows_of(self, block: int) -> tuple[int, int]:
        """Return the first row of a block and the row after its last."""

    def read_blocks(
        self,
        columns: Sequence[int] | None,
        by_row: bool,
        ring_bytes: int | None = None,
        blocks: Sequence[int] | None = None,
    ) -> AbstractContextManager[Iterator[BinBlock]]:
        """Make one pass over the blocks, in order.

        Parameters
        ----------
        columns
            The columns to read into `BinBlock.by_feature`; None: all.
        by_row
            Whether to read `BinBlock.by_row`.
        ring_bytes
            Memory for the buffers that blocks are read into; None: the default.
        blocks
            The blocks to read; None: all.
        """

    def keep_in_memory(self, n_bytes: int) -> int:
        """Keep row-major blocks in memory, up to `n_bytes`; return the bytes taken.

        Blocks that are kept are not read from disk again.
        """

    def ring_bytes(self, n_buffers: int, *, columns: bool, by_row: bool) -> int:
        """Return the largest memory that a pass with `n_buffers` buffers takes."""


class RowSpill(Protocol):
    """Arrays of one value per row in external memory, block by block."""

    def save(self, name: str, block: int, array: NDArray[Any]) -> None:
        """Write the part of array `name` that belongs to the block."""

    def load(self, name: str, block: int, out: NDArray[Any]) -> None:
        """Read that part into `out`."""

    def close(self) -> None:
        """Delete the files."""


@dataclass(frozen=True, slots=True)
class ExternalBins:
    """One bin for each row and column, in external memory.

    Attributes
    ----------
    blocks
        Reads the blocks of rows.
    layout
        Which features the columns hold.
    memory_limit
        The most bytes of memory that the process may take; None: no limit.
    open_spill
        Returns files for the state of rows that does not fit in memory.
    """

    blocks: BinBlocks
    layout: HistogramLayout
    memory_limit: int | None
    open_spill: Callable[[], RowSpill]


@dataclass(frozen=True, slots=True)
class SparseBins:
    """Bins of the stored entries of a sparse table, by feature (CSC).

    Attributes
    ----------
    starts
        (features + 1,) int64: the first entry of each feature.
    rows
        (entries,) uint32: the row of each entry, by feature and then by bin.
    bins
        (entries,) uint8 or uint16: the bin of each entry.
    n_bins
        (features,) int64: number of bins of each feature.
    by_row
        Returns the entries row by row (CSR): (rows + 1,) int64 starts, (entries,)
        uint32 features and (entries,) bins.
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]
    bins: NDArray[Any]
    n_bins: NDArray[np.int64]
    by_row: Callable[[], tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[Any]]]


@dataclass(frozen=True, slots=True)
class SparseColumns:
    """Values that are neither missing nor zero, by feature, then a column of ones.

    Attributes
    ----------
    starts
        (features + 2,) int64: the first entry of each column, and their number.
    rows
        (entries,) uint32: the row of each entry.
    values
        (entries,) float32 or float64.
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]
    values: NDArray[Any]


@dataclass(frozen=True, slots=True)
class SortedColumns:
    """The stored entries of each column, sorted by value and then by row.

    Attributes
    ----------
    starts
        (features + 1,) int64: the first entry of each column.
    entries
        (entries,) uint64: the rank of the value among the distinct values of the
        column << 32 | the row.
    last_below
        Takes splits and returns, for each, the rank of the last value below its
        threshold. The threshold lies between two values of the rows that were searched.
    max_candidates
        Number of candidate cuts of a node and feature, weighted quantiles of the node;
        approximate. 0: between any two values.
    """

    starts: NDArray[np.int64]
    entries: NDArray[np.uint64]
    last_below: Callable[[NDArray[Any]], NDArray[np.int64]]
    max_candidates: int = 0


@dataclass(frozen=True, slots=True)
class PerTreeBins:
    """Bins that are made again for each tree (`tree_method="approx"`).

    Attributes
    ----------
    make_bins
        Takes the hessians of the tree, (rows,) float64, and returns its bins.
    n_features
        Number of features of the data.
    is_sparse
        Whether only stored entries have bins: `make_bins` returns `SparseBins`.
    """

    make_bins: Callable[[NDArray[np.float64]], DenseBins | SparseBins]
    n_features: int
    is_sparse: bool
