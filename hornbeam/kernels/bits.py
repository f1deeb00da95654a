"""Words as sets of bits: how many there are, and which is the lowest.

Each is an LLVM instruction wrapped so that the kernel that calls it is still valid
plain Python.
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
    """Return how many bits of a word, at most 64 bits long, are 1."""
    return int(word).bit_count()


@overload(count_bits)
def _overload_count_bits(word):  # type: ignore[no-untyped-def]
    return lambda word: np.int64(_count_bits(np.uint64(word)))


def lowest_bit(word: Any) -> int:
    """Return the number of the lowest bit that is 1; there must be one."""
    return (int(word) & -int(word)).bit_length() - 1


@overload(lowest_bit)
def _overload_lowest_bit(word):  # type: ignore[no-untyped-def]
    return lambda word: np.int64(_lowest_bit(np.uint64(word)))
