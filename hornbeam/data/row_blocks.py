"""Blocks of rows of a table, and the entries that are not missing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from hornbeam.data.containers.from_numpy import ArrayTable
from hornbeam.data.containers.from_scipy import SparseTable
from hornbeam.data.table import Table
from hornbeam.errors import require

__all__ = [
    "as_csr",
    "column_entries",
    "count_entries",
    "has_infinite",
    "row_blocks",
    "row_slices",
]


def row_slices(table: Table, n_rows: int) -> Iterator[tuple[int, Table]]:
    """Yield the first row and the table of each slice of `n_rows` rows.

    The table must be in memory.
    """
    if table.n_rows == 0:
        return
    dtypes = [_dtype_of(table, feature) for feature in range(table.n_features)]
    for start in range(0, table.n_rows, n_rows):
        yield start, _RowSlice(table, start, min(start + n_rows, table.n_rows), dtypes)


def _dtype_of(table: Table, feature: int) -> np.dtype[np.floating]:
    """Return the dtype of a column: it can be float32 in a table of float64."""
    if table.dtype == np.float32 or isinstance(table, (ArrayTable, SparseTable)):
        return table.dtype
    return table.column(feature).dtype


class _RowSlice(Table):
    """Rows `first` to `last - 1` of a table; errors name the row's number in it.

    Parameters
    ----------
    table, first, last
        The table, its first row, and the row after the last.
    dtypes
        The dtype of each column.
    """

    def __init__(
        self, table: Table, first: int, last: int, dtypes: list[np.dtype[np.floating]]
    ) -> None:
        super().__init__(
            last - first,
            table.n_features,
            table.names,
            table.types,
            table.dtype,
            table.categories,
        )
        self._table, self._first, self._dtypes = table, first, dtypes
        self.first_row = table.first_row + first

    def _columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        rows = self.rows(0, self.n_rows, np.arange(start, stop))
        return [
            np.ascontiguousarray(column, dtype)
            for column, dtype in zip(rows.T, self._dtypes[start:stop], strict=True)
        ]

    def rows(
        self, start: int, stop: int, features: np.ndarray | None = None
    ) -> np.ndarray:
        return self._table.rows(self._first + start, self._first + stop, features)

    _rows = rows

    def label(self, feature: int) -> str:
        return self._table.label(feature)

    def take(self, rows: np.ndarray) -> Table:
        return self._table.take(self._first + rows)


#: Values of a block when a whole table is read.
BLOCK_VALUES = 1 << 20


def row_blocks(table: Table) -> Iterator[np.ndarray]:
    """Yield the rows in blocks, C-contiguous, with NaN for missing values."""
    step = BLOCK_VALUES // max(1, table.n_features) or 1
    for start in range(0, table.n_rows, step):
        yield table.rows(start, min(start + step, table.n_rows))


def column_entries(table: Table) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield for each column the rows (uint32) and values that are not missing."""
    if isinstance(table, SparseTable):
        for _, pointers, rows, values in table.entry_blocks(BLOCK_VALUES):
            for begin, end in pairwise(pointers.tolist()):
                yield rows[begin:end].astype(np.uint32), values[begin:end]
        return
    parts: list[list[tuple[np.ndarray, np.ndarray]]]
    parts = [[] for _ in range(table.n_features)]
    begin = 0
    for batch in table.batches():
        for feature, of_column in enumerate(parts):
            column = batch.column(feature)
            present = np.flatnonzero(~np.isnan(column))
            of_column.append(((begin + present).astype(np.uint32), column[present]))
        begin += batch.n_rows
    for of_column in parts:
        rows, values = zip(*of_column, strict=True)
        yield np.concatenate(rows), np.concatenate(values)
        of_column.clear()


def has_infinite(table: Table) -> bool:
    """Return whether any value is infinite."""
    if isinstance(table, SparseTable):
        blocks = table.entry_blocks(BLOCK_VALUES)
        return any(np.isinf(block[-1]).any() for block in blocks)
    return any(np.isinf(block).any() for block in row_blocks(table))


def count_entries(table: Table) -> int:
    """Return the number of values that are not missing."""
    if isinstance(table, SparseTable):
        return len(table.entries_by_row()[0])
    return sum(int(np.count_nonzero(block == block)) for block in row_blocks(table))


def as_csr(table: Table) -> Any:
    """Return the table as a SciPy CSR matrix without the missing values."""
    sparse = require("scipy.sparse", "frames", "DMatrix.get_data")
    if isinstance(table, SparseTable):
        entries = table.entries_by_row()
    else:
        entries = _entries_by_row(table)
    return sparse.csr_matrix(entries, shape=(table.n_rows, table.n_features))


def _entries_by_row(table: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the values and columns that are not missing, and each row's first one."""
    values, columns = [np.empty(0, table.dtype)], [np.empty(0, np.int32)]
    counts = [np.zeros(1, np.int64)]
    for block in row_blocks(table):
        is_present = block == block
        values.append(block[is_present])
        columns.append(is_present.nonzero()[1].astype(np.int32))
        counts.append(is_present.sum(axis=1))
    return (
        np.concatenate(values),
        np.concatenate(columns),
        np.concatenate(counts).cumsum(),
    )
