"""Local clusters of worker processes, and the process ids of workers."""

import logging
import os

from distributed import LocalCluster


def start_cluster(n_workers=2, **options):
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
