"""The verbs of a cluster on Dask's: an actor is a member, its worker the place."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial, reduce
from importlib import import_module
from operator import add
from typing import Any, TypeVar
from uuid import uuid4

import dask
import distributed
from dask.utils import parse_timedelta
from distributed.actor import ProxyRPC
from distributed.protocol.pickle import dumps

from hornbeam.backends.cluster import Cluster, Member, MemberLostError, Share
from hornbeam.dask.asking import GoneError, ask, packed, watch
from hornbeam.dask.branches import Branch, ask_branch, branches_of
from hornbeam.errors import ClusterError, HornbeamError, ParameterError

__all__ = ["DaskCluster"]

Result = TypeVar("Result")

#: Seconds from one look at the client to the next while an answer is waited for.
_LOOK = 1.0
#: Seconds a worker has for a first answer over a connection of the client's own.
_DIRECT = 3.0
#: Seconds it has to import what its actors are.
_FIRST_IMPORT = 60.0
#: From so many members on, they add their answers up among each other.
_TREE_FROM = 16
#: Members that one of them asks and adds up.
_TREE_WIDTH = 4


class DaskCluster(Cluster):
    """Actors on the workers of a Dask cluster.

    Parameters
    ----------
    client
        Connected, and not asynchronous.
    actor
        The class of the actors; called with the numbers of a share, its parts and the
        options of `place`.
    patience
        Seconds without any sign of life after which a worker is given up; None: the
        setting ``hornbeam.patience`` of Dask, or 10.
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
        if client.asynchronous:
            raise ParameterError(
                "the Dask client is asynchronous; train with a client that is not, in "
                "a thread of its own: Client(address)"
            )
        if patience is None:
            patience = dask.config.get("hornbeam.patience", 10.0)
        seconds = parse_timedelta(patience)
        if not seconds > 0.0:
            raise ParameterError(f"patience must be above 0 seconds, not {patience!r}")
        self.patience = float(seconds)
        self._client = client
        self._address = client.scheduler.address
        self._actor = actor
        self._tree_from, self._tree_width = tree_from, tree_width
        self._futures: dict[int, Any] = {}
        self._peers: dict[str, Any] = {}
        self._left: set[str] = set()
        self._placed = 0

    # The verbs

    def alive(self) -> list[str]:
        return self._wait(self._alive())

    def place(self, shares: Sequence[Share], *options: Any) -> list[Member]:
        return self._wait(self._place(shares, options))

    def call(self, members: Sequence[Member], verb: str, *args: Any) -> list[Any]:
        return self._wait(self._call(members, packed(verb, args)))

    def sum(self, members: Sequence[Member], verb: str, *args: Any) -> Any:
        if len(members) < self._tree_from:
            return reduce(add, self.call(members, verb, *args))
        return self._wait(self._sum(members, packed(verb, args)))

    def whereabouts(self, futures: Sequence[Any]) -> list[str | None]:
        """Return a worker that has each of these futures, None where none has."""
        return self._wait(self._whereabouts([future.key for future in futures]))

    def close(self) -> None:
        for future in self._futures.values():
            future.release()
        self._futures.clear()

    # On the client's event loop

    def _wait(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Return what `coroutine` does on the loop, or see that the loop has ended."""
        loop = self._client.loop.asyncio_loop
        if (
            self._client.status not in ("running", "connecting")
            or not loop.is_running()
        ):
            coroutine.close()
            raise self._closed()
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        while True:
            try:
                return future.result(_LOOK)
            except concurrent.futures.TimeoutError:
                if future.done():  # in this moment, or with an error of this kind
                    return future.result()
                if not loop.is_running():
                    raise self._closed() from None
            except concurrent.futures.CancelledError:
                raise self._closed() from None
            except BaseException:
                future.cancel()
                raise

    def _closed(self) -> ClusterError:
        return ClusterError(
            "the Dask client was closed while it was needed; keep it open until "
            "training and prediction are done"
        )

    async def _of_scheduler(self, question: Callable[[Any], Awaitable[Any]]) -> Any:
        """Return what the scheduler answers, or say that it does not."""
        try:
            answer = question(self._scheduler())
            return await asyncio.wait_for(answer, self.patience)
        except (TimeoutError, OSError, RuntimeError) as error:
            self._scheduler()
            raise ClusterError(
                f"the Dask scheduler at {self._address} "
                f"does not answer: it has died, was stopped or is cut off; start the "
                "cluster anew"
            ) from error

    def _scheduler(self) -> Any:
        """Return the connection to the scheduler of a client that is open."""
        if self._client.status in ("closing", "closed"):
            raise self._closed()
        return self._client.scheduler

    async def _alive(self) -> list[str]:
        identity = await self._of_scheduler(lambda s: s.identity(n_workers=-1))
        return sorted(set(identity["workers"]) - self._left)

    async def _whereabouts(self, keys: list[Any]) -> list[str | None]:
        found = await self._of_scheduler(lambda s: s.who_has(keys=keys))
        return [next(iter(found.get(key) or ()), None) for key in keys]

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
        await self._give_up(lost.values())
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
        """Return what takes calls of a worker: directly, or else by the scheduler."""
        peer = self._peers.get(address)
        if peer is None:
            peer = await self._meet(address)
            self._peers[address] = peer
        return peer

    async def _meet(self, address: str) -> Any:
        peer = self._client.rpc(address)
        try:
            await asyncio.wait_for(peer.echo(data=0), min(_DIRECT, self.patience))
        except (OSError, RuntimeError):
            peer = ProxyRPC(self._scheduler(), address)
        # No actor can be made where it cannot be imported; and while it is imported,
        # which may take a new worker many seconds, a worker answers nobody.
        module = self._actor.__module__
        message = {"function": dumps(import_module), "args": dumps((module,))}
        message |= {"kwargs": dumps({}), "wait": True}
        try:
            await asyncio.wait_for(peer.echo(data=0), self.patience)
            reply = await asyncio.wait_for(peer.run(**message), _FIRST_IMPORT)
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            raise GoneError from error
        if reply["status"] != "OK":
            raise ClusterError(
                f"the worker at {address} cannot import {module}: "
                f"{reply['exception_text']}; install the same Hornbeam everywhere"
            )
        return peer

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
            await self._each(
                members, lambda m: self._make(m, of_member[m.number], options)
            )
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

    async def _give_up(self, lost: Any) -> None:
        """Have the scheduler forget workers that are silent but not known as dead.

        What they hold for Dask is then computed elsewhere, and a worker that wakes up
        finds that it is no longer wanted.
        """
        for place in {member.place for member in lost} - self._left:
            self._left.add(place)
            self._peers.pop(place, None)

            async def forget(dask_scheduler: Any, address: str) -> None:
                await dask_scheduler.remove_worker(
                    address, stimulus_id="hornbeam-patience"
                )

            # A function of a module would need Hornbeam on the scheduler.
            message = {"function": dumps(forget), "args": dumps(()), "wait": True}
            # By name, since that is how the scheduler gives itself.
            message["kwargs"] = dumps({"address": place})
            await self._of_scheduler(partial(_run_function, message=message))


async def _run_function(scheduler: Any, message: dict[str, Any]) -> None:
    await scheduler.run_function(**message)


async def _finished(future: Any) -> None:
    await distributed.wait([future])


def _rank(error: BaseException) -> int:
    """Order errors: what a caller can mend first, lost members last."""
    if isinstance(error, MemberLostError):
        return 2
    return 0 if isinstance(error, HornbeamError) else 1
