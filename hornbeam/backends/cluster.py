"""The interface of a cluster: actors on workers that have rows and answer calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

__all__ = ["ActorLostError", "Call", "Cluster", "RowActor", "Share"]

#: The name of a method, and its arguments.
Call = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Share:
    """Partitions of the data for one new actor.

    Attributes
    ----------
    numbers
        Of the partitions, ascending.
    place
        The worker of the actor: one of `Cluster.alive`.
    parts
        The partitions in the order of their numbers.
    """

    numbers: tuple[int, ...]
    place: str
    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RowActor:
    """An actor that has partitions of the data.

    Attributes
    ----------
    number
        Unique among all actors of the training.
    place
        The worker that it runs on: all actors of a worker are lost together.
    parts
        Numbers of its partitions.
    """

    number: int
    place: str
    parts: tuple[int, ...]


class ActorLostError(Exception):
    """Workers died, were stopped or disconnected; their rows must be loaded again.

    All other actors have completed the call.

    Parameters
    ----------
    actors
        The actors that are lost.
    """

    def __init__(self, actors: Iterable[RowActor]) -> None:
        self.actors = tuple(actors)
        super().__init__(self.actors)

    def __str__(self) -> str:
        return f"lost: {', '.join(sorted({m.place for m in self.actors}))}"


class Cluster(ABC):
    """The contract of an engine: all that the learner of a cluster needs of it.

    There are workers, actors on them that have rows, and calls of their methods. Six
    methods are an engine's own; nothing else of the learner knows which engine it is.
    `hornbeam.dask.cluster` implements them with a client that calls actors on workers,
    and `hornbeam.distributed.group_cluster` for a group of processes, in which each
    makes all calls itself.

    Every operation ends: with the results, with an error that an actor raised, or with
    `ActorLostError` after a timeout.
    """

    @abstractmethod
    def alive(self) -> list[str]:
        """Return the workers that actors can be created on now."""

    @abstractmethod
    def place(self, shares: Sequence[Share], *options: Any) -> list[RowActor]:
        """Create an actor for each share; `options` are passed to all of them."""

    @abstractmethod
    def call(self, actors: Sequence[RowActor], operation: str, *args: Any) -> list[Any]:
        """Call a method of all actors concurrently; return the results in order."""

    def merge(
        self,
        actors: Sequence[RowActor],
        merge: Callable[[Any, Any], Any],
        operation: str,
        *args: Any,
    ) -> Any:
        """Call a method of all actors; return the results, merged in any order."""
        return reduce(merge, self.call(actors, operation, *args))

    @abstractmethod
    def sum(self, actors: Sequence[RowActor], operation: str, *args: Any) -> Any:
        """Call a method of all actors; return the sum of the results, in any order."""

    @abstractmethod
    def close(self) -> None:
        """Release all actors."""
