"""XGBoost's tracker, which gathers the processes of a group."""

from __future__ import annotations

import os
import socket
from typing import Any

from hornbeam.distributed.tracker import Tracker
from hornbeam.errors import ClusterError, ErrorCode
from hornbeam.xgboost.deprecation import deprecate_positional_args
from hornbeam.xgboost.error_messages import XGBoostError, with_xgboost_messages

__all__ = ["RabitTracker", "get_family"]


class RabitTracker:
    """Gathers the processes of a group; they pass its `worker_args` to `init`.

    It has to live as long as the group.

    Parameters
    ----------
    n_workers
        The number of processes.
    host_ip
        An address of this machine by which the others reach it; None: one is guessed.
    port
        The port to listen at; 0: any that is free.
    sortby
        Whether ranks follow the addresses of machines, ``"host"``, or the
        ``dmlc_task_id`` of processes, ``"task"``.
    timeout
        Seconds for all processes to join, and for all to leave once one has left; 0:
        no limit.
    """

    @deprecate_positional_args
    @with_xgboost_messages
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
        if n_workers < 1:
            raise XGBoostError(
                f"n_workers must be 1 or more, not {n_workers}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        if host_ip is not None:
            get_family(host_ip)
        self._tracker: Tracker | None = Tracker(
            int(n_workers),
            host_ip or _own_address(),
            int(port),
            by_task=sortby == "task",
            timeout=int(timeout),
        )
        #: A child process has a copy of this object, and not the threads.
        self._process = os.getpid()

    def start(self) -> None:
        """Start the tracker, in threads."""
        self._running().start()

    @with_xgboost_messages
    def wait_for(self, timeout: int | None = None) -> None:
        """Wait until all processes have left the group.

        Raises a ValueError if one of them failed, or after `timeout` seconds.
        """
        tracker = self._running()
        if not tracker.wait(timeout):
            reason = f"the tracker has waited for {timeout} seconds"
            tracker.close(reason)
            raise ClusterError(
                f"{reason}, and some processes have not left the group; give them "
                "more time, or see their output",
                code=ErrorCode.TRACKER_TIMEOUT,
            )
        if tracker.failure is not None:
            raise ClusterError(
                f"the group of processes failed: {tracker.failure}",
                code=ErrorCode.GROUP_FAILED,
            )

    @with_xgboost_messages
    def free(self) -> None:
        """Stop the tracker; raise a ValueError if the group is not complete."""
        tracker, self._tracker = self._tracker, None
        if tracker is None:
            return
        failure, was_running = tracker.failure, tracker.is_running
        tracker.close("the tracker was stopped")
        if failure is not None or was_running:
            raise ClusterError(
                f"the group had not ended: {failure or 'processes were in it'}",
                code=ErrorCode.TRACKER_STOPPED,
            )

    def __del__(self) -> None:
        tracker = getattr(self, "_tracker", None)
        if tracker is not None and self._process == os.getpid():
            tracker.close("the tracker was deleted")

    def worker_args(self) -> dict[str, Any]:
        """Return the arguments of `hornbeam.xgboost.collective.init` for a process.

        The token among them is a secret of this group.
        """
        tracker = self._running()
        return {
            "dmlc_tracker_port": tracker.port,
            "dmlc_tracker_uri": tracker.host,
            "dmlc_tracker_token": tracker.token,
        }

    def _running(self) -> Tracker:
        if self._tracker is None:
            raise XGBoostError(
                "this tracker was freed; make another one", code=ErrorCode.GROUP_FAILED
            )
        return self._tracker


def get_family(addr: str) -> socket.AddressFamily:
    """Return the family of a network address, IPv4 or IPv6."""
    return socket.getaddrinfo(addr, None)[0][0]


def _own_address() -> str:
    """Return the address of this machine in its network; 127.0.0.1 if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # only looks up the route, sends nothing
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
