"""The group of workers that XGBoost code talks to: here it is a group of one.

Hornbeam's cluster has no such group, for the client asks and the workers answer
(`hornbeam.dask`). What is asked of the group is answered as of one worker alone.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from enum import IntEnum, unique
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hornbeam.errors import ErrorCode
from hornbeam.xgboost.error_messages import XGBoostError

__all__ = [
    "CommunicatorContext",
    "Config",
    "Op",
    "allreduce",
    "broadcast",
    "communicator_print",
    "finalize",
    "get_processor_name",
    "get_rank",
    "get_world_size",
    "init",
    "is_distributed",
    "signal_error",
]

T = TypeVar("T")


@dataclass
class Config:
    """How workers find and wait for each other; all of it optional."""

    retry: int | None = None
    timeout: int | None = None
    tracker_host_ip: str | None = None
    tracker_port: int | None = None
    tracker_timeout: int | None = None

    def get_comm_config(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return `args` with what `init` takes of these."""
        if self.retry is not None:
            args["dmlc_retry"] = self.retry
        if self.timeout is not None:
            args["dmlc_timeout"] = self.timeout
        return args


@unique
class Op(IntEnum):
    """How `allreduce` puts numbers together."""

    MAX = 0
    MIN = 1
    SUM = 2
    BITWISE_AND = 3
    BITWISE_OR = 4
    BITWISE_XOR = 5


def init(**args: int | str | None) -> None:
    """Join a group of one.

    Parameters
    ----------
    args
        Those of XGBoost. With the address of a tracker it must be one of one worker;
        other communicators are an error.
    """
    named = {name.lower(): value for name, value in args.items()}
    kind = named.get("dmlc_communicator") or "rabit"
    workers = int(named.get("n_workers") or named.get("federated_world_size") or 1)
    if kind != "rabit" or workers != 1:
        raise XGBoostError(
            f"there is only the group of one worker here, not dmlc_communicator="
            f"{kind!r} of {workers}; train on a cluster with hornbeam.xgboost.dask",
            code=ErrorCode.UNSUPPORTED_PARAMETER_VALUE,
        )


def finalize() -> None:
    """Leave the group."""


def get_rank() -> int:
    """Return the number of this worker: 0."""
    return 0


def get_world_size() -> int:
    """Return how many workers there are: 1."""
    return 1


def is_distributed() -> bool:
    """Return whether there are others: False."""
    return False


def communicator_print(msg: Any) -> None:
    """Print a line, without space around it."""
    print(str(msg).strip(), flush=True)  # noqa: T201


def get_processor_name() -> str:
    """Return the name of this machine."""
    return socket.gethostname()


def broadcast(data: T, root: int) -> T:
    """Return `data`, which worker `root`, the only one, gives to all."""
    if root != 0:
        raise XGBoostError(
            f"there is no worker {root} in a group of one; root is 0",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    if data is None:
        raise XGBoostError(
            "need to pass in data when broadcasting", code=ErrorCode.EMPTY_DATA
        )
    return data


def allreduce(data: npt.NDArray[Any], op: Op) -> npt.NDArray[Any]:
    """Return the numbers of all workers put together: a copy of these, flat."""
    if not isinstance(data, np.ndarray):
        raise TypeError("allreduce only takes in numpy.ndarray")
    Op(op)
    return data.ravel().copy()


def signal_error() -> None:
    """Say that this worker cannot go on."""
    raise XGBoostError(
        "a worker of the group has signalled an error", code=ErrorCode.CLUSTER_FAILURE
    )


class CommunicatorContext:
    """A ``with`` block in which this process is of the group.

    Parameters
    ----------
    args
        Those of `init`.
    """

    def __init__(self, **args: int | str | None) -> None:
        self.args = args

    def __enter__(self) -> dict[str, int | str | None]:
        init(**self.args)
        return self.args

    def __exit__(self, *args: object) -> None:
        finalize()
