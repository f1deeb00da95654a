"""Features of a table as bin indices for CART: one bin per distinct value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.binning.bin_table import bin_table
from hornbeam.binning.dense import DenseMatrix, to_row_major
from hornbeam.binning.sorted_columns import between, beyond
from hornbeam.binning.table_passes import checked_batches
from hornbeam.binning.threads import in_threads
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode
from hornbeam.kernels.binning import find_ends
from hornbeam.kernels.cart import place_cuts
from hornbeam.kernels.cart_split import CartTable
from hornbeam.memory import available_bytes, in_words

__all__ = ["MAX_BINS", "BinnedFeatures"]

#: A feature with at most this many distinct values has one bin for each of them.
MAX_BINS = 65_535

# The largest threshold that a model file can hold: files store float32.
_ABOVE_ALL = np.finfo(np.float32).max


@dataclass(frozen=True, slots=True)
class BinnedFeatures:
    """The bin indices of a table, and the range of values of each bin.

    Attributes
    ----------
    by_feature
        (features, rows) uint16: bin indices.
    by_row
        (rows, features) uint16: the same, transposed.
    n_bins
        (features,) int64: the number of bins, which is also the index of missing
        values.
    is_categorical
        (features,) uint8.
    lows, highs
        (bins,) float64: the smallest and the largest value in each bin, feature after
        feature.
    starts
        (features + 1,) int64: the offset of each feature's bins in `lows` and `highs`.
    is_float32
        Whether float32 represents every value exactly.
    """

    by_feature: NDArray[Any]
    by_row: NDArray[Any]
    n_bins: NDArray[np.int64]
    is_categorical: NDArray[np.uint8]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    starts: NDArray[np.int64]
    is_float32: bool

    @classmethod
    def of(
        cls, data: DMatrix, max_bin: int = MAX_BINS, n_threads: int = 1
    ) -> BinnedFeatures:
        """Return the binned features of a matrix.

        Parameters
        ----------
        data
            Features in memory.
        max_bin
            The maximum number of bins of a feature. A feature with more distinct
            values is cut at its quantiles.
        n_threads
            Threads that share the columns; 0 or less uses all processors.

        Raises
        ------
        DataError
            If the bin indices do not fit into the available memory.
        """
        table = data.table
        needed = 4 * table.n_rows * table.n_features
        if needed > available_bytes():
            raise DataError(
                f"single trees and forests keep bin indices for all {table.n_rows} x "
                f"{table.n_features} values, which need {in_words(needed)}, but only "
                f"{in_words(available_bytes())} are available; pass fewer rows or "
                "columns, or train a boosted forest (num_parallel_tree), which stores "
                "sparse rows",
                code=ErrorCode.NOT_ENOUGH_MEMORY,
            )
        binned = bin_table(table, max_bin, None, n_threads, dense=True)
        assert isinstance(binned, DenseMatrix)
        starts = binned.cuts.pointers
        by_feature = binned.by_feature.astype(np.uint16, copy=False)
        lows = np.full(starts[-1], np.inf)
        highs = np.full(starts[-1], -np.inf)

        for begin, batch in checked_batches(table):
            rows = slice(begin, begin + batch.n_rows)

            def find(feature: int, batch: Table = batch, rows: slice = rows) -> None:
                bins = slice(*starts[feature : feature + 2].tolist())
                values = batch.column(feature)
                find_ends(by_feature[feature, rows], values, lows[bins], highs[bins])

            in_threads(find, range(table.n_features), n_threads)
        by_row = to_row_major(by_feature, n_threads).reshape(table.n_rows, -1)
        return cls(
            by_feature,
            by_row,
            binned.cuts.n_bins.astype(np.int64),
            binned.is_categorical.astype(np.uint8),
            lows,
            highs,
            starts.astype(np.int64),
            binned.is_float32,
        )

    @property
    def n_features(self) -> int:
        return self.n_bins.size

    @property
    def max_bins(self) -> int:
        """The number of bins of the feature that has the most."""
        return int(self.n_bins.max(initial=1))

    def as_table(self) -> CartTable:
        """Return the arrays that the CART kernels take."""
        return CartTable(
            self.by_feature,
            self.by_row,
            self.n_bins,
            self.is_categorical,
            self.lows,
            self.starts,
        )

    def assign_thresholds(self, nodes: NDArray[Any]) -> NDArray[np.float64]:
        """Return the threshold of each split, and write its split bin into `nodes`.

        A row goes left where its value is below the threshold. Without a random cut,
        the threshold is the midpoint of two neighbouring values of the node. A split
        that only separates missing values has a threshold above all values. Bins that
        no row of the node is in are assigned to a side by the threshold.

        Parameters
        ----------
        nodes
            (nodes,) `CART_DTYPE`. Leaves and categorical splits get NaN.
        """
        is_categorical = self.is_categorical[nodes["feature"]] != 0
        is_cut = (nodes["feature"] >= 0) & ~is_categorical
        takes_all = is_cut & (nodes["next_bin"] < 0)
        nodes["bin"][takes_all] = self.n_bins[nodes["feature"][takes_all]] - 1
        cuts = nodes[is_cut]
        first, following = self.starts[cuts["feature"]], cuts["next_bin"]
        dtype = np.float32 if self.is_float32 else np.float64
        low = self.highs[first + cuts["bin"]].astype(dtype)
        high = self.lows[first + np.maximum(following, 0)].astype(dtype)
        above = np.maximum(beyond(low), _ABOVE_ALL.astype(dtype))
        middle = np.where(following < 0, above, between(low, high))
        drawn = cuts["threshold"].astype(dtype)
        # Rounding may have moved a random threshold onto the lower of the two values.
        thresholds = np.full(nodes.size, np.nan)
        thresholds[is_cut] = np.where(drawn > low, drawn, middle)
        place_cuts(nodes, thresholds, self.lows, self.starts)
        return thresholds
