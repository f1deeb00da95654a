"""Passes over the rows of a table, in chunks or over columns that are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.binning.column_pass import ColumnPass, SortedPass
from hornbeam.binning.cuts import sort_column
from hornbeam.binning.sketch import CHUNK_ROWS
from hornbeam.binning.threads import in_threads, mapped_bytes, thread_count
from hornbeam.binning.value_counts import CountPass, NumberedColumn
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode

__all__ = ["ColumnCache", "checked_batches", "row_chunks", "run_passes"]

Int64s = npt.NDArray[np.int64]
#: A column as `sort_column` returns it.
Sorted = tuple[npt.NDArray[Any], Int64s | None, bool]

#: Columns read at once from a table in memory, which uses most of each cache line of a
#: row-major array.
_COLUMNS_AT_ONCE = 4
#: Rows of all columns that are copied at once: they fit in the cache.
_ROWS_AT_ONCE = 1 << 12


def run_passes(
    table: Table,
    features: Sequence[int],
    passes: Sequence[ColumnPass],
    weights: Int64s | None,
    n_threads: int,
) -> None:
    """Run a pass for each column over the rows of a table, in chunks of `CHUNK_ROWS`.

    Parameters
    ----------
    table
        All rows, or a part of them.
    features, passes
        The columns, and the pass of each.
    weights
        (rows,) weights of these rows from `integer_weights`, or None.
    n_threads
        Number of threads, which share the columns; 0 or less: all processors.
    """
    n_threads = thread_count(n_threads, len(features))
    scratches: SimpleQueue[npt.NDArray[np.uint8]] = SimpleQueue()
    for _ in range(n_threads):
        scratches.put(mapped_bytes(2 * 8 * min(CHUNK_ROWS, table.n_rows)))

    def add(column_pass: ColumnPass, chunk: npt.NDArray[Any], start: int) -> None:
        chunk_weights = None
        if weights is not None and column_pass.is_weighted:
            chunk_weights = weights[start : start + chunk.size]
        scratch = scratches.get()
        try:
            if isinstance(column_pass, CountPass):
                column_pass.count(NumberedColumn(chunk, chunk_weights, scratch))
            elif isinstance(column_pass, SortedPass):
                column_pass.add(*sort_column(chunk, chunk_weights, scratch))
        finally:
            scratches.put(scratch)

    if not table.is_stream:

        def add_columns(first: int) -> None:
            part = table.select(features[first : first + _COLUMNS_AT_ONCE])
            for i, column in enumerate(part.columns(0, part.n_features), first):
                for start in range(0, column.size, CHUNK_ROWS):
                    add(passes[i], column[start : start + CHUNK_ROWS], start)

        in_threads(add_columns, range(0, len(features), _COLUMNS_AT_ONCE), n_threads)
        return
    for start, chunk in row_chunks(table, features, CHUNK_ROWS):

        def add_chunk(
            i: int, start: int = start, chunk: list[npt.NDArray[Any]] = chunk
        ) -> None:
            add(passes[i], chunk[i], start)

        in_threads(add_chunk, range(len(features)), n_threads)


def row_chunks(
    table: Table, features: Sequence[int], rows: int
) -> Iterator[tuple[int, list[npt.NDArray[Any]]]]:
    """Yield the first row and the columns of each chunk of `rows` rows.

    The chunks do not depend on where batches end. All chunks share the same buffers,
    so a chunk is valid until the next one is read.
    """
    rows = min(rows, table.n_rows)
    buffers: list[npt.NDArray[Any]] = [np.empty(rows, np.float32) for _ in features]
    start = n_buffered = 0
    for _, batch in checked_batches(table, features):
        columns = batch.columns(0, batch.n_features)
        read = 0
        while read < batch.n_rows:
            count = min(rows - n_buffered, batch.n_rows - read)
            for i, column in enumerate(columns):
                if column.dtype.itemsize > buffers[i].dtype.itemsize:
                    narrow, buffers[i] = buffers[i], np.empty(rows, column.dtype)
                    buffers[i][:n_buffered] = narrow[:n_buffered]
                into = slice(n_buffered, n_buffered + count)
                buffers[i][into] = column[read : read + count]
            n_buffered, read = n_buffered + count, read + count
            if n_buffered == rows:
                yield start, buffers
                start, n_buffered = start + rows, 0
    if n_buffered:
        yield start, [column[:n_buffered] for column in buffers]


def checked_batches(
    table: Table, features: Sequence[int] | None = None
) -> Iterator[tuple[int, Table]]:
    """Yield the first row and the table of each batch.

    Raises a `DataError` if the number of rows is not the one of the first pass.
    """
    begin = 0
    for batch in table.batches(features):
        if begin + batch.n_rows <= table.n_rows:
            yield begin, batch
        begin += batch.n_rows
    if begin != table.n_rows:
        raise DataError(
            f"the source yielded {table.n_rows} rows in the first pass and {begin} in "
            "this one; pass a source that yields the same rows in every pass",
            code=ErrorCode.SOURCE_CHANGED,
        )


class ColumnCache:
    """Keeps columns of a table from one pass to the next, as memory allows.

    Reading or sorting takes most of the time of a pass: a pass over a column that is
    still sorted takes a tenth of it.

    Parameters
    ----------
    table
        The rows.
    weights
        (rows,) from `integer_weights`, or None.
    max_bytes
        Memory for the columns.
    """

    def __init__(self, table: Table, weights: Int64s | None, max_bytes: int) -> None:
        self._table = table
        self._weights = weights
        row_bytes = np.dtype(table.dtype).itemsize
        row_bytes += 0 if weights is None else weights.itemsize
        self._max_columns = max_bytes // (row_bytes * table.n_rows)
        #: As they are counted, or as `sort_column` returns them.
        self._columns: dict[int, NumberedColumn | Sorted] = {}

    def run_passes(
        self, features: Sequence[int], passes: Sequence[ColumnPass], n_threads: int
    ) -> int:
        """Run the passes of the first columns; return the number of these columns.

        Others are dropped from the cache, unless they are counted and all columns fit.

        Parameters
        ----------
        features, passes, n_threads
            As for the function `run_passes`.
        """
        chosen = features[: self._max_columns]
        cached = self._columns.keys() & set(chosen)
        keeps_all = self._table.n_features <= self._max_columns
        self._columns = {
            feature: column
            for feature, column in self._columns.items()
            if feature in cached or (keeps_all and isinstance(column, NumberedColumn))
        }
        new = [feature for feature in chosen if feature not in cached]
        read: dict[int, npt.NDArray[Any]] = {}
        if new:
            read = dict(zip(new, _whole_columns(self._table, new), strict=True))

        def run(i: int) -> None:
            feature, column_pass = chosen[i], passes[i]
            column = self._columns.get(feature)
            values = read.get(feature)
            if isinstance(column_pass, CountPass):
                if not isinstance(column, NumberedColumn):
                    assert values is not None
                    column = NumberedColumn(values, self._weights, _memory_of(values))
                column_pass.count(column)
            elif isinstance(column_pass, SortedPass):
                if isinstance(column, NumberedColumn):
                    values, column = column.values, None
                if column is None:
                    assert values is not None
                    weights = self._weights if column_pass.is_weighted else None
                    # A column without weights is sorted in place.
                    scratch = values.view(np.uint8) if weights is None else None
                    column = sort_column(values, weights, scratch)
                column_pass.add(*column)
            assert column is not None
            self._columns[feature] = column

        in_threads(run, range(len(chosen)), n_threads)
        return len(chosen)

    def rows(self) -> Table:
        """Return the rows, as a table of the columns that are kept if all are."""
        kept = [self._columns.get(f) for f in range(self._table.n_features)]
        counted = [column for column in kept if isinstance(column, NumberedColumn)]
        if len(counted) < len(kept):
            return self._table
        return _KeptTable(self._table, [column.values for column in counted])


class _KeptTable(Table):
    """The rows of a table, whose columns were read and checked before."""

    def __init__(self, table: Table, kept: list[npt.NDArray[Any]]) -> None:
        types, categories = table.types, table.categories
        width, dtype = table.n_features, table.dtype
        super().__init__(table.n_rows, width, table.names, types, dtype, categories)
        self._table, self._kept = table, kept

    def columns(
        self, start: int, stop: int, scratch: np.ndarray | None = None
    ) -> list[np.ndarray]:
        return self._kept[start:stop]

    _columns = columns

    def _rows(self, start: int, stop: int, features: np.ndarray | None) -> np.ndarray:
        return self._table.rows(start, stop, features)

    def take(self, rows: np.ndarray) -> Table:
        return self._table.take(rows)


def _whole_columns(table: Table, features: Sequence[int]) -> Sequence[npt.NDArray[Any]]:
    """Return columns in memory of their own, each in the order of rows."""
    if table.dtype != np.float32 or not table.has_rows:
        ((_, columns),) = row_chunks(table, features, table.n_rows)
        return columns
    whole = np.empty((len(features), table.n_rows), np.float32)
    is_all = len(features) == table.n_features
    for first, batch in checked_batches(table, None if is_all else features):
        for start in range(0, batch.n_rows, _ROWS_AT_ONCE):
            stop = min(start + _ROWS_AT_ONCE, batch.n_rows)
            whole[:, first + start : first + stop] = batch.rows(start, stop).T
        for i, column in enumerate(whole[:, first : first + batch.n_rows]):
            if np.isinf(column).any():
                batch.column(i)  # raises an error that says where
    return list(whole)


def _memory_of(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8] | None:
    """Return the memory of float32, for the same values as they are counted."""
    return values.view(np.uint8) if values.dtype == np.float32 else None
