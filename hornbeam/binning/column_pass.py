"""Column statistics gathered in one pass; partial results merge in any order.

A `CutFinder` (see `exact_quantiles`) creates the passes. Each part of the rows, such
as a Dask partition, has its own pass. Merged passes hold the same result as one pass
over all rows. A pass can be pickled before and after it has seen rows.
"""

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
    "MAX_RANGES",
    "CategoryPass",
    "ColumnPass",
    "RangePass",
    "Ranges",
    "SketchPass",
    "SortedPass",
    "bounds_between",
    "merge_passes",
    "next_above",
]

Floats = npt.NDArray[Any]
Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

#: Most ranges that one pass counts.
MAX_RANGES = 1 << 13
#: Most ranges that the next pass splits, so that it splits each into several.
_MAX_SPLIT = MAX_RANGES >> 3
#: Bytes of a kept value that is stored as a range.
KEPT_BYTES = 32
_SIGN = np.uint64(1 << 63)


class ColumnPass(ABC):
    """Statistics of one column, gathered in one pass over its rows."""

    #: Whether rows of weight 0 are left out.
    is_weighted: ClassVar[bool] = True

    def __init__(self) -> None:
        self.has_missing = False

    def merge(self, other: Self) -> None:
        """Add the statistics that a pass of the same kind gathered from other rows."""
        self.has_missing |= other.has_missing
        self._merge(other)

    @abstractmethod
    def _merge(self, other: Self) -> None: ...


class SortedPass(ColumnPass):
    """A pass over chunks of rows, each of them sorted."""

    def add(self, values: Floats, weights: Int64s | None, has_missing: bool) -> None:
        """Add the next chunk, as `sort_column` returns it."""
        self.has_missing |= has_missing
        self._add(values, weights)

    @abstractmethod
    def _add(self, values: Floats, weights: Int64s | None) -> None: ...


def merge_passes(
    passes: list[ColumnPass], others: Sequence[ColumnPass]
) -> list[ColumnPass]:
    """Return the passes of columns, with those of other rows merged into them."""
    for column_pass, other in zip(passes, others, strict=True):
        column_pass.merge(other)
    return passes


class CategoryPass(SortedPass):
    """Counts the categories of a column: its largest code + 1."""

    # Categories in rows of weight 0 count, too.
    is_weighted = False

    def __init__(self) -> None:
        super().__init__()
        self.n_categories = 0

    def _add(self, values: Floats, weights: Int64s | None) -> None:
        if values.size:
            self.n_categories = max(self.n_categories, int(values[-1]) + 1)

    def _merge(self, other: Self) -> None:
        self.n_categories = max(self.n_categories, other.n_categories)


class SketchPass(SortedPass):
    """Builds a quantile sketch of about `points` values."""

    def __init__(self, points: int) -> None:
        super().__init__()
        self._sketch = SketchOfChunks(points)

    def _add(self, values: Floats, weights: Int64s | None) -> None:
        self._sketch.add(values, weights)

    def _merge(self, other: Self) -> None:
        self._sketch.merge(other._sketch)

    def whole(self) -> Sketch:
        """Return the sketch of all chunks so far."""
        return self._sketch.whole()


