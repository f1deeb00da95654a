"""Compare the estimators of libraries with no argument, on real data sets.

    python -m benchmarks.quality
    python -m benchmarks.quality --sets report --libraries hornbeam lightgbm

Losses are of test rows: the logarithmic loss of classes, and the root mean squared
error of values over that of the mean. A set's distance is how much larger a library's
loss is than the least. Libraries that are not installed are left out.
"""

from __future__ import annotations

import argparse
import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from scipy.stats import rankdata, wilcoxon
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from benchmarks.libraries import PACKAGES
from benchmarks.machine import add_output_option, clock, describe, write
from benchmarks.quality_data import DATA_SETS, DataSet, Split, load
from benchmarks.runs import Run

#: What Hornbeam's estimators are told, by the name of the variant: nothing, another
#: quality, bags, or to leave out one of what `quality="auto"` tries.
_VARIANTS: dict[str, dict[str, Any]] = {
    "hornbeam": {},
    "hornbeam-none": {"quality": None},
    "hornbeam-best": {"quality": "best"},
    "hornbeam-fast": {"quality": "fast"},
    "hornbeam-constant-leaves": {"leaf_model": "constant"},
    "hornbeam-no-crosses": {"cross_features": None},
    "hornbeam-no-means": {"cat_method": "set"},
    "hornbeam-bags": {"n_bags": 8},
    "hornbeam-none-bags": {"quality": None, "n_bags": 8},
}
#: Variants that are measured only if they are named.
_NAMED = [*_VARIANTS][3:]
#: The class of an estimator without "Classifier" or "Regressor", by library.
_ESTIMATORS = {
    **dict.fromkeys(_VARIANTS, "hornbeam.Hornbeam"),
    "xgboost": "xgboost.XGB",
    "lightgbm": "lightgbm.LGBM",
    "sklearn": "sklearn.ensemble.HistGradientBoosting",
    "chimeraboost": "chimeraboost.ChimeraBoost",
    "catboost": "catboost.CatBoost",
}
#: What each library is told: threads, silence, and that there are categories.
_SETTINGS: dict[str, dict[str, Any]] = {
    **{name: {"n_jobs": 1, **own} for name, own in _VARIANTS.items()},
    "xgboost": {"n_jobs": 1, "enable_categorical": True},
    "lightgbm": {"n_jobs": 1, "verbosity": -1},
    "chimeraboost": {"thread_count": 1},
    "catboost": {"thread_count": 1, "verbose": False, "allow_writing_files": False},
}
#: Rows of the first fit, which loads or compiles kernels and is not measured.
_WARM_ROWS = 300


def estimator(library: str, task: str) -> Any:
    """Return an untrained estimator; raise `ImportError` if it is not installed."""
    module, prefix = _ESTIMATORS[library].rsplit(".", 1)
    kind = "Classifier" if task == "classes" else "Regressor"
    return getattr(importlib.import_module(module), prefix + kind)(
        **_SETTINGS.get(library, {})
    )


def _for_catboost(frame: pd.DataFrame) -> pd.DataFrame:
    """Return categories as strings, which CatBoost needs also where one is missing."""
    frame = frame.copy()
    for name in frame.select_dtypes("category"):
        frame[name] = frame[name].astype(object).fillna("missing").astype(str)
    return frame


def _as_array(frame: pd.DataFrame) -> np.ndarray:
    """Return an array of objects, from which chimeraboost takes categories."""
    return _for_catboost(frame).to_numpy(object)


def _fitted(library: str, task: str, split: Split) -> tuple[Any, Callable[[Any], Any]]:
    """Return an estimator fitted to the training rows, and how it takes features."""
    model = estimator(library, task)
    categories = list(split.train.select_dtypes("category").columns)
    labels = split.train_labels
    if library == "catboost":
        model.fit(_for_catboost(split.train), labels, cat_features=categories)
        return model, _for_catboost
    if library == "chimeraboost":
        places = [split.train.columns.get_loc(name) for name in categories]
        if not places:
            model.fit(split.train.to_numpy(), labels)
            return model, pd.DataFrame.to_numpy
        model.fit(_as_array(split.train), labels, cat_features=places)
        return model, _as_array
    model.fit(split.train, labels)
    return model, lambda frame: frame


def loss(task: str, split: Split, predicted: np.ndarray) -> float:
    """Return the loss of the test rows."""
    if task == "classes":
        classes = np.unique(split.train_labels)
        return float(log_loss(split.test_labels, predicted, labels=classes))
    errors = split.test_labels - predicted.reshape(-1)
    spread = split.test_labels - split.train_labels.mean()
    return float(np.sqrt(np.mean(errors**2) / np.mean(spread**2)))


