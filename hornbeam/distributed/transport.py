"""The contract of an engine: all that the learner of a cluster needs of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from hornbeam.backends.cluster import ActorLostError, Call, Cluster, RowActor
from hornbeam.distributed.training_rows import CustomObjective
from hornbeam.errors import ClusterError, ErrorCode, HornbeamError

__all__ = [
    "NO_WORKER_TIMEOUT",
    "Share",
    "Transport",
    "first_error",
    "no_worker_error",
]

#: Seconds to wait for a worker when there is none, such as for one that restarts.
NO_WORKER_TIMEOUT = 30.0


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

    @abstractmethod
    def place_async(
        self, shares: Sequence[Share], calls: Sequence[Call], *options: Any
    ) -> Future[list[RowActor]]:
        """Create actors as `place` does, then make calls to them; return a future.

        If the future is cancelled, or an actor is lost, all of them are released.
        """

    @abstractmethod
    def drop(self, actors: Sequence[RowActor]) -> None:
        """Release actors."""

    @abstractmethod
    def custom_objective(self, function: Any) -> CustomObjective:
        """Return a custom objective as the actors can load it."""

    @abstractmethod
    def close(self) -> None:
        """Release all actors."""


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
