"""Conditions of a measurement: machine, load, versions, clocks, memory."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["add_output_option", "clock", "core_count", "describe", "memory", "write"]

#: The default folder of results.
RESULTS = Path(__file__).parent / "results"


@dataclass
class Clock:
    """Seconds of a block of code, set when it ends."""

    wall: float = 0.0
    cpu: float = 0.0


@contextmanager
def clock() -> Iterator[Clock]:
    """Measure the wall and CPU seconds of this process, all threads included."""
    seconds = Clock()
    cpu_start, wall_start = _cpu_seconds(), time.perf_counter()
    yield seconds
    seconds.wall = time.perf_counter() - wall_start
    seconds.cpu = _cpu_seconds() - cpu_start


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


@dataclass
class Memory:
    """Megabytes of memory at the start of a block of code, and its peak."""

    before: float = 0.0
    peak: float = 0.0


@contextmanager
def memory() -> Iterator[Memory]:
    """Measure the memory of this process.

    Resets the peak of the Linux kernel first. `getrusage` is not usable: its peak
    includes the size of the parent process.
    """
    Path("/proc/self/clear_refs").write_text("5")
    megabytes = Memory(before=_status_megabytes("VmRSS"))
    yield megabytes
    megabytes.peak = _status_megabytes("VmHWM")


def _status_megabytes(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {field}; these benchmarks need Linux")


def core_count() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def describe(packages: list[str]) -> dict[str, Any]:
    """Return date, processor, cores, load average and versions."""
    versions = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "processor": _processor(),
        "cores": core_count(),
        "load_average": os.getloadavg(),
        "versions": versions,
    }


def add_output_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for the folder of results."""
    parser.add_argument(
        "--output", type=Path, default=RESULTS, help=f"folder, default: {RESULTS.name}"
    )


def write(name: str, result: dict[str, Any], folder: Path) -> Path:
    """Write `result` to a new JSON file in `folder`; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    path = folder / f"{name}-{stamp}.json"
    path.write_text(json.dumps(result, indent=1, default=str) + "\n")
    return path
