"""Sizes of memory: as a caller gives them, as a message has them, and what is taken."""

from __future__ import annotations

import ctypes
import math
import os
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hornbeam.cgroups import group_folders, read
from hornbeam.errors import ErrorCode, ParameterError

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
#: Files of a control group by its version: the limit, and what is used, also by files.
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
    """Return a size as messages have it."""
    return f"{-(-size // 10**6):,} MB"


def resident_bytes() -> int:
    """Return the memory that this process takes at the moment."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # no Linux: the most that it ever took
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


def available_bytes() -> int:
    """Return the memory that this process may take beside what it has.

    That is what the system has left, swap space included, or what the limits of the
    process (``ulimit -v``) and of its container leave, if they leave less. Where none
    of these says anything it is without end.
    """
    rooms = [_room_of_system(), _room_of_process(), *_rooms_of_containers()]
    return max(0, min(rooms))


def _room_of_system() -> int:
    with suppress(OSError):
        found = dict(re.findall(r"(\w+): +(\d+) kB", read("/proc/meminfo")))
        if "MemAvailable" in found:
            return (int(found["MemAvailable"]) + int(found.get("SwapFree", 0))) * 1024
    return sys.maxsize


def _room_of_process() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    try:
        pages = int(read("/proc/self/statm").split()[0])
    except OSError:
        return limit
    return limit - pages * os.sysconf("SC_PAGE_SIZE")


def _rooms_of_containers() -> Iterator[int]:
    """Yield what each control group has left that this process is in, if limited."""
    for version, folder in group_folders("memory"):
        limit, used, files = _FILES[version]
        at = f"{folder}/memory."
        with suppress(OSError, ValueError):
            # What files have of it is given up when it is asked for.
            cached = re.findall(files, read(f"{at}stat"), re.MULTILINE)
            left = int(read(f"{at}{limit}")) - int(read(f"{at}{used}"))
            yield left + sum(map(int, cached))


def give_back_freed() -> None:
    """Have the allocator give the system the memory that is free, if it knows how.

    Otherwise what reading data took may be held until the process ends.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
