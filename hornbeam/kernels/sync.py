"""Synchronisation of the threads inside a kernel: task counters, barrier, prefetch.

Each wraps LLVM instructions so that kernels which call it remain valid plain Python,
where a team has one thread.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from hornbeam.kernels.jit import COMPILED, inline, kernel

__all__ = [
    "SYNC_SIZE",
    "ask_to_stop",
    "atomic_add",
    "barrier",
    "is_stopped",
    "next_task",
    "prefetch",
    "restart_tasks",
    "threads_for",
]

# Each shared word has its own cache line, eight int64 apart.
_ARRIVED = 0
_GENERATION = 8
_STOP = 16
_FIRST_COUNTER = 24
#: int64 words of a team's shared array, with three task counters.
SYNC_SIZE = 48

_SPINS_BEFORE_YIELD = 4000

#: The least work for one more thread, in histogram bins of about half a nanosecond:
#: waking a thread takes 30 to 90 microseconds.
_BINS_PER_THREAD = 1 << 18


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


def atomic_add(array: np.ndarray, index: int, value: int) -> int:
    """Add `value` to the int64 `array[index]` atomically; return the old value."""
    before = array[index]
    array[index] += value
    return int(before)


@overload(atomic_add)
def _overload_atomic_add(array, index, value):  # type: ignore[no-untyped-def]
    return lambda array, index, value: _atomic_add(array, index, value)


def prefetch(array: np.ndarray, index: int) -> None:
    """Prefetch the cache line of `array[index]` (one dimension, uint64 index).

    It is loaded into the second-level cache.
    """


@overload(prefetch)
def _overload_prefetch(array, index):  # type: ignore[no-untyped-def]
    return lambda array, index: _prefetch(array, index)


def yield_processor() -> None:
    """Yield the processor to another thread."""


@overload(yield_processor)
def _overload_yield_processor():  # type: ignore[no-untyped-def]
    return lambda: _yield_processor()


@inline
def threads_for(team_size: int, cells: int) -> int:
    """Return the number of threads for work of `cells` histogram bins."""
    if not COMPILED:
        return 1
    return max(1, min(team_size, cells // _BINS_PER_THREAD))


@kernel
def next_task(sync: np.ndarray, phase: int) -> int:
    """Return the index of the next task of this phase, from 0."""
    return atomic_add(sync, _FIRST_COUNTER + 8 * phase, 1)


@kernel
def barrier(sync: np.ndarray, n_threads: int) -> None:
    """Wait until all threads of the team have arrived, or the team is stopped."""
    if n_threads == 1:
        return
    generation = atomic_add(sync, _GENERATION, 0)
    if atomic_add(sync, _ARRIVED, 1) == n_threads - 1:
        atomic_add(sync, _ARRIVED, -n_threads)
        atomic_add(sync, _GENERATION, 1)
        return
    spins = 0
    while atomic_add(sync, _GENERATION, 0) == generation:
        spins += 1
        if spins > _SPINS_BEFORE_YIELD:
            if atomic_add(sync, _STOP, 0) != 0:
                return
            yield_processor()


@kernel
def restart_tasks(sync: np.ndarray) -> None:
    """Let the counters of tasks begin at 0 again; no thread may take tasks now."""
    for counter in range(_FIRST_COUNTER, sync.size, 8):
        sync[counter] = 0


@kernel
def is_stopped(sync: np.ndarray) -> bool:
    """Return whether the team was asked to stop."""
    return atomic_add(sync, _STOP, 0) != 0


def ask_to_stop(sync: np.ndarray) -> None:
    """Release threads that wait at a barrier, because the others will not arrive."""
    sync[_STOP] = 1
