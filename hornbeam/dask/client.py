"""The Dask client of a call: lookup, version check of workers, and sync wrappers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterator
from functools import partial, wraps
from importlib import import_module
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from distributed import Client, get_client, get_worker, rejoin, secede
from distributed.threadpoolexecutor import thread_state

from hornbeam import __version__
from hornbeam.errors import ClusterError, ErrorCode, ParameterError

__all__ = ["check_workers", "client_method", "client_of", "run_sync", "with_client"]

Function = TypeVar("Function", bound=Callable[..., Any])

#: Seconds for workers to report their version. A worker that does not answer in time is
#: not an error: its failure is detected when the worker is needed.
_VERSION_TIMEOUT = 10.0

#: Addresses of the workers whose version was checked, by client.
_checked: WeakKeyDictionary[Client, set[str]] = WeakKeyDictionary()


def client_of(client: Client | None) -> Client:
    """Return the client given, or else the default client of Dask in this thread."""
    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise ParameterError(
                "there is no client of a Dask cluster; create one with "
                "distributed.Client(...) and pass it as client",
                code=ErrorCode.INVALID_CLIENT,
            ) from None
    if not isinstance(client, Client):
        raise ParameterError(
            f"client must be a distributed.Client, not {type(client).__name__}",
            code=ErrorCode.INVALID_CLIENT,
        )
    return client


# Synchronous calls


def run_sync(client: Client, function: Callable[[], Any]) -> Any:
    """Return the result of `function`, or an awaitable if the client is asynchronous.

    `function` blocks. For an asynchronous client it runs in a thread of its own, so
    that the event loop continues; there the client can be used synchronously. In a
    Dask task the thread secedes from the worker's thread pool, since the function may
    wait for tasks on the same worker.
    """
    if client.asynchronous:
        return asyncio.to_thread(function)
    with _seceded():
        return function()


def with_client(function: Function) -> Function:
    """Wrap a function whose first argument is a client so that `run_sync` runs it."""

    @wraps(function)
    def call(client: Client | None, *args: Any, **kwargs: Any) -> Any:
        client = client_of(client)
        return run_sync(client, partial(function, client, *args, **kwargs))

    return cast(Function, call)


def client_method(method: Function) -> Function:
    """Wrap a method of an object with a ``client`` so that `run_sync` runs it."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run_sync(self.client, partial(method, self, *args, **kwargs))

    return cast(Function, call)


@contextlib.contextmanager
def _seceded() -> Iterator[None]:
    """Run the block outside of the worker's thread pool, if this is a task's thread."""
    try:
        get_worker()
    except ValueError:
        in_pool = False
    else:
        in_pool = getattr(thread_state, "proceed", False)  # False: it has seceded
    if not in_pool:
        yield
        return
    secede()
    try:
        yield
    finally:
        rejoin()


# Versions of workers


def check_workers(client: Client, addresses: Collection[str]) -> None:
    """Raise a `ClusterError` if a worker does not have this version of Hornbeam.

    A worker without the package cannot deserialize Hornbeam's tasks, and the client
    would wait for them forever.

    Parameters
    ----------
    client
        The client of the cluster.
    addresses
        The workers to check. Each worker is checked once.
    """
    known = _checked.setdefault(client, set())
    new = sorted(set(addresses) - known)
    if not new:
        return
    try:
        found = client.sync(
            client._run,
            _version_query(),
            workers=new,
            on_error="return",
            callback_timeout=_VERSION_TIMEOUT,
        )
    except TimeoutError:
        return
    for address in new:
        version = found.get(address)
        if version is None:
            raise ClusterError(
                f"the worker at {address} has no Hornbeam; install hornbeam "
                f"{__version__} there, the version of the client",
                code=ErrorCode.WORKER_VERSION_MISMATCH,
            )
        if not isinstance(version, str):
            continue  # an error: the worker has left the cluster
        if version != __version__:
            raise ClusterError(
                f"the worker at {address} has Hornbeam {version}, and the client "
                f"{__version__}; install the same version everywhere",
                code=ErrorCode.WORKER_VERSION_MISMATCH,
            )
        known.add(address)


def _version_query() -> Callable[[], Awaitable[str | None]]:
    """Return a function that returns the worker's version of Hornbeam, None without it.

    It is a closure, so that it is pickled by value and a worker without Hornbeam can
    load it. It also imports the modules of Hornbeam's tasks, in a thread: a worker that
    imports them with its first task does not answer other messages meanwhile.
    """

    async def version() -> str | None:
        try:
            found: str = import_module("hornbeam").__version__
        except ImportError:
            return None
        with contextlib.suppress(ImportError):
            await asyncio.to_thread(import_module, "hornbeam.dask.matrix")
        return found

    return version
