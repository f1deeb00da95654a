"""What the driver does for the tasks of a training.

A barrier stage is tried again when a task is lost. The first task of each attempt asks
the driver for a new tracker, by which the processes of this attempt form a group, and
gets the last state of the attempts before.
"""

from __future__ import annotations

import threading

from hornbeam.distributed.connection import (
    Address,
    Connection,
    HandshakeError,
    Listener,
)
from hornbeam.distributed.messages import GarbledMessageError
from hornbeam.distributed.run_state import RunState
from hornbeam.distributed.tracker import Tracker

__all__ = ["Coordinator"]


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
        self._state: RunState | None = None
        self._lock = threading.Lock()
        self._listener = Listener("the driver", host, 0, self._serve)
        self.address = self._listener.address

    def __enter__(self) -> Coordinator:
        self._listener.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()
        with self._lock:
            self._end_tracker("the training has ended")

    @property
    def failure(self) -> str | None:
        """Why the group of the last attempt failed; None if it did not."""
        with self._lock:
            return None if self._tracker is None else self._tracker.failure

    def _serve(self, connection: Connection) -> None:
        try:
            connection.accept(self.address.token)
            while True:
                what, value = connection.receive()
                if what == "begin":
                    connection.send(self._begin(value))
                elif what == "keep":
                    with self._lock:
                        self._state = value
        except (OSError, HandshakeError, GarbledMessageError):
            pass  # the task has ended, or it is a stranger
        finally:
            connection.close()

    def _begin(self, n_tasks: int) -> tuple[Address, RunState | None]:
        """Return the address of a new tracker, and the state that was kept last."""
        with self._lock:
            self._end_tracker("the stage is tried again")
            tracker = self._tracker = Tracker(
                n_tasks, self._host, self._port, by_task=True, timeout=self._timeout
            )
            tracker.start()
            return tracker.address, self._state

    def _end_tracker(self, reason: str) -> None:
        if self._tracker is not None:
            self._tracker.close(reason)
