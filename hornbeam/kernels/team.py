"""A team of threads that run one kernel together.

A job is one kernel that each thread calls with its own id. Inside it the threads take
tasks from a shared counter and synchronise at a barrier (see `sync`), so that a whole
level of a tree costs one dispatch. Kernels release the GIL. The caller is thread 0, and
runs small jobs alone.

Threads of Python need its lock to begin and to end, one after the other, so that a job
of 16 takes half a millisecond more. Kernels of a wheel's binary run in threads of the
binary, which need no lock.

A team runs one job at a time. Each caller leases a team, so that any number of Python
threads may train and predict at once.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hornbeam.cpu_count import available_threads
from hornbeam.kernels.jit import COMPILED, NATIVE
from hornbeam.kernels.sync import BINS_PER_THREAD, SYNC_SIZE, ask_to_stop

__all__ = ["ALONE", "Call", "Team", "give_back_team", "lease", "take_team"]

#: A kernel, the number of threads and the arguments that follow those of the team.
Call: TypeAlias = tuple[Any, ...]

#: Seconds between two checks for finished threads after an interrupt.
_PATIENCE = 0.02
#: Nanoseconds for which threads of the binary look for the next job before they sleep:
#: longer than the Python between two kernels of a round, and about what it takes to
#: wake them. Where other processes want the cores, looking longer costs more.
_SPIN = 50_000
#: The least work for one more thread of a team, in histogram bins of about half a
#: nanosecond.
_CELLS = BINS_PER_THREAD if NATIVE is None else 1 << 16


class Team:
    """Up to `size` threads that run one kernel at a time.

    Parameters
    ----------
    size
        Threads, the caller included; 0 or less means all available ones.
    """

    def __init__(self, size: int) -> None:
        self.size = size if size > 0 else available_threads()
        self._sync = np.zeros(SYNC_SIZE, np.int64)
        self._threads = None if NATIVE is None else NATIVE.threads(_spin(self.size))
        self._jobs: list[SimpleQueue[_Job | None]] = []
        self._process = os.getpid()
        # The threads end when the team is garbage-collected.
        weakref.finalize(self, _dismiss, self._jobs).atexit = False

    def threads_for(self, cells: int) -> int:
        """Return the number of threads for work of `cells` histogram bins."""
        return max(1, min(self.size, cells // _CELLS)) if COMPILED else 1

    def run(self, kernel: Callable[..., Any], n_threads: int, *args: Any) -> None:
        """Call ``kernel(thread_id, n_threads, sync, *args)`` in each thread."""
        sync = self._sync
        sync.fill(0)
        if n_threads == 1:
            kernel(0, 1, sync, *args)
            return
        # A kernel of the binary is a method of what has its machine code.
        share = getattr(getattr(kernel, "__self__", None), "share", None)
        if share is not None and share(self._threads, 0, n_threads, sync, *args):
            return
        done: SimpleQueue[None] = SimpleQueue()
        results: list[BaseException | None] = []
        posted = 0
        try:
            for thread_id, jobs in enumerate(self._wake(n_threads - 1), 1):
                jobs.put((kernel, thread_id, n_threads, sync, args, results, done))
                posted += 1
            kernel(0, n_threads, sync, *args)
            while len(results) < posted:
                done.get()
        except BaseException:
            # An interrupt may come before all threads have started: the running ones
            # must not wait for the rest, nor share a barrier with the next job.
            ask_to_stop(sync)
            self._sync = np.zeros(SYNC_SIZE, np.int64)
            while len(results) < posted:  # a get may also have been interrupted
                with suppress(Empty):
                    done.get(timeout=_PATIENCE)
            raise
        for error in results:
            if error is not None:
                raise error

    def repeat(
        self, calls: Sequence[Call], times: int, ended: NDArray[np.int64]
    ) -> int:
        """Make these calls one after the other, again and again, in one job.

        They end after `times` times, or after the call that sets ``ended[0]``. Returns
        how often all of them have been made.
        """
        kernels = [getattr(kernel, "__self__", None) for kernel, *_ in calls]
        if NATIVE is not None and all(hasattr(own, "share") for own in kernels):
            self._sync.fill(0)
            sync = self._sync
            given = [
                (own, (0, threads, sync, *arguments))
                for own, (_, threads, *arguments) in zip(kernels, calls, strict=True)
            ]
            done: int | None = NATIVE.repeat(self._threads, times, ended, given)
            if done is not None:
                return done
        for number in range(times):
            for call in calls:
                self.run(*call)
                if ended[0]:
                    return number
        return times

    def _wake(self, count: int) -> list[SimpleQueue[_Job | None]]:
        """Return the job queues of `count` threads, which a fork does not keep."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._jobs.clear()
        while len(self._jobs) < count:
            jobs: SimpleQueue[_Job | None] = SimpleQueue()
            name = f"hornbeam_{len(self._jobs)}"
            threading.Thread(target=_work, args=(jobs,), name=name, daemon=True).start()
            self._jobs.append(jobs)
        return self._jobs[:count]


