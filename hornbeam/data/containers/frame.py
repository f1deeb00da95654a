"""Tables of typed columns, as of data frames; removes columns of fields by name."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hornbeam.data.categories import Categories, check_levels
from hornbeam.data.containers.from_numpy import ArrayTable
from hornbeam.data.floats import (
    as_floats,
    common_float,
    feature_type,
    float_type,
    write_floats,
)
from hornbeam.data.schema import LISTED, listed, time_kind
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode, ParameterError

__all__ = [
    "DATES",
    "AllMissing",
    "CategoryColumn",
    "Column",
    "FrameTable",
    "NumpyColumn",
    "check_dates",
    "check_dates_option",
    "column_names",
    "frame_table",
    "is_time",
    "pop_columns",
]

#: What may be done with columns of dates and times.
DATES = ("error", "expand")

# Advice for columns that are not numeric, by a pattern of their type.
ADVICE = {
    r"(?i)date|time|period|duration": "convert dates and times to numbers, such as "
    "the days since some date, the hour of the day, or the seconds of a duration; "
    'with dates="expand" an estimator or a DMatrix does so',
    r"(?i)decimal": "cast decimals to float64",
    r"(?i)\b(list|struct|map|array|dict|tuple|set)\b": "of a nested column make one "
    "column for each part",
    r"(?i)binary|bytes|blob": "decode bytes to strings, which are categories",
    r"(?i)complex": "of complex numbers make two columns",
    r"(?i)interval": "of intervals pass the left end and the right end",
}


class Column(ABC):
    """A column of numbers or category codes, in the memory of its container.

    Parameters
    ----------
    dtype
        The dtype of the numbers.
    kind
        XGBoost's feature type; None: that of `dtype`.
    """

    #: The categories in the order of their codes; None for a column of numbers.
    levels: np.ndarray | None = None

    def __init__(self, dtype: np.dtype[Any], kind: str | None = None) -> None:
        self.dtype = dtype
        self._kind = kind

    @property
    def kind(self) -> str:
        """XGBoost's feature type of the column."""
        return feature_type(self.dtype) if self._kind is None else self._kind

    @abstractmethod
    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the numbers, and which of them are null (None: none)."""


class NumpyColumn(Column):
    """A column in a NumPy array."""

    def __init__(self, array: np.ndarray, kind: str | None = None) -> None:
        super().__init__(array.dtype, kind)
        self._array = array

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None]:
        return self._array[start:stop], None


class AllMissing(Column):
    """A column of null type, which has no values."""

    def __init__(self) -> None:
        super().__init__(np.dtype(np.float32))

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None]:
        return np.full(stop - start, np.nan, np.float32), None


class CategoryColumn(Column):
    """A categorical column, read as codes.

    Parameters
    ----------
    levels
        The categories in the order of their codes.
    label
        Name of the column in error messages.
    """

    levels: np.ndarray

    def __init__(self, levels: Any, label: str) -> None:
        super().__init__(np.dtype(np.float32), "c")
        self.levels = check_levels(levels, label)
        # Code -1 (null) indexes the NaN at the end.
        self._floats = np.append(
            np.arange(len(self.levels), dtype=np.float32), np.float32(np.nan)
        )

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None]:
        return self._floats[self.codes(start, stop)], None

    @abstractmethod
    def codes(self, start: int, stop: int) -> np.ndarray:
        """Return integer codes, indices of `levels`; -1 for null."""


class FrameTable(Table):
    """A table of typed columns."""

    def __init__(
        self,
        columns: Sequence[Column],
        n_rows: int,
        missing: float,
        names: Sequence[str] | None,
        types: Sequence[str] | None = None,
    ) -> None:
        if types is None:
            types = [column.kind for column in columns]
        super().__init__(
            n_rows,
            len(columns),
            names,
            types,
            common_float([column.dtype for column in columns]),
            Categories.of_checked([column.levels for column in columns], names),
        )
        self.typeless = frozenset(
            feature
            for feature, column in enumerate(columns)
            if isinstance(column, AllMissing)
        )
        #: The name of each column of times, and its type as the container calls it.
        self.times: list[tuple[str, str]] = []
        self._parts = columns
        self._missing = missing
        # The value that stands for missing in each column; none in category codes.
        self._markers = [
            missing if column.levels is None else np.nan for column in columns
        ]

    def _columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        floats = []
        for feature in range(start, stop):
            values, nulls = self._parts[feature].read(0, self.n_rows)
            locate = self.locator(0, feature)
            floats.append(as_floats(values, self._markers[feature], locate, nulls))
        return floats

    def _rows(self, start: int, stop: int, features: np.ndarray | None) -> np.ndarray:
        order = range(self.n_features) if features is None else features.tolist()
        out = np.empty((stop - start, len(order)), self.dtype)
        for place, feature in enumerate(order):
            values, nulls = self._parts[feature].read(start, stop)
            locate = self.locator(start, feature)
            marker = self._markers[feature]
            write_floats(values, out[:, place], marker, locate, nulls)
        return out

    def select(self, features: Sequence[int]) -> Table:
        return FrameTable(
            [self._parts[feature] for feature in features],
            self.n_rows,
            self._missing,
            None if self.names is None else [self.names[f] for f in features],
            None if self.types is None else [self.types[f] for f in features],
        )

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
    """Return the table of the columns of a data frame.

    Parameters
    ----------
    found
        Name, type (as the container calls it) and column; the column is None if it
        holds neither numbers nor categories, which raises a `DataError`.
    n_rows
        The number of rows.
    missing
        The value that stands for missing.
    names
        Names of the columns instead of those of the data frame.
    types
        Types of the columns instead of those of the data frame.
    """
    own_names, columns, refused, times = [], [], [], []
    for name, words, column in found:
        own_names.append(name)
        if column is None or float_type(column.dtype) is None:
            refused.append((repr(name), str(words)))
            continue
        columns.append(column)
        if is_time(column):
            times.append((repr(name), str(words)))
    if refused:
        raise _refusal(refused)
    table = FrameTable(
        columns, n_rows, missing, own_names if names is None else names, types
    )
    table.times = times
    return table


def is_time(column: Column) -> bool:
    """Return whether a column holds times or durations."""
    return time_kind([column._kind or ""], 0) is not None


def check_dates(table: Table, dates: str) -> None:
    """Raise a `DataError` for columns of times, unless they are to be expanded."""
    check_dates_option(dates)
    if dates == "error" and isinstance(table, FrameTable) and table.times:
        raise _refusal(table.times)


def check_dates_option(dates: str) -> None:
    """Raise a `ParameterError` unless it is one of `DATES`."""
    if dates not in DATES:
        raise ParameterError(
            f"dates must be one of {listed(DATES)}, not {dates!r}: what to do with "
            "columns of dates and times",
            code=ErrorCode.UNKNOWN_OPTION,
        )


def _refusal(refused: list[tuple[str, str]]) -> DataError:
    more = len(refused) - LISTED
    these = ", ".join(f"{name} ({words})" for name, words in refused[:LISTED])
    hints = [
        hint
        for pattern, hint in ADVICE.items()
        if any(re.search(pattern, words) for _, words in refused)
    ]
    these += f" and {more} more" if more > 0 else ""
    advice = "; ".join(hints or ["cast them to integers, floats or strings"])
    return DataError(
        f"these columns hold neither numbers nor categories: {these}; {advice}; or "
        "leave them out",
        code=ErrorCode.NON_NUMERIC_COLUMNS,
        columns=these,
    )


def column_names(data: Any) -> list[str] | None:
    """Return the names of a data frame's columns; None for other objects."""
    if _is(data, "pandas", "DataFrame"):
        # Join the levels of a MultiIndex with spaces, as everywhere.
        return [" ".join(map(str, c)) if isinstance(c, tuple) else str(c) for c in data]
    if _is(data, "polars", "DataFrame"):
        return list(data.columns)
    if _is(data, "pyarrow", "Table", "RecordBatch"):
        return list(data.schema.names)
    return None


