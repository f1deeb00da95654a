"""Abstract table of numeric features that is read in blocks, and views of it."""

from __future__ import annotations

import hashlib
import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any

import numpy as np

from hornbeam.data.categories import MAX_LEVELS, NO_CATEGORIES, Categories
from hornbeam.data.floats import Locate, check_finite
from hornbeam.data.schema import Schema, check_names, check_types, column_label
from hornbeam.errors import DataError, ErrorCode

__all__ = ["ContentChecksum", "LocatedTable", "PaddedTable", "Table"]


#: Columns, or values of a block of rows, that are in memory while a checksum is taken.
_COLUMNS_AT_ONCE = 4
_BLOCK_VALUES = 1 << 20
#: Rows in which most columns have a value, which are read before whole columns.
_FIRST_ROWS = 8


class Table(ABC):
    """A table of numeric features. The container is held by reference and read lazily.

    A categorical column holds codes 0, 1, 2, ..., the indices of its `categories`. If
    it has no category names, the codes are the categories.

    Parameters
    ----------
    n_rows, n_features
        The shape.
    names
        Names of the columns; None if the container has none.
    types
        XGBoost's types of the columns; None if the container has one type for all.
    dtype
        float32 if that holds every value exactly, else float64.
    categories
        Names of the categories.
    """

    #: Whether each use reads the rows from a source again.
    is_stream: bool = False
    #: Whether `rows` is faster than `columns`, because the container is row-major.
    has_rows: bool = False
    #: Columns without values whose type the container does not know.
    typeless: frozenset[int] = frozenset()
    #: Labels and other fields that come with the rows, by the names of
    #: ``DMatrix.set_info``.
    info: Mapping[str, Any] = MappingProxyType({})
    #: Whether `rows` raises an error for invalid category codes, as `columns` does.
    checks_rows: bool = True
    #: Number of the first row in error messages, for a part of a longer table.
    first_row: int = 0

    def __init__(
        self,
        n_rows: int,
        n_features: int,
        names: Sequence[str] | None,
        types: Sequence[str] | None,
        dtype: np.dtype[Any],
        categories: Categories = NO_CATEGORIES,
    ) -> None:
        self.n_rows = n_rows
        self.n_features = n_features
        self.names = check_names(names, n_features)
        self.dtype = dtype
        self.categories = categories
        self.retype(types)

    def rename(self, names: Sequence[str] | None) -> None:
        """Set the names of the columns."""
        self.names = check_names(names, self.n_features)
        if not self.categories.empty():
            self.categories = Categories.of_checked(self.categories.names, self.names)

    def retype(self, types: Sequence[str] | None) -> None:
        """Set the types of the columns; those with category names stay categorical."""
        types = check_types(types, self.n_features)
        self._raw_codes: frozenset[int] = frozenset()
        if types is None and self.categories.empty():
            self.types = None
            return
        for feature, levels in enumerate(self.categories.names):
            given = None if types is None else types[feature]
            if levels is not None and given != "c":
                raise DataError(
                    f"feature_types has {given!r} for {self.label(feature)}, but it "
                    "holds categories; use 'c', or encode it as numbers",
                    code=ErrorCode.FEATURE_TYPE_CONFLICT,
                )
        self.types = types
        # Columns whose codes come from the caller: they are checked when read.
        self._raw_codes = frozenset(
            feature
            for feature, kind in enumerate(types or ())
            if kind == "c" and self.categories.of(feature) is None
        )

    @property
    def schema(self) -> Schema:
        """The number, names, types and categories of the columns."""
        return Schema(self.n_features, self.names, self.types, self.categories)

    def columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        """Return the columns `start` to `stop - 1`, each 1-d and contiguous.

        Missing values are NaN. A column is float32 if that holds its type exactly, else
        float64. Do not write to the arrays: they can be memory of the container. An
        infinite value raises a `DataError`, because no bin holds it.

        `scratch` is memory (bytes) for the columns, enough for all of them in `dtype`.
        """
        columns = self._columns(start, stop, scratch)
        for feature, column in enumerate(columns, start):
            check_finite(column, self.label(feature), self.first_row)
            if feature in self._raw_codes:
                check_codes(column, self.locator(0, feature))
        return columns

    @abstractmethod
    def _columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        """Return the columns as `columns` does, without checks of values."""

    def column(self, feature: int) -> np.ndarray:
        """Return one column, as `columns` does."""
        return self.columns(feature, feature + 1)[0]

    def without_values(self, features: Collection[int]) -> set[int]:
        """Return those of the columns that have no values, only missing ones."""
        if not features or not self.n_rows:
            return set(features)
        order = np.array(sorted(features))
        some = self.rows(0, min(self.n_rows, _FIRST_ROWS), order)
        left = order[np.isnan(some).all(axis=0)].tolist()
        return {f for f in left if np.isnan(self.column(f)).all()}

    def rows(
        self, start: int, stop: int, features: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the rows `start` to `stop - 1` in `dtype`, C-contiguous.

        Missing values are NaN. With `features`, returns these columns in this order. Do
        not write to the array: it can be memory of the container.
        """
        rows = self._rows(start, stop, features)
        if self._raw_codes and self.checks_rows:
            order = range(self.n_features) if features is None else features.tolist()
            for place, feature in enumerate(order):
                if feature in self._raw_codes:
                    check_codes(rows[:, place], self.locator(start, feature))
        return rows

    @abstractmethod
    def _rows(self, start: int, stop: int, features: np.ndarray | None) -> np.ndarray:
        """Return the rows as `rows` does, without checks of values."""

    def batches(self, features: Sequence[int] | None = None) -> Iterator[Table]:
        """Yield the rows in order, as one table per batch of the source.

        With `features`, the tables have these columns in this order.
        """
        yield self if features is None else self.select(features)

    def select(self, features: Sequence[int]) -> Table:
        """Return a table of some columns, in this order, over the same memory."""
        return SelectedTable(self, features)

    @abstractmethod
    def take(self, rows: np.ndarray) -> Table:
        """Return a new table of some rows, in this order."""

    def content(self) -> str:
        """Return a checksum of all values, which identifies the table."""
        content = ContentChecksum()
        for batch in self.batches():
            content.add(batch)
        return content.digest()

    def label(self, feature: int) -> str:
        """Return the name of a column in error messages."""
        return column_label(self.names, feature)

    def locator(
        self, row: int, feature: int, features: np.ndarray | None = None
    ) -> Locate:
        """Return a function that names a value of a block in error messages.

        It takes the index of the value in the block, which begins at (row, feature).
        With `features`, the block holds these columns.
        """

        def locate(index: tuple[int, ...]) -> str:
            column = feature + (index[1] if len(index) > 1 else 0)
            if features is not None:
                column = int(features[column])
            return f"row {self.first_row + row + index[0]} of {self.label(column)}"

        return locate


class SelectedTable(Table):
    """Some columns of a table, in any order."""

    def __init__(self, table: Table, features: Sequence[int]) -> None:
        self._table = table
        self._features = np.array(features, np.intp)
        self.is_stream, self.info = table.is_stream, table.info
        self.typeless = frozenset(
            place for place, feature in enumerate(features) if feature in table.typeless
        )
        order = self._features.tolist()
        super().__init__(
            table.n_rows,
            len(order),
            None if table.names is None else [table.names[f] for f in order],
            None if table.types is None else [table.types[f] for f in order],
            table.dtype,
            table.categories.select(order),
        )

    def _columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        columns: list[np.ndarray] = []
        used = 0
        for first, beyond in _neighbours(self._features[start:stop]):
            part = None if scratch is None else scratch[used:]
            block = self._table.columns(first, beyond, part)
            used += sum(column.nbytes for column in block)
            columns += block
        return columns

    def _rows(self, start: int, stop: int, features: np.ndarray | None) -> np.ndarray:
        chosen = self._features if features is None else self._features[features]
        return self._table.rows(start, stop, chosen)

    def batches(self, features: Sequence[int] | None = None) -> Iterator[Table]:
        chosen = self._features if features is None else self._features[list(features)]
        yield from self._table.batches(chosen.tolist())

    def take(self, rows: np.ndarray) -> Table:
        return SelectedTable(self._table.take(rows), self._features.tolist())

    def content(self) -> str:
        return f"{self._table.content()} {self._features.tolist()}"


def _neighbours(features: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield the first column of each run of adjacent columns, and the end of the run.

    Reading adjacent columns at once uses the cache lines of a row-major table once.
    """
    ends = np.flatnonzero(np.diff(features) != 1) + 1
    for run in np.split(features, ends):
        if run.size:
            yield int(run[0]), int(run[-1]) + 1


def check_codes(values: np.ndarray, locate: Locate) -> None:
    """Raise a `DataError` for the first value that is not a category code."""
    with np.errstate(invalid="ignore"):
        good = (values >= 0) & (values < MAX_LEVELS) & (values == np.floor(values))
    bad = ~(good | np.isnan(values))
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"{locate((row,))} holds {values[row]}, but a column of type 'c' holds "
            f"codes of categories, whole numbers from 0 to {MAX_LEVELS - 1}",
            code=ErrorCode.INVALID_CATEGORY_CODE,
        )


