"""Local clusters of worker processes, and the process ids of workers."""

import logging
import os

import dask
from distributed import LocalCluster

#: A cluster that waits takes 14 % of a core to watch itself, or 3 % with these.
_QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
}


def start_cluster(n_workers=2, **options):
    with dask.config.set(_QUIET):
        return LocalCluster(
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
