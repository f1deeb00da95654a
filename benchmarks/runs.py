"""Runs fits of each library in new processes, one after the other.

`benchmarks.fit`, `benchmarks.sparse` and `benchmarks.threads` print what these return.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from scipy.sparse import issparse, save_npz

from benchmarks.data import BenchmarkSet, Split

__all__ = ["Run", "count", "least_of", "run_all", "values_of"]

#: Measurements of one fit and its settings, or the error that ended it.
Run = dict[str, Any]


def save(split: Split, folder: Path) -> None:
    """Write the arrays of `split` to files for a new process."""
    for part in ("x_train", "y_train", "x_test", "y_test"):
        values = getattr(split, part)
        if issparse(values):
            save_npz(folder / f"{part}.npz", values, compressed=False)
        else:
            np.save(folder / f"{part}.npy", values)


def run_one(library: str, folder: Path, numbers: tuple[int, int, int]) -> Run:
    """Return the measurements of one fit in a new process, or its error."""
    threads = str(numbers[-1])
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.fit_one", library, str(folder)]
        + [str(number) for number in numbers],
        env={**os.environ, "OMP_NUM_THREADS": threads},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != 0:
        lines = process.stderr.strip().splitlines() or [f"exit {process.returncode}"]
        return {"error": lines[-1]}
    result: Run = json.loads(process.stdout.splitlines()[-1])
    return result


def run_all(
    sets: Mapping[str, BenchmarkSet], arguments: argparse.Namespace, console: Console
) -> Iterator[Run]:
    """Yield the runs on all requested sets, with alternating libraries."""
    for set_name in arguments.sets:
        chosen = sets[set_name]
        rounds = arguments.rounds or chosen.rounds
        for seed in range(arguments.repeats):
            with tempfile.TemporaryDirectory() as folder:
                save(chosen.load(seed, arguments.rows), Path(folder))
                for threads in arguments.threads:
                    for library in arguments.libraries:
                        run = run_one(
                            library, Path(folder), (chosen.n_classes, rounds, threads)
                        )
                        run |= {"set": set_name, "library": library, "seed": seed}
                        run |= {"threads": threads, "rounds": rounds}
                        console.print(summary(run), highlight=False)
                        yield run


def count(threads: int) -> str:
    """Return the number of threads in words."""
    return f"{threads} thread" + "s" * (threads > 1)


def summary(run: Run) -> str:
    """Return a line about one run."""
    where = f"{run['set']:10} {run['library']:18} {count(run['threads']):10}"
    if "error" in run:
        return f"{where}  failed: {run['error']}"
    return (
        f"{where}  cpu {run['cpu_seconds']:7.2f} s  wall {run['wall_seconds']:7.2f} s"
        f"  {run['megabytes_peak']:6.0f} MB  loss {run['loss']:.5f}"
    )


def values_of(runs: list[Run], field: str, **where: Any) -> list[float]:
    """Return `field` of the successful runs that match `where`."""
    return [
        run[field]
        for run in runs
        if "error" not in run and where.items() <= run.items()
    ]


def least_of(runs: list[Run], field: str, **where: Any) -> float | None:
    """Return the minimum of `field` over the runs that match `where`."""
    return min(values_of(runs, field, **where), default=None)
