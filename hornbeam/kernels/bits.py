"""Bit operations on words: population count and count of trailing zeros.

Each wraps an LLVM instruction so that kernels which call it remain valid plain Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

__all__ = ["count_bits", "lowest_bit"]


@intrinsic
def _count_bits(typingctx, word):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), generate


@intrinsic
def _lowest_bit(typingctx, word):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.cttz(args[0], cgutils.true_bit)

    return types.uint64(types.uint64), generate


def count_bits(word: Any) -> int:
    """Return the number of 1 bits of a word of at most 64 bits."""
    return int(word).bit_count()


@overload(count_bits)
def _overload_count_bits(word):  # type: ignore[no-untyped-def]
    return lambda word: np.int64(_count_bits(np.uint64(word)))


def lowest_bit(word: Any) -> int:
    """Return the index of the lowest 1 bit; there must be one."""
    return (int(word) & -int(word)).bit_length() - 1


@overload(lowest_bit)
def _overload_lowest_bit(word):  # type: ignore[no-untyped-def]
    return lambda word: np.int64(_lowest_bit(np.uint64(word)))
