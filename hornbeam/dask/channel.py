"""Channels: connections of Dask to an actor that bypass the event loops.

A message over Dask's event loops takes several milliseconds of both processes for an
answer of a megabyte: it is serialised, sliced, queued and woken for in four threads. A
channel is a connection that Dask has opened, and that is then used by two threads
alone: one of the client sends a call, one of the worker waits for it and answers. The
arrays of an answer are sent from where they are, and received into new ones.

Each message has its number and checksums: one that comes twice, or is not what was
sent, breaks the channel instead of the model.
"""

from __future__ import annotations

import pickle
import socket
import struct
import threading
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from distributed.comm.tcp import TCP
from distributed.protocol.pickle import dumps, loads

from hornbeam.distributed.garbled import GarbledMessageError, sum_of_words

__all__ = [
    "STALL",
    "Channel",
    "Frames",
    "can_detach",
    "detach",
    "pack",
    "serve",
]

#: What is sent: the sizes of the parts, a pickle, and the memory of its arrays.
Frames = list[Any]

#: Seconds without progress after which a caller checks that the other side is alive.
STALL = 0.25

#: What is before the prefix: a mark, the CRC-32 of what follows up to the parts, and
#: how many messages were sent before in this direction.
_ENVELOPE = struct.Struct("<4sIQ")
_MARK = b"\x89HBM"
#: Sizes of the whole message after the prefix, and of the pickle; number of arrays; sum
#: of the words of 8 bytes after the prefix.
_PREFIX = struct.Struct("<QQQQ")
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
    if total < _SMALL:
        frames = [b"".join(frames)]
    checksum = sum(map(sum_of_words, frames)) % 2**64
    prefix = _PREFIX.pack(total, len(head), len(arrays), checksum)
    return [prefix + frames[0]] if total < _SMALL else [prefix, *frames]


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
    patience
        Seconds after which a message that has begun must go on, if `on_stall` is given.
    """

    def __init__(
        self,
        connection: socket.socket,
        on_stall: Callable[[], None] | None = None,
        patience: float = 10.0,
    ) -> None:
        connection.settimeout(None if on_stall is None else STALL)
        self._connection, self._on_stall = connection, on_stall
        self._patience = patience
        self._n_sent = self._n_received = 0

    def send(self, frames: Frames) -> None:
        """Send frames; raise an OSError if the connection is broken."""
        first, *others = frames
        checked = struct.pack("<Q", self._n_sent) + first[: _PREFIX.size]
        envelope = _ENVELOPE.pack(_MARK, zlib.crc32(checked), self._n_sent)
        self._n_sent += 1
        for frame in (envelope + first, *others):
            view = memoryview(frame)
            while view:
                try:
                    view = view[self._connection.send(view) :]
                except TimeoutError:
                    self._stalled()

    def receive(self) -> Any:
        """Return the next value; raise an OSError if the connection is broken."""
        begin = self._read(_ENVELOPE.size + _PREFIX.size, has_begun=False)
        mark, crc, number = _ENVELOPE.unpack_from(begin)
        if mark != _MARK or crc != zlib.crc32(begin[-_PREFIX.size - 8 :]):
            raise GarbledMessageError("the other end sent what is no message")
        if number != self._n_received:
            raise GarbledMessageError(f"message {number} came twice or too early")
        self._n_received += 1
        total, head_size, count, checksum = _PREFIX.unpack_from(begin, _ENVELOPE.size)
        message = self._read(total, has_begun=True)
        if sum_of_words(message) % 2**64 != checksum:
            raise GarbledMessageError(f"the checksum of message {number} is wrong")
        parts = _Parts(message)
        sizes = struct.unpack(f"<{count}Q", parts.next(8 * count))
        head = parts.next(head_size)
        return loads(head, buffers=[parts.next(size) for size in sizes])

    def close(self) -> None:
        """Close the connection; a thread that waits at the other end is woken."""
        self._connection.close()

    def _read(self, size: int, *, has_begun: bool) -> memoryview:
        """Return the next bytes, in memory that is aligned for any array.

        An answer may take any time to begin, but nothing is computed within one.
        """
        whole = np.empty(size, np.uint8).data
        rest = whole
        n_stalls = 0
        while rest:
            try:
                count = self._connection.recv_into(rest)
            except TimeoutError:
                self._stalled()
                n_stalls += 1
                if has_begun and n_stalls * STALL >= self._patience:
                    raise GarbledMessageError("the message does not go on") from None
                continue
            if count == 0:
                raise ConnectionResetError("the other end is closed")
            rest, n_stalls, has_begun = rest[count:], 0, True
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
