"""Sets of rows as bits, against Python's sets and integers."""

from __future__ import annotations

import numpy as np
import pytest

from hornbeam.kernels.jit import kernel
from hornbeam.kernels.row_sets import (
    SET_ROWS,
    SET_WORDS,
    mark_above,
    move_rows,
    write_numbers,
)


@kernel
def _mark(bins, first, bin, sets, number):
    mark_above(bins, first, bin, sets, number)


@kernel
def _move(sets, source, target, tests, test, digits, digit):
    move_rows(sets, source, target, tests, test, digits, digit)


@kernel
def _write(digits, numbers):
    write_numbers(digits, numbers)


def random_sets(rng, count):
    return rng.integers(0, 2**64, (count, SET_WORDS), np.uint64)


def members(words):
    """Return the rows of a set."""
    bits = (int(word) >> k & 1 for word in words for k in range(64))
    return {row for row, bit in enumerate(bits) if bit}


@pytest.mark.parametrize("bin", [0, 1, 127, 128, 254, 255])
def test_rows_above_a_bin(bin):
    rng = np.random.default_rng(bin)
    bins = rng.integers(0, 256, 2 * SET_ROWS, np.uint8)
    bins[::5] = bin
    sets = random_sets(rng, 3)
    before = sets.copy()
    _mark(bins, SET_ROWS, np.uint8(bin), sets, 1)
    above = {row for row in range(SET_ROWS) if bins[SET_ROWS + row] > bin}
    assert members(sets[1]) == above
    np.testing.assert_array_equal(sets[::2], before[::2])


@pytest.mark.parametrize("target", [0, 2])
def test_moved_rows(target):
    rng = np.random.default_rng(target)
    sets, tests, digits = (random_sets(rng, count) for count in (3, 5, 8))
    before = sets.copy(), tests.copy(), digits.copy()
    _move(sets, 0, target, tests, 4, digits, 6)
    moved = members(before[0][0]) & members(before[1][4])
    assert members(sets[target]) == moved
    if target != 0:
        assert members(sets[0]) == members(before[0][0]) - moved
    assert members(digits[6]) == members(before[2][6]) ^ moved
    np.testing.assert_array_equal(sets[1], before[0][1])
    np.testing.assert_array_equal(tests, before[1])
    others = np.arange(8) != 6
    np.testing.assert_array_equal(digits[others], before[2][others])


def test_numbers_from_digits():
    digits = random_sets(np.random.default_rng(0), 8)
    numbers = np.zeros(SET_ROWS, np.uint8)
    _write(digits, numbers)
    rows = [members(digit) for digit in digits]
    expected = [
        sum(1 << digit for digit in range(8) if row in rows[digit])
        for row in range(SET_ROWS)
    ]
    assert numbers.tolist() == expected
