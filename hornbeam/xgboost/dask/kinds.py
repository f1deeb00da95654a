"""Which objects of Dask are taken, and the errors for others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

import dask.array as da
from dask.delayed import Delayed
from distributed import Client, Future

from hornbeam.dask.client import with_client as _with_client
from hornbeam.errors import DataError, ErrorCode
from hornbeam.xgboost.booster import Booster

__all__ = [
    "check_client",
    "check_model",
    "check_rows",
    "is_collection",
    "is_series",
    "with_client",
]

Call = TypeVar("Call", bound=Callable[..., Any])


def check_client(client: Any) -> None:
    """Raise a `TypeError` unless it is a client of Dask, or None."""
    if client is not None and not isinstance(client, Client):
        raise TypeError(
            f"Expecting a distributed.Client or None, got: {type(client).__name__}"
        )


def with_client(function: Call) -> Call:
    """Return a function of a client and others that an asynchronous client awaits."""
    called = _with_client(function)

    @wraps(function)
    def call(client: Client | None, *args: Any, **kwargs: Any) -> Any:
        check_client(client)
        return called(client, *args, **kwargs)

    return cast(Call, call)


def check_model(model: Any) -> None:
    """Raise a `TypeError` unless it is what prediction takes for a model."""
    if not isinstance(model, Booster | Mapping | Future):
        raise TypeError(
            "Expecting a Booster, what train returns, or a future of a Booster, got: "
            f"{type(model).__name__}"
        )


def check_rows(data: Any, **fields: Any) -> None:
    """Raise an error unless features, and what goes with them, are Dask's."""
    for name, values in {"data": data, **fields}.items():
        if not (_is_taken(values) or (name != "data" and values is None)):
            raise TypeError(
                f"{name}: Expecting a dask.array or a dask.dataframe, got: "
                f"{type(values).__name__}"
            )
    if len(getattr(data, "shape", (0, 0))) != 2:
        raise DataError(
            f"Expecting 2 dimensional input, got: {data.shape}",
            code=ErrorCode.WRONG_DIMENSIONS,
        )


def is_collection(data: Any) -> bool:
    """Return whether it is a dask.array or a dask.dataframe."""
    return isinstance(data, da.Array) or _is(data, "DataFrame")


def is_series(data: Any) -> bool:
    """Return whether it is a column of a dask.dataframe."""
    return _is(data, "Series")


def _is_taken(values: Any) -> bool:
    # Lists of what is delayed are Hornbeam's own, and so are names of columns.
    known = isinstance(values, list | tuple | str | Delayed | Future)
    return known or is_collection(values) or is_series(values)


def _is(data: Any, kind: str) -> bool:
    loaded = sys.modules.get("dask.dataframe")
    return loaded is not None and isinstance(data, getattr(loaded, kind))
