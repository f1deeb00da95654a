"""Compare prediction with XGBoost's, by the same trees.

    python -m benchmarks.predict

Hornbeam trains a model, saves it, and both libraries load the file. Measured in turn:
many rows from an array, many rows from a DMatrix made before the clock, and one row.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import xgboost
from rich.console import Console
from rich.table import Table

import hornbeam
from benchmarks.data import made
from benchmarks.libraries import PACKAGES
from benchmarks.machine import add_output_option, core_count, describe, write

COLUMNS = 28
#: One row is predicted this many times to a measurement.
CALLS = 300


def train(rows: int, trees: int, path: Path) -> None:
    """Write a model of `trees` trees of depth 6 to `path`."""
    x, y = made(rows, COLUMNS, seed=0)
    parameters = {"objective": "binary:logistic", "max_depth": 6, "learning_rate": 0.1}
    data = hornbeam.QuantileDMatrix(x, y)
    hornbeam.train(parameters, data, trees, verbose_eval=False).save_model(path)


def seconds_of(work: Callable[[], object]) -> float:
    """Return the wall seconds that `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Train, measure, print, write."""
    parser = argparse.ArgumentParser(description="Compare prediction with XGBoost's.")
    parser.add_argument("--rows", type=int, default=100_000, help="default: 100,000")
    parser.add_argument("--trees", type=int, default=100, help="default: 100")
    parser.add_argument("--repeats", type=int, default=7, help="default: 7")
    parser.add_argument(
        "--threads",
        nargs="+",
        type=int,
        default=sorted({1, core_count()}),
        help="thread counts to run at; default: 1 and all cores",
    )
    add_output_option(parser)
    arguments = parser.parse_args()
    machine = describe(PACKAGES)
    x, _ = made(arguments.rows, COLUMNS, seed=1)
    one = x[:1].copy()
    libraries = {"hornbeam": hornbeam, "xgboost": xgboost}
    boosters = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        train(arguments.rows, arguments.trees, path)
        for name, library in libraries.items():
            boosters[name] = library.Booster(model_file=path)

    times: dict[str, dict[str, list[float]]] = {}
    for threads in arguments.threads:
        for _ in range(arguments.repeats):
            for name, library in libraries.items():
                booster = boosters[name]
                booster.set_param({"nthread": threads})
                # A new matrix each time: XGBoost keeps the predictions of old ones.
                data = library.DMatrix(x, nthread=threads)
                measured = {
                    f"array, {threads} thr.": lambda b=booster: b.inplace_predict(x),
                    f"DMatrix, {threads} thr.": lambda b=booster, d=data: b.predict(d),
                }
                for what, work in measured.items():
                    work_times = times.setdefault(what, {}).setdefault(name, [])
                    work_times.append(seconds_of(work))
    for _ in range(arguments.repeats):
        for name, booster in boosters.items():
            booster.set_param({"nthread": 1})
            booster.inplace_predict(one)
            seconds = seconds_of(
                lambda b=booster: [b.inplace_predict(one) for _ in range(CALLS)]
            )
            times.setdefault("one row", {}).setdefault(name, []).append(seconds / CALLS)

    difference = np.abs(
        boosters["hornbeam"].inplace_predict(x) - boosters["xgboost"].inplace_predict(x)
    ).max()
    table = Table(title=f"{arguments.rows:,} rows, {arguments.trees} trees")
    for heading in ("seconds, least of all", "hornbeam", "xgboost", "times as fast"):
        table.add_column(heading, justify="right")
    for what, by_library in times.items():
        ours, theirs = (min(by_library[name]) for name in libraries)
        table.add_row(what, f"{ours:.3g}", f"{theirs:.3g}", f"{theirs / ours:.2f}")
    console = Console()
    console.print(table)
    console.print(f"largest difference of a prediction: {difference:.2g}")
    result = {"machine": machine, "seconds": times}
    print(write("predict", result, arguments.output))


if __name__ == "__main__":
    main()
