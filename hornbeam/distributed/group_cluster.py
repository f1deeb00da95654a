"""A group of processes as a cluster: every process makes the same calls on its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add
from typing import Any

from hornbeam.backends.cluster import Cluster, RowActor
from hornbeam.distributed.group import Group

__all__ = ["GroupCluster"]


class GroupCluster(Cluster):
    """The processes of a group, each with an object that has a part of the rows.

    There is no client: each process calls the methods of its own object, and all get
    the results of all.

    Parameters
    ----------
    group
        The group.
    own
        The object of this process.
    """

    def __init__(self, group: Group, own: Any) -> None:
        self._group, self._own = group, own
        self.actors = [
            RowActor(rank, name, (rank,)) for rank, name in enumerate(group.names)
        ]

    def call(self, actors: Sequence[RowActor], operation: str, *args: Any) -> list[Any]:
        return self._group.gather(
            operation, lambda: getattr(self._own, operation)(*args)
        )

    def merge(
        self,
        actors: Sequence[RowActor],
        merge: Callable[[Any, Any], Any],
        operation: str,
        *args: Any,
    ) -> Any:
        return self._group.combine(
            operation, lambda: getattr(self._own, operation)(*args), merge
        )

    def sum(self, actors: Sequence[RowActor], operation: str, *args: Any) -> Any:
        return self.merge(actors, add, operation, *args)
