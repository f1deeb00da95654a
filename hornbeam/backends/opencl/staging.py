"""Pinned memory of the host, through which arrays are copied to a device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.opencl.devices import opencl

__all__ = ["StagingBuffers"]

#: Bytes of each buffer: the link takes ten times as long for them as starting a copy,
#: and they stay in the cache of the host.
_STAGE_BYTES = 4 << 20


class StagingBuffers:
    """Two buffers in pinned memory, filled in turn: a device copies from the other one.

    A device copies from pinned memory by itself. Arrays in ordinary memory the driver
    would have to copy first, and the caller might have to wait for that.

    Parameters
    ----------
    queue
        Of pyopencl, on which the memory is mapped.
    """

    def __init__(self, queue: Any) -> None:
        self._cl = cl = opencl()
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.ALLOC_HOST_PTR
        self._stages = []
        for _ in range(2):
            pinned = cl.Buffer(queue.context, flags, _STAGE_BYTES)
            access = cl.map_flags.WRITE, 0, (_STAGE_BYTES,), np.uint8
            self._stages.append(cl.enqueue_map_buffer(queue, pinned, *access)[0])
        #: The last copy from each; None: it has not been filled.
        self._copies: list[Any] = [None, None]

    def copy(
        self,
        queue: Any,
        buffer: Any,
        begin: int,
        array: NDArray[Any],
        before: list[Any] | None = None,
    ) -> Any:
        """Start to copy an array to the bytes of the buffer from `begin` on.

        The array is contiguous and not empty, and may change as soon as this returns.

        Parameters
        ----------
        queue
            Of pyopencl, that copies.
        before
            Events that the copies wait for; None: none.

        Returns
        -------
        The event of the last copy.
        """
        flat = array.reshape(-1).view(np.uint8)
        for first in range(0, flat.size, _STAGE_BYTES):
            self._stages.reverse()
            self._copies.reverse()
            if self._copies[0] is not None:
                self._copies[0].wait()
            piece = flat[first : first + _STAGE_BYTES]
            staged = self._stages[0][: piece.size]
            staged[:] = piece
            self._copies[0] = self._cl.enqueue_copy(
                queue,
                buffer,
                staged,
                dst_offset=begin + first,
                is_blocking=False,
                wait_for=before,
            )
            queue.flush()
        return self._copies[0]
