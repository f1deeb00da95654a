"""The interface of a cluster: actors that have rows and answer calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

__all__ = ["ActorLostError", "Call", "Cluster", "RowActor"]

#: The name of a method, and its arguments.
Call = tuple[str, tuple[Any, ...]]


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
    """Actors that have rows, and calls of their methods.

    That is all that growing a tree needs of a cluster, whichever engine its actors run
    on: see `hornbeam.distributed.transport` for a client that calls actors on workers,
    and `hornbeam.distributed.group_matrix` for a group of processes, in which each
    makes all calls itself.

    Every operation ends: with the results, with an error that an actor raised, or with
    `ActorLostError` after a timeout.
    """

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
