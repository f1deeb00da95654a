"""Training from external memory, compared with memory and XGBoost's external memory.

python -m benchmarks.external_memory

The rows are generated batch by batch, equal for all runs. Each run is a separate
process, so its peak memory includes Python and the libraries. Building is everything
before the first round.
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

#: Kinds of storage, in the order of the runs.
STORAGE = ("external-memory", "memory", "xgboost")
TITLES = {
    "external-memory": "hornbeam, external memory",
    "memory": "hornbeam, in memory",
    "xgboost": "xgboost, pages on disk",
}

Run = dict[str, Any]


def parse_arguments() -> argparse.Namespace:
    """Return the command line arguments."""
    parser = argparse.ArgumentParser(description="Train from pages on disk.")
    rows = 10_000_000
    parser.add_argument("--rows", type=int, default=rows, help=f"default: {rows:,}")
    parser.add_argument("--columns", type=int, default=28, help="default: 28")
    parser.add_argument("--rounds", type=int, default=10, help="default: 10")
    parser.add_argument("--repeats", type=int, default=1, help="default: 1")
    parser.add_argument(
        "--batch", type=int, default=1 << 18, help="rows of a batch, default: 2**18"
    )
    parser.add_argument("--limit", default="700MB", help="memory_limit, default: 700MB")
    parser.add_argument("--codec", default="auto", help="default: auto")
    parser.add_argument("--storage", nargs="+", choices=STORAGE, default=list(STORAGE))
    parser.add_argument("--threads", type=int, default=core_count())
    parser.add_argument("--folder", help="folder of the cache, default: temporary")
    add_output_option(parser)
    return parser.parse_args()


def run_one(storage: str, arguments: argparse.Namespace) -> Run:
    """Return the measurements of one training, or its error."""
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        options = {**vars(arguments), "storage": storage, "folder": folder}
        process = subprocess.run(
            [sys.executable, "-m", "benchmarks.external_memory_one"],
            input=json.dumps(options, default=str),
            capture_output=True,
            text=True,
            check=False,
        )
    if process.returncode != 0:
        lines = process.stderr.strip().splitlines() or [f"exit {process.returncode}"]
        return {"storage": storage, "error": lines[-1]}
    result: Run = json.loads(process.stdout.splitlines()[-1])
    return {"storage": storage, **result}


def print_table(runs: list[Run], arguments: argparse.Namespace) -> None:
    """Print the minimum of each kind of storage, with ratios."""
    title = f"{arguments.rows:,} x {arguments.columns}, {arguments.rounds} rounds"
    table = Table(title=f"{title}, memory_limit {arguments.limit}")
    table.add_column("rows are")
    headings = "building s", "round s", "CPU s", "all / rounds s", "peak MB", "digest"
    for heading in headings:
        table.add_column(heading, justify="right")
    for run in runs:
        if "error" in run:
            table.add_row(TITLES[run["storage"]], run["error"])
            continue
        table.add_row(
            TITLES[run["storage"]],
            f"{run['building_seconds']:.2f}",
            f"{run['round_seconds']:.3f}",
            f"{run['round_cpu_seconds']:.3f}",
            f"{run['seconds'] / arguments.rounds:.3f}",
            f"{run['megabytes_peak']:.0f}",
            run["digest"][:8],
        )
    Console().print(table)


def main() -> None:
    """Run all kinds of storage alternately, print, and write the result."""
    arguments = parse_arguments()
    machine = describe([*PACKAGES, "blosc2"])
    runs = []
    for repeat in range(arguments.repeats):
        for storage in arguments.storage:
            runs.append({"repeat": repeat, **run_one(storage, arguments)})
            print(json.dumps(runs[-1]))
    print_table(runs, arguments)
    result = {"machine": machine, "options": vars(arguments), "runs": runs}
    print(write("external_memory", result, arguments.output))


if __name__ == "__main__":
    main()
