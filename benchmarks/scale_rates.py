"""Measures the rates for the model of a cluster on this machine."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster import local_cluster
from benchmarks.data import made
from benchmarks.libraries import BINS
from benchmarks.stage import seconds_of
from hornbeam.backends.cluster import RowActor
from hornbeam.backends.factory import create_backend
from hornbeam.backends.interface import SplitParams
from hornbeam.binning.bin_table import bin_table
from hornbeam.dask.cluster import DaskCluster
from hornbeam.dask.rpc import ReducingActor
from hornbeam.data.containers.dispatch import as_table
from hornbeam.distributed.scale import Rates
from hornbeam.distributed.transport import Share
from hornbeam.objectives.registry import create
from hornbeam.params import Parameters

__all__ = ["measure"]

#: Numbers of workers of the measurement; more cost only the driver's time.
_FEW, _MANY = 2, 18
#: Bytes of a large reply.
_LARGE = 16 << 20


def measure(rows: int, columns: int, repeats: int) -> Rates:
    """Return the rates of kernels on one thread, and of messages between processes."""
    cells = _of_script("histogram", rows, columns, repeats)
    moves = _of_script("partition", rows, columns, repeats)
    bins = _of_script("split", rows, columns, repeats)
    return Rates(
        # The nodes of a tree have between all rows and one in 64.
        cell=statistics.median(list(cells.values())[:-1]),
        move=statistics.median(moves.values()),
        row=_seconds_per_row(rows, columns, repeats),
        bin=bins["missing in every feature"],
        **_messages(repeats),
    )


def _of_script(script: str, rows: int, columns: int, repeats: int) -> dict[str, float]:
    """Return the seconds per unit that the benchmark of a kernel reports."""
    options = {"rows": rows, "columns": columns, "repeats": repeats, "threads": 1}
    command = [sys.executable, "-m", f"benchmarks.{script}"]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [*command, "--output", folder], check=True, stdout=subprocess.DEVNULL
        )
        (path,) = Path(folder).glob("*.json")
        runs = json.loads(path.read_text())["runs"]
    return {run["what"]: run["seconds"] / run["units"] for run in runs}


def _seconds_per_row(rows: int, columns: int, repeats: int) -> float:
    """Time the operations of a round over all rows, except partitioning."""
    x, y = made(rows, columns, seed=0)
    binned = bin_table(as_table(x), BINS, n_threads=1)
    backend = create_backend(
        "cpu", binned.as_bins(1), y.astype(np.float64)[None], None,
        np.zeros((1, rows)), threads=1, max_histograms=None,
    )  # fmt: skip
    objective = create(Parameters.resolve({"objective": "binary:logistic"}))
    growth = SplitParams(1.0, 0.0, 0.0, 1.0)
    features = np.arange(columns, dtype=np.uint64)
    root, zero = np.zeros(1, np.intp), np.zeros(1, np.float32)

    def one_round() -> None:
        backend.compute_gradients(objective)
        backend.begin_tree(0, growth, features, None)
        backend.sum_leaves(root, root, 1)
        backend.add_leaf_values(zero)

    seconds = seconds_of(repeats, one_round)
    backend.close()
    return seconds / rows


class Echo(ReducingActor):
    """A worker that replies with the requested number of bytes."""

    def __init__(self, numbers: tuple[int, ...], parts: tuple[Any, ...]) -> None:
        super().__init__()
        # Noise, which is as incompressible as sums of gradients.
        rng = np.random.default_rng(numbers[0])
        self._values = rng.integers(-(1 << 62), 1 << 62, _LARGE // 8)

    def echo(self, n_bytes: int) -> np.ndarray:
        return self._values[: n_bytes // 8]


def _messages(repeats: int) -> dict[str, float]:
    """Measure calls to workers in two processes."""
    with local_cluster(2) as client:
        star = DaskCluster(client, Echo, tree_from=10**9)
        chain = DaskCluster(client, Echo, tree_from=2, tree_width=1)
        actors, linked = _place(star, _MANY), _place(chain, 2)

        def seconds(cluster: DaskCluster, asked: list[RowActor], n_bytes: int) -> float:
            work: Callable[..., Any] = cluster.sum
            return seconds_of(10 * repeats, work, asked, "echo", n_bytes)

        def cpu_seconds(asked: list[RowActor]) -> float:
            start = time.process_time()
            for _ in range(10 * repeats):
                star.call(asked, "echo", 8)
            return (time.process_time() - start) / (10 * repeats)

        call = seconds(star, actors[:1], 8)
        # With few cores the measurement would include the work of the workers.
        more = cpu_seconds(actors) - cpu_seconds(actors[:_FEW])
        few = actors[:_FEW]
        extra = seconds(star, few, _LARGE) - seconds(star, few, 8)
        hop = seconds(chain, linked, 8) - call
        star.close()
        chain.close()
    return {
        "call": call,
        "actor": more / (_MANY - _FEW),
        "hop": max(hop, call / 2),
        "byte": extra / (_FEW * _LARGE),
    }


def _place(cluster: DaskCluster, count: int) -> list[RowActor]:
    places = cluster.alive()
    shares = [Share((i,), places[i % len(places)], (None,)) for i in range(count)]
    return cluster.place(shares)
