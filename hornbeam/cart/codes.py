"""The features of a table as whole trees are grown on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.binning.bin_table import bin_table
from hornbeam.binning.dense import DenseMatrix, turn_columns
from hornbeam.binning.sorted_columns import between, beyond
from hornbeam.binning.table_passes import batches_of
from hornbeam.binning.threads import in_threads
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode
from hornbeam.kernels.binning import find_ends
from hornbeam.kernels.cart import place_cuts
from hornbeam.memory import available_bytes, in_words

__all__ = ["MOST_CODES", "Codes"]

#: A feature with no more different values than this has a code for each of them.
MOST_CODES = 65_535

# As a threshold in a model file, which holds float32.
_ABOVE_ALL = np.finfo(np.float32).max


@dataclass(frozen=True, slots=True)
class Codes:
    """A code for each cell of a table, and the values that each code stands for.

    Attributes
    ----------
    by_feature
        (features, rows) uint16.
    by_row
        (rows, features), the same.
    bins
        (features,) int64: how many codes there are; the missing have this one.
    is_categorical
        (features,) uint8.
    lows, highs
        (codes,) float64: the least and the greatest value of each code,
        feature after feature.
    starts
        (features + 1,) int64: where those of each feature begin.
    is_float32
        Whether every value is exactly a float32.
    """

    by_feature: NDArray[Any]
    by_row: NDArray[Any]
    bins: NDArray[np.int64]
    is_categorical: NDArray[np.uint8]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    starts: NDArray[np.int64]
    is_float32: bool

    @classmethod
    def of(cls, data: DMatrix, max_bin: int = MOST_CODES, n_threads: int = 1) -> Codes:
        """Return the codes of a matrix.

        Parameters
        ----------
        data
            Features in memory.
        max_bin
            The most codes of a feature. One with more values has its quantiles.
        n_threads
            Threads that share the columns, 0 or less for all processors.
        """
        table = data.table
        needed = 4 * table.n_rows * table.n_features
        if needed > available_bytes():
            raise DataError(
                f"a tree grown whole takes codes for all {table.n_rows} x "
                f"{table.n_features} cells, which need {in_words(needed)}, and "
                f"{in_words(available_bytes())} are there; give fewer rows or columns, "
                "or use a boosted forest (num_parallel_tree), which takes sparse rows",
                code=ErrorCode.NOT_ENOUGH_MEMORY,
            )
        binned = bin_table(table, max_bin, None, n_threads, every_cell=True)
        assert isinstance(binned, DenseMatrix)
        starts = binned.cuts.pointers
        codes = binned.by_feature.astype(np.uint16, copy=False)
        lows = np.full(starts[-1], np.inf)
        highs = np.full(starts[-1], -np.inf)

        for begin, batch in batches_of(table):
            rows = slice(begin, begin + batch.n_rows)

            def find(feature: int, batch: Table = batch, rows: slice = rows) -> None:
                own = slice(*starts[feature : feature + 2].tolist())
                values = batch.column(feature)
                find_ends(codes[feature, rows], values, lows[own], highs[own])

            in_threads(find, range(table.n_features), n_threads)
        by_row = turn_columns(codes, n_threads).reshape(table.n_rows, -1)
        return cls(
            codes,
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
        return self.bins.size

    @property
    def most_bins(self) -> int:
        return int(self.bins.max(initial=1))

    def arguments(self) -> tuple[Any, ...]:
        """Return the codes as kernels take them."""
        return (
            self.by_feature,
            self.by_row,
            self.bins,
            self.is_categorical,
            self.lows,
            self.starts,
        )

    def settle(self, nodes: NDArray[Any]) -> NDArray[np.float64]:
        """Return what goes left is below, and have codes that no row had go by it.

        `nodes` are `CART_DTYPE`; leaves and splits by category have NaN. The threshold
        lies in the middle between two values of the node, where none was drawn, and
        above all values where a split only asks whether there is one.
        """
        is_cut = (nodes["feature"] >= 0) & ~self._by_category(nodes)
        takes_all = is_cut & (nodes["next_bin"] < 0)
        nodes["bin"][takes_all] = self.bins[nodes["feature"][takes_all]] - 1
        cuts = nodes[is_cut]
        first, following = self.starts[cuts["feature"]], cuts["next_bin"]
        dtype = np.float32 if self.is_float32 else np.float64
        low = self.highs[first + cuts["bin"]].astype(dtype)
        high = self.lows[first + np.maximum(following, 0)].astype(dtype)
        above = np.maximum(beyond(low), _ABOVE_ALL.astype(dtype))
        middle = np.where(following < 0, above, between(low, high))
        drawn = cuts["threshold"].astype(dtype)
        # Rounding may have brought what was drawn to the lower of the two.
        found = np.full(nodes.size, np.nan)
        found[is_cut] = np.where(drawn > low, drawn, middle)
        place_cuts(nodes, found, self.lows, self.starts)
        return found

    def _by_category(self, nodes: NDArray[Any]) -> NDArray[np.bool_]:
        return self.is_categorical[nodes["feature"]] != 0
