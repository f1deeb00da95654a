"""The client argument of xgboost.dask, and its communicator context of tasks."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from distributed import Client, get_worker

from hornbeam.dask.client import with_client as _with_client
from hornbeam.xgboost.collective import CommunicatorContext as _CommunicatorContext

__all__ = ["CommunicatorContext", "check_client", "with_client"]

Function = TypeVar("Function", bound=Callable[..., Any])


def check_client(client: Any) -> None:
    """Raise a `TypeError` unless `client` is a `distributed.Client` or None."""
    if client is not None and not isinstance(client, Client):
        raise TypeError(
            f"Expecting a distributed.Client or None, got: {type(client).__name__}"
        )


def with_client(function: Function) -> Function:
    """Wrap a function as `hornbeam.dask.client.with_client` does, with a type check."""
    wrapped = _with_client(function)

    @wraps(function)
    def call(client: Client | None, *args: Any, **kwargs: Any) -> Any:
        check_client(client)
        return wrapped(client, *args, **kwargs)

    return cast(Function, call)


class CommunicatorContext(_CommunicatorContext):
    """The communicator of a task on a worker, as a context manager.

    Every task has a communicator of one rank: the workers of Hornbeam communicate with
    the client instead.

    Parameters
    ----------
    args
        Those of `hornbeam.xgboost.collective.init`.
    """

    def __init__(self, **args: int | str | None) -> None:
        super().__init__(**args)
        worker = get_worker()
        self.args["DMLC_TASK_ID"] = f"[xgboost.dask-{worker.name}]:{worker.address}"
