"""Margins of rows on a device, which trees are added to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.opencl.devices import find_device
from hornbeam.backends.opencl.queue import (
    TILE_ROWS,
    Buffer,
    DeviceQueue,
    UploadBuffers,
)

__all__ = ["MarginSums"]

#: The values of rows stay on the device if they take at most one part in this many of
#: its memory.
_KEPT_DIVISOR = 4


class _Block(NamedTuple):
    """The values of consecutive rows on the device."""

    first: int
    rows: int
    values: Buffer


class MarginSums:
    """The margins of rows on a device, and sums of the leaf values of trees.

    Values of rows, (rows, columns) float32 or float64 with NaN for missing ones, come
    in consecutive blocks. They are copied to one of two buffers while the rows of the
    other descend the trees, or are kept on the device for trees to come.

    Parameters
    ----------
    name
        A parameter `device`; of several devices the first one is used.
    margins
        (rows, outputs) float32 or float64. Sums of float32 are rounded to float32.

    Raises
    ------
    MissingExtraError
        If pyopencl is not installed.
    DeviceError
        If the device is not there, and from all methods, if it fails.
    """

    def __init__(self, name: str, margins: NDArray[Any]) -> None:
        self._device = find_device(name.partition("+")[0])
        self._queue = DeviceQueue(self._device)
        self._shape, self._dtype = margins.shape, margins.dtype
        doubles = np.ascontiguousarray(margins, np.float64)
        self._margins = self._queue.buffer_of(doubles)
        self._uploads: UploadBuffers | None = None
        self._kept: list[_Block] = []

    def may_keep(self, n_bytes: int) -> bool:
        """Return whether values of this size may stay on the device."""
        return n_bytes <= self._device.memory // _KEPT_DIVISOR

    def keep(self, blocks: Iterable[tuple[int, NDArray[Any]]]) -> None:
        """Copy the values of all rows, in place of those that are there.

        Each block is its first row and its values.
        """
        self._kept = [
            _Block(first, len(values), self._queue.buffer_of(values))
            for first, values in blocks
        ]

    def add(
        self,
        trees: tuple[NDArray[Any], ...],
        blocks: Iterable[tuple[int, NDArray[Any]]] | None,
        columns: int,
    ) -> None:
        """Add the leaf values of trees to the margins, in their order.

        Parameters
        ----------
        trees
            The `arrays` of a layout (see `hornbeam.forest.layout`).
        blocks
            As for `keep`; None: the values that were kept.
        columns
            Of the values.
        """
        roots, nodes, thresholds, spans, rights, leaves = trees
        copy_of, size = self._queue.copy_of, self._device.options.group_size
        tile = size if size > 1 else TILE_ROWS
        arrays = (
            copy_of(roots),
            np.uint32(len(roots)),
            *map(copy_of, (nodes, thresholds, spans, rights)),
            copy_of(leaves),
            np.uint32(1 if leaves.ndim == 1 else leaves.shape[1]),
            np.uint32(self._shape[1]),
            np.uint32(self._dtype == np.float32),
        )
        for first, rows, values in self._kept if blocks is None else self._sent(blocks):
            self._queue.run(
                "add_trees",
                -(-rows // tile),
                values,
                *map(np.uint32, (columns, rows, tile)),
                *arrays,
                np.uint64(first),
                self._margins,
                reals=thresholds.dtype,
            )

    def _sent(self, blocks: Iterable[tuple[int, NDArray[Any]]]) -> Iterable[_Block]:
        """Yield blocks as their values are copied; none is larger than the first."""
        for first, values in blocks:
            if self._uploads is None:
                self._uploads = UploadBuffers(self._queue, values.nbytes)
            yield _Block(first, len(values), self._uploads.fill((0, values)))

    def margins(self) -> NDArray[Any]:
        """Return a copy of the margins, (rows, outputs), in the type they came in."""
        margins = np.empty(self._shape)
        return self._queue.read(self._margins, margins).astype(self._dtype, copy=False)

    def set_margins(self, margins: NDArray[Any]) -> None:
        """Set these margins, (rows, outputs)."""
        doubles = np.ascontiguousarray(margins, np.float64)
        self._queue.write(self._margins, doubles)
