"""The client that a call goes through, and whether its workers can do their part."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from importlib import import_module
from weakref import WeakKeyDictionary

from distributed import Client, get_client

from hornbeam import __version__
from hornbeam.errors import ClusterError, ErrorCode, ParameterError

__all__ = ["check_workers", "client_of"]

#: Seconds for workers to say which version they have. One that does not answer is no
#: worse than one that comes later: it is found out when it is needed.
_PATIENCE = 10.0

_checked: WeakKeyDictionary[Client, set[str]] = WeakKeyDictionary()


def client_of(client: Client | None) -> Client:
    """Return the client given, or else the one that Dask has for this thread."""
    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise ParameterError(
                "there is no client of a Dask cluster; make one with "
                "distributed.Client(...), and pass it",
                code=ErrorCode.INVALID_CLIENT,
            ) from None
    if not isinstance(client, Client):
        raise ParameterError(
            f"client must be a distributed.Client, not {type(client).__name__}",
            code=ErrorCode.INVALID_CLIENT,
        )
    return client


def check_workers(client: Client, addresses: Collection[str]) -> None:
    """Raise a `ClusterError` that names a worker without this version of Hornbeam.

    Without the package a worker could not even read a task of ours, and the task would
    be waited for in vain.

    Parameters
    ----------
    client
        Of the cluster.
    addresses
        Which workers. Each is asked once.
    """
    known = _checked.setdefault(client, set())
    new = sorted(set(addresses) - known)
    if not new:
        return
    try:
        found = client.sync(
            client._run,
            _question(),
            workers=new,
            on_error="return",
            callback_timeout=_PATIENCE,
        )
    except TimeoutError:
        return
    for address in new:
        answer = found.get(address)
        if answer is None:
            raise ClusterError(
                f"the worker at {address} has no Hornbeam; install hornbeam "
                f"{__version__} there, as the client has it",
                code=ErrorCode.WORKER_VERSION_MISMATCH,
            )
        if not isinstance(answer, str):
            continue  # it has gone meanwhile
        if answer != __version__:
            raise ClusterError(
                f"the worker at {address} has Hornbeam {answer}, and the client "
                f"{__version__}; install the same version everywhere",
                code=ErrorCode.WORKER_VERSION_MISMATCH,
            )
        known.add(address)


def _question() -> Callable[[], Awaitable[str | None]]:
    """Return a function that travels whole: it does not need Hornbeam to be read.

    It also has the worker import what its tasks are made of, in a thread, since a
    worker that imports it with its first task answers nobody meanwhile.
    """

    async def version() -> str | None:
        try:
            from hornbeam import __version__ as found
        except ImportError:
            return None
        with contextlib.suppress(ImportError):
            await asyncio.to_thread(import_module, "hornbeam.dask.matrix")
        return found

    return version
