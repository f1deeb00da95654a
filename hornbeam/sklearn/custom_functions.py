"""Objectives and metrics that are functions of one's own, as the learner takes them."""

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


#: Takes labels and predictions, and sample_weight by name where there are weights.
ObjectiveFunction: TypeAlias = Callable[..., tuple[Any, Any]]
MetricFunction: TypeAlias = Callable[..., float]


def is_custom(objective: Any) -> bool:
    """Whether an objective is the caller's own, and not a name."""
    return callable(objective) or isinstance(objective, ScalarLoss)


def objective_of(objective: Any) -> Callable[..., Any] | ScalarLoss | None:
    """Return formulas, or a function of labels and predictions, for the learner."""
    if isinstance(objective, ScalarLoss):
        return objective
    if not callable(objective):
        return None

    def gradients(predictions: npt.NDArray[Any], rows: MetaInfoAccessors) -> Any:
        return objective(rows.get_label(), predictions, **weights_of(rows))

    return gradients


def metric_of(metric: Any) -> Callable[..., tuple[str, float]] | None:
    """Return a function of labels and predictions as a metric of the learner."""
    if not callable(metric):
        return None

    def score(
        predictions: npt.NDArray[Any], rows: MetaInfoAccessors
    ) -> tuple[str, float]:
        value = metric(rows.get_label(), predictions, **weights_of(rows))
        return metric.__name__, float(value)

    return score


def weights_of(rows: MetaInfoAccessors) -> dict[str, npt.NDArray[Any]]:
    """Return the weights of rows, if they have any, as an argument."""
    return {} if rows.weights is None else {"sample_weight": rows.get_weight()}
