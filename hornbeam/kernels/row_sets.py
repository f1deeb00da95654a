"""Sets of `SET_ROWS` rows as bits: one vector instruction handles many rows.

A set is `SET_WORDS` words; row i is bit i % 64 of word i // 64. LLVM does not find
these vector instructions in loops over bits, so that each function is an intrinsic,
beside a plain Python version for kernels that run as Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

__all__ = [
    "SET_ROWS",
    "SET_WORDS",
    "mark_above",
    "move_rows",
    "write_numbers",
]

#: Rows of a set.
SET_ROWS = 512
_WORD_BITS = 64
#: Words of a set.
SET_WORDS = SET_ROWS // _WORD_BITS
#: Binary digits of a number that is one byte.
_DIGITS = 8

_BYTE, _WORD = ir.IntType(8), ir.IntType(64)
_SET = ir.VectorType(_WORD, SET_WORDS)
_BYTES = ir.VectorType(_BYTE, _WORD_BITS)
_BITS = ir.VectorType(ir.IntType(1), _WORD_BITS)


class _Arrays:
    """The contiguous arrays among the arguments of an intrinsic."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self._builder = builder
        self._data = [
            context.make_array(kind)(context, builder, value).data
            if isinstance(kind, types.Array)
            else None
            for kind, value in zip(signature.args, args, strict=True)
        ]

    def pointer(self, argument: int, element: Any, kind: Any) -> Any:
        """Return a pointer to what begins at this element of an array."""
        pointer = self._builder.gep(self._data[argument], [element])
        return self._builder.bitcast(pointer, kind.as_pointer())

    def load(self, argument: int, element: Any, kind: Any) -> Any:
        """Return a vector or word that begins at this element."""
        value = self._builder.load(self.pointer(argument, element, kind))
        value.align = 1
        return value

    def store(self, value: Any, argument: int, element: Any) -> None:
        """Write a vector or word from this element on."""
        pointer = self.pointer(argument, element, value.type)
        self._builder.store(value, pointer).align = 1

    def start(self, number: Any) -> Any:
        """Return the element at which the set of this number begins."""
        return self._builder.mul(number, _WORD(SET_WORDS))


def _bytes(value: int) -> Any:
    return ir.Constant(_BYTES, [value] * _WORD_BITS)


@intrinsic
def _mark_above(typingctx, bins, first, bin, sets, number):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        arrays = _Arrays(context, builder, signature, args)
        unknown, position = ir.Constant(_BYTES, ir.Undefined), ir.IntType(32)
        one = builder.insert_element(unknown, args[2], position(0))
        everywhere = ir.Constant(ir.VectorType(position, _WORD_BITS), [0] * _WORD_BITS)
        bounds = builder.shuffle_vector(one, unknown, everywhere)
        start = arrays.start(args[4])
        for word in range(SET_WORDS):
            own = arrays.load(0, builder.add(args[1], _WORD(word * _WORD_BITS)), _BYTES)
            above = builder.icmp_unsigned(">", own, bounds)
            element = builder.add(start, _WORD(word))
            arrays.store(builder.bitcast(above, _WORD), 3, element)
        return context.get_dummy_value()

    uint64 = types.uint64
    return types.void(bins, uint64, types.uint8, sets, uint64), generate


@intrinsic
def _move_rows(typingctx, sets, source, target, tests, test, digits, digit):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        arrays = _Arrays(context, builder, signature, args)
        start, toggled = arrays.start(args[1]), arrays.start(args[6])
        rows = arrays.load(0, start, _SET)
        moved = builder.and_(rows, arrays.load(3, arrays.start(args[4]), _SET))
        arrays.store(builder.xor(rows, moved), 0, start)
        arrays.store(moved, 0, arrays.start(args[2]))
        number = builder.xor(arrays.load(5, toggled, _SET), moved)
        arrays.store(number, 5, toggled)
        return context.get_dummy_value()

    uint64 = types.uint64
    return types.void(sets, uint64, uint64, tests, uint64, digits, uint64), generate


@intrinsic
def _write_numbers(typingctx, digits, numbers):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        arrays = _Arrays(context, builder, signature, args)
        for word in range(SET_WORDS):
            total = _bytes(0)
            for digit in range(_DIGITS):
                rows = arrays.load(0, _WORD(digit * SET_WORDS + word), _WORD)
                own = builder.bitcast(rows, _BITS)
                own = builder.select(own, _bytes(1 << digit), _bytes(0))
                total = builder.or_(total, own)
            arrays.store(total, 1, _WORD(word * _WORD_BITS))
        return context.get_dummy_value()

    return types.void(digits, numbers), generate


def mark_above(
    bins: np.ndarray, first: int, bin: int, sets: np.ndarray, number: int
) -> None:
    """Write the set of the rows whose bin is above `bin`; theirs begin at `first`."""
    above = bins[int(first) : int(first) + SET_ROWS] > bin
    sets[number] = np.packbits(above, bitorder="little").view(np.uint64)


@overload(mark_above)
def _overload_mark_above(bins, first, bin, sets, number):  # type: ignore[no-untyped-def]
    return lambda bins, first, bin, sets, number: _mark_above(
        bins, np.uint64(first), np.uint8(bin), sets, np.uint64(number)
    )


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


@overload(move_rows)
def _overload_move_rows(sets, source, target, tests, test, digits, digit):  # type: ignore[no-untyped-def]
    return lambda sets, source, target, tests, test, digits, digit: _move_rows(
        sets,
        np.uint64(source),
        np.uint64(target),
        tests,
        np.uint64(test),
        digits,
        np.uint64(digit),
    )


def write_numbers(digits: np.ndarray, numbers: np.ndarray) -> None:
    """Write the number of each row, (SET_ROWS,) uint8, from its eight digits."""
    bits = np.unpackbits(digits.view(np.uint8), axis=1, bitorder="little")
    numbers[:] = np.packbits(bits, axis=0, bitorder="little")[0]


@overload(write_numbers)
def _overload_write_numbers(digits, numbers):  # type: ignore[no-untyped-def]
    return lambda digits, numbers: _write_numbers(digits, numbers)
