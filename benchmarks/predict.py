"""Compare prediction with XGBoost's and hessboost's, with equal trees.

    python -m benchmarks.predict
    python -m benchmarks.predict --rows 100000 --trees 100 --depth 6 --peers xgboost

Hornbeam trains a model, and all libraries load its file. They alternate in the
prediction of many rows from an array, and from a matrix that is made before the
measurement. Then each entry point predicts one row, a NumPy array, with a model of
`ONE_TREES` trees.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("RAYON_NUM_THREADS", "1")  # hessboost has no other setting

import numpy as np
from rich.console import Console
from rich.table import Table

import hornbeam
import hornbeam.xgboost as face
from benchmarks.data import made
from benchmarks.libraries import PACKAGES
from benchmarks.machine import add_output_option, clock, describe, write

COLUMNS = 28
#: Size of the model for one row, and number of calls per measurement.
ONE_TREES, ONE_DEPTH = 100, 6
CALLS, MEASUREMENTS = 50, 100

Work = Callable[[], Any]


def train(rows: int, trees: int, depth: int, path: Path) -> None:
    """Write a model of `trees` trees of this depth to `path`."""
    x, y = made(rows, COLUMNS, seed=0)
    parameters = {
        "objective": "binary:logistic",
        "max_depth": depth,
        "learning_rate": 0.1,
    }
    data = hornbeam.QuantileDMatrix(x, y)
    hornbeam.train(parameters, data, trees, verbose_eval=False).save_model(path)


def ways_of_hornbeam(path: Path, x: np.ndarray) -> dict[str, Callable[[], Work]]:
    """Return Hornbeam's entry points for all rows on one thread."""
    booster = hornbeam.Booster({"nthread": 1}, model_file=path)
    return {
        "hornbeam, array": lambda: partial(booster.inplace_predict, x),
        "hornbeam, DMatrix": lambda: partial(booster.predict, hornbeam.DMatrix(x)),
    }


def ways_of_xgboost(path: Path, x: np.ndarray) -> dict[str, Callable[[], Work]]:
    """Return XGBoost's entry points."""
    import xgboost

    booster = xgboost.Booster({"nthread": 1}, model_file=path)
    return {
        "xgboost, array": lambda: partial(booster.inplace_predict, x),
        # A new matrix each time, because XGBoost caches predictions.
        "xgboost, DMatrix": lambda: partial(booster.predict, xgboost.DMatrix(x)),
    }


def ways_of_hessboost(path: Path, x: np.ndarray) -> dict[str, Callable[[], Work]]:
    """Return hessboost's entry point."""
    import hessboost

    booster = hessboost.Booster(path)
    return {"hessboost, array": lambda: partial(booster.predict, x)}


PEERS = {"xgboost": ways_of_xgboost, "hessboost": ways_of_hessboost}


def many(
    path: Path, x: np.ndarray, repeats: int, peers: list[str]
) -> dict[str, list[float]]:
    """Return the CPU seconds of each entry point, measured alternately."""
    ways = ways_of_hornbeam(path, x)
    for peer in peers:
        ways |= PEERS[peer](path, x)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[str, np.ndarray] = {}
    for _ in range(repeats):
        for name, prepare in ways.items():
            predict = prepare()
            with clock() as working:
                found[name] = predict()
            seconds[name].append(working.cpu)
    for predictions in found.values():
        np.testing.assert_allclose(predictions, found["hornbeam, array"], atol=1e-5)
    return seconds


def ways_of_one(path: Path, row: np.ndarray, peers: list[str]) -> dict[str, Work]:
    """Return the entry points for one row, of Hornbeam and of the drop-in module."""
    ways = ways_into(hornbeam, "Hornbeam", path, row)
    for name, work in ways_into(face, "XGB", path, row).items():
        ways[f"hornbeam.xgboost: {name}"] = work
    if "xgboost" in peers:
        import xgboost

        theirs = xgboost.Booster({"nthread": 1}, model_file=path)
        ways["xgboost inplace_predict"] = lambda: theirs.inplace_predict(row)
    return ways


def ways_into(library: Any, estimators: str, path: Path, row: np.ndarray) -> Any:
    """Return the entry points of boosters, and of estimators with this name prefix."""
    x, y = made(2000, COLUMNS, seed=2)
    size = {"n_estimators": ONE_TREES, "max_depth": ONE_DEPTH, "n_jobs": 1}
    regressor = getattr(library, f"{estimators}Regressor")(**size).fit(x, y)
    classifier = getattr(library, f"{estimators}Classifier")(**size).fit(
        x, y > y.mean()
    )
    booster = library.Booster({"nthread": 1}, model_file=path)
    matrix = library.DMatrix(row)
    return {
        "Booster.inplace_predict": lambda: booster.inplace_predict(row),
        "Booster.predict": lambda: booster.predict(matrix),
        "Booster.predict, DMatrix made too": lambda: booster.predict(
            library.DMatrix(row)
        ),
        f"{estimators}Regressor.predict": lambda: regressor.predict(row),
        f"{estimators}Classifier.predict": lambda: classifier.predict(row),
        f"{estimators}Classifier.predict_proba": lambda: classifier.predict_proba(row),
    }


def microseconds(work: Work) -> float:
    """Return the wall time of one call, as the minimum of all measurements."""
    least = float("inf")
    for _ in range(MEASUREMENTS):
        start = time.perf_counter()
        for _ in range(CALLS):
            work()
        least = min(least, time.perf_counter() - start)
    return 1e6 * least / CALLS


def main() -> None:
    """Train, measure, print, write."""
    parser = argparse.ArgumentParser(description="Compare prediction.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    add_output_option(parser)
    arguments = parser.parse_args()
    machine = describe(PACKAGES)
    x, _ = made(arguments.rows, COLUMNS, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder) / "model.json", Path(folder) / "small.json"
        train(arguments.rows, arguments.trees, arguments.depth, path)
        train(100_000, ONE_TREES, ONE_DEPTH, small)
        seconds = many(path, x, arguments.repeats, arguments.peers)
        ways = ways_of_one(small, x[:1].copy(), arguments.peers)
        one = {name: microseconds(work) for name, work in ways.items()}
    best = {name: min(times) for name, times in seconds.items()}
    console = Console()
    title = f"{arguments.rows:,} rows, {arguments.trees} trees, one thread"
    table = Table("", "CPU s, least", "of ours", title=title)
    for name, least in best.items():
        table.add_row(name, f"{least:.2f}", f"{least / best['hornbeam, array']:.2f}")
    console.print(table)
    table = Table("", "µs, least", title=f"one row, {ONE_TREES} trees, one thread")
    for name, least in one.items():
        table.add_row(name, f"{least:.1f}")
    console.print(table)
    result = {
        "machine": machine,
        "options": vars(arguments),
        "seconds": seconds,
        "microseconds": one,
    }
    print(write("predict", result, arguments.output))


if __name__ == "__main__":
    main()
