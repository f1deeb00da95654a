"""XGBoost's collective communication, for a group of one worker.

Hornbeam does not train on such a group: on a Dask cluster the client calls the workers
(`hornbeam.dask`). These functions return the results for a single worker.
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
    """Settings of the connections between workers; all are optional."""

    retry: int | None = None
    timeout: int | None = None
    tracker_host_ip: str | None = None
    tracker_port: int | None = None
    tracker_timeout: int | None = None

    def get_comm_config(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return `args` with the settings added as arguments of `init`."""
        if self.retry is not None:
            args["dmlc_retry"] = self.retry
        if self.timeout is not None:
            args["dmlc_timeout"] = self.timeout
        return args


@unique
class Op(IntEnum):
    """The reduction of `allreduce`."""

    MAX = 0
    MIN = 1
    SUM = 2
    BITWISE_AND = 3
    BITWISE_OR = 4
    BITWISE_XOR = 5


def init(**args: int | str | None) -> None:
    """Join a group of one worker.

    Parameters
    ----------
    args
        XGBoost's arguments. More than one worker, or a communicator other than
        ``"rabit"``, is an error.
    """
    named = {name.lower(): value for name, value in args.items()}
    kind = named.get("dmlc_communicator") or "rabit"
    workers = int(named.get("n_workers") or named.get("federated_world_size") or 1)
    if kind != "rabit" or workers != 1:
        raise XGBoostError(
            f"only a group of one worker is supported, not dmlc_communicator={kind!r} "
            f"with {workers}; train on a cluster with hornbeam.xgboost.dask",
            code=ErrorCode.UNSUPPORTED_PARAMETER_VALUE,
        )


def finalize() -> None:
    """Leave the group."""


def get_rank() -> int:
    """Return the rank of this worker: 0."""
    return 0


def get_world_size() -> int:
    """Return the number of workers: 1."""
    return 1


def is_distributed() -> bool:
    """Return whether there are several workers: False."""
    return False


def communicator_print(msg: Any) -> None:
    """Print a message, without leading and trailing white space."""
    print(str(msg).strip(), flush=True)  # noqa: T201


def get_processor_name() -> str:
    """Return the host name."""
    return socket.gethostname()


def broadcast(data: T, root: int) -> T:
    """Return `data` of the worker `root`, which must be 0."""
    if root != 0:
        raise XGBoostError(
            f"there is no worker {root} in a group of one; root must be 0",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    if data is None:
        raise XGBoostError(
            "need to pass in data when broadcasting", code=ErrorCode.EMPTY_DATA
        )
    return data


def allreduce(data: npt.NDArray[Any], op: Op) -> npt.NDArray[Any]:
    """Return the reduction over all workers: a flat copy of `data`."""
    if not isinstance(data, np.ndarray):
        raise TypeError("allreduce only takes in numpy.ndarray")
    Op(op)
    return data.ravel().copy()


def signal_error() -> None:
    """Raise an error, as on a worker that cannot continue."""
    raise XGBoostError(
        "a worker of the group has signalled an error", code=ErrorCode.CLUSTER_FAILURE
    )


class CommunicatorContext:
    """A context manager that joins the group and leaves it.

    Parameters
    ----------
    args
        The arguments of `init`.
    """

    def __init__(self, **args: int | str | None) -> None:
        self.args = args

    def __enter__(self) -> dict[str, int | str | None]:
        init(**self.args)
        return self.args

    def __exit__(self, *args: object) -> None:
        finalize()
