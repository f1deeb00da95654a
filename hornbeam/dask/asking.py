"""Asking an actor on another worker, and noticing when there is nobody any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from distributed.protocol import to_serialize

__all__ = ["GoneError", "ask", "watch"]

#: Seconds before the first doubt whether an answer will come.
_FIRST_LOOK = 0.25
#: Signs of life asked for in vain, one after the other, before a worker is given up. A
#: single one may be missed because it was the driver that stood still.
_TRIES = 3


class GoneError(Exception):
    """There is nobody to answer."""


async def ask(
    peer: Any,
    key: str,
    verb: str,
    args: tuple[Any, ...],
    patience: float,
    is_known_dead: Callable[[], bool] = lambda: False,
) -> Any:
    """Return what the actor `key` answers to `verb`, or raise what it raises.

    Parameters
    ----------
    peer
        What takes the calls of a worker: an `rpc`, or a way through the scheduler.
    key
        The actor's.
    patience
        Seconds without any sign of life after which `GoneError` says that its worker is
        lost.
    is_known_dead
        Whether others have given it up.
    """
    reply = await watch(
        peer.actor_execute(
            function=verb,
            actor=key,
            args=[to_serialize(argument) for argument in args],
            kwargs={},
        ),
        peer,
        patience,
        is_known_dead,
    )
    if reply["status"] == "OK":
        return reply["result"]
    raise reply["exception"]


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
    wait = min(_FIRST_LOOK, pause)
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
            _let_go(task)


def _let_go(task: asyncio.Future[Any] | None) -> None:
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
