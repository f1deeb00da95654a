"""Compare training on Ray and in a group of processes with one process and XGBoost's.

    python -m benchmarks.ray_cluster

Ray has two workers of one thread each on this machine, and the group two processes; the
single process has two threads. Seconds are from the rows (blocks in Ray's object store,
or files) to the model, as the minimum of alternating repeats. The start of Ray is not
in them, nor is that of the group's processes, which is printed for itself; Ray starts
the processes of its workers in the first repeat. XGBoost trains in the XGBoostTrainer
of Ray Train. Prints a table and writes JSON.
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


class Group:
    """Processes that stay, and train together whenever they are asked to.

    Parameters
    ----------
    folder
        With the rows of each process.
    rounds
        Of each training.

    Attributes
    ----------
    start_seconds
        From the start of the processes until they have loaded kernels.
    """

    def __init__(self, folder: Path, rounds: int) -> None:
        start = time.perf_counter()
        self._tracker = tracker = Tracker(WORKERS, "127.0.0.1", by_task=True)
        tracker.start()
        address = tracker.host, str(tracker.port), tracker.token
        job = json.dumps([parameters(1), rounds])
        command = [sys.executable, "-m", "benchmarks.group_one", *address, job]
        environment = os.environ | {"PYTHONPATH": os.getcwd()}
        self._processes = [
            subprocess.Popen(
                [*command, str(rank)],
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(WORKERS)
        ]
        self._lines()
        self.start_seconds = time.perf_counter() - start

    def _lines(self) -> set[str]:
        """Return the next line of each process."""
        lines = [own.stdout.readline() for own in self._processes if own.stdout]
        assert all(lines), "a process has ended"
        return {line.strip() for line in lines}

    def fit(self) -> str:
        """Train; return the digest."""
        for process in self._processes:
            assert process.stdin is not None
            print(file=process.stdin, flush=True)
        (digest,) = self._lines()
        return digest

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.communicate()
        self._tracker.close("the trainings have ended")


def fit_on_ray(dataset: Any, rounds: int) -> str:
    """Train with tasks of Ray; return the digest."""
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
        group = Group(folder, rounds)
        fits: dict[str, tuple[Any, ...]] = {
            "one process": (fit_alone, x, y, rounds),
            "group": (group.fit,),
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
        group.close()
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
    console.print(table, f"The group started in {group.start_seconds:.1f} s.")
    result = {"machine": describe([*PACKAGES, "ray"]), "options": vars(arguments)}
    result |= {"seconds": seconds, "start_of_group": group.start_seconds}
    print(write("ray_cluster", result, arguments.output))


if __name__ == "__main__":
    main()
