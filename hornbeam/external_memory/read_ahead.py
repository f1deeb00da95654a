"""One thread per folder reads blocks ahead into a ring of buffers.

    blocks   0   1   2   3   4   5 ...        block k of a pass is read into buffer
    buffers  a   b   c   a   b   c ...        k modulo the size of the ring
             ^ with the consumer
                 ^---^ read ahead             a buffer is reused as soon as the
                                              consumer takes the next block

So the block that the consumer waits for always has its buffer, whichever thread is
ahead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.system import map_memory

__all__ = ["Buffer", "ReadAhead", "map_pages"]

Bins = npt.NDArray[Any]


class Buffer:
    """Memory for one block. The system allocates it when it is first written to.

    Parameters
    ----------
    n_bins
        Number of bins (rows * columns) of a full block.
    dtype
        The dtype of the bins.
    """

    def __init__(self, n_bins: int, dtype: npt.DTypeLike) -> None:
        self._by_feature = map_pages(n_bins, dtype)
        self._by_row = map_pages(n_bins, dtype)

    def by_feature(self, n_columns: int, rows: int) -> Bins:
        """Return the array of the columns, (columns, rows)."""
        return self._by_feature[: n_columns * rows].reshape(n_columns, rows)

    def by_row(self, n_bins: int) -> Bins:
        """Return the array of the row-major copy, (rows * columns,)."""
        return self._by_row[:n_bins]


def map_pages(n_bins: int, dtype: npt.DTypeLike) -> Bins:
    """Return an array in separate memory pages, which are unmapped when it is freed."""
    size = n_bins * np.dtype(dtype).itemsize
    # Huge pages, as NumPy does: kernels access rows in random order.
    return np.frombuffer(map_memory(size), dtype)


class ReadAhead:
    """The reading threads of one pass.

    Parameters
    ----------
    positions
        For each thread, the positions in the pass that it reads, ascending.
    size
        Number of buffers of the ring.
    read
        Called in a thread with a position, the index of its buffer, and the next
        position of this thread (or None).
    """

    def __init__(
        self,
        positions: Sequence[Sequence[int]],
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
                target=self._run, args=(own,), name="hornbeam-pages", daemon=True
            )
            for own in positions
            if own
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def _run(self, positions: Sequence[int]) -> None:
        for i, position in enumerate(positions):
            with self._change:
                while position - self._released >= self._size and not self._stopped:
                    self._change.wait()
                if self._stopped:
                    return
            failure: BaseException | None = None
            try:
                after = positions[i + 1] if i + 1 < len(positions) else None
                self._read(position, position % self._size, after)
            except BaseException as error:
                failure = error  # raised in the thread that waits for the block
            with self._change:
                self._done[position] = failure
                self._change.notify_all()

    def wait(self, position: int) -> None:
        """Wait until a block is read; raise the error of reading it."""
        with self._change:
            while position not in self._done:
                self._change.wait()
            failure = self._done.pop(position)
        if failure is not None:
            raise failure

    def release(self) -> None:
        """Let the oldest buffer be reused."""
        with self._change:
            self._released += 1
            self._change.notify_all()

    def stop(self) -> None:
        """Stop the threads and wait until they have ended."""
        with self._change:
            self._stopped = True
            self._change.notify_all()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
