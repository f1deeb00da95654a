"""Asking an actor on another worker, and noticing when there is nobody any more."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Coroutine
from typing import Any

from distributed import get_worker
from distributed.protocol import to_serialize
from distributed.protocol.pickle import dumps, loads

__all__ = [
    "FIRST_LOOK",
    "Answering",
    "GoneError",
    "answered",
    "ask",
    "let_go",
    "packed",
    "watch",
]

#: Bytes from which on Dask's way for large objects, without copies, is the faster.
_LARGE = 1 << 16

#: Seconds before the first doubt whether an answer will come.
FIRST_LOOK = 0.25
#: Signs of life asked for in vain, one after the other, before a worker is given up. A
#: single one may be missed because it was the driver that stood still.
_TRIES = 3
#: What Python says in a worker that is being closed and has ended its threads.
_CLOSED = "cannot schedule new futures"


class GoneError(Exception):
    """There is nobody to answer."""


def packed(verb: str, args: tuple[Any, ...]) -> Any:
    """Return the message that asks an actor for this; it may be sent to many."""
    message = dumps((verb, args))
    return message if len(message) < _LARGE else to_serialize(message)


async def ask(
    peer: Any,
    key: str,
    message: Any,
    patience: float,
    is_known_dead: Callable[[], bool] = lambda: False,
) -> Any:
    """Return what the actor `key` answers to a message, or raise what it raises.

    Parameters
    ----------
    peer
        What takes the calls of a worker: an `rpc`, or a way through the scheduler.
    key
        The actor's, which is an `Answering`.
    message
        From `packed`.
    patience
        Seconds without any sign of life after which `GoneError` says that its worker is
        lost.
    is_known_dead
        Whether others have given it up.
    """
    call = peer.hornbeam_ask(key=key, message=message)
    result = answered(await watch(call, peer, patience, is_known_dead))
    return loads(result) if isinstance(result, bytes) else result


def answered(reply: dict[str, Any]) -> Any:
    """Return what an actor has answered, or raise what it has raised."""
    if reply["status"] == "OK":
        return reply["result"]
    error = reply["exception"]
    if isinstance(error, RuntimeError) and _CLOSED in str(error):
        raise GoneError from error
    raise error


class Answering:
    """An actor that `ask` can ask.

    A call of Dask's actors wraps every argument and result on its own, which takes
    three times as long as sending one piece of bytes; a level of a tree is one message,
    so that this is a good part of a round.
    """

    def __init__(self) -> None:
        worker = get_worker()
        worker.handlers.setdefault("hornbeam_ask", _answering(worker))

    def perform(self, message: bytes) -> Any:
        """Do what a message says; return the result, as bytes if it is small."""
        verb, args = loads(message)
        result = getattr(self, verb)(*args)
        buffers: list[pickle.PickleBuffer] = []
        head = pickle.dumps(result, protocol=5, buffer_callback=buffers.append)
        if len(head) + sum(buffer.raw().nbytes for buffer in buffers) < _LARGE:
            return pickle.dumps(result, protocol=5)
        return result


def _answering(worker: Any) -> Callable[..., Coroutine[Any, Any, dict[str, Any]]]:
    """Return what Dask calls when a worker gets such a message."""

    async def hornbeam_ask(key: str, message: bytes) -> dict[str, Any]:
        reply: dict[str, Any] = await worker.actor_execute(
            actor=key, function="perform", args=(message,)
        )
        if reply["status"] == "OK" and isinstance(reply["result"].data, bytes):
            reply["result"] = reply["result"].data
        return reply

    return hornbeam_ask


async def watch(
    call: Coroutine[Any, Any, Any],
    peer: Any,
    patience: float,
    is_known_dead: Callable[[], bool],
) -> Any:
    """Return what `call` does; raise `GoneError` when its worker shows no sign of life.

    An actor computes in a thread of its own, so that the worker's event loop answers
    an echo however long that takes. It does not when the process is stopped, or when
    the network is cut.
    """
    answer = asyncio.ensure_future(call)
    echo: asyncio.Future[Any] | None = None
    misses = 0
    pause = patience / _TRIES
    wait = min(FIRST_LOOK, pause)
    try:
        while True:
            await asyncio.wait(
                {answer} if echo is None else {answer, echo},
                timeout=wait,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if answer.done():
                return _result(answer)
            if is_known_dead():
                raise GoneError
            if echo is not None:
                if echo.done() and echo.exception() is None:
                    # Ask again after a while.
                    misses, echo = 0, None
                    wait = pause
                    continue
                misses += 1
                if misses == _TRIES:
                    raise GoneError
                echo.cancel()
            echo = asyncio.ensure_future(peer.echo(data=misses))
            wait = pause
    finally:
        for task in (answer, echo):
            let_go(task)


def let_go(task: asyncio.Future[Any] | None) -> None:
    """End a task that nobody waits for, and have nobody told of its error."""
    if task is None or task.cancelled():
        return
    if task.done():
        task.exception()  # seen, so that nobody reports it
    else:
        task.cancel()


def _result(answer: asyncio.Future[Any]) -> Any:
    try:
        return answer.result()
    except (OSError, RuntimeError, KeyError) as error:
        # A closed connection, a closed pool of them, and an actor that is not there.
        raise GoneError from error
