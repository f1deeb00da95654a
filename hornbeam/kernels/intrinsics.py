"""LLVM instructions behind functions of other kernel files, which are plain Python.

A kernel that calls such a function contains its instructions. This file is imported
when the first kernel is compiled.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import signature as signature_of
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import lower_builtin

from hornbeam.kernels.bin_blocks import TURNED_COLUMNS, TURNED_ROWS, turn_bins
from hornbeam.kernels.bits import count_bits, lowest_bit
from hornbeam.kernels.cut_scores import LANES, score_packed_cuts
from hornbeam.kernels.row_sets import (
    SET_WORDS,
    mark_above,
    move_rows,
    write_numbers,
)
from hornbeam.kernels.sync import (
    atomic_add,
    atomic_load,
    pause_processor,
    prefetch,
    yield_processor,
)

__all__: list[str] = []

_int64, _uint64, _float32 = types.int64, types.uint64, types.float32

#: Writes instructions: of a context, a builder, a signature and values.
_Generator = Callable[[Any, Any, Any, Any], Any]


def _instructions(
    function: Callable[..., Any], result: Any, *arguments: Any
) -> Callable[[_Generator], _Generator]:
    """Return a decorator of what writes the instructions of a call of `function`.

    The arguments are cast to these types; None stands for an array, of any type.
    """

    class Template(AbstractTemplate):
        key = function

        def generic(self, args: Any, kws: Any) -> Any:
            """Return the signature of a call."""
            pairs = zip(args, arguments, strict=True)
            return signature_of(
                result, *(given if own is None else own for given, own in pairs)
            )

    infer_global(function)(Template)
    return lower_builtin(function, types.VarArg(types.Any))  # type: ignore[no-any-return]


# Bits


@_instructions(count_bits, _int64, _uint64)
def _count_bits(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.ctpop(args[0])


@_instructions(lowest_bit, _int64, _uint64)
def _lowest_bit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.cttz(args[0], cgutils.true_bit)


# Threads


def _element_pointer(context: Any, builder: Any, array_type: Any, args: Any) -> Any:
    array = context.make_array(array_type)(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


@_instructions(atomic_add, _int64, None, _int64, _int64)
def _atomic_add(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    pointer = _element_pointer(context, builder, signature.args[0], args)
    return builder.atomic_rmw("add", pointer, args[2], "seq_cst")


@_instructions(atomic_load, _int64, None, _int64)
def _atomic_load(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    pointer = _element_pointer(context, builder, signature.args[0], args)
    return builder.load_atomic(pointer, ordering="acquire", align=8)


@_instructions(prefetch, types.void, None, _uint64)
def _prefetch(context: Any, builder: Any, signature: Any, args: Any) -> Any:
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


_OF_X86 = ("llvm.x86.sse2.pause",)
_OF_ARM = ("llvm.aarch64.hint", ir.IntType(32)(1))
#: By what a platform calls its processor.
_PAUSES = {"x86_64": _OF_X86, "AMD64": _OF_X86, "aarch64": _OF_ARM, "arm64": _OF_ARM}


@_instructions(pause_processor, types.void)
def _pause_processor(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    name, *hints = _PAUSES.get(platform.machine(), (None,))
    if name is not None:
        types_of = [hint.type for hint in hints]
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), types_of), name
        )
        builder.call(function, hints)
    return context.get_dummy_value()


@_instructions(yield_processor, types.void)
def _yield_processor(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    name = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.IntType(32), []), name
    )
    builder.call(function, [])
    return context.get_dummy_value()


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


@_instructions(mark_above, types.void, None, _uint64, types.uint8, None, _uint64)
def _mark_above(context: Any, builder: Any, signature: Any, args: Any) -> Any:
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


@_instructions(
    move_rows, types.void, None, _uint64, _uint64, None, _uint64, None, _uint64
)
def _move_rows(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    arrays = _Arrays(context, builder, signature, args)
    start, toggled = arrays.start(args[1]), arrays.start(args[6])
    rows = arrays.load(0, start, _SET)
    moved = builder.and_(rows, arrays.load(3, arrays.start(args[4]), _SET))
    arrays.store(builder.xor(rows, moved), 0, start)
    arrays.store(moved, 0, arrays.start(args[2]))
    number = builder.xor(arrays.load(5, toggled, _SET), moved)
    arrays.store(number, 5, toggled)
    return context.get_dummy_value()


@_instructions(write_numbers, types.void, None, None)
def _write_numbers(context: Any, builder: Any, signature: Any, args: Any) -> Any:
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


@_instructions(
    turn_bins, types.void, None, None, _uint64, _uint64, _uint64, None, _uint64
)
def _turn_bins(context: Any, builder: Any, signature: Any, args: Any) -> Any:
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
        builder.shuffle_vector(halves[i], halves[i + _LANE], both) for i in range(_LANE)
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


# Scores of cuts

_INT, _FLOAT = ir.IntType(32), ir.FloatType()
_WORDS, _INTS, _FLOATS = (ir.VectorType(kind, LANES) for kind in (_WORD, _INT, _FLOAT))
_HALVES = ir.VectorType(_INT, 2 * LANES)


def _splat(builder: Any, value: Any) -> Any:
    """Return a vector of LANES equal numbers."""
    kind = ir.VectorType(value.type, LANES)
    unknown = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(unknown, value, _INT(0))
    return builder.shuffle_vector(one, unknown, _shuffle([0] * LANES))


def _score_lanes(builder: Any, left: Any, total: Any, least: Any, ridge: Any) -> Any:
    """Return which of LANES cuts are valid, and scores, from g and h as integers."""
    left_g, left_h = left
    right_g, right_h = map(builder.sub, total, left)
    valid = builder.and_(
        *(builder.icmp_unsigned(">=", h, least) for h in (left_h, right_h))
    )
    left_g, right_g = (builder.sitofp(g, _FLOATS) for g in (left_g, right_g))
    left_n, right_n = (
        builder.fadd(builder.uitofp(h, _FLOATS), ridge) for h in (left_h, right_h)
    )
    left = builder.fmul(builder.fmul(left_g, left_g), right_n)
    right = builder.fmul(builder.fmul(right_g, right_g), left_n)
    score = builder.fdiv(builder.fadd(left, right), builder.fmul(left_n, right_n))
    return valid, score


@_instructions(
    score_packed_cuts,
    _float32,
    None,
    _int64,
    _int64,
    _int64,
    types.uint32,
    _float32,
    None,
)
def _score_packed_cuts(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    arrays = _Arrays(context, builder, signature, args)
    none = ir.Constant(_FLOATS, [0.0] * LANES)
    places = ir.Constant(_INTS, list(range(LANES)))
    unknown = ir.Constant(_HALVES, ir.Undefined)
    count, extra = args[1], _splat(builder, args[2])
    total = [
        _splat(builder, builder.trunc(half, _INT))
        for half in (builder.lshr(args[3], _WORD(32)), args[3])
    ]
    least, ridge = _splat(builder, args[4]), _splat(builder, args[5])
    last = _splat(builder, builder.trunc(count, _INT))
    highest = cgutils.alloca_once_value(builder, none)
    with cgutils.for_range_slice(builder, _WORD(0), count, _WORD(LANES)) as (cut, _):
        left = builder.add(arrays.load(0, cut, _WORDS), extra)
        left = builder.bitcast(left, _HALVES)
        # The low halves come first: no machine of ours is big-endian.
        left = [
            builder.shuffle_vector(
                left, unknown, _shuffle(list(range(half, 2 * LANES, 2)))
            )
            for half in (1, 0)
        ]
        valid, score = _score_lanes(builder, left, total, least, ridge)
        own = builder.add(_splat(builder, builder.trunc(cut, _INT)), places)
        valid = builder.and_(valid, builder.icmp_signed("<", own, last))
        score = builder.select(valid, score, none)
        arrays.store(score, 6, cut)
        most = builder.load(highest)
        more = builder.fcmp_ordered(">", score, most)
        builder.store(builder.select(more, score, most), highest)
    most = builder.load(highest)
    best = builder.extract_element(most, _INT(0))
    for lane in range(1, LANES):
        score = builder.extract_element(most, _INT(lane))
        best = builder.select(builder.fcmp_ordered(">", score, best), score, best)
    return best
