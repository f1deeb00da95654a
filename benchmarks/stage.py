"""What the scripts of single stages share: their data, clock and report.

Each stage runs on the generated set with the kernels that training uses, at one thread
and at all, and reports units of work a second.
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
    """Return rows, columns, repeats and threads from the command line."""
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
    """Return the generated set in bins."""
    x, _ = made(rows, columns, seed=0)
    return bin_table(as_table(x), BINS, n_threads=core_count())


def seconds_of(repeats: int, work: Callable[..., Any], *args: Any) -> float:
    """Return the least wall seconds of `work`, after one run that does not count."""
    work(*args)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work(*args)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def cpu_seconds_of(repeats: int, work: Callable[..., Any], *args: Any) -> float:
    """Return the least CPU seconds of `work`, after one run that does not count."""
    work(*args)
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        work(*args)
        seconds.append(time.process_time() - start)
    return min(seconds)


class Report:
    """Rows of a table that is printed and written when the stage is done."""

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
        """Enter one measurement."""
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
    """Return (count, 2) bounds that cut ``begin`` to ``end`` into even parts."""
    bounds = np.linspace(begin, end, count + 1).astype(np.int64)
    return np.column_stack([bounds[:-1], bounds[1:]])
