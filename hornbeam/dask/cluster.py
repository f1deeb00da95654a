"""The verbs of a cluster on Dask's: an actor is a member, its worker the place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from functools import reduce
from importlib import import_module
from operator import add
from typing import Any
from uuid import uuid4

import distributed
from distributed.protocol.pickle import dumps

from hornbeam.backends.cluster import Call, Cluster, Member, MemberLostError, Share
from hornbeam.dask.rpc import GoneError, ask, packed, watch
from hornbeam.dask.tree_reduction import Branch, ask_branch, branches_of
from hornbeam.dask.workers import Workers
from hornbeam.errors import ClusterError, ErrorCode, HornbeamError

__all__ = ["DaskCluster"]

#: Seconds a worker has to import what its actors are.
_FIRST_IMPORT = 60.0
#: From so many members on, they add their answers up among each other.
_TREE_FROM = 16
#: Members that one of them asks and adds up.
_TREE_WIDTH = 4


class DaskCluster(Workers, Cluster):
    """Actors on the workers of a Dask cluster.

    Parameters
    ----------
    client
        As for `Workers`.
    actor
        The class of the actors; called with the numbers of a share, its parts and the
        options of `place`.
    patience
        As for `Workers`.
    tree_from, tree_width
        From how many members on sums are taken in a tree, and of how many branches.
    """

    def __init__(
        self,
        client: Any,
        actor: type,
        *,
        patience: float | str | None = None,
        tree_from: int = _TREE_FROM,
        tree_width: int = _TREE_WIDTH,
    ) -> None:
        super().__init__(client, patience)
        self._actor = actor
        self._tree_from, self._tree_width = tree_from, tree_width
        self._futures: dict[int, Any] = {}
        self._ready: set[str] = set()
        self._readying: dict[str, asyncio.Future[None]] = {}
        self._placed = 0

    # The verbs

    def place(self, shares: Sequence[Share], *options: Any) -> list[Member]:
        return self._wait(self._place(shares, options))

    def place_later(
        self, shares: Sequence[Share], calls: Sequence[Call], *options: Any
    ) -> Future[list[Member]]:
        """Make members as `place` does, and have them answer calls; wait for nothing.

        If that is cancelled, or one of them is lost, all are let go of.
        """
        return self._begun(self._place_and_call(shares, options, calls))

    def ready(self) -> list[str]:
        """Return the workers that can have members at once; have others get ready."""
        return self._wait(self._ready_now())

    def call(self, members: Sequence[Member], verb: str, *args: Any) -> list[Any]:
        return self._wait(self._call(members, packed(verb, args)))

    def sum(self, members: Sequence[Member], verb: str, *args: Any) -> Any:
        if len(members) < self._tree_from:
            return reduce(add, self.call(members, verb, *args))
        return self._wait(self._sum(members, packed(verb, args)))

    def close(self) -> None:
        for future in list(self._futures.values()):
            future.release()
        self._futures.clear()

    # On the client's event loop

    async def _call(self, members: Sequence[Member], message: Any) -> list[Any]:
        return await self._each(members, lambda m: self._ask(m, message))

    async def _sum(self, members: Sequence[Member], message: Any) -> Any:
        branches = branches_of(
            [Branch(m, self._key(m), ()) for m in members], self._tree_width
        )
        below = {branch.member.number: branch for branch in branches}
        answers = await self._each(
            [branch.member for branch in branches],
            lambda m: self._ask(m, message, below[m.number]),
        )
        return reduce(add, answers)

    async def _each(
        self,
        members: Sequence[Member],
        ask_one: Callable[[Member], Coroutine[Any, Any, Any]],
    ) -> list[Any]:
        """Return the answers of all, once all have answered or been given up."""
        answers = await asyncio.gather(
            *(ask_one(member) for member in members), return_exceptions=True
        )
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        if not errors:
            return answers
        errors.sort(key=_rank)
        if not isinstance(errors[0], MemberLostError):
            raise errors[0]
        lost = {
            member.number: member
            for error in errors
            if isinstance(error, MemberLostError)
            for member in error.members
        }
        await self._give_up(member.place for member in lost.values())
        raise MemberLostError(lost.values())

    async def _ask(
        self, member: Member, message: Any, branch: Branch | None = None
    ) -> Any:
        """Return what a member answers, or the sum over the branch that it is of."""
        future = self._futures[member.number]

        def is_known_dead() -> bool:
            return bool(future.status != "finished")

        try:
            peer = await self._peer(member.place)
            if branch is None:
                return await ask(
                    peer, future.key, message, self.patience, is_known_dead
                )
            return await ask_branch(peer, branch, message, self.patience, is_known_dead)
        except GoneError:
            raise MemberLostError([member]) from None

    def _key(self, member: Member) -> str:
        return str(self._futures[member.number].key)

    async def _peer(self, address: str) -> Any:
        """Return what takes calls of a worker, once it can have actors."""
        peer = await self._reached(address)
        if address not in self._ready:
            await self._import_on(address, peer)
            self._ready.add(address)
        return peer

    async def _ready_now(self) -> list[str]:
        places = await self._alive()
        for place in places:
            if place not in self._ready and place not in self._readying:
                self._readying[place] = asyncio.ensure_future(self._get_ready(place))
        return [place for place in places if place in self._ready]

    async def _get_ready(self, place: str) -> None:
        try:
            await self._peer(place)
        except (GoneError, ClusterError):
            return  # whoever needs this worker will be told
        finally:
            del self._readying[place]

    async def _import_on(self, address: str, peer: Any) -> None:
        """Have a worker import what its actors are.

        No actor can be made where that is not possible. It may take a new worker many
        seconds, in which its event loop goes on answering.
        """
        module = self._actor.__module__

        async def load(name: str) -> None:
            await asyncio.to_thread(import_module, name)

        message = {"function": dumps(load), "args": dumps((module,))}
        message |= {"kwargs": dumps({}), "wait": True}
        try:
            await asyncio.wait_for(peer.echo(data=0), self.patience)
            reply = await asyncio.wait_for(peer.run(**message), _FIRST_IMPORT)
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            raise GoneError from error
        if reply["status"] != "OK":
            raise ClusterError(
                f"the worker at {address} cannot import {module}: "
                f"{reply['exception_text']}; install the same Hornbeam everywhere",
                code=ErrorCode.WORKER_VERSION_MISMATCH,
            )

    async def _place(
        self, shares: Sequence[Share], options: tuple[Any, ...]
    ) -> list[Member]:
        members = []
        of_member = {}
        for share in shares:
            member = Member(self._placed, share.place, share.numbers)
            self._placed += 1
            members.append(member)
            of_member[member.number] = share
        try:
            # What they are made of may have to come from workers that are none of them.
            await self._guarded(
                self._each(
                    members, lambda m: self._make(m, of_member[m.number], options)
                )
            )
        except BaseException:
            self.drop(members)
            raise
        return members

    async def _place_and_call(
        self, shares: Sequence[Share], options: tuple[Any, ...], calls: Sequence[Call]
    ) -> list[Member]:
        members = await self._place(shares, options)
        try:
            for verb, args in calls:
                await self._call(members, packed(verb, args))
        except BaseException:
            self.drop(members)
            raise
        return members

    async def _make(
        self, member: Member, share: Share, options: tuple[Any, ...]
    ) -> None:
        try:
            peer = await self._peer(share.place)
        except GoneError:
            raise MemberLostError([member]) from None
        try:
            future = self._client.submit(
                self._actor,
                share.numbers,
                share.parts,
                *options,
                key=f"{self._actor.__name__}-{uuid4().hex}",
                workers=[share.place],
                allow_other_workers=False,
                actor=True,
                pure=False,
            )
        except RuntimeError as error:  # a client that is closed
            raise self._closed() from error
        self._futures[member.number] = future
        try:
            await watch(
                _finished(future),
                peer,
                self.patience,
                lambda: future.status not in ("pending", "finished"),
            )
        except GoneError:
            raise MemberLostError([member]) from None
        if future.status == "error":
            raise await future.exception()
        if future.status != "finished":
            raise MemberLostError([member])

    def drop(self, members: Sequence[Member]) -> None:
        """Let go of members."""
        for member in members:
            future = self._futures.pop(member.number, None)
            if future is not None:
                future.release()


async def _finished(future: Any) -> None:
    await distributed.wait([future])


def _rank(error: BaseException) -> int:
    """Order errors: what a caller can mend first, lost members last."""
    if isinstance(error, MemberLostError):
        return 2
    return 0 if isinstance(error, HornbeamError) else 1
