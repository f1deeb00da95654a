"""Bins of rows in memory, copied to a device in pieces while it works."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.opencl.histograms import pack_rows, words_of_row
from hornbeam.backends.opencl.queue import DeviceQueue

__all__ = ["BinUpload"]

#: The least bytes of a piece, if there are several: starting a copy costs about as much
#: as copying a hundredth of it.
_PIECE_BYTES = 16 << 20


class BinUpload:
    """Bins that are on their way to a device: by feature, and packed by row there.

    The copies start at once, in a queue of their own, so that kernels compute gradients
    meanwhile. A piece has the columns of whole words of a row, so that histograms of
    its columns are built while the next pieces are copied.

    Parameters
    ----------
    queue
        Of the device.
    bins
        (columns, rows) uint8 or uint16, which must not change.

    Attributes
    ----------
    by_feature
        The buffer of (columns, rows) bins.
    by_row
        The buffer of the rows; see `pack_rows`.
    """

    def __init__(self, queue: DeviceQueue, bins: NDArray[Any]) -> None:
        self._queue, (columns, rows) = queue, bins.shape
        of_word = 4 // bins.itemsize
        self._shape = rows, columns
        self._words = words_of_row(columns, bins.dtype)
        self.by_feature = queue.empty(bins.nbytes)
        self.by_row = queue.empty(4 * self._words * rows)
        #: The words of each piece, and the events of its copies.
        self._pieces: deque[tuple[range, list[Any]]] = deque()
        most = max(1, _PIECE_BYTES // (4 * max(rows, 1)))
        for first in range(0, self._words, most):
            words = range(first, min(first + most, self._words))
            own = range(first * of_word, min(words.stop * of_word, columns))
            events = queue.upload(self.by_feature, _arrays(bins, own))
            self._pieces.append((words, events))

    @property
    def has_arrived(self) -> bool:
        """Whether `arrive` has yielded all pieces."""
        return not self._pieces

    def arrive(self) -> Iterator[range]:
        """Yield the words of each piece that no one has asked for, in their order.

        Work that is started when they are yielded waits for the piece.
        """
        while self._pieces:
            words, events = self._pieces.popleft()
            self._queue.work_after(events)
            steps, own = (self._shape[0], 1), (*self._shape, words, self._words)
            pack_rows(self._queue, self.by_feature, steps, *own, self.by_row)
            yield words


def _arrays(bins: NDArray[Any], columns: range) -> list[tuple[int, NDArray[Any]]]:
    """Return contiguous arrays of these columns, each with its first byte among all."""
    step = bins.shape[1] * bins.itemsize
    own = bins[columns.start : columns.stop]
    if own.flags.c_contiguous:
        return [(columns.start * step, own)]
    return [(c * step, np.ascontiguousarray(bins[c])) for c in columns]
