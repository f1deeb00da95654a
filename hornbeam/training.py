"""The loop of training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Integral

from hornbeam.boosting.booster import Booster
from hornbeam.boosting.custom import MetricFunction, ObjectiveFunction
from hornbeam.callbacks import (
    CallbackContainer,
    EarlyStopping,
    EvalsLog,
    EvaluationMonitor,
    TrainingCallback,
)
from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import DataError, ParameterError
from hornbeam.params import ParameterSource

__all__ = ["train"]


def train(
    params: ParameterSource,
    dtrain: DMatrix,
    num_boost_round: int = 10,
    *,
    evals: Sequence[tuple[DMatrix, str]] | None = None,
    obj: ObjectiveFunction | None = None,
    maximize: bool | None = None,
    early_stopping_rounds: int | None = None,
    evals_result: EvalsLog | None = None,
    verbose_eval: bool | int | None = True,
    xgb_model: Booster | str | os.PathLike[str] | bytes | bytearray | None = None,
    callbacks: Sequence[TrainingCallback] | None = None,
    custom_metric: MetricFunction | None = None,
) -> Booster:
    """Return a booster trained for `num_boost_round` rounds.

    Parameters
    ----------
    params
        Parameters, as a mapping or as pairs of name and value.
    dtrain
        Data with labels.
    num_boost_round
        Rounds to add.
    evals
        Data to measure after every round, with a name for each.
    obj
        An objective of your own: (predictions, data) to (gradients, hessians). It
        gets margins.
    maximize
        Whether a higher value of the metric that stops training early is better; None
        asks the metric.
    early_stopping_rounds
        Stop when the last metric of the last of `evals` has not become better for so
        many rounds.
    evals_result
        A dict that takes the values of all metrics.
    verbose_eval
        Print the metrics every round, every so many rounds, or not.
    xgb_model
        A model to continue; it is not changed.
    callbacks
        See `hornbeam.callbacks`.
    custom_metric
        A metric of your own: (predictions, data) to (name, value). It gets margins if
        the objective is your own too.
    """
    if isinstance(num_boost_round, bool) or not isinstance(num_boost_round, Integral):
        raise ParameterError(
            f"num_boost_round must be a whole number, not {num_boost_round!r}"
        )
    if num_boost_round < 0:
        raise ParameterError(
            f"num_boost_round must be 0 or more, not {num_boost_round}"
        )
    if not isinstance(dtrain, DMatrix):
        raise DataError(
            f"dtrain must be a DMatrix, not {type(dtrain).__name__}; wrap the data: "
            "DMatrix(data, label)"
        )
    evals = list(evals or ())
    for item in evals:
        if not (isinstance(item, tuple | list) and len(item) == 2):
            raise DataError(f"evals must hold pairs (DMatrix, name), not {item!r}")
        if not isinstance(item[0], DMatrix):
            raise DataError(
                f"evals must hold pairs (DMatrix, name), but the data of {item[1]!r} "
                f"is a {type(item[0]).__name__}; wrap it: DMatrix(data, label)"
            )
    booster = Booster(params, [dtrain, *(data for data, _ in evals)], xgb_model)

    container = CallbackContainer(
        _all_callbacks(callbacks, verbose_eval, early_stopping_rounds, maximize),
        metric=custom_metric,
        output_margin=obj is not None,
    )
    booster = container.before_training(booster)
    for number in range(num_boost_round):
        if container.before_iteration(booster, number, dtrain, evals):
            break
        booster.update(dtrain, iteration=number, fobj=obj)
        if container.after_iteration(booster, number, dtrain, evals):
            break
    booster = container.after_training(booster)
    if evals_result is not None:
        evals_result.update(container.history)
    return booster.reset()


def _all_callbacks(
    given: Sequence[TrainingCallback] | None,
    verbose_eval: bool | int | None,
    early_stopping_rounds: int | None,
    maximize: bool | None,
) -> list[TrainingCallback]:
    callbacks = list(given or ())
    if verbose_eval:
        callbacks.append(EvaluationMonitor(period=int(verbose_eval)))
    if early_stopping_rounds:
        callbacks.append(EarlyStopping(rounds=early_stopping_rounds, maximize=maximize))
    return callbacks
