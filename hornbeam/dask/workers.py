"""Workers of a Dask cluster: waits with deadlines, and removal of lost workers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from importlib import import_module
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import dask
from dask.utils import parse_timedelta
from distributed import Client
from distributed.actor import ProxyRPC
from distributed.protocol.pickle import dumps

from hornbeam import __version__
from hornbeam.dask.client import task_key
from hornbeam.dask.rpc import FIRST_CHECK, cancel, watch
from hornbeam.distributed.partitions import Partition
from hornbeam.distributed.transport import (
    NO_WORKER_TIMEOUT,
    WorkerLostError,
    check_version,
    no_worker_error,
)
from hornbeam.errors import ClusterError, ErrorCode, HornbeamError, ParameterError

__all__ = ["CONNECT_TIMEOUT", "Workers"]

Result = TypeVar("Result")

#: Seconds between two checks of the client while a result is pending.
_CHECK_INTERVAL = 1.0
#: Seconds for a first reply over a direct connection of the client to a worker.
CONNECT_TIMEOUT = 3.0
#: Seconds for a worker to import the modules of its tasks and actors.
_IMPORT_TIMEOUT = 60.0

#: By client: the workers that have this version, each with a module that they have
#: imported.
_prepared: WeakKeyDictionary[Client, set[tuple[str, str]]] = WeakKeyDictionary()


class Workers:
    """The workers of a client's cluster; every wait for them has a deadline.

    Before a worker gets a task or an actor, it has imported their module in a thread:
    one that imports it with its first task answers nothing meanwhile, and one without
    Hornbeam cannot read the task, so that Dask would wait for ever.

    Parameters
    ----------
    client
        A connected client, used from a thread other than that of its event loop.
    patience
        Seconds without a reply after which a worker is considered lost; None: the
        setting ``hornbeam.patience`` of Dask, or 10.
    """

    #: Imported by the workers.
    _module = "hornbeam.dask.cluster"

    def __init__(self, client: Any, patience: float | str | None = None) -> None:
        if client.asynchronous:
            raise ParameterError(
                "the client is asynchronous, and this call would block its event loop; "
                "run it in a thread: await asyncio.to_thread(...)",
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
        self._prepared = _prepared.setdefault(client, set())
        self._address = client.scheduler.address
        #: Connections to workers, by address.
        self._peers: dict[str, Any] = {}
        #: Addresses of the workers that were considered lost.
        self._removed: set[str] = set()

    def alive(self) -> list[str]:
        """Return the addresses of the workers that are not lost, sorted."""
        return self._wait(self._alive())

    def prepare(self, places: Iterable[str]) -> None:
        """Let workers import what they need.

        Raises a `ClusterError` if one has no Hornbeam or another version. One that does
        not answer is no error: it is found to be lost when it is needed.
        """
        self._wait(self._prepare_all(set(places)))

    def locate(self, partitions: Sequence[Any]) -> list[str | None]:
        """Return the address of a worker that has each future, None where none has."""
        keys = [future.key for future in partitions]
        found = self._wait(self._ask_scheduler(lambda s: s.who_has(keys=keys)))
        return [next(iter(found.get(key) or ()), None) for key in keys]

    def map(self, task: Any, partitions: Sequence[Any], *args: Any) -> list[Any]:
        """Return `task(partition, *args)` for each future of a partition.

        The first error of Hornbeam that a task raises is raised.
        """
        verb = task.__name__.strip("_").replace("_", "-")
        futures = [
            self._client.submit(_return_errors, task, part, *args, key=task_key(verb))
            for part in partitions
        ]
        found = self.results(futures)
        for result in found:
            if isinstance(result, HornbeamError):
                raise result
        return found

    def results(self, futures: Sequence[Any]) -> list[Any]:
        """Return the results of tasks, or raise the error of the first that failed.

        A worker that stops responding meanwhile is removed from the cluster, whether it
        computes one of the tasks or has their inputs; Dask computes these elsewhere.
        """
        return self._wait(self._results(list(futures)))

    # Coroutines on the client's event loop

    def _wait(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Return the result of `coroutine`, run on the client's event loop.

        Raises a `ClusterError` if the loop ends before.
        """
        future = self._submit(coroutine)
        loop = self._client.loop.asyncio_loop
        while True:
            try:
                return future.result(_CHECK_INTERVAL)
            except concurrent.futures.TimeoutError:
                if future.done():  # just now, or with a TimeoutError of its own
                    return future.result()
                if not loop.is_running():
                    raise self._client_closed() from None
            except concurrent.futures.CancelledError:
                raise self._client_closed() from None
            except BaseException:
                future.cancel()
                raise

    def _submit(
        self, coroutine: Coroutine[Any, Any, Result]
    ) -> concurrent.futures.Future[Result]:
        """Start `coroutine` on the client's event loop."""
        try:
            self._check_client()
        except ClusterError:
            coroutine.close()
            raise
        loop = self._client.loop.asyncio_loop
        return asyncio.run_coroutine_threadsafe(coroutine, loop)

    def _check_client(self) -> None:
        """Raise a `ClusterError` if the client is closed."""
        is_open = self._client.status in ("running", "connecting")
        if not is_open or not self._client.loop.asyncio_loop.is_running():
            raise self._client_closed()

    def _client_closed(self) -> ClusterError:
        return ClusterError(
            "the Dask client was closed while Hornbeam used it; keep it open until "
            "training and prediction are done",
            code=ErrorCode.INVALID_CLIENT,
        )

    async def _ask_scheduler(self, request: Callable[[Any], Awaitable[Any]]) -> Any:
        """Return the scheduler's reply; raise a `ClusterError` if there is none."""
        try:
            reply = request(self._scheduler())
            return await asyncio.wait_for(reply, self.patience)
        except (TimeoutError, OSError, RuntimeError) as error:
            self._scheduler()
            raise ClusterError(
                f"the Dask scheduler at {self._address} does not answer: its process "
                "has died or was stopped, or the connection is cut; restart the "
                "cluster",
                code=ErrorCode.SCHEDULER_LOST,
            ) from error

    def _scheduler(self) -> Any:
        """Return the connection to the scheduler, if the client is open."""
        if self._client.status in ("closing", "closed"):
            raise self._client_closed()
        return self._client.scheduler

    async def _alive(self) -> list[str]:
        identity = await self._ask_scheduler(lambda s: s.identity(n_workers=-1))
        return sorted(set(identity["workers"]) - self._removed)

    async def _results(self, futures: list[Any]) -> list[Any]:
        return await self._guard(self._gather(futures))

    async def _guard(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Return the result of `coroutine`; meanwhile remove workers that are lost.

        All workers are watched, since tasks may need data from any of them. Without
        any worker Dask would wait forever, so after `NO_WORKER_TIMEOUT` seconds this is
        an error.
        """
        result = asyncio.ensure_future(coroutine)
        watches: dict[str, asyncio.Future[bool]] = {}
        timeout = min(FIRST_CHECK, self.patience)
        last_seen = time.monotonic()
        try:
            while True:
                await asyncio.wait({result}, timeout=timeout)
                if result.done():
                    return result.result()
                places = await self._alive()
                if places:
                    last_seen = time.monotonic()
                elif time.monotonic() - last_seen > NO_WORKER_TIMEOUT:
                    raise no_worker_error()
                for place in places:  # includes workers that have joined
                    if place not in watches:
                        watches[place] = asyncio.ensure_future(
                            self._is_lost(place, result)
                        )
                lost = [p for p, one in watches.items() if one.done() and one.result()]
                await self._remove(lost)
                # Repeated, as a worker may have started to fetch from it only now.
                for place in lost:
                    await self._disconnect(place)
                timeout = min(_CHECK_INTERVAL, self.patience)
        finally:
            result.cancel()
            for one in watches.values():
                one.cancel()

    async def _gather(self, futures: list[Any]) -> list[Any]:
        """Return the results of tasks; raise a `ClusterError` if they are cancelled."""
        gathering = asyncio.ensure_future(self._client._gather(futures))
        try:
            await asyncio.wait({gathering})
            found: list[Any] = gathering.result()
            return found
        except (concurrent.futures.CancelledError, asyncio.CancelledError) as error:
            if not gathering.done():  # this coroutine was cancelled itself
                gathering.cancel()
                raise
            await self._alive()
            raise ClusterError(
                f"Dask tasks were cancelled before they were done: {error}",
                code=ErrorCode.CLUSTER_FAILURE,
            ) from error

    async def _is_lost(self, place: str, result: asyncio.Future[Any]) -> bool:
        """Return whether a worker stopped responding before `result` was done."""
        try:
            peer = await self._connect(place)
            await watch(asyncio.wait({result}), peer, self.patience, lambda: False)
        except WorkerLostError:
            return True
        return False

    async def _connect(self, address: str) -> Any:
        """Return a connection to a worker: direct, or else a proxy by the scheduler."""
        if address in self._removed:  # other callers may still have actors there
            raise WorkerLostError
        peer = self._peers.get(address)
        if peer is None:
            peer = self._client.rpc(address)
            timeout = min(CONNECT_TIMEOUT, self.patience)
            try:
                await asyncio.wait_for(peer.echo(data=0), timeout)
            except (OSError, RuntimeError):
                peer = ProxyRPC(self._scheduler(), address)
            self._peers[address] = peer
        return peer

    async def _prepare_all(self, places: Iterable[str]) -> None:
        found = await asyncio.gather(
            *map(self._prepare, sorted(places)), return_exceptions=True
        )
        for error in found:
            if isinstance(error, BaseException) and not isinstance(
                error, WorkerLostError
            ):
                raise error

    async def _prepare(self, address: str) -> Any:
        """Return a connection to a worker that has imported what it needs."""
        peer, module = await self._connect(address), self._module
        if (address, module) in self._prepared:
            return peer
        try:
            await asyncio.wait_for(peer.echo(data=0), self.patience)
            message = _run_message(_importer(), name=module, version=__version__)
            reply = await asyncio.wait_for(peer.run(**message), _IMPORT_TIMEOUT)
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            raise WorkerLostError from error
        worker = f"the worker at {address}"
        if reply["status"] != "OK":
            raise ClusterError(
                f"{worker} cannot import {module}: {reply['exception_text']}; install "
                "the same Hornbeam everywhere",
                code=ErrorCode.WORKER_VERSION_MISMATCH,
            )
        check_version(worker, reply["result"])
        self._prepared.add((address, module))
        return peer

    async def _remove(self, places: Iterable[str]) -> None:
        """Remove lost workers from the scheduler, which may not know that they are.

        Dask then computes their results elsewhere, and a worker whose process resumes
        is told to close.
        """
        for place in set(places) - self._removed:
            self._removed.add(place)
            self._peers.pop(place, None)
            self._prepared.discard((place, self._module))
            await self._remove_from_scheduler(place)
            await self._disconnect(place)

    async def _remove_from_scheduler(self, place: str) -> None:

        async def remove(dask_scheduler: Any, address: str) -> None:
            await dask_scheduler.remove_worker(address, stimulus_id="hornbeam-patience")

        message = _run_message(remove, address=place)
        await self._ask_scheduler(lambda s: s.run_function(**message))

    async def _disconnect(self, place: str) -> None:
        """Close the connections of the client and of all workers to a lost worker.

        The connection to a stopped process stays open, and a worker that fetches data
        over it waits for the connection to close before it computes the data itself.
        """

        def disconnect(dask_worker: Any, address: str) -> None:
            dask_worker.rpc.remove(address)

        self._client.rpc.remove(place)
        message = _run_message(disconnect, address=place)
        calls = [
            asyncio.ensure_future(self._client.rpc(other).run(**message))
            for other in await self._alive()
        ]
        if calls:
            await asyncio.wait(calls, timeout=self.patience)
        for call in calls:
            cancel(call)


def _return_errors(task: Any, part: Partition, *args: Any) -> Any:
    """Return a task's result, or its error: Dask would log an error that is raised."""
    try:
        return task(part, *args)
    except HornbeamError as error:
        return error


def _importer() -> Callable[..., Awaitable[str | None]]:
    """Return a function that imports a module, and returns the version of Hornbeam."""

    async def load(name: str, version: str) -> str | None:
        try:
            found: str = import_module("hornbeam").__version__
        except ImportError:
            return None
        if found == version:
            await asyncio.to_thread(import_module, name)
        return found

    return load


def _run_message(function: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
    """Return the arguments by which a Dask server runs `function`.

    The function is pickled by value, so that Hornbeam need not be installed there. The
    server passes itself as ``dask_worker`` or ``dask_scheduler``, if it takes them.
    """
    given = {"args": dumps(()), "kwargs": dumps(arguments)}
    return {"function": dumps(function), **given, "wait": True}