class ContentChecksum:
    """Checksum of rows that are read in batches; it does not depend on their size.

    It is taken of whole rows or of columns, whichever the batches read faster.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._columns: list[int] = []

    def add(self, table: Table) -> None:
        """Add the next rows."""
        if table.has_rows:
            step = _BLOCK_VALUES // max(1, table.n_features) or 1
            for start in range(0, table.n_rows, step):
                rows = table.rows(start, min(start + step, table.n_rows))
                self._rows = zlib.crc32(rows.data, self._rows)
            return
        width = table.n_features
        self._columns = self._columns or [0] * width
        for start in range(0, width, _COLUMNS_AT_ONCE):
            stop = min(start + _COLUMNS_AT_ONCE, width)
            for feature, column in enumerate(table.columns(start, stop), start):
                before = self._columns[feature]
                levels = table.categories.of(feature)
                if levels is not None:  # batches can differ in their categories
                    before = zlib.crc32(repr(levels.tolist()).encode(), before)
                self._columns[feature] = zlib.crc32(column.data, before)

    def digest(self) -> str:
        """Return the checksum of all rows so far."""
        sums = json.dumps([self._rows, self._columns])
        return hashlib.sha256(sums.encode()).hexdigest()


class LocatedTable(Table):
    """A table whose errors say where its rows come from.

    Parameters
    ----------
    table
        The rows.
    located
        Returns the context manager that adds the place to an error.
    schema
        Names, types and categories of the columns; None: those of `table`.
    """

    def __init__(
        self,
        table: Table,
        located: Callable[[], AbstractContextManager[None]],
        schema: Schema | None = None,
    ) -> None:
        schema = table.schema if schema is None else schema
        super().__init__(
            table.n_rows,
            schema.n_features,
            schema.names,
            schema.types,
            table.dtype,
            schema.categories,
        )
        self._table = table
        self._located = located

    def columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        with self._located():
            return self._table.columns(start, stop, scratch)

    _columns = columns

    def rows(
        self, start: int, stop: int, features: np.ndarray | None = None
    ) -> np.ndarray:
        with self._located():
            return self._table.rows(start, stop, features)

    _rows = rows

    def take(self, rows: np.ndarray) -> Table:
        with self._located():
            return self._table.take(rows)


class PaddedTable(Table):
    """A table without names, padded with missing columns up to `n_features`.

    A sparse matrix read from a file ends at its last stored column, so data for
    prediction can have fewer columns than the training data.
    """

    def __init__(self, table: Table, n_features: int) -> None:
        self._table = table
        types = None
        if table.types is not None:
            types = [*table.types, *["float"] * (n_features - table.n_features)]
        self.is_stream, self.info = table.is_stream, table.info
        super().__init__(table.n_rows, n_features, None, types, table.dtype)

    def _columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        width = self._table.n_features
        known = self._table.columns(min(start, width), min(stop, width), scratch)
        empty = np.full(self.n_rows, np.nan, np.float32)
        return known + [empty] * (stop - start - len(known))

    def _rows(self, start: int, stop: int, features: np.ndarray | None) -> np.ndarray:
        chosen = np.arange(self.n_features) if features is None else features
        rows = np.full((stop - start, len(chosen)), np.nan, self.dtype)
        known = np.flatnonzero(chosen < self._table.n_features)
        rows[:, known] = self._table.rows(start, stop, chosen[known])
        return rows

    def take(self, rows: np.ndarray) -> Table:
        return PaddedTable(self._table.take(rows), self.n_features)
