"""Compare writing and reading of model files with XGBoost's: CPU milliseconds.

    python -m benchmarks.model_files
    python -m benchmarks.model_files --trees 1000 --depth 6

Hornbeam trains a model, and XGBoost loads its file. The libraries alternate, in memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import xgboost
from rich.console import Console
from rich.table import Table

import hornbeam
from benchmarks.data import made
from benchmarks.libraries import PACKAGES
from benchmarks.machine import add_output_option, clock, describe, write

LIBRARIES = {"hornbeam": hornbeam, "xgboost": xgboost}
COLUMNS = 28


def parse_arguments() -> argparse.Namespace:
    """Return the command line arguments."""
    parser = argparse.ArgumentParser(description="Compare model files.")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=7)
    add_output_option(parser)
    return parser.parse_args()


def train(arguments: argparse.Namespace) -> bytearray:
    """Return the file of a model with these trees."""
    x, y = made(arguments.rows, COLUMNS, seed=0)
    parameters = {"objective": "binary:logistic", "max_depth": arguments.depth}
    data = hornbeam.QuantileDMatrix(x, y)
    return hornbeam.train(parameters, data, arguments.trees).save_raw("json")


def milliseconds(work: Callable[[], Any]) -> float:
    """Return the processor time of a call."""
    with clock() as taken:
        work()
    return 1000 * taken.cpu


def run_all(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return one line for each format and direction."""
    file = train(arguments)
    boosters = {
        name: library.Booster(model_file=file) for name, library in LIBRARIES.items()
    }
    runs = []
    for format in ("json", "ubj"):
        least = dict.fromkeys(
            (f"{what}, {name}" for what in ("write", "read") for name in LIBRARIES),
            float("inf"),
        )
        for _ in range(arguments.repeats):
            for name, library in LIBRARIES.items():
                raw = boosters[name].save_raw(format)

                def save(name: str = name, format: str = format) -> None:
                    boosters[name].save_raw(format)

                def load(library: Any = library, raw: Any = raw) -> None:
                    library.Booster(model_file=raw)

                for what, work in (("write", save), ("read", load)):
                    key = f"{what}, {name}"
                    least[key] = min(least[key], milliseconds(work))
        runs.append({"format": format, "bytes": len(raw), "milliseconds": least})
    return runs


def main() -> None:
    """Measure, print, write."""
    arguments = parse_arguments()
    machine = describe(PACKAGES)
    runs = run_all(arguments)
    table = Table(title=f"{arguments.trees} trees of depth {arguments.depth}, CPU ms")
    for heading in ("format", "", "hornbeam", "xgboost", "xgboost / hornbeam"):
        table.add_column(heading)
    for run in runs:
        for what in ("write", "read"):
            own, peer = (run["milliseconds"][f"{what}, {name}"] for name in LIBRARIES)
            cells = f"{own:.1f}", f"{peer:.1f}", f"{peer / own:.2f}"
            table.add_row(run["format"], what, *cells)
    Console().print(table)
    result = {"machine": machine, "options": vars(arguments), "runs": runs}
    print(write("model_files", result, arguments.output))


if __name__ == "__main__":
    main()
