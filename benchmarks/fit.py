"""Compare complete fits with other libraries, data preparation included.

    python -m benchmarks.fit --sets made-1m flights --repeats 3

Every fit runs in a new process, the libraries alternate, and repeat r samples its rows
with seed r. CPU seconds are of a fit on one thread, wall seconds on all cores, both as
the minimum of the repeats, because other processes can only increase them. Prints a
table, and writes JSON and a plot to benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.sparse import issparse, save_npz

from benchmarks.data import SETS, BenchmarkSet, Split
from benchmarks.libraries import LIBRARIES, PACKAGES
from benchmarks.machine import add_output_option, core_count, describe, write

Run = dict[str, Any]


def parse_arguments() -> argparse.Namespace:
    """Return the command line arguments."""
    parser = argparse.ArgumentParser(
        description="Compare whole fits with those of other libraries."
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--rows", type=int, help="train on this many rows of each set")
    parser.add_argument("--rounds", type=int, help="boosting rounds, for every set")
    parser.add_argument("--repeats", type=int, default=3, help="default: 3")
    parser.add_argument(
        "--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES)
    )
    parser.add_argument(
        "--threads",
        nargs="+",
        type=int,
        default=sorted({1, core_count()}),
        help="thread counts to run at; default: 1 and all cores",
    )
    add_output_option(parser)
    return parser.parse_args()


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


def with_ratio(value: float | None, reference: float | None) -> str:
    """Return the value and its ratio to the reference."""
    if value is None:
        return "-"
    return f"{value:.3g}" + (f"  x{value / reference:.2f}" if reference else "")


def print_table(
    runs: list[Run], arguments: argparse.Namespace, console: Console
) -> None:
    """Print a table per set, with ratios to the first library."""
    first, *_ = arguments.libraries
    one, most = min(arguments.threads), max(arguments.threads)
    measures = {
        f"CPU s\n{one} thr.": ("cpu_seconds", one),
        f"wall s\n{most} thr.": ("wall_seconds", most),
        "peak MB": ("megabytes_peak", one),
        "MB added\nby the fit": ("megabytes_added", one),
    }
    for set_name in dict.fromkeys(run["set"] for run in runs):
        title = f"{set_name}, times {first}'s"
        table = Table(title=title, title_justify="left")
        table.add_column("library", no_wrap=True)
        for heading in (*measures, f"speed-up\n{one} to {most}", "loss\nmedian"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("loss\nleast  most", justify="right", no_wrap=True)
        for library in arguments.libraries:
            here = {"set": set_name, "library": library}
            cells = [library]
            for field, threads in measures.values():
                mine = least_of(runs, field, **here, threads=threads)
                theirs = least_of(
                    runs, field, set=set_name, library=first, threads=threads
                )
                cells.append(with_ratio(mine, theirs))
            slow = least_of(runs, "wall_seconds", **here, threads=one)
            fast = least_of(runs, "wall_seconds", **here, threads=most)
            cells.append(f"{slow / fast:.2f}" if slow and fast else "-")
            losses = values_of(runs, "loss", **here)
            if losses:
                cells.append(f"{statistics.median(losses):.5f}")
                cells.append(f"{min(losses):.5f}  {max(losses):.5f}")
            table.add_row(*cells)
        console.print(table)


def draw(runs: list[Run], arguments: argparse.Namespace, path: Path) -> None:
    """Write a plot with a row per set, bars of seconds, and losses."""
    one, most = min(arguments.threads), max(arguments.threads)
    sets = list(dict.fromkeys(run["set"] for run in runs))
    libraries = arguments.libraries
    height = 0.6 + sum(0.5 + 0.28 * len(libraries) for _ in sets)
    figure, grid = plt.subplots(
        len(sets), 2, figsize=(10, height), squeeze=False, layout="constrained"
    )
    columns = (
        ("cpu_seconds", one, "CPU seconds"),
        ("wall_seconds", most, "wall seconds"),
    )
    for set_name, row in zip(sets, grid, strict=True):
        for axes, (field, threads, heading) in zip(row, columns, strict=True):
            for k, library in enumerate(libraries):
                here = {"set": set_name, "library": library, "threads": threads}
                seconds = least_of(runs, field, **here)
                if seconds is None:
                    continue
                loss = statistics.median(values_of(runs, "loss", **here))
                colour = "tab:green" if library == "hornbeam" else "lightgrey"
                axes.barh(k, seconds, color=colour)
                axes.annotate(
                    f"{seconds:.3g} s, loss {loss:.4f}",
                    (seconds, k),
                    xytext=(4, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=8,
                )
            axes.set_yticks(range(len(libraries)), libraries, fontsize=8)
            axes.set_ylim(len(libraries) - 0.4, -0.6)
            axes.margins(x=0.5)
            axes.set_xlim(left=0)
            axes.tick_params(axis="x", labelsize=8)
            axes.set_title(f"{set_name}: {heading}, {count(threads)}", fontsize=9)
            axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    """Run, print, write."""
    arguments = parse_arguments()
    console = Console(width=130)
    machine = describe(PACKAGES)
    runs = list(run_all(SETS, arguments, console))
    print_table(runs, arguments, console)
    machine["load_average_after"] = os.getloadavg()
    options = {
        key: value for key, value in vars(arguments).items() if value is not None
    }
    result = {"machine": machine, "options": options, "runs": runs}
    path = write("fit", result, arguments.output)
    draw(runs, arguments, path.with_suffix(".png"))
    console.print(f"{path}\n{path.with_suffix('.png')}", highlight=False)


if __name__ == "__main__":
    main()
