"""Column statistics gathered in one pass; partial results merge in any order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from hornbeam.binning.cuts import Summary
from hornbeam.binning.sketch import Sketch, SketchOfChunks
from hornbeam.kernels.sort import sort_floats

__all__ = [
    "KEPT_BYTES",
    "RANGES",
    "CategoryPass",
    "ColumnPass",
    "RangePass",
    "Ranges",
    "SketchPass",
    "after",
    "bounds_between",
    "merge_passes",
]

Floats = npt.NDArray[Any]
Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

#: Ranges that one look counts.
RANGES = 1 << 13
#: Summary that one look parts at most, so that each falls into some pieces.
_PARTED = RANGES >> 3
#: Bytes of a kept value as a range of its own.
KEPT_BYTES = 32
_SIGN = np.uint64(1 << 63)


class Ranges:
    """Ranges of values that are looked at, with what is in them.

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
    def empty(cls, count: int) -> Ranges:
        """Return so many ranges that have no rows yet."""
        return cls(
            np.full(count, np.inf),
            np.full(count, -np.inf),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
        )

    def of(self, chosen: npt.NDArray[Any]) -> Ranges:
        """Return some of them."""
        return Ranges(
            self.low[chosen], self.high[chosen], self.rows[chosen], self.weights[chosen]
        )

    def joined(self, other: Ranges) -> Ranges:
        """Return these and others, which do not overlap, in ascending order."""
        if not self.low.size or not other.low.size:
            return other if other.low.size else self
        low = np.concatenate([self.low, other.low])
        both = Ranges(
            low,
            np.concatenate([self.high, other.high]),
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.weights, other.weights]),
        )
        return both.of(np.argsort(low, kind="stable"))

    def parted(self, cells: npt.NDArray[np.intp], room: int) -> tuple[Ranges, Ranges]:
        """Return those to look into, the heaviest if there are many, and the rest."""
        if int(self.rows[cells].sum()) * KEPT_BYTES > room and cells.size > _PARTED:
            order = np.argsort(-self.weights[cells], kind="stable")
            cells = np.sort(cells[order[:_PARTED]])
        looked_into = np.zeros(self.low.size, np.bool_)
        looked_into[cells] = True
        return self.of(looked_into), self.of(~looked_into)

    def summary(self) -> Summary:
        """Return them as cells that say where cuts lie."""
        return Summary(self.low, np.cumsum(self.weights), self.high)


def after(values: Floats) -> Floats:
    """Return the least values above these, infinite ones where there are none."""
    with np.errstate(over="ignore"):
        return np.nextafter(values, values.dtype.type(np.inf))


def bounds_between(low: Float64s, high: Float64s, pieces: int) -> Float64s:
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
    least = after(low)
    return np.sort(np.clip(bounds, least[:, None], high[:, None]), axis=1)


