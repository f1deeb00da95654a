"""Custom objectives and metrics of estimators, adapted to XGBoost's `train`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from hornbeam.errors import DataError, ErrorCode
from hornbeam.xgboost.core import CustomObj, Metric
from hornbeam.xgboost.objective import Objective

__all__ = ["SklObjective", "adapt_objective", "ltr_metric_decorator", "split_metrics"]


class _WeightedObjective(Protocol):
    """A function of labels, predictions and weights: gradients and hessians."""

    def __call__(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> tuple[Any, Any]: ...


#: The objective of an estimator: a name, or a function.
SklObjective: TypeAlias = (
    str | Objective | _WeightedObjective | Callable[[Any, Any], tuple[Any, Any]] | None
)


def adapt_objective(function: Callable[..., Any]) -> CustomObj:
    """Return an objective of (labels, predictions) as one of (predictions, matrix).

    An `Objective` is returned unchanged, as in XGBoost 3.4.

    The objective gets weights as ``sample_weight``, which it must accept if there are
    weights.
    """
    if isinstance(function, Objective):
        return function
    takes_weights = "sample_weight" in signature(function).parameters

    def gradients(predictions: npt.NDArray[Any], data: Any) -> Any:
        weights = data.get_weight()
        if weights.size == 0:
            return function(data.get_label(), predictions)
        if not takes_weights:
            raise DataError(
                "the custom objective has no parameter `sample_weight`, but fit got "
                "sample weights; add the parameter, or leave the weights out",
                code=ErrorCode.INVALID_CUSTOM_OBJECTIVE,
            )
        return function(data.get_label(), predictions, sample_weight=weights)

    return gradients


def ltr_metric_decorator(func: Callable[..., float], n_jobs: int | None) -> Metric:
    """Return a ranking metric that averages a function over query groups.

    Parameters
    ----------
    func
        A function of the labels and predictions of a group. The average is weighted by
        group size; the value of a group of one row is 1.
    n_jobs
        The number of threads that evaluate groups; None for the executor's default.
    """

    def score(predictions: npt.NDArray[Any], data: Any) -> tuple[str, float]:
        sizes = data.get_group()
        if sizes.size == 0:
            raise DataError(
                "Invalid `group_ptr`: the data has no query groups; pass qid or group",
                code=ErrorCode.GROUPS_MISSING,
            )
        ends = np.cumsum(sizes)[:-1]
        groups = np.split(data.get_label(), ends), np.split(predictions, ends)
        with ThreadPoolExecutor(n_jobs) as threads:
            values = list(threads.map(of_group, *groups))
        return func.__name__, np.average(values, weights=sizes)

    def of_group(labels: npt.NDArray[Any], predictions: npt.NDArray[Any]) -> float:
        return 1.0 if labels.size == 1 else func(labels, predictions)

    return score


def split_metrics(
    eval_metric: Any, decorate: Callable[[Callable[..., float]], Metric | None]
) -> tuple[str | list[str] | None, Metric | None]:
    """Return the named metrics, and the custom one.

    Parameters
    ----------
    eval_metric
        A name, a function, a sequence of both, or None.
    decorate
        Adapts a function to `train`.
    """
    if eval_metric is None or isinstance(eval_metric, str):
        return eval_metric, None
    if callable(eval_metric):
        return None, decorate(eval_metric)
    if not isinstance(eval_metric, Sequence):
        raise _metric_type_error(eval_metric)
    names = [metric for metric in eval_metric if isinstance(metric, str)]
    functions = [metric for metric in eval_metric if callable(metric)]
    for metric in eval_metric:
        if not isinstance(metric, str) and not callable(metric):
            raise _metric_type_error(metric)
    if len(functions) > 1:
        raise NotImplementedError(
            "Using multiple custom metrics is not yet supported; pass one function, "
            "and the others as callbacks"
        )
    return names or None, decorate(functions[0]) if functions else None


def _metric_type_error(value: Any) -> TypeError:
    return TypeError(
        f"Invalid type for the `eval_metric`: {type(value)}; give a name, a function "
        "or a list of them"
    )
