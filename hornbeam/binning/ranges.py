"""Ranges of values that have been looked at, and bounds that part them further."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.binning.cuts import Cells

__all__ = ["KEPT_BYTES", "RANGES", "Ranges", "after", "bounds_between"]

Floats = npt.NDArray[Any]
Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

#: Ranges that one look counts.
RANGES = 1 << 13
#: Cells that one look parts at most, so that each falls into some pieces.
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

    def cells(self) -> Cells:
        """Return them as cells that say where cuts lie."""
        return Cells(self.low, np.cumsum(self.weights), self.high)


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
