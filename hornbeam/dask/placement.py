"""The rows of one matrix on members of a cluster, whoever has them just now."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from hornbeam.backends.cluster import Call, Member, MemberLostError, Share
from hornbeam.dask.clients import check_workers
from hornbeam.dask.cluster import DaskCluster
from hornbeam.dask.matrix import DaskDMatrix
from hornbeam.dask.workers import NO_WORKER, no_worker
from hornbeam.data.schema import Schema
from hornbeam.errors import ClusterError, ErrorCode

__all__ = ["Holding"]

#: How often the same partitions are put on workers that are then lost, before they
#: are taken to be what kills them.
_TRIES = 4
#: Seconds from one look for new workers to the next.
_LOOK = 0.25

#: Partitions that stay together.
Group = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _HandOver:
    """Partitions on the way from members to others, who are getting ready."""

    giving: list[Member]
    taking: Future[list[Member]]


class Holding(ABC):
    """Members that hold all partitions of a matrix, and others when some are lost.

    Parameters
    ----------
    cluster
        Where they are.
    matrix
        Whose partitions they hold.
    schema, unseen, of
        The columns that the rows are read with: see `Rowset.prepare`.
    """

    def __init__(
        self,
        cluster: DaskCluster,
        matrix: DaskDMatrix,
        schema: Schema,
        unseen: str,
        of: str,
    ) -> None:
        self.cluster, self.matrix = cluster, matrix
        self.members: list[Member] = []
        self._schema = schema
        self._reading = (schema, matrix.first_rows, unseen, of)
        self._groups = [tuple(group) for group in matrix.together]
        self._looked = time.monotonic()
        self._hand_over: _HandOver | None = None

    @abstractmethod
    def _beginning(self) -> list[Call]:
        """Return what brings members with prepared rows to where all others are."""

    def hold(self) -> None:
        """Give all partitions to members."""
        self.members = self._held_by_new(self._groups)
        self._settle()

    def mend(self, lost: MemberLostError) -> None:
        """Give the partitions of lost members to others; bring all to one state."""
        self._stop_handing_over()
        while True:
            self._forget(lost)
            try:
                self._rewind()
                held = {number for member in self.members for number in member.parts}
                missing = [group for group in self._groups if group[0] not in held]
                if missing:
                    self.members = [*self.members, *self._held_by_new(missing)]
                self._settle()
                return
            except MemberLostError as more:
                lost = more

    def welcome(self) -> None:
        """Give partitions to workers that have none, if others have too many.

        They get ready while those go on, for as many rounds as that takes; the last
        trees that grow meanwhile are all that has to be waited for.
        """
        if self._hand_over is not None:
            if self._hand_over.taking.done():
                self._take_over(self._hand_over)
            return
        if time.monotonic() - self._looked < _LOOK:
            return
        self._looked = time.monotonic()
        idle = set(self.cluster.ready()) - {member.place for member in self.members}
        if idle:
            self._share_with(sorted(idle))

    # What comes of it

    def _rewind(self) -> None:
        """Bring the members that are left back to where the model is."""
        return

    def _settle(self) -> None:
        """Take note that there are other members."""
        return

    def _before_moving(self) -> None:
        """Have members finish what was put off."""
        return

    def _catch_up(self, members: Sequence[Member]) -> None:
        """Bring members that began a while ago to where all others are now."""
        return

    def _forget(self, lost: MemberLostError) -> None:
        places = {member.place for member in lost.members}
        gone = [member for member in self.members if member.place in places]
        self.cluster.drop(gone)
        self.members = [m for m in self.members if m.place not in places]

    def _held_by_new(self, groups: Sequence[Group]) -> list[Member]:
        """Return new members for these partitions."""
        for _ in range(_TRIES):
            members: list[Member] = []
            try:
                members = self._place(self._shares(groups, self._places()))
                self._prepare(members)
                return members
            except MemberLostError:
                self.cluster.drop(members)
        # Dask calls a part lost until it has made it anew: by now it would have.
        self._check_there(
            [number for group in groups for number in group],
            ("cancelled", "error", "lost"),
        )
        numbers = ", ".join(str(n) for group in groups[:5] for n in group)
        raise ClusterError(
            f"workers were lost {_TRIES} times in a row while partitions were put on "
            f"them ({numbers}{' ...' if len(groups) > 5 else ''}); give the workers "
            "more memory, or make the partitions smaller",
            code=ErrorCode.WORKERS_LOST,
        )

    def _place(self, shares: Sequence[Share]) -> list[Member]:
        self._check(shares)
        return self.cluster.place(shares, self.matrix.opening)

    def _check(self, shares: Sequence[Share]) -> None:
        check_workers(self.matrix.client, [share.place for share in shares])
        for share in shares:
            self._check_there(share.numbers, ("cancelled", "error"))

    def _check_there(self, numbers: Iterable[int], bad: Collection[str]) -> None:
        """Raise an error if Dask neither has a partition nor can make it anew."""
        for number in numbers:
            part = self.matrix.parts[number]
            if part.status not in bad:
                continue
            reason = (
                "Dask had been given the data itself, not how to make it; read or "
                "compute the partitions on the workers instead of scattering them"
            )
            if part.status == "error":
                error = part.exception(timeout=10)
                reason = f"{type(error).__name__}: {error}"
            raise ClusterError(
                f"partition {number} was lost with its worker and cannot be made anew: "
                f"{reason}",
                code=ErrorCode.PARTITION_LOST,
            )

    def _prepare(self, members: Sequence[Member]) -> None:
        self.cluster.call(members, "prepare", *self._reading)
        self._ready(members)

    def _ready(self, members: Sequence[Member]) -> None:
        for verb, args in self._beginning():
            self.cluster.call(members, verb, *args)

    def _places(self) -> list[str]:
        """Return the workers there are, if need be after waiting for one."""
        end = time.monotonic() + NO_WORKER
        while True:
            # In mid-training nobody waits for a worker that has all to import yet.
            places = self.cluster.ready()
            if not self.members:
                places = self.cluster.alive()
            if places:
                return places
            if time.monotonic() > end:
                raise no_worker()
            time.sleep(0.1)

    def _shares(self, groups: Sequence[Group], places: Sequence[str]) -> list[Share]:
        """Return who shall hold what: as many rows each, and where they are already."""
        loads = dict.fromkeys(places, 0)
        for member in self.members:
            if member.place in loads:
                loads[member.place] += self._size(member.parts)
        sizes = {group: self._size(group) for group in groups}
        fair = (sum(loads.values()) + sum(sizes.values())) / len(places)
        where = self.cluster.whereabouts([self.matrix.parts[g[0]] for g in groups])
        homes = dict(zip(groups, where, strict=True))
        chosen: dict[str, list[Group]] = {}
        for group in sorted(groups, key=lambda g: -sizes[g]):
            place = homes[group]
            if place not in loads or loads[place] + sizes[group] > 1.05 * fair:
                place = min(loads, key=lambda p: (loads[p], p))
            loads[place] += sizes[group]
            chosen.setdefault(place, []).append(group)
        return [self._share(some, place) for place, some in chosen.items()]

    def _share(self, groups: Iterable[Group], place: str) -> Share:
        numbers = tuple(sorted(number for group in groups for number in group))
        return Share(numbers, place, tuple(self.matrix.parts[n] for n in numbers))

    def _size(self, numbers: Iterable[int]) -> int:
        return int(np.diff(self.matrix.first_rows)[list(numbers)].sum())

    def _share_with(self, places: Sequence[str]) -> None:
        """Begin to hand what others have too much of to workers that have nothing."""
        moving = self._surplus(len(places))
        if not moving:
            return
        shares = self._shares(moving, places)
        giving = []
        for member in self.members:
            groups = self._groups_of([member])
            staying = [group for group in groups if group not in moving]
            if len(staying) < len(groups):
                giving.append(member)
                if staying:
                    shares.append(self._share(staying, member.place))
        self._check(shares)
        calls = [("prepare", self._reading), *self._beginning()]
        taking = self.cluster.place_later(shares, calls, self.matrix.opening)
        self._hand_over = _HandOver(giving, taking)

    def _surplus(self, n_more: int) -> list[Group]:
        """Return what workers have above their share, if there are some more of them.

        What a worker got last, from one that was lost, it gives first: it is a member
        of its own, and the others stay as they are.
        """
        by_place: dict[str, list[Group]] = {}
        for member in reversed(self.members):
            groups = by_place.setdefault(member.place, [])
            groups += reversed(self._groups_of([member]))
        fair = self.matrix.n_rows / (len(by_place) + n_more)
        surplus = []
        for groups in by_place.values():
            load = sum(self._size(group) for group in groups)
            for group in groups:
                load -= self._size(group)
                if load < fair:
                    break
                surplus.append(group)
        return surplus

    def _take_over(self, hand_over: _HandOver) -> None:
        """Ask those who have got ready instead of those they have it from."""
        self._before_moving()
        self._hand_over = None
        members: list[Member] = []
        try:
            members = hand_over.taking.result()
            self._catch_up(members)
        except MemberLostError:
            # They stay where they are; if that worker is lost, too, it will be noticed.
            self.cluster.drop(members)
            return
        giving = hand_over.giving
        self.cluster.drop(giving)
        self.members = [m for m in self.members if m not in giving] + members
        self._settle()

    def _stop_handing_over(self) -> None:
        hand_over, self._hand_over = self._hand_over, None
        if hand_over is None or hand_over.taking.cancel():
            return
        if hand_over.taking.exception() is None:
            self.cluster.drop(hand_over.taking.result())

    def _groups_of(self, members: Iterable[Member]) -> list[Group]:
        numbers = {number for member in members for number in member.parts}
        return [group for group in self._groups if group[0] in numbers]

    def close(self) -> None:
        """Let go of the members."""
        self._stop_handing_over()
        self.cluster.drop(self.members)
        self.members = []
