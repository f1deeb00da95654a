"""Mergeable quantile sketch of a column, with a bound on the error of ranks.

A sketch holds values with weights. It holds all distinct values of a column that has
few. Otherwise it holds `points` values at equal steps of weight, each the middle of its
step, so that the rank of any value is off by half a step at most. Two sketches merge
into one of the same size, which adds half a step to the error.

The sketches of a column's chunks are merged like carries in a binary counter, so that
n chunks take part in log2(n) merges. The result depends only on where chunks begin and
end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.binning.cuts import Summary, grid_ranks

__all__ = ["CHUNK_ROWS", "POINTS", "Sketch", "SketchOfChunks", "sketch_sorted"]

Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

#: Values of a sketch: a merge changes no rank by more than 1/8192 of the total weight.
POINTS = 4096

#: Rows of a chunk, counted from the first row of a column.
CHUNK_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class Sketch:
    """Quantile sketch: values, each with the weight of the values around it.

    Attributes
    ----------
    values
        (points,) float64, ascending and distinct.
    weights
        (points,) int64; their sum is that of the column.
    lowest, highest
        The smallest and largest value of the column; NaN if it is empty.
    error
        Upper bound on the error of the sum of weights below any value; 0 if the sketch
        holds all values.
    points
        Maximum number of values.
    """

    values: Float64s
    weights: Int64s
    lowest: float
    highest: float
    error: int
    points: int = POINTS

    def summary(self) -> Summary:
        """Return the summary of the sketch, and of the ends of the column."""
        if self.values.size == 0:
            return Summary(self.values, self.weights)
        ranks = np.cumsum(self.weights)
        return Summary(
            np.concatenate([[self.lowest], self.values, [self.highest]]),
            np.concatenate([[0], ranks, ranks[-1:]]),
        )

    def merge(self, other: Sketch) -> Sketch:
        """Return a sketch of the rows of both."""
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


def sketch_sorted(
    values: npt.NDArray[Any], weights: Int64s | None, points: int = POINTS
) -> Sketch:
    """Return the sketch of ascending values without NaN.

    Parameters
    ----------
    values
        (rows,) float32 or float64.
    weights
        (rows,) int64, not negative; None: all 1.
    points
        Maximum number of values of the sketch.
    """
    if weights is not None and values.size and not weights.all():
        values, weights = values[weights > 0], weights[weights > 0]
    if values.size == 0:
        weights = np.empty(0, np.int64)
        return Sketch(np.empty(0), weights, np.nan, np.nan, 0, points)
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
    """Return the sketch of ascending values, which may repeat, of positive weight."""
    last = np.append(values[1:] != values[:-1], True)
    if np.count_nonzero(last) <= points:
        at = np.flatnonzero(last)
        passed = at + 1 if weights is None else np.cumsum(weights)[at]
    else:
        ranks = None if weights is None else np.cumsum(weights)
        total = values.size if ranks is None else int(ranks[-1])
        steps = min(points, total)
        middles = grid_ranks(total, 2 * steps, np.arange(1, 2 * steps, 2))
        # If two equal sketches merge, each middle lies between two values. Take the
        # lower and the upper one in turn, or all ranks would drift in one direction.
        middles[::2] = np.maximum(middles[::2] - 1, 0)
        at = middles if ranks is None else np.searchsorted(ranks, middles, "right")
        passed = grid_ranks(total, steps, np.arange(1, steps + 1))
        error += total // (2 * steps) + 2  # 2 for the rounding of ranks
        # A heavy value can be the middle of several steps: keep it once.
        last = np.append(values[at[1:]] != values[at[:-1]], True)
        at, passed = at[last], passed[last]
    shares = np.diff(passed, prepend=0).astype(np.int64)
    kept = values[at].astype(np.float64) + 0.0  # -0.0 becomes 0.0
    return Sketch(kept, shares, lowest, highest, error, points)


class SketchOfChunks:
    """Sketch of a column that is read in chunks.

    Parameters
    ----------
    points
        Maximum number of values of the sketch.
    """

    def __init__(self, points: int = POINTS) -> None:
        self._points = points
        # Element i: the sketch of 2**i chunks, or None.
        self._levels: list[Sketch | None] = []

    def add(self, values: npt.NDArray[Any], weights: Int64s | None) -> None:
        """Add the next chunk: ascending values and their weights."""
        self._add(sketch_sorted(values, weights, self._points), 0)

    def merge(self, other: SketchOfChunks) -> None:
        """Add the chunks of another part of the column."""
        for level, sketch in enumerate(other._levels):
            if sketch is not None:
                self._add(sketch, level)

    def _add(self, carry: Sketch, level: int) -> None:
        """Add a sketch of ``2**level`` chunks."""
        self._levels += [None] * (level - len(self._levels))
        for at in range(level, len(self._levels)):
            sketch = self._levels[at]
            if sketch is None:
                self._levels[at] = carry
                return
            self._levels[at], carry = None, sketch.merge(carry)
        self._levels.append(carry)

    def whole(self) -> Sketch:
        """Return the sketch of all chunks so far; empty if there are none."""
        whole = sketch_sorted(np.empty(0), None, self._points)
        for sketch in self._levels:
            if sketch is not None:
                whole = sketch.merge(whole)
        return whole
