"""The number of CPUs, and of threads, that this process may use."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

from hornbeam.cgroups import group_folders, read

__all__ = ["available_threads", "processor_count"]

#: Environment variables that, for example, joblib sets for parallel processes.
_VARIABLES = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")


def available_threads() -> int:
    """Return the number of threads that this process should use.

    It is the minimum of its number of processors, the CPU quota of its container, and
    the environment variables ``NUMBA_NUM_THREADS`` and ``OMP_NUM_THREADS``.
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
    for name in _VARIABLES:
        # OpenMP accepts a list with a number for each nesting level.
        value = os.environ.get(name, "").partition(",")[0].strip()
        if value.isdecimal() and int(value) > 0:
            yield int(value)
