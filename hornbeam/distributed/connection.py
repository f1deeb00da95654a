"""Authenticated connections between the processes of a group, and their messages.

Both ends of a connection prove that they know the token of the group before anything
else is read, so that messages come from its processes only. A message is a frame with
its size in front. Those of the tracker are JSON; those between workers are a pickle and
the memory of its arrays, which are received into new ones and never pickled.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import pickle
import socket
import struct
from typing import Any

import numpy as np

__all__ = ["Connection", "HandshakeError", "connect"]

#: The first bytes that both ends send: the protocol and its version.
_GREETING = b"hornbeam-group-1"
_NONCE_BYTES = 32
_DIGEST = hashlib.sha256
_DIGEST_BYTES = _DIGEST().digest_size
#: Seconds for a handshake: a stranger that connects and is silent is dropped then.
_HANDSHAKE_TIMEOUT = 10.0

#: Number of frames of a message, and the size of a frame.
_COUNT, _SIZE = struct.Struct("<I"), struct.Struct("<Q")
#: The maximum size of a frame, of frames in a message, and of a message in JSON.
_MAX_FRAME, _MAX_FRAMES, _MAX_TEXT = 1 << 40, 1 << 20, 1 << 24
#: Frames below this size are sent together.
_SMALL = 1 << 16

# A connection on which nothing is sent is checked, so that a machine that has vanished
# is noticed: after so many seconds, so often, so many times.
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))


class HandshakeError(ConnectionError):
    """The other end does not know the token, or is no process of a group."""


class Connection:
    """One end of a connection, which carries messages.

    Parameters
    ----------
    sock
        A connected socket.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._socket = sock

    # The handshake

    def accept(self, token: str) -> None:
        """Check that the other end, which has connected, knows the token.

        Raises a `HandshakeError` if not; the connection is then of no use.
        """
        self._authenticate(token, b"server", b"client")

    def introduce(self, token: str) -> None:
        """Prove to the other end, which listens, that this one knows the token.

        Raises a `HandshakeError` if it does not believe that, or does not know it, and
        a TimeoutError if it does not answer.
        """
        self._authenticate(token, b"client", b"server")

    def _authenticate(self, token: str, own: bytes, other: bytes) -> None:
        """Exchange random numbers and their digests under the token.

        The one that listens answers last: a stranger learns nothing from it.
        """
        before = self._socket.gettimeout()
        self._socket.settimeout(_HANDSHAKE_TIMEOUT)
        try:
            nonce = os.urandom(_NONCE_BYTES)
            self._socket.sendall(_GREETING + nonce)
            greeting = bytes(self._read(len(_GREETING) + _NONCE_BYTES))
            if not greeting.startswith(_GREETING):
                raise HandshakeError("the other end is no process of a group")
            theirs = greeting[len(_GREETING) :]
            proof = _digest(token, own, nonce, theirs)
            expected = _digest(token, other, theirs, nonce)
            if own == b"client":
                self._socket.sendall(proof)
                self._check(expected)
            else:
                self._check(expected)
                self._socket.sendall(proof)
        except HandshakeError:
            raise
        except ConnectionError as error:
            raise HandshakeError("the other end has refused the token") from error
        self._socket.settimeout(before)

    def _check(self, expected: bytes) -> None:
        if not hmac.compare_digest(bytes(self._read(_DIGEST_BYTES)), expected):
            raise HandshakeError("the other end does not know the token")

    # Messages

    def send(self, value: Any) -> None:
        """Send a value; its arrays are sent from where they are."""
        buffers: list[pickle.PickleBuffer] = []
        head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        frames: list[Any] = [head, *(buffer.raw() for buffer in buffers)]
        sizes = b"".join(_SIZE.pack(len(frame)) for frame in frames)
        parts: list[Any] = [_COUNT.pack(len(frames)) + sizes, *frames]
        if sum(len(part) for part in parts) < _SMALL:
            parts = [b"".join(parts)]
        for part in parts:
            self._socket.sendall(part)

    def receive(self) -> Any:
        """Return the next value."""
        (count,) = _COUNT.unpack(self._read(_COUNT.size))
        if not 0 < count <= _MAX_FRAMES:
            raise ConnectionError(f"a message of {count} frames")
        sizes = struct.unpack(f"<{count}Q", self._read(count * _SIZE.size))
        if max(sizes) > _MAX_FRAME:
            raise ConnectionError(f"a frame of {max(sizes)} bytes")
        head, *buffers = [self._read(size) for size in sizes]
        try:
            return pickle.loads(head, buffers=buffers)
        except Exception as error:
            raise ConnectionError("a message that cannot be read") from error

    def send_text(self, **message: Any) -> None:
        """Send a message of numbers, strings and lists."""
        text = json.dumps(message).encode()
        self._socket.sendall(_SIZE.pack(len(text)) + text)

    def receive_text(self) -> dict[str, Any]:
        """Return the next message of numbers, strings and lists."""
        (size,) = _SIZE.unpack(self._read(_SIZE.size))
        if size > _MAX_TEXT:
            raise ConnectionError(f"a message of {size} bytes")
        message = json.loads(bytes(self._read(size)))
        if not isinstance(message, dict):
            raise ConnectionError("a message that is no mapping")
        return message

    def _read(self, size: int) -> memoryview:
        """Return the next bytes."""
        whole = np.empty(size, np.uint8).data
        rest = whole
        while rest:
            count = self._socket.recv_into(rest)
            if count == 0:
                raise ConnectionResetError("the other end is closed")
            rest = rest[count:]
        return whole

    # The socket

    @property
    def local_host(self) -> str:
        """The address of this machine as the other end sees it."""
        return str(self._socket.getsockname()[0])

    @property
    def remote_host(self) -> str:
        """The address of the other machine."""
        return str(self._socket.getpeername()[0])

    def wait_at_most(self, seconds: float | None) -> None:
        """Raise a TimeoutError when nothing comes or goes for so long; None: wait."""
        self._socket.settimeout(seconds)

    def shut_down(self) -> None:
        """End the connection; threads that wait for it, at both ends, are woken."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the other end was faster

    def close(self) -> None:
        """End the connection and release the socket."""
        self.shut_down()
        self._socket.close()


def connect(host: str, port: int, token: str, timeout: float) -> Connection:
    """Return an authenticated connection to a process that listens."""
    connection = Connection(socket.create_connection((host, port), timeout))
    try:
        connection.introduce(token)
    except BaseException:
        connection.close()
        raise
    return connection


def _digest(token: str, role: bytes, *nonces: bytes) -> bytes:
    return hmac.digest(token.encode(), role + b"".join(nonces), _DIGEST)