class Ranges:
    """Disjoint ranges of values in ascending order, with their rows and weights.

    Parameters
    ----------
    low, high
        (ranges,) float64: the smallest and the largest value in each range.
    rows, weights
        (ranges,) int64: the number of rows in each range, and the sum of their weights.
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
        """Return `count` ranges without rows."""
        return cls(
            np.full(count, np.inf),
            np.full(count, -np.inf),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
        )

    def select(self, chosen: npt.NDArray[Any]) -> Ranges:
        """Return the ranges that an index or mask selects."""
        return Ranges(
            self.low[chosen], self.high[chosen], self.rows[chosen], self.weights[chosen]
        )

    def union(self, other: Ranges) -> Ranges:
        """Return the ranges of both, in ascending order. They must not overlap."""
        if not self.low.size or not other.low.size:
            return other if other.low.size else self
        low = np.concatenate([self.low, other.low])
        both = Ranges(
            low,
            np.concatenate([self.high, other.high]),
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.weights, other.weights]),
        )
        return both.select(np.argsort(low, kind="stable"))

    def partition(
        self, chosen: npt.NDArray[np.intp], max_bytes: int
    ) -> tuple[Ranges, Ranges]:
        """Return the ranges that the next pass splits, and the others.

        These are the `chosen` ones. If there are many, and their values take more than
        `max_bytes`, these are the chosen ones of the largest weight.
        """
        n_bytes = int(self.rows[chosen].sum()) * KEPT_BYTES
        if n_bytes > max_bytes and chosen.size > _MAX_SPLIT:
            order = np.argsort(-self.weights[chosen], kind="stable")
            chosen = np.sort(chosen[order[:_MAX_SPLIT]])
        is_chosen = np.zeros(self.low.size, np.bool_)
        is_chosen[chosen] = True
        return self.select(is_chosen), self.select(~is_chosen)

    def summary(self) -> Summary:
        """Return the ranges as the summary that cuts are found from."""
        return Summary(self.low, np.cumsum(self.weights), self.high)


class RangePass(SortedPass):
    """Counts the rows of a column in disjoint ranges of values, and keeps some values.

    Parameters
    ----------
    begin, end
        (ranges,) float64, ascending: a range holds the values v with begin <= v < end.
    keep
        (ranges,) bool: whether the values of a range are kept.
    max_bytes
        Memory for kept values. If they take more, none are kept.
    """

    def __init__(
        self,
        begin: Float64s,
        end: Float64s,
        keep: npt.NDArray[np.bool_],
        max_bytes: int,
    ) -> None:
        super().__init__()
        bounds = np.unique(np.concatenate([begin, end]))
        self._bounds = {np.dtype(np.float64): bounds}
        # Most bounds begin a range, which the next bound ends.
        self._begins = np.zeros(bounds.size - 1, np.bool_)
        self._begins[np.searchsorted(bounds, begin)] = True
        self._keep = keep
        self._max_bytes = max_bytes
        self._clear()

    def _clear(self) -> None:
        self._kept: list[tuple[Floats, Int64s | None]] = []
        self._kept_bytes = 0
        self.kept_rows = 0
        self._found = Ranges.empty(self._keep.size)

    def restarted(self) -> RangePass:
        """Return a pass over the same ranges that has seen no rows."""
        restarted = copy(self)
        restarted._bounds = dict(self._bounds)
        restarted._clear()
        return restarted

    @classmethod
    def of_all_values(cls, max_bytes: int) -> RangePass:
        """Return a pass that keeps all values."""
        keep = np.ones(1, np.bool_)
        return cls(np.array([-np.inf]), np.array([np.inf]), keep, max_bytes)

    @classmethod
    def around_cuts(cls, sketch: Sketch, cuts: Float64s, max_bytes: int) -> RangePass:
        """Return a pass over the ranges between the values of a sketch.

        It keeps the values of the ranges around `cuts`, the cuts of the sketch.
        """
        values, weights = sketch.values, sketch.weights
        total = int(weights.sum())
        step = total // sketch.points
        keep = np.zeros(values.size + 1, np.bool_)
        at = np.searchsorted(values, cuts, side="right")
        # A cut lies at the beginning of a step and the step's value in its middle, so
        # most cuts are in the range below. The errors of merged sketches often cancel.
        below = -(-sketch.error // (2 * step))
        for distance in range(-below, 2):
            keep[np.clip(at + distance, 0, values.size)] = True
        # A value that weighs more than a step has a range to itself.
        heavy = next_above(values[weights > step + step // 2])
        edges = np.unique(np.concatenate([values, heavy]))
        keep = keep[np.searchsorted(values, np.append(-np.inf, edges), side="right")]
        if int(weights.max()) < total // (2 * cuts.size + 2):
            # Every value weighs less than half a bin, so the cuts are at equal ranks
            # and need no ranges in between.
            are_near = keep[1:] | keep[:-1]
            edges, keep = edges[are_near], keep[np.append(True, are_near)]
        begin, end = np.append(-np.inf, edges), np.append(edges, np.inf)
        is_single_value = next_above(begin) == end
        return cls(begin, end, keep & ~is_single_value, max_bytes)

    @classmethod
    def splitting(cls, ranges: Ranges, max_bytes: int) -> RangePass:
        """Return a pass that splits these ranges, or keeps their values if few."""
        end = next_above(ranges.high)
        if int(ranges.rows.sum()) * KEPT_BYTES <= max_bytes:
            return cls(ranges.low, end, np.ones(end.size, np.bool_), max_bytes)
        inner = bounds_between(ranges.low, ranges.high, max(2, MAX_RANGES // end.size))
        begins = np.column_stack([ranges.low, inner]).ravel()
        ends = np.column_stack([inner, end]).ravel()
        not_empty = begins < ends
        keep = np.zeros(np.count_nonzero(not_empty), np.bool_)
        return cls(begins[not_empty], ends[not_empty], keep, max_bytes)

    def _add(self, values: Floats, weights: Int64s | None) -> None:
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
        if self._reserve(kept_rows, kept_rows * row_bytes) and kept.size:
            # Copy adjacent ranges at once.
            is_gap = first[kept[1:]] != last[kept[:-1]]
            pieces = [
                slice(*piece)
                for piece in zip(
                    first[kept[np.append(True, is_gap)]].tolist(),
                    last[kept[np.append(is_gap, True)]].tolist(),
                    strict=True,
                )
            ]
            kept_values = np.concatenate([values[piece] for piece in pieces])
            kept_weights = (
                None
                if weights is None
                else np.concatenate([weights[piece] for piece in pieces])
            )
            self._kept.append((kept_values, kept_weights))

    def _merge(self, other: Self) -> None:
        mine, found = self._found, other._found
        mine.rows += found.rows
        mine.weights += found.weights
        np.minimum(mine.low, found.low, out=mine.low)
        np.maximum(mine.high, found.high, out=mine.high)
        if self._reserve(other.kept_rows, other._kept_bytes):
            self._kept += other._kept

    def _reserve(self, rows: int, n_bytes: int) -> bool:
        """Return whether rows can be kept; if not, drop all that are."""
        self.kept_rows += rows
        self._kept_bytes += n_bytes
        if self._kept_bytes > self._max_bytes:
            self._keep = np.zeros_like(self._keep)
            self._kept, self.kept_rows = [], 0
        return self._kept_bytes <= self._max_bytes

    def _bounds_in(self, dtype: np.dtype[Any]) -> Floats:
        """Return the bounds in the dtype of the values, rounded up."""
        if dtype not in self._bounds:
            self._bounds[dtype] = _round_up(self._bounds[np.dtype(np.float64)], dtype)
        return self._bounds[dtype]

    def counted(self) -> Ranges:
        """Return the ranges that hold rows."""
        return self._found.select(self._found.rows > 0)

    def ranges(self) -> Ranges:
        """Return the ranges that hold rows, and each kept value as its own range."""
        if not self._kept:
            return self.counted()
        others = self._found.select((self._found.rows > 0) & ~self._keep)
        return others.union(self._kept_values())

    def _kept_values(self) -> Ranges:
        values = np.concatenate([part[0] for part in self._kept])
        weights = [part[1] for part in self._kept if part[1] is not None]
        self._kept = []
        values, sorted_weights = sort_floats(
            values, np.concatenate(weights) if weights else None
        )
        last = np.flatnonzero(np.append(values[1:] != values[:-1], True))
        rows = np.diff(last, prepend=-1)
        if sorted_weights is not None:
            sums = np.diff(np.cumsum(sorted_weights)[last], prepend=0)
        distinct = values[last].astype(np.float64)
        return Ranges(
            distinct, distinct, rows, rows if sorted_weights is None else sums
        )


def next_above(values: Floats) -> Floats:
    """Return the next larger float of each value; inf if there is none."""
    with np.errstate(over="ignore"):
        return np.nextafter(values, values.dtype.type(np.inf))


def bounds_between(low: Float64s, high: Float64s, pieces: int) -> Float64s:
    """Return ``pieces - 1`` ascending bounds inside each range, (ranges, pieces - 1).

    Half of the bounds are equally spaced in value. The other half are equally spaced
    in the order of the floats, where each power of two takes the same share. One of the
    two halves splits the values after few passes, for any distribution.
    """
    halves = pieces // 2, pieces - pieces // 2
    shares = np.arange(1, halves[0] + 1) / (halves[0] + 1)
    even = low[:, None] * (1 - shares) + high[:, None] * shares
    first, span = _float_order(low), _float_order(high) - _float_order(low)
    steps = np.arange(1, halves[1], dtype=np.uint64)
    keys = first[:, None] + span[:, None] // np.uint64(halves[1]) * steps
    bounds = np.column_stack([even, _floats_of(keys)])
    # Equal bounds make empty ranges. Each bound lies above the smallest value and not
    # above the largest, so that every range is split.
    least = next_above(low)
    return np.sort(np.clip(bounds, least[:, None], high[:, None]), axis=1)


def _float_order(values: Float64s) -> npt.NDArray[np.uint64]:
    """Return unsigned integers that are ordered as the values."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _floats_of(keys: npt.NDArray[np.uint64]) -> Float64s:
    """Return the values of which `_float_order` returns `keys`."""
    return np.where(keys & _SIGN, keys & ~_SIGN, ~keys).view(np.float64)


def _round_up(bounds: Float64s, dtype: np.dtype[Any]) -> Floats:
    with np.errstate(over="ignore"):
        nearest = bounds.astype(dtype)
    return np.where(nearest < bounds, next_above(nearest), nearest)
