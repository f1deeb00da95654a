"""Compare training on Spark with one process and with XGBoost's.

    python -m benchmarks.spark

Spark has two slots of one thread each on this machine, ``local[2]``; the single process
has two threads. Both read the rows from Parquet files. Seconds are from the files to
the model, without the start of the session and of the Python workers of Spark, as the
minimum of alternating repeats. Prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

import hornbeam
from benchmarks.data import made
from benchmarks.libraries import PACKAGES, Task
from benchmarks.machine import add_output_option, describe, write
from hornbeam.spark import HornbeamClassifier

WORKERS = 2
#: The rounds of the fits that start Spark's workers and load kernels.
_WARM_UP = 2


def parse_arguments() -> argparse.Namespace:
    """Return the command line arguments."""
    parser = argparse.ArgumentParser(description="Compare training on Spark.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=28)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    add_output_option(parser)
    return parser.parse_args()


class Rows:
    """Rows in a Parquet file for each worker."""

    def __init__(self, folder: Path, rows: int, columns: int) -> None:
        x, y = made(rows, columns, seed=0)
        self.folder = folder
        self.names = [f"x{column}" for column in range(columns)]
        for part in range(WORKERS):
            own = slice(part * rows // WORKERS, (part + 1) * rows // WORKERS)
            table = pa.table([*x[own].T, y[own]], names=[*self.names, "label"])
            pa.parquet.write_table(table, folder / f"part-{part}.parquet")


def parameters(threads: int) -> dict[str, Any]:
    """Return the parameters of all fits, for a number of threads per process."""
    given = Task(n_classes=2, rounds=0, threads=threads).xgboost_parameters()
    return {name: value for name, value in given.items() if name != "objective"}


def fit_alone(rows: Rows, rounds: int) -> Any:
    """Train in this process with as many threads as there are workers."""
    table = pa.parquet.read_table(rows.folder)
    data = hornbeam.DMatrix(table.select(rows.names), table["label"], nthread=WORKERS)
    given = {**parameters(WORKERS), "objective": "binary:logistic"}
    return hornbeam.train(given, data, rounds, verbose_eval=False)


def fit_on_spark(rows: Rows, rounds: int, frame: DataFrame) -> Any:
    """Train on Spark."""
    given = {k: v for k, v in parameters(1).items() if k != "nthread"}
    estimator = HornbeamClassifier(
        features_col=rows.names,
        num_workers=WORKERS,
        n_estimators=rounds,
        verbose=False,
        **given,
    )
    return estimator.fit(frame).get_booster()


def fit_xgboost(rows: Rows, rounds: int, frame: DataFrame) -> Any:
    """Train XGBoost on Spark."""
    from xgboost.spark import SparkXGBClassifier

    given = {k: v for k, v in parameters(1).items() if k not in ("nthread", "seed")}
    estimator = SparkXGBClassifier(
        features_col=rows.names,
        num_workers=WORKERS,
        n_estimators=rounds,
        verbose=False,
        **given,
    )
    return estimator.fit(frame).get_booster()


def start_session() -> SparkSession:
    """Return a session of two slots, whose driver and tasks share a Java process."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.sql.files.maxPartitionBytes": "1g",
        "spark.sql.files.openCostInBytes": "1g",
    }
    builder = SparkSession.builder.master(f"local[{WORKERS}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    """Run the comparison, print a table and write JSON."""
    arguments, console = parse_arguments(), Console()
    with tempfile.TemporaryDirectory() as folder:
        rows = Rows(Path(folder), arguments.rows, arguments.columns)
        spark = start_session()
        frame = spark.read.parquet(folder)
        fits: dict[str, Callable[[int], Any]] = {
            "hornbeam, one process": lambda n: fit_alone(rows, n),
            "hornbeam.spark": lambda n: fit_on_spark(rows, n, frame),
            "xgboost.spark": lambda n: fit_xgboost(rows, n, frame),
        }
        seconds: dict[str, list[float]] = {name: [] for name in fits}
        models = {name: fit(_WARM_UP) for name, fit in fits.items()}
        for _ in range(arguments.repeats):
            for name, fit in fits.items():
                start = time.perf_counter()
                models[name] = fit(arguments.rounds)
                seconds[name].append(time.perf_counter() - start)
        spark.stop()
    alone, on_spark = list(models.values())[:2]
    assert alone.digest() == on_spark.digest()
    least = {name: min(taken) for name, taken in seconds.items()}
    table = Table("fit", "seconds", "of one process")
    for name, taken in least.items():
        share = taken / least["hornbeam, one process"]
        table.add_row(name, f"{taken:.2f}", f"{share:.2f}")
    console.print(table, f"load {np.round(os.getloadavg(), 1).tolist()}")
    facts = describe([*PACKAGES, "pyspark"])
    result = {**facts, "arguments": vars(arguments), "seconds": seconds}
    console.print(write("spark", result, arguments.output))


if __name__ == "__main__":
    main()
