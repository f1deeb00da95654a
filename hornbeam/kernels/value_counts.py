"""Counting of the values of a column by the upper bits of their place in its range.

The bits of a float32 are a number that is ordered as the value, once the sign bit of a
positive value is set and a negative value is inverted. The distance of this number from
the least one of the column has an upper part, its prefix, and a digit below.
"""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import inline, kernel

__all__ = ["DIGITS", "PREFIXES", "count_digits", "count_prefixes", "take_rows"]

#: The numbers of different prefixes and digits. More make ranges smaller, and the
#: counts larger than the first-level cache.
PREFIXES = 1 << 15
DIGITS = 1 << 5
_SIGN = np.uint32(1 << 31)
_INFINITY = np.uint32(0xFF << 23)
_MISSING = np.uint32(PREFIXES)


@inline
def _is_missing(bits):
    return (bits & ~_SIGN) > _INFINITY


@inline
def _distance(bits, least):
    """Return how far the number of a value is above the least one; of NaN, 0."""
    number = ~bits if (bits & _SIGN) != 0 else bits | _SIGN
    return np.uint32(np.uint32(least if _is_missing(bits) else number) - least)


@inline
def _prefix(bits, distance, shift):
    """Return the upper bits of the distance; of NaN, one more than the largest."""
    return np.uint32(_MISSING if _is_missing(bits) else distance >> shift)


@inline
def _place(distance, shift, slot):
    """Return the place of a digit among those of a slot, 32 each."""
    digit = np.uint32(np.uint32(distance >> shift) & np.uint32(DIGITS - 1))
    return np.uint32(np.uint32(np.uint32(slot) * np.uint32(DIGITS)) + digit)


@kernel
def count_prefixes(
    bits,  # (rows,) uint32: the bits of the values as float32
    weights,  # (rows,) int64; empty: every row weighs 1
    least,  # uint32: the least number
    shift,  # uint32: the lower bits of a distance that are not of its prefix
    counts,  # (32769,) int64: the weight of each prefix, then of NaN, in and out
):
    """Add the weights of rows to the counts of their prefixes."""
    is_weighted = weights.size > 0
    for i in range(bits.size):
        weight = weights[i] if is_weighted else np.int64(1)
        counts[_prefix(bits[i], _distance(bits[i], least), shift)] += weight


@kernel
def count_digits(
    bits,  # (rows,) uint32
    weights,  # (rows,) int64, or empty
    least,
    shift,
    slots,  # (32769,) uint16: the slot of each prefix; 0 if it is not counted
    digit_shift,  # uint32: the lower bits of a distance that are below its digit
    counts,  # ((1 + slots) * 32,) int64, in and out
):
    """Add the weights of rows to the counts of the digits of each slot.

    Rows without a slot are counted in slot 0: a branch would take longer.
    """
    is_weighted = weights.size > 0
    for i in range(bits.size):
        weight = weights[i] if is_weighted else np.int64(1)
        distance = _distance(bits[i], least)
        slot = slots[_prefix(bits[i], distance, shift)]
        counts[_place(distance, digit_shift, slot)] += weight


@kernel
def take_rows(
    bits,  # (rows,) uint32
    least,
    shift,
    slots,  # (32769,) uint16
    digit_shift,
    chosen,  # ((1 + slots) * 32,) uint8: 1 for the digits whose rows are taken
    rows,  # (rows + 1,) uint32, out
):
    """Write the rows whose digits are chosen, ascending, and return their number."""
    taken = np.uint64(0)
    for i in range(bits.size):
        distance = _distance(bits[i], least)
        slot = slots[_prefix(bits[i], distance, shift)]
        rows[taken] = i  # the next row overwrites it unless this one is chosen
        taken += np.uint64(chosen[_place(distance, digit_shift, slot)])
    return taken
