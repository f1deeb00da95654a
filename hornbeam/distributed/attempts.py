"""Training by a group of workers, which is tried again while some of them are lost.

What a worker does and answers, and who begins the attempts: `run_attempts`, or an
engine, for which a `Coordinator` keeps the last state.
"""

from __future__ import annotations

import math
import os
import pickle
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Self

import hornbeam.training
from hornbeam.data.dmatrix import DMatrix
from hornbeam.distributed.connection import (
    Address,
    Connection,
    HandshakeError,
    Listener,
)
from hornbeam.distributed.group import error_of_workers, is_group_failure, member
from hornbeam.distributed.messages import GarbledMessageError, sendable
from hornbeam.distributed.run_state import KeepState, RunState, latest
from hornbeam.distributed.tracker import LAST_WORDS, Tracker
from hornbeam.errors import ClusterError, ErrorCode

__all__ = [
    "Attempt",
    "Coordinator",
    "Outcome",
    "result_of",
    "run_attempts",
    "train_part",
]


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

    @classmethod
    def of(
        cls,
        worker: str,
        train: Callable[[], Any],
        dumps: Callable[..., bytes] = pickle.dumps,
    ) -> Self:
        """Return what `train` returns or raises; `dumps` can pickle its errors."""
        try:
            return cls(worker, train())
        except Exception as error:
            return cls(worker, error=sendable(error, worker, dumps))


def result_of(outcomes: Iterable[Outcome]) -> Any:
    """Return the result of the first worker; raise the error that led to the others.

    `outcomes` are in the order of ranks.
    """
    found = list(outcomes)
    errors = {one.worker: one.error for one in found if one.error is not None}
    if errors:
        raise error_of_workers(errors)
    return found[0].result


def train_part(
    rank: int,
    host: str,
    parts: Sequence[Any],
    tracker: Address,
    start: RunState | None,
    *,
    read: Callable[[Any], DMatrix],
    arguments: Mapping[str, Any],
    patience: float | None,
    dumps: Callable[..., bytes],
) -> Outcome:
    """Train with the other workers; the result is the booster and its history.

    Parameters
    ----------
    rank, host
        The number of this worker, whose rows follow those of lower ones, and the name
        of its machine.
    parts, read
        Its rows of each dataset, of which the first one is that of the training; and
        what returns a matrix of them.
    tracker, start
        Those of the attempt.
    arguments
        Those of `hornbeam.train`, with the indices of datasets in ``evals``.
    patience
        As ``timeout`` of `hornbeam.distributed.group.Group`.
    dumps
        Pickles objects of scripts, too.
    """
    keeper = KeepState(start)

    def train() -> Any:
        data = [read(part) for part in parts]
        own = {
            "evals": [(data[index], name) for index, name in arguments["evals"]],
            "callbacks": [*arguments["callbacks"], keeper],
        }
        with member(*tracker, task=f"{rank:08}", timeout=patience):
            booster = hornbeam.training.train(dtrain=data[0], **{**arguments, **own})
        return (booster, dict(booster.history)) if rank == 0 else None

    worker = f"worker {rank} ({host}, process {os.getpid()})"
    outcome = Outcome.of(worker, train, dumps)
    if outcome.error is not None:
        outcome.state = keeper.kept()
    return outcome


#: A function that starts the workers of an attempt, with the address of its tracker and
#: the state to go on from. The generator that it returns yields at least every second
#: the outcomes of workers that have ended, by rank; None: it was lost. When it is
#: closed, it ends the others.
Attempt = Callable[
    [Address, RunState | None], Generator[dict[int, Outcome | None], None, None]
]


def run_attempts(
    attempt: Attempt, names: Sequence[str], host: str, max_failures: int
) -> Any:
    """Let workers train together until none is lost on the way; return the result.

    After the first failure the group is ended, and workers that are silent long after
    it are lost, too.

    Parameters
    ----------
    attempt
        Starts the workers.
    names
        Those of the workers, in the order of ranks.
    host
        The address of this machine, by which the workers reach it.
    max_failures
        How often workers may be lost.
    """
    state: RunState | None = None
    lost: list[str] = []
    for _ in range(max_failures + 1):
        found: dict[int, Outcome] = {}
        deadline = math.inf
        with (
            Tracker(len(names), host, by_task=True) as tracker,
            closing(attempt(tracker.address, state)) as answers,
        ):
            for ended in answers:
                found |= {rank: one for rank, one in ended.items() if one is not None}
                if deadline == math.inf and any(
                    one is None or one.error is not None for one in ended.values()
                ):
                    deadline = time.monotonic() + LAST_WORDS
                    tracker.close("a worker was lost, or has failed")
                if time.monotonic() > deadline:
                    break
        outcomes = [found[rank] for rank in sorted(found)]
        errors = [one.error for one in outcomes if one.error is not None]
        if len(found) == len(names) or not all(map(is_group_failure, errors)):
            return result_of(outcomes)
        state = latest(state, *(one.state for one in outcomes))
        lost += [name for rank, name in enumerate(names) if rank not in found]
    raise ClusterError(
        f"workers were lost {max_failures + 1} times: {', '.join(lost)}; see their "
        "logs (they may need more memory), or raise max_failures",
        code=ErrorCode.WORKERS_LOST,
    )


class Coordinator:
    """Serves attempts that an engine begins by itself: a context manager.

    The first worker of each attempt connects to it, gets the address of a new tracker
    and the state to go on from, and sends the states to keep.

    Parameters
    ----------
    n_workers, host, port, timeout
        As for `Tracker`.

    Attributes
    ----------
    address
        Of the coordinator.
    """

    def __init__(self, n_workers: int, host: str, port: int, timeout: float) -> None:
        self._place, self._timeout = (n_workers, host, port), timeout
        self._listener = Listener("the driver", host, 0, self._serve)
        self.address = self._listener.address
        #: Guards what follows, which is of the last attempt.
        self._lock = threading.Lock()
        self._tracker: Tracker | None = None
        self._state: RunState | None = None

    def __enter__(self) -> Coordinator:
        self._listener.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()
        with self._lock:
            self._end("the training has ended")

    def _serve(self, connection: Connection) -> None:
        try:
            connection.accept(self.address.token)
            with self._lock:
                self._end("the training is tried again")
                tracker = Tracker(*self._place, by_task=True, timeout=self._timeout)
                tracker.start()
                self._tracker, start = tracker, self._state
            connection.send((tracker.address, start))
            while True:
                state = connection.receive()
                with self._lock:
                    self._state = latest(self._state, state)
        except (OSError, HandshakeError, GarbledMessageError):
            pass  # the worker has ended, or it is a stranger
        finally:
            connection.close()

    def _end(self, reason: str) -> None:
        if self._tracker is not None:
            self._tracker.close(reason)

    @property
    def failure(self) -> str | None:
        """Why the group of the last attempt failed; None: it did not."""
        return None if self._tracker is None else self._tracker.failure
