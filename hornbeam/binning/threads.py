"""Threads that share out columns or blocks of rows, and memory for them."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from hornbeam.cpu_count import available_threads, processor_count

__all__ = ["in_threads", "mapped_bytes", "thread_count"]


def mapped_bytes(size: int) -> npt.NDArray[np.uint8]:
    """Return memory that the system gets back as soon as it is let go.

    What has come from malloc stays with the process and adds to its later peak.
    """
    return np.frombuffer(mmap.mmap(-1, max(size, 1)), np.uint8)


def thread_count(n_threads: int, n_tasks: int) -> int:
    """Return how many threads to use: no more than processors, or than tasks."""
    if n_threads > 0:
        n_threads = min(n_threads, processor_count())
    else:
        n_threads = available_threads()
    return max(1, min(n_threads, n_tasks))


def in_threads(
    work: Callable[[int], None], tasks: Sequence[int], n_threads: int
) -> None:
    """Do all tasks, each alone, with numpy and kernels releasing the GIL."""
    n_threads = thread_count(n_threads, len(tasks))
    if n_threads == 1:
        for task in tasks:
            work(task)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        for _ in pool.map(work, tasks):
            pass
