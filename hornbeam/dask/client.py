"""The Dask client of a call: its lookup, and wrappers of calls that wait for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator, Iterator
from functools import partial, wraps
from typing import Any, Self, TypeVar, cast
from uuid import uuid4

from distributed import Client, get_client, get_worker, rejoin, secede
from distributed.threadpoolexecutor import thread_state

from hornbeam.errors import ErrorCode, ParameterError

__all__ = [
    "OfClient",
    "client_method",
    "client_of",
    "run_sync",
    "task_key",
    "with_client",
]

Function = TypeVar("Function", bound=Callable[..., Any])


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


def task_key(verb: str) -> str:
    """Return a new key of a task, which dashboards show as ``hornbeam-verb``."""
    return f"hornbeam-{verb}-{uuid4().hex}"


class OfClient:
    """Base of estimators that have a client, which copies and pickles leave out."""

    _client: Client | None = None

    @property
    def client(self) -> Client:
        """The client of the cluster: the one set here, or Dask's default client."""
        return client_of(self._client)

    @client.setter
    def client(self, client: Client | None) -> None:
        self._client = client

    def __await__(self) -> Generator[Any, Any, Self]:
        """Return the estimator; awaiting it is a no-op."""
        yield from ()
        return self

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_client"}


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
