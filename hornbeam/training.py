"""The training loop: `train`, and the rounds with callbacks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from hornbeam.boosting.booster import Booster
from hornbeam.boosting.custom import MetricFunction, ObjectiveFunction
from hornbeam.boosting.parameter_checks import check_rounds
from hornbeam.callbacks import (
    CallbackContainer,
    EarlyStopping,
    EvalsLog,
    EvaluationMonitor,
    TrainingCallback,
)
from hornbeam.data.dmatrix import DMatrix
from hornbeam.distributed import joined_group
from hornbeam.errors import DataError, ErrorCode, HornbeamError, ParameterError
from hornbeam.lazy import extension
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.params import ParameterSource

__all__ = ["check_training_data", "run_rounds", "train"]


def train(
    params: ParameterSource,
    dtrain: DMatrix,
    num_boost_round: int = 10,
    *,
    evals: Sequence[tuple[DMatrix, str]] | None = None,
    obj: ObjectiveFunction | ScalarLoss | None = None,
    maximize: bool | None = None,
    early_stopping_rounds: int | None = None,
    evals_result: EvalsLog | None = None,
    verbose_eval: bool | int | None = True,
    xgb_model: Booster | str | os.PathLike[str] | bytes | bytearray | None = None,
    callbacks: Sequence[TrainingCallback] | None = None,
    custom_metric: MetricFunction | None = None,
) -> Booster:
    """Return a booster trained for `num_boost_round` rounds.

    In a process that has joined a group (`hornbeam.distributed.group`), the data are
    its part of the rows, and the model is that of the rows of all processes.

    Parameters
    ----------
    params
        Parameters, as a mapping or as pairs of name and value.
    dtrain
        Data with labels.
    num_boost_round
        The number of boosting rounds to add.
    evals
        Pairs of data to evaluate on after every round, and its name.
    obj
        A custom objective: formulas (a `ScalarLoss`), or a function of (margins, data)
        that returns (gradients, hessians).
    maximize
        Whether early stopping maximizes the metric; None for the metric's default.
    early_stopping_rounds
        Stop when the last metric on the last of `evals` has not improved for this
        number of rounds.
    evals_result
        A dict that is filled with the values of all metrics.
    verbose_eval
        Whether to print the metrics of each round, or the number of rounds between
        printed lines.
    xgb_model
        A model to continue training from; it is not changed.
    callbacks
        See `hornbeam.callbacks`.
    custom_metric
        A custom metric: a function of (predictions, data) that returns (name, value).
        It gets margins if the objective is a custom function.

    Examples
    --------
    >>> import hornbeam
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> data = hornbeam.DMatrix(X[:400], y[:400])
    >>> held_out = hornbeam.DMatrix(X[400:], y[400:])
    >>> history = {}
    >>> booster = hornbeam.train(
    ...     {"objective": "binary:logistic", "max_depth": 3},
    ...     data,
    ...     200,
    ...     evals=[(held_out, "held_out")],
    ...     early_stopping_rounds=10,
    ...     evals_result=history,
    ...     verbose_eval=False,
    ... )
    >>> booster.best_iteration, round(booster.best_score, 4)
    (126, 0.0827)
    >>> booster.predict(held_out)[:3].round(3)
    array([0.   , 0.999, 1.   ], dtype=float32)
    """
    try:
        check_training_data(dtrain, evals, DMatrix)
        cache = [dtrain, *(data for data, _ in evals or ())]
        booster = _create_booster(params, cache, xgb_model)
        booster, log = run_rounds(
            booster,
            dtrain,
            num_boost_round,
            evals=evals,
            obj=obj,
            maximize=maximize,
            early_stopping_rounds=early_stopping_rounds,
            verbose_eval=verbose_eval,
            callbacks=callbacks,
            custom_metric=custom_metric,
        )
        if evals_result is not None:
            evals_result.update(log.history)
        if type(booster) is not Booster:  # the model of a group's processes
            booster = Booster(model_file=booster)
        booster.history = log.history
        return booster.reset()
    except HornbeamError as error:
        error.shorten()
        raise


def _create_booster(
    params: ParameterSource, cache: list[DMatrix], start: Any
) -> Booster:
    """Return a booster; in a group of processes, one that trains on the rows of all."""
    group = joined_group()
    if group is None or group.size == 1:
        return Booster(params, cache, start)
    booster: Booster = extension("GroupBooster")(group, params, start)
    return booster


def check_training_data(dtrain: Any, evals: Any, kind: type) -> None:
    """Raise a `DataError` if any of the data is not a matrix of the class `kind`."""
    wrap = f"wrap the data: {kind.__name__}(data, label)"
    if not isinstance(dtrain, kind):
        raise DataError(
            f"dtrain must be a {kind.__name__}, not {type(dtrain).__name__}; {wrap}",
            code=ErrorCode.NOT_A_DMATRIX,
        )
    for item in evals or ():
        if not (isinstance(item, tuple | list) and len(item) == 2):
            raise DataError(
                f"evals must hold pairs ({kind.__name__}, name), not {item!r}",
                code=ErrorCode.INVALID_EVALS,
            )
        if not isinstance(item[0], kind):
            raise DataError(
                f"evals must hold pairs ({kind.__name__}, name), but the data of "
                f"{item[1]!r} is a {type(item[0]).__name__}; {wrap}",
                code=ErrorCode.INVALID_EVALS,
            )


def run_rounds(
    booster: Booster,
    dtrain: Any,
    num_boost_round: int,
    *,
    evals: Sequence[tuple[Any, str]] | None,
    obj: ObjectiveFunction | ScalarLoss | None,
    maximize: bool | None,
    early_stopping_rounds: int | None,
    verbose_eval: bool | int | None,
    callbacks: Sequence[TrainingCallback] | None,
    custom_metric: MetricFunction | None,
    container_type: Callable[..., CallbackContainer] = CallbackContainer,
) -> tuple[Booster, CallbackContainer]:
    """Train `num_boost_round` rounds; return the booster and its callback container.

    Parameters
    ----------
    booster
        The booster, or an object with its methods; callbacks may replace it.
    dtrain, evals
        The arguments of its methods `update` and `measure`.
    num_boost_round, obj, maximize, early_stopping_rounds, verbose_eval, callbacks, \
