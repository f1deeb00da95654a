"""Placement of a matrix's partitions on workers, recovery from losses, rebalancing."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from hornbeam.backends.cluster import ActorLostError, Call, RowActor
from hornbeam.data.schema import Schema
from hornbeam.distributed.partitioned_matrix import PartitionedMatrix
from hornbeam.distributed.transport import (
    NO_WORKER_TIMEOUT,
    Share,
    Transport,
    no_worker_error,
)
from hornbeam.errors import ClusterError, ErrorCode
from hornbeam.features.derived import DerivedFeatures

__all__ = ["Placement"]

#: How often the same partitions are placed on workers that are then lost, before they
#: are considered the cause.
_MAX_ATTEMPTS = 4
#: Seconds between two checks for new workers.
_CHECK_INTERVAL = 0.25

#: Partitions that must be on one worker, since a query group spans them.
Group = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Transfer:
    """Partitions that move from some actors to others, which prepare their rows."""

    sources: list[RowActor]
    targets: Future[list[RowActor]]


class Placement(ABC):
    """Actors that have all partitions of a matrix; lost ones are replaced.

    Parameters
    ----------
    cluster
        The cluster of the actors.
    matrix
        The matrix.
    schema, unseen, of, derived
        The columns with which the rows are read: see `Shard.prepare`.
    """

    def __init__(
        self,
        cluster: Transport,
        matrix: PartitionedMatrix,
        schema: Schema,
        unseen: str,
        of: str,
        derived: DerivedFeatures | None,
    ) -> None:
        self.cluster, self.matrix = cluster, matrix
        self.actors: list[RowActor] = []
        self._schema = schema if derived is None else derived.schema(schema)
        self._prepare_args = (schema, matrix.first_rows, unseen, of, derived)
        self._groups = [tuple(group) for group in matrix.together]
        self._last_check = time.monotonic()
        self._transfer: _Transfer | None = None

    def place(self) -> None:
        """Place all partitions on workers."""
        self.actors = self._place_groups(self._groups)
        self._members_changed()

    def recover(self, lost: ActorLostError) -> None:
        """Place the partitions of lost actors on other workers; synchronise the state.

        All actors are then at the beginning of the round.
        """
        self._cancel_transfer()
        while True:
            self._drop_lost(lost)
            try:
                self._rewind()
                placed = {number for actor in self.actors for number in actor.parts}
                missing = [group for group in self._groups if group[0] not in placed]
                if missing:
                    self.actors = [*self.actors, *self._place_groups(missing)]
                self._members_changed()
                return
            except ActorLostError as more:
                lost = more

    def rebalance(self) -> None:
        """Move partitions to workers without any, from workers with too many.

        The new actors prepare their rows in the background, for as many rounds as that
        takes. Training waits only while they add the trees that grew meanwhile.
        """
        if self._transfer is not None:
            if self._transfer.targets.done():
                self._complete(self._transfer)
            return
        if time.monotonic() - self._last_check < _CHECK_INTERVAL:
            return
        self._last_check = time.monotonic()
        idle = set(self.cluster.ready()) - {actor.place for actor in self.actors}
        if idle:
            self._start_transfer(sorted(idle))

    def close(self) -> None:
        """Release the actors."""
        self._cancel_transfer()
        self.cluster.drop(self.actors)
        self.actors = []

    # Hooks of subclasses

    @abstractmethod
    def _initial_calls(self) -> list[Call]:
        """Return the calls that bring new actors with prepared rows up to date."""

    def _rewind(self) -> None:
        """Reset the remaining actors to the trees of the model."""
        return

    def _members_changed(self) -> None:
        """Update the state that depends on `actors`."""
        return

    def _before_transfer(self) -> None:
        """Send the calls that are deferred to the actors."""
        return

    def _catch_up(self, actors: Sequence[RowActor]) -> None:
        """Bring actors that were prepared in the background up to date."""
        return

    def _initialize(self, actors: Sequence[RowActor]) -> None:
        for operation, args in self._initial_calls():
            self.cluster.call(actors, operation, *args)

    # Placing partitions

    def _drop_lost(self, lost: ActorLostError) -> None:
        places = {actor.place for actor in lost.actors}
        gone = [actor for actor in self.actors if actor.place in places]
        self.cluster.drop(gone)
        self.actors = [m for m in self.actors if m.place not in places]

    def _place_groups(self, groups: Sequence[Group]) -> list[RowActor]:
        """Return new actors with these partitions."""
        shares: list[Share] = []
        for _ in range(_MAX_ATTEMPTS):
            actors: list[RowActor] = []
            try:
                shares = self._shares(groups, self._places())
                self.cluster.check(shares)
                actors = self.cluster.place(shares, self.matrix.reader)
                self.cluster.call(actors, "prepare", *self._prepare_args)
                self._initialize(actors)
                return actors
            except ActorLostError:
                self.cluster.drop(actors)
        self.cluster.check(shares, overdue=True)
        numbers = ", ".join(str(n) for group in groups[:5] for n in group)
        raise ClusterError(
            f"workers were lost {_MAX_ATTEMPTS} times in a row while partitions were "
            f"placed on them ({numbers}{' ...' if len(groups) > 5 else ''}); give the "
            "workers more memory, or make the partitions smaller",
            code=ErrorCode.WORKERS_LOST,
        )

    def _places(self) -> list[str]:
        """Return the addresses of the workers; wait for one if there is none."""
        deadline = time.monotonic() + NO_WORKER_TIMEOUT
        while True:
            # During training do not wait for the imports of workers that have joined.
            places = self.cluster.ready()
            if not self.actors:
                places = self.cluster.alive()
            if places:
                return places
            if time.monotonic() > deadline:
                raise no_worker_error()
            time.sleep(0.1)

    def _shares(self, groups: Sequence[Group], places: Sequence[str]) -> list[Share]:
        """Return the partitions of each worker.

        Each worker gets about the same number of rows, and partitions stay on the
        worker that has their data where this allows it.
        """
        loads = dict.fromkeys(places, 0)
        for actor in self.actors:
            if actor.place in loads:
                loads[actor.place] += self._n_rows(actor.parts)
        sizes = {group: self._n_rows(group) for group in groups}
        fair = (sum(loads.values()) + sum(sizes.values())) / len(places)
        where = self.cluster.locate([self.matrix.parts[g[0]] for g in groups])
        current = dict(zip(groups, where, strict=True))
        chosen: dict[str, list[Group]] = {}
        for group in sorted(groups, key=lambda g: -sizes[g]):
            place = current[group]
            if place not in loads or loads[place] + sizes[group] > 1.05 * fair:
                place = min(loads, key=lambda p: (loads[p], p))
            loads[place] += sizes[group]
            chosen.setdefault(place, []).append(group)
        return [self._share(some, place) for place, some in chosen.items()]

    def _share(self, groups: Iterable[Group], place: str) -> Share:
        numbers = tuple(sorted(number for group in groups for number in group))
        return Share(numbers, place, tuple(self.matrix.parts[n] for n in numbers))

    def _n_rows(self, numbers: Iterable[int]) -> int:
        return int(np.diff(self.matrix.first_rows)[list(numbers)].sum())

    # Rebalancing

    def _start_transfer(self, places: Sequence[str]) -> None:
        """Start to move surplus partitions of other workers to these workers."""
        moving = self._surplus(len(places))
        if not moving:
            return
        shares = self._shares(moving, places)
        sources = []
        for actor in self.actors:
            groups = self._groups_of(actor)
            staying = [group for group in groups if group not in moving]
            if len(staying) < len(groups):
                sources.append(actor)
                if staying:
                    shares.append(self._share(staying, actor.place))
        self.cluster.check(shares)
        calls = [("prepare", self._prepare_args), *self._initial_calls()]
        targets = self.cluster.place_async(shares, calls, self.matrix.reader)
        self._transfer = _Transfer(sources, targets)

    def _surplus(self, n_new: int) -> list[Group]:
        """Return the partitions above each worker's fair share, with new workers.

        Partitions that a worker took over from a lost one come first: they are in an
        actor of their own, so that its other actor stays unchanged.
        """
        by_place: dict[str, list[Group]] = {}
        for actor in reversed(self.actors):
            groups = by_place.setdefault(actor.place, [])
            groups += reversed(self._groups_of(actor))
        fair = self.matrix.n_rows / (len(by_place) + n_new)
        surplus = []
        for groups in by_place.values():
            load = sum(self._n_rows(group) for group in groups)
            for group in groups:
                load -= self._n_rows(group)
                if load < fair:
                    break
                surplus.append(group)
        return surplus

    def _complete(self, transfer: _Transfer) -> None:
        """Replace the sources of a transfer by its targets."""
        self._before_transfer()
        self._transfer = None
        actors: list[RowActor] = []
        try:
            actors = transfer.targets.result()
            self._catch_up(actors)
        except ActorLostError:
            # The sources keep their partitions; if one of them is lost as well, the
            # next call to it fails.
            self.cluster.drop(actors)
            return
        sources = transfer.sources
        self.cluster.drop(sources)
        self.actors = [m for m in self.actors if m not in sources] + actors
        self._members_changed()

    def _cancel_transfer(self) -> None:
        transfer, self._transfer = self._transfer, None
        if transfer is None or transfer.targets.cancel():
            return
        if transfer.targets.exception() is None:
            self.cluster.drop(transfer.targets.result())

    def _groups_of(self, actor: RowActor) -> list[Group]:
        numbers = set(actor.parts)
        return [group for group in self._groups if group[0] in numbers]
