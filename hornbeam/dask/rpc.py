"""Remote calls of actors on Dask workers, tree reduction, and failure detection."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from functools import reduce
from operator import add
from typing import Any

from distributed import get_worker
from distributed.protocol import to_serialize
from distributed.protocol.pickle import dumps, loads

from hornbeam.backends.cluster import ActorLostError
from hornbeam.dask.channel import channel_handler
from hornbeam.distributed.messages import (
    GarbledMessageError,
    Message,
    sendable,
    unpack,
)
from hornbeam.distributed.reduction_tree import ReductionTree
from hornbeam.distributed.transport import WorkerLostError, first_error

__all__ = [
    "FIRST_CHECK",
    "ReducingActor",
    "call_actor",
    "cancel",
    "pack_call",
    "watch",
]

#: Size in bytes from which Dask's zero-copy serialisation of large objects is faster.
_LARGE = 1 << 16

#: Seconds before the first check that the worker of a pending call is alive.
FIRST_CHECK = 0.25
#: Consecutive echoes without a reply after which a worker is considered lost. A single
#: reply may be missed because the client's own event loop was blocked.
_MAX_MISSED_ECHOES = 3
#: Message of the RuntimeError in a worker that is closing and has shut down its thread
#: pools.
_POOL_CLOSED = "cannot schedule new futures"


def pack_call(method: str, args: tuple[Any, ...]) -> Any:
    """Return the serialised call of an actor's method; many actors may receive it."""
    message = dumps((method, args))
    return message if len(message) < _LARGE else to_serialize(message)


async def call_actor(
    peer: Any,
    tree: ReductionTree,
    message: Any,
    patience: float,
    is_known_dead: Callable[[], bool] = lambda: False,
) -> Any:
    """Return the result of an actor's method, or raise the error that it raises.

    If the actor heads a tree, this is the sum of the results of all actors in it.

    Parameters
    ----------
    peer
        The connection to the actor's worker: an `rpc`, or a proxy by the scheduler.
    tree
        The actor, a `ReducingActor`.
    message
        The call, from `pack_call`.
    patience
        Seconds without a reply to an echo after which `WorkerLostError` is raised.
    is_known_dead
        Whether the worker was already reported as lost elsewhere.
    """
    children = to_serialize(tree.children) if tree.children else ()
    call = peer.hornbeam_call(
        key=tree.key, message=message, patience=patience, children=children
    )
    reply = await watch(call, peer, patience, is_known_dead)
    if reply["status"] == "OK":
        return _unpacked(reply["result"])
    error = reply["exception"]
    if isinstance(error, RuntimeError) and _POOL_CLOSED in str(error):
        raise WorkerLostError from error
    raise error


def _unpacked(result: Any) -> Any:
    """Return the result of `ReducingActor.perform`."""
    try:
        return unpack(result) if isinstance(result, bytes) else result
    except GarbledMessageError as error:
        raise WorkerLostError from error


# Tree reduction


class ReducingActor:
    """Base class of actors that `call_actor` calls and that sum results in a tree.

    A method call of Dask's own actors wraps every argument and every result, which
    takes three times as long as sending one block of bytes. A level of a tree is one
    message, so this is a considerable part of a round.
    """

    def __init__(self) -> None:
        worker = get_worker()
        worker.handlers.setdefault("hornbeam_call", _handler(worker))
        worker.handlers.setdefault("hornbeam_channel", channel_handler(worker))
        #: Held during a call: there may be a channel, and calls by Dask beside it.
        self._busy = threading.Lock()
        #: In which code finds its worker.
        self._context = copy_context()
        self._place = f"the worker at {worker.address}"

    def perform(self, message: bytes) -> Any:
        """Execute a packed call; return the result, as a packed message if small.

        Messages of Dask have no checksums.
        """
        method, args = loads(message)
        try:
            with self._busy:
                result = getattr(self, method)(*args)
        except Exception as error:
            raise sendable(error, self._place, dumps) from None
        answer = Message.of(result, dumps)
        return answer.packed() if answer.n_bytes < _LARGE else result

    def answer(self, call: tuple[str, tuple[Any, ...]], shares_memory: bool) -> Message:
        """Execute a call that came over a channel; return the answer to it."""
        method, args = call
        try:
            with self._busy:
                result = self._context.run(getattr(self, method), *args)
            # Results are of types that all have, and Dask's pickling takes longer.
            return Message.of((True, result), shares_memory=shares_memory)
        except Exception as error:
            return Message.of((False, sendable(error, self._place, dumps)), dumps)


