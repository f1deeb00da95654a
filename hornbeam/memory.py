"""Memory sizes, and the memory that is used and available."""

from __future__ import annotations

import ctypes
import math
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hornbeam.cgroups import group_folders, read
from hornbeam.errors import ErrorCode, ParameterError

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

__all__ = [
    "as_bytes",
    "available_bytes",
    "give_back_freed",
    "in_words",
    "resident_bytes",
]

_UNITS = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**i for i, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1024**i for i, letter in enumerate("kmgt", 1)},
}
#: By version of control groups: the files of the limit and of the usage, and the
#: pattern of the page cache in the file stat.
_FILES = {
    1: ("limit_in_bytes", "usage_in_bytes", r"^total_(?:in)?active_file (\d+)"),
    2: ("max", "current", r"^(?:in)?active_file (\d+)"),
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", re.IGNORECASE)


def as_bytes(size: Any, name: str) -> int:
    """Return a size such as ``"700MB"``, ``"1.5 GiB"`` or 700_000_000 in bytes."""
    count = -1.0
    if isinstance(size, str):
        found = _SIZE.fullmatch(size)
        if found is not None and found[2].lower() in _UNITS:
            count = float(found[1]) * _UNITS[found[2].lower()]
    elif not isinstance(size, bool):
        with suppress(TypeError, ValueError):
            count = float(size)
    if not (math.isfinite(count) and count >= 1):
        raise ParameterError(
            f"{name} must be a size such as '700MB', '2GB' or a number of bytes, not "
            f"{size!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    return int(count)


def in_words(size: int) -> str:
    """Return a size as text for messages, such as ``"1,234 MB"``."""
    return f"{-(-size // 10**6):,} MB"


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes; 0 if it is not known."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux: the peak
        if resource is None:
            return 0
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def available_bytes() -> int:
    """Return the memory in bytes that this process can still allocate.

    It is the minimum of the system's available memory and free swap, and of what the
    limits of the process (``ulimit -v``) and of its containers leave; `sys.maxsize` if
    none of them is known.
    """
    free = [_free_of_system(), _free_of_process(), *_free_of_containers()]
    return max(0, min(free))


def _free_of_system() -> int:
    with suppress(OSError):
        found = dict(re.findall(r"(\w+): +(\d+) kB", read("/proc/meminfo")))
        if "MemAvailable" in found:
            return (int(found["MemAvailable"]) + int(found.get("SwapFree", 0))) * 1024
    return sys.maxsize


def _free_of_process() -> int:
    if resource is None:
        return sys.maxsize
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    try:
        pages = int(read("/proc/self/statm").split()[0])
    except OSError:
        return limit
    return limit - pages * os.sysconf("SC_PAGE_SIZE")


def _free_of_containers() -> Iterator[int]:
    """Yield the free memory of each control group of this process with a limit."""
    for version, folder in group_folders("memory"):
        limit, used, files = _FILES[version]
        at = f"{folder}/memory."
        with suppress(OSError, ValueError):
            # The page cache counts as used, but is freed when memory is needed.
            cached = re.findall(files, read(f"{at}stat"), re.MULTILINE)
            left = int(read(f"{at}{limit}")) - int(read(f"{at}{used}"))
            yield left + sum(map(int, cached))


def give_back_freed() -> None:
    """Return the allocator's free memory to the system, if the C library can.

    Otherwise memory freed after reading data may stay allocated to the process.
    """
    with suppress(OSError, AttributeError, TypeError):  # Windows has no library None
        ctypes.CDLL(None).malloc_trim(0)
