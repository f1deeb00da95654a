"""Time what a new process waits for: the import, and a first small fit.

    python -m benchmarks.start

Cold is a fit with an empty Numba cache, as after an install; warm is one in a new
process with the cache filled. Whole processes are timed, the interpreter's own start
included; each figure is the least of the repeats.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

from rich.console import Console
from rich.table import Table

from benchmarks.libraries import PACKAGES
from benchmarks.machine import describe, write

FIT = """
import numpy as np
from benchmarks.data import made
from benchmarks.libraries import LIBRARIES, Task
x, y = made(1_000, 10, 0)
LIBRARIES[{library!r}](x, y, Task(n_classes=2, rounds={rounds}, threads=1))
"""


def seconds_of(code: str, cache: str | None = None) -> float:
    """Return the wall seconds of a new interpreter that runs `code`."""
    environment = dict(os.environ)
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    return time.perf_counter() - start


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description="Time imports and first fits.")
    parser.add_argument("--repeats", type=int, default=5, help="default: 5")
    parser.add_argument("--rounds", type=int, default=10, help="default: 10")
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
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(arguments.repeats):
            for name, code in commands.items():
                times[name].append(seconds_of(code, cache))
    times["import and fit 1,000 rows, cold"] = [cold]

    table = Table("a new process", "seconds")
    for name, values in times.items():
        table.add_row(name, f"{min(values):.3f}")
    imported = min(times["import numpy, hornbeam"]) - min(times["import numpy"])
    table.add_row("hornbeam's import alone", f"{imported:.3f}")
    Console().print(table)
    print(write("start", {"machine": machine, "seconds": times}))


if __name__ == "__main__":
    main()
