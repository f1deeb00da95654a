"""Trains with each library, with equal depth, bins, learning rate and penalty.

Each function prepares the data, trains, and returns a function that predicts. Libraries
are imported inside the functions, so a process loads only one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["LIBRARIES", "PACKAGES", "Task"]

Predict = Callable[[np.ndarray], np.ndarray]

DEPTH = 6
BINS = 256
LEARNING_RATE = 0.1
PENALTY = 1.0


@dataclass(frozen=True)
class Task:
    """The task: numbers of classes, rounds and threads, and the size of trees.

    Attributes
    ----------
    depth
        Maximum depth of trees.
    leaves
        If not 0, trees grow leaf by leaf up to this many leaves, to any depth.
    """

    n_classes: int
    rounds: int
    threads: int
    depth: int = DEPTH
    leaves: int = 0

    def xgboost_parameters(self) -> dict[str, Any]:
        """Return the parameters by the names that three libraries have in common."""
        many = {"objective": "multi:softprob", "num_class": self.n_classes}
        by_leaf = {"grow_policy": "lossguide", "max_leaves": self.leaves}
        return {
            **({"objective": "binary:logistic"} if self.n_classes == 2 else many),
            **(by_leaf if self.leaves else {}),
            "tree_method": "hist",
            "max_depth": 0 if self.leaves else self.depth,
            "max_bin": BINS,
            "learning_rate": LEARNING_RATE,
            "reg_lambda": PENALTY,
            "min_child_weight": 1.0,
            "nthread": self.threads,
            "seed": 0,
        }


def fit_hornbeam(x: np.ndarray, y: np.ndarray, task: Task) -> Predict:
    import hornbeam

    data = hornbeam.QuantileDMatrix(x, y, max_bin=BINS, nthread=task.threads)
    booster = hornbeam.train(
        task.xgboost_parameters(), data, task.rounds, verbose_eval=False
    )
    return booster.inplace_predict


def fit_xgboost(x: np.ndarray, y: np.ndarray, task: Task) -> Predict:
    import xgboost

    data = xgboost.QuantileDMatrix(x, y, max_bin=BINS, nthread=task.threads)
    booster = xgboost.train(
        task.xgboost_parameters(), data, task.rounds, verbose_eval=False
    )
    return booster.inplace_predict


def fit_hessboost(x: np.ndarray, y: np.ndarray, task: Task) -> Predict:
    import hessboost

    data = hessboost.DMatrix(x, y)
    booster = hessboost.train(
        task.xgboost_parameters(), data, task.rounds, verbose_eval=False
    )
    return booster.predict


def fit_lightgbm(
    x: np.ndarray, y: np.ndarray, task: Task, *, quantised: bool = False
) -> Predict:
    import lightgbm

    many = {"objective": "multiclass", "num_class": task.n_classes}
    parameters = {
        **({"objective": "binary"} if task.n_classes == 2 else many),
        "max_depth": 0 if task.leaves else task.depth,
        "num_leaves": task.leaves or 2**task.depth,
        # LightGBM counts missing values as one of its 256 one-byte bins.
        "max_bin": BINS - 1,
        "learning_rate": LEARNING_RATE,
        "lambda_l2": PENALTY,
        "min_sum_hessian_in_leaf": 1.0,
        "min_data_in_leaf": 1,
        "num_threads": task.threads,
        "use_quantized_grad": quantised,
        "seed": 0,
        "verbosity": -1,
    }
    data = lightgbm.Dataset(x, y, params=parameters)
    booster = lightgbm.train(parameters, data, task.rounds)
    return booster.predict


def fit_lightgbm_quantised(x: np.ndarray, y: np.ndarray, task: Task) -> Predict:
    return fit_lightgbm(x, y, task, quantised=True)


def fit_catboost(x: np.ndarray, y: np.ndarray, task: Task) -> Predict:
    """Train symmetric trees, with one Newton step a leaf and no sampling."""
    import catboost

    by_leaf = {"grow_policy": "Lossguide", "max_leaves": task.leaves}
    model = catboost.CatBoost(
        {
            **(by_leaf if task.leaves else {}),
            "loss_function": "Logloss" if task.n_classes == 2 else "MultiClass",
            "iterations": task.rounds,
            "depth": 16 if task.leaves else task.depth,
            "border_count": BINS - 1,
            "learning_rate": LEARNING_RATE,
            "l2_leaf_reg": PENALTY,
            "leaf_estimation_iterations": 1,
            "bootstrap_type": "No",
            "random_strength": 0,
            "random_seed": 0,
            "thread_count": task.threads,
            "allow_writing_files": False,
            "verbose": False,
        }
    ).fit(catboost.Pool(x, y, thread_count=task.threads))
    if task.n_classes > 2:
        return lambda rows: model.predict(rows, prediction_type="Probability")
    return lambda rows: model.predict(rows, prediction_type="Probability")[:, 1]


def fit_sklearn(x: np.ndarray, y: np.ndarray, task: Task) -> Predict:
    """Train HistGradientBoosting; its threads come from OMP_NUM_THREADS."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=task.rounds,
        max_depth=None if task.leaves else task.depth,
        max_leaf_nodes=task.leaves or None,
        max_bins=BINS - 1,
        learning_rate=LEARNING_RATE,
        l2_regularization=PENALTY,
        min_samples_leaf=1,
        early_stopping=False,
        random_state=0,
    ).fit(x, y)
    if task.n_classes > 2:
        return model.predict_proba
    return lambda rows: model.predict_proba(rows)[:, 1]


LIBRARIES: dict[str, Callable[[np.ndarray, np.ndarray, Task], Predict]] = {
    "hornbeam": fit_hornbeam,
    "xgboost": fit_xgboost,
    "hessboost": fit_hessboost,
    "lightgbm": fit_lightgbm,
    "lightgbm-quantised": fit_lightgbm_quantised,
    "catboost": fit_catboost,
    "sklearn": fit_sklearn,
}

#: Packages whose versions are stored with a result.
PACKAGES = [
    *("hornbeam", "xgboost-cpu", "xgboost", "hessboost", "lightgbm"),
    "catboost",
    *("scikit-learn", "numpy", "numba", "llvmlite"),
]
