"""Data, clock and report of the benchmarks of single stages.

Each stage runs the kernels of training on the generated set with one thread and with
all threads, and reports units of work per second.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.data import made
from benchmarks.libraries import BINS, PACKAGES
from benchmarks.machine import add_output_option, core_count, describe, write
from hornbeam.binning.bin_table import bin_table
from hornbeam.binning.dense import DenseMatrix
from hornbeam.data.containers.dispatch import as_table

__all__ = [
    "Report",
    "binned",
    "cpu_seconds_of",
    "parse_arguments",
    "seconds_of",
    "shares",
]


def parse_arguments(description: str, rows: int = 1_000_000) -> argparse.Namespace:
    """Return rows, columns, repeats and threads of the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rows", type=int, default=rows, help=f"default: {rows:,}")
    parser.add_argument("--columns", type=int, default=28, help="default: 28")
    parser.add_argument("--repeats", type=int, default=7, help="default: 7")
    parser.add_argument(
        "--threads",
        nargs="+",
        type=int,
        default=sorted({1, core_count()}),
        help="thread counts to run at; default: 1 and all cores",
    )
    add_output_option(parser)
    return parser.parse_args()


def binned(rows: int, columns: int) -> DenseMatrix:
    """Return the binned generated set."""
    x, _ = made(rows, columns, seed=0)
    return bin_table(as_table(x), BINS, n_threads=core_count())


def seconds_of(repeats: int, work: Callable[..., Any], *args: Any) -> float:
    """Return the minimum wall seconds of `work`, after a warm-up run."""
    work(*args)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work(*args)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def cpu_seconds_of(repeats: int, work: Callable[..., Any], *args: Any) -> float:
    """Return the minimum CPU seconds of `work`, after a warm-up run."""
    work(*args)
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        work(*args)
        seconds.append(time.process_time() - start)
    return min(seconds)


class Report:
    """Rows of a table that `finish` prints and writes."""

    def __init__(
        self,
        stage: str,
        unit: str,
        arguments: argparse.Namespace,
        measured: str = "wall time",
    ) -> None:
        self.stage = stage
        self.unit = unit
        self.measured = measured
        self.arguments = arguments
        self.machine = describe(PACKAGES)
        self.rows: list[dict[str, Any]] = []

    def add(self, what: str, threads: int, units: float, seconds: float) -> None:
        """Add one measurement."""
        row = {"what": what, "threads": threads, "units": units, "seconds": seconds}
        self.rows.append(row)

    def finish(self) -> None:
        """Print the table and write the JSON."""
        least = f"least {self.measured} of {self.arguments.repeats}"
        table = Table(title=f"{self.stage}, {least}")
        table.add_column("what")
        for heading in ("threads", "ms", f"{self.unit}/s", f"ns/{self.unit[:-1]}"):
            table.add_column(heading, justify="right")
        for row in self.rows:
            rate = row["units"] / row["seconds"]
            table.add_row(
                row["what"],
                str(row["threads"]),
                f"{1e3 * row['seconds']:.2f}",
                f"{rate:.3g}",
                f"{1e9 / rate:.3f}",
            )
        Console().print(table)
        result = {"machine": self.machine, "options": vars(self.arguments)}
        result |= {"unit": self.unit, "seconds_are": self.measured, "runs": self.rows}
        print(write(self.stage, result, self.arguments.output))


def shares(begin: int, end: int, count: int) -> np.ndarray:
    """Return (count, 2) bounds of equal parts of ``begin`` to ``end``."""
    bounds = np.linspace(begin, end, count + 1).astype(np.int64)
    return np.column_stack([bounds[:-1], bounds[1:]])
