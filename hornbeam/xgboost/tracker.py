"""The tracker that XGBoost's workers report to: here for a group of one."""

from __future__ import annotations

import socket
from typing import Any

from hornbeam.errors import ErrorCode
from hornbeam.xgboost.deprecation import deprecate_positional_args
from hornbeam.xgboost.error_messages import XGBoostError

__all__ = ["RabitTracker", "get_family"]


class RabitTracker:
    """The tracker of one worker, who has nobody to wait for.

    Parameters
    ----------
    n_workers
        How many workers there are; more than one is an error.
    host_ip
        An address of this machine; None is its own.
    port
        Told to the worker.
    sortby
        ``"host"`` or ``"task"``.
    timeout
        Taken for XGBoost's sake: there is nothing to wait for.
    """

    @deprecate_positional_args
    def __init__(
        self,
        n_workers: int,
        host_ip: str | None,
        port: int = 0,
        *,
        sortby: str = "host",
        timeout: int = 0,
    ) -> None:
        if sortby not in ("host", "task"):
            raise ValueError("Expecting either 'host' or 'task' for sortby.")
        if n_workers != 1:
            raise XGBoostError(
                f"n_workers={n_workers}: there is only the group of one worker here; "
                "train on a cluster with hornbeam.xgboost.dask",
                code=ErrorCode.UNSUPPORTED_PARAMETER_VALUE,
            )
        if host_ip is not None:
            get_family(host_ip)
        self._address = host_ip or "127.0.0.1"
        self._port = port

    def start(self) -> None:
        """Begin."""

    def wait_for(self, timeout: int | None = None) -> None:
        """Wait until all workers are done, which is now."""

    def free(self) -> None:
        """Let go of the tracker."""

    def worker_args(self) -> dict[str, Any]:
        """Return the arguments of the worker's `hornbeam.xgboost.collective.init`."""
        return {"dmlc_tracker_port": self._port, "dmlc_tracker_uri": self._address}


def get_family(addr: str) -> socket.AddressFamily:
    """Return the family of a network address: that of IPv4, or of IPv6."""
    return socket.getaddrinfo(addr, None)[0][0]
