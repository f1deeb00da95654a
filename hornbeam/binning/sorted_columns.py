"""Columns in ascending order, for trees that are cut between any two values.

The column blocks of XGBoost (Chen and Guestrin 2016, section 4.1): put in order once,
and gone through from one end to the other at each level of each tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.binning.cuts import are_float32
from hornbeam.binning.layout import SortedColumns
from hornbeam.binning.threads import in_threads
from hornbeam.data.row_blocks import column_entries
from hornbeam.data.table import Table
from hornbeam.kernels.sort import sort_floats

__all__ = ["ColumnBlocks", "between", "beyond", "sort_columns"]

#: XGBoost's margin beyond the ends of a column.
_MARGIN = 1e-6


@dataclass(frozen=True, slots=True)
class ColumnBlocks:
    """The filled cells of each column, ascending, and the values that they have.

    Attributes
    ----------
    starts, entries
        See `SortedColumns`.
    pointers
        (features + 1,) int64: where each column's values begin in `values`.
    values
        (values,) float32 or float64: of each column, ascending and all different.
    is_float32
        Whether every value is exactly a float32.
    """

    starts: NDArray[np.int64]
    entries: NDArray[np.uint64]
    pointers: NDArray[np.int64]
    values: NDArray[Any]
    is_float32: bool

    def of(self, feature: int) -> tuple[NDArray[np.uint64], NDArray[Any]]:
        """Return the cells of a column, and its values."""
        starts, pointers = self.starts, self.pointers
        cells = self.entries[starts[feature] : starts[feature + 1]]
        return cells, self.values[pointers[feature] : pointers[feature + 1]]

    def sorted_columns(self, max_candidates: int = 0) -> SortedColumns:
        """Return the cells as a backend takes them."""
        return SortedColumns(
            self.starts, self.entries, self._last_below, max_candidates
        )

    def _last_below(self, splits: NDArray[Any]) -> NDArray[np.int64]:
        found = np.empty(splits.size, np.int64)
        for i, threshold in enumerate(self.thresholds(splits)):
            _, values = self.of(splits["feature"][i])
            found[i] = np.searchsorted(values, threshold) - 1
        return found

    def thresholds(self, splits: NDArray[Any]) -> NDArray[np.float64]:
        """Return what values that go left are below, for (splits,) `SPLIT_DTYPE`.

        It lies in the middle between two values of the node, as a number of the
        values' type; beyond its values if all that are there go one way.
        """
        if self.values.size == 0:  # no cell is filled, and so nothing is split
            return np.full(splits.size, np.nan)
        begin = self.pointers[splits["feature"]]
        last, following = splits["bin"], splits["next_bin"]
        low = self.values[begin + np.maximum(last, 0)]
        high = self.values[begin + np.maximum(following, 0)]
        below = high - (np.abs(high) + high.dtype.type(_MARGIN))
        found = np.where(last < 0, below, between(low, high))
        return np.where(following < 0, beyond(low), found).astype(np.float64)


def between(low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    """Return the middle of two values, as a number of their type above the lower."""
    with np.errstate(over="ignore"):
        middle = ((low.astype(np.float64) + high) / 2).astype(low.dtype)
    return np.where((middle > low) & (middle <= high), middle, high)


def beyond(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers above these values."""
    with np.errstate(over="ignore"):
        return values + (np.abs(values) + values.dtype.type(_MARGIN))


def sort_columns(table: Table, n_threads: int = 1) -> ColumnBlocks:
    """Return the columns of a table in order.

    Parameters
    ----------
    table
        Of numbers, with missing cells or without.
    n_threads
        Threads that share the columns, 0 or less for all processors; they do not
        change the result.
    """
    columns: list[Any] = list(column_entries(table))

    def work(feature: int) -> None:
        columns[feature] = _in_order(*columns[feature])

    in_threads(work, range(len(columns)), n_threads)
    starts = _starts([cells for cells, _ in columns])
    every_cell = np.empty(starts[-1], np.uint64)
    values = []
    for feature, start in enumerate(starts[:-1].tolist()):
        cells, own_values = columns[feature]
        every_cell[start : start + cells.size] = cells
        values.append(own_values)
        columns[feature] = None  # or all cells would be there twice
    every_value = np.concatenate(values)
    is_float32 = are_float32(every_value)
    if is_float32:  # so are then the thresholds
        every_value = every_value.astype(np.float32, copy=False)
    return ColumnBlocks(
        starts,
        every_cell,
        _starts(values),
        every_value,
        is_float32,
    )


def _in_order(
    rows: NDArray[np.uint32], values: NDArray[Any]
) -> tuple[NDArray[np.uint64], NDArray[Any]]:
    """Return the cells of a column in order, and its values."""
    # Stable where rows travel along: those of equal values stay ascending.
    ordered, carried = sort_floats(values, rows.astype(np.int64))
    assert carried is not None
    is_new = np.append(True, ordered[1:] != ordered[:-1])[: ordered.size]
    ranks = (np.cumsum(is_new) - 1).astype(np.uint64)
    return ranks << np.uint64(32) | carried.view(np.uint64), ordered[is_new]


def _starts(columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Return where each begins when they are joined, and where the last ends."""
    return np.cumsum([0, *map(len, columns)]).astype(np.int64)
