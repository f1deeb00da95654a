"""Channels: connections of Dask to an actor that bypass the event loops.

A message over Dask's event loops takes several milliseconds of both processes for an
answer of a megabyte: it is serialised, sliced, queued and woken for in four threads. A
channel is a connection that Dask has opened, and that is then used by two threads
alone: one of the client sends a call, one of the worker waits for it and answers.
"""

from __future__ import annotations

import asyncio
import select
import socket
import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any

from distributed import Status
from distributed.comm import connect
from distributed.comm.tcp import TCP

from hornbeam.backends.cluster import ActorLostError, RowActor
from hornbeam.distributed.connection import Connection
from hornbeam.distributed.messages import Message
from hornbeam.distributed.transport import WorkerLostError

__all__ = [
    "ActorChannel",
    "channel_handler",
    "exchange",
    "open_channel",
]


#: Milliseconds after which the client looks for what may have become of a worker.
_SOON = 250

# The client's end


async def open_channel(
    address: str, key: str, timeout: float, **connection_args: Any
) -> socket.socket | None:
    """Return the socket of a new channel to an actor; None if there cannot be one.

    Parameters
    ----------
    address, key
        Of the actor's worker, and of the actor, a `ReducingActor`.
    timeout
        Seconds for the worker to accept.
    connection_args
        Those of the client's connections.
    """
    comm = None
    try:
        # It waits longer for a process that is stopped than it was told to.
        opening = connect(address, timeout, **connection_args)
        comm = await asyncio.wait_for(opening, timeout)
        await comm.write({"op": "hornbeam_channel", "key": key})
        if await asyncio.wait_for(comm.read(), timeout) is True:
            return _detach(comm)
    except OSError:
        pass  # a lost worker is detected by the calls that it does not answer
    finally:
        if comm is not None:
            comm.abort()
    return None


class ActorChannel:
    """The client's end of a channel to an actor.

    Parameters
    ----------
    actor
        The actor.
    sock
        The socket of the channel.
    watch
        Starts to watch the actor's worker; the future fails with `WorkerLostError`.
    check_client
        Raises an error if the client, whose event loop watches, is closed.
    patience
        As for `Connection`.
    """

    def __init__(
        self,
        actor: RowActor,
        sock: socket.socket,
        watch: Callable[[RowActor], Future[None]],
        check_client: Callable[[], None],
        patience: float,
    ) -> None:
        self._actor = actor
        sock.settimeout(None)
        self._connection = Connection(sock, self._check, patience)
        self._start_watch, self._check_client = watch, check_client
        self._watch: Future[None] | None = None
        self._is_new = True

    def send(self, call: Message) -> None:
        """Send a call; raise `ActorLostError` if the worker is lost."""
        if self._is_new:
            self._carry(partial(Connection.find_shared_memory, begins=True))
            self._is_new = False
        self._carry(Connection.send_message, call)

    def receive(self) -> Any:
        """Return the result of the call, or raise the error that it raised."""
        is_result, result = self._carry(Connection.receive)
        self._end_watch()
        if is_result:
            return result
        raise result

    def fileno(self) -> int:
        """Return the descriptor of the socket, by which one waits for an answer."""
        return self._connection.fileno()

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
        """Close the channel; the thread at the other end is woken."""
        self._end_watch()
        self._connection.close()

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _carry(self, step: Callable[..., Any], *args: Any) -> Any:
        """Return what the connection does; raise `ActorLostError` if it fails."""
        try:
            return step(self._connection, *args)
        except (OSError, EOFError, WorkerLostError, CancelledError) as error:
            self._check_client()
            raise ActorLostError([self._actor]) from error


def exchange(channels: Sequence[ActorChannel], call: Message) -> list[Any]:
    """Send a call to all actors; return the results, and the errors, in order.

    An answer is read when it comes, while other actors still compute.
    """

    def attempt(step: Callable[..., Any], *args: Any) -> Any:
        try:
            return step(*args)
        except Exception as error:
            return error

    results = [attempt(channel.send, call) for channel in channels]
    waiting = [i for i, failure in enumerate(results) if failure is None]
    while waiting:
        chosen = _first_answer([channels[i] for i in waiting])
        number = waiting.pop(chosen)
        results[number] = attempt(channels[number].receive)
    return results


def _first_answer(channels: Sequence[ActorChannel]) -> int:
    """Return the place of a channel whose answer has come; 0 if none comes soon."""
    if len(channels) > 1 and hasattr(select, "poll"):
        poll = select.poll()
        for channel in channels:
            poll.register(channel, select.POLLIN)
        ready = {file for file, _ in poll.poll(_SOON)}
        for place, channel in enumerate(channels):
            if channel.fileno() in ready:
                return place
    return 0


# The worker's end


def channel_handler(worker: Any) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return the handler of ``hornbeam_channel`` messages for a worker."""

    async def hornbeam_channel(comm: Any, key: str) -> Any:
        known = worker.state.actors.get(key)
        if known is None or not (type(comm) is TCP and comm.stream is not None):
            return False  # its socket is encrypted, or there is none
        # A weak reference: the rows are released with the actor, whether or not the
        # client has closed the channel by then.
        actor = weakref.ref(known)

        def answer(call: Any, shares_memory: bool) -> Message | None:
            alive = actor()
            is_open = worker.status not in (Status.closing, Status.closed)
            if not is_open or alive is None:
                return None
            answered: Message = alive.answer(call, shares_memory)
            return answered

        await comm.write(True)
        sock = _detach(comm)
        sock.settimeout(None)
        threading.Thread(
            target=_serve,
            args=(Connection(sock), answer),
            name="hornbeam-channel",
            daemon=True,
        ).start()
        return Status.dont_reply

    return hornbeam_channel


def _serve(
    connection: Connection, answer: Callable[[Any, bool], Message | None]
) -> None:
    """Answer calls until the connection is closed, or there is no answer."""
    try:
        connection.find_shared_memory(begins=False)
        shares = connection.shares_memory
        while (message := answer(connection.receive(), shares)) is not None:
            connection.send_message(message)
            del message
    except OSError:
        pass  # the client has closed it, or is gone
    finally:
        connection.close()


def _detach(comm: Any) -> socket.socket:
    """Take the socket of a connection from Dask.

    Neither end may have sent anything that the other has not received.
    """
    sock: socket.socket = comm.stream.socket.dup()
    comm.abort()  # closes Dask's descriptor, and not the connection
    return sock
