"""Authenticated connections between processes, which carry messages.

Both ends of a connection prove that they know the token of the group before anything
else is read, so that messages come from its processes only; see
`hornbeam.distributed.messages` for what they are. Connections that an engine has
opened and authenticated carry the same messages.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hornbeam.distributed.messages import (
    HEAD_BYTES,
    GarbledMessageError,
    Head,
    Message,
)
from hornbeam.errors import ClusterError, ErrorCode
from hornbeam.shared_memory import PLACE_BYTES, MappedMemory, can_map, own_place

__all__ = [
    "GREETING",
    "Address",
    "Connection",
    "HandshakeError",
    "Listener",
    "connect",
    "listen",
]

#: The first bytes that both ends send: the protocol and its version.
GREETING = b"hornbeam-group-5"
_NONCE_BYTES = 32
_DIGEST = hashlib.sha256
_DIGEST_BYTES = _DIGEST().digest_size
#: Seconds for a handshake: a stranger that connects and is silent is dropped then.
_HANDSHAKE_TIMEOUT = 10.0

#: Connections that wait to be accepted.
_BACKLOG = 1024
#: Seconds between two looks at a limit, two calls of `on_stall`, and of `on_tick`.
_TICK = 0.25
#: Seconds after which a message that has begun must go on.
_PATIENCE = 10.0
#: Bytes that are received at once: a small message and its head.
_BUFFER_BYTES = 1 << 14
#: Bytes of a message that can be sent before the other end receives.
_BUFFERED = 1 << 14

# A connection on which nothing is sent is checked, so that a machine that has vanished
# is noticed: after so many seconds, so often, so many times.
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))


class Address(NamedTuple):
    """Where a process listens, and the secret that it asks for."""

    host: str
    port: int
    token: str


class HandshakeError(ConnectionError):
    """The other end does not know the token, or is no process of a group."""


class Connection:
    """One end of a connection: one thread at a time receives, and several may send.

    Parameters
    ----------
    sock
        A connected socket; its timeout is that of `wait_at_most`.
    on_stall
        Called several times a second while nothing comes or goes; it raises an error
        to give up.
    patience
        Seconds after which a message that has begun must go on.

    Attributes
    ----------
    last_heard
        When the last bytes came, by the monotonic clock.
    shares_memory
        Whether the other end reads shared memory of this process: its places are sent.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_stall: Callable[[], None] | None = None,
        patience: float | None = None,
    ) -> None:
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEPALIVE:
                if hasattr(socket, name):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._socket, self._on_stall = sock, on_stall
        self._patience = _PATIENCE if patience is None else patience
        self.wait_at_most(sock.gettimeout())
        self.last_heard = time.monotonic()
        self.shares_memory = False
        self._mapped = MappedMemory()
        self._n_sent = self._n_received = 0
        #: Bytes that were received together with others, and those not yet read.
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._ready = self._buffer[:0]
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
        before = self._limit
        self.wait_at_most(_HANDSHAKE_TIMEOUT)
        try:
            nonce = os.urandom(_NONCE_BYTES)
            self._write(GREETING + nonce)
            greeting = bytes(self._read(len(GREETING) + _NONCE_BYTES))
            if not greeting.startswith(GREETING):
                raise HandshakeError("the other end is no process of a group")
            theirs = greeting[len(GREETING) :]
            proof = _digest(token, own, nonce, theirs)
            expected = _digest(token, other, theirs, nonce)
            if own == b"client":
                self._write(proof)
                self._check(expected)
            else:
                self._check(expected)
                self._write(proof)
            self.find_shared_memory(begins=own == b"client")
        except HandshakeError:
            raise
        except (ConnectionError, GarbledMessageError) as error:
            raise HandshakeError("the other end has refused the token") from error
        self.wait_at_most(before)

    def _check(self, expected: bytes) -> None:
        if not hmac.compare_digest(bytes(self._read(_DIGEST_BYTES)), expected):
            raise HandshakeError("the other end does not know the token")

    def find_shared_memory(self, *, begins: bool) -> None:
        """Find out whether each end can read shared memory of the other one.

        Both ends call it before the first message, as `accept` and `introduce` do. One
        of them `begins`; the other one sends nothing before.
        """
        if begins:
            self._write(own_place())
            reply = bytes(self._read(1 + PLACE_BYTES))
            self._write(bytes([can_map(reply[1:])]))
        else:
            can_read = can_map(bytes(self._read(PLACE_BYTES)))
            self._write(bytes([can_read]) + own_place())
            reply = bytes(self._read(1))
        self.shares_memory = reply[:1] == b"\1"

    # Messages

    def send(self, value: Any) -> None:
        """Send a value; its arrays are sent from where they are."""
        self.send_message(Message.of(value, shares_memory=self.shares_memory))

    def exchange(self, value: Any, begins: bool) -> Any:
        """Send a value, and return that of the other end, which calls this as well.

        Both ends send at once what the buffers of the system hold for certain; with
        more, the one that `begins` sends first.
        """
        message = Message.of(value, shares_memory=self.shares_memory)
        if begins or message.n_bytes <= _BUFFERED:
            self.send_message(message)
            return self.receive()
        received = self.receive()
        self.send_message(message)
        return received

    def receive(self) -> Any:
        """Return the next value."""
        return self._head().value(self._read_more)

    def send_text(self, **message: Any) -> None:
        """Send a message of numbers, strings and lists."""
        self.send_message(Message.of_text(message))

    def receive_text(self) -> dict[str, Any]:
        """Return the next message of numbers, strings and lists."""
        return self._head().text(self._read_more)

    def send_message(self, message: Message) -> None:
        """Send a message."""
        with self._sending:
            number, self._n_sent = self._n_sent, self._n_sent + 1
            self._transmit(message.parts(number))

    def _transmit(self, parts: list[Any]) -> None:
        for part in parts:
            self._write(part)

    def _head(self) -> Head:
        """Return the head of the next message.

        It may take any time to begin, but nothing is computed within a message.
        """
        head = Head(self._read(HEAD_BYTES), self._n_received, self._mapped)
        self._n_received += 1
        return head

    def _read_more(self, size: int) -> memoryview:
        return self._read(size, has_begun=True)

    def _read(self, size: int, *, has_begun: bool = False) -> memoryview:
        """Return the next bytes, in memory that is aligned for any array."""
        if size <= len(self._ready):
            found, self._ready = self._ready[:size], self._ready[size:]
            return memoryview(bytearray(found))
        whole = np.empty(size, np.uint8).data
        rest = whole
        while rest:
            if self._ready:
                count = min(len(rest), len(self._ready))
                rest[:count], self._ready = self._ready[:count], self._ready[count:]
                rest = rest[count:]
            elif len(rest) < len(self._buffer):
                # What follows mostly comes with it, such as a message with its head.
                count = self._receive_into(self._buffer, has_begun)
                self._ready = self._buffer[:count]
            else:
                rest = rest[self._receive_into(rest, has_begun) :]
            has_begun = True
        return whole

    def _receive_into(self, memory: memoryview, has_begun: bool) -> int:
        """Write the bytes that come next into memory; return how many they are."""
        limit = self._limit
        if has_begun:
            limit = min(limit or self._patience, self._patience)
        try:
            count = self._wait(limit, self._socket.recv_into, memory)
        except TimeoutError:
            if has_begun and limit == self._patience:
                raise GarbledMessageError("it does not go on") from None
            raise
        if count == 0:
            raise ConnectionResetError("the other end is closed")
        self.last_heard = time.monotonic()
        return count

    def _write(self, part: Any) -> None:
        view = memoryview(part)
        while view:
            view = view[self._wait(self._limit, self._socket.send, view) :]

    def _wait(
        self, limit: float | None, operation: Callable[[Any], int], part: Any
    ) -> int:
        """Return the result of an operation of the socket, once it can go on.

        Raises a TimeoutError after `limit` seconds, if that is not None.
        """
        begin = time.monotonic()
        while True:
            try:
                return operation(part)
            except TimeoutError:
                if self._on_stall is not None:
                    self._on_stall()
                if limit is not None and time.monotonic() - begin >= limit:
                    raise

    # The socket

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._socket.fileno()

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
        self._limit = seconds
        self._socket.settimeout(min(_TICK, seconds or _TICK, self._patience))

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


