"""Compare complete fits with other libraries, data preparation included.

    python -m benchmarks.fit --sets made-1m flights --repeats 3

Every fit runs in a new process, the libraries alternate, and repeat r samples its rows
with seed r. CPU seconds are of a fit on one thread, wall seconds on all cores, both as
the minimum of the repeats, because other processes can only increase them. Prints a
table, and writes JSON and a plot to benchmarks/results/.
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path

import matplotlib.pyplot as plt
from rich.console import Console
from rich.table import Table

from benchmarks.data import SETS
from benchmarks.libraries import LIBRARIES, PACKAGES
from benchmarks.machine import add_output_option, core_count, describe, write
from benchmarks.runs import Run, count, least_of, run_all, values_of


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
