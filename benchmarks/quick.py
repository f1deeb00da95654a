"""Compare a short list of fits and predictions with XGBoost, and with the last release.

    make bench-quick             (or python -m benchmarks.quick)
    make bench-quick RECORD=1    (or python -m benchmarks.quick --record)

Both libraries run in turn, and the minimum of several repetitions counts. A figure is
XGBoost's time divided by Hornbeam's in the same run, because ratios hold better than
times. `benchmarks/baseline.json` has the figures of the last release; a case is marked
if its figure fell by more than `TOLERANCE`. The exit code is 0 in any case. `--record`
writes the figures of this run to the baseline.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xgboost
from rich.console import Console
from rich.table import Table

import hornbeam
from benchmarks.data import made
from benchmarks.libraries import LIBRARIES, PACKAGES, Task
from benchmarks.machine import add_output_option, clock, describe, write
from benchmarks.predict import train
from benchmarks.start import FIT, seconds_of

__all__ = ["CASES", "TOLERANCE", "figure", "slowdown"]

BASELINE = Path(__file__).parent / "baseline.json"
#: A case is marked if it takes this share more of XGBoost's time than in the baseline.
TOLERANCE = 0.1
PEERS = ("hornbeam", "xgboost")

#: The repetitions of a case: at least, and at most.
LEAST, MOST = 3, 40
#: Rows and rounds of a fit before the measurement, which loads the kernels.
WARM_ROWS, WARM_ROUNDS = 2_000, 2
#: Trees, and their depth, of the model that predicts.
TREES, DEPTH = 100, 6
#: Calls with one row in a measurement.
CALLS = 200

#: Runs one library once, and returns the seconds.
Work = Callable[[], float]
#: Seconds of each library.
Seconds = dict[str, float]


class Case(NamedTuple):
    """A line of the table."""

    title: str
    seconds_are: str
    prepare: Callable[[], dict[str, Work]]
    """Makes the data; returns the work of each library."""


def fits(
    rows: int, columns: int, task: Task, measured: str = "cpu"
) -> Callable[[], dict[str, Work]]:
    """Return the preparation of fits, which include that of the library's data."""

    def prepare() -> dict[str, Work]:
        x, y = made(rows, columns, seed=0)
        if task.n_classes > 2:
            score = x[:, 0] * x[:, 1] + x[:, 2] + y
            steps = np.quantile(score, np.arange(1, task.n_classes) / task.n_classes)
            y = np.searchsorted(steps, score).astype(np.float32)

        def work(library: str) -> float:
            with clock() as seconds:
                LIBRARIES[library](x, y, task)
            return float(getattr(seconds, measured))

        for library in PEERS:
            few = task.n_classes, WARM_ROUNDS, task.threads, task.depth, task.leaves
            LIBRARIES[library](x[:WARM_ROWS], y[:WARM_ROWS], Task(*few))
        return {library: partial(work, library) for library in PEERS}

    return prepare


def predictions(rows: int, calls: int) -> Callable[[], dict[str, Work]]:
    """Return the preparation of predictions from an array, by the same trees."""

    def prepare() -> dict[str, Work]:
        x, _ = made(rows, 28, seed=1)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.json"
            train(20_000, TREES, DEPTH, path)
            boosters = (
                library.Booster({"nthread": 1}, model_file=path)
                for library in (hornbeam, xgboost)
            )
            predict = {
                name: booster.inplace_predict
                for name, booster in zip(PEERS, boosters, strict=True)
            }

        def work(library: str) -> float:
            with clock() as seconds:
                for _ in range(calls):
                    predict[library](x)
            return seconds.cpu / calls

        for library in PEERS:
            predict[library](x[:1])
        return {library: partial(work, library) for library in PEERS}

    return prepare


def starts() -> dict[str, Work]:
    """Return the work of new processes that import a library and train it."""
    codes = {library: FIT.format(library=library, rounds=10) for library in PEERS}

    def work(library: str) -> float:
        _, cpu = seconds_of(codes[library])
        return cpu

    for library in PEERS:
        work(library)
    return {library: partial(work, library) for library in PEERS}


