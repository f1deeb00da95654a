"""A sweep over blocks: one thread a folder reads ahead into a ring of buffers.

    blocks   0   1   2   3   4   5 ...        the k-th block of a sweep is read into
    buffers  a   b   c   a   b   c ...        buffer k modulo the size of the ring
             ^ with the consumer
                 ^---^ read ahead             a buffer is read into again as soon as
                                              the consumer asks for the next block

So the block that is waited for always has its buffer, whichever thread is ahead.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Buffer", "ReadAhead", "room"]

Codes = npt.NDArray[Any]


class Buffer:
    """Room for one block, taken from the system when it is first written to.

    Parameters
    ----------
    cells
        Codes of a full block.
    dtype
        Of the codes.
    """

    def __init__(self, cells: int, dtype: npt.DTypeLike) -> None:
        self._by_feature, self._by_row = room(cells, dtype), room(cells, dtype)

    def by_feature(self, n_columns: int, rows: int) -> Codes:
        """Return the place of the columns, (columns, rows)."""
        return self._by_feature[: n_columns * rows].reshape(n_columns, rows)

    def by_row(self, cells: int) -> Codes:
        """Return the place of the row-major copy, (rows * columns,)."""
        return self._by_row[:cells]


def room(cells: int, dtype: npt.DTypeLike) -> Codes:
    """Return whole pages of memory, which go back to the system when freed."""
    size = cells * np.dtype(dtype).itemsize
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # Large pages of memory, as NumPy asks for them: kernels jump about in the rows.
    memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype)


class ReadAhead:
    """The threads of one sweep.

    Parameters
    ----------
    lanes
        For each thread the positions of the sweep that it reads, ascending.
    size
        Buffers in the ring.
    read
        Called in a thread with a position, its place in the ring, and the next
        position of this thread (or None).
    """

    def __init__(
        self,
        lanes: Sequence[Sequence[int]],
        size: int,
        read: Callable[[int, int, int | None], None],
    ) -> None:
        self._size, self._read = size, read
        self._change = threading.Condition()
        self._done: dict[int, BaseException | None] = {}
        self._released = 0
        self._stopped = False
        self._threads = [
            threading.Thread(
                target=self._run, args=(lane,), name="hornbeam-pages", daemon=True
            )
            for lane in lanes
            if lane
        ]

    def start(self) -> None:
        """Begin to read."""
        for thread in self._threads:
            thread.start()

    def _run(self, lane: Sequence[int]) -> None:
        for i, position in enumerate(lane):
            with self._change:
                while position - self._released >= self._size and not self._stopped:
                    self._change.wait()
                if self._stopped:
                    return
            failure: BaseException | None = None
            try:
                after = lane[i + 1] if i + 1 < len(lane) else None
                self._read(position, position % self._size, after)
            except BaseException as error:
                failure = error  # raised in the thread that waits for the block
            with self._change:
                self._done[position] = failure
                self._change.notify_all()

    def wait(self, position: int) -> None:
        """Return when a block is read; raise what went wrong with it."""
        with self._change:
            while position not in self._done:
                self._change.wait()
            failure = self._done.pop(position)
        if failure is not None:
            raise failure

    def release(self) -> None:
        """Give the oldest buffer back."""
        with self._change:
            self._released += 1
            self._change.notify_all()

    def stop(self) -> None:
        """End the threads, and return when they are gone."""
        with self._change:
            self._stopped = True
            self._change.notify_all()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