custom_metric
        As for `train`.
    container_type
        The class of the callback container.
    """
    check_rounds(num_boost_round)
    evals = list(evals or ())
    monitored = verbose_eval if evals else None
    container = container_type(
        _all_callbacks(callbacks, monitored, early_stopping_rounds, maximize),
        metric=custom_metric,
        output_margin=obj is not None and not isinstance(obj, ScalarLoss),
    )
    try:
        booster = container.before_training(booster)
        if container.first_epoch > num_boost_round:
            raise ParameterError(
                f"the checkpoint has {container.first_epoch} rounds, and "
                f"num_boost_round is {num_boost_round}; increase it, or remove the "
                "later checkpoints",
                code=ErrorCode.MODEL_PARAMETER_MISMATCH,
            )
        numbers = range(container.first_epoch, num_boost_round)
        is_watched = container.callbacks or evals or not isinstance(booster, Booster)
        if numbers and not is_watched:
            booster.update(dtrain, numbers[0], obj, len(numbers))
            numbers = range(0)
        for number in numbers:
            # A checkpoint may have been saved in the round that stopped training.
            stopped = container.stopped
            if stopped or container.before_iteration(booster, number, dtrain, evals):
                break
            booster.update(dtrain, iteration=number, fobj=obj)
            if container.after_iteration(booster, number, dtrain, evals):
                break
        booster = container.after_training(booster)
    except BaseException:
        container.break_off()
        raise
    return booster, container


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