#: The cases by name. The last one leaves threads behind, which others might notice.
CASES: dict[str, Case] = {
    "rows-200k": Case(
        "200,000 x 28, 10 rounds", "CPU", fits(200_000, 28, Task(2, 10, 1))
    ),
    "rows-50k": Case("50,000 x 28, 25 rounds", "CPU", fits(50_000, 28, Task(2, 25, 1))),
    "rows-1k": Case("1,000 x 10, 100 rounds", "CPU", fits(1_000, 10, Task(2, 100, 1))),
    "leaves-255": Case(
        "50,000 x 28, 10 rounds, lossguide, 255 leaves",
        "CPU",
        fits(50_000, 28, Task(2, 10, 1, leaves=255)),
    ),
    "depth-12": Case(
        "50,000 x 28, 6 rounds, depth 12",
        "CPU",
        fits(50_000, 28, Task(2, 6, 1, depth=12)),
    ),
    "wide": Case("5,000 x 500, 8 rounds", "CPU", fits(5_000, 500, Task(2, 8, 1))),
    "classes-5": Case(
        "50,000 x 28, 5 rounds, 5 classes", "CPU", fits(50_000, 28, Task(5, 5, 1))
    ),
    "predict": Case(
        f"predict 50,000 rows, {TREES} trees", "CPU", predictions(50_000, 1)
    ),
    "predict-one": Case(
        f"predict one row, {TREES} trees", "CPU", predictions(1, CALLS)
    ),
    "start": Case("a new process, 1,000 x 10, 10 rounds", "CPU", starts),
    "threads-2": Case(
        "30,000 x 28, 25 rounds, two threads",
        "wall",
        fits(30_000, 28, Task(2, 25, 2), "wall"),
    ),
}


def measure(case: Case, seconds: float) -> Seconds:
    """Return the minimum of each library, of repetitions for about `seconds`."""
    works = case.prepare()
    least = dict.fromkeys(works, float("inf"))
    start = time.perf_counter()
    for repetition in range(MOST):
        if repetition >= LEAST and time.perf_counter() - start > seconds:
            break
        for library, work in works.items():
            least[library] = min(least[library], work())
    return least


def figure(seconds: Mapping[str, float]) -> float:
    """Return how many times Hornbeam's time XGBoost takes."""
    return seconds["xgboost"] / seconds["hornbeam"]


def slowdown(now: float, before: float) -> float | None:
    """Return by which share Hornbeam became slower, if by more than `TOLERANCE`."""
    share = before / now - 1
    return share if share > TOLERANCE else None


def report(
    found: Mapping[str, Seconds], baseline: Mapping[str, Seconds], console: Console
) -> None:
    """Print the table, and what became slower."""
    table = Table(title="XGBoost's time, times Hornbeam's", title_justify="left")
    table.add_column("", no_wrap=True)
    for heading in ("seconds", "hornbeam", "xgboost", "now", "last release", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    slower = 0
    for name, seconds in found.items():
        mark, before = "", "-"
        if name in baseline:
            before = f"{figure(baseline[name]):.2f}"
            share = slowdown(figure(seconds), figure(baseline[name]))
            if share is not None:
                mark = f"[bold red]SLOWER by {share:.0%}[/]"
                slower += 1
        table.add_row(
            CASES[name].title,
            CASES[name].seconds_are,
            *(f"{seconds[library]:.3g}" for library in PEERS),
            f"{figure(seconds):.2f}",
            before,
            mark,
        )
    console.print(table)
    if slower:
        console.print(
            f"[bold red]{slower} of {len(found)} cases SLOWER[/] than in the last "
            f"release by more than {TOLERANCE:.0%}: run them again with --cases",
            highlight=False,
        )


def read_baseline(path: Path) -> dict[str, Any]:
    """Return the contents of the baseline; one without cases if there is no file."""
    if not path.exists():
        return {"cases": {}}
    contents: dict[str, Any] = json.loads(path.read_text())
    return contents


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description="Compare a short list of fits and predictions with XGBoost's."
    )
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument(
        "--seconds", type=float, default=70, help="to measure all cases; default: 70"
    )
    parser.add_argument(
        "--record", action="store_true", help="write the figures to the baseline"
    )
    parser.add_argument(
        "--baseline", type=Path, default=BASELINE, help=f"default: {BASELINE.name}"
    )
    add_output_option(parser)
    arguments = parser.parse_args()
    console = Console(width=118)
    machine = describe(PACKAGES)
    baseline = read_baseline(arguments.baseline)
    found = {}
    for name in arguments.cases:
        console.print(f"[dim]{CASES[name].title}", highlight=False)
        found[name] = measure(CASES[name], arguments.seconds / len(arguments.cases))
    report(found, baseline["cases"], console)
    if arguments.record:
        contents = {"machine": machine, "cases": {**baseline["cases"], **found}}
        arguments.baseline.write_text(json.dumps(contents, indent=1) + "\n")
        console.print(f"recorded in {arguments.baseline}", highlight=False)
    result = {"machine": machine, "options": vars(arguments), "cases": found}
    print(write("quick", result, arguments.output))


if __name__ == "__main__":
    main()
