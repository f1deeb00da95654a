"""What the driver does for the tasks of a training.

A barrier stage is tried again when a task is lost. The first task of each attempt asks
the driver to begin it, and sends the states of the training to keep.
"""

from __future__ import annotations

from hornbeam.distributed.attempts import Attempts
from hornbeam.distributed.connection import Connection, HandshakeError, Listener
from hornbeam.distributed.messages import GarbledMessageError

__all__ = ["Coordinator"]


class Coordinator(Attempts):
    """Listens on the driver while a training runs: a context manager.

    Parameters
    ----------
    n_workers, host, port, timeout
        As for `Attempts`.

    Attributes
    ----------
    address
        Of the coordinator.
    """

    def __init__(self, n_workers: int, host: str, port: int, timeout: float) -> None:
        super().__init__(n_workers, host, port, timeout)
        self._listener = Listener("the driver", host, 0, self._serve)
        self.address = self._listener.address

    def __enter__(self) -> Coordinator:
        self._listener.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()
        self.end("the training has ended")

    def _serve(self, connection: Connection) -> None:
        try:
            connection.accept(self.address.token)
            connection.send(self.begin())
            while True:
                self.keep(connection.receive())
        except (OSError, HandshakeError, GarbledMessageError):
            pass  # the task has ended, or it is a stranger
        finally:
            connection.close()
