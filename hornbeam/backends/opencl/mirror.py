"""Arrays that are on the host and on the device, copied to the side that reads them."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from hornbeam.backends.opencl.queue import Buffer, DeviceQueue

__all__ = ["Mirror"]


class Mirror:
    """An array of which either side may have the latest values, or both.

    Parameters
    ----------
    queue
        Of the device.
    host
        (arrays, rows): the array on the host, which has the latest values. There is a
        buffer for each of its rows.
    buffers
        The buffers, which others may write after `start_reading`; None: its own, which
        are allocated on first use.
    """

    def __init__(
        self,
        queue: DeviceQueue,
        host: NDArray[Any],
        buffers: list[Buffer] | None = None,
    ) -> None:
        self._queue, self._host, self._own = queue, host, buffers
        self._is_on_host, self._is_on_device = True, False

    @property
    def _buffers(self) -> list[Buffer]:
        if self._own is None:
            self._own = [self._queue.empty(own.nbytes) for own in self._host]
        return self._own

    def on_host(self) -> NDArray[Any]:
        """Return the array with the latest values."""
        if not self._is_on_host:
            for own, buffer in zip(self._host, self._buffers, strict=True):
                self._queue.read(buffer, own)
            self._is_on_host = True
        return self._host

    def on_device(self) -> list[Buffer]:
        """Return the buffers with the latest values."""
        if not self._is_on_device:
            for own, buffer in zip(self._host, self._buffers, strict=True):
                self._queue.write(buffer, own)
            self._is_on_device = True
        return self._buffers

    def written_on_host(self) -> None:
        """Note that the host has changed the array."""
        self._is_on_host, self._is_on_device = True, False

    def to_write(self) -> list[Buffer]:
        """Return the buffers, of which a kernel is about to write every value."""
        self._is_on_host, self._is_on_device = False, True
        return self._buffers

    def start_reading(self) -> None:
        """Copy the array to the host before the next read of the queue returns.

        The buffers may be written by others from then on.
        """
        for own, buffer in zip(self._host, self._buffers, strict=True):
            self._queue.start_reading(buffer, own)
        self._is_on_host, self._is_on_device = True, False
