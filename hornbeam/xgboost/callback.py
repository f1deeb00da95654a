"""Callbacks with XGBoost's interface; they can be combined with Hornbeam's."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from hornbeam.callbacks import (
    CallbackContainer as _CallbackContainer,
)
from hornbeam.callbacks import (
    EarlyStopping as _EarlyStopping,
)
from hornbeam.callbacks import (
    LearningRateScheduler,
    TrainingCallback,
    TrainingCheckPoint,
)
from hornbeam.callbacks.base import EvalsLog, Score
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.metrics.registry import maximize_of
from hornbeam.xgboost.collective import communicator_print, get_rank
from hornbeam.xgboost.deprecation import deprecate_positional_args

__all__ = [
    "CallbackContainer",
    "EarlyStopping",
    "EvaluationMonitor",
    "LearningRateScheduler",
    "TrainingCallback",
    "TrainingCheckPoint",
]


class CallbackContainer(_CallbackContainer):
    """The callbacks of one training, and the history of scores.

    Parameters
    ----------
    callbacks
        Run in this order, checkpoints last; a duplicate runs once.
    metric
        A custom metric, in addition to those of `eval_metric`.
    output_margin
        Whether the custom metric gets margins instead of predictions.
    is_cv
        Whether this is a cross-validation.
    """

    def __init__(
        self,
        callbacks: Sequence[TrainingCallback],
        metric: Callable[..., Any] | None = None,
        output_margin: bool = True,
        is_cv: bool = False,
    ) -> None:
        for callback in callbacks:
            if not isinstance(callback, TrainingCallback):
                raise TypeError("callback must be an instance of `TrainingCallback`.")
        if metric is not None and not callable(metric):
            raise TypeError(
                "metric must be callable object for monitoring; builtin metrics are "
                "named in the parameter eval_metric"
            )
        super().__init__(callbacks, metric, output_margin)
        self.history = OrderedDict()
        self.is_cv = is_cv

    def _ask_all(self, model: Any, epoch: int) -> bool:
        """Return whether a callback stops training; those after it do not run."""
        return any(
            c.after_iteration(model, epoch, self.history) for c in self.callbacks
        )

    def _remember(self, scores: Sequence[tuple[str, Score]]) -> None:
        for name, score in scores:
            data, _, metric = name.partition("-")
            metrics = self.history.setdefault(data, OrderedDict())
            metrics.setdefault(metric, []).append(score)


class EarlyStopping(_EarlyStopping):
    """Stop when a metric has not improved for a number of rounds.

    The arguments are those of `hornbeam.EarlyStopping`.
    """

    __init__ = deprecate_positional_args(_EarlyStopping.__init__)

    #: The best score at each improvement, by data set and metric.
    best_scores: dict[str, dict[str, list[Score]]]

    def _start_over(self, starting_round: int) -> None:
        super()._start_over(starting_round)
        self.best_scores = {}

    def before_training(self, model: Any) -> Any:
        if self.save_best and not hasattr(model, "save_model"):
            raise ParameterError(
                "`save_best` is not applicable to the `cv` function as it doesn't "
                "return a model.",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        return super().before_training(model)

    def after_iteration(self, model: Any, epoch: int, evals_log: EvalsLog) -> bool:
        if not evals_log:
            raise DataError(
                "Must have at least 1 validation dataset for early stopping.",
                code=ErrorCode.EVALS_MISSING,
            )
        if self.save_best and model.model.linear is not None:
            raise ParameterError(
                "`save_best` is not applicable to the current booster: a linear model "
                "has no rounds to choose from",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        return super().after_iteration(model, epoch, evals_log)

    def _update_best(self, model: Any, evals_log: EvalsLog) -> bool:
        improved = super()._update_best(model, evals_log)
        ((data, metrics),) = self.stopping_history.items()
        ((metric, scores),) = metrics.items()
        if self.maximize is None:
            self.maximize = maximize_of(metric)
        if improved:
            best = self.best_scores.setdefault(data, {}).setdefault(metric, [])
            best.append(scores[-1])
        return improved


class EvaluationMonitor(TrainingCallback):
    """Print the scores of a round on one line.

    Parameters
    ----------
    rank
        The worker of a group that prints.
    period
        The number of rounds between lines; the last round is always printed.
    show_stdv
        Whether to print the standard deviation over folds in a cross-validation.
    logger
        Called with each line, which ends with a newline.
    """

    def __init__(
        self,
        rank: int = 0,
        period: int = 1,
        show_stdv: bool = False,
        logger: Callable[[str], None] = communicator_print,
    ) -> None:
        if period < 1:
            raise ParameterError(
                f"period must be 1 or more, not {period}",
                code=ErrorCode.PARAMETER_OUT_OF_RANGE,
            )
        self.printer_rank = rank
        self.show_stdv = show_stdv
        self.period = period
        self._logger = logger
        self._latest: str | None = None

    def after_iteration(self, model: Any, epoch: int, evals_log: EvalsLog) -> bool:
        if not evals_log or get_rank() != self.printer_rank:
            return False
        line = f"[{epoch}]"
        for data, metrics in evals_log.items():
            for metric, scores in metrics.items():
                line += f"\t{data}-{metric}:{self._spelled(scores[-1])}"
        line += "\n"
        if epoch % self.period == 0:
            self._logger(line)
            self._latest = None
        else:
            self._latest = line
        return False

    def after_training(self, model: Any) -> Any:
        if self._latest is not None:
            self._logger(self._latest)
        return model

    def _spelled(self, score: Score) -> str:
        if not isinstance(score, tuple):
            return f"{score:.5f}"
        mean, deviation = score
        return f"{mean:.5f}+{deviation:.5f}" if self.show_stdv else f"{mean:.5f}"
