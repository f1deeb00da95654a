"""Rows of a table in memory, one block after the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hornbeam.data.containers.from_numpy import ArrayTable
from hornbeam.data.containers.from_scipy import SparseTable
from hornbeam.data.floats import Locate, check_finite
from hornbeam.data.table import Table

__all__ = ["slices_of"]


def slices_of(table: Table, n_rows: int) -> Iterator[tuple[int, Table]]:
    """Yield first row and table of so many rows of a table in memory each time."""
    if table.n_rows == 0:
        return
    dtypes = [_dtype_of(table, feature) for feature in range(table.n_features)]
    for start in range(0, table.n_rows, n_rows):
        yield start, _Slice(table, start, min(start + n_rows, table.n_rows), dtypes)


def _dtype_of(table: Table, feature: int) -> np.dtype[np.floating]:
    """Return the type that `columns` has for a column: it may fit into float32."""
    if table.dtype == np.float32 or isinstance(table, (ArrayTable, SparseTable)):
        return table.dtype
    return table.column(feature).dtype


class _Slice(Table):
    """Rows `first` to `last` of a table; what is wrong is said with the row's number.

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

    def columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        columns = self._columns(start, stop, scratch)
        for feature, column in enumerate(columns, start):
            check_finite(column, self.label(feature), self._first)
        return columns

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

    def locator(
        self, row: int, feature: int, features: np.ndarray | None = None
    ) -> Locate:
        return self._table.locator(self._first + row, feature, features)

    def take(self, rows: np.ndarray) -> Table:
        return self._table.take(self._first + rows)
