"""pandas data frames: NumPy, nullable, sparse, categorical and Arrow columns."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hornbeam.data.containers.frame import (
    AllMissing,
    CategoryColumn,
    Column,
    FrameTable,
    NumpyColumn,
    frame_table,
    is_time,
)
from hornbeam.data.containers.from_arrow import arrow_column
from hornbeam.data.containers.times import numpy_times
from hornbeam.data.floats import EXACT, beyond_exact
from hornbeam.errors import DataError, ErrorCode

__all__ = ["pandas_column", "pandas_table"]

# Results of infer_dtype for objects that are all strings, times or numbers.
TEXT = ("string", "empty")
TIMES = ("date", "datetime", "datetime64", "timedelta", "timedelta64")
NUMBERS = ("integer", "floating", "mixed-integer-float", "boolean")


def pandas_column(series: Any) -> Column | None:
    """Return the column of a Series; None if it has neither numbers nor categories."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "mM":
        return numpy_times(series.to_numpy(), str(dtype))
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return NumpyColumn(series.to_numpy())
    label = f"column {_name(series.name)!r}"
    if hasattr(dtype, "categories"):
        return PandasCategories(series, label)
    if dtype.kind == "O" and getattr(dtype, "storage", "python") == "python":
        return _object_column(series.to_numpy(dtype=object), label)
    if hasattr(dtype, "pyarrow_dtype") or hasattr(dtype, "storage"):
        return arrow_column(series.array.__arrow_array__(), label)
    if hasattr(dtype, "tz"):
        values = series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        return numpy_times(values, str(dtype), str(dtype.tz))
    if hasattr(dtype, "fill_value"):
        return SparseColumn(series)
    # pandas has no public base class of nullable dtypes, but each has `numpy_dtype`.
    if isinstance(getattr(dtype, "numpy_dtype", None), np.dtype):
        return NullableColumn(series)
    return None


def pandas_table(
    data: Any,
    missing: float,
    names: Sequence[str] | None,
    types: Sequence[str] | None = None,
) -> FrameTable:
    """Return the table of a DataFrame."""

    def found() -> Iterator[tuple[str, Any, Column | None]]:
        for name, series in data.items():
            column = pandas_column(series)
            is_known = column is not None and not is_time(column)
            words = series.dtype if is_known else _words(series)
            yield _name(name), words, column

    return frame_table(found(), len(data), missing, names, types)


def _name(name: Any) -> str:
    """Return a column's name as a string; joins levels of a MultiIndex with spaces."""
    return " ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def _words(series: Any) -> str:
    """Return the name of a column's type in error messages."""
    if series.dtype != object:
        return str(series.dtype)
    first = next((value for value in series.dropna()), None)
    return f"object: {type(first).__name__}"


class NullableColumn(Column):
    """A column of a nullable dtype, such as Int64 or boolean: values and a mask."""

    def __init__(self, series: Any) -> None:
        super().__init__(series.dtype.numpy_dtype)
        self._series = series

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None]:
        part = self._series.iloc[start:stop]
        nulls = part.isna().to_numpy()
        if not nulls.any():
            return part.to_numpy(dtype=self.dtype), None
        filler = self.dtype.type(0)
        return part.to_numpy(dtype=self.dtype, na_value=filler), nulls


class SparseColumn(Column):
    """A Sparse column; values not stored are the fill value, missing if it is NaN."""

    def __init__(self, series: Any) -> None:
        super().__init__(series.dtype.subtype)
        self._series = series

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None]:
        return np.asarray(self._series.array[start:stop]), None


class PandasCategories(CategoryColumn):
    """A categorical column; its categories in order, unused ones included."""

    def __init__(self, series: Any, label: str) -> None:
        own = series.array
        super().__init__(own.categories.to_numpy(), label)
        self._codes = own.codes

    def codes(self, start: int, stop: int) -> np.ndarray:
        return self._codes[start:stop]


class ObjectCategories(CategoryColumn):
    """A column of str objects; the categories are the distinct strings, sorted."""

    def __init__(self, values: np.ndarray, label: str) -> None:
        import pandas as pd

        present = pd.unique(values)
        super().__init__(sorted(present[~pd.isna(present)].tolist()), label)
        self._places = {name: code for code, name in enumerate(self.levels)}
        self._values = values

    def codes(self, start: int, stop: int) -> np.ndarray:
        import pandas as pd

        own, present = pd.factorize(self._values[start:stop])
        places = [*(self._places[name] for name in present), -1]
        return np.array(places, np.int32)[own]


def _object_column(values: np.ndarray, label: str) -> Column | None:
    """Return the column of objects that are all strings or all numbers, or null."""
    import pandas as pd

    kind = pd.api.types.infer_dtype(values, skipna=True)
    if kind in TEXT:
        nothing = kind == "empty" and len(values) > 0
        return AllMissing() if nothing else ObjectCategories(values, label)
    if kind in TIMES:
        convert = pd.to_timedelta if kind.startswith("time") else pd.to_datetime
        try:
            return pandas_column(pd.Series(convert(values)))
        except (TypeError, ValueError, OverflowError):
            return None  # several time zones, or years that 64 bits do not hold
    nulls = pd.isna(values)
    if kind not in NUMBERS:
        known = np.flatnonzero(~nulls)
        kinds = [_kind(values[row]) for row in known]
        odd = next((i for i, k in enumerate(kinds) if k != kinds[0]), None)
        if odd is not None:
            raise DataError(
                f"{label} holds {kinds[0]} in row {known[0]} ({values[known[0]]!r}), "
                f"but {kinds[odd]} in row {known[odd]} ({values[known[odd]]!r}); make "
                "it all numbers or all strings",
                code=ErrorCode.UNSUPPORTED_ELEMENT_TYPE,
            )
        if kinds[0] == "text":
            return ObjectCategories(values, label)
        if kinds[0] != "a number":
            return None
    for row in np.flatnonzero(~nulls):
        value = values[row]
        if isinstance(value, numbers.Integral) and abs(int(value)) > EXACT:
            raise DataError(
                beyond_exact(value, f"row {row} of {label}"),
                code=ErrorCode.INTEGER_NOT_EXACT,
            )
    types = {"boolean": "i", "integer": "int"}
    floats = np.where(nulls, np.nan, values).astype(np.float64)
    return NumpyColumn(floats, types.get(kind))


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, (numbers.Real, np.bool_)):
        return "a number"
    return f"a {type(value).__name__}"
