"""The `Transport` on Dask: actors on workers, with calls and sums."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import reduce
from operator import add
from typing import Any, NoReturn, TypeVar

import distributed
from distributed.actor import ProxyRPC
from distributed.protocol.pickle import dumps, loads

from hornbeam.backends.cluster import ActorLostError, RowActor
from hornbeam.dask.channel import ActorChannel, exchange, open_channel
from hornbeam.dask.client import task_key
from hornbeam.dask.rpc import (
    ReducingActor,
    call_actor,
    pack_call,
    watch,
)
from hornbeam.dask.workers import CONNECT_TIMEOUT, Workers
from hornbeam.distributed.messages import Message
from hornbeam.distributed.partitions import Partition, PartitionReader
from hornbeam.distributed.reduction_tree import (
    TREE_FROM,
    TREE_WIDTH,
    ReductionTree,
    reduction_trees,
)
from hornbeam.distributed.shard import Shard, Worker
from hornbeam.distributed.training_rows import CustomObjective
from hornbeam.distributed.transport import (
    Share,
    Transport,
    WorkerLostError,
    first_error,
)
from hornbeam.errors import ClusterError, ErrorCode

__all__ = ["DaskCluster", "DaskShard", "this_worker"]

Item = TypeVar("Item")


class DaskShard(ReducingActor, Shard):
    """A `Shard` on a Dask worker; the parameters are the same, but for the worker."""

    def __init__(
        self,
        numbers: Sequence[int],
        partitions: Sequence[Partition],
        reader: PartitionReader,
    ) -> None:
        ReducingActor.__init__(self)
        Shard.__init__(self, numbers, partitions, reader, this_worker())


def this_worker() -> Worker:
    """Return the Dask worker whose task or actor calls this."""
    worker = distributed.get_worker()
    return Worker(str(worker.address), int(worker.state.nthreads))


class DaskCluster(Workers, Transport):
    """Actors on the workers of a Dask cluster.

    Parameters
    ----------
    client
        As for `Workers`.
    actor_type
        The class of the actors. It is called with the numbers of a share, its parts and
        the options of `place`.
    patience
        As for `Workers`.
    tree_from, tree_width
        The number of actors from which sums are computed by tree reduction, and the
        children of each node of the tree.
    """

    def __init__(
        self,
        client: Any,
        actor_type: type = DaskShard,
        *,
        patience: float | str | None = None,
        tree_from: int = TREE_FROM,
        tree_width: int = TREE_WIDTH,
    ) -> None:
        super().__init__(client, patience)
        self._actor_type, self._module = actor_type, actor_type.__module__
        self._tree_from, self._tree_width = tree_from, tree_width
        #: Futures of the actors, by the actor's number.
        self._futures: dict[int, Any] = {}
        #: By worker: its import of the module of the actors, while that goes on.
        self._importing: dict[str, asyncio.Future[None]] = {}
        self._numbers = itertools.count()
        #: By the actor's number; None: it can only be called by Dask.
        self._channels: dict[int, ActorChannel | None] = {}

    def place(self, shares: Sequence[Share], *options: Any) -> list[RowActor]:
        return self._wait(self._place(shares, options))

    def check(self, shares: Sequence[Share], *, overdue: bool = False) -> None:
        self.prepare(share.place for share in shares)
        # A future has the status "lost" until Dask has computed it again.
        bad = ("cancelled", "error", "lost") if overdue else ("cancelled", "error")
        for share in shares:
            for number, part in zip(share.numbers, share.parts, strict=True):
                if part.status in bad:
                    raise _lost_for_good(number, part)

    def custom_objective(self, function: Any) -> CustomObjective:
        return CustomObjective(dumps(function), loads)

    def ready(self) -> list[str]:
        """Return the workers that have imported the actors' module.

        The other workers start to import it in the background.
        """
        return self._wait(self._ready_workers())

    def call(self, actors: Sequence[RowActor], operation: str, *args: Any) -> list[Any]:
        channels = None
        if len(actors) < self._tree_from:
            channels = self._open_channels(actors)
        if channels is None:
            return self._call_trees(map(self._leaf, actors), operation, args)
        try:
            results = exchange(channels, _message_of(operation, args))
            errors = _errors_in(results)
            if errors:
                self._wait(self._raise(errors))
        except BaseException:
            # An answer may still come: the next call needs other channels.
            self._close_channels(actor.number for actor in actors)
            raise
        return results

    def sum(self, actors: Sequence[RowActor], operation: str, *args: Any) -> Any:
        if len(actors) < self._tree_from:
            return super().sum(actors, operation, *args)
        trees = reduction_trees(list(map(self._leaf, actors)), self._tree_width)
        return reduce(add, self._call_trees(trees, operation, args))

    def _call_trees(
        self, trees: Iterable[ReductionTree], operation: str, args: tuple[Any, ...]
    ) -> list[Any]:
        """Return the sum of the results of each tree of actors, which Dask calls."""
        message = pack_call(operation, args)
        calls = self._gather_all(trees, lambda tree: self._call_one(tree, message))
        return self._wait(calls)

    def drop(self, actors: Sequence[RowActor]) -> None:
        self._release([actor.number for actor in actors])

    def close(self) -> None:
        self._release(list(self._futures))

    def _release(self, numbers: Sequence[int]) -> None:
        self._close_channels(numbers)
        for number in numbers:
            future = self._futures.pop(number, None)
            if future is not None:
                future.release()

    # Coroutines on the client's event loop

    def _leaf(self, actor: RowActor) -> ReductionTree:
        return ReductionTree(actor, self._key(actor), ())

    async def _gather_all(
        self,
        items: Iterable[Item],
        call_one: Callable[[Item], Coroutine[Any, Any, Any]],
    ) -> list[Any]:
        """Return the results of all calls, once each has ended or its worker is lost.

        Workers that are lost are removed from the cluster.
        """
        results = await asyncio.gather(
            *(call_one(item) for item in items), return_exceptions=True
        )
        errors = _errors_in(results)
        if errors:
            await self._raise(errors)
        return results

    async def _raise(self, errors: list[BaseException]) -> NoReturn:
        """Raise the most important error; remove lost workers from the cluster."""
        error = first_error(errors)
        if isinstance(error, ActorLostError):
            await self._remove(actor.place for actor in error.actors)
        raise error

    def _open_channels(self, actors: Sequence[RowActor]) -> list[ActorChannel] | None:
        """Return the channels to actors; None if one of them cannot have a channel."""
        new = [actor for actor in actors if actor.number not in self._channels]
        if new:
            self._wait(self._gather_all(new, self._open_channel))
        found = [self._channels[actor.number] for actor in actors]
        channels = [channel for channel in found if channel is not None]
        return channels if len(channels) == len(found) else None

    async def _open_channel(self, actor: RowActor) -> None:
        with _loss_of(actor):
            peer = await self._prepare(actor.place)
        connection = None
        if not isinstance(peer, ProxyRPC):  # the client can connect to the worker
            timeout = min(CONNECT_TIMEOUT, self.patience)
            connection = await open_channel(
                actor.place, self._key(actor), timeout, **self._client.connection_args
            )
        channel = None
        if connection is not None:
            channel = ActorChannel(
                actor,
                connection,
                self._watch_actor,
                self._check_client,
                self.patience,
            )
        self._channels[actor.number] = channel

    def _close_channels(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            channel = self._channels.pop(number, None)
            if channel is not None:
                channel.close()

    def _watch_actor(self, actor: RowActor) -> Future[None]:
        """Start to watch an actor's worker; the future fails if it is lost."""
        return self._submit(self._watch_until_lost(actor))

    async def _watch_until_lost(self, actor: RowActor) -> None:
        peer = await self._connect(actor.place)
        await watch(_never(), peer, self.patience, lambda: self._is_gone(actor))

    def _is_gone(self, actor: RowActor) -> bool:
        """Return whether Dask knows that an actor is lost with its worker."""
        return bool(self._futures[actor.number].status != "finished")

    async def _call_one(self, tree: ReductionTree, message: Any) -> Any:
        """Return the result of one actor, or the sum over the tree that it heads."""
        actor = tree.actor
        with _loss_of(actor):
            peer = await self._prepare(actor.place)
            return await call_actor(
                peer, tree, message, self.patience, lambda: self._is_gone(actor)
            )

    def _key(self, actor: RowActor) -> str:
        return str(self._futures[actor.number].key)

    async def _ready_workers(self) -> list[str]:
        places, ready = await self._alive(), []
        for place in places:
            if (place, self._module) in self._prepared:
                ready.append(place)
            elif place not in self._importing:
                self._importing[place] = asyncio.ensure_future(self._import_on(place))
        return ready

    async def _import_on(self, place: str) -> None:
        try:
            await self._prepare(place)
        except (WorkerLostError, ClusterError):
            return  # raised again when an actor is placed on this worker
        finally:
            del self._importing[place]

    async def _place(
        self, shares: Sequence[Share], options: tuple[Any, ...]
    ) -> list[RowActor]:
        actors = [RowActor(next(self._numbers), s.place, s.numbers) for s in shares]
        pairs = list(zip(actors, shares, strict=True))
        try:
            # Guarded, since the parts may have to come from any other worker.
            await self._guard(
                self._gather_all(pairs, lambda pair: self._create(*pair, options))
            )
        except BaseException:
            self.drop(actors)
            raise
        return actors

    async def _create(
        self, actor: RowActor, share: Share, options: tuple[Any, ...]
    ) -> None:
        """Create an actor on its worker."""
        with _loss_of(actor):
            peer = await self._prepare(share.place)
        try:
            future = self._client.submit(
                self._actor_type,
                share.numbers,
                share.parts,
                *options,
                key=task_key("rows"),
                workers=[share.place],
                allow_other_workers=False,
                actor=True,
                pure=False,
            )
        except RuntimeError as error:  # the client is closed
            raise self._client_closed() from error
        self._futures[actor.number] = future
        with _loss_of(actor):
            await watch(
                _finished(future),
                peer,
                self.patience,
                lambda: future.status not in ("pending", "finished"),
            )
        if future.status == "error":
            raise await future.exception()
        if future.status != "finished":
            raise ActorLostError([actor])


