"""A small training with callbacks, by Hornbeam or by XGBoost."""

from __future__ import annotations

import numpy as np

import hornbeam
from hornbeam.callbacks import EvalsLog

__all__ = ["ROUNDS", "Recorder", "fit", "rows"]

ROUNDS = 12


def rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 4)).astype(np.float32)
    return X, X[:, 0] * X[:, 1] + rng.normal(scale=0.5, size=200)


def fit(library, callbacks, rounds=ROUNDS, params=None, **arguments):
    """Train with `library`, which is Hornbeam or XGBoost, on the same small data."""
    train, valid = (library.DMatrix(*rows(seed)) for seed in (0, 1))
    arguments.setdefault("evals", [(train, "train"), (valid, "valid")])
    arguments.setdefault("verbose_eval", False)
    params = {"nthread": 1, "eta": 0.9} | (params or {})
    return library.train(params, train, rounds, callbacks=callbacks, **arguments)


class Recorder(hornbeam.TrainingCallback):
    """Writes down what it is asked, and stops where it is told to."""

    def __init__(self, stop_before: int | None = None, stop_after: int | None = None):
        self.stop_before = stop_before
        self.stop_after = stop_after
        self.calls: list[tuple[str, int]] = []
        self.log: EvalsLog = {}

    def before_training(self, model):
        self.calls.append(("before_training", model.num_boosted_rounds()))
        return model

    def after_training(self, model):
        self.calls.append(("after_training", model.num_boosted_rounds()))
        return model

    def before_iteration(self, model, epoch, evals_log):
        self.calls.append(("before", epoch))
        return epoch == self.stop_before

    def after_iteration(self, model, epoch, evals_log):
        self.calls.append(("after", epoch))
        self.log = evals_log
        return epoch == self.stop_after
