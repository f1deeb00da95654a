"""Cuts of a column that comes in chunks and is never held whole.

Exact ones take a few readings. Each is a look at ranges of values: it finds how many
rows are in each range, what they weigh, and the least and the greatest value there. A
range whose ends are equal is one value. The ranges become the `Cells` that say where
the cuts lie, or which cells hide a cut; the next look parts those. As soon as they
hold few rows, a look keeps their values themselves, and is the last.

The first reading makes a sketch, which tells where ranges of about equal weight lie.
It also tells nearly where the cuts will be: the second reading counts all ranges and
keeps the values around the cuts, so that it mostly is the last.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.binning.cuts import Cells, ColumnCuts, MixedCells, cut_cells, in_order
from hornbeam.binning.sketch import CHUNK_ROWS, POINTS, Sketch, SketchOfChunks
from hornbeam.kernels.sort import sort_floats

__all__ = ["ExactColumn", "SketchedColumn", "sketch_column"]

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[Any]
Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

#: Ranges that one look counts.
_RANGES = 1 << 13
#: Cells that one look parts at most, so that each falls into some pieces.
_PARTED = _RANGES >> 3
#: A sketch holds at least this many values a bin: for cuts, and to guide a look.
_POINTS_OF_A_BIN = 16
_GUIDES_OF_A_BIN = 32
#: Ranges on either side of a cut of the sketch whose values are kept. With one, about
#: every tenth cut lies outside.
_BESIDE = 2
#: Bytes of a kept value with its weight, and as a range of its own.
_HELD_BYTES = 16
_KEPT_BYTES = 32
_SIGN = np.uint64(1 << 63)


class SketchedColumn:
    """A column whose cuts come from a sketch, after one reading.

    Parameters
    ----------
    max_bin
        The most bins.
    """

    def __init__(self, max_bin: int) -> None:
        self.cuts: ColumnCuts | None = None
        self._max_bin = max_bin
        self._has_missing = False
        self._sketch = SketchOfChunks(max(POINTS, _POINTS_OF_A_BIN * max_bin))

    def take(self, values: Floats, weights: Int64s | None, has_missing: bool) -> None:
        """Take the next chunk, as `in_order` returns it."""
        self._has_missing |= has_missing
        self._sketch.add(values, weights)

    def end_reading(self) -> None:
        """Find the cuts."""
        cells = self._sketch.whole().cells()
        self.cuts = cut_cells(cells, self._max_bin, self._has_missing)


def sketch_column(
    values: Floats, max_bin: int, weights: Int64s | None, scratch: Bytes | None = None
) -> ColumnCuts:
    """Return the cuts of a column in memory as those of its chunks' sketch."""
    column = SketchedColumn(max_bin)
    for start in range(0, values.size, CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        carried = None if weights is None else weights[rows]
        column.take(*in_order(values[rows], carried, scratch))
    column.end_reading()
    assert column.cuts is not None
    return column.cuts


class ExactColumn:
    """A column whose cuts are those of all its values, after some readings.

    Parameters
    ----------
    max_bin
        The most bins.
    n_rows
        How many rows will be read each time.
    room
        Bytes that kept values may take.
    """

    def __init__(self, max_bin: int, n_rows: int, room: int) -> None:
        self.cuts: ColumnCuts | None = None
        self._max_bin = max_bin
        self._room = room
        self._has_missing = False
        self._ranges = _Ranges.none()
        self._look: _Look | None = None
        self._sketch: SketchOfChunks | None = None
        if n_rows * _HELD_BYTES <= room:
            self._look = _Look.at_all(room)
        else:
            self._sketch = SketchOfChunks(max(POINTS, _GUIDES_OF_A_BIN * max_bin))

    def take(self, values: Floats, weights: Int64s | None, has_missing: bool) -> None:
        """Take the next chunk, as `in_order` returns it."""
        self._has_missing |= has_missing
        if self._sketch is not None:
            self._sketch.add(values, weights)
        if self._look is not None:
            self._look.take(values, weights)

    def end_reading(self) -> None:
        """Find the cuts, or what to look at in the next reading."""
        look, sketch = self._look, self._sketch
        self._look = self._sketch = None  # they are as large as all the rest
        if sketch is not None:
            whole = sketch.whole()
            near = self._cut(whole.cells())
            if whole.error:
                self._look = _Look.around(whole, near.upper[:-1], self._room)
            else:
                self.cuts = near
            return
        assert look is not None
        before, self._ranges = self._ranges, _Ranges.none()
        ranges = before.joined(look.ranges())
        hidden = self._cut_or_ask(ranges)
        if hidden is None:
            return
        if look.kept_rows * _KEPT_BYTES > self._room:
            # Too many single values to hold until the next reading.
            ranges = before.joined(look.counted())
            hidden = self._cut_or_ask(ranges)
            assert hidden is not None
        looked_into, self._ranges = ranges.parted(hidden, self._room)
        self._look = _Look.into(looked_into, self._room)

    def _cut(self, cells: Cells) -> ColumnCuts:
        return cut_cells(cells, self._max_bin, self._has_missing)

    def _cut_or_ask(self, ranges: _Ranges) -> npt.NDArray[np.intp] | None:
        """Find the cuts, or return which ranges to look into."""
        try:
            self.cuts = self._cut(ranges.cells())
        except MixedCells as question:
            return question.cells
        return None


class _Ranges:
    """Ranges of values that have been looked at, each with at least one row.

    Parameters
    ----------
    low, high
        (ranges,) float64: the least and the greatest value of each.
    rows, weights
        (ranges,) int64: how many there are, and what they weigh.
    """

    def __init__(
        self, low: Float64s, high: Float64s, rows: Int64s, weights: Int64s
    ) -> None:
        self.low = low
        self.high = high
        self.rows = rows
        self.weights = weights

    @classmethod
    def none(cls) -> _Ranges:
        """Return no range."""
        return cls(*(np.empty(0, kind) for kind in (float, float, int, int)))

    def of(self, chosen: npt.NDArray[Any]) -> _Ranges:
        """Return some of them."""
        return _Ranges(
            self.low[chosen], self.high[chosen], self.rows[chosen], self.weights[chosen]
        )

    def joined(self, other: _Ranges) -> _Ranges:
        """Return these and others, which do not overlap, in ascending order."""
        if not self.low.size or not other.low.size:
            return other if other.low.size else self
        low = np.concatenate([self.low, other.low])
        both = _Ranges(
            low,
            np.concatenate([self.high, other.high]),
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.weights, other.weights]),
        )
        return both.of(np.argsort(low, kind="stable"))

    def parted(self, cells: npt.NDArray[np.intp], room: int) -> tuple[_Ranges, _Ranges]:
        """Return those to look into, the heaviest if there are many, and the rest."""
        if int(self.rows[cells].sum()) * _KEPT_BYTES > room and cells.size > _PARTED:
            order = np.argsort(-self.weights[cells], kind="stable")
            cells = np.sort(cells[order[:_PARTED]])
        looked_into = np.zeros(self.low.size, np.bool_)
        looked_into[cells] = True
        return self.of(looked_into), self.of(~looked_into)

    def cells(self) -> Cells:
        """Return them as cells that say where cuts lie."""
        return Cells(self.low, np.cumsum(self.weights), self.high)