def _message_of(operation: str, args: tuple[Any, ...]) -> Message:
    """Return the message of a call, which Python pickles if it can.

    For whatever it cannot, and for objects of scripts, there is Dask's function. It
    does the same, and takes longer, since it looks for the module of the value.
    """
    try:
        message = Message.of((operation, args))
        if b"__main__" not in message.frames[0]:
            return message
    except Exception:  # whichever a method of an object may raise
        pass
    return Message.of((operation, args), dumps)


@contextmanager
def _loss_of(actor: RowActor) -> Iterator[None]:
    """Raise that an actor is lost if its worker is lost meanwhile."""
    try:
        yield
    except WorkerLostError:
        raise ActorLostError([actor]) from None


def _lost_for_good(number: int, part: Any) -> ClusterError:
    """Return the error of a partition that Dask cannot compute again."""
    reason = (
        "Dask had been given the data itself, not a task that creates it; read or "
        "compute the partitions on the workers instead of scattering them"
    )
    if part.status == "error":
        error = part.exception(timeout=10)
        reason = f"{type(error).__name__}: {error}"
    return ClusterError(
        f"partition {number} was lost with its worker and cannot be computed again: "
        f"{reason}",
        code=ErrorCode.PARTITION_LOST,
    )


async def _finished(future: Any) -> None:
    await distributed.wait([future])


async def _never() -> None:
    await asyncio.Event().wait()


def _errors_in(results: Sequence[Any]) -> list[BaseException]:
    return [result for result in results if isinstance(result, BaseException)]
