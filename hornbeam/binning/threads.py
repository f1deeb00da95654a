"""Runs tasks, such as columns or blocks of rows, in several threads."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from hornbeam.cpu_count import available_threads, processor_count

__all__ = ["in_threads", "mapped_bytes", "thread_count"]


def mapped_bytes(size: int) -> npt.NDArray[np.uint8]:
    """Return memory that goes back to the system as soon as it is freed.

    Memory from malloc can stay with the process and add to its later peak.
    """
    return np.frombuffer(mmap.mmap(-1, max(size, 1)), np.uint8)


def thread_count(n_threads: int, n_tasks: int) -> int:
    """Return the number of threads to use: at most one per processor and per task."""
    if n_threads > 0:
        n_threads = min(n_threads, processor_count())
    else:
        n_threads = available_threads()
    return max(1, min(n_threads, n_tasks))


def in_threads(
    work: Callable[[int], None], tasks: Sequence[int], n_threads: int
) -> None:
    """Call `work` with each task, in up to `n_threads` threads.

    NumPy and the kernels release the GIL.
    """
    n_threads = thread_count(n_threads, len(tasks))
    if n_threads == 1:
        for task in tasks:
            work(task)
        return
    from concurrent.futures import ThreadPoolExecutor  # and all that it imports

    with ThreadPoolExecutor(n_threads) as pool:
        for _ in pool.map(work, tasks):
            pass
