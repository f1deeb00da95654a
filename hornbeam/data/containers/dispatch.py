"""Turns containers of any library into a `Table` or a column."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from hornbeam.data.containers.frame import Column, check_dates, is_time
from hornbeam.data.containers.from_arrow import (
    arrow_column,
    arrow_dataset_table,
    arrow_of_stream,
    arrow_table,
)
from hornbeam.data.containers.from_numpy import ArrayTable, as_array
from hornbeam.data.containers.from_pandas import pandas_column, pandas_table
from hornbeam.data.containers.from_polars import (
    lazy_polars_table,
    polars_column,
    polars_table,
)
from hornbeam.data.containers.from_scipy import SparseTable
from hornbeam.data.containers.times import time_array
from hornbeam.data.floats import check_finite, check_missing, float_type
from hornbeam.data.schema import LISTED
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode

__all__ = [
    "Table",
    "as_column",
    "as_frame",
    "as_table",
    "check_categorical",
    "check_finite",
    "check_is_local",
    "known_frame",
    "native_frame",
    "words",
]

Families = tuple[tuple[str, tuple[str, ...], Callable[..., Any]], ...]

TABLES: Families = (
    ("pandas", ("DataFrame",), pandas_table),
    ("polars", ("DataFrame",), polars_table),
    ("polars", ("LazyFrame",), lazy_polars_table),
    ("pyarrow", ("Table", "RecordBatch"), arrow_table),
    ("pyarrow.dataset", ("Dataset", "Scanner"), arrow_dataset_table),
    ("scipy.sparse", ("spmatrix", "sparray"), SparseTable),
)
COLUMNS: Families = (
    ("pandas", ("Series",), pandas_column),
    ("polars", ("Series",), polars_column),
    ("pyarrow", ("Array", "ChunkedArray"), arrow_column),
)
WHAT_IS_TAKEN = (
    "pass a NumPy array, a list of rows, a pandas or polars frame, a pyarrow Table, "
    "anything that offers an Arrow stream or is an array, or a SciPy sparse matrix"
)


def as_table(
    data: Any,
    missing: float | None = None,
    names: Sequence[str] | None = None,
    types: Sequence[str] | None = None,
    enable_categorical: bool = True,
    needs_columns: bool = True,
    dates: str = "error",
) -> Table:
    """Return a table of the caller's data, which is held by reference, not copied.

    Parameters
    ----------
    data
        NumPy array (or an object with the array interface or DLPack), list of rows,
        pandas or polars data frame, pyarrow Table, RecordBatch or Dataset, object with
        the Arrow stream interface or supported by narwhals, SciPy sparse matrix.
    missing
        Number that stands for a missing value, in addition to NaN and null. It does not
        apply to categorical columns.
    names
        Names of the columns instead of those of the container.
    types
        Types of the columns instead of those of the container; ``"c"`` marks a column
        of numbers as category codes.
    enable_categorical
        Whether to accept categorical columns; otherwise they raise a `DataError`.
    needs_columns
        Whether to raise a `DataError` for a table without columns.
    dates
        Whether columns of dates and times are an error, ``"error"``, or read as
        seconds, ``"expand"``.
    """
    missing = check_missing(missing)
    table = None
    if type(data) is not np.ndarray:  # a shortcut for predictions of single rows
        table = as_frame(data, missing, names, types, enable_categorical, dates)
    if table is None:
        table = _array_table(data, missing, names, types, dates)
        check_categorical(table, enable_categorical)
    if needs_columns and table.n_features == 0:
        raise DataError(
            f"the features have no columns (shape ({table.n_rows}, 0)); "
            "pass at least one column",
            code=ErrorCode.EMPTY_DATA,
        )
    return table


def as_frame(
    data: Any,
    missing: float = math.nan,
    names: Sequence[str] | None = None,
    types: Sequence[str] | None = None,
    enable_categorical: bool = False,
    dates: str = "error",
) -> Table | None:
    """Return the table of a data frame or sparse matrix; None for other objects."""
    frame = known_frame(data)
    read = None if frame is None else _reader(frame, TABLES)
    if read is None:
        return None
    table = cast(Table, read(frame, missing, names, types))
    check_dates(table, dates)
    check_categorical(table, enable_categorical)
    return table


def known_frame(data: Any) -> Any | None:
    """Return the data frame or sparse matrix that an object is, or converts to.

    None for other objects.
    """
    if _reader(data, TABLES) is not None:
        return data
    if _reader(data, COLUMNS) is not None:
        return None
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return arrow_of_stream(data)
    return native_frame(data)


def check_categorical(table: Table, enable_categorical: bool) -> None:
    """Raise a `DataError` for categorical columns, unless they are enabled."""
    if enable_categorical or not table.types or "c" not in table.types:
        return
    these = [table.label(f) for f, kind in enumerate(table.types) if kind == "c"]
    more = len(these) - LISTED
    columns = ", ".join(these[:LISTED]) + (f" and {more} more" if more > 0 else "")
    raise DataError(
        f"there are categories or text in {columns}; encode them as numbers, or pass "
        "enable_categorical=True where features are meant",
        code=ErrorCode.CATEGORICAL_NOT_ENABLED,
        columns=columns,
    )


def _array_table(
    data: Any,
    missing: float,
    names: Sequence[str] | None,
    types: Sequence[str] | None,
    dates: str,
) -> Table:
    if type(data) is not np.ndarray and _reader(data, COLUMNS) is not None:
        raise DataError(
            f"the features must be 2-d (rows x columns), but this {words(data)} is one "
            "column; make it a frame of one column, such as with to_frame()",
            code=ErrorCode.FEATURES_NOT_2D,
        )
    check_is_local(data)
    array = as_array(data)
    if array is None:
        raise DataError(
            f"cannot read features from this {words(data)}; {_advice(data)}",
            code=ErrorCode.UNSUPPORTED_DATA_TYPE,
            type=words(data),
        )
    if array.dtype.kind in "mM" and array.ndim == 2 and dates == "expand":
        array, kind = time_array(array)
        types = [kind] * array.shape[1] if types is None else types
    return ArrayTable(array, missing, names, types)


def as_column(data: Any) -> Column | None:
    """Return the column of a Series or Arrow array; None for other objects."""
    read = _reader(data, COLUMNS)
    if read is None:
        return None
    column = read(data)
    if (
        column is None
        or column.levels is not None
        or is_time(column)
        or float_type(column.dtype) is None
    ):
        kind = data.type if hasattr(data, "type") else data.dtype
        raise DataError(
            f"this {words(data)} has type {kind}, which is not a number",
            code=ErrorCode.UNSUPPORTED_ELEMENT_TYPE,
        )
    return cast(Column, column)


def words(data: Any) -> str:
    """Return the name of the object's class with its package, such as pandas Series."""
    kind = type(data)
    package = kind.__module__.partition(".")[0]
    return kind.__qualname__ if package == "builtins" else f"{package} {kind.__name__}"


