"""Objectives of one's own as classes, which learn the number of the round."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from hornbeam.errors import ParameterError

__all__ = ["Objective", "TreeObjective", "as_float32", "as_function", "by_row"]


class Objective(ABC):
    """Base of objectives that are called with the number of the round."""

    @abstractmethod
    def __call__(self, iteration: int, y_pred: Any, dtrain: Any) -> tuple[Any, Any]:
        """Return the gradients and hessians of margins, each (rows, outputs)."""


class TreeObjective(Objective):
    """Base of objectives of trees."""

    def split_grad(
        self, iteration: int, grad: Any, hess: Any
    ) -> tuple[Any, Any] | None:
        """Return fewer columns of gradients to find splits by; None: all of them.

        Hornbeam reduces them itself, by the parameter ``sketch_outputs``: what is
        returned here is an error.
        """
        return None


def as_function(objective: Any, iteration: int) -> Any:
    """Return an objective as a function of (float32 margins, data).

    What is no function is returned as it is.
    """
    if not callable(objective):
        return objective

    def gradients(margins: Any, dtrain: Any) -> Any:
        y_pred = margins.astype(np.float32)
        if not isinstance(objective, Objective):
            return by_row(objective(y_pred, dtrain), len(y_pred))
        grad, hess = objective(iteration, y_pred, dtrain)
        if isinstance(objective, TreeObjective):
            _refuse(objective.split_grad(iteration, grad, hess))
        return by_row((grad, hess), len(y_pred))

    return gradients


def as_float32(metric: Any) -> Any:
    """Return a metric as a function of (float32 predictions, data); None is None."""
    if metric is None:
        return None
    return lambda y_pred, data: metric(y_pred.astype(np.float32), data)


def by_row(pair: Any, n_rows: int) -> Any:
    """Return gradients that come flat as (rows, outputs), with a warning."""
    if not (isinstance(pair, tuple | list) and len(pair) == 2):
        return pair
    if not all(isinstance(part, np.ndarray) for part in pair):
        return pair
    flat = [part.ndim == 1 and part.size not in (0, n_rows) for part in pair]
    if not any(flat) or any(part.size % n_rows for part in pair):
        return pair
    warnings.warn(
        "Since 2.1.0, the shape of the gradient and hessian is required to be "
        "(n_samples, n_targets) or (n_samples, n_classes).",
        FutureWarning,
        stacklevel=2,
    )
    return tuple(part.reshape(n_rows, -1) for part in pair)


def _refuse(reduced: Any) -> None:
    if reduced is not None:
        raise ParameterError(
            "split_grad returns gradients to find splits by, which Hornbeam does not "
            "take; set sketch_outputs=1 or more, and leave split_grad out"
        )