class Listener:
    """Accepts connections in a thread, and serves each in a thread of its own.

    Parameters
    ----------
    who
        What listens, for messages.
    host, port
        An address of this machine; port 0: any that is free.
    serve
        Is called with each connection, whose other end may be a stranger.
    on_tick
        Is called several times a second.

    Attributes
    ----------
    address
        With a new token.
    """

    def __init__(
        self,
        who: str,
        host: str,
        port: int,
        serve: Callable[[Connection], None],
        on_tick: Callable[[], None] | None = None,
    ) -> None:
        self._socket = listen(who, host, port)
        self._socket.settimeout(_TICK)
        own_port = int(self._socket.getsockname()[1])
        self.address = Address(host, own_port, secrets.token_hex(32))
        self._serve, self._on_tick = serve, on_tick

    def start(self) -> None:
        """Begin to accept."""
        threading.Thread(
            target=self._accept, name="hornbeam-accept", daemon=True
        ).start()

    def _accept(self) -> None:
        while True:
            if self._on_tick is not None:
                self._on_tick()
            try:
                accepted, _ = self._socket.accept()
            except TimeoutError:
                continue
            except OSError:
                return  # it is closed
            accepted.settimeout(None)
            threading.Thread(
                target=self._serve, args=(Connection(accepted),), daemon=True
            ).start()

    def close(self) -> None:
        """Accept no more; the port is free then."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._socket.close()


def listen(who: str, host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address of this machine; port 0: any."""
    family = socket.getaddrinfo(host, None)[0][0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
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
