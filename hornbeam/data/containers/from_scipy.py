"""SciPy sparse matrices. Values that are not stored are missing; stored zeros are 0."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hornbeam.data.floats import (
    NOT_NUMBERS,
    Locate,
    check_finite,
    float_type,
    write_floats,
)
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode

__all__ = ["SparseTable"]


class SparseTable(Table):
    """A sparse matrix, read by column from CSC and by row from CSR.

    The matrix is held by reference. The other format is made when it is first needed
    and kept; for `entry_blocks` it is not kept.
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
                f"{NOT_NUMBERS}",
                code=ErrorCode.UNSUPPORTED_ELEMENT_TYPE,
            )
        if len(matrix.shape) != 2:
            raise DataError(
                "the features must be 2-d (rows x columns), but this sparse array has "
                f"shape {matrix.shape}; use x.reshape(1, -1) for one row",
                code=ErrorCode.FEATURES_NOT_2D,
            )
        n_rows, n_features = matrix.shape
        super().__init__(n_rows, n_features, names, types, dtype)
        self._matrix = matrix
        self._missing = missing

    @property
    def n_stored(self) -> int:
        """Number of stored values, including stored missing values."""
        return int(self._matrix.nnz)

    @cached_property
    def _by_row(self) -> Any:
        return _canonical(self._matrix.tocsr(copy=False), self._matrix)

    @cached_property
    def _by_column(self) -> Any:
        return self._make_by_column()

    def _make_by_column(self) -> Any:
        return _canonical(self._matrix.tocsc(copy=False), self._matrix)

    def entry_blocks(
        self, n_entries: int
    ) -> Iterator[tuple[int, np.ndarray, Any, Any]]:
        """Yield the entries that are not missing, by column, in blocks of columns.

        Yields (first column, pointers, rows, values): entries ``pointers[k]`` to
        ``pointers[k + 1] - 1`` are those of column ``first + k``. The values are finite
        floats, as in `columns`. A block has about `n_entries` entries, and all entries
        of its columns.
        """
        made = "_by_column" in self.__dict__
        matrix = self._by_column if made else self._make_by_column()
        start = 0
        while start < self.n_features:
            most = matrix.indptr[start] + n_entries
            stop = int(np.searchsorted(matrix.indptr, most, side="right")) - 1
            stop = max(stop, start + 1)
            pointers = matrix.indptr[start : stop + 1].astype(np.int64)
            entries = slice(pointers[0], pointers[-1])
            pointers -= pointers[0]
            rows = matrix.indices[entries]
            features = np.repeat(np.arange(start, stop), np.diff(pointers))
            values = self._floats(matrix.data[entries], rows, features)
            missing = np.isnan(values)
            if missing.any():
                here = ~missing
                pointers = np.concatenate([[0], np.cumsum(here)])[pointers]
                rows, features, values = rows[here], features[here], values[here]
            self._check_finite(rows, features, values)
            yield start, pointers, rows, values
            start = stop

    def entries_by_row(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return values and columns of entries by row, and the first entry of each row.

        Missing entries are left out.
        """
        matrix = self._by_row
        rows = np.repeat(np.arange(self.n_rows), np.diff(matrix.indptr))
        values = self._floats(matrix.data, rows, matrix.indices)
        here = ~np.isnan(values)
        pointers = np.concatenate([[0], np.cumsum(here)])[matrix.indptr]
        return values[here], matrix.indices[here], pointers

    def without_values(self, features: Collection[int]) -> set[int]:
        is_blank = np.ones(self.n_features, bool)
        is_blank[self.entries_by_row()[1]] = False
        order = np.array(sorted(features), np.intp)
        return set(order[is_blank[order]].tolist())

    def row_entries(
        self, start: int, stop: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the entries of the rows `start` to `stop - 1`, by row.

        Returns pointers, columns and values: entries ``pointers[k]`` to
        ``pointers[k + 1] - 1`` are those of row ``start + k``. Missing values are NaN.
        """
        matrix = self._by_row
        pointers = matrix.indptr[start : stop + 1].astype(np.int64)
        first, end = int(pointers[0]), int(pointers[-1])
        features = matrix.indices[first:end].astype(np.int32)
        values = np.empty(end - first, self.dtype)

        def locate(index: tuple[int, ...]) -> str:
            row = np.searchsorted(pointers, first + index[0], side="right") - 1
            return f"row {start + row} of {self.label(int(features[index]))}"

        write_floats(matrix.data[first:end], values, self._missing, locate)
        return pointers - first, features, values

    def _check_finite(
        self, rows: np.ndarray, features: np.ndarray, values: np.ndarray
    ) -> None:
        infinite = np.isinf(values)
        if infinite.any():
            entry = int(infinite.argmax())
            column = np.full(rows[entry] + 1, np.nan, values.dtype)
            column[-1] = values[entry]
            check_finite(column, self.label(int(features[entry])))

    def _columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        matrix = self._by_column
        columns = []
        for feature in range(start, stop):
            entries = slice(*matrix.indptr[feature : feature + 2])
            rows = matrix.indices[entries]
            column = np.full(self.n_rows, np.nan, self.dtype)
            column[rows] = self._floats(matrix.data[entries], rows, feature)
            columns.append(column)
        return columns

    def _rows(self, start: int, stop: int, chosen: np.ndarray | None) -> np.ndarray:
        matrix = self._by_row
        entries = slice(matrix.indptr[start], matrix.indptr[stop])
        counts = np.diff(matrix.indptr[start : stop + 1])
        rows = np.repeat(np.arange(stop - start), counts)
        features, values = matrix.indices[entries], matrix.data[entries]
        place, width = features, self.n_features
        if chosen is not None:
            width = len(chosen)
            place_of = np.full(self.n_features, -1, np.int32)
            place_of[chosen] = np.arange(width)
            place = place_of[features]
            here = place >= 0
            rows, place = rows[here], place[here]
            features, values = features[here], values[here]
        out = np.full((stop - start, width), np.nan, self.dtype)
        out[rows, place] = self._floats(values, start + rows, features)
        return out

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

    def select(self, features: Sequence[int]) -> Table:
        """Return a table of some columns, with a copy of their entries."""
        order = list(features)
        is_csc = self._matrix.format == "csc"
        return SparseTable(
            (self._by_column if is_csc else self._by_row)[:, order],
            self._missing,
            None if self.names is None else [self.names[f] for f in order],
            None if self.types is None else [self.types[f] for f in order],
        )

    def take(self, rows: np.ndarray) -> Table:
        return SparseTable(self._by_row[rows], self._missing, self.names, self.types)


def _canonical(matrix: Any, given: Any) -> Any:
    """Return the matrix without duplicate entries, which are summed as in SciPy."""
    if matrix.has_canonical_format:
        return matrix
    if np.shares_memory(matrix.data, given.data):  # do not change the caller's data
        matrix = matrix.copy()
    matrix.sum_duplicates()
    return matrix
