"""Finds the source of data that is read in batches: paths, queries, iterators."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hornbeam.data.containers.dispatch import words
from hornbeam.data.sources.arrow_files import ArrowIPC, Parquet
from hornbeam.data.sources.batches import ChosenColumns, Source
from hornbeam.data.sources.data_iter import IterSource
from hornbeam.data.sources.files import as_path, open_file
from hornbeam.data.sources.from_duckdb import QuerySource
from hornbeam.data.sources.iterables import (
    BatchesSource,
    DatasetSource,
    LazyFrameSource,
    is_batch,
    is_table,
)
from hornbeam.data.sources.stream import StreamTable
from hornbeam.data.sources.text_files import CSV, Svmlight
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode, short_traceback

__all__ = ["as_source", "open_source", "read"]

FORMATS = {kind.name: kind for kind in (Parquet, CSV, Svmlight, ArrowIPC)}


@short_traceback
def read(
    what: Any, *, connection: Any = None, columns: Sequence[str] | None = None
) -> Source:
    """Return a source that reads files or the result of a query in batches.

    Pass it as data to `DMatrix`, `QuantileDMatrix` or other functions. Until then only
    names of columns are read. One batch is in memory at a time.

    Parameters
    ----------
    what
        Path of a Parquet, CSV, libsvm or Arrow file, of a folder of such files, or a
        glob pattern; with a `connection`, the text of a query.
    connection
        DuckDB connection.
    columns
        Columns to read, including those of labels and weights; None: all.

    Examples
    --------
    >>> import hornbeam
    >>> import pandas as pd
    >>> houses = pd.DataFrame({"area": [80, 120, 60], "price": [200, 290, 160]})
    >>> houses.to_csv("houses.csv", index=False)
    >>> source = hornbeam.read("houses.csv")
    >>> data = hornbeam.DMatrix(source, label="price")
    >>> data.feature_names, data.get_label()
    (['area'], array([200., 290., 160.]))
    """
    if connection is not None:
        if not isinstance(what, str):
            raise DataError(
                f"with a connection, pass the text of a query, not {words(what)}",
                code=ErrorCode.INVALID_QUERY,
            )
        source: Source | None = QuerySource(what, connection)
    else:
        source = as_source(what)
    if source is None:
        raise DataError(
            f"cannot read this {words(what)} in batches; pass a path, or a query with "
            "connection=",
            code=ErrorCode.UNSUPPORTED_SOURCE,
        )
    return source if columns is None else ChosenColumns(source, columns)


def open_source(
    data: Any,
    *,
    missing: float | None = None,
    names: Sequence[str] | None = None,
    types: Sequence[str] | None = None,
    enable_categorical: bool = True,
    field_columns: Mapping[str, str] | None = None,
    content: bool = False,
    dates: str = "error",
) -> Table | None:
    """Return a table of data that is read in batches; None for other data.

    Fields that come with the rows, such as labels, are in the `info` of the table.

    Parameters
    ----------
    data
        Path or URI, the result of `read`, `DataIter`, list of batches, function that
        returns batches, iterable that can be iterated several times, polars LazyFrame,
        pyarrow Dataset. A batch is a table, (X, y) or (X, y, weight).
    missing, names, types, enable_categorical, dates
        As for `as_table`.
    field_columns
        Name of the column of each field, such as ``"label"``. They are not features.
    content
        Whether the checksum of the table (`Table.content`) is needed later.
    """
    source = as_source(data)
    if source is None:
        return None
    table = StreamTable(
        source,
        missing,
        names,
        types,
        enable_categorical,
        field_columns,
        content,
        dates,
    )
    return table if table.only is None else table.only


def as_source(data: Any) -> Source | None:
    """Return the source of data that is read in batches; None for other data."""
    if isinstance(data, Source):
        return data
    path = as_path(data)
    if path is not None:
        return open_file(path, FORMATS)
    if callable(getattr(data, "next", None)) and callable(getattr(data, "reset", None)):
        return IterSource(data)
    if _is(data, "polars", "LazyFrame"):
        return LazyFrameSource(data)
    if _is(data, "pyarrow.dataset", "Dataset"):
        return DatasetSource(data)
    if isinstance(data, (list, tuple)):
        return _listed(data)
    if hasattr(data, "__next__"):
        raise DataError(
            f"this {words(data)} can be read only once, and training reads the data "
            "several times; pass a list of the batches, a function that returns a new "
            "iterator each time, or a DataIter",
            code=ErrorCode.UNSUPPORTED_SOURCE,
        )
    if is_table(data) or isinstance(data, (bytes, Mapping, set)):
        return None
    if hasattr(data, "__array__") or hasattr(data, "__array_interface__"):
        return None
    if callable(data):
        name = f"the function {getattr(data, '__name__', words(data))!r}"
        advice = "it must return the same rows in the same order each time"
        return BatchesSource(data, name, advice)
    if isinstance(data, Iterable):
        name = f"the {words(data)}"
        advice = "it must give the same rows in the same order each time"
        return BatchesSource(lambda: _again(data, name), name, advice)
    return None


def _listed(data: Sequence[Any]) -> Source | None:
    """Return the source of a list of batches; None for a list of rows."""
    if not data or not is_batch(data[0]):
        return None
    kind = type(data).__name__
    for number, item in enumerate(data):
        if not is_batch(item):
            raise DataError(
                f"item {number} of the {kind} is {words(item)} and no batch, but item "
                "0 is one; put tables, (X, y) or (X, y, weight) into a list of "
                "batches, and pass the labels of a single table as label=",
                code=ErrorCode.INVALID_BATCH,
            )
    return BatchesSource(
        lambda: data, f"the {kind}", "its batches must not change while it is used"
    )


def _again(data: Iterable[Any], name: str) -> Iterable[Any]:
    iterator = iter(data)
    if iterator is data:
        raise DataError(
            f"{name} can be read only once; pass a list of the batches",
            code=ErrorCode.UNSUPPORTED_SOURCE,
        )
    return iterator


def _is(data: Any, module: str, kind: str) -> bool:
    """Return whether the object is of a library's class, without importing it."""
    return isinstance(data, getattr(sys.modules.get(module), kind, ()))