def pop_columns(data: Any, wanted: Mapping[str, str]) -> tuple[Any, dict[str, Any]]:
    """Return a data frame without some columns, and these columns by field.

    Parameters
    ----------
    data
        Data frame of pandas, polars or pyarrow; any object if `wanted` is empty.
    wanted
        Name of the column of each field, such as ``{"label": "price"}``.
    """
    if not wanted:
        return data, {}
    names = column_names(data)
    if names is None:
        part, name = next(iter(wanted.items()))
        raise DataError(
            f"{part}={name!r} is the name of a column, and this "
            f"{type(data).__name__} has no columns with names; pass the values, or a "
            "frame",
            code=ErrorCode.COLUMN_NOT_FOUND,
        )
    places = {part: _place(names, name, part) for part, name in wanted.items()}
    kept = [i for i in range(len(names)) if i not in set(places.values())]
    columns = {part: _column(data, place) for part, place in places.items()}
    return _select(data, kept), columns


def _place(names: Sequence[str], name: str, part: str) -> int:
    if names.count(name) == 1:
        return names.index(name)
    if name in names:
        raise DataError(
            f"there are several columns {name!r}; {part} needs just one",
            code=ErrorCode.COLUMN_NOT_FOUND,
        )
    import difflib  # for this error alone

    near = difflib.get_close_matches(name, names)
    there = f"did you mean {listed(near)}?" if near else f"there are {listed(names)}"
    raise DataError(
        f"there is no column {name!r} for {part}; {there}",
        code=ErrorCode.COLUMN_NOT_FOUND,
    )


def _column(data: Any, place: int) -> Any:
    if _is(data, "pandas", "DataFrame"):
        return data.iloc[:, place]
    if _is(data, "polars", "DataFrame"):
        return data.to_series(place)
    return data.column(place)


def _select(data: Any, places: Sequence[int]) -> Any:
    if _is(data, "pandas", "DataFrame"):
        return data.iloc[:, places]
    if _is(data, "polars", "DataFrame"):
        return data.select(data.columns[place] for place in places)
    return data.select(list(places))


def _is(data: Any, module: str, *classes: str) -> bool:
    """Return whether the object is of a library's class, without importing it."""
    loaded = sys.modules.get(module)
    return any(isinstance(data, getattr(loaded, name, ())) for name in classes)