def _reader(data: Any, families: Families) -> Callable[..., Any] | None:
    """Return the function that reads the object, without importing its library."""
    for module, classes, read in families:
        loaded = sys.modules.get(module)
        known = tuple(
            getattr(loaded, name) for name in classes if hasattr(loaded, name)
        )
        if isinstance(data, known):
            return read
    return None


#: What trains on the tables of engines, by the engine's package.
_ENGINES = {
    "ray": "train on a Dataset of Ray with hornbeam.ray.train (there are no estimators "
    "on Ray), or make a matrix of a worker's rows with hornbeam.ray.to_dmatrix",
    "pyspark": "train on a DataFrame of Spark with the estimators of hornbeam.spark",
}


def check_is_local(data: Any) -> None:
    """Raise a `DataError` for a table of an engine, whose rows are on its workers."""
    advice = _ENGINES.get(type(data).__module__.partition(".")[0])
    if advice is not None:
        raise DataError(
            f"cannot read features from this {words(data)}; {advice}",
            code=ErrorCode.UNSUPPORTED_DATA_TYPE,
            type=words(data),
        )


def _advice(data: Any) -> str:
    if isinstance(data, (str, os.PathLike)):
        return (
            "a DMatrix reads files: pass DMatrix(path), or load it and pass the frame"
        )
    if isinstance(data, Mapping):
        return "make a frame of it, such as pandas.DataFrame(data)"
    if isinstance(data, Iterator) or hasattr(data, "next"):
        return "a DMatrix reads batches: pass DMatrix(batches), or one table"
    return WHAT_IS_TAKEN


def native_frame(data: Any) -> Any | None:
    """Return the native data frame of an object, or an Arrow table of its rows.

    narwhals supports frames of further libraries, such as Modin, cuDF and Ibis. None if
    it is not installed or does not support the object. Lazy frames are collected.
    """
    # Objects of NumPy and Python are no frames: import nothing for them.
    package = type(data).__module__.partition(".")[0]
    if package in ("builtins", "numpy", "collections"):
        return None
    try:
        import narwhals as nw
    except ImportError:
        return None
    frame = nw.from_native(data, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        return None
    known = ("pandas", "polars", "pyarrow")
    return (
        frame.to_native() if frame.implementation.value in known else frame.to_arrow()
    )
