"""Attempts of a training by a group of workers, some of which may be lost.

In each attempt the workers form a group by a new tracker of the driver, and go on from
the last state that is left of the attempts before.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hornbeam.distributed.connection import Address
from hornbeam.distributed.group import error_of_workers
from hornbeam.distributed.run_state import RunState, latest
from hornbeam.distributed.tracker import Tracker

__all__ = ["Attempts", "Outcome", "result_of"]


class Attempts:
    """The trackers of a training, one after the other, and the last state.

    Threads may call the methods at the same time.

    Parameters
    ----------
    n_workers
        The number of workers.
    host, port, timeout
        As for `Tracker`.
    """

    def __init__(
        self, n_workers: int, host: str, port: int = 0, timeout: float = 0
    ) -> None:
        self._place = n_workers, host, port
        self._timeout = timeout
        self._tracker: Tracker | None = None
        self._state: RunState | None = None
        self._lock = threading.RLock()

    def begin(self) -> tuple[Address, RunState | None]:
        """Return the address of a new tracker, and the state to go on from."""
        with self._lock:
            self.end("the training is tried again")
            tracker = Tracker(*self._place, by_task=True, timeout=self._timeout)
            tracker.start()
            self._tracker = tracker
            return tracker.address, self._state

    def keep(self, *states: RunState | None) -> None:
        """Keep the state that came farthest for the attempts that follow."""
        with self._lock:
            self._state = latest(self._state, *states)

    def end(self, reason: str) -> None:
        """End the attempt; workers that still train get this as the reason."""
        with self._lock:
            if self._tracker is not None:
                self._tracker.close(reason)

    def wait(self, timeout: float) -> None:
        """Wait until all workers have left, whose lines are printed then."""
        if self._tracker is not None:
            self._tracker.wait(timeout)

    @property
    def failure(self) -> str | None:
        """Why the group of the last attempt failed; None: it did not."""
        return None if self._tracker is None else self._tracker.failure


@dataclass(slots=True)
class Outcome:
    """What a worker answers.

    Attributes
    ----------
    worker
        Its name in messages.
    result
        Of the first worker, if it has not failed.
    error
        Why it failed; None: it did not.
    state
        Where the next attempt may go on; None: at the beginning.
    """

    worker: str
    result: Any = None
    error: Exception | None = None
    state: RunState | None = None


def result_of(outcomes: Iterable[Outcome]) -> Any:
    """Return the result of the first worker; raise the error that led to the others.

    `outcomes` are in the order of ranks.
    """
    found = list(outcomes)
    errors = {one.worker: one.error for one in found if one.error is not None}
    if errors:
        raise error_of_workers(errors)
    return found[0].result
