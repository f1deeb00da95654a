"""How many threads this process may keep busy."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

from hornbeam.cgroups import group_folders, read

__all__ = ["available_threads", "processor_count"]

#: What others set for the processes that they start side by side, as joblib does.
_TOLD = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")


def available_threads() -> int:
    """Return how many threads this process may keep busy.

    That is the number of its processors, or the limit of its container, or what
    ``NUMBA_NUM_THREADS`` or ``OMP_NUM_THREADS`` say, whichever is least.
    """
    return int(min(processor_count(), _limit()))


def processor_count() -> int:
    """Return the number of processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _limit() -> float:
    return min([math.inf, *_quotas(), *_told()])


def _quotas() -> Iterator[int]:
    """Yield the processors that each control group lets this process have."""
    for version, folder in group_folders("cpu"):
        with suppress(OSError, ValueError):
            if version == 2:
                quota, period = map(int, read(f"{folder}/cpu.max").split())
            else:
                quota = int(read(f"{folder}/cpu.cfs_quota_us"))
                period = int(read(f"{folder}/cpu.cfs_period_us"))
            if quota > 0:
                yield math.ceil(quota / period)


def _told() -> Iterator[int]:
    for name in _TOLD:
        # OpenMP takes a number for each level of nesting.
        told = os.environ.get(name, "").partition(",")[0].strip()
        if told.isdecimal() and int(told) > 0:
            yield int(told)
