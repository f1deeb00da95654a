"""Compare training on Ray and in a group of processes with one process and XGBoost's.

    python -m benchmarks.ray_cluster

Ray has two actors of one thread each on this machine, and so has the group; the single
process has two threads. Seconds are from the rows (blocks in Ray's object store, or
files) to the model, without the start of Ray, as the minimum of alternating repeats.
XGBoost trains in the XGBoostTrainer of Ray Train. Prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import ray
import ray.data
import ray.train
from rich.console import Console
from rich.table import Table

import hornbeam
import hornbeam.ray
from benchmarks.data import made
from benchmarks.libraries import BINS, PACKAGES, Task
from benchmarks.machine import add_output_option, describe, write
from hornbeam.distributed.tracker import Tracker

WORKERS = 2


def parse_arguments() -> argparse.Namespace:
    """Return the command line arguments."""
    parser = argparse.ArgumentParser(description="Compare training on Ray.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=28)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    add_output_option(parser)
    return parser.parse_args()


def parameters(threads: int) -> dict[str, Any]:
    """Return the parameters of all fits, for a number of threads per process."""
    return Task(n_classes=2, rounds=0, threads=threads).xgboost_parameters()


def columns_of(count: int) -> dict[str, list[str]]:
    """Return the names and types of features, which a dataset of Ray has."""
    names = [f"f{n}" for n in range(count)]
    return {"feature_names": names, "feature_types": ["float"] * count}


def fit_alone(x: Any, y: Any, rounds: int) -> str:
    """Train in this process with the cluster's number of threads; return the digest."""
    data = hornbeam.QuantileDMatrix(
        x, y, max_bin=BINS, nthread=WORKERS, **columns_of(x.shape[1])
    )
    model = hornbeam.train(parameters(WORKERS), data, rounds, verbose_eval=False)
    return model.digest()


def fit_in_group(folder: Path, rounds: int) -> str:
    """Train in processes that are started for it; return the digest."""
    tracker = Tracker(WORKERS, "127.0.0.1", by_task=True)
    tracker.start()
    address = tracker.host, str(tracker.port), tracker.token
    job = json.dumps([parameters(1), rounds])
    command = [sys.executable, "-m", "benchmarks.group_one", *address, job]
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    processes = [
        subprocess.Popen(
            [*command, str(rank)],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(WORKERS)
    ]
    digests = {process.communicate()[0].strip() for process in processes}
    tracker.close("the training has ended")
    (digest,) = digests
    return digest


def fit_on_ray(dataset: Any, rounds: int) -> str:
    """Train with actors of Ray; return the digest."""
    options = {"num_workers": WORKERS, "verbose_eval": False}
    model = hornbeam.ray.train(parameters(1), dataset, rounds, label="y", **options)
    return model.digest()


def xgboost_loop(config: dict[str, Any]) -> None:
    """Train XGBoost on the rows of all workers."""
    import xgboost

    frame = ray.train.get_dataset_shard("train").materialize().to_pandas()
    data = xgboost.QuantileDMatrix(frame.drop(columns="y"), frame["y"], max_bin=BINS)
    xgboost.train(config["params"], data, config["rounds"], verbose_eval=False)


def fit_xgboost(dataset: Any, rounds: int, storage: Path) -> str:
    """Train with the XGBoostTrainer of Ray Train."""
    from ray.train.xgboost import XGBoostTrainer

    XGBoostTrainer(
        xgboost_loop,
        train_loop_config={"params": parameters(1), "rounds": rounds},
        scaling_config=ray.train.ScalingConfig(num_workers=WORKERS),
        run_config=ray.train.RunConfig(storage_path=str(storage)),
        datasets={"train": dataset},
    ).fit()
    return ""


def seconds_of(fit: Callable[..., str], *args: Any) -> tuple[float, str]:
    """Return the wall seconds of a fit, and its digest."""
    start = time.perf_counter()
    digest = fit(*args)
    return time.perf_counter() - start, digest


def main() -> None:
    """Train in each way in turn; print and write the least seconds."""
    arguments = parse_arguments()
    x, y = made(arguments.rows, arguments.columns, seed=0)
    console = Console(width=100)
    ray.init(
        num_cpus=WORKERS + 1,
        object_store_memory=600_000_000,
        include_dashboard=False,
        logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": os.getcwd()}},
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for rank, rows in enumerate(np.array_split(np.arange(len(y)), WORKERS)):
            np.save(folder / f"x{rank}.npy", x[rows])
            np.save(folder / f"y{rank}.npy", y[rows])
        names = columns_of(arguments.columns)["feature_names"]
        bounds = np.linspace(0, len(y), arguments.partitions + 1).astype(int)
        tables = [
            pa.table([*x[low:high].T, y[low:high]], names=[*names, "y"])
            for low, high in itertools.pairwise(bounds)
        ]
        dataset = ray.data.from_arrow(tables).materialize()
        rounds = arguments.rounds
        fits: dict[str, tuple[Any, ...]] = {
            "one process": (fit_alone, x, y, rounds),
            "group": (fit_in_group, folder, rounds),
            "Ray": (fit_on_ray, dataset, rounds),
            "XGBoostTrainer": (fit_xgboost, dataset, rounds, folder),
        }
        seconds: dict[str, list[float]] = {what: [] for what in fits}
        digests: dict[str, str] = {}
        for _ in range(arguments.repeats):
            for what, (fit, *given) in fits.items():
                took, digest = seconds_of(fit, *given)
                seconds[what].append(took)
                digests[what] = digest
                print(f"{what}: {took:.1f} s {digest[:12]}", flush=True)
    ray.shutdown()
    del digests["XGBoostTrainer"]
    assert len(set(digests.values())) == 1, digests
    least = {what: min(found) for what, found in seconds.items()}
    table = Table(title="Seconds")
    for heading in ("", "seconds", "of one process", "of XGBoostTrainer"):
        table.add_column(heading, justify="right")
    for what, took in least.items():
        ratios = (took / least[other] for other in ("one process", "XGBoostTrainer"))
        table.add_row(what, f"{took:.1f}", *(f"{ratio:.2f}" for ratio in ratios))
    console.print(table)
    result = {"machine": describe([*PACKAGES, "ray"]), "options": vars(arguments)}
    print(write("ray_cluster", result | {"seconds": seconds}, arguments.output))


if __name__ == "__main__":
    main()
