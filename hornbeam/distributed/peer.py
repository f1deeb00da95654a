"""A worker process as another process sees it: who asks, gets an answer or a loss."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from hornbeam.distributed.connection import Address, Connection
from hornbeam.distributed.transport import WorkerLostError

__all__ = ["ALIVE", "Peer"]

#: The number of a message that is no answer: the worker is alive.
ALIVE = -1


class Peer:
    """The end of a connection to a worker; a thread receives its answers.

    Parameters
    ----------
    connection
        Authenticated.
    place
        The worker's name.
    pid
        Its process; 0: it is not known.
    address
        Where it listens for other workers; None: it is not known.
    on_loss
        Called in that thread once the worker is lost.
    """

    def __init__(
        self,
        connection: Connection,
        place: str,
        pid: int = 0,
        address: Address | None = None,
        on_loss: Callable[[Peer], None] | None = None,
    ) -> None:
        self.connection, self.place, self.pid = connection, place, pid
        self.address, self._on_loss = address, on_loss
        self.is_lost = False
        self._changed = threading.Lock()
        self._numbers = itertools.count()
        self._pending: dict[int, Future[Any]] = {}
        threading.Thread(
            target=self._receive, name="hornbeam-answers", daemon=True
        ).start()

    def ask(self, verb: str, *args: Any) -> Future[Any]:
        """Send a message; the future has the answer, or fails when the worker does."""
        answer: Future[Any] = Future()
        with self._changed:
            if self.is_lost:
                answer.set_exception(WorkerLostError(self.place))
                return answer
            number = next(self._numbers)
            self._pending[number] = answer
        try:
            self.connection.send((number, verb, args))
        except OSError:
            self.lose()
        except BaseException:
            with self._changed:
                self._pending.pop(number, None)
            raise
        return answer

    def lose(self) -> None:
        """End the connection; the worker then ends itself, if it can."""
        with self._changed:
            self.is_lost = True
            pending, self._pending = self._pending, {}
        self.connection.shut_down()
        for answer in pending.values():
            answer.set_exception(WorkerLostError(self.place))

    def _receive(self) -> None:
        try:
            while True:
                number, is_result, result = self.connection.receive()
                if number == ALIVE:
                    continue
                with self._changed:
                    answer = self._pending.pop(number, None)
                if answer is None:  # it answers what was not asked
                    break
                if is_result:
                    answer.set_result(result)
                else:
                    answer.set_exception(result)
        except (OSError, TypeError, ValueError):
            pass  # it is closed, or what comes is no message
        self.lose()
        self.connection.close()
        if self._on_loss is not None:
            self._on_loss(self)
