"""Compare training tasks with XGBoost's: CPU seconds of a round on one thread.

    python -m benchmarks.tasks
    python -m benchmarks.tasks --tasks dart cv --repeats 7

Matrices are made before the measurement, and the libraries alternate. Only the task
`cv` starts from a table, and is compared with five separate fits too.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xgboost
from rich.console import Console
from rich.table import Table

import hornbeam
from benchmarks.data import SETS, made
from benchmarks.libraries import PACKAGES, Task
from benchmarks.machine import add_output_option, clock, describe, write

LIBRARIES = {"hornbeam": hornbeam, "xgboost": xgboost}
FOLDS = 5
#: Rows of a query, as in MSLR.
QUERY_ROWS = 120

Fields = dict[str, np.ndarray]
#: The tasks by name.
Ways = dict[str, Callable[[], Any]]


def covtype(rows: int, columns: int) -> tuple[np.ndarray, Fields]:
    """Return rows of covtype; the number of columns is fixed."""
    split = SETS["covtype"].load(0, rows)
    return split.x_train, {"label": split.y_train}


def binary(rows: int, columns: int) -> tuple[np.ndarray, Fields]:
    """Return the generated set."""
    x, y = made(rows, columns, seed=0)
    return x, {"label": y}


def queries(rows: int, columns: int) -> tuple[np.ndarray, Fields]:
    """Return queries with grades from 0 to 4, most of them low, as in MSLR."""
    x, y = made(rows, columns, seed=0)
    score = x[:, 0] * x[:, 1] + x[:, 2] + y
    grade = np.searchsorted(np.quantile(score, [0.5, 0.8, 0.95, 0.99]), score)
    qid = np.arange(rows) // QUERY_ROWS
    return x, {"label": grade.astype(np.float32), "qid": qid}


def relevant(rows: int, columns: int) -> tuple[np.ndarray, Fields]:
    """Return the same with the label 1 for grades of 2 or more."""
    x, fields = queries(rows, columns)
    return x, fields | {"label": (fields["label"] >= 2).astype(np.float32)}


@dataclass(frozen=True)
class Case:
    """A task: its data by numbers of rows and columns, rounds and parameters."""

    load: Callable[[int, int], tuple[np.ndarray, Fields]]
    rows: int
    columns: int
    rounds: int
    parameters: dict[str, Any] = field(default_factory=dict)
    matrix: str = "QuantileDMatrix"
    #: The libraries that support the task.
    libraries: tuple[str, ...] = tuple(LIBRARIES)

    def ways(self, rows: int, rounds: int) -> Ways:
        """Return the training functions of each library for existing matrices."""
        x, fields = self.load(rows, self.columns)
        parameters = Task(2, 0, 1).xgboost_parameters() | self.parameters

        def way(library: Any) -> Callable[[], Any]:
            data = getattr(library, self.matrix)(x, nthread=1, **fields)
            return lambda: library.train(parameters, data, rounds, verbose_eval=False)

        return {name: way(LIBRARIES[name]) for name in self.libraries}


@dataclass(frozen=True)
class CrossValidation(Case):
    """Cross-validation with five folds, compared with five fits with evaluation."""

    def ways(self, rows: int, rounds: int) -> Ways:
        x, fields = self.load(rows, self.columns)
        y, parameters = fields["label"], Task(2, 0, 1).xgboost_parameters()
        fold_of = np.random.default_rng(0).integers(FOLDS, size=rows)

        def way(library: Any) -> Callable[[], Any]:
            return lambda: library.cv(
                parameters, library.DMatrix(x, y), rounds, nfold=FOLDS
            )

        def one_by_one() -> None:
            for fold in range(FOLDS):
                train, test = (
                    hornbeam.DMatrix(x[own], y[own])
                    for own in (fold_of != fold, fold_of == fold)
                )
                evals = [(train, "train"), (test, "test")]
                hornbeam.train(
                    parameters, train, rounds, evals=evals, verbose_eval=False
                )

        ways = {name: way(LIBRARIES[name]) for name in self.libraries}
        return ways | {"five fits": one_by_one}


def _ranking(objective: str, load: Any = queries, **others: Any) -> Case:
    return Case(load, 10_000, 136, 50, {"objective": f"rank:{objective}", **others})


_MEAN = {"lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 8}
_LINEAR = {"booster": "gblinear", "learning_rate": 0.5}
_DART = {"booster": "dart", "rate_drop": 0.05}

CASES: dict[str, Case] = {
    "ndcg": _ranking("ndcg"),
    "ndcg-mean": _ranking("ndcg", **_MEAN),
    "ndcg-unbiased": _ranking("ndcg", lambdarank_unbiased=True),
    "pairwise": _ranking("pairwise"),
    "map": _ranking("map", relevant),
    "softprob": Case(
        covtype, 464_810, 54, 20, {"objective": "multi:softprob", "num_class": 7}
    ),
    "dart": Case(binary, 20_000, 10, 500, _DART),
    "coord_descent": Case(
        binary, 200_000, 28, 50, _LINEAR | {"updater": "coord_descent"}, "DMatrix"
    ),
    "shotgun": Case(
        binary, 200_000, 28, 50, _LINEAR | {"updater": "shotgun"}, "DMatrix"
    ),
    "exact": Case(binary, 100_000, 28, 30, {"tree_method": "exact"}, "DMatrix"),
    "approx": Case(binary, 1_000_000, 28, 10, {"tree_method": "approx"}, "DMatrix"),
    "cv": CrossValidation(binary, 100_000, 28, 50),
}


def main() -> None:
    """Train alternately, print the minimum and write the runs."""
    parser = argparse.ArgumentParser(description="Compare learning tasks.")
    parser.add_argument("--tasks", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rows", type=int, help="default: each task's own")
    parser.add_argument("--rounds", type=int, help="default: each task's own")
    parser.add_argument("--repeats", type=int, default=5, help="default: 5")
    add_output_option(parser)
    arguments = parser.parse_args()
    machine = describe(PACKAGES)
    table = Table(title=f"CPU ms a round, one thread, least of {arguments.repeats}")
    for heading in ("task", *LIBRARIES, "five fits"):
        table.add_column(heading, justify="right")
    runs: list[dict[str, Any]] = []
    for task in arguments.tasks:
        case = CASES[task]
        rounds = arguments.rounds or case.rounds
        case.ways(QUERY_ROWS, 1)["hornbeam"]()  # compiles the kernels
        ways = case.ways(arguments.rows or case.rows, rounds)
        least: dict[str, float] = {}
        for repeat in range(arguments.repeats):
            for name, train in ways.items():
                with clock() as seconds:
                    train()
                run = {"task": task, "way": name, "rounds": rounds, "repeat": repeat}
                runs.append(run | {"cpu": seconds.cpu, "wall": seconds.wall})
                least[name] = min(seconds.cpu, least.get(name, np.inf))
        own = least["hornbeam"]
        others = [
            f"{1e3 * least[name] / rounds:.2f} ({least[name] / own:.2f} times)"
            if name in least
            else ""
            for name in ("xgboost", "five fits")
        ]
        table.add_row(task, f"{1e3 * own / rounds:.2f}", *others)
    Console().print(table)
    result = {"machine": machine, "options": vars(arguments), "runs": runs}
    print(write("tasks", result, arguments.output))


if __name__ == "__main__":
    main()
