"""Where a call that waits for workers is made, so that others go on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, TypeVar, cast

from distributed import Client, get_worker, rejoin, secede
from distributed.threadpoolexecutor import thread_state

from hornbeam.dask.clients import client_of

__all__ = ["called_by", "method_by_client", "with_client"]

Call = TypeVar("Call", bound=Callable[..., Any])


def called_by(client: Client, work: Callable[[], Any]) -> Any:
    """Return what `work` returns, or for an asynchronous client what is awaited for it.

    `work` waits. On the event loop of an asynchronous client it is done in a thread of
    its own, in which the client is like any other. In a task it lets the worker have
    another thread, since it may wait for tasks on that very worker.
    """
    if client.asynchronous:
        return asyncio.to_thread(work)
    with _beside_tasks():
        return work()


def with_client(function: Call) -> Call:
    """Return a function of a client and others as `called_by` calls it."""

    @wraps(function)
    def call(client: Client | None, *args: Any, **kwargs: Any) -> Any:
        client = client_of(client)
        return called_by(client, partial(function, client, *args, **kwargs))

    return cast(Call, call)


def method_by_client(method: Call) -> Call:
    """Return a method of what has a ``client`` as `called_by` calls it."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return called_by(self.client, partial(method, self, *args, **kwargs))

    return cast(Call, call)


@contextmanager
def _beside_tasks() -> Iterator[None]:
    """Do the block outside of the threads that a worker has for tasks."""
    try:
        get_worker()
    except ValueError:
        is_task = False
    else:
        is_task = getattr(thread_state, "proceed", False)  # not so already
    if not is_task:
        yield
        return
    secede()
    try:
        yield
    finally:
        rejoin()
