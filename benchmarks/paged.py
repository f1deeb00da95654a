"""Training from pages on disk, beside memory and XGBoost's ExtMemQuantileDMatrix.

python -m benchmarks.paged

The rows are made batch by batch while they are read, the same for all. Each run is a
process of its own, so that its highest memory is known: all of it, Python and the
libraries included. Building is whatever happens before the first round.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.libraries import PACKAGES
from benchmarks.machine import add_output_option, core_count, describe, write

#: How the rows are held, in the order in which they are run.
WAYS = ("paged", "memory", "xgboost")
TITLES = {
    "paged": "hornbeam, pages on disk",
    "memory": "hornbeam, in memory",
    "xgboost": "xgboost, pages on disk",
}

Run = dict[str, Any]


def parse_arguments() -> argparse.Namespace:
    """Return what was asked for on the command line."""
    parser = argparse.ArgumentParser(description="Train from pages on disk.")
    rows = 10_000_000
    parser.add_argument("--rows", type=int, default=rows, help=f"default: {rows:,}")
    parser.add_argument("--columns", type=int, default=28, help="default: 28")
    parser.add_argument("--rounds", type=int, default=10, help="default: 10")
    parser.add_argument("--repeats", type=int, default=1, help="default: 1")
    parser.add_argument(
        "--batch", type=int, default=1 << 18, help="rows of a batch, default: 2**18"
    )
    parser.add_argument(
        "--limit", default="700MB", help="memory_limit of the pages, default: 700MB"
    )
    parser.add_argument("--codec", default="auto", help="default: auto")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--threads", type=int, default=core_count())
    parser.add_argument("--folder", help="where pages go, default: a temporary folder")
    add_output_option(parser)
    return parser.parse_args()


def run_one(way: str, arguments: argparse.Namespace) -> Run:
    """Return what one training took, or its error."""
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        options = {**vars(arguments), "way": way, "folder": folder}
        process = subprocess.run(
            [sys.executable, "-m", "benchmarks.paged_one"],
            input=json.dumps(options, default=str),
            capture_output=True,
            text=True,
            check=False,
        )
    if process.returncode != 0:
        lines = process.stderr.strip().splitlines() or [f"exit {process.returncode}"]
        return {"way": way, "error": lines[-1]}
    result: Run = json.loads(process.stdout.splitlines()[-1])
    return {"way": way, **result}


def print_table(runs: list[Run], arguments: argparse.Namespace) -> None:
    """Print the least of each way, and how it compares."""
    title = f"{arguments.rows:,} x {arguments.columns}, {arguments.rounds} rounds"
    table = Table(title=f"{title}, memory_limit {arguments.limit}")
    table.add_column("rows are")
    headings = "building s", "round s", "CPU s", "all / rounds s", "peak MB", "digest"
    for heading in headings:
        table.add_column(heading, justify="right")
    for run in runs:
        if "error" in run:
            table.add_row(TITLES[run["way"]], run["error"])
            continue
        table.add_row(
            TITLES[run["way"]],
            f"{run['building_seconds']:.2f}",
            f"{run['round_seconds']:.3f}",
            f"{run['round_cpu_seconds']:.3f}",
            f"{run['seconds'] / arguments.rounds:.3f}",
            f"{run['megabytes_peak']:.0f}",
            run["digest"][:8],
        )
    Console().print(table)


def main() -> None:
    """Run all ways in turn, print, and write the result."""
    arguments = parse_arguments()
    machine = describe([*PACKAGES, "blosc2"])
    runs = []
    for repeat in range(arguments.repeats):
        for way in arguments.ways:
            runs.append({"repeat": repeat, **run_one(way, arguments)})
            print(json.dumps(runs[-1]))
    print_table(runs, arguments)
    result = {"machine": machine, "options": vars(arguments), "runs": runs}
    print(write("paged", result, arguments.output))


if __name__ == "__main__":
    main()
