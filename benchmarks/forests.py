"""Compare single trees and forests with scikit-learn's: CPU seconds of one thread.

    python -m benchmarks.forests
    python -m benchmarks.forests --cases covtype --trees 200 --repeats 1

The libraries alternate. Each gets the same rows as an array, so binning or sorting is
part of the time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn.ensemble
import sklearn.tree
from rich.console import Console
from rich.table import Table

import hornbeam
from benchmarks.data import SETS, Split, made
from benchmarks.libraries import PACKAGES
from benchmarks.machine import add_output_option, clock, describe, write

#: Rows of the first fit, which compiles the kernels and is not measured.
WARM_ROWS = 500


def covtype(rows: int | None) -> Split:
    """Return covtype with 80 % of the rows, or the given number, for training."""
    return SETS["covtype"].load(0, rows)


def classes(rows: int | None) -> Split:
    """Return the generated set with two classes."""
    n_train = rows or 100_000
    x, y = made(2 * n_train, 28, seed=0)
    return Split(x[:n_train], y[:n_train], x[n_train:], y[n_train:])


def numbers(rows: int | None) -> Split:
    """Return the same features with a regression target."""
    split = classes(rows)

    def target(x: np.ndarray) -> np.ndarray:
        noise = np.random.default_rng(len(x)).standard_normal(len(x))
        return x[:, 0] * x[:, 1] + np.sin(2 * x[:, 4]) + np.abs(x[:, 5]) + noise

    return Split(
        split.x_train, target(split.x_train), split.x_test, target(split.x_test)
    )


@dataclass(frozen=True)
class Case:
    """The estimator, its parameters and its data."""

    load: Callable[[int | None], Split]
    hornbeam: type[Any]
    sklearn: type[Any]
    is_forest: bool = False

    def estimators(self, trees: int) -> dict[str, Any]:
        """Return the estimators of both libraries, with their defaults."""
        size = {"n_estimators": trees} if self.is_forest else {}
        return {
            "hornbeam": self.hornbeam(n_jobs=1, random_state=0, **size),
            "scikit-learn": self.sklearn(
                random_state=0, **size, **({"n_jobs": 1} if self.is_forest else {})
            ),
        }


CASES: dict[str, Case] = {
    "covtype": Case(
        covtype,
        hornbeam.RandomForestClassifier,
        sklearn.ensemble.RandomForestClassifier,
        is_forest=True,
    ),
    "tree of numbers": Case(
        numbers, hornbeam.DecisionTreeRegressor, sklearn.tree.DecisionTreeRegressor
    ),
    "tree of classes": Case(
        classes, hornbeam.DecisionTreeClassifier, sklearn.tree.DecisionTreeClassifier
    ),
}


def main() -> None:
    """Fit and predict alternately, print the minimum and write the runs."""
    parser = argparse.ArgumentParser(description="Compare trees and forests.")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rows", type=int, help="default: each case's own")
    parser.add_argument("--trees", type=int, default=200, help="default: 200")
    parser.add_argument("--repeats", type=int, default=3, help="default: 3")
    add_output_option(parser)
    arguments = parser.parse_args()
    machine = describe(PACKAGES)
    table = Table(title=f"CPU s of one thread, least of {arguments.repeats}")
    for heading in ("case", "library", "fit", "predict", "score"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    runs: list[dict[str, Any]] = []
    for name in arguments.cases:
        case = CASES[name]
        split = case.load(arguments.rows)
        x, y = split.x_train, split.y_train
        warm = case.estimators(1)["hornbeam"].fit(x[:WARM_ROWS], y[:WARM_ROWS])
        warm.predict(x[:WARM_ROWS])
        own: list[dict[str, Any]] = []
        for repeat in range(arguments.repeats):
            for library, estimator in case.estimators(arguments.trees).items():
                with clock() as fitting:
                    estimator.fit(x, y)
                with clock() as predicting:
                    score = estimator.score(split.x_test, split.y_test)
                run = {"case": name, "library": library, "repeat": repeat}
                own.append(
                    {**run, "fit": fitting.cpu, "predict": predicting.cpu}
                    | {"score": float(score), "rows": len(x)}
                )
        runs += own
        for library in case.estimators(1):
            of_library = [run for run in own if run["library"] == library]
            least = {k: min(run[k] for run in of_library) for k in ("fit", "predict")}
            score = of_library[0]["score"]
            table.add_row(
                name, library, *(f"{v:.2f}" for v in least.values()), f"{score:.4f}"
            )
    Console().print(table)
    result = {"machine": machine, "options": vars(arguments), "runs": runs}
    print(write("forests", result, arguments.output))


if __name__ == "__main__":
    main()
