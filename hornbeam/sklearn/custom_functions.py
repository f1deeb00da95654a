"""Custom objectives and metrics of estimators, adapted to `hornbeam.train`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy.typing as npt

from hornbeam.data.meta_info_accessors import MetaInfoAccessors
from hornbeam.objectives.compiled import ScalarLoss

__all__ = [
    "MetricFunction",
    "ObjectiveFunction",
    "is_custom",
    "metric_of",
    "objective_of",
    "weights_of",
]


#: Functions of labels and predictions, with sample_weight= if there are weights.
ObjectiveFunction: TypeAlias = Callable[..., tuple[Any, Any]]
MetricFunction: TypeAlias = Callable[..., float]


def is_custom(objective: Any) -> bool:
    """Return whether an objective is custom: a function or formulas, not a name."""
    return callable(objective) or isinstance(objective, ScalarLoss)


def objective_of(objective: Any) -> Callable[..., Any] | ScalarLoss | None:
    """Return a custom objective as an argument of `train`; None if it is a name."""
    if isinstance(objective, ScalarLoss):
        return objective
    if not callable(objective):
        return None

    def gradients(predictions: npt.NDArray[Any], rows: MetaInfoAccessors) -> Any:
        return objective(rows.get_label(), predictions, **weights_of(rows))

    return gradients


def metric_of(metric: Any) -> Callable[..., tuple[str, float]] | None:
    """Return a custom metric as an argument of `train`; None if it is a name."""
    if not callable(metric):
        return None

    def score(
        predictions: npt.NDArray[Any], rows: MetaInfoAccessors
    ) -> tuple[str, float]:
        value = metric(rows.get_label(), predictions, **weights_of(rows))
        return metric.__name__, float(value)

    return score


def weights_of(rows: MetaInfoAccessors) -> dict[str, npt.NDArray[Any]]:
    """Return the keyword argument of the row weights; empty without weights."""
    return {} if rows.weights is None else {"sample_weight": rows.get_weight()}
