"""Objectives and metrics over labels and predictions, as training takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hornbeam.errors import DataError, ErrorCode

__all__ = ["Metric", "ltr_metric_decorator", "metrics_of", "objective_of"]

#: Of predictions and a matrix to the name of the metric and its value.
Metric: TypeAlias = Callable[[npt.NDArray[Any], Any], tuple[str, float]]


def objective_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an objective of labels and predictions as one of predictions and data.

    It takes weights as ``sample_weight``, and must do so if there are any.
    """
    takes_weights = "sample_weight" in signature(function).parameters

    def gradients(predictions: npt.NDArray[Any], data: Any) -> Any:
        weights = data.get_weight()
        if weights.size == 0:
            return function(data.get_label(), predictions)
        if not takes_weights:
            raise DataError(
                "the custom objective has no parameter `sample_weight`, and the rows "
                "have weights; add it, or leave sample_weight out",
                code=ErrorCode.INVALID_CUSTOM_OBJECTIVE,
            )
        return function(data.get_label(), predictions, sample_weight=weights)

    return gradients


def ltr_metric_decorator(func: Callable[..., float], n_jobs: int | None) -> Metric:
    """Return a metric of the rows of one group as one of all groups.

    Parameters
    ----------
    func
        Of the labels and predictions of a group. Its values are averaged, each group
        counting by its size; a group of one row has 1.
    n_jobs
        How many threads share the groups; None for as many as there are cores.
    """

    def score(predictions: npt.NDArray[Any], data: Any) -> tuple[str, float]:
        sizes = data.get_group()
        if sizes.size == 0:
            raise DataError(
                "Invalid `group_ptr`: the rows have no groups; pass qid or group",
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


def metrics_of(
    eval_metric: Any, decorate: Callable[[Callable[..., float]], Metric | None]
) -> tuple[str | list[str] | None, Metric | None]:
    """Return the metrics that have names, and the one that is a function.

    Parameters
    ----------
    eval_metric
        A name, a function, a sequence of both, or None.
    decorate
        Makes of such a function one that training takes.
    """
    if eval_metric is None or isinstance(eval_metric, str):
        return eval_metric, None
    if callable(eval_metric):
        return None, decorate(eval_metric)
    if not isinstance(eval_metric, Sequence):
        raise _no_metric(eval_metric)
    names = [metric for metric in eval_metric if isinstance(metric, str)]
    functions = [metric for metric in eval_metric if callable(metric)]
    for metric in eval_metric:
        if not isinstance(metric, str) and not callable(metric):
            raise _no_metric(metric)
    if len(functions) > 1:
        raise NotImplementedError(
            "Using multiple custom metrics is not yet supported; make them one, or "
            "pass the others as callbacks"
        )
    return names or None, decorate(functions[0]) if functions else None


def _no_metric(value: Any) -> TypeError:
    return TypeError(
        f"Invalid type for the `eval_metric`: {type(value)}; give a name, a function "
        "or a list of them"
    )
