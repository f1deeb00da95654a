"""Channels: connections of Dask to an actor that bypass the event loops.

A message over Dask's event loops takes several milliseconds of both processes for an
answer of a megabyte: it is serialised, sliced, queued and woken for in four threads. A
channel is a connection that Dask has opened, and that is then used by two threads
alone: one of the client sends a call, one of the worker waits for it and answers. The
arrays of an answer are sent from where they are, and received into new ones.
"""

from __future__ import annotations

import pickle
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from distributed.comm.tcp import TCP
from distributed.protocol.pickle import dumps, loads

__all__ = ["STALL", "Channel", "Frames", "can_detach", "detach", "pack", "serve"]

#: What is sent: the sizes of the parts, a pickle, and the memory of its arrays.
Frames = list[Any]

#: Seconds without progress after which a caller checks that the other side is alive.
STALL = 0.25

#: Sizes of the whole message after the prefix, and of the pickle; number of arrays.
_PREFIX = struct.Struct("<QQQ")
_ALIGNMENT = 64
#: Messages below this size are sent at once.
_SMALL = 1 << 16


def pack(value: Any) -> Frames:
    """Return a value as frames: a pickle, and the memory of the arrays in it.

    Each frame is aligned, so that received arrays are where they are in the message.
    """
    buffers: list[pickle.PickleBuffer] = []
    head = dumps(value, buffer_callback=buffers.append)
    arrays = [buffer.raw() for buffer in buffers]
    sizes = struct.pack(f"<{len(arrays)}Q", *(array.nbytes for array in arrays))
    frames = [frame for part in (sizes, head, *arrays) for frame in _aligned(part)]
    total = sum(len(frame) for frame in frames)
    frames.insert(0, _PREFIX.pack(total, len(head), len(arrays)))
    return [b"".join(frames)] if total < _SMALL else frames


def _aligned(part: Any) -> list[Any]:
    """Return a part of a message, and the bytes up to the next one."""
    return [part, bytes(-len(part) % _ALIGNMENT)]


class _Parts:
    """The parts of a message, of known sizes, in order."""

    def __init__(self, message: memoryview) -> None:
        self._rest = message

    def next(self, size: int) -> memoryview:
        """Return the next part."""
        part = self._rest[:size]
        self._rest = self._rest[size + -size % _ALIGNMENT :]
        return part


class Channel:
    """One end of a connection; a channel belongs to one thread at a time.

    Parameters
    ----------
    connection
        A connected socket.
    on_stall
        Called when nothing was sent or received for `STALL` seconds; it raises an error
        to give up. None: wait as long as the connection lasts.
    """

    def __init__(
        self, connection: socket.socket, on_stall: Callable[[], None] | None = None
    ) -> None:
        connection.settimeout(None if on_stall is None else STALL)
        self._connection, self._on_stall = connection, on_stall

    def send(self, frames: Frames) -> None:
        """Send frames; raise an OSError if the connection is broken."""
        for frame in frames:
            view = memoryview(frame)
            while view:
                try:
                    view = view[self._connection.send(view) :]
                except TimeoutError:
                    self._stalled()

    def receive(self) -> Any:
        """Return the next value; raise an OSError if the connection is broken."""
        total, head_size, count = _PREFIX.unpack(self._read(_PREFIX.size))
        parts = _Parts(self._read(total))
        sizes = struct.unpack(f"<{count}Q", parts.next(8 * count))
        head = parts.next(head_size)
        return loads(head, buffers=[parts.next(size) for size in sizes])

    def close(self) -> None:
        """Close the connection; a thread that waits at the other end is woken."""
        self._connection.close()

    def _read(self, size: int) -> memoryview:
        """Return the next bytes, in memory that is aligned for any array."""
        whole = np.empty(size, np.uint8).data
        rest = whole
        while rest:
            try:
                count = self._connection.recv_into(rest)
            except TimeoutError:
                self._stalled()
                continue
            if count == 0:
                raise ConnectionResetError("the other end is closed")
            rest = rest[count:]
        return whole

    def _stalled(self) -> None:
        if self._on_stall is not None:
            self._on_stall()


def can_detach(comm: Any) -> bool:
    """Return whether a connection of Dask has a socket of its own, not encrypted."""
    return type(comm) is TCP and comm.stream is not None


def detach(comm: Any) -> socket.socket:
    """Take the socket of a connection from Dask.

    Neither end may have sent anything that the other has not received.
    """
    connection: socket.socket = comm.stream.socket.dup()
    comm.abort()  # closes Dask's descriptor, and not the connection
    return connection


def serve(channel: Channel, perform: Callable[[Any], Any | None]) -> None:
    """Answer the messages of a channel, in a thread of its own, until it is closed.

    Parameters
    ----------
    channel
        Closed at the end.
    perform
        Returns the frames of the answer to a message; None: close the channel.
    """

    def run() -> None:
        try:
            while (answer := perform(channel.receive())) is not None:
                channel.send(answer)
                del answer
        except OSError:
            pass  # the client has closed it, or is gone
        finally:
            channel.close()

    threading.Thread(target=run, name="hornbeam-channel", daemon=True).start()
