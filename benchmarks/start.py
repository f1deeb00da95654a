"""Measures the start of a new process: the import and a first small fit.

    python -m benchmarks.start

Cold is a fit with an empty Numba cache, as after an installation; warm is a fit in a
new process with a filled cache. Times are of complete processes, the start of the
interpreter included, in wall and CPU seconds, as the minimum of the repeats.
"""

from __future__ import annotations

import argparse
import os
import resource
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
    result = {"machine": machine, "seconds": times}
    print(write("start", result, arguments.output))


if __name__ == "__main__":
    main()
