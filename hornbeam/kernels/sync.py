"""Synchronisation of the threads inside a kernel: task counters, barrier, prefetch.

The operations of processors are plain Python here, where a team has one thread; in
compiled kernels they are LLVM instructions, see `intrinsics`.
"""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import COMPILED, kernel

__all__ = [
    "BINS_PER_THREAD",
    "STOP_WORD",
    "SYNC_SIZE",
    "ask_to_stop",
    "atomic_add",
    "atomic_load",
    "barrier",
    "is_stopped",
    "next_task",
    "next_task_of_side",
    "pause_processor",
    "prefetch",
    "restart_tasks",
    "sharers_for",
    "threads_for",
    "yield_processor",
]

# Each shared word has its own cache line, eight int64 apart.
_ARRIVED = 0
_GENERATION = 8
#: The word that is not 0 when threads are to leave the kernel.
STOP_WORD = 16
_FIRST_COUNTER = 24
#: int64 words of a team's shared array, with three task counters.
SYNC_SIZE = 48

#: About 80 microseconds.
_SPINS_BEFORE_YIELD = 1500

# A counter of tasks that are taken from both ends: those from the front in the low
# half, those from the back in the high one.
_LOW_HALF, _ONE_FROM_BACK = 0xFFFFFFFF, 1 << 32

#: The least work for one more thread, in histogram bins of about half a nanosecond:
#: waking a thread takes 30 to 90 microseconds.
BINS_PER_THREAD = 1 << 18
#: The same for one more thread that waits at a barrier, which takes a microsecond.
_BINS_PER_WAITING_THREAD = 1 << 14


def atomic_add(array: np.ndarray, index: int, value: int) -> int:
    """Add `value` to the int64 `array[index]` atomically; return the old value."""
    before = array[index]
    array[index] += value
    return int(before)


def atomic_load(array: np.ndarray, index: int) -> int:
    """Return the int64 `array[index]`, and see all that was written before it.

    Threads that wait read it so: each of them has a copy of the cache line until it
    changes, which `atomic_add` would take from the others at each look.
    """
    return int(array[index])


def prefetch(array: np.ndarray, index: int) -> None:
    """Prefetch the cache line of `array[index]` (one dimension, uint64 index).

    It is loaded into the second-level cache.
    """


def pause_processor() -> None:
    """Tell the processor that this is a loop that waits; it takes 20 to 50 ns."""


def yield_processor() -> None:
    """Yield the processor to another thread."""


@kernel
def threads_for(team_size: int, cells: int) -> int:
    """Return the number of threads for work of `cells` histogram bins."""
    if not COMPILED:
        return 1
    return max(1, min(team_size, cells // BINS_PER_THREAD))


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
def next_task_of_side(sync: np.ndarray, phase: int, thread_id: int, count: int) -> int:
    """Return the index of the next of `count` tasks, or `count` if none is left.

    Threads of even ids take tasks from the front and those of odd ids from the back.
    The tasks of the phases of a tree are in the order of the rows of their nodes, so
    that a thread continues with rows and histograms that are in its caches.
    """
    side = thread_id & 1
    taken = atomic_add(
        sync, _FIRST_COUNTER + 8 * phase, _ONE_FROM_BACK if side == 1 else 1
    )
    front, back = taken & _LOW_HALF, taken >> 32
    if front + back >= count:
        return count
    return count - 1 - back if side == 1 else front


@kernel
def barrier(sync: np.ndarray, n_threads: int) -> None:
    """Wait until all threads of the team have arrived, or the team is stopped."""
    if n_threads == 1:
        return
    generation = atomic_load(sync, _GENERATION)
    if atomic_add(sync, _ARRIVED, 1) == n_threads - 1:
        atomic_add(sync, _ARRIVED, -n_threads)
        atomic_add(sync, _GENERATION, 1)
        return
    spins = 0
    while atomic_load(sync, _GENERATION) == generation:
        pause_processor()
        spins += 1
        if spins > _SPINS_BEFORE_YIELD:
            if atomic_load(sync, STOP_WORD) != 0:
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
    return atomic_load(sync, STOP_WORD) != 0


def ask_to_stop(sync: np.ndarray) -> None:
    """Release threads that wait at a barrier, because the others will not arrive."""
    sync[STOP_WORD] = 1
