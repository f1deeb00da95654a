"""Configures the import path for `naive`, libraries' threads, hypothesis, processes."""

import gc
import logging
import os

# Threads of OpenMP and OpenBLAS would spin while they wait, which takes the processor
# from the other processes that run tests. Their libraries read this when they load.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import profiles  # noqa: F401
import pytest
from xdist.scheduler import LoadFileScheduling

#: Folders whose tests share a cluster or a session.
SHARING = ("tests/dask/", "tests/ray/", "tests/spark/")


class ByFileOrCluster(LoadFileScheduling):
    """Runs the tests of a file in one process, and all on a shared cluster in one."""

    def _split_scope(self, nodeid):
        file = super()._split_scope(nodeid)
        return next((own for own in SHARING if file.startswith(own)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return ByFileOrCluster(config, log) if config.option.dist == "loadfile" else None


def pytest_collection_finish():
    """Keep the garbage collector from searching all imported modules again and again.

    Compiling sets it off often, and some tests do.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_setup():
    """Enable the logger, which Optuna's databases disable with all others."""
    logging.getLogger("hornbeam").disabled = False
