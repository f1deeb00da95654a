"""Exchanges of the client with actors: one message to all, and all their answers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import Any

from hornbeam.backends.cluster import ActorLostError, RowActor
from hornbeam.dask.channel import STALL, Channel, Frames
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
    """

    def __init__(
        self,
        actor: RowActor,
        connection: socket.socket,
        watch: Callable[[RowActor], Future[None]],
        check_client: Callable[[], None],
    ) -> None:
        self._actor = actor
        self._channel = Channel(connection, self.check)
        self._start_watch, self._check_client = watch, check_client
        self._watch: Future[None] | None = None

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._channel.fileno()

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

    def check(self) -> None:
        """Raise `ActorLostError` if the worker was found to be lost.

        The first call of an exchange starts to watch it.
        """
        self._check_client()
        if self._watch is None:
            self._watch = self._start_watch(self._actor)
        elif self._watch.done():
            with self._loss():
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

    The answers are received in the order in which they come.
    """
    results: dict[ActorChannel, Any] = {}
    for channel in channels:
        try:
            channel.send(frames)
        except Exception as error:
            results[channel] = error
    while waiting := [channel for channel in channels if channel not in results]:
        ready = wait([channel.fileno() for channel in waiting], STALL)
        for channel in waiting:
            try:
                if channel.fileno() in ready:
                    results[channel] = channel.receive()
                elif not ready:
                    channel.check()
            except Exception as error:
                results[channel] = error
    return [results[channel] for channel in channels]
