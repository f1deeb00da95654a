"""The contract of an engine: all that the learner of a cluster needs of it."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from hornbeam import __version__
from hornbeam.backends.cluster import ActorLostError, Call, Cluster, RowActor
from hornbeam.distributed.training_rows import CustomObjective
from hornbeam.errors import ClusterError, ErrorCode, HornbeamError

__all__ = [
    "NO_WORKER_TIMEOUT",
    "Share",
    "Transport",
    "WorkerLostError",
    "check_version",
    "first_error",
    "no_worker_error",
]

#: Seconds to wait for a worker when there is none, such as for one that restarts.
NO_WORKER_TIMEOUT = 30.0


class WorkerLostError(Exception):
    """The worker of a call has ended, or does not respond."""


@dataclass(frozen=True, slots=True)
class Share:
    """Partitions of the data for one new actor.

    Attributes
    ----------
    numbers
        Of the partitions, ascending.
    place
        The worker of the actor: one of `Transport.alive`.
    parts
        The partitions in the order of their numbers, as the engine names them.
    """

    numbers: tuple[int, ...]
    place: str
    parts: tuple[Any, ...]


class Transport(Cluster):
    """Workers of an engine, actors on them, and calls by one client.

    A worker is a name. A partition is what the engine calls a part of the data: a
    future of Dask, or a function that reads it; only the engine looks into it. An actor
    is made of the partitions of its share; it is lost with its worker, and others can
    be made of the same partitions.

    `hornbeam.dask.cluster` implements the contract on Dask, and
    `hornbeam.distributed.process_cluster` with plain processes and sockets.
    """

    # Workers and partitions

    @abstractmethod
    def alive(self) -> list[str]:
        """Return the workers that actors can be created on now."""

    def ready(self) -> list[str]:
        """Return the workers on which actors can be created without a long wait."""
        return self.alive()

    @abstractmethod
    def check(self, shares: Sequence[Share], *, overdue: bool = False) -> None:
        """Raise a `ClusterError` unless the workers can have actors with these shares.

        They need this version of Hornbeam, and the partitions must not be lost for
        good. `overdue`: one that the engine creates again should be there by now.
        """

    @abstractmethod
    def locate(self, partitions: Sequence[Any]) -> list[str | None]:
        """Return a worker that has each partition, None where none has."""

    @abstractmethod
    def map(self, task: Any, partitions: Sequence[Any], *args: Any) -> list[Any]:
        """Return `task(partition, *args)` for each partition, computed on workers.

        The task gets the `Partition` itself. The first error of Hornbeam that a task
        raises is raised.
        """

    # Actors

    @abstractmethod
    def place(self, shares: Sequence[Share], *options: Any) -> list[RowActor]:
        """Create an actor for each share; `options` are passed to all of them."""

    def place_async(
        self, shares: Sequence[Share], calls: Sequence[Call], *options: Any
    ) -> Future[list[RowActor]]:
        """Create actors as `place` does, then make calls to them; return a future.

        If the future is cancelled, or an actor is lost, all of them are released.
        """
        placed: Future[list[RowActor]] = Future()

        def run() -> None:
            actors: list[RowActor] = []
            error: BaseException | None = None
            try:
                actors = self.place(shares, *options)
                for operation, args in calls:
                    self.call(actors, operation, *args)
            except Exception as raised:
                error = raised
            is_wanted = placed.set_running_or_notify_cancel()
            if error is not None or not is_wanted:
                self.drop(actors)
            if is_wanted and error is not None:
                placed.set_exception(error)
            elif is_wanted:
                placed.set_result(actors)

        threading.Thread(target=run, name="hornbeam-place", daemon=True).start()
        return placed

    def sum(self, actors: Sequence[RowActor], operation: str, *args: Any) -> Any:
        return reduce(add, self.call(actors, operation, *args))

    @abstractmethod
    def drop(self, actors: Sequence[RowActor]) -> None:
        """Release actors."""

    @abstractmethod
    def custom_objective(self, function: Any) -> CustomObjective:
        """Return a custom objective as the actors can load it."""

    @abstractmethod
    def close(self) -> None:
        """Release all actors."""


def check_version(worker: str, version: str | None) -> None:
    """Raise a `ClusterError` unless a worker has this version; None: it has none."""
    if version == __version__:
        return
    found = "no Hornbeam" if version is None else f"Hornbeam {version}"
    raise ClusterError(
        f"{worker} has {found}, and this process {__version__}; install the same "
        "version everywhere",
        code=ErrorCode.WORKER_VERSION_MISMATCH,
        worker=worker,
    )


def no_worker_error() -> ClusterError:
    """Return the error of a cluster without workers."""
    return ClusterError(
        "the cluster has no worker left that answers; add workers, and train again",
        code=ErrorCode.WORKERS_LOST,
    )


def first_error(errors: Sequence[BaseException]) -> BaseException:
    """Return the most important error of a call; one error names all lost actors."""
    first = min(errors, key=_rank)
    if not isinstance(first, ActorLostError):
        return first
    lost = {
        actor.number: actor
        for error in errors
        if isinstance(error, ActorLostError)
        for actor in error.actors
    }
    return ActorLostError(lost.values())


def _rank(error: BaseException) -> int:
    """Order errors: those that the caller can mend first, lost actors last."""
    if isinstance(error, ActorLostError):
        return 2
    return 0 if isinstance(error, HornbeamError) else 1
