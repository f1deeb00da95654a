"""Exchanges of the client with actors: one message to all, and all their answers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from typing import Any

from hornbeam.backends.cluster import ActorLostError, RowActor
from hornbeam.dask.channel import Channel, Frames
from hornbeam.dask.rpc import WorkerLostError

__all__ = ["ActorChannel", "exchange"]


class ActorChannel:
    """The client's end of a channel to an actor.

    Parameters
    ----------
    actor
        The actor.
    connection
        The socket of the channel.
    watch
        Starts to watch the actor's worker; the future fails with `WorkerLostError`.
    check_client
        Raises an error if the client, whose event loop watches, is closed.
    patience
        As for `Channel`.
    """

    def __init__(
        self,
        actor: RowActor,
        connection: socket.socket,
        watch: Callable[[RowActor], Future[None]],
        check_client: Callable[[], None],
        patience: float,
    ) -> None:
        self._actor = actor
        self._channel = Channel(connection, self._check, patience)
        self._start_watch, self._check_client = watch, check_client
        self._watch: Future[None] | None = None

    def send(self, frames: Frames) -> None:
        """Send a packed call; raise `ActorLostError` if the worker is lost."""
        with self._loss():
            self._channel.send(frames)

    def receive(self) -> Any:
        """Return the result of the call, or raise the error that it raised."""
        with self._loss():
            is_result, result = self._channel.receive()
        self._end_watch()
        if is_result:
            return result
        raise result

    def _check(self) -> None:
        """Raise an error if the worker was found to be lost, or the client is closed.

        The first call for an answer starts to watch the worker.
        """
        self._check_client()
        if self._watch is None:
            self._watch = self._start_watch(self._actor)
        elif self._watch.done():
            self._watch.result()

    def close(self) -> None:
        """Close the channel."""
        self._end_watch()
        self._channel.close()

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    @contextmanager
    def _loss(self) -> Iterator[None]:
        """Raise `ActorLostError` for errors by which the worker is known to be lost."""
        try:
            yield
        except (OSError, EOFError, WorkerLostError, CancelledError) as error:
            self._check_client()
            raise ActorLostError([self._actor]) from error


def exchange(channels: Sequence[ActorChannel], frames: Frames) -> list[Any]:
    """Send a packed call to all actors; return the results, and the errors, in order.

    The answers are received in this order: one that comes early waits in the memory of
    the operating system, or with its worker.
    """

    def attempt(step: Callable[..., Any], *args: Any) -> Any:
        try:
            return step(*args)
        except Exception as error:
            return error

    failures = [attempt(channel.send, frames) for channel in channels]
    return [
        attempt(channel.receive) if failure is None else failure
        for channel, failure in zip(channels, failures, strict=True)
    ]
