"""The workers of a Dask cluster: waiting for them, and giving up the silent ones."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import dask
from dask.utils import parse_timedelta
from distributed.actor import ProxyRPC
from distributed.protocol.pickle import dumps

from hornbeam.dask.rpc import FIRST_LOOK, GoneError, let_go, watch
from hornbeam.errors import ClusterError, ErrorCode, ParameterError

__all__ = ["NO_WORKER", "Workers", "no_worker"]

Result = TypeVar("Result")

#: Seconds from one look at the client to the next while an answer is waited for.
_LOOK = 1.0
#: Seconds to wait for workers when there is none, as for one that starts again.
NO_WORKER = 30.0
#: Seconds a worker has for a first answer over a connection of the client's own.
_DIRECT = 3.0


class Workers:
    """The workers that a client reaches; whoever waits for them waits with a deadline.

    Parameters
    ----------
    client
        Connected, and asked from another thread than that of its event loop.
    patience
        Seconds without any sign of life after which a worker is given up; None: the
        setting ``hornbeam.patience`` of Dask, or 10.
    """

    def __init__(self, client: Any, patience: float | str | None = None) -> None:
        if client.asynchronous:
            raise ParameterError(
                "the client is asynchronous, and this would wait for workers on its "
                "event loop; do it in a thread: await asyncio.to_thread(...)",
                code=ErrorCode.INVALID_CLIENT,
            )
        if patience is None:
            patience = dask.config.get("hornbeam.patience", 10.0)
        seconds = parse_timedelta(patience)
        if not seconds > 0.0:
            raise ParameterError(
                f"patience must be above 0 seconds, not {patience!r}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        self.patience = float(seconds)
        self._client = client
        self._address = client.scheduler.address
        self._peers: dict[str, Any] = {}
        self._left: set[str] = set()

    def alive(self) -> list[str]:
        """Return the addresses of the workers that have not been given up, sorted."""
        return self._wait(self._alive())

    def whereabouts(self, futures: Sequence[Any]) -> list[str | None]:
        """Return a worker that has each of these futures, None where none has."""
        return self._wait(self._whereabouts([future.key for future in futures]))

    def results(self, futures: Sequence[Any]) -> list[Any]:
        """Return what tasks return, or raise what the first that failed raises.

        A worker that falls silent meanwhile is given up, whether it computes one of
        them or has what they need; Dask then does its part elsewhere.
        """
        return self._wait(self._results(list(futures)))

    # On the client's event loop

    def _wait(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Return what `coroutine` does on the loop, or see that the loop has ended."""
        future = self._begun(coroutine)
        loop = self._client.loop.asyncio_loop
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

    def _begun(
        self, coroutine: Coroutine[Any, Any, Result]
    ) -> concurrent.futures.Future[Result]:
        """Have the loop do `coroutine`."""
        loop = self._client.loop.asyncio_loop
        if (
            self._client.status not in ("running", "connecting")
            or not loop.is_running()
        ):
            coroutine.close()
            raise self._closed()
        return asyncio.run_coroutine_threadsafe(coroutine, loop)

    def _closed(self) -> ClusterError:
        return ClusterError(
            "the Dask client was closed while it was needed; keep it open until "
            "training and prediction are done",
            code=ErrorCode.INVALID_CLIENT,
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
                "cluster anew",
                code=ErrorCode.SCHEDULER_LOST,
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

    async def _results(self, futures: list[Any]) -> list[Any]:
        return await self._guarded(self._gathered(futures))

    async def _guarded(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Return what `coroutine` does; meanwhile give up workers that fall silent.

        All are watched: what is waited for may need data that any of them has. Where
        none is left, Dask would wait for ever.
        """
        answer = asyncio.ensure_future(coroutine)
        watches: dict[str, asyncio.Future[bool]] = {}
        wait = min(FIRST_LOOK, self.patience)
        last_seen = time.monotonic()
        try:
            while True:
                await asyncio.wait({answer}, timeout=wait)
                if answer.done():
                    return answer.result()
                places = await self._alive()
                if places:
                    last_seen = time.monotonic()
                elif time.monotonic() - last_seen > NO_WORKER:
                    raise no_worker()
                for place in places:  # and those that have come
                    if place not in watches:
                        watches[place] = asyncio.ensure_future(
                            self._is_silent(place, answer)
                        )
                silent = [p for p, one in watches.items() if _says_true(one)]
                await self._give_up(silent)
                # Again, as one that was busy may have begun to fetch only now.
                for place in silent:
                    await self._cut_off(place)
                wait = min(_LOOK, self.patience)
        finally:
            answer.cancel()
            for one in watches.values():
                one.cancel()

    async def _gathered(self, futures: list[Any]) -> list[Any]:
        """Return the results of tasks, or say why they are not to be had."""
        gathering = asyncio.ensure_future(self._client._gather(futures))
        try:
            await asyncio.wait({gathering})
            found: list[Any] = gathering.result()
            return found
        except (concurrent.futures.CancelledError, asyncio.CancelledError) as error:
            if not gathering.done():  # nobody waits any more
                gathering.cancel()
                raise
            await self._alive()
            raise ClusterError(
                f"tasks were cancelled while they were waited for: {error}",
                code=ErrorCode.CLUSTER_FAILURE,
            ) from error

    async def _is_silent(self, place: str, answer: asyncio.Future[Any]) -> bool:
        """Return whether a worker has fallen silent before there was an answer."""
        try:
            peer = await self._reached(place)
            await watch(asyncio.wait({answer}), peer, self.patience, lambda: False)
        except GoneError:
            return True
        return False

    async def _reached(self, address: str) -> Any:
        """Return what takes calls of a worker: directly, or else by the scheduler."""
        if address in self._left:  # others may still have members there
            raise GoneError
        peer = self._peers.get(address)
        if peer is None:
            peer = self._client.rpc(address)
            try:
                await asyncio.wait_for(peer.echo(data=0), min(_DIRECT, self.patience))
            except (OSError, RuntimeError):
                peer = ProxyRPC(self._scheduler(), address)
            self._peers[address] = peer
        return peer

    async def _give_up(self, places: Iterable[str]) -> None:
        """Have the scheduler forget workers that are silent but not known as dead.

        What they hold for Dask is then computed elsewhere, and a worker that wakes up
        finds that it is no longer wanted.
        """
        for place in set(places) - self._left:
            self._left.add(place)
            self._peers.pop(place, None)
            await self._forget(place)
            await self._cut_off(place)

    async def _forget(self, place: str) -> None:

        async def forget(dask_scheduler: Any, address: str) -> None:
            await dask_scheduler.remove_worker(address, stimulus_id="hornbeam-patience")

        message = _message(forget, place)
        await self._of_scheduler(lambda s: s.run_function(**message))

    async def _cut_off(self, place: str) -> None:
        """Have nobody wait for what a worker was to send: not the client, no worker.

        A connection to a process that is stopped stays open, and a worker that fetches
        data over it does not even compute them itself before it ends.
        """

        def cut(dask_worker: Any, address: str) -> None:
            dask_worker.rpc.remove(address)

        self._client.rpc.remove(place)
        message = _message(cut, place)
        told = [
            asyncio.ensure_future(self._client.rpc(other).run(**message))
            for other in await self._alive()
        ]
        if told:
            await asyncio.wait(told, timeout=self.patience)
        for one in told:
            let_go(one)


def no_worker() -> ClusterError:
    """Return the error of a cluster that all workers have left."""
    return ClusterError(
        "the cluster has no worker left that answers; add workers, and train again",
        code=ErrorCode.WORKERS_LOST,
    )


def _message(function: Callable[..., Any], address: str) -> dict[str, Any]:
    """Return what has a server of Dask run a function, which needs no Hornbeam there.

    The function's other argument is what the server passes by name.
    """
    arguments = {"args": dumps(()), "kwargs": dumps({"address": address})}
    return {"function": dumps(function), **arguments, "wait": True}


def _says_true(future: asyncio.Future[bool]) -> bool:
    return future.done() and future.result()
