"""Quantiles of a long column that is not sorted but counted.

Quantiles depend on few of the values: those near them. The column is counted by the
upper bits of its values, then the ranges that hold a quantile by some more bits. Only
the values of the small ranges that are left are sorted. Each of these steps is a pass
over the column, which may be in parts: a pass over each, which are merged.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hornbeam.binning.column_pass import ColumnPass
from hornbeam.binning.cuts import (
    ColumnCuts,
    Summary,
    cut_summary,
    cuts_between,
    grid_ranks,
    most_bins,
    sort_column,
)
from hornbeam.kernels.sort import sort_floats
from hornbeam.kernels.value_counts import (
    DIGITS,
    PREFIXES,
    count_digits,
    count_prefixes,
    take_rows,
)

__all__ = [
    "COUNTED_ROWS",
    "CountPass",
    "ExtremesPass",
    "NumberedColumn",
    "counted_cuts",
    "cut_column",
]

Int64s = npt.NDArray[np.int64]
#: The least number of a column, and the lower bits that are not of its prefixes and of
#: its digits.
Scale = tuple[np.uint32, np.uint32, np.uint32]

#: Columns of fewer values are sorted: the counts take as long as some thousand values.
COUNTED_ROWS = 1 << 15
#: Of this many values in a sample, this many and one are equal if a value is likely to
#: be that of several quantiles.
_SAMPLE, _REPEATED = 1024, 4
_NO_WEIGHTS = np.empty(0, np.int64)
_SIGN = 1 << 31


class NumberedColumn:
    """A column, or a part of it, whose values have the bits that are counted.

    The values are taken as float32, in whose order ranges have equal lengths.

    Parameters
    ----------
    values
        (rows,) contiguous float32 or float64, NaN where missing.
    weights
        (rows,) int64, or None: every row weighs 1.
    scratch
        Memory of the size of the values as float32, as bytes, which may be that of the
        values themselves; or None.
    """

    def __init__(
        self,
        values: npt.NDArray[Any],
        weights: Int64s | None,
        scratch: npt.NDArray[np.uint8] | None = None,
    ) -> None:
        self.values, self.weights = values, weights
        #: As kernels take them.
        self.every_weight = _NO_WEIGHTS if weights is None else weights
        self.rounded = np.ndarray(values.shape, np.float32, scratch)
        with np.errstate(over="ignore"):
            # Adding zero turns -0.0 into 0.0, so that equal values have equal bits.
            np.add(values, 0, out=self.rounded, dtype=np.float32, casting="same_kind")
        self.bits = self.rounded.view(np.uint32)


class CountPass(ColumnPass):
    """A pass over a column that is not sorted."""

    @abstractmethod
    def count(self, column: NumberedColumn) -> None:
        """Add the rows of a part of the column."""


class ExtremesPass(CountPass):
    """Finds the least and the largest value, and whether some are likely repeated."""

    def __init__(self) -> None:
        super().__init__()
        self.least, self.largest = 2 * _SIGN, -1
        self.has_repeated = False

    def count(self, column: NumberedColumn) -> None:
        rounded = column.rounded
        self.has_missing |= bool(np.isnan(rounded).any())
        least = np.fmin.reduce(rounded, initial=np.inf)
        largest = np.fmax.reduce(rounded, initial=-np.inf)
        if least > largest:
            return  # all are missing
        self.least = min(self.least, _number(least))
        self.largest = max(self.largest, _number(largest))
        if rounded.size < _SAMPLE:
            return
        sample = np.sort(column.values[:: rounded.size // _SAMPLE])
        self.has_repeated |= bool((sample[_REPEATED:] == sample[:-_REPEATED]).any())

    def _merge(self, other: Self) -> None:
        self.least = min(self.least, other.least)
        self.largest = max(self.largest, other.largest)
        self.has_repeated |= other.has_repeated

    def prefixes(self) -> PrefixPass:
        """Return the pass that counts the values by prefix."""
        least, largest = min(self.least, self.largest), self.largest
        shift = max(0, (largest - least).bit_length() - (PREFIXES - 1).bit_length())
        digit_shift = max(0, shift - (DIGITS - 1).bit_length())
        scale = np.uint32(max(least, 0)), np.uint32(shift), np.uint32(digit_shift)
        return PrefixPass(scale)


class PrefixPass(CountPass):
    """Sums the weights of up to 32,768 ranges of values.

    Missing values and those of weight 0 are in no range.
    """

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        self._scale = scale
        self._counts = np.zeros(PREFIXES + 1, np.int64)

    def count(self, column: NumberedColumn) -> None:
        least, shift, _ = self._scale
        count_prefixes(column.bits, column.every_weight, least, shift, self._counts)

    def _merge(self, other: Self) -> None:
        self._counts += other._counts

    def __getstate__(self) -> Any:
        places = np.flatnonzero(self._counts).astype(np.uint16)  # few of all
        return self.has_missing, self._scale, places, self._counts[places]

    def __setstate__(self, state: Any) -> None:
        self.has_missing, self._scale, places, counts = state
        self._counts = np.zeros(PREFIXES + 1, np.int64)
        self._counts[places] = counts

    @property
    def n_ranges(self) -> int:
        """The number of ranges that hold values."""
        return int(np.count_nonzero(self._counts[:-1]))

    def digits(self, ranks_of: Callable[[int], Int64s]) -> DigitPass:
        """Return the pass that counts the ranges in which wanted values are.

        `ranks_of` takes the sum of all weights and returns ranks below it. A value is
        at a rank if it is the first of a cumulative weight above it.
        """
        ends = np.cumsum(self._counts[:-1])
        ranks = ranks_of(int(ends[-1]))
        prefix = np.searchsorted(ends, ranks, side="right")
        within = ranks - (ends[prefix] - self._counts[prefix])
        return DigitPass(self._scale, prefix, within)


class DigitPass(CountPass):
    """Sums the weights of 32 parts of each range in which there is a wanted value."""

    def __init__(self, scale: Scale, prefix: Int64s, within: Int64s) -> None:
        super().__init__()
        prefixes, self._slot = np.unique(prefix, return_inverse=True)
        self._ranges = _Prefixes(scale, prefixes)
        self._within = within
        self._counts = np.zeros((prefixes.size + 1, DIGITS), np.int64)

    def count(self, column: NumberedColumn) -> None:
        ranges = self._ranges.arguments()
        count_digits(column.bits, column.every_weight, *ranges, self._counts.ravel())

    def _merge(self, other: Self) -> None:
        self._counts += other._counts

    def values(self, max_rows: int | None) -> ValuePass:
        """Return the pass that takes the values near the wanted ones."""
        slot = self._slot + 1
        counts = self._counts[slot]
        ends = np.cumsum(counts, axis=1)
        digit = np.count_nonzero(ends <= self._within[:, None], axis=1)
        each = np.arange(digit.size)
        within = self._within - (ends[each, digit] - counts[each, digit])
        places, which = np.unique(slot * DIGITS + digit, return_inverse=True)
        weights = self._counts.ravel()[places]
        within += (np.cumsum(weights) - weights)[which]
        return ValuePass(self._ranges, places, within, max_rows)


class ValuePass(CountPass):
    """Takes the values of the chosen parts of ranges.

    Attributes
    ----------
    is_full
        Whether there are more than allowed; then they are dropped.
    """

    def __init__(
        self, ranges: _Prefixes, places: Int64s, within: Int64s, max_rows: int | None
    ) -> None:
        super().__init__()
        self._ranges, self._places, self._within = ranges, places, within
        self._max_rows, self._n_rows, self.is_full = max_rows, 0, False
        self._taken: list[tuple[npt.NDArray[Any], Int64s | None]] = []

    def count(self, column: NumberedColumn) -> None:
        chosen = np.zeros((self._ranges.prefixes.size + 1) * DIGITS, np.uint8)
        chosen[self._places] = 1
        rows = np.empty(column.bits.size + 1, np.uint32)
        count = take_rows(column.bits, *self._ranges.arguments(), chosen, rows)
        own = rows[:count]
        weights = None if column.weights is None else column.weights[own]
        self._take([(column.values[own], weights)], own.size)

    def _merge(self, other: Self) -> None:
        self.is_full |= other.is_full
        self._take(other._taken, other._n_rows)

    def _take(self, parts: list[Any], n_rows: int) -> None:
        self._n_rows += n_rows
        if self._max_rows is not None and self._n_rows > self._max_rows:
            self.is_full = True
        self._taken = [] if self.is_full else [*self._taken, *parts]

    def found(self) -> npt.NDArray[Any]:
        """Return the wanted values."""
        values, weights = zip(*self._taken, strict=True)
        given = [own for own in weights if own is not None]
        ordered, sorted_weights = sort_floats(
            np.concatenate(values), np.concatenate(given) if given else None
        )
        if sorted_weights is None:
            return ordered[self._within]
        ends = np.cumsum(sorted_weights)
        return ordered[np.searchsorted(ends, self._within, side="right")]


class _Prefixes:
    """The ranges of some prefixes."""

    def __init__(self, scale: Scale, prefixes: Int64s) -> None:
        self.scale, self.prefixes = scale, prefixes

    def arguments(
        self,
    ) -> tuple[np.uint32, np.uint32, npt.NDArray[np.uint16], np.uint32]:
        """Return them as `count_digits` takes them."""
        least, shift, digit_shift = self.scale
        slots = np.zeros(PREFIXES + 1, np.uint16)
        slots[self.prefixes] = np.arange(1, self.prefixes.size + 1)
        return least, shift, slots, digit_shift


def counted_cuts(
    max_bin: int, absent: int = 0, max_rows: int | None = None
) -> Generator[Any, Any, ColumnCuts | None]:
    """Find the cuts of a column: yields passes, and takes each after it has ended.

    They are those of `cut_summary`: the quantiles, if no two are equal. Otherwise, and
    if more than `max_rows` values are near quantiles, it returns None.

    Parameters
    ----------
    max_bin, absent
        As for `cut_column`.
    max_rows
        The most values to take; None: any number.
    """
    ends: ExtremesPass = yield ExtremesPass()
    if ends.has_repeated:
        return None
    has_missing = ends.has_missing or absent > 0
    prefixes: PrefixPass = yield ends.prefixes()
    bins = most_bins(max_bin, has_missing)
    if prefixes.n_ranges <= max_bin:  # there may be less distinct values than bins
        return None

    def ranks(total: int) -> Int64s:
        inner = grid_ranks(total, bins, np.arange(1, bins))
        return np.concatenate([[0], inner, [total - 1]])

    digits: DigitPass = yield prefixes.digits(ranks)
    values: ValuePass = yield digits.values(max_rows)
    if values.is_full:
        return None
    points = values.found()
    if (points[1:-1] == points[:-2]).any():
        return None
    return cuts_between(points[0], points[1:-1], points[-1], has_missing)


def cut_column(
    values: npt.NDArray[Any],
    max_bin: int,
    weights: Int64s | None,
    scratch: npt.NDArray[np.uint8] | None = None,
    absent: int = 0,
) -> ColumnCuts:
    """Return the cuts of one column in memory.

    Parameters
    ----------
    values
        (rows,) float32 or float64, NaN where missing.
    max_bin
        Maximum number of bins. With 256, a column with missing values and more distinct
        values than that has 255, so that its bins and that of missing values fit in
        uint8.
    weights
        (rows,) from `integer_weights`, or None for equal weights.
    scratch
        Memory of twice the size of `values`, as bytes, or None.
    absent
        Number of further rows, not in `values`, where the column is missing.
    """
    if values.size >= COUNTED_ROWS:
        cuts = _count_column(NumberedColumn(values, weights, scratch), max_bin, absent)
        if cuts is not None:
            return cuts
    ordered, sorted_weights, has_missing = sort_column(values, weights, scratch)
    ranks = None if sorted_weights is None else np.cumsum(sorted_weights)
    return cut_summary(Summary(ordered, ranks), max_bin, has_missing or absent > 0)


def _count_column(
    column: NumberedColumn, max_bin: int, absent: int
) -> ColumnCuts | None:
    """Return the cuts of a column in memory, or None if it has to be sorted."""
    steps = counted_cuts(max_bin, absent)
    step = next(steps)
    while True:
        step.count(column)
        try:
            step = steps.send(step)
        except StopIteration as end:
            found: ColumnCuts | None = end.value
            return found


def _number(value: np.float32) -> int:
    """Return the number of a value, see `kernels.value_counts`."""
    bits = int(np.float32(value).view(np.uint32))
    return 2 * _SIGN - 1 - bits if bits & _SIGN else bits | _SIGN
