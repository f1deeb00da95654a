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
    """Yield first row and table of so many rows of a table in memory each time."""
    if table.n_rows == 0:
        return
    dtypes = [_dtype_of(table, feature) for feature in range(table.n_features)]
    for start in range(0, table.n_rows, n_rows):
        yield start, _RowSlice(table, start, min(start + n_rows, table.n_rows), dtypes)


def _dtype_of(table: Table, feature: int) -> np.dtype[np.floating]:
    """Return the type that `columns` has for a column: it may fit into float32."""
    if table.dtype == np.float32 or isinstance(table, (ArrayTable, SparseTable)):
        return table.dtype
    return table.column(feature).dtype


class _RowSlice(Table):
    """Rows `first` to `last - 1` of a table; errors name the row's number in it.

    Parameters
    ----------
    table, first, last
        Which rows of what.
    dtypes
        The type of each column.
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


# Cells read in one step where a whole table is walked through.
CELLS = 1 << 20


def row_blocks(table: Table) -> Iterator[np.ndarray]:
    """Yield the rows in blocks, in C order, missing as NaN."""
    step = max(1, CELLS // table.n_features)
    for start in range(0, table.n_rows, step):
        yield table.rows(start, min(start + step, table.n_rows))


def column_entries(table: Table) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield of each column the rows of its filled cells, uint32, and their values."""
    if isinstance(table, SparseTable):
        for _, pointers, rows, values in table.entry_blocks(CELLS):
            for begin, end in pairwise(pointers.tolist()):
                yield rows[begin:end].astype(np.uint32), values[begin:end]
        return
    parts: list[list[tuple[np.ndarray, np.ndarray]]]
    parts = [[] for _ in range(table.n_features)]
    begin = 0
    for batch in table.batches():
        for feature, own in enumerate(parts):
            column = batch.column(feature)
            here = np.flatnonzero(~np.isnan(column))
            own.append(((begin + here).astype(np.uint32), column[here]))
        begin += batch.n_rows
    for own in parts:
        rows, values = zip(*own, strict=True)
        yield np.concatenate(rows), np.concatenate(values)
        own.clear()


def has_infinite(table: Table) -> bool:
    """Return whether a cell is infinite."""
    if isinstance(table, SparseTable):
        return any(np.isinf(part[-1]).any() for part in table.entry_blocks(CELLS))
    return any(np.isinf(block).any() for block in row_blocks(table))


def count_entries(table: Table) -> int:
    """Return the number of cells that are not missing."""
    if isinstance(table, SparseTable):
        return len(table.entries_by_row()[0])
    return sum(int(np.count_nonzero(block == block)) for block in row_blocks(table))


def as_csr(table: Table) -> Any:
    """Return the table as a SciPy CSR matrix without the missing cells."""
    sparse = require("scipy.sparse", "frames", "DMatrix.get_data")
    if isinstance(table, SparseTable):
        cells = table.entries_by_row()
    else:
        cells = _filled_by_row(table)
    return sparse.csr_matrix(cells, shape=(table.n_rows, table.n_features))


def _filled_by_row(table: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the values and columns of the filled cells, and each row's first."""
    values, columns = [np.empty(0, table.dtype)], [np.empty(0, np.int32)]
    counts = [np.zeros(1, np.int64)]
    for block in row_blocks(table):
        here = block == block
        values.append(block[here])
        columns.append(here.nonzero()[1].astype(np.int32))
        counts.append(here.sum(axis=1))
    return (
        np.concatenate(values),
        np.concatenate(columns),
        np.concatenate(counts).cumsum(),
    )
