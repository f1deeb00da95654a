"""The cuts of tables that are read in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.binning.cuts import ColumnCuts, in_order
from hornbeam.binning.looks import ExactColumn, SketchedColumn
from hornbeam.binning.sketch import CHUNK_ROWS
from hornbeam.binning.threads import in_threads, mapped_bytes, thread_count
from hornbeam.data.table import Table
from hornbeam.errors import DataError

__all__ = ["batches_of", "cuts_of_stream"]

Int64s = npt.NDArray[np.int64]

#: Bytes of chunks, and of values kept, that are held at once; other columns wait for
#: readings of their own.
_ROOM = 96 << 20
#: Bytes of a column's sketches and ranges.
_COLUMN_BYTES = 1 << 20


def cuts_of_stream(
    table: Table,
    max_bin: int,
    weights: Int64s | None,
    n_threads: int,
    exact: bool,
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
    """
    kinds = table.types or [""] * table.n_features
    cuts: list[ColumnCuts | None] = [None] * table.n_features
    for feature, kind in enumerate(kinds):
        names = table.categories.of(feature)
        if kind == "c" and names is not None:
            cuts[feature] = ColumnCuts.of_categories(len(names), False)
    waiting = [feature for feature in range(table.n_features) if cuts[feature] is None]
    chunk_bytes = min(CHUNK_ROWS, table.n_rows) * np.dtype(table.dtype).itemsize
    at_once = max(1, _ROOM // (chunk_bytes + _COLUMN_BYTES))
    for start in range(0, len(waiting), at_once):
        features = waiting[start : start + at_once]
        room = _ROOM // len(features)
        columns: list[Column] = [
            CodedColumn()
            if kinds[feature] == "c"
            else ExactColumn(max_bin, table.n_rows, room)
            if exact
            else SketchedColumn(max_bin)
            for feature in features
        ]
        _read(table, features, columns, weights, n_threads)
        for feature, column in zip(features, columns, strict=True):
            cuts[feature] = column.cuts
    return [found for found in cuts if found is not None]


class CodedColumn:
    """A column of categories without names: as many as its greatest code says."""

    def __init__(self) -> None:
        self.cuts: ColumnCuts | None = None
        self._levels = 0

    def take(
        self, values: npt.NDArray[Any], weights: Int64s | None, has_missing: bool
    ) -> None:
        """Take the next chunk, ascending, without the missing."""
        if values.size:
            self._levels = max(self._levels, int(values[-1]) + 1)

    def end_reading(self) -> None:
        """Find the cuts."""
        self.cuts = ColumnCuts.of_categories(self._levels, False)


Column = CodedColumn | ExactColumn | SketchedColumn


def _read(
    table: Table,
    features: list[int],
    columns: list[Column],
    weights: Int64s | None,
    n_threads: int,
) -> None:
    """Read the columns until the cuts of all are known."""
    n_threads = thread_count(n_threads, len(columns))
    scratches: SimpleQueue[npt.NDArray[np.uint8]] = SimpleQueue()
    for _ in range(n_threads):
        scratches.put(mapped_bytes(2 * 8 * min(CHUNK_ROWS, table.n_rows)))
    while any(column.cuts is None for column in columns):
        still = [i for i, column in enumerate(columns) if column.cuts is None]
        open_ones = [columns[i] for i in still]
        for start, chunk in _chunks(table, [features[i] for i in still]):
            stop = start + chunk[0].size
            of_rows = None if weights is None else weights[start:stop]

            def work(
                place: int,
                chunk: list[npt.NDArray[Any]] = chunk,
                of_rows: Int64s | None = of_rows,
                open_ones: list[Column] = open_ones,
            ) -> None:
                column = open_ones[place]
                # A category counts whether its rows have weight or not.
                carried = None if isinstance(column, CodedColumn) else of_rows
                scratch = scratches.get()
                try:
                    column.take(*in_order(chunk[place], carried, scratch))
                finally:
                    scratches.put(scratch)

            in_threads(work, range(len(open_ones)), n_threads)
        for column in open_ones:
            column.end_reading()


def _chunks(
    table: Table, features: Sequence[int]
) -> Iterator[tuple[int, list[npt.NDArray[Any]]]]:
    """Yield first row and columns of the table's chunks, wherever its batches end.

    The next chunk takes the memory of the one before.
    """
    rows = min(CHUNK_ROWS, table.n_rows)
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
            "that yields the same rows each time it is read"
        )
