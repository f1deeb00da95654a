"""Passes over the rows of a table, in chunks or over sorted columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.binning.column_pass import ColumnPass
from hornbeam.binning.cuts import sort_column
from hornbeam.binning.sketch import CHUNK_ROWS
from hornbeam.binning.threads import in_threads, mapped_bytes, thread_count
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode

__all__ = [
    "SortedColumnCache",
    "checked_batches",
    "row_chunks",
    "run_passes",
]

Int64s = npt.NDArray[np.int64]

#: Columns taken at once from a table in memory: enough to use most of each cache line
#: of a row-major array.
_COLUMNS_AT_ONCE = 4


def run_passes(
    table: Table,
    features: Sequence[int],
    readings: Sequence[ColumnPass],
    weights: Int64s | None,
    n_threads: int,
) -> None:
    """Let the rows pass by once: each column of `features` before its reading.

    Parameters
    ----------
    table
        All rows, or a part of them.
    features, readings
        The columns, and a reading for each.
    weights
        (rows,) of these rows, from `integer_weights`, or None.
    n_threads
        Threads that share the columns, 0 or less for all processors.
    """
    n_threads = thread_count(n_threads, len(features))
    scratches: SimpleQueue[npt.NDArray[np.uint8]] = SimpleQueue()
    for _ in range(n_threads):
        scratches.put(mapped_bytes(2 * 8 * min(CHUNK_ROWS, table.n_rows)))

    def take(reading: ColumnPass, chunk: npt.NDArray[Any], start: int) -> None:
        carried = None
        if weights is not None and reading.is_weighted:
            carried = weights[start : start + chunk.size]
        scratch = scratches.get()
        try:
            reading.take(*sort_column(chunk, carried, scratch))
        finally:
            scratches.put(scratch)

    if not table.is_stream:

        def take_columns(first: int) -> None:
            part = table.select(features[first : first + _COLUMNS_AT_ONCE])
            for i, column in enumerate(part.columns(0, part.n_features), first):
                for start in range(0, column.size, CHUNK_ROWS):
                    take(readings[i], column[start : start + CHUNK_ROWS], start)

        in_threads(take_columns, range(0, len(features), _COLUMNS_AT_ONCE), n_threads)
        return
    for start, chunk in row_chunks(table, features, CHUNK_ROWS):

        def take_chunk(
            i: int, start: int = start, chunk: list[npt.NDArray[Any]] = chunk
        ) -> None:
            take(readings[i], chunk[i], start)

        in_threads(take_chunk, range(len(features)), n_threads)


def row_chunks(
    table: Table, features: Sequence[int], rows: int
) -> Iterator[tuple[int, list[npt.NDArray[Any]]]]:
    """Yield first row and columns of chunks of `rows`, wherever batches end.

    The next chunk takes the memory of the one before.
    """
    rows = min(rows, table.n_rows)
    held: list[npt.NDArray[Any]] = [np.empty(rows, np.float32) for _ in features]
    start = filled = 0
    for _, batch in checked_batches(table, features):
        columns = batch.columns(0, batch.n_features)
        read = 0
        while read < batch.n_rows:
            taken = min(rows - filled, batch.n_rows - read)
            for i, column in enumerate(columns):
                if column.dtype.itemsize > held[i].dtype.itemsize:
                    narrow, held[i] = held[i], np.empty(rows, column.dtype)
                    held[i][:filled] = narrow[:filled]
                held[i][filled : filled + taken] = column[read : read + taken]
            filled, read = filled + taken, read + taken
            if filled == rows:
                yield start, held
                start, filled = start + rows, 0
    if filled:
        yield start, [column[:filled] for column in held]


def checked_batches(
    table: Table, features: Sequence[int] | None = None
) -> Iterator[tuple[int, Table]]:
    """Yield first row and batch, or raise a `DataError` if the rows are not as many."""
    begin = 0
    for batch in table.batches(features):
        if begin + batch.n_rows <= table.n_rows:
            yield begin, batch
        begin += batch.n_rows
    if begin != table.n_rows:
        raise DataError(
            f"the source gave {table.n_rows} rows before and {begin} now; give one "
            "that yields the same rows each time it is read",
            code=ErrorCode.SOURCE_CHANGED,
        )


class SortedColumnCache:
    """As many columns of a table as there is room for, each put in order once.

    To put a column in order is nearly all of a reading: where it is kept from the one
    before, a reading takes a tenth of the time.

    Parameters
    ----------
    table
        The rows.
    weights
        (rows,) from `integer_weights`, or None.
    room
        Bytes for the columns that are kept.
    """

    def __init__(self, table: Table, weights: Int64s | None, room: int) -> None:
        self._table = table
        self._weights = weights
        cell_bytes = np.dtype(table.dtype).itemsize
        cell_bytes += 0 if weights is None else weights.itemsize
        self._most = room // (cell_bytes * table.n_rows)
        self._columns: dict[int, tuple[npt.NDArray[Any], Int64s | None, bool]] = {}

    def read(
        self, features: Sequence[int], readings: Sequence[ColumnPass], n_threads: int
    ) -> int:
        """Let all rows of the first columns pass by; return how many these are.

        Columns that are not read again are let go.

        Parameters
        ----------
        features, readings, n_threads
            As for `run_passes`.
        """
        chosen = features[: self._most]
        held = self._columns.keys() & set(chosen)
        self._columns = {feature: self._columns[feature] for feature in held}
        new = [i for i, feature in enumerate(chosen) if feature not in held]
        if new:
            self._put_in_order(chosen, new, readings, n_threads)

        def take(i: int) -> None:
            readings[i].take(*self._columns[chosen[i]])

        in_threads(take, range(len(chosen)), n_threads)
        return len(chosen)

    def _put_in_order(
        self,
        features: Sequence[int],
        new: Sequence[int],
        readings: Sequence[ColumnPass],
        n_threads: int,
    ) -> None:
        chunks = row_chunks(self._table, [features[i] for i in new], self._table.n_rows)
        ((_, columns),) = chunks

        def order(place: int) -> None:
            i, values = new[place], columns[place]
            weights = self._weights if readings[i].is_weighted else None
            # Without weights a column is put in order where it lies.
            scratch = values.view(np.uint8) if weights is None else None
            self._columns[features[i]] = sort_column(values, weights, scratch)

        in_threads(order, range(len(new)), n_threads)
