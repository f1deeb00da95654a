"""Train from batches once, and print time and memory as JSON.

`benchmarks.external_memory` runs it in a separate process. Options are JSON on stdin.
"""

from __future__ import annotations

import json
import statistics
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.data import made
from benchmarks.libraries import BINS, Task
from benchmarks.machine import clock, memory


class Batches:
    """Generated rows for the `DataIter` of either library."""

    def __init__(self, options: Namespace, rows: int) -> None:
        self._columns, self._step, self._rows = options.columns, options.batch, rows
        self._begin = 0

    def hand_over(self, input_data: Callable[..., Any]) -> bool:
        """Pass the next batch to the library; return whether there was one."""
        if self._begin >= self._rows:
            return False
        rows = min(self._step, self._rows - self._begin)
        x, y = made(rows, self._columns, seed=self._begin)
        input_data(data=x, label=y)
        self._begin += rows
        return True

    def rewind(self) -> None:
        """Restart from the first batch."""
        self._begin = 0


def iterator_of(library: Any, batches: Batches, prefix: str | None) -> Any:
    """Return the batches as a `DataIter` of the library."""

    class Rows(library.DataIter):
        def next(self, input_data: Callable[..., Any]) -> bool:
            return batches.hand_over(input_data)

        def reset(self) -> None:
            batches.rewind()

    return Rows(cache_prefix=prefix)


def make_matrix(options: Namespace, batches: Batches, folder: Path) -> tuple[Any, Any]:
    """Return the library and the training matrix."""
    common = {"max_bin": BINS, "nthread": options.threads}
    if options.storage == "xgboost":
        import xgboost

        folder.mkdir()
        rows = iterator_of(xgboost, batches, str(folder / "page"))
        return xgboost, xgboost.ExtMemQuantileDMatrix(rows, **common)
    import hornbeam

    if options.storage == "memory":
        rows = iterator_of(hornbeam, batches, None)
        return hornbeam, hornbeam.QuantileDMatrix(rows, **common)
    rows = iterator_of(hornbeam, batches, str(folder))
    matrix = hornbeam.ExtMemQuantileDMatrix(
        rows, memory_limit=options.limit, codec=options.codec, **common
    )
    return hornbeam, matrix


def train(options: Namespace, rows: int, rounds: int, folder: Path) -> dict[str, Any]:
    """Return the seconds of building and of each round, and the model's digest."""
    with clock() as building:
        library, matrix = make_matrix(options, Batches(options, rows), folder)
        parameters = Task(2, rounds, options.threads).xgboost_parameters()
        booster = library.Booster(parameters, [matrix])
    each = []
    for iteration in range(rounds):
        with clock() as seconds:
            booster.update(matrix, iteration)
        each.append(seconds)
    return {
        "building_seconds": building.wall,
        "building_cpu_seconds": building.cpu,
        "round_seconds": statistics.median(one.wall for one in each),
        "round_cpu_seconds": statistics.median(one.cpu for one in each),
        "each_round": [one.wall for one in each],
        "seconds": building.wall + sum(one.wall for one in each),
        "cpu_seconds": building.cpu + sum(one.cpu for one in each),
        "digest": booster.digest() if hasattr(booster, "digest") else "-",
    }


def main() -> None:
    """Warm up, train, print."""
    options = Namespace(**json.load(sys.stdin))
    folder = Path(options.folder)
    train(options, 2_000, 3, folder / "warm")
    with memory() as megabytes:
        result = train(options, options.rows, options.rounds, folder / "all")
    print(json.dumps({**result, "megabytes_peak": megabytes.peak}))


if __name__ == "__main__":
    main()
