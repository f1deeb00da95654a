"""Sparse matrices of SciPy; an absent cell is missing, a stored zero is a zero."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hornbeam.data.floats import NOT_NUMBERS, Locate, float_type, write_floats
from hornbeam.data.table import Table
from hornbeam.errors import DataError

__all__ = ["SparseTable"]


class SparseTable(Table):
    """A sparse matrix, read by columns from CSC and by rows from CSR.

    The form that was not given is made when it is first needed, and kept.
    """

    def __init__(
        self,
        matrix: Any,
        missing: float = np.nan,
        names: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
    ) -> None:
        dtype = float_type(matrix.dtype)
        if dtype is None:
            raise DataError(
                f"this has dtype {matrix.dtype}, which cannot be read as numbers: "
                f"{NOT_NUMBERS}"
            )
        if len(matrix.shape) != 2:
            raise DataError(
                "the features must be 2-d (rows x columns), but this sparse array has "
                f"shape {matrix.shape}; use x.reshape(1, -1) for one row"
            )
        n_rows, n_features = matrix.shape
        super().__init__(n_rows, n_features, names, types, dtype)
        self._matrix = matrix
        self._missing = missing

    @cached_property
    def _by_row(self) -> Any:
        return _canonical(self._matrix.tocsr(copy=False))

    @cached_property
    def _by_column(self) -> Any:
        own = self._matrix if self._matrix.format == "csc" else self._by_row
        return _canonical(own.tocsc(copy=False))

    def _columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        matrix = self._by_column
        columns = []
        for feature in range(start, stop):
            cells = slice(*matrix.indptr[feature : feature + 2])
            rows = matrix.indices[cells]
            column = np.full(self.n_rows, np.nan, self.dtype)
            column[rows] = self._floats(matrix.data[cells], rows, feature)
            columns.append(column)
        return columns

    def _rows(self, start: int, stop: int, chosen: np.ndarray | None) -> np.ndarray:
        matrix = self._by_row
        out = np.full((stop - start, self.n_features), np.nan, self.dtype)
        cells = slice(matrix.indptr[start], matrix.indptr[stop])
        counts = np.diff(matrix.indptr[start : stop + 1])
        rows = np.repeat(np.arange(stop - start), counts)
        features = matrix.indices[cells]
        out[rows, features] = self._floats(matrix.data[cells], start + rows, features)
        return out if chosen is None else out.take(chosen, axis=1)

    def _floats(
        self, values: np.ndarray, rows: np.ndarray, features: np.ndarray | int
    ) -> np.ndarray:
        out = np.empty(len(values), self.dtype)
        write_floats(values, out, self._missing, self._cell(rows, features))
        return out

    def _cell(self, rows: np.ndarray, features: np.ndarray | int) -> Locate:
        def locate(index: tuple[int, ...]) -> str:
            feature = np.broadcast_to(features, rows.shape)[index]
            return f"row {rows[index]} of {self.label(int(feature))}"

        return locate

    def take(self, rows: np.ndarray) -> Table:
        return SparseTable(self._by_row[rows], self._missing, self.names, self.types)


def _canonical(matrix: Any) -> Any:
    """Return the matrix with each cell at most once: SciPy adds up repeated ones."""
    if matrix.has_canonical_format:
        return matrix
    matrix = matrix.copy()  # the given one is the caller's
    matrix.sum_duplicates()
    return matrix
