"""A summary of a column's quantiles that is small, mergeable, and honest of its error.

A sketch holds values with weights. Where a column has few distinct values it holds
them all. Else it holds `points` values at equal steps of weight, each in the middle of
its step, so that the rank of any value is wrong by half a step at most. Two sketches
merge into one of the same size, for another half step.

The chunks of a column merge like the digits of a binary counter, so that a column of
n chunks takes part in log2(n) merges. What comes out depends on where the chunks
begin and end, and on nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.binning.cuts import Summary, grid_ranks

__all__ = ["CHUNK_ROWS", "POINTS", "Sketch", "SketchOfChunks", "of_sorted"]

Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

#: Values that a sketch holds: a merge moves no rank by more than 1/8192 of the weight.
POINTS = 4096

#: Rows of a chunk, counted from the first row of a column.
CHUNK_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class Sketch:
    """Values that stand for a column's, each with the weight of those around it.

    Attributes
    ----------
    values
        (points,) float64, ascending, all different.
    weights
        (points,) int64, their sum that of the column.
    lowest, highest
        The ends of the column, NaN where it is empty.
    error
        No sum of weights below a value differs from the column's by more than this;
        0 if the sketch holds every value.
    points
        The most values it holds.
    """

    values: Float64s
    weights: Int64s
    lowest: float
    highest: float
    error: int
    points: int = POINTS

    def summary(self) -> Summary:
        """Return the sketch as cells of one value each, the column's ends with it."""
        if self.values.size == 0:
            return Summary(self.values, self.weights)
        ranks = np.cumsum(self.weights)
        return Summary(
            np.concatenate([[self.lowest], self.values, [self.highest]]),
            np.concatenate([[0], ranks, ranks[-1:]]),
        )

    def merge(self, other: Sketch) -> Sketch:
        """Return a sketch of both columns together."""
        if self.values.size == 0 or other.values.size == 0:
            return self if other.values.size == 0 else other
        values = np.concatenate([self.values, other.values])
        order = np.argsort(values, kind="stable")
        weights = np.concatenate([self.weights, other.weights])[order]
        return _sketch(
            values[order],
            weights,
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
            self.error + other.error,
            min(self.points, other.points),
        )


def of_sorted(
    values: npt.NDArray[Any], weights: Int64s | None, points: int = POINTS
) -> Sketch:
    """Return the sketch of ascending values without NaN.

    Parameters
    ----------
    values
        (rows,) float32 or float64.
    weights
        (rows,) int64, not negative, or None for ones.
    points
        The most values it holds.
    """
    if weights is not None and values.size and not weights.all():
        values, weights = values[weights > 0], weights[weights > 0]
    if values.size == 0:
        nothing = np.empty(0)
        return Sketch(nothing, np.empty(0, np.int64), np.nan, np.nan, 0, points)
    ends = float(values[0]), float(values[-1])
    return _sketch(values, weights, *ends, 0, points)


def _sketch(
    values: npt.NDArray[Any],
    weights: Int64s | None,
    lowest: float,
    highest: float,
    error: int,
    points: int,
) -> Sketch:
    """Return the sketch of ascending values of positive weight, equal ones included."""
    last = np.append(values[1:] != values[:-1], True)
    if np.count_nonzero(last) <= points:
        at = np.flatnonzero(last)
        passed = at + 1 if weights is None else np.cumsum(weights)[at]
    else:
        ranks = None if weights is None else np.cumsum(weights)
        total = values.size if ranks is None else int(ranks[-1])
        steps = min(points, total)
        middles = grid_ranks(total, 2 * steps, np.arange(1, 2 * steps, 2))
        # Where two equal sketches merge, each middle lies between two values: now the
        # lower one, now the upper one, or all ranks would drift.
        middles[::2] = np.maximum(middles[::2] - 1, 0)
        at = middles if ranks is None else np.searchsorted(ranks, middles, "right")
        passed = grid_ranks(total, steps, np.arange(1, steps + 1))
        error += total // (2 * steps) + 2  # two for the rounding of ranks
        # A heavy value is the middle of several steps.
        last = np.append(values[at[1:]] != values[at[:-1]], True)
        at, passed = at[last], passed[last]
    shares = np.diff(passed, prepend=0).astype(np.int64)
    held = values[at].astype(np.float64) + 0.0  # a negative zero is a zero
    return Sketch(held, shares, lowest, highest, error, points)


class SketchOfChunks:
    """The sketch of a column that comes in chunks.

    Parameters
    ----------
    points
        The most values that it holds.
    """

    def __init__(self, points: int = POINTS) -> None:
        self._points = points
        # One sketch of 1, 2, 4, ... chunks each, or None.
        self._levels: list[Sketch | None] = []

    def add(self, values: npt.NDArray[Any], weights: Int64s | None) -> None:
        """Take the next chunk: ascending values and weights, as for `of_sorted`."""
        self._add(of_sorted(values, weights, self._points), 0)

    def merge(self, other: SketchOfChunks) -> None:
        """Take the chunks of another part of the column."""
        for level, held in enumerate(other._levels):
            if held is not None:
                self._add(held, level)

    def _add(self, carry: Sketch, level: int) -> None:
        """Add a sketch of ``2**level`` chunks."""
        self._levels += [None] * (level - len(self._levels))
        for at in range(level, len(self._levels)):
            held = self._levels[at]
            if held is None:
                self._levels[at] = carry
                return
            self._levels[at], carry = None, held.merge(carry)
        self._levels.append(carry)

    def whole(self) -> Sketch:
        """Return the sketch of all chunks so far; of none it is empty."""
        whole = of_sorted(np.empty(0), None, self._points)
        for held in self._levels:
            if held is not None:
                whole = held.merge(whole)
        return whole
