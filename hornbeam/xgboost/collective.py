"""XGBoost's collective communication between the processes of a group.

A `RabitTracker` gathers the processes; `init` joins them. Matrices that are then made,
and boosters that are trained, are those of the rows of all processes together.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, unique
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from hornbeam.distributed.group import active_group, join, leave
from hornbeam.errors import ErrorCode
from hornbeam.xgboost.error_messages import XGBoostError, with_xgboost_messages

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
_ArgVals: TypeAlias = int | str | None
_Args: TypeAlias = dict[str, _ArgVals]

#: XGBoost's defaults of ``dmlc_retry`` and ``dmlc_timeout``.
_RETRY, _TIMEOUT = 3, 300


@dataclass
class Config:
    """Settings of the connections between workers; all are optional.

    Attributes
    ----------
    worker_port
        The port that other processes connect to, or a function that each worker calls
        for it (XGBoost 3.4).
    """

    retry: int | None = None
    timeout: int | None = None
    tracker_host_ip: str | None = None
    tracker_port: int | None = None
    tracker_timeout: int | None = None
    worker_port: int | Callable[[], int] | None = None

    def get_comm_config(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return `args` with the settings added as arguments of `init`."""
        if self.retry is not None:
            args["dmlc_retry"] = self.retry
        if self.timeout is not None:
            args["dmlc_timeout"] = self.timeout
        return args

    def update_worker_args(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return `args` with the settings of one worker added."""
        port = self.worker_port
        if port is not None:
            args["dmlc_worker_port"] = port() if callable(port) else port
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


_UFUNCS: dict[Op, np.ufunc] = {
    Op.MAX: np.maximum,
    Op.MIN: np.minimum,
    Op.SUM: np.add,
    Op.BITWISE_AND: np.bitwise_and,
    Op.BITWISE_OR: np.bitwise_or,
    Op.BITWISE_XOR: np.bitwise_xor,
}


@with_xgboost_messages
def init(**args: _ArgVals) -> None:
    """Join the group of a tracker.

    Parameters
    ----------
    args
        In lower or upper case: ``dmlc_tracker_uri``, ``dmlc_tracker_port`` and
        ``dmlc_tracker_token`` of the tracker, which `RabitTracker.worker_args` returns;
        without them this process is alone. ``dmlc_task_id`` names the process,
        ``dmlc_retry`` (3) and ``dmlc_timeout`` (300 seconds, 0: no limit) are for
        connections, ``dmlc_worker_port`` is the port that other processes connect to.
    """
    named = {name.lower(): value for name, value in args.items()}
    kind = named.get("dmlc_communicator") or "rabit"
    if kind != "rabit":
        raise XGBoostError(
            f"dmlc_communicator={kind!r} is not supported, only 'rabit': there is no "
            "federated learning",
            code=ErrorCode.UNSUPPORTED_PARAMETER_VALUE,
        )
    host, token = named.get("dmlc_tracker_uri"), named.get("dmlc_tracker_token")
    if host is None:
        leave()
        return
    if token is None:
        raise XGBoostError(
            "dmlc_tracker_token is missing, by which the processes of a group know "
            "each other; pass all that RabitTracker.worker_args returns",
            code=ErrorCode.MISSING_PARAMETER,
        )

    def number(name: str, default: int) -> int:
        value = named.get(name)
        return default if value is None else int(value)

    join(
        str(host),
        number("dmlc_tracker_port", 0),
        str(token),
        task=str(named.get("dmlc_task_id") or ""),
        own_port=number("dmlc_worker_port", 0),
        retries=number("dmlc_retry", _RETRY),
        timeout=number("dmlc_timeout", _TIMEOUT) or None,
    )


def finalize() -> None:
    """Leave the group."""
    leave()


def get_rank() -> int:
    """Return the number of this process in the group; 0 without one."""
    group = active_group()
    return 0 if group is None else group.rank


def get_world_size() -> int:
    """Return the number of processes in the group; 1 without one."""
    group = active_group()
    return 1 if group is None else group.size


def is_distributed() -> bool:
    """Return whether this process has joined a group."""
    return active_group() is not None


def communicator_print(msg: Any) -> None:
    """Print a message, without leading and trailing white space.

    In a group it is printed where the tracker is.
    """
    text, group = str(msg).strip(), active_group()
    if group is None:
        print(text, flush=True)  # noqa: T201
    else:
        group.print(f"{text}\n")


def get_processor_name() -> str:
    """Return the host name."""
    return socket.gethostname()


def broadcast(data: T, root: int) -> T:
    """Return the object that the process `root` passes; others may pass None.

    It is pickled.
    """
    group, size = active_group(), get_world_size()
    if not 0 <= root < size:
        raise XGBoostError(
            f"there is no worker {root} in a group of {size}; root must be from 0 to "
            f"{size - 1}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    if data is None and get_rank() == root:
        raise XGBoostError(
            "need to pass in data when broadcasting", code=ErrorCode.EMPTY_DATA
        )
    if group is None:
        return data

    def own() -> bytes:
        return pickle.dumps(data) if group.rank == root else b""

    found = group.combine(f"broadcast from {root}", own, lambda a, b: a or b)
    return data if group.rank == root else cast(T, pickle.loads(found))


def allreduce(data: npt.NDArray[Any], op: Op) -> npt.NDArray[Any]:
    """Return the reduction over all processes of an array, flat as in XGBoost 3.2."""
    if not isinstance(data, np.ndarray):
        raise TypeError("allreduce only takes in numpy.ndarray")
    if data.dtype.kind not in "fiu":
        raise TypeError(
            f"data type {data.dtype} is not supported on the current platform."
        )
    op = Op(op)
    if op >= Op.BITWISE_AND and data.dtype.kind == "f":
        raise XGBoostError(
            "Floating point is not supported for bit wise collective operations.",
            code=ErrorCode.UNSUPPORTED_PARAMETER_VALUE,
        )
    own, group = data.flatten(), active_group()
    if group is not None:
        group.reduce(f"allreduce {op.name}", own, _UFUNCS[op])
    return own


def signal_error() -> None:
    """Raise an error, here and in all other processes of the group."""
    group = active_group()
    if group is not None:
        group.fail("it has called signal_error")
    raise XGBoostError(
        "a worker of the group has signalled an error", code=ErrorCode.CLUSTER_FAILURE
    )


class CommunicatorContext:
    """A context manager that joins the group and leaves it.

    Other processes get an error that leaves the context as the reason why they cannot
    go on.

    Parameters
    ----------
    args
        The arguments of `init`.
    """

    def __init__(self, **args: _ArgVals) -> None:
        self.args = args

    def __enter__(self) -> dict[str, int | str | None]:
        init(**self.args)
        return self.args

    def __exit__(self, kind: Any, error: BaseException | None, trace: object) -> None:
        leave(error)
