"""Measures the start of a new process: the import and a first small fit.

    python -m benchmarks.start

Cold is a fit with an empty Numba cache, as after an installation; warm is a fit in a
new process with a filled cache. Times are of complete processes, the start of the
interpreter included, in wall and CPU seconds, as the minimum of the repeats. At last,
from a matrix on two new workers of Dask to the end of the first round, by the median.

With the binary of a wheel in `hornbeam/kernels` kernels are native, as there.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from rich.console import Console
from rich.table import Table

from benchmarks.libraries import PACKAGES
from benchmarks.machine import add_output_option, describe, write

FIT = """
import numpy as np
from benchmarks.data import made
from benchmarks.libraries import LIBRARIES, Task
x, y = made(1_000, 10, 0)
LIBRARIES[{library!r}](x, y, Task(n_classes=2, rounds={rounds}, threads=1))
"""

FIRST_ROUND = """
import time
import dask.array as da
from distributed import Client, LocalCluster
import hornbeam.dask
from benchmarks.data import made

class Clock(hornbeam.TrainingCallback):
    rounds = []
    def after_iteration(self, model, epoch, evals_log):
        self.rounds.append(time.perf_counter())

if __name__ == "__main__":
    options = {"threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as client:
        x, y = (da.from_array(a, chunks=5_000) for a in made(10_000, 10, 0))
        start = time.perf_counter()
        data = hornbeam.dask.DaskDMatrix(client, x, y)
        middle = time.perf_counter()
        hornbeam.dask.train(client, {}, data, 1, callbacks=[Clock()])
        print(middle - start, Clock.rounds[0] - middle)
"""


def first_round() -> list[float]:
    """Return seconds of making a matrix on new workers, and of training's first round.

    The cluster starts before that.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(FIRST_ROUND)
        script.flush()
        path = {"PYTHONPATH": os.pathsep.join(["", *sys.path])}
        printed = subprocess.run(
            [sys.executable, script.name],
            env={**os.environ, **path},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    return [float(seconds) for seconds in printed.split()]


def seconds_of(code: str, cache: str | None = None) -> tuple[float, float]:
    """Return wall and CPU seconds of a new Python process that runs `code`.

    `cache` is the folder of its Numba cache; None: that of this process.
    """
    own_cache = {} if cache is None else {"NUMBA_CACHE_DIR": cache}
    cpu_start, wall_start = _child_seconds(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **own_cache}, check=True
    )
    return time.perf_counter() - wall_start, _child_seconds() - cpu_start


def _child_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description="Time imports and first fits.")
    parser.add_argument("--repeats", type=int, default=5, help="default: 5")
    parser.add_argument("--rounds", type=int, default=10, help="default: 10")
    add_output_option(parser)
    arguments = parser.parse_args()
    machine = describe(PACKAGES)
    fits = {
        library: FIT.format(library=library, rounds=arguments.rounds)
        for library in ("hornbeam", "xgboost")
    }
    with tempfile.TemporaryDirectory() as cache:
        cold = seconds_of(fits["hornbeam"], cache)
        commands = {
            "import numpy": "import numpy",
            "import numpy, hornbeam": "import numpy, hornbeam",
            "import and fit 1,000 rows, warm": fits["hornbeam"],
            "the same with xgboost": fits["xgboost"],
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(arguments.repeats):
            for name, code in commands.items():
                times[name].append(seconds_of(code, cache))
    times["import and fit 1,000 rows, cold"] = [cold]

    least = {
        name: [min(column) for column in zip(*values, strict=True)]
        for name, values in times.items()
    }
    with_hornbeam, without = least["import numpy, hornbeam"], least["import numpy"]
    least["hornbeam's import alone"] = [
        a - b for a, b in zip(with_hornbeam, without, strict=True)
    ]
    table = Table("a new process")
    table.add_column("wall s", justify="right")
    table.add_column("CPU s", justify="right")
    for name, (wall, cpu) in least.items():
        table.add_row(name, f"{wall:.3f}", f"{cpu:.3f}")
    Console().print(table)
    rounds = [first_round() for _ in range(arguments.repeats)]
    matrix, train = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(f"new workers of Dask: matrix {matrix:.3f} s, first round {train:.3f} s")
    result = {"machine": machine, "seconds": times, "first rounds": rounds}
    print(write("start", result, arguments.output))


if __name__ == "__main__":
    main()
