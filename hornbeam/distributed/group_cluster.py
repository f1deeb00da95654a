"""A group of processes as a cluster: every process makes the same calls on its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

from hornbeam.backends.cluster import Cluster, RowActor
from hornbeam.backends.cluster_rows import PartialSums
from hornbeam.distributed.group import Group
from hornbeam.shared_memory import SharedMemory

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
        # A call merges at most once for each bit of the size. Others may still read the
        # sums of a call while those of the next one are computed.
        n_merges = group.size.bit_length()
        self._memories = cycle([SharedMemory() for _ in range(2 * n_merges)])

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
        return self.merge(actors, self._add, operation, *args)

    def _add(self, one: PartialSums, other: PartialSums) -> PartialSums:
        return one.added(other, next(self._memories))
