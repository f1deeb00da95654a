"""The number of CPUs, and of threads, that this process may use."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

from hornbeam.cgroups import group_folders, read

__all__ = ["available_threads", "processor_count"]

#: The values of variables that, for example, joblib sets for parallel processes. As
#: OpenMP's library does, this one reads them when it loads: Dask sets one of them in
#: the process that starts workers.
_VARIABLES = [os.environ.get(n, "") for n in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")]


def available_threads() -> int:
    """Return the number of threads that this process should use.

    It is the minimum of its number of processors, the CPU quota of its container, and
    the environment variables ``NUMBA_NUM_THREADS`` and ``OMP_NUM_THREADS`` as they
    were when this module was imported.
    """
    return int(min(processor_count(), _limit()))


def processor_count() -> int:
    """Return the number of processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _limit() -> float:
    return min([math.inf, *_quotas(), *_variables()])


def _quotas() -> Iterator[int]:
    """Yield the CPU quota of each control group of this process."""
    for version, folder in group_folders("cpu"):
        with suppress(OSError, ValueError):
            if version == 2:
                quota, period = map(int, read(f"{folder}/cpu.max").split())
            else:
                quota = int(read(f"{folder}/cpu.cfs_quota_us"))
                period = int(read(f"{folder}/cpu.cfs_period_us"))
            if quota > 0:
                yield math.ceil(quota / period)


def _variables() -> Iterator[int]:
    for setting in _VARIABLES:
        # OpenMP accepts a list with a number for each nesting level.
        value = setting.partition(",")[0].strip()
        if value.isdecimal() and int(value) > 0:
            yield int(value)
