"""The cuts of tables that are read in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.binning.column_pass import ColumnPass
from hornbeam.binning.cuts import ColumnCuts, in_order
from hornbeam.binning.exact_quantiles import columns_of, find_cuts
from hornbeam.binning.sketch import CHUNK_ROWS
from hornbeam.binning.threads import in_threads, mapped_bytes, thread_count
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ErrorCode

__all__ = ["ROOM", "batches_of", "chunks_of", "cuts_of_stream", "read_chunks"]

Int64s = npt.NDArray[np.int64]

#: Bytes of chunks, and of values kept, that are held at once; other columns wait for
#: readings of their own.
ROOM = 96 << 20
#: Bytes of a column's sketches and ranges.
_COLUMN_BYTES = 1 << 20
#: Columns taken at once from a table in memory: enough to use most of each cache line
#: of a row-major array.
_COLUMNS_AT_ONCE = 4


def cuts_of_stream(
    table: Table,
    max_bin: int,
    weights: Int64s | None,
    n_threads: int,
    exact: bool,
    room: int | None = None,
) -> list[ColumnCuts]:
    """Return the cuts of all columns, or raise what reading raises.

    Parameters
    ----------
    table
        The features; read several times if the cuts are to be `exact`.
    max_bin
        The most bins of a column.
    weights
        (rows,) from `integer_weights`, or None.
    n_threads
        Threads that share the columns, 0 or less for all processors.
    exact
        Whether the cuts are those of all rows in memory, or those of a sketch.
    room
        Bytes of memory for it; `ROOM` if None. Little room makes more readings.
    """
    room = ROOM if room is None else room
    chunk_bytes = min(CHUNK_ROWS, table.n_rows) * np.dtype(table.dtype).itemsize
    at_once = max(1, room // (chunk_bytes + _COLUMN_BYTES))
    cuts: list[ColumnCuts] = []
    for start in range(0, table.n_features, at_once):
        features = range(start, min(start + at_once, table.n_features))
        columns = columns_of(
            table.schema,
            max_bin,
            table.n_rows,
            exact=exact,
            room=room,
            features=features,
        )

        def read(
            places: list[int], readings: list[ColumnPass], features: range = features
        ) -> list[ColumnPass]:
            chosen = [features[place] for place in places]
            read_chunks(table, chosen, readings, weights, n_threads)
            return readings

        cuts += find_cuts(columns, read)
    return cuts


def read_chunks(
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
            reading.take(*in_order(chunk, carried, scratch))
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
    for start, chunk in chunks_of(table, features, CHUNK_ROWS):

        def take_chunk(
            i: int, start: int = start, chunk: list[npt.NDArray[Any]] = chunk
        ) -> None:
            take(readings[i], chunk[i], start)

        in_threads(take_chunk, range(len(features)), n_threads)


def chunks_of(
    table: Table, features: Sequence[int], rows: int
) -> Iterator[tuple[int, list[npt.NDArray[Any]]]]:
    """Yield first row and columns of chunks of `rows`, wherever batches end.

    The next chunk takes the memory of the one before.
    """
    rows = min(rows, table.n_rows)
    held: list[npt.NDArray[Any]] = [np.empty(rows, np.float32) for _ in features]
    start = filled = 0
    for _, batch in batches_of(table, features):
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


def batches_of(
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
