"""What the driver does for the tasks of a training, and the tasks' side of it.

A barrier stage is tried again when a task is lost. The first task of each attempt asks
the driver for a new tracker, by which the processes of this attempt form a group, and
gets the last checkpoint of the attempts before.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
from dataclasses import dataclass
from typing import Any

from hornbeam.distributed.connection import Connection, HandshakeError, connect
from hornbeam.distributed.messages import GarbledMessageError
from hornbeam.distributed.tracker import Tracker

__all__ = ["Address", "Coordinator", "DriverLink"]

#: Seconds for a task to reach the driver.
_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Address:
    """Where a process listens, and the secret that it asks for."""

    host: str
    port: int
    token: str


class Coordinator:
    """Listens on the driver while a training runs: a context manager.

    Parameters
    ----------
    host
        The address of the driver by which tasks reach it.
    port
        The port of the trackers; 0: any that is free.
    timeout
        Seconds for all tasks to join; 0: no limit.

    Attributes
    ----------
    address
        Of the coordinator.
    """

    def __init__(self, host: str, port: int, timeout: float) -> None:
        self._host, self._port, self._timeout = host, port, timeout
        self._tracker: Tracker | None = None
        self._checkpoint: dict[str, bytes] = {}
        self._lock = threading.Lock()
        family = socket.getaddrinfo(host, None)[0][0]
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._listener.bind((host, 0))
        self._listener.listen()
        own_port = int(self._listener.getsockname()[1])
        self.address = Address(host, own_port, secrets.token_hex(32))

    def __enter__(self) -> Coordinator:
        threading.Thread(
            target=self._accept, name="hornbeam-coordinator", daemon=True
        ).start()
        return self

    def __exit__(self, *error: object) -> None:
        # Wakes the thread that accepts, which closing alone does not.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            self._end_tracker("the training has ended")

    @property
    def failure(self) -> str | None:
        """Why the group of the last attempt failed; None if it did not."""
        with self._lock:
            return None if self._tracker is None else self._tracker.failure

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(
                target=self._serve, args=(Connection(accepted),), daemon=True
            ).start()

    def _serve(self, connection: Connection) -> None:
        try:
            connection.accept(self.address.token)
            while True:
                what, value = connection.receive()
                if what == "begin":
                    connection.send(self._begin(value))
                elif what == "checkpoint":
                    with self._lock:
                        self._checkpoint = value
        except (OSError, HandshakeError, GarbledMessageError):
            pass  # the task has ended, or it is a stranger
        finally:
            connection.close()

    def _begin(self, n_tasks: int) -> tuple[Address, dict[str, bytes]]:
        """Return the address of a new tracker, and the files of the last checkpoint."""
        with self._lock:
            self._end_tracker("the stage is tried again")
            tracker = self._tracker = Tracker(
                n_tasks, self._host, self._port, by_task=True, timeout=self._timeout
            )
            tracker.start()
            address = Address(tracker.host, tracker.port, tracker.token)
            return address, self._checkpoint

    def _end_tracker(self, reason: str) -> None:
        if self._tracker is not None:
            self._tracker.close(reason)


class DriverLink:
    """The connection of the first task to the coordinator.

    Parameters
    ----------
    address
        Of the coordinator.
    """

    def __init__(self, address: Address) -> None:
        self._connection = connect(address.host, address.port, address.token, _TIMEOUT)

    def begin(self, n_tasks: int) -> tuple[Address, dict[str, bytes]]:
        """Return the address of a tracker, and the files of the last checkpoint."""
        self._connection.send(("begin", n_tasks))
        reply: Any = self._connection.receive()
        return reply[0], reply[1]

    def keep(self, files: dict[str, bytes]) -> None:
        """Let the driver keep these files of a checkpoint instead of those before."""
        self._connection.send(("checkpoint", files))

    def close(self) -> None:
        """End the connection."""
        self._connection.close()