def measure(library: str, data: DataSet, rows: int | None) -> Run:
    """Return the loss of a library on a set, and the CPU seconds of its fit."""
    split = load(data, rows=rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # scikit-learn's estimators take no number of threads.
        with threadpool_limits(1), clock() as fitting:
            model, taken = _fitted(library, data.task, split)
        predict = model.predict_proba if data.task == "classes" else model.predict
        predicted = np.asarray(predict(taken(split.test)))
    return {
        "library": library,
        "set": data.name,
        "task": data.task,
        "rows": len(split.train),
        "loss": loss(data.task, split, predicted),
        "seconds": fitting.cpu,
        "chosen": getattr(model, "chosen_", None),
    }


def chosen_sets(names: str) -> list[DataSet]:
    """Return the sets of a half, ``choose`` or ``report``, ``all`` or those named."""
    return [
        data
        for data in DATA_SETS
        if names == "all"
        or data.name in names.split(",")
        or names == ("choose" if data.is_for_choosing else "report")
    ]


def losses(runs: list[Run], libraries: list[str]) -> tuple[list[str], np.ndarray]:
    """Return the sets that all libraries ran on, and losses (sets, libraries)."""
    by_set: dict[str, dict[str, float]] = {}
    for run in runs:
        by_set.setdefault(run["set"], {})[run["library"]] = run["loss"]
    names = [name for name, found in by_set.items() if set(libraries) <= set(found)]
    table = [[by_set[name][library] for library in libraries] for name in names]
    return names, np.array(table).reshape(len(names), len(libraries))


def summary(runs: list[Run], libraries: list[str]) -> list[Mapping[str, Any]]:
    """Return for each library its mean rank, distances, wins and time.

    Wins, losses and the mean change of the loss are against the first library.
    """
    names, table = losses(runs, libraries)
    ranks = rankdata(table, axis=1)
    distances = 100 * (table / table.min(axis=1, keepdims=True) - 1)
    rows = []
    for number, library in enumerate(libraries):
        against = table[:, 0] - table[:, number]
        differ = against[against != 0]
        seconds = [
            r["seconds"] for r in runs if r["library"] == library and r["set"] in names
        ]
        rows.append(
            {
                "library": library,
                "rank": ranks[:, number].mean(),
                "distance": distances[:, number].mean(),
                "largest": distances[:, number].max(),
                "change": 100 * float((table[:, number] / table[:, 0]).mean() - 1),
                "lost": int((against < 0).sum()),
                "won": int((against > 0).sum()),
                "p": float(wilcoxon(differ).pvalue) if len(differ) > 5 else 1.0,
                "seconds": float(np.median(seconds)),
            }
        )
    return rows


def show(console: Console, runs: list[Run], libraries: list[str]) -> None:
    """Print the summary as a table."""
    names, _ = losses(runs, libraries)
    table = Table(title=f"{len(names)} sets, estimators with no argument")
    headings = ["library", "mean rank", "mean distance %", "largest %", "change %"]
    for heading in [*headings, f"wins, losses against {libraries[0]}", "p", "median s"]:
        table.add_column(heading, justify="left" if heading == "library" else "right")
    for row in summary(runs, libraries):
        table.add_row(
            row["library"],
            f"{row['rank']:.2f}",
            f"{row['distance']:.2f}",
            f"{row['largest']:.1f}",
            f"{row['change']:+.2f}",
            f"{row['won']}, {row['lost']}",
            f"{row['p']:.3f}",
            f"{row['seconds']:.2f}",
        )
    console.print(table)


def main() -> None:
    """Measure the libraries on the sets, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default="report", help="choose, report, all or names")
    parser.add_argument(
        "--libraries",
        nargs="+",
        choices=_ESTIMATORS,
        help=f"if not given all but {', '.join(_NAMED)}",
    )
    parser.add_argument("--rows", type=int, help="at most so many training rows")
    add_output_option(parser)
    arguments = parser.parse_args()
    machine = describe([*PACKAGES, "catboost", "chimeraboost"])
    console = Console()
    libraries = []
    usual = [name for name in _ESTIMATORS if name not in _NAMED]
    for library in arguments.libraries or usual:
        try:
            estimator(library, "values")
        except ImportError:
            console.print(f"{library} is not installed")
            continue
        libraries.append(library)
    sets = chosen_sets(arguments.sets)
    runs = []
    for task in ("values", "classes"):
        first = next((data for data in sets if data.task == task), None)
        for library in libraries if first else ():
            measure(library, first, _WARM_ROWS)
    for data in sets:
        for library in libraries:
            runs.append(measure(library, data, arguments.rows))
        of_set = runs[-len(libraries) :]
        console.print(
            f"{data.name}: "
            + "  ".join(
                f"{r['library']} {r['loss']:.4f} ({r['seconds']:.1f} s)" for r in of_set
            )
        )
    show(console, runs, libraries)
    result = {"machine": machine, "options": vars(arguments), "runs": runs}
    print(write("quality", result, arguments.output))


if __name__ == "__main__":
    main()
