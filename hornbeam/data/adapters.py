"""The door: from whatever the caller has to a `Table` or a single column."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from hornbeam.data.floats import check_finite, check_missing, float_type
from hornbeam.data.frame import Column
from hornbeam.data.from_arrow import arrow_column, arrow_table
from hornbeam.data.from_numpy import ArrayTable, as_array
from hornbeam.data.from_pandas import pandas_column, pandas_table
from hornbeam.data.from_polars import polars_column, polars_table
from hornbeam.data.from_scipy import SparseTable
from hornbeam.data.table import Table
from hornbeam.errors import DataError

__all__ = ["Table", "as_column", "as_frame", "as_table", "check_finite", "words"]

Families = tuple[tuple[str, tuple[str, ...], Callable[..., Any]], ...]

TABLES: Families = (
    ("pandas", ("DataFrame",), pandas_table),
    ("polars", ("DataFrame",), polars_table),
    ("pyarrow", ("Table", "RecordBatch"), arrow_table),
    ("scipy.sparse", ("spmatrix", "sparray"), SparseTable),
)
COLUMNS: Families = (
    ("pandas", ("Series",), pandas_column),
    ("polars", ("Series",), polars_column),
    ("pyarrow", ("Array", "ChunkedArray"), arrow_column),
)
WHAT_IS_TAKEN = (
    "pass a NumPy array, a list of rows, a pandas or polars DataFrame, a pyarrow Table "
    "or RecordBatch, or a SciPy sparse matrix"
)


def as_table(
    data: Any,
    missing: float | None = None,
    names: Sequence[str] | None = None,
    types: Sequence[str] | None = None,
    enable_categorical: bool = True,
) -> Table:
    """Return a table over the caller's data, which is held by reference, not copied.

    Parameters
    ----------
    data
        NumPy array (or what offers itself as one), list of rows, pandas or polars
        DataFrame, pyarrow Table or RecordBatch, SciPy sparse matrix.
    missing
        The number that stands for missing, besides NaN and null.
    names
        Names for the columns in place of the container's own.
    types
        Types for the columns in place of the container's own; ``"c"`` says that a
        column of numbers holds codes of categories.
    enable_categorical
        Whether a categorical column is taken; else it is an error.
    """
    missing = check_missing(missing)
    table = as_frame(data, missing, names, types)
    if table is None:
        table = _array_table(data, missing, names, types)
    if not enable_categorical and table.types and "c" in table.types:
        first = table.types.index("c")
        raise DataError(
            f"{table.label(first)} is categorical (so are {table.types.count('c')} of "
            f"{table.n_features} columns); pass enable_categorical=True, or encode "
            "them as numbers"
        )
    return table


def _array_table(
    data: Any, missing: float, names: Sequence[str] | None, types: Sequence[str] | None
) -> Table:
    if _reader(data, COLUMNS) is not None:
        raise DataError(
            f"the features must be 2-d (rows x columns), but this {words(data)} is one "
            "column; make it a frame of one column, such as with to_frame()"
        )
    array = as_array(data)
    if array is None:
        raise DataError(f"cannot read features from this {words(data)}; {_mend(data)}")
    return ArrayTable(array, missing, names, types)


def as_frame(
    data: Any,
    missing: float = math.nan,
    names: Sequence[str] | None = None,
    types: Sequence[str] | None = None,
) -> Table | None:
    """Return the table of a data frame or sparse matrix; None for any other object."""
    read = _reader(data, TABLES)
    return None if read is None else cast(Table, read(data, missing, names, types))


def as_column(data: Any) -> Column | None:
    """Return the column of a Series or Arrow array; None for any other object."""
    read = _reader(data, COLUMNS)
    if read is None:
        return None
    column = read(data)
    if column is None or float_type(column.dtype) is None:
        kind = data.type if hasattr(data, "type") else data.dtype
        raise DataError(f"this {words(data)} has type {kind}, which is not a number")
    return cast(Column, column)


def words(data: Any) -> str:
    """Return what the object is, as a person would import it."""
    kind = type(data)
    package = kind.__module__.partition(".")[0]
    return kind.__qualname__ if package == "builtins" else f"{package} {kind.__name__}"


def _reader(data: Any, families: Families) -> Callable[..., Any] | None:
    """Return what reads the object, found without importing its library."""
    for module, classes, read in families:
        loaded = sys.modules.get(module)
        known = tuple(
            getattr(loaded, name) for name in classes if hasattr(loaded, name)
        )
        if isinstance(data, known):
            return read
    return None


def _mend(data: Any) -> str:
    if isinstance(data, (str, os.PathLike)):
        return (
            "files are not read yet: load it, for example with pandas.read_parquet or "
            "polars.read_csv, and pass the frame"
        )
    if isinstance(data, Mapping):
        return "make a frame of it, such as pandas.DataFrame(data)"
    if hasattr(data, "collect"):
        return "call its collect() and pass the frame"
    if isinstance(data, Iterator) or hasattr(data, "next"):
        return "batches are not read yet: put them together into one table"
    return WHAT_IS_TAKEN