class _Look:
    """What one reading finds in ranges of values that do not overlap.

    Parameters
    ----------
    begin, end
        (ranges,) float64, ascending: a value of a range is not below its begin, and
        below its end.
    keep
        (ranges,) bool: whether to keep the values of a range themselves.
    room
        Bytes for the kept values; when there are more, none is kept.
    """

    def __init__(
        self, begin: Float64s, end: Float64s, keep: npt.NDArray[np.bool_], room: int
    ) -> None:
        bounds = np.unique(np.concatenate([begin, end]))
        self._bounds = {np.dtype(np.float64): bounds}
        # A range mostly begins where the one before it ends.
        self._first = np.searchsorted(bounds, begin)
        self._last = np.searchsorted(bounds, end)
        self._keep = keep
        self._room = room
        self._kept: list[tuple[Floats, Int64s | None]] = []
        self._kept_bytes = 0
        self.kept_rows = 0
        self._found = _Ranges(
            np.full(begin.size, np.inf),
            np.full(begin.size, -np.inf),
            np.zeros(begin.size, np.int64),
            np.zeros(begin.size, np.int64),
        )

    @classmethod
    def at_all(cls, room: int) -> _Look:
        """Return one that keeps all values."""
        return cls(np.array([-np.inf]), np.array([np.inf]), np.ones(1, np.bool_), room)

    @classmethod
    def around(cls, sketch: Sketch, near: Float64s, room: int) -> _Look:
        """Return one that parts a column at the values of its sketch.

        It keeps the values in the ranges around those `near` cuts.
        """
        # A value of more than a step gets a range of its own.
        step = int(sketch.weights.sum()) // sketch.points
        alone = _after(sketch.values[sketch.weights > step + step // 2])
        edges = np.unique(np.concatenate([sketch.values, alone]))
        begin, end = np.append(-np.inf, edges), np.append(edges, np.inf)
        one = _after(begin) == end
        keep = np.zeros(begin.size, np.bool_)
        at = np.searchsorted(begin, near, side="right") - 1
        for beside in range(-_BESIDE, _BESIDE + 1):
            keep[np.clip(at + beside, 0, begin.size - 1)] = True
        return cls(begin, end, keep & ~one, room)

    @classmethod
    def into(cls, cells: _Ranges, room: int) -> _Look:
        """Return one that parts these cells, or keeps their values if they are few."""
        beyond = _after(cells.high)
        if int(cells.rows.sum()) * _KEPT_BYTES <= room:
            return cls(cells.low, beyond, np.ones(beyond.size, np.bool_), room)
        inner = _between(cells.low, cells.high, max(2, _RANGES // beyond.size))
        begin = np.column_stack([cells.low, inner]).ravel()
        end = np.column_stack([inner, beyond]).ravel()
        some = begin < end
        nothing = np.zeros(np.count_nonzero(some), np.bool_)
        return cls(begin[some], end[some], nothing, room)

    def take(self, values: Floats, weights: Int64s | None) -> None:
        """Look at ascending values, and their weights."""
        places = np.searchsorted(values, self._bounds_in(values.dtype))
        first, last = places[self._first], places[self._last]
        found, counts = self._found, last - first
        found.rows += counts
        if weights is None:
            found.weights += counts
        else:
            sums = np.append(0, np.cumsum(weights))
            found.weights += sums[last] - sums[first]
        some = np.flatnonzero(counts)
        found.low[some] = np.minimum(found.low[some], values[first[some]])
        found.high[some] = np.maximum(found.high[some], values[last[some] - 1])
        kept = some[self._keep[some]]
        row_bytes = values.itemsize + (0 if weights is None else weights.itemsize)
        kept_rows = int(counts[kept].sum())
        self.kept_rows += kept_rows
        self._kept_bytes += kept_rows * row_bytes
        if self._kept_bytes > self._room:
            self._keep = np.zeros_like(self._keep)
            self._kept, self.kept_rows = [], 0
        elif kept.size:
            # Ranges side by side are one piece.
            apart = first[kept[1:]] != last[kept[:-1]]
            pieces = [
                slice(*piece)
                for piece in zip(
                    first[kept[np.append(True, apart)]].tolist(),
                    last[kept[np.append(apart, True)]].tolist(),
                    strict=True,
                )
            ]
            held = np.concatenate([values[piece] for piece in pieces])
            carried = (
                None
                if weights is None
                else np.concatenate([weights[piece] for piece in pieces])
            )
            self._kept.append((held, carried))

    def _bounds_in(self, dtype: np.dtype[Any]) -> Floats:
        """Return the bounds in the type of some values: the least not below them."""
        if dtype not in self._bounds:
            self._bounds[dtype] = _up(self._bounds[np.dtype(np.float64)], dtype)
        return self._bounds[dtype]

    def counted(self) -> _Ranges:
        """Return the ranges that have rows."""
        return self._found.of(self._found.rows > 0)

    def ranges(self) -> _Ranges:
        """Return the same, with each kept value as a range of its own."""
        if not self._kept:
            return self.counted()
        others = self._found.of((self._found.rows > 0) & ~self._keep)
        return others.joined(self._kept_values())

    def _kept_values(self) -> _Ranges:
        values = np.concatenate([part[0] for part in self._kept])
        weights = [part[1] for part in self._kept if part[1] is not None]
        self._kept = []
        ordered, carried = sort_floats(
            values, np.concatenate(weights) if weights else None
        )
        last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
        rows = np.diff(last, prepend=-1)
        if carried is not None:
            sums = np.diff(np.cumsum(carried)[last], prepend=0)
        single = ordered[last].astype(np.float64)
        return _Ranges(single, single, rows, rows if carried is None else sums)


def _up(bounds: Float64s, dtype: np.dtype[Any]) -> Floats:
    with np.errstate(over="ignore"):
        nearest = bounds.astype(dtype)
    return np.where(nearest < bounds, _after(nearest), nearest)


def _after(values: Floats) -> Floats:
    """Return the least values above these, infinite ones where there are none."""
    with np.errstate(over="ignore"):
        return np.nextafter(values, values.dtype.type(np.inf))


def _between(low: Float64s, high: Float64s, pieces: int) -> Float64s:
    """Return ``pieces - 1`` ascending bounds inside each range, (ranges, pieces - 1).

    Half of them are at equal distances; the other half at equal distances in the order
    of the floats, where each power of two has as much room as the next. One or the
    other parts the values soon, wherever they lie.
    """
    halves = pieces // 2, pieces - pieces // 2
    shares = np.arange(1, halves[0] + 1) / (halves[0] + 1)
    even = low[:, None] * (1 - shares) + high[:, None] * shares
    first, span = _keys(low), _keys(high) - _keys(low)
    steps = np.arange(1, halves[1], dtype=np.uint64)
    keys = first[:, None] + span[:, None] // np.uint64(halves[1]) * steps
    bounds = np.column_stack([even, _floats(keys)])
    # Equal values of a bound make empty ranges; no bound leaves all in one.
    least = _after(low)
    return np.sort(np.clip(bounds, least[:, None], high[:, None]), axis=1)


def _keys(values: Float64s) -> npt.NDArray[np.uint64]:
    """Return unsigned integers in the order of the values."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _floats(keys: npt.NDArray[np.uint64]) -> Float64s:
    """Return the values of the keys."""
    return np.where(keys & _SIGN, keys & ~_SIGN, ~keys).view(np.float64)
