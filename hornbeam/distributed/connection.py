"""Authenticated connections between the processes of a group, and their messages.

Both ends of a connection prove that they know the token of the group before anything
else is read, so that messages come from its processes only. A message is frames with
their sizes in front. Those of the tracker are one of JSON; those between workers are a
pickle and the memory of its arrays, which are received into new ones and never pickled.

Each message has its number and checksums: one that comes twice, in part, or is not what
was sent, is an error at once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import pickle
import socket
import struct
import threading
import time
import zlib
from typing import Any

import numpy as np

from hornbeam.distributed.garbled import GarbledMessageError, sum_of_words
from hornbeam.errors import ClusterError, ErrorCode

__all__ = ["Connection", "HandshakeError", "connect", "listen"]

#: The first bytes that both ends send: the protocol and its version.
_GREETING = b"hornbeam-group-2"
_NONCE_BYTES = 32
_DIGEST = hashlib.sha256
_DIGEST_BYTES = _DIGEST().digest_size
#: Seconds for a handshake: a stranger that connects and is silent is dropped then.
_HANDSHAKE_TIMEOUT = 10.0

#: What is before the sizes of frames: a mark, the CRC-32 of the rest of the head, how
#: many messages were sent before in this direction, the number of frames, the CRC-32 of
#: their sizes, and the sum of their words of 8 bytes.
_HEAD = struct.Struct("<4sIQIIQ")
_MARK = b"\x89HBG"
_CHECKED = slice(8, None)
#: The maximum size of a frame, of frames in a message, and of a message in JSON.
_MAX_FRAME, _MAX_FRAMES, _MAX_TEXT = 1 << 40, 1 << 20, 1 << 24
#: Frames below this size are sent together.
_SMALL = 1 << 16
#: Seconds after which a message that has begun must go on.
_STALL = 10.0

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

    Attributes
    ----------
    last_heard
        When the last bytes came, by the monotonic clock.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._socket = sock
        self.last_heard = time.monotonic()
        self._n_sent = self._n_received = 0
        self._sending = threading.Lock()

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
        except (ConnectionError, GarbledMessageError) as error:
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
        self._send([head, *(buffer.raw() for buffer in buffers)])

    def receive(self) -> Any:
        """Return the next value."""
        head, *buffers = self._receive(_MAX_FRAMES, _MAX_FRAME)
        try:
            return pickle.loads(head, buffers=buffers)
        except Exception as error:
            raise GarbledMessageError("it cannot be read") from error

    def send_text(self, **message: Any) -> None:
        """Send a message of numbers, strings and lists."""
        self._send([json.dumps(message).encode()])

    def receive_text(self) -> dict[str, Any]:
        """Return the next message of numbers, strings and lists."""
        (text,) = self._receive(1, _MAX_TEXT)
        try:
            message = json.loads(bytes(text))
        except (ValueError, RecursionError) as error:
            raise GarbledMessageError("it is no JSON") from error
        if not isinstance(message, dict):
            raise GarbledMessageError("it is no mapping")
        return message

    def _send(self, frames: list[Any]) -> None:
        sizes = struct.pack(f"<{len(frames)}Q", *map(len, frames))
        checksum = sum(map(sum_of_words, frames)) % 2**64
        with self._sending:
            number, self._n_sent = self._n_sent, self._n_sent + 1
            fields = number, len(frames), zlib.crc32(sizes), checksum
            crc = zlib.crc32(_HEAD.pack(b"", 0, *fields)[_CHECKED])
            self._transmit([_HEAD.pack(_MARK, crc, *fields) + sizes, *frames])

    def _transmit(self, parts: list[Any]) -> None:
        """Send a message, which begins with its head."""
        if sum(len(part) for part in parts) < _SMALL:
            parts = [b"".join(parts)]
        for part in parts:
            self._socket.sendall(part)

    def _receive(self, max_frames: int, max_size: int) -> list[memoryview]:
        """Return the frames of the next message."""
        head = self._read(_HEAD.size)
        mark, crc, number, count, sizes_crc, checksum = _HEAD.unpack(head)
        if mark != _MARK or crc != zlib.crc32(head[_CHECKED]):
            raise GarbledMessageError("it is no message")
        if number != self._n_received:
            raise GarbledMessageError(f"message {number} came twice or too early")
        self._n_received += 1
        if not 0 < count <= max_frames:
            raise GarbledMessageError(f"it has {count} frames")
        sizes = self._read(8 * count, has_begun=True)
        if sizes_crc != zlib.crc32(sizes):
            raise GarbledMessageError("the checksum of its sizes is wrong")
        lengths = struct.unpack(f"<{count}Q", sizes)
        if max(lengths) > max_size:
            raise GarbledMessageError(f"it has a frame of {max(lengths)} bytes")
        frames = [self._read(length, has_begun=True) for length in lengths]
        if sum(map(sum_of_words, frames)) % 2**64 != checksum:
            raise GarbledMessageError("its checksum is wrong")
        return frames

    def _read(self, size: int, *, has_begun: bool = False) -> memoryview:
        """Return the next bytes.

        A message may take any time to begin, within the limit of `wait_at_most`, but
        nothing is computed within one.
        """
        whole = np.empty(size, np.uint8).data
        rest, limit = whole, self._socket.gettimeout()
        can_stall = limit is None or limit > _STALL
        if has_begun and can_stall:
            self._socket.settimeout(_STALL)
        try:
            while rest:
                count = self._socket.recv_into(rest)
                if count == 0:
                    raise ConnectionResetError("the other end is closed")
                rest = rest[count:]
                self.last_heard = time.monotonic()
                if rest and can_stall and not has_begun:
                    has_begun = True
                    self._socket.settimeout(_STALL)
        except TimeoutError:
            if has_begun and can_stall:
                raise GarbledMessageError("it does not go on") from None
            raise
        finally:
            if has_begun and can_stall:
                self._socket.settimeout(limit)
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


def listen(who: str, host: str, port: int, backlog: int) -> socket.socket:
    """Return a socket that listens at an address of this machine; port 0: any."""
    family = socket.getaddrinfo(host, None)[0][0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        raise ClusterError(
            f"{who} cannot listen at {host}, port {port}: {error}; pass a free port, "
            "or 0, and an address of this machine",
            code=ErrorCode.TRACKER_NOT_BOUND,
        ) from error
    return listener


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
