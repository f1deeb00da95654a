"""Blocks of bins on their way from the memory of the host through one device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.opencl.histograms import (
    DeviceHistograms,
    pack_rows,
    words_of_row,
)
from hornbeam.backends.opencl.partition import SCRATCH_BYTES, PartitionScratch
from hornbeam.backends.opencl.queue import Buffer, DeviceQueue, UploadBuffers
from hornbeam.backends.opencl.split_search import DeviceSplitSearch
from hornbeam.binning.layout import HistogramLayout

__all__ = ["BlockStream", "stream_bytes"]

#: Bytes of a row of a block whose gradients are on the host: its leaf, and for each
#: column two buffers for quantised gradients of up to 16 bytes, and two for others.
_LEAF_BYTES, _COLUMN_BYTES = 4, 2 * (16 + 16)


def stream_bytes(
    rows: int, columns: int, kind: np.dtype[Any], gradient_columns: int
) -> tuple[int, int]:
    """Return the bytes of a stream of blocks, and of its largest buffer.

    The largest block has `rows`, of `columns` bins of this `kind`. `gradient_columns`
    is the number of columns of gradients that are on the host.
    """
    of_row = columns * kind.itemsize
    packed = 4 * words_of_row(columns, kind) * (of_row % 4 != 0)
    scratch = packed + SCRATCH_BYTES
    if gradient_columns > 0:
        scratch += _LEAF_BYTES + _COLUMN_BYTES * gradient_columns
    return (4 * of_row + scratch) * rows, max(of_row, 16) * rows


class BlockStream:
    """What the blocks of a device have in common: a pass has one of them at a time.

    Bins, and gradients that are on the host, are copied to one of two buffers while
    kernels read the other.

    Parameters
    ----------
    queue
        Of the device.
    layout, kind
        Of the histograms, and the type of bins.
    rows
        The most rows of a block.

    Attributes
    ----------
    queue
        As given.
    histograms, split_search
        That the blocks are added to, and the search of splits there.
    scratch
        For the partitions of the blocks.
    """

    def __init__(
        self,
        queue: DeviceQueue,
        layout: HistogramLayout,
        kind: np.dtype[np.integer],
        rows: int,
    ) -> None:
        self.queue, self._rows = queue, rows
        self._columns, self._kind = layout.n_columns, kind
        of_row = self._columns * kind.itemsize
        self._by_feature = UploadBuffers(queue, of_row * rows)
        self._by_row = UploadBuffers(queue, of_row * rows)
        #: The words of a row, if its bins are not whole words already.
        self._words = words_of_row(self._columns, kind) if of_row % 4 != 0 else 0
        self._packed = queue.empty(4 * self._words * rows)
        self._others: dict[Any, UploadBuffers] = {}
        self.histograms = DeviceHistograms(queue, layout, kind)
        self.split_search = DeviceSplitSearch(queue, self.histograms, layout)
        self.scratch = PartitionScratch(queue, rows)

    @cached_property
    def leaf_of(self) -> Buffer:
        """(rows,) uint32: for the leaves of a block whose gradients are on the host."""
        return self.queue.empty(_LEAF_BYTES * self._rows)

    def send_columns(self, by_feature: NDArray[Any], wanted: Sequence[int]) -> Buffer:
        """Start to copy these columns of bins; return the buffer of all columns."""
        step = by_feature.shape[1] * self._kind.itemsize
        return self._by_feature.fill(*((step * own, by_feature[own]) for own in wanted))

    def send_rows(self, by_row: NDArray[Any]) -> Buffer:
        """Start to copy bins row by row; return a buffer with each row in words."""
        buffer = self._by_row.fill((0, by_row))
        if self._words == 0:
            return buffer
        shape = by_row.size // self._columns, self._columns
        words = range(self._words), self._words
        pack_rows(self.queue, buffer, (1, self._columns), *shape, *words, self._packed)
        return self._packed

    def send(self, name: Any, row_bytes: int, array: NDArray[Any]) -> Buffer:
        """Start to copy an array of at most `row_bytes` a row; return its buffer.

        Arrays of different names are in different buffers.
        """
        if name not in self._others:
            self._others[name] = UploadBuffers(self.queue, row_bytes * self._rows)
        return self._others[name].fill((0, array))

    def release(self) -> None:
        """Let the device begin, and wait until the arrays that were sent may change."""
        self.queue.flush()
        for own in (self._by_feature, self._by_row, *self._others.values()):
            own.release()
