"""Tables made of columns that have a type each: the ground of all data frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hornbeam.data.floats import (
    NOT_NUMBERS,
    as_floats,
    common_float,
    feature_type,
    float_type,
    write_floats,
)
from hornbeam.data.from_numpy import ArrayTable
from hornbeam.data.schema import LISTED
from hornbeam.data.table import Table
from hornbeam.errors import DataError

__all__ = ["AllMissing", "Column", "FrameTable", "NumpyColumn", "frame_table"]


class Column(ABC):
    """One column of numbers in its container's own memory.

    Parameters
    ----------
    dtype
        The type of the numbers.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype

    @abstractmethod
    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Return numbers, and which of them are null (None: none of them)."""


class NumpyColumn(Column):
    """A column that is an array."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__(array.dtype)
        self._array = array

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None]:
        return self._array[start:stop], None


class AllMissing(Column):
    """A column of the null type, which has no values at all."""

    def __init__(self) -> None:
        super().__init__(np.dtype(np.float32))

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None]:
        return np.full(stop - start, np.nan, np.float32), None


class FrameTable(Table):
    """A table of columns."""

    def __init__(
        self,
        columns: Sequence[Column],
        n_rows: int,
        missing: float,
        names: Sequence[str] | None,
        types: Sequence[str] | None = None,
    ) -> None:
        if types is None:
            types = [feature_type(column.dtype) for column in columns]
        dtype = common_float([column.dtype for column in columns])
        super().__init__(n_rows, len(columns), names, types, dtype)
        self._parts = columns
        self._missing = missing

    def _columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        floats = []
        for feature in range(start, stop):
            values, nulls = self._parts[feature].read(0, self.n_rows)
            locate = self.locator(0, feature)
            floats.append(as_floats(values, self._missing, locate, nulls))
        return floats

    def _rows(self, start: int, stop: int, features: np.ndarray | None) -> np.ndarray:
        order = range(self.n_features) if features is None else features.tolist()
        out = np.empty((stop - start, len(order)), self.dtype)
        for place, feature in enumerate(order):
            values, nulls = self._parts[feature].read(start, stop)
            locate = self.locator(start, feature)
            write_floats(values, out[:, place], self._missing, locate, nulls)
        return out

    def take(self, rows: np.ndarray) -> Table:
        out = np.empty((len(rows), self.n_features), self.dtype, order="F")
        for feature in range(self.n_features):
            (column,) = self._columns(feature, feature + 1)
            out[:, feature] = column[rows]
        return ArrayTable(
            out, names=self.names, types=self.types, categories=self.categories
        )


def frame_table(
    found: Iterable[tuple[str, Any, Column | None]],
    n_rows: int,
    missing: float,
    names: Sequence[str] | None,
    types: Sequence[str] | None = None,
) -> FrameTable:
    """Return the table of a frame's columns.

    Parameters
    ----------
    found
        Name, type as the container words it, and column; None where it has no numbers.
    n_rows
        The number of rows.
    missing
        The value that means missing.
    names
        Names to use in place of the frame's own.
    types
        Types to use in place of the frame's own.
    """
    own_names, columns, refused = [], [], []
    for name, words, column in found:
        own_names.append(name)
        if column is None or float_type(column.dtype) is None:
            refused.append(f"{name!r} ({words})")
        else:
            columns.append(column)
    if refused:
        more = len(refused) - LISTED
        these = ", ".join(refused[:LISTED]) + (f" and {more} more" if more > 0 else "")
        raise DataError(
            f"these columns cannot be read as numbers: {these}; {NOT_NUMBERS}"
        )
    return FrameTable(
        columns, n_rows, missing, own_names if names is None else names, types
    )
