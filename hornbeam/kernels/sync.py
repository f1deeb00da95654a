"""Synchronisation of the threads inside a kernel: task counters, barrier, prefetch.

The operations of processors are plain Python here, where a team has one thread; in
compiled kernels they are LLVM instructions, see `intrinsics`.
"""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import COMPILED, kernel

__all__ = [
    "SYNC_SIZE",
    "ask_to_stop",
    "atomic_add",
    "barrier",
    "is_stopped",
    "next_task",
    "prefetch",
    "restart_tasks",
    "sharers_for",
    "threads_for",
    "yield_processor",
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
#: The same for one more thread that waits at a barrier, which takes a microsecond.
_BINS_PER_WAITING_THREAD = 1 << 14


def atomic_add(array: np.ndarray, index: int, value: int) -> int:
    """Add `value` to the int64 `array[index]` atomically; return the old value."""
    before = array[index]
    array[index] += value
    return int(before)


def prefetch(array: np.ndarray, index: int) -> None:
    """Prefetch the cache line of `array[index]` (one dimension, uint64 index).

    It is loaded into the second-level cache.
    """


def yield_processor() -> None:
    """Yield the processor to another thread."""


@kernel
def threads_for(team_size: int, cells: int) -> int:
    """Return the number of threads for work of `cells` histogram bins."""
    if not COMPILED:
        return 1
    return max(1, min(team_size, cells // _BINS_PER_THREAD))


@kernel
def sharers_for(n_threads: int, cells: int, waiting: bool) -> int:
    """Return how many of `n_threads` share work of `cells` histogram bins.

    They are woken for it, or `waiting` inside the same kernel.
    """
    if waiting:
        return max(1, min(n_threads, cells // _BINS_PER_WAITING_THREAD))
    return threads_for(n_threads, cells)


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
