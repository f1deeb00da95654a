"""Sets of `SET_ROWS` rows as bits: one vector instruction handles many rows.

A set is `SET_WORDS` words; row i is bit i % 64 of word i // 64. LLVM does not find
these vector instructions in loops over bits: in compiled kernels each function is an
intrinsic, see `intrinsics`.
"""

from __future__ import annotations

import numpy as np

__all__ = [
    "SET_ROWS",
    "SET_WORDS",
    "mark_above",
    "move_rows",
    "write_numbers",
]

#: Rows of a set.
SET_ROWS = 512
#: Words of a set.
SET_WORDS = SET_ROWS // 64


def mark_above(
    bins: np.ndarray, first: int, bin: int, sets: np.ndarray, number: int
) -> None:
    """Write the set of the rows whose bin is above `bin`; theirs begin at `first`."""
    above = bins[int(first) : int(first) + SET_ROWS] > bin
    sets[number] = np.packbits(above, bitorder="little").view(np.uint64)


def move_rows(
    sets: np.ndarray,
    source: int,
    target: int,
    tests: np.ndarray,
    test: int,
    digits: np.ndarray,
    digit: int,
) -> None:
    """Move the rows of a set that are in a set of `tests` to another set.

    And toggle a binary digit of their numbers; each digit is a set too. If source and
    target are the same and all rows move, only their digit changes.
    """
    moved = sets[source] & tests[test]
    sets[source] ^= moved
    sets[target] = moved
    digits[digit] ^= moved


def write_numbers(digits: np.ndarray, numbers: np.ndarray) -> None:
    """Write the number of each row, (SET_ROWS,) uint8, from its eight digits."""
    bits = np.unpackbits(digits.view(np.uint8), axis=1, bitorder="little")
    numbers[:] = np.packbits(bits, axis=0, bitorder="little")[0]
