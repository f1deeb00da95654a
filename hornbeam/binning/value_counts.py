"""Quantiles of a long column that is not sorted but counted.

Quantiles depend on few of the values: those near them. The column is counted by the
upper bits of its values, then the ranges that hold a quantile by some more bits. Only
the values of the small ranges that are left are sorted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.kernels.sort import sort_floats
from hornbeam.kernels.value_counts import (
    DIGITS,
    PREFIXES,
    count_digits,
    count_prefixes,
    take_rows,
)

__all__ = ["ValueCounts"]

Int64s = npt.NDArray[np.int64]

_NO_WEIGHTS = np.empty(0, np.int64)
_SIGN = 1 << 31


class ValueCounts:
    """The weight of each of up to 32,768 ranges of the values of a column.

    The values are taken as float32, in whose order the ranges have equal lengths.
    Missing values and those of weight 0 are in no range.

    Parameters
    ----------
    values
        (rows,) contiguous float32 or float64, NaN where missing.
    weights
        (rows,) int64, or None: every row weighs 1.
    scratch
        Memory of the size of the values as float32, as bytes, or None.

    Attributes
    ----------
    has_missing
        Whether any value is missing.
    total
        The sum of the weights of all values.
    n_ranges
        The number of ranges that hold values.
    """

    def __init__(
        self,
        values: npt.NDArray[Any],
        weights: Int64s | None,
        scratch: npt.NDArray[np.uint8] | None,
    ) -> None:
        self._values = values
        self._weights = _NO_WEIGHTS if weights is None else weights
        rounded = np.ndarray(values.shape, np.float32, scratch)
        with np.errstate(over="ignore"):
            # Adding zero turns -0.0 into 0.0, so that equal values have equal bits.
            np.add(values, 0, out=rounded, dtype=np.float32, casting="same_kind")
        self._bits = rounded.view(np.uint32)
        ends = np.fmin.reduce(rounded), np.fmax.reduce(rounded)
        least, largest = map(_number, ends)
        shift = max(0, (largest - least).bit_length() - (PREFIXES - 1).bit_length())
        digit_shift = max(0, shift - (DIGITS - 1).bit_length())
        self.has_missing = bool(np.isnan(rounded).any())
        self._least, self._shift = np.uint32(least), np.uint32(shift)
        self._digit_shift = np.uint32(digit_shift)
        counts = np.zeros(PREFIXES + 1, np.int64)
        count_prefixes(self._bits, self._weights, self._least, self._shift, counts)
        self._counts = counts[:-1]
        self._ends = np.cumsum(self._counts)
        self.total = int(self._ends[-1])
        self.n_ranges = int(np.count_nonzero(self._counts))

    def at(self, ranks: Int64s) -> npt.NDArray[Any]:
        """Return the value at each rank, the first of a cumulative weight above it.

        Parameters
        ----------
        ranks
            (ranks,) int64 from 0 to `total` - 1.
        """
        prefix = np.searchsorted(self._ends, ranks, side="right")
        within = ranks - (self._ends[prefix] - self._counts[prefix])
        prefixes, slot = np.unique(prefix, return_inverse=True)
        slots = np.zeros(PREFIXES + 1, np.uint16)
        slots[prefixes] = np.arange(1, prefixes.size + 1)
        ranges = self._least, self._shift, slots, self._digit_shift
        counts = np.zeros((prefixes.size + 1, DIGITS), np.int64)
        count_digits(self._bits, self._weights, *ranges, counts.ravel())
        digit_counts = counts[slot + 1]
        ends = np.cumsum(digit_counts, axis=1)
        digit = np.count_nonzero(ends <= within[:, None], axis=1)
        each = np.arange(ranks.size)
        within -= ends[each, digit] - digit_counts[each, digit]
        places, which = np.unique((slot + 1) * DIGITS + digit, return_inverse=True)
        chosen = np.zeros(counts.size, np.uint8)
        chosen[places] = 1
        rows = np.empty(self._bits.size + 1, np.uint32)
        rows = rows[: take_rows(self._bits, *ranges, chosen, rows)]
        weights = counts.ravel()[places]
        within += (np.cumsum(weights) - weights)[which]
        row_weights = self._weights[rows] if self._weights.size else None
        values, sorted_weights = sort_floats(self._values[rows], row_weights)
        if sorted_weights is None:
            return values[within]
        return values[np.searchsorted(np.cumsum(sorted_weights), within, side="right")]


def _number(value: np.float32) -> int:
    """Return the number of a value, see `kernels.value_counts`."""
    bits = int(value.view(np.uint32))
    return 2 * _SIGN - 1 - bits if bits & _SIGN else bits | _SIGN