def _keys(values: Float64s) -> npt.NDArray[np.uint64]:
    """Return unsigned integers in the order of the values."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _floats(keys: npt.NDArray[np.uint64]) -> Float64s:
    """Return the values of the keys."""
    return np.where(keys & _SIGN, keys & ~_SIGN, ~keys).view(np.float64)


class ColumnPass(ABC):
    """What is found out about a column while its rows pass by once."""

    #: Whether rows without weight are as good as none.
    is_weighted: ClassVar[bool] = True

    def __init__(self) -> None:
        self.has_missing = False

    def take(self, values: Floats, weights: Int64s | None, has_missing: bool) -> None:
        """Take the next chunk, as `sort_column` returns it."""
        self.has_missing |= has_missing
        self._take(values, weights)

    def merge(self, other: Self) -> None:
        """Take what a reading of the same kind has found in other rows."""
        self.has_missing |= other.has_missing
        self._merge(other)

    @abstractmethod
    def _take(self, values: Floats, weights: Int64s | None) -> None: ...

    @abstractmethod
    def _merge(self, other: Self) -> None: ...


def merge_passes(parts: Sequence[Sequence[ColumnPass]]) -> list[ColumnPass]:
    """Return one reading for each column, from those of each part of the rows."""
    first, *others = parts
    for part in others:
        for reading, other in zip(first, part, strict=True):
            reading.merge(other)
    return list(first)


class CategoryPass(ColumnPass):
    """How many categories a column has: as many as its greatest code says."""

    # A category counts whether its rows have weight or not.
    is_weighted = False

    def __init__(self) -> None:
        super().__init__()
        self.levels = 0

    def _take(self, values: Floats, weights: Int64s | None) -> None:
        if values.size:
            self.levels = max(self.levels, int(values[-1]) + 1)

    def _merge(self, other: Self) -> None:
        self.levels = max(self.levels, other.levels)


class SketchPass(ColumnPass):
    """A sketch of about `points` values."""

    def __init__(self, points: int) -> None:
        super().__init__()
        self._sketch = SketchOfChunks(points)

    def _take(self, values: Floats, weights: Int64s | None) -> None:
        self._sketch.add(values, weights)

    def _merge(self, other: Self) -> None:
        self._sketch.merge(other._sketch)

    def whole(self) -> Sketch:
        """Return the sketch of all chunks so far."""
        return self._sketch.whole()


class RangePass(ColumnPass):
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
        super().__init__()
        bounds = np.unique(np.concatenate([begin, end]))
        self._bounds = {np.dtype(np.float64): bounds}
        # Which bounds begin a range, mostly each; the next one ends it.
        self._begins = np.zeros(bounds.size - 1, np.bool_)
        self._begins[np.searchsorted(bounds, begin)] = True
        self._keep = keep
        self._room = room
        self._forget()

    def _forget(self) -> None:
        self._kept: list[tuple[Floats, Int64s | None]] = []
        self._kept_bytes = 0
        self.kept_rows = 0
        self._found = Ranges.empty(self._keep.size)

    def restarted(self) -> RangePass:
        """Return another look at the same ranges, which has seen nothing yet."""
        fresh = copy(self)
        fresh._bounds = dict(self._bounds)
        fresh._forget()
        return fresh

    @classmethod
    def of_all_values(cls, room: int) -> RangePass:
        """Return one that keeps all values."""
        return cls(np.array([-np.inf]), np.array([np.inf]), np.ones(1, np.bool_), room)

    @classmethod
    def around_cuts(cls, sketch: Sketch, near: Float64s, room: int) -> RangePass:
        """Return one that parts a column at the values of its sketch.

        It keeps the values in the ranges around those `near` cuts.
        """
        values, weights = sketch.values, sketch.weights
        total = int(weights.sum())
        step = total // sketch.points
        keep = np.zeros(values.size + 1, np.bool_)
        at = np.searchsorted(values, near, side="right")
        # A cut is where a step begins, and the value of a step in its middle: most cuts
        # are in the range below. Errors of sketches that were merged often cancel out.
        below = -(-sketch.error // (2 * step))
        for distance in range(-below, 2):
            keep[np.clip(at + distance, 0, values.size)] = True
        # A value of more than a step gets a range of its own.
        alone = after(values[weights > step + step // 2])
        edges = np.unique(np.concatenate([values, alone]))
        keep = keep[np.searchsorted(values, np.append(-np.inf, edges), side="right")]
        if int(weights.max()) < total // (2 * near.size + 2):
            # No value is half as heavy as a bin: the cuts are those of equal ranks, and
            # nothing between them matters.
            are_near = keep[1:] | keep[:-1]
            edges, keep = edges[are_near], keep[np.append(True, are_near)]
        begin, end = np.append(-np.inf, edges), np.append(edges, np.inf)
        one = after(begin) == end
        return cls(begin, end, keep & ~one, room)

    @classmethod
    def splitting(cls, cells: Ranges, room: int) -> RangePass:
        """Return one that parts these cells, or keeps their values if they are few."""
        beyond = after(cells.high)
        if int(cells.rows.sum()) * KEPT_BYTES <= room:
            return cls(cells.low, beyond, np.ones(beyond.size, np.bool_), room)
        inner = bounds_between(cells.low, cells.high, max(2, RANGES // beyond.size))
        begin = np.column_stack([cells.low, inner]).ravel()
        end = np.column_stack([inner, beyond]).ravel()
        some = begin < end
        nothing = np.zeros(np.count_nonzero(some), np.bool_)
        return cls(begin[some], end[some], nothing, room)

    def _take(self, values: Floats, weights: Int64s | None) -> None:
        places = np.searchsorted(values, self._bounds_in(values.dtype))
        first, last = places[:-1][self._begins], places[1:][self._begins]
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
        if self._has_room(kept_rows, kept_rows * row_bytes) and kept.size:
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

    def _merge(self, other: Self) -> None:
        mine, found = self._found, other._found
        mine.rows += found.rows
        mine.weights += found.weights
        np.minimum(mine.low, found.low, out=mine.low)
        np.maximum(mine.high, found.high, out=mine.high)
        if self._has_room(other.kept_rows, other._kept_bytes):
            self._kept += other._kept

    def _has_room(self, rows: int, n_bytes: int) -> bool:
        """Count rows to be kept, or give up keeping any."""
        self.kept_rows += rows
        self._kept_bytes += n_bytes
        if self._kept_bytes > self._room:
            self._keep = np.zeros_like(self._keep)
            self._kept, self.kept_rows = [], 0
        return self._kept_bytes <= self._room

    def _bounds_in(self, dtype: np.dtype[Any]) -> Floats:
        """Return the bounds in the type of some values: the least not below them."""
        if dtype not in self._bounds:
            self._bounds[dtype] = _up(self._bounds[np.dtype(np.float64)], dtype)
        return self._bounds[dtype]

    def counted(self) -> Ranges:
        """Return the ranges that have rows."""
        return self._found.of(self._found.rows > 0)

    def ranges(self) -> Ranges:
        """Return the same, with each kept value as a range of its own."""
        if not self._kept:
            return self.counted()
        others = self._found.of((self._found.rows > 0) & ~self._keep)
        return others.joined(self._kept_values())

    def _kept_values(self) -> Ranges:
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
        return Ranges(single, single, rows, rows if carried is None else sums)


def _up(bounds: Float64s, dtype: np.dtype[Any]) -> Floats:
    with np.errstate(over="ignore"):
        nearest = bounds.astype(dtype)
    return np.where(nearest < bounds, after(nearest), nearest)
