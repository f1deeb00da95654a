"""The callback that lets Optuna prune unpromising trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hornbeam.callbacks.base import (
    EvalsLog,
    TrainingCallback,
    latest_scores,
    mean_of,
)
from hornbeam.errors import ErrorCode, ParameterError, require

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster

__all__ = ["OptunaPruning"]


class OptunaPruning(TrainingCallback):
    """Report a metric of each round to an Optuna trial, which may prune it.

    A pruned training ends with ``optuna.TrialPruned``, which Optuna expects from an
    objective function. In cross-validation the mean over folds is reported.

    Parameters
    ----------
    trial
        The ``optuna.trial.Trial``.
    observation_key
        The names of data and metric, such as ``"valid-logloss"``;
        ``"validation_0-logloss"`` for an estimator, ``"test-logloss"`` for `cv`.

    Examples
    --------
    >>> import hornbeam
    >>> import optuna
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> data = hornbeam.DMatrix(X[:300], y[:300])
    >>> held_out = hornbeam.DMatrix(X[300:], y[300:])
    >>> def objective(trial):
    ...     booster = hornbeam.train(
    ...         {"max_depth": trial.suggest_int("max_depth", 1, 4)},
    ...         data,
    ...         20,
    ...         evals=[(held_out, "valid")],
    ...         callbacks=[hornbeam.OptunaPruning(trial, "valid-rmse")],
    ...         verbose_eval=False,
    ...     )
    ...     return float(booster.eval(held_out).split(":")[1])
    ...
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    >>> study.optimize(objective, n_trials=4)
    >>> sorted(study.best_params)
    ['max_depth']
    """

    def __init__(self, trial: Any, observation_key: str) -> None:
        self._optuna = require("optuna", "optuna", "OptunaPruning")
        self._trial = trial
        self._observation_key = observation_key

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        latest = latest_scores(evals_log)
        if self._observation_key not in latest:
            raise ParameterError(
                f"OptunaPruning refers to {self._observation_key!r}, which is not "
                f"among the metrics {list(latest)}; see evals and eval_metric",
                code=ErrorCode.UNKNOWN_SCORE,
            )
        self._trial.report(mean_of(latest[self._observation_key]), step=epoch)
        if self._trial.should_prune():
            raise self._optuna.TrialPruned(f"the trial was pruned at iteration {epoch}")
        return False
