"""Bit operations on words: population count and count of trailing zeros.

They are plain Python; compiled kernels have LLVM instructions for them, see
`intrinsics`.
"""

from __future__ import annotations

from typing import Any

__all__ = ["count_bits", "lowest_bit"]


def count_bits(word: Any) -> int:
    """Return the number of 1 bits of a word of at most 64 bits."""
    return int(word).bit_count()


def lowest_bit(word: Any) -> int:
    """Return the index of the lowest 1 bit; there must be one."""
    return (int(word) & -int(word)).bit_length() - 1