#: Kernel, thread id, threads, shared words, arguments, results, and done queue.
_Job = tuple[
    Callable[..., Any],
    int,
    int,
    np.ndarray,
    tuple[Any, ...],
    list[BaseException | None],
    "SimpleQueue[None]",
]


def _work(jobs: SimpleQueue[_Job | None]) -> None:
    """Run jobs as one thread, until None."""
    while (job := jobs.get()) is not None:
        kernel, thread_id, n_threads, sync, args, results, done = job
        error: BaseException | None = None
        try:
            kernel(thread_id, n_threads, sync, *args)
        except BaseException as raised:
            ask_to_stop(sync)  # the others may wait for this thread at a barrier
            error = raised
        results.append(error)
        done.put(None)
        del (
            job,
            kernel,
            args,
            results,
            done,
            error,
        )  # keep no arrays alive while waiting


def _spin(size: int) -> int:
    """Return for how long `size` threads look for a job, in nanoseconds.

    Not where they would take the cores from each other, or where the user has told
    threads of OpenMP not to.
    """
    is_passive = os.environ.get("OMP_WAIT_POLICY", "").lower() == "passive"
    return 0 if is_passive or size > available_threads() else _SPIN


def _dismiss(all_jobs: list[SimpleQueue[_Job | None]]) -> None:
    for jobs in all_jobs:
        jobs.put(None)


class _Alone(Team):
    """The calling thread alone: needs no lease, and any number may use it at once."""

    def __init__(self) -> None:
        super().__init__(1)

    def threads_for(self, cells: int) -> int:
        return 1

    def run(self, kernel: Callable[..., Any], n_threads: int, *args: Any) -> None:
        kernel(0, 1, np.zeros(SYNC_SIZE, np.int64), *args)


ALONE = _Alone()

_idle: dict[int, list[Team]] = {}
#: Reentrant: the garbage collector may return a team while its thread takes another.
_lock = threading.RLock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def take_team(size: int) -> Team:
    """Return an idle team of `size` threads (0 or less: all) for exclusive use.

    Return it with `give_back_team`, or drop it: its threads then end.
    """
    size = size if size > 0 else available_threads()
    with _lock:
        teams = _idle.setdefault(size, [])
        return teams.pop() if teams else Team(size)


def give_back_team(team: Team) -> None:
    """Return a team to the idle ones."""
    with _lock:
        _idle.setdefault(team.size, []).append(team)


class lease:  # noqa: N801, a context manager named as a verb
    """Lease a team of `size` threads (0 or less: all) for exclusive use.

    For work of so few `cells` (histogram bins) that threads do not pay, it is the
    calling thread alone. A class, because a generator takes a microsecond longer, which
    counts for single rows.
    """

    __slots__ = ("_is_shared", "_size", "_team")

    def __init__(self, size: int, cells: int | None = None) -> None:
        self._size = size
        self._is_shared = cells is None or (COMPILED and cells >= 2 * _CELLS)

    def __enter__(self) -> Team:
        self._team = take_team(self._size) if self._is_shared else ALONE
        return self._team

    def __exit__(self, *_: object) -> None:
        if self._is_shared:
            give_back_team(self._team)
