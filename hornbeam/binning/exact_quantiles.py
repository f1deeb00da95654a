"""What decides the cuts of columns that are never held whole.

Exact cuts take a few readings. Each is a look at ranges of values: it finds how many
rows are in each range, what they weigh, and the least and the greatest value there. A
range whose ends are equal is one value. The ranges become the `Summary` that say where
the cuts lie, or which cells hide a cut; the next look parts those. As soon as they
hold few rows, a look keeps their values themselves, and is the last.

The first reading makes a sketch, which tells where ranges of about equal weight lie.
It also tells nearly where the cuts will be: the second reading counts all ranges and
keeps the values around the cuts, so that it mostly is the last.

The rows may be anywhere, in any number of parts: `find_cuts` asks for readings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from hornbeam.binning.column_pass import (
    KEPT_BYTES,
    CategoryPass,
    ColumnPass,
    RangePass,
    Ranges,
    SketchPass,
)
from hornbeam.binning.cuts import (
    ColumnCuts,
    UnresolvedEntries,
    cut_summary,
    sort_column,
)
from hornbeam.binning.sketch import CHUNK_ROWS, POINTS
from hornbeam.binning.table_passes import run_passes
from hornbeam.data.schema import Schema
from hornbeam.data.table import Table

__all__ = [
    "ROOM",
    "CategoryCutFinder",
    "CutFinder",
    "ExactCutFinder",
    "SketchCutFinder",
    "cut_finders",
    "find_cuts",
    "find_stream_cuts",
    "sketch_column",
]

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

#: A sketch holds at least this many values a bin: for cuts, and to guide a look.
_POINTS_OF_A_BIN = 16
_GUIDES_OF_A_BIN = 32
#: Bytes of a kept value with its weight.
_HELD_BYTES = 16

#: Bytes of chunks, and of values kept, that are held at once; other columns wait for
#: readings of their own.
ROOM = 96 << 20
#: Bytes of a column's sketches and ranges.
_COLUMN_BYTES = 1 << 20

R = TypeVar("R", bound=ColumnPass)


class CutFinder(ABC, Generic[R]):
    """A column on the way to its cuts.

    Attributes
    ----------
    cuts
        None as long as another reading is needed.
    """

    cuts: ColumnCuts | None = None

    @abstractmethod
    def new_pass(self) -> R:
        """Return what the next reading begins with, in each part of the rows."""

    @abstractmethod
    def end_pass(self, reading: R) -> None:
        """Take what was found in all rows: find the cuts, or what to look at next."""


def cut_finders(
    schema: Schema,
    max_bin: int,
    n_rows: int,
    *,
    exact: bool,
    room: int,
    features: Sequence[int] | None = None,
) -> list[CutFinder[Any]]:
    """Return what decides the cuts of each column.

    Parameters
    ----------
    schema
        The columns.
    max_bin
        The most bins of a column.
    n_rows
        Rows of all parts together.
    exact
        Whether the cuts are those of all values, or those of a sketch.
    room
        Bytes of values that all columns together may keep.
    features
        Which columns, None for all.
    """
    chosen = range(schema.n_features) if features is None else features

    def column_of(feature: int) -> CutFinder[Any]:
        if schema.types is not None and schema.types[feature] == "c":
            names = schema.categories.of(feature)
            return CategoryCutFinder(None if names is None else len(names))
        if exact:
            return ExactCutFinder(max_bin, n_rows, room // len(chosen))
        return SketchCutFinder(max_bin)

    return [column_of(feature) for feature in chosen]


def find_cuts(
    columns: Sequence[CutFinder[Any]],
    read: Callable[[list[int], list[ColumnPass]], list[ColumnPass]],
) -> list[ColumnCuts]:
    """Return the cuts of all columns, after as many readings as it takes.

    Parameters
    ----------
    columns
        What decides.
    read
        Takes the places of columns that are to be read, and a reading of each that has
        seen nothing; returns them when they have seen all rows, those of parts merged.
    """
    while waiting := [i for i, column in enumerate(columns) if column.cuts is None]:
        found = read(waiting, [columns[i].new_pass() for i in waiting])
        for i in reversed(waiting):
            columns[i].end_pass(found.pop())  # they are as large as all the rest
    return [column.cuts for column in columns if column.cuts is not None]


class CategoryCutFinder(CutFinder[CategoryPass]):
    """A column of categories, each with a bin of its own.

    Parameters
    ----------
    levels
        How many there are, None if the codes themselves have to tell.
    """

    def __init__(self, levels: int | None = None) -> None:
        if levels is not None:
            self.cuts = ColumnCuts.of_categories(levels, False)

    def new_pass(self) -> CategoryPass:
        return CategoryPass()

    def end_pass(self, reading: CategoryPass) -> None:
        self.cuts = ColumnCuts.of_categories(reading.levels, reading.has_missing)


class SketchCutFinder(CutFinder[SketchPass]):
    """A column whose cuts come from a sketch, after one reading.

    Parameters
    ----------
    max_bin
        The most bins.
    """

    def __init__(self, max_bin: int) -> None:
        self._max_bin = max_bin

    def new_pass(self) -> SketchPass:
        return SketchPass(max(POINTS, _POINTS_OF_A_BIN * self._max_bin))

    def end_pass(self, reading: SketchPass) -> None:
        cells = reading.whole().summary()
        self.cuts = cut_summary(cells, self._max_bin, reading.has_missing)


def sketch_column(
    values: npt.NDArray[np.floating],
    max_bin: int,
    weights: Int64s | None,
    scratch: Bytes | None = None,
) -> ColumnCuts:
    """Return the cuts of a column in memory as those of its chunks' sketch."""
    column = SketchCutFinder(max_bin)
    reading = column.new_pass()
    for start in range(0, values.size, CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        carried = None if weights is None else weights[rows]
        reading.take(*sort_column(values[rows], carried, scratch))
    column.end_pass(reading)
    assert column.cuts is not None
    return column.cuts


class ExactCutFinder(CutFinder[SketchPass | RangePass]):
    """A column whose cuts are those of all its values, after some readings.

    Parameters
    ----------
    max_bin
        The most bins.
    n_rows
        How many rows will be read each time, in all parts.
    room
        Bytes that kept values may take.
    """

    def __init__(self, max_bin: int, n_rows: int, room: int) -> None:
        self._max_bin = max_bin
        self._room = room
        self._ranges = Ranges.empty(0)
        # What to look at next; None for a first reading that makes a sketch.
        self._look: RangePass | None = None
        if n_rows * _HELD_BYTES <= room:
            self._look = RangePass.of_all_values(room)

    def new_pass(self) -> SketchPass | RangePass:
        if self._look is None:
            return SketchPass(max(POINTS, _GUIDES_OF_A_BIN * self._max_bin))
        return self._look.restarted()

    def end_pass(self, reading: SketchPass | RangePass) -> None:
        if isinstance(reading, SketchPass):
            self._end_sketch(reading)
        else:
            self._end_look(reading)

    def _end_sketch(self, reading: SketchPass) -> None:
        whole = reading.whole()
        near = cut_summary(whole.summary(), self._max_bin, reading.has_missing)
        if whole.error:
            self._look = RangePass.around_cuts(whole, near.upper[:-1], self._room)
        else:
            self.cuts = near

    def _end_look(self, look: RangePass) -> None:
        self._look = None
        before, self._ranges = self._ranges, Ranges.empty(0)
        ranges = before.joined(look.ranges())
        hidden = self._cut_or_ask(ranges, look.has_missing)
        if hidden is None:
            return
        if look.kept_rows * KEPT_BYTES > self._room:
            # Too many single values to hold until the next reading.
            ranges = before.joined(look.counted())
            hidden = self._cut_or_ask(ranges, look.has_missing)
            assert hidden is not None
        looked_into, self._ranges = ranges.parted(hidden, self._room)
        self._look = RangePass.splitting(looked_into, self._room)

    def _cut_or_ask(
        self, ranges: Ranges, has_missing: bool
    ) -> npt.NDArray[np.intp] | None:
        """Find the cuts, or return which ranges to look into."""
        try:
            self.cuts = cut_summary(ranges.summary(), self._max_bin, has_missing)
        except UnresolvedEntries as question:
            return question.cells
        return None


def find_stream_cuts(
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
        columns = cut_finders(
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
            run_passes(table, chosen, readings, weights, n_threads)
            return readings

        cuts += find_cuts(columns, read)
    return cuts