def _handler(worker: Any) -> Callable[..., Coroutine[Any, Any, dict[str, Any]]]:
    """Return the handler of ``hornbeam_call`` messages for a worker."""

    async def reduce_child(child: ReductionTree, message: Any, patience: float) -> Any:
        try:
            peer = worker.rpc(child.actor.place)
            return await call_actor(peer, child, message, patience)
        except WorkerLostError:
            raise ActorLostError([child.actor]) from None

    async def hornbeam_call(
        key: str, message: bytes, patience: float, children: Sequence[ReductionTree]
    ) -> dict[str, Any]:
        own = worker.actor_execute(actor=key, function="perform", args=(message,))
        sums = (reduce_child(child, message, patience) for child in children)
        reply, *others = await asyncio.gather(own, *sums, return_exceptions=True)
        if isinstance(reply, BaseException):
            raise reply
        is_done = reply["status"] == "OK"
        result = reply["result"].data if is_done else reply["exception"]
        if is_done and children:
            results = [_unpacked(result), *others]
            errors = [one for one in results if isinstance(one, BaseException)]
            if errors:
                return {"status": "error", "exception": first_error(errors)}
            result = reduce(add, results)
            return {"status": "OK", "result": to_serialize(result)}
        if is_done and isinstance(result, bytes):
            reply["result"] = result
        return dict(reply)

    return hornbeam_call


# Failure detection


async def watch(
    call: Coroutine[Any, Any, Any],
    peer: Any,
    patience: float,
    is_known_dead: Callable[[], bool],
) -> Any:
    """Return the result of `call`; raise `WorkerLostError` if its worker is lost.

    An actor computes in a separate thread, so that the worker's event loop replies to
    an echo however long the computation takes. It does not reply when the process is
    stopped or the network connection is cut.
    """
    reply = asyncio.ensure_future(call)
    echo: asyncio.Future[Any] | None = None
    misses = 0
    interval = patience / _MAX_MISSED_ECHOES
    timeout = min(FIRST_CHECK, interval)
    try:
        while True:
            await asyncio.wait(
                {reply} if echo is None else {reply, echo},
                timeout=timeout,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if reply.done():
                return _result_of(reply)
            if is_known_dead():
                raise WorkerLostError
            if echo is not None:
                if echo.done() and echo.exception() is None:
                    # Alive: send the next echo after an interval.
                    misses, echo = 0, None
                    timeout = interval
                    continue
                misses += 1
                if misses == _MAX_MISSED_ECHOES:
                    raise WorkerLostError
                echo.cancel()
            echo = asyncio.ensure_future(peer.echo(data=misses))
            timeout = interval
    finally:
        for task in (reply, echo):
            cancel(task)


def cancel(task: asyncio.Future[Any] | None) -> None:
    """Cancel a task that is not awaited any more, without a log of its error."""
    if task is None or task.cancelled():
        return
    if task.done():
        task.exception()  # retrieved, so that asyncio does not log it
    else:
        task.cancel()


def _result_of(reply: asyncio.Future[Any]) -> Any:
    try:
        return reply.result()
    except (OSError, RuntimeError, KeyError) as error:
        # A closed connection, a closed connection pool, or an actor that is gone.
        raise WorkerLostError from error
