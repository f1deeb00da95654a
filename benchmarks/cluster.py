"""Compare training on a Dask cluster with one process and with XGBoost's.

    python -m benchmarks.cluster

The cluster has two processes of one thread each on this machine; the single process has
two threads. All processes read the rows from files, as from the shared storage of a
cluster. In additional runs a worker is killed during training; the cost is the time
beyond the undisturbed runs. Seconds are from the collections to the model, as the
minimum of alternating repeats; so are processor seconds of all processes together,
which can be compared even if the machine is busy. Prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from rich.console import Console
from rich.table import Table

import hornbeam
import hornbeam.dask
from benchmarks.data import made
from benchmarks.libraries import BINS, PACKAGES, Task
from benchmarks.machine import add_output_option, describe, write
from hornbeam.callbacks import TrainingCallback

WORKERS = 2


def parse_arguments() -> argparse.Namespace:
    """Return the command line arguments."""
    parser = argparse.ArgumentParser(description="Compare training on a cluster.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=28)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    add_output_option(parser)
    return parser.parse_args()


class Rows:
    """Rows in files: as arrays, and as collections of Dask."""

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self.x, self.y = made(arguments.rows, arguments.columns, seed=0)
        bounds = np.linspace(0, arguments.rows, arguments.partitions + 1).astype(int)
        self._sizes = np.diff(bounds).tolist()
        self._folder = folder
        for i, (begin, end) in enumerate(itertools.pairwise(bounds)):
            np.save(folder / f"x{i}.npy", self.x[begin:end])
            np.save(folder / f"y{i}.npy", self.y[begin:end])

    def collections(self) -> tuple[da.Array, da.Array]:
        """Return the features and the labels, which the workers read."""
        load = dask.delayed(np.load)

        def parts(name: str, columns: tuple[int, ...]) -> da.Array:
            return da.concatenate(
                [
                    da.from_delayed(
                        load(self._folder / f"{name}{i}.npy"),
                        (size, *columns),
                        np.float32,
                    )
                    for i, size in enumerate(self._sizes)
                ]
            )

        return parts("x", self.x.shape[1:]), parts("y", ())


class Killer(TrainingCallback):
    """Kills a worker after one of the rounds."""

    def __init__(self, client: Client, after: int) -> None:
        pids = client.run(os.getpid)
        self._victim = pids[min(pids)]
        self._after = after

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if epoch == self._after:
            os.kill(self._victim, signal.SIGKILL)
        return False


class Stopwatch(TrainingCallback):
    """Records the time of each round."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self._start = time.perf_counter()
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self.seconds.append(time.perf_counter() - self._start)
        return False


def parameters(threads: int) -> dict[str, Any]:
    """Return the parameters of all fits, for a number of threads per process."""
    return Task(n_classes=2, rounds=0, threads=threads).xgboost_parameters()


def fit_alone(rows: Rows, rounds: int) -> hornbeam.Booster:
    """Train in this process with the cluster's number of threads."""
    data = hornbeam.QuantileDMatrix(rows.x, rows.y, max_bin=BINS, nthread=WORKERS)
    return hornbeam.train(parameters(WORKERS), data, rounds, verbose_eval=False)


def fit_on_cluster(
    client: Client, rows: Rows, rounds: int, callbacks: list[Any] | None = None
) -> hornbeam.Booster:
    """Train on the cluster."""
    data = hornbeam.dask.DaskQuantileDMatrix(client, *rows.collections(), max_bin=BINS)
    result = hornbeam.dask.train(
        client, parameters(1), data, rounds, verbose_eval=False, callbacks=callbacks
    )
    booster: hornbeam.Booster = result["booster"]
    return booster


def fit_xgboost(client: Client, rows: Rows, rounds: int) -> Any:
    """Train XGBoost on the cluster."""
    import xgboost.dask

    data = xgboost.dask.DaskQuantileDMatrix(client, *rows.collections(), max_bin=BINS)
    return xgboost.dask.train(client, parameters(1), data, rounds)["booster"]


def seconds_of(fit: Callable[..., Any], *args: Any) -> tuple[float, Any]:
    """Return the wall seconds of a fit, and the model."""
    start = time.perf_counter()
    model = fit(*args)
    return time.perf_counter() - start, model


