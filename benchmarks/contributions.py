"""Compare SHAP values with XGBoost's: CPU seconds of one thread.

    python -m benchmarks.contributions
    python -m benchmarks.contributions --kinds pred_interactions --depths 6 --rows 2000

Hornbeam trains a model, and both libraries load its file. Measurements alternate.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from rich.console import Console
from rich.table import Table

import hornbeam
from benchmarks.data import made
from benchmarks.libraries import PACKAGES
from benchmarks.machine import add_output_option, clock, describe, write

COLUMNS = 28
LIBRARIES: dict[str, Any] = {"hornbeam": hornbeam, "xgboost": xgboost}
KINDS: dict[str, dict[str, bool]] = {
    "pred_contribs": {"pred_contribs": True},
    "approx_contribs": {"pred_contribs": True, "approx_contribs": True},
    "pred_interactions": {"pred_interactions": True},
}
#: XGBoost computes interactions by two passes per feature: divisor of the rows.
FEWER = {"pred_interactions": 50}


def main() -> None:
    """Train, measure, print, write."""
    parser = argparse.ArgumentParser(description="Compare contributions.")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--depths", nargs="+", type=int, default=[6])
    parser.add_argument("--rows", type=int, default=10_000, help="default: 10,000")
    parser.add_argument("--trees", type=int, default=100, help="default: 100")
    parser.add_argument("--repeats", type=int, default=3, help="default: 3")
    add_output_option(parser)
    arguments = parser.parse_args()
    machine = describe(PACKAGES)
    x, y = made(arguments.rows, COLUMNS, seed=0)
    table = Table(title=f"{arguments.trees} trees, CPU s of one thread, least")
    for heading in ("depth", "kind", "rows", *LIBRARIES, "times as fast", "difference"):
        table.add_column(heading, justify="right")
    runs: list[dict[str, Any]] = []
    for depth in arguments.depths:
        boosters = load(depth, arguments.trees, x, y)
        for kind in arguments.kinds:
            rows = x[: max(1, len(x) // FEWER.get(kind, 1))]
            boosters["hornbeam"].predict(hornbeam.DMatrix(rows[:1]), **KINDS[kind])
            found: dict[str, Any] = {}
            seconds: dict[str, list[float]] = {name: [] for name in LIBRARIES}
            for _ in range(arguments.repeats):
                for name, library in LIBRARIES.items():
                    data = library.DMatrix(rows, nthread=1)
                    with clock() as working:
                        found[name] = boosters[name].predict(data, **KINDS[kind])
                    seconds[name].append(working.cpu)
            ours, theirs = (min(seconds[name]) for name in LIBRARIES)
            difference = np.abs(found["hornbeam"] - found["xgboost"]).max()
            table.add_row(
                *(str(depth), kind, f"{len(rows):,}", f"{ours:.3f}", f"{theirs:.3f}"),
                *(f"{theirs / ours:.1f}", f"{difference:.1g}"),
            )
            runs.append({"depth": depth, "kind": kind, "rows": len(rows), **seconds})
    Console().print(table)
    result = {"machine": machine, "options": vars(arguments), "runs": runs}
    print(write("contributions", result, arguments.output))


def load(depth: int, trees: int, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return the same model in each library."""
    parameters = {"objective": "binary:logistic", "max_depth": depth, "nthread": 1}
    booster = hornbeam.train(
        parameters, hornbeam.QuantileDMatrix(x, y), trees, verbose_eval=False
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        booster.save_model(path)
        boosters = {name: of.Booster(model_file=path) for name, of in LIBRARIES.items()}
    for one in boosters.values():
        one.set_param({"nthread": 1})
    return boosters


if __name__ == "__main__":
    main()
