"""Sorted columns, for trees whose splits can lie between any two values.

These are XGBoost's column blocks (Chen and Guestrin 2016, section 4.1): sorted once,
and scanned at each level of each tree.
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
from hornbeam.data.floats import nearest
from hornbeam.data.row_blocks import column_entries
from hornbeam.data.table import Table
from hornbeam.kernels.sort import sort_floats

__all__ = ["ColumnBlocks", "between", "beyond", "sort_columns"]

#: XGBoost's margin beyond the smallest and largest value of a column.
_MARGIN = 1e-6


@dataclass(frozen=True, slots=True)
class ColumnBlocks:
    """The stored entries of each column, sorted by value, and the distinct values.

    Attributes
    ----------
    starts, entries
        As in `SortedColumns`.
    pointers
        (features + 1,) int64: where the values of each column begin in `values`.
    values
        (values,) float32 or float64: the distinct values of each column, ascending.
    is_float32
        Whether every value is exactly a float32.
    """

    starts: NDArray[np.int64]
    entries: NDArray[np.uint64]
    pointers: NDArray[np.int64]
    values: NDArray[Any]
    is_float32: bool

    def of(self, feature: int) -> tuple[NDArray[np.uint64], NDArray[Any]]:
        """Return the entries and the distinct values of a column."""
        starts, pointers = self.starts, self.pointers
        entries = self.entries[starts[feature] : starts[feature + 1]]
        return entries, self.values[pointers[feature] : pointers[feature + 1]]

    def sorted_columns(self, max_candidates: int = 0) -> SortedColumns:
        """Return the entries as a backend takes them."""
        return SortedColumns(
            self.starts, self.entries, self._last_below, max_candidates
        )

    def _last_below(self, splits: NDArray[Any]) -> NDArray[np.int64]:
        found = np.empty(splits.size, np.int64)
        for i, threshold in enumerate(self.thresholds(splits)):
            _, values = self.of(splits["feature"][i])
            found[i] = np.searchsorted(values, threshold) - 1
        return found

    def thresholds(
        self, splits: NDArray[Any], rounded: bool = False
    ) -> NDArray[np.float64]:
        """Return the threshold of each split: smaller values go left.

        It is the middle between two values of the node, rounded to their dtype. If all
        values of the node go to one side, it lies beyond them. `splits` has shape
        (splits,) and dtype `SPLIT_DTYPE`; `rounded` means to float32.
        """
        if self.values.size == 0:  # no entries, so no splits
            return np.full(splits.size, np.nan)
        begin = self.pointers[splits["feature"]]
        last, following = splits["bin"], splits["next_bin"]
        low = self.values[begin + np.maximum(last, 0)]
        high = self.values[begin + np.maximum(following, 0)]
        below = high - (np.abs(high) + high.dtype.type(_MARGIN))
        found = np.where(last < 0, below, between(low, high))
        middle = np.where(following < 0, beyond(low), found)
        if rounded:
            middle = nearest(middle, np.float32)
        return middle.astype(np.float64)


def between(low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    """Return the middle of two values in their dtype, above `low`; else `high`."""
    with np.errstate(over="ignore"):
        middle = ((low.astype(np.float64) + high) / 2).astype(low.dtype)
    return np.where((middle > low) & (middle <= high), middle, high)


def beyond(values: NDArray[Any]) -> NDArray[Any]:
    """Return a number above each value, as XGBoost computes it."""
    with np.errstate(over="ignore"):
        return values + (np.abs(values) + values.dtype.type(_MARGIN))


def sort_columns(table: Table, n_threads: int = 1) -> ColumnBlocks:
    """Return the sorted columns of a table.

    Parameters
    ----------
    table
        The features; values can be missing.
    n_threads
        Number of threads, which share the columns; 0 or less: all processors. It does
        not change the result.
    """
    columns: list[Any] = list(column_entries(table))

    def work(feature: int) -> None:
        columns[feature] = _sort(*columns[feature])

    in_threads(work, range(len(columns)), n_threads)
    starts = _starts([entries for entries, _ in columns])
    all_entries = np.empty(starts[-1], np.uint64)
    distinct = []
    for feature, start in enumerate(starts[:-1].tolist()):
        entries, values = columns[feature]
        all_entries[start : start + entries.size] = entries
        distinct.append(values)
        columns[feature] = None  # free it, or all entries would be in memory twice
    all_values = np.concatenate(distinct)
    is_float32 = are_float32(all_values)
    if is_float32:  # so that thresholds are float32, too
        all_values = all_values.astype(np.float32, copy=False)
    return ColumnBlocks(starts, all_entries, _starts(distinct), all_values, is_float32)


def _sort(
    rows: NDArray[np.uint32], values: NDArray[Any]
) -> tuple[NDArray[np.uint64], NDArray[Any]]:
    """Return the sorted entries of a column and its distinct values."""
    # The sort is stable, so the rows of equal values stay ascending.
    values, sorted_rows = sort_floats(values, rows.astype(np.int64))
    assert sorted_rows is not None
    is_new = np.append(True, values[1:] != values[:-1])[: values.size]
    ranks = (np.cumsum(is_new) - 1).astype(np.uint64)
    return ranks << np.uint64(32) | sorted_rows.view(np.uint64), values[is_new]


def _starts(columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Return where each array begins in their concatenation, and its length."""
    return np.cumsum([0, *map(len, columns)]).astype(np.int64)