def cpu_seconds(client: Client) -> dict[str, float]:
    """Return the processor seconds of this process and of each worker so far."""
    return {"client": time.process_time(), **client.run(time.process_time)}


@contextmanager
def local_cluster(workers: int) -> Iterator[Client]:
    """Context manager of a cluster of processes with one thread each."""
    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def seconds_per_round(
    arguments: argparse.Namespace, workers: int, repeats: int
) -> tuple[float, float]:
    """Return the minimum seconds of a round on n workers, and a worker's CPU seconds.

    CPU seconds are valid even if other processes use the machine.
    """
    few, many = 3, 23
    watch = Stopwatch()
    cpu_seconds = []
    with tempfile.TemporaryDirectory() as folder, local_cluster(workers) as client:
        rows = Rows(Path(folder), arguments)
        fit_on_cluster(client, rows, 1)
        for _ in range(repeats):
            taken = []
            for rounds in (few, many):
                start = sum(client.run(time.process_time).values())
                fit_on_cluster(client, rows, rounds, [watch])
                taken.append(sum(client.run(time.process_time).values()) - start)
            cpu_seconds.append((taken[1] - taken[0]) / (many - few) / workers)
    return min(watch.seconds), min(cpu_seconds)


def run_all(arguments: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Return one line per fit."""
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, local_cluster(WORKERS) as client:
        rows = Rows(Path(folder), arguments)

        def run(what: str, fit: Callable[..., Any], *args: Any) -> None:
            start = cpu_seconds(client)
            seconds, model = seconds_of(fit, *args)
            end = cpu_seconds(client)
            line = {"what": what, "seconds": seconds}
            if start.keys() == end.keys():  # a killed worker's seconds are lost
                line["cpu_seconds"] = sum(end.values()) - sum(start.values())
            if isinstance(model, hornbeam.Booster):
                line["digest"] = model.digest()
            runs.append(line)
            console.print(f"{what:24} {seconds:7.2f} s", highlight=False)

        for fit in (fit_on_cluster, fit_xgboost):  # compiles the kernels
            fit(client, rows, 1)
        fit_alone(rows, 1)
        for _ in range(arguments.repeats):
            run("one process", fit_alone, rows, arguments.rounds)
            run("cluster", fit_on_cluster, client, rows, arguments.rounds)
            run("xgboost.dask", fit_xgboost, client, rows, arguments.rounds)
        for _ in range(arguments.repeats):
            client.wait_for_workers(WORKERS)
            killer = Killer(client, arguments.rounds // 2)
            what = "cluster, one killed"
            run(what, fit_on_cluster, client, rows, arguments.rounds, [killer])
    return runs


def _least(runs: list[dict[str, Any]], seconds: str) -> dict[str, float]:
    """Return the minimum of these seconds by what was run, where they are known."""
    least: dict[str, float] = {}
    for run in runs:
        if seconds in run:
            least[run["what"]] = min(run[seconds], least.get(run["what"], np.inf))
    return least


def main() -> None:
    """Measure, print, write."""
    arguments = parse_arguments()
    console = Console()
    machine = describe([*PACKAGES, "dask", "distributed"])
    runs = run_all(arguments, console)
    least, least_cpu = _least(runs, "seconds"), _least(runs, "cpu_seconds")
    table = Table(title=f"{arguments.rows:,} rows, {arguments.rounds} rounds")
    for heading in ("what", "s", "times one process", "processor s", "times"):
        table.add_column(heading)
    for what in least:
        cells = []
        for found in (least, least_cpu):
            if what in found:
                ratio = found[what] / found["one process"]
                cells += [f"{found[what]:.2f}", f"{ratio:.2f}"]
        table.add_row(what, *cells)
    console.print(table)
    recovery = least["cluster, one killed"] - least["cluster"]
    digests = {run["digest"] for run in runs if "digest" in run}
    console.print(f"recovery {recovery:.2f} s; {len(digests)} digest(s)")
    result = {"machine": machine, "options": vars(arguments), "runs": runs}
    result |= {"recovery_seconds": recovery, "digests": sorted(digests)}
    print(write("cluster", result, arguments.output))


if __name__ == "__main__":
    main()
