"""A callback that lets Optuna end the trainings that promise little."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hornbeam.callbacks.base import EvalsLog, TrainingCallback, mean_of
from hornbeam.errors import ErrorCode, ParameterError, require

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster

__all__ = ["OptunaPruning"]


class OptunaPruning(TrainingCallback):
    """Report the score of each round to a trial of Optuna, and prune it on request.

    Then training ends with ``optuna.TrialPruned``, which Optuna expects of an
    objective. In cross-validation the score is the mean over the folds.

    Parameters
    ----------
    trial
        The ``optuna.trial.Trial``.
    observation_key
        What to report: the names of data and metric, as in ``"valid-logloss"``;
        ``"validation_0-logloss"`` of an estimator, and ``"test-logloss"`` of `cv`.
    """

    def __init__(self, trial: Any, observation_key: str) -> None:
        self._optuna = require("optuna", "optuna", "OptunaPruning")
        self._trial = trial
        self._observation_key = observation_key

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        latest = {
            f"{data}-{metric}": scores[-1]
            for data, metrics in evals_log.items()
            for metric, scores in metrics.items()
        }
        if self._observation_key not in latest:
            raise ParameterError(
                f"OptunaPruning watches {self._observation_key!r}, which is not among "
                f"the scores {list(latest)}; see evals and eval_metric",
                code=ErrorCode.UNKNOWN_SCORE,
            )
        self._trial.report(mean_of(latest[self._observation_key]), step=epoch)
        if self._trial.should_prune():
            raise self._optuna.TrialPruned(f"the trial was pruned at iteration {epoch}")
        return False
