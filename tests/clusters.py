"""Local clusters of worker processes, and the process ids of workers."""

import logging
import os
import sys
from multiprocessing.forkserver import ensure_running
from unittest.mock import patch

import dask
from distributed import LocalCluster
from distributed.utils import get_mp_context

#: A cluster that waits takes 14 % of a core to watch itself, or 3 % with these.
_QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
}


def _fork_workers():
    """Let Dask fork workers from a process that has imported what they need.

    A worker that starts on its own imports and loads kernels, which takes seconds.
    """
    dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    get_mp_context().set_forkserver_preload(["worker_preload"])
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
        ensure_running()


class _Cluster(LocalCluster):
    """A cluster that may hear late of a worker that has left.

    ``wait_for_workers`` replaces the list of workers by the scheduler's, which lacks
    those whose leave is still on its way. Then Dask's own class raises KeyError, in the
    task that listens to the scheduler and again in ``close``, so that the cluster stays
    open and a later test fails with its warning.
    """

    def _update_worker_status(self, op, msg):
        if op != "remove" or msg in self.scheduler_info["workers"]:
            super()._update_worker_status(op, msg)


def start_cluster(n_workers=2, **options):
    _fork_workers()
    with dask.config.set(_QUIET):
        return _Cluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
            **options,
        )


def process_of(client, address):
    """Return the process id of a worker."""
    return client.run(os.getpid, workers=[address])[address]
