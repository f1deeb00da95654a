"""LLVM instructions behind functions of other kernel files, which are plain Python.

Numba compiles a call of such a function by its overload here. This file is imported
when the first kernel is compiled.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from hornbeam.kernels.bin_blocks import TURNED_COLUMNS, TURNED_ROWS, turn_bins
from hornbeam.kernels.bits import count_bits, lowest_bit
from hornbeam.kernels.row_sets import (
    SET_WORDS,
    mark_above,
    move_rows,
    write_numbers,
)
from hornbeam.kernels.sync import atomic_add, prefetch, yield_processor

__all__: list[str] = []


# Bits


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


@overload(count_bits)
def _overload_count_bits(word):  # type: ignore[no-untyped-def]
    return lambda word: np.int64(_count_bits(np.uint64(word)))


@overload(lowest_bit)
def _overload_lowest_bit(word):  # type: ignore[no-untyped-def]
    return lambda word: np.int64(_lowest_bit(np.uint64(word)))


# Threads


def _element_pointer(context: Any, builder: Any, array_type: Any, args: Any) -> Any:
    array = context.make_array(array_type)(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


@intrinsic
def _atomic_add(typingctx, array, index, value):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        pointer = _element_pointer(context, builder, signature.args[0], args)
        return builder.atomic_rmw("add", pointer, args[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), generate


@intrinsic
def _prefetch(typingctx, array, index):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        byte_pointer = ir.IntType(8).as_pointer()
        int32 = ir.IntType(32)
        pointer = builder.bitcast(
            _element_pointer(context, builder, signature.args[0], args), byte_pointer
        )
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32]),
            "llvm.prefetch.p0",
        )
        # Into the second-level cache: a core waits for few lines of its first one at a
        # time, and drops prefetches beyond those.
        read, second_level, data = 0, 2, 1
        flags = [int32(read), int32(second_level), int32(data)]
        builder.call(function, [pointer, *flags])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


@intrinsic
def _yield_processor(typingctx):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        name = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.IntType(32), []), name
        )
        builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), generate


@overload(atomic_add)
def _overload_atomic_add(array, index, value):  # type: ignore[no-untyped-def]
    return lambda array, index, value: _atomic_add(array, index, value)


@overload(prefetch)
def _overload_prefetch(array, index):  # type: ignore[no-untyped-def]
    return lambda array, index: _prefetch(array, index)


@overload(yield_processor)
def _overload_yield_processor():  # type: ignore[no-untyped-def]
    return lambda: _yield_processor()


# Sets of rows

#: Rows of a word, and binary digits of a number that is one byte.
_WORD_BITS, _DIGITS = 64, 8
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


@overload(mark_above)
def _overload_mark_above(bins, first, bin, sets, number):  # type: ignore[no-untyped-def]
    return lambda bins, first, bin, sets, number: _mark_above(
        bins, np.uint64(first), np.uint8(bin), sets, np.uint64(number)
    )


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


@overload(write_numbers)
def _overload_write_numbers(digits, numbers):  # type: ignore[no-untyped-def]
    return lambda digits, numbers: _write_numbers(digits, numbers)


# Blocks of bins

_LANE = 16  # bytes of half a vector, within which bytes are interleaved
_HALF = ir.VectorType(_BYTE, _LANE)


def _shuffle(places: list[int]) -> Any:
    position = ir.IntType(32)
    return ir.Constant(ir.VectorType(position, len(places)), places)


def _interleaved(begin: int) -> Any:
    """Return the shuffle that interleaves half of each lane of two vectors."""
    return _shuffle(
        [
            lane + i + vector
            for lane in (0, _LANE)
            for i in range(begin, begin + _LANE // 2)
            for vector in (0, 2 * _LANE)
        ]
    )


@intrinsic
def _turn_bins(typingctx, bins, rows, begin, width, column, by_column, first):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        arrays = _Arrays(context, builder, signature, args)
        target = context.make_array(signature.args[5])(context, builder, args[5])
        stride = builder.extract_value(target.strides, 0)
        halves = []
        for i in range(TURNED_ROWS):
            number = builder.add(args[2], _WORD(i))
            row = builder.zext(arrays.load(1, number, ir.IntType(32)), _WORD)
            start = builder.add(builder.mul(row, args[3]), args[4])
            halves.append(arrays.load(0, start, _HALF))
        # Each lane has bytes of 16 rows. An interleaving moves the highest bit of the
        # number of a row to the lowest of the place in it, and that of the place to
        # the lowest of the row: after four the rows are columns.
        both, low, high = (
            _shuffle([*range(2 * _LANE)]),
            _interleaved(0),
            _interleaved(8),
        )
        block = [
            builder.shuffle_vector(halves[i], halves[i + _LANE], both)
            for i in range(_LANE)
        ]
        for _ in range(4):
            block = [
                builder.shuffle_vector(block[i], block[i + _LANE // 2], half)
                for i in range(_LANE // 2)
                for half in (low, high)
            ]
        for i in range(TURNED_COLUMNS):
            own = builder.mul(builder.add(args[6], _WORD(i)), stride)
            arrays.store(block[i], 5, builder.add(own, args[2]))
        return context.get_dummy_value()

    uint64 = types.uint64
    return types.void(bins, rows, uint64, uint64, uint64, by_column, uint64), generate


@overload(turn_bins)
def _overload_turn_bins(bins, rows, begin, width, column, by_column, first):  # type: ignore[no-untyped-def]
    return lambda bins, rows, begin, width, column, by_column, first: _turn_bins(
        bins,
        rows,
        np.uint64(begin),
        np.uint64(width),
        np.uint64(column),
        by_column,
        np.uint64(first),
    )
