"""Objectives of one's own as classes, which learn the number of the round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any

from hornbeam.errors import ParameterError

__all__ = ["Objective", "TreeObjective", "as_function"]


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
    """Return an objective as a function of (predictions, data); others as they are."""
    if not isinstance(objective, Objective):
        return objective
    return partial(_gradients, objective, iteration)


def _gradients(
    objective: Objective, iteration: int, y_pred: Any, dtrain: Any
) -> tuple[Any, Any]:
    grad, hess = objective(iteration, y_pred, dtrain)
    if isinstance(objective, TreeObjective):
        reduced = objective.split_grad(iteration, grad, hess)
        if reduced is not None:
            raise ParameterError(
                "split_grad returns gradients to find splits by, which Hornbeam does "
                "not take; set sketch_outputs=1 or more, and leave split_grad out"
            )
    return grad, hess
