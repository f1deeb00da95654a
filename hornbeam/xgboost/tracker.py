"""XGBoost's tracker, for a group of one worker."""

from __future__ import annotations

import socket
from typing import Any

from hornbeam.errors import ErrorCode
from hornbeam.xgboost.deprecation import deprecate_positional_args
from hornbeam.xgboost.error_messages import XGBoostError

__all__ = ["RabitTracker", "get_family"]


class RabitTracker:
    """The tracker of a group of one worker; it opens no connection.

    Parameters
    ----------
    n_workers
        The number of workers; more than one is an error.
    host_ip
        An address of this machine; None for 127.0.0.1.
    port
        A port, returned by `worker_args`.
    sortby
        ``"host"`` or ``"task"``.
    timeout
        Has no effect, since the tracker does not wait.
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
                f"only a group of one worker is supported, not n_workers={n_workers}; "
                "train on a cluster with hornbeam.xgboost.dask",
                code=ErrorCode.UNSUPPORTED_PARAMETER_VALUE,
            )
        if host_ip is not None:
            get_family(host_ip)
        self._address = host_ip or "127.0.0.1"
        self._port = port

    def start(self) -> None:
        """Start the tracker."""

    def wait_for(self, timeout: int | None = None) -> None:
        """Return at once: there are no workers to wait for."""

    def free(self) -> None:
        """Release the tracker."""

    def worker_args(self) -> dict[str, Any]:
        """Return the arguments of `hornbeam.xgboost.collective.init` for the worker."""
        return {"dmlc_tracker_port": self._port, "dmlc_tracker_uri": self._address}


def get_family(addr: str) -> socket.AddressFamily:
    """Return the family of a network address, IPv4 or IPv6."""
    return socket.getaddrinfo(addr, None)[0][0]
