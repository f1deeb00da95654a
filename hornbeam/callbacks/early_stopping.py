"""Callbacks that stop training, and return the model of the best round."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any

from hornbeam.callbacks.base import EvalsLog, TrainingCallback, mean_of
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.metrics.registry import maximize_of

if TYPE_CHECKING:
    from hornbeam.boosting.booster import Booster

__all__ = ["EarlyStopping", "TimeLimit"]


class _BestRound(TrainingCallback):
    """Base of callbacks that record the best round in the model."""

    def __init__(
        self,
        metric_name: str | None,
        data_name: str | None,
        maximize: bool | None,
        save_best: bool,
        min_delta: float,
    ) -> None:
        self.metric_name = metric_name
        self.data = data_name
        self.maximize = maximize
        self.save_best = save_best
        self.min_delta = min_delta
        self._start_over(0)

    def _start_over(self, starting_round: int) -> None:
        self.starting_round = starting_round
        self.stopping_history: EvalsLog = {}
        self.best_iteration: int | None = None
        self.best_score: float | None = None
        self._best: Booster | None = None

    def before_training(self, model: Booster) -> Booster:
        self._start_over(model.num_boosted_rounds())
        return model

    def _update_best(self, model: Booster, evals_log: EvalsLog) -> bool:
        """Return whether this round is the best; if so, record it in the model."""
        data = _chosen(
            evals_log, self.data, "data set", "evals", ErrorCode.UNKNOWN_EVAL_DATA
        )
        metric = _chosen(
            evals_log[data],
            self.metric_name,
            "metric",
            "eval_metric",
            ErrorCode.UNKNOWN_EVAL_METRIC,
        )
        latest = evals_log[data][metric][-1]
        self.stopping_history.setdefault(data, {}).setdefault(metric, []).append(latest)

        score = mean_of(latest)
        if not self._improves(score, metric):
            return False
        self.best_score = score
        self.best_iteration = model.num_boosted_rounds() - 1
        model.set_attr(
            best_score=str(self.best_score), best_iteration=str(self.best_iteration)
        )
        if self.save_best:
            # Later rounds of DART change the weights of trees. The copy shares trees.
            self._best = model.copy()
        return True

    def _improves(self, score: float, metric: str) -> bool:
        if self.best_score is None:
            return True
        maximize = self.maximize
        if maximize is None:
            maximize = maximize_of(metric)
        if maximize:
            return score - self.min_delta > self.best_score
        return self.best_score - self.min_delta > score

    def after_training(self, model: Booster) -> Booster:
        return model if self._best is None else self._best

    def state(self) -> dict[str, Any]:
        raw = None if self._best is None else self._best.save_raw()
        return {
            "best_iteration": self.best_iteration,
            "best_score": self.best_score,
            "history": self.stopping_history,
            "best": None if raw is None else base64.b64encode(raw).decode(),
        }

    def resume(self, model: Booster, state: dict[str, Any]) -> None:
        self.best_iteration = state["best_iteration"]
        self.best_score = state["best_score"]
        self.stopping_history = state["history"]
        if self.save_best and state["best"] is not None:
            self._best = model.copy()
            self._best.resume(base64.b64decode(state["best"]))


class EarlyStopping(_BestRound):
    """Stop when a metric has not improved for a number of rounds.

    The model gets the attributes ``best_iteration`` and ``best_score``.

    Parameters
    ----------
    rounds
        The number of rounds without improvement after which training stops.
    metric_name, data_name
        The metric and the data set; by default the last of each.
    maximize
        Whether larger is better. None: `Metric.maximize` of a metric of Hornbeam;
        for a custom metric XGBoost's rule, by how its name begins.
    save_best
        Whether training returns the model up to its best round instead of the last.
    min_delta
        The change that an improvement must exceed.

    Examples
    --------
    >>> import hornbeam
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> data = hornbeam.DMatrix(X[:300], y[:300])
    >>> held_out = hornbeam.DMatrix(X[300:], y[300:])
    >>> stopping = hornbeam.EarlyStopping(rounds=5, metric_name="mae", save_best=True)
    >>> booster = hornbeam.train(
    ...     {"max_depth": 2, "eval_metric": ["rmse", "mae"]},
    ...     data,
    ...     100,
    ...     evals=[(held_out, "held_out")],
    ...     callbacks=[stopping],
    ...     verbose_eval=False,
    ... )
    >>> booster.num_boosted_rounds() == booster.best_iteration + 1
    True
    """

    def __init__(
        self,
        *,
        rounds: int,
        metric_name: str | None = None,
        data_name: str | None = None,
        maximize: bool | None = None,
        save_best: bool = False,
        min_delta: float = 0.0,
    ) -> None:
        if rounds < 1:
            raise ParameterError(
                f"rounds of EarlyStopping must be 1 or more: {rounds}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        if not min_delta >= 0:
            raise ParameterError(
                f"min_delta of EarlyStopping must be 0 or more: {min_delta}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        self.rounds = rounds
        super().__init__(metric_name, data_name, maximize, save_best, min_delta)

    def _start_over(self, starting_round: int) -> None:
        super()._start_over(starting_round)
        self.current_rounds = 0

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        if not evals_log:
            raise DataError(
                "early stopping needs evaluation data: pass evals to train, or "
                "eval_set to fit",
                code=ErrorCode.EVALS_MISSING,
            )
        improved = self._update_best(model, evals_log)
        self.current_rounds = 0 if improved else self.current_rounds + 1
        return self.current_rounds >= self.rounds

    def state(self) -> dict[str, Any]:
        return {**super().state(), "current_rounds": self.current_rounds}

    def resume(self, model: Booster, state: dict[str, Any]) -> None:
        super().resume(model, state)
        self.current_rounds = state["current_rounds"]


class TimeLimit(_BestRound):
    """Stop training at a time limit, and return the model of the best round.

    The first round is always trained. Training stops if another round, of the duration
    of the last, would exceed the limit.

    Parameters
    ----------
    seconds
        The limit on the time from the first round on. Of a training that resumes from
        a checkpoint, the time of the interruption does not count.
    metric_name, data_name, maximize
        As for `EarlyStopping`; they have no effect without `evals`.
    save_best
        Whether training returns the model up to its best round instead of the last,
        even if it ends before the limit.

    Examples
    --------
    >>> import hornbeam
    >>> from sklearn.datasets import load_diabetes
    >>> data = hornbeam.DMatrix(*load_diabetes(return_X_y=True))
    >>> limit = hornbeam.TimeLimit(seconds=60)
    >>> booster = hornbeam.train({"max_depth": 2}, data, 20, callbacks=[limit])
    >>> booster.num_boosted_rounds()
    20
    """

    def __init__(
        self,
        seconds: float,
        *,
        metric_name: str | None = None,
        data_name: str | None = None,
        maximize: bool | None = None,
        save_best: bool = True,
    ) -> None:
        if not seconds > 0:
            raise ParameterError(
                f"seconds of TimeLimit must be above 0: {seconds}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        self.seconds = seconds
        super().__init__(metric_name, data_name, maximize, save_best, 0.0)

    def before_training(self, model: Booster) -> Booster:
        self._started = self._latest = time.monotonic()
        return super().before_training(model)

    def after_iteration(self, model: Booster, epoch: int, evals_log: EvalsLog) -> bool:
        if evals_log:
            self._update_best(model, evals_log)
        before, self._latest = self._latest, time.monotonic()
        next_end = self._latest + (self._latest - before)
        return next_end - self._started > self.seconds

    def state(self) -> dict[str, Any]:
        return {**super().state(), "seconds": self._latest - self._started}

    def resume(self, model: Booster, state: dict[str, Any]) -> None:
        super().resume(model, state)
        self._started -= state["seconds"]


def _chosen(
    log: dict[str, Any], name: str | None, kind: str, source: str, code: ErrorCode
) -> str:
    """Return `name` if the log has it, or the last name of the log."""
    if name is None:
        return list(log)[-1]
    if name not in log:
        raise ParameterError(
            f"a callback refers to the {kind} {name!r}, which is not among "
            f"{list(log)}; see {source}",
            code=code,
            name=name,
        )
    return name
