"""Configures the import path for `naive`, other libraries' threads, hypothesis."""

import gc
import os

# Threads of OpenMP and OpenBLAS would spin while they wait, which takes the processor
# from the other processes that run tests. Their libraries read this when they load.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import profiles  # noqa: F401


def pytest_collection_finish():
    """Keep the garbage collector from searching all imported modules again and again.

    Compiling sets it off often, and some tests do.
    """
    gc.collect()
    gc.freeze()
