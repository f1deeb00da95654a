"""Models the time of a round on large clusters.

    python -m benchmarks.scale --picture docs/scale.png

The costs of a histogram addition, a row, a bin and a message are measured on this
machine (or read from an earlier result: --rates). `hornbeam.distributed.scale` computes
the time of a round with many workers from them, for each method to reduce histograms.
Prints a table and writes JSON and, with --picture, a plot. --check also measures rounds
on one and two workers of this machine and compares them with the model.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.cluster import seconds_per_round
from benchmarks.libraries import PACKAGES
from benchmarks.machine import add_output_option, describe, write
from benchmarks.scale_rates import measure
from hornbeam.distributed.scale import (
    EXCHANGES,
    Cluster,
    Job,
    Rates,
    estimate,
    is_paged,
)

_COLORS = {"star": "C3", "tree": "C0", "slices": "C1", "halving": "C2"}
_LABELS = {
    "star": "to the driver",
    "tree": "in a tree",
    "slices": "slices, all to all",
    "halving": "slices, by halving",
}


def parse_arguments() -> argparse.Namespace:
    """Return the command line arguments."""
    parser = argparse.ArgumentParser(description="Model rounds on large clusters.")
    parser.add_argument("--rows", type=int, default=1_000_000, help="measure on these")
    parser.add_argument("--repeats", type=int, default=5, help="default: 5")
    parser.add_argument("--rates", type=Path, help="a result with rates to use again")
    parser.add_argument(
        "--modelled", nargs="+", type=float, default=[1e9, 1e11], help="rows"
    )
    parser.add_argument("--features", nargs="+", type=int, default=[28, 1000])
    parser.add_argument("--workers", nargs="+", type=int, default=[10, 100, 1000])
    parser.add_argument("--gigabits", nargs="+", type=float, default=[10, 100])
    parser.add_argument("--threads", type=int, default=16, help="of a worker")
    parser.add_argument(
        "--efficiency",
        type=float,
        default=Cluster.efficiency,
        help="share of threads times one thread's speed that they reach together",
    )
    parser.add_argument("--memory", type=float, default=256, help="GB of a worker")
    parser.add_argument("--disk", type=float, default=3, help="GB/s of a worker")
    parser.add_argument("--check", action="store_true", help="measure real rounds")
    parser.add_argument("--picture", type=Path, help="where to draw")
    add_output_option(parser)
    return parser.parse_args()


def cluster_of(arguments: argparse.Namespace, workers: int, gigabits: float) -> Cluster:
    """Return a cluster with the requested workers."""
    return Cluster(
        workers,
        arguments.threads,
        arguments.efficiency,
        gigabits * 1e9 / 8,
        arguments.memory * 1e9,
        arguments.disk * 1e9,
    )


def jobs_of(arguments: argparse.Namespace) -> list[Job]:
    """Return the requested jobs."""
    pairs = itertools.product(arguments.features, arguments.modelled)
    return [Job(rows, features) for features, rows in pairs]


def model_all(arguments: argparse.Namespace, rates: Rates) -> list[dict[str, Any]]:
    """Return a line per modelled round."""
    lines = []
    for job in jobs_of(arguments):
        for workers, gigabits in itertools.product(
            arguments.workers, arguments.gigabits
        ):
            cluster = cluster_of(arguments, workers, gigabits)
            for exchange in EXCHANGES:
                found = estimate(job, cluster, rates, exchange)
                lines.append(
                    {
                        **vars(job),
                        "workers": workers,
                        "gigabits": gigabits,
                        "exchange": exchange,
                        "paged": is_paged(job, cluster),
                        **vars(found),
                        "seconds": found.seconds,
                        "bound": found.bound,
                    }
                )
    return lines


def check(arguments: argparse.Namespace, rates: Rates) -> list[dict[str, Any]]:
    """Return a line each of measured and modelled seconds on one and two workers."""
    lines = []
    for workers in (1, 2):
        cluster = Cluster(workers, threads=1, network=math.inf)
        job = Job(arguments.rows, 28)
        modelled = estimate(job, cluster, rates, "star")
        options = argparse.Namespace(
            rows=arguments.rows, columns=28, partitions=2 * workers
        )
        wall, cpu = seconds_per_round(options, workers, arguments.repeats)
        whats = {
            "a round": (wall, modelled.seconds),
            "loops over rows, CPU": (cpu, modelled.counting),
        }
        for what, (measured, expected) in whats.items():
            line = {"workers": workers, "what": what}
            lines.append(line | {"measured": measured, "modelled": expected})
    return lines


def print_check(lines: list[dict[str, Any]], console: Console) -> None:
    """Print the error of the model."""
    table = Table(title="Seconds a round on this machine")
    for heading in ("workers", "what", "measured", "modelled", "of it"):
        table.add_column(heading, justify="right")
    for line in lines:
        share = line["modelled"] / line["measured"]
        seconds = (f"{line[what]:.4f}" for what in ("measured", "modelled"))
        table.add_row(str(line["workers"]), line["what"], *seconds, f"{share:.0%}")
    console.print(table)


def print_rates(rates: Rates, console: Console) -> None:
    """Print the measured rates."""
    table = Table(title="Rates")
    table.add_column("of one")
    table.add_column("ns", justify="right")
    for name, seconds in vars(rates).items():
        table.add_row(name, f"{1e9 * seconds:,.3f}")
    console.print(table)


def print_rounds(lines: list[dict[str, Any]], console: Console) -> None:
    """Print a line per cluster, with all reduction methods."""
    table = Table(title="Seconds a round, and the part that takes longest")
    for heading in ("rows", "features", "workers", "Gbit/s", *EXCHANGES, "rows alone"):
        table.add_column(heading, justify="right")
    for _, group in itertools.groupby(
        lines, lambda r: (r["rows"], r["features"], r["workers"], r["gigabits"])
    ):
        ways = list(group)
        first = ways[0]
        rows_alone = first["counting"] + first["reading"]
        cells = [f"{way['seconds']:.3g} {way['bound']}" for way in ways]
        table.add_row(
            f"{first['rows']:.0e}",
            str(first["features"]),
            str(first["workers"]),
            f"{first['gigabits']:g}",
            *cells,
            f"{rows_alone:.3g}" + " paged" * first["paged"],
        )
    console.print(table)


def power(number: float) -> str:
    """Return the number, as a power of ten if it is one."""
    exponent = round(math.log10(number))
    return f"$10^{{{exponent}}}$" if number == 10.0**exponent else f"{number:,.0f}"


def draw(arguments: argparse.Namespace, rates: Rates, path: Path) -> None:
    """Write a plot with a panel per job and a line per method: seconds over workers."""
    counts = np.unique(np.geomspace(1, 4096, 97).round().astype(int)).tolist()
    grid = len(arguments.features), len(arguments.modelled)
    size = 5.2 * grid[1], 3.9 * grid[0] + 0.6
    figure, panels = plt.subplots(
        *grid, figsize=size, squeeze=False, layout="constrained"
    )
    for job, axes in zip(jobs_of(arguments), panels.ravel(), strict=True):
        for gigabits, style in zip(arguments.gigabits, ("-", "--", ":"), strict=False):
            clusters = [cluster_of(arguments, count, gigabits) for count in counts]
            for exchange, color in _COLORS.items():
                rounds = [estimate(job, c, rates, exchange) for c in clusters]
                label = _LABELS[exchange] if style == "-" else None
                seconds = [one.seconds for one in rounds]
                axes.loglog(counts, seconds, style, color=color, label=label, lw=1.5)
        alone = [one.counting + one.reading for one in rounds]
        axes.loglog(counts, alone, color="0.8", lw=5, zorder=0, label="loops over rows")
        on_disk = [one.workers for one in clusters if is_paged(job, one)]
        if on_disk:
            axes.axvspan(1, max(on_disk), color="0.95", label="codes on disk")
        axes.set_title(f"{power(job.rows)} rows, {job.features:,} features")
        axes.set_ylim(min(alone) / 2, max(alone) * 2)
        axes.set_xlabel(f"workers of {arguments.threads} threads")
        axes.set_ylabel("seconds a round")
        axes.grid(alpha=0.3)
    handles, labels = panels[-1, -1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def main() -> None:
    """Measure, model, print, write."""
    arguments = parse_arguments()
    console = Console(width=160)
    machine = describe([*PACKAGES, "dask", "distributed"])
    if arguments.rates is None:
        rates = measure(arguments.rows, 28, arguments.repeats)
    else:
        rates = Rates(**json.loads(arguments.rates.read_text())["rates"])
    print_rates(rates, console)
    lines = model_all(arguments, rates)
    print_rounds(lines, console)
    result = {"machine": machine, "options": vars(arguments), "rates": vars(rates)}
    result["rounds"] = lines
    if arguments.check:
        result["check"] = check(arguments, rates)
        print_check(result["check"], console)
    print(write("scale", result, arguments.output))
    if arguments.picture is not None:
        draw(arguments, rates, arguments.picture)
        print(arguments.picture)


if __name__ == "__main__":
    main()
