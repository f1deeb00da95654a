"""Custom objectives as classes, and adapters of custom functions to Hornbeam."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from hornbeam.errors import DataError, ErrorCode

__all__ = [
    "Objective",
    "TreeObjective",
    "float32_metric",
    "gradient_function",
    "reshape_gradients",
]


class Objective(ABC):
    """Base class of custom objectives that get the number of the round."""

    @abstractmethod
    def __call__(self, iteration: int, y_pred: Any, dtrain: Any) -> tuple[Any, Any]:
        """Return the gradients and hessians of margins, each (rows, outputs)."""


class TreeObjective(Objective):
    """Base class of custom objectives for trees."""

    def split_grad(
        self, iteration: int, grad: Any, hess: Any
    ) -> tuple[Any, Any] | None:
        """Return gradients and hessians for the split search; None for those of leaves.

        They may have fewer columns, for multi-output trees
        (``multi_strategy="multi_output_tree"``). As in XGBoost, trees of one output
        use only these gradients, also for leaves.
        """
        return None


def gradient_function(objective: Any, iteration: int, has_vectors: bool) -> Any:
    """Return a custom objective as a function of (float32 margins, data).

    Parameters
    ----------
    objective
        A function, or an `Objective`.
    iteration
        The number of the round.
    has_vectors
        Whether trees have vector leaves.
    """

    def gradients(margins: Any, dtrain: Any) -> tuple[Any, ...]:
        y_pred = margins.astype(np.float32)
        n_rows = len(y_pred)
        if not isinstance(objective, Objective):
            grad, hess = objective(y_pred, dtrain)
            return reshape_gradients(grad, hess, n_rows)
        grad, hess = objective(iteration, y_pred, dtrain)
        reduced = None
        if isinstance(objective, TreeObjective):
            reduced = objective.split_grad(iteration, grad, hess)
        if reduced is None:
            return reshape_gradients(grad, hess, n_rows)
        split_grad, split_hess = reduced
        searched = reshape_gradients(split_grad, split_hess, n_rows)
        return (
            (*reshape_gradients(grad, hess, n_rows), *searched)
            if has_vectors
            else searched
        )

    return gradients


def float32_metric(metric: Any) -> Any:
    """Return a custom metric that gets float32 predictions; None for None."""
    if metric is None:
        return None
    return lambda y_pred, data: metric(y_pred.astype(np.float32), data)


def reshape_gradients(grad: Any, hess: Any, n_rows: int) -> tuple[Any, Any]:
    """Return gradients and hessians as (rows,) or (rows, outputs).

    Flat arrays of several outputs are reshaped, with a warning.

    Raises
    ------
    TypeError
        If one of them is not a NumPy array.
    DataError
        If their shapes differ, or do not match the number of rows.
    """
    pair = []
    for part in (grad, hess):
        if not isinstance(part, np.ndarray):
            raise TypeError(
                "Expecting `np.ndarray` or `cupy.ndarray` for gradient and hessian. "
                f"Got: {type(part)}"
            )
        is_flat = part.size == max(part.shape, default=0)
        if len(part) != n_rows and is_flat and part.size % n_rows == 0:
            warnings.warn(
                "Since 2.1.0, the shape of the gradient and hessian is required to be "
                "(n_samples, n_targets) or (n_samples, n_classes).",
                FutureWarning,
                stacklevel=2,
            )
            part = part.reshape(n_rows, -1)
        pair.append(part)
    grad, hess = pair
    if grad.shape[1:] != hess.shape[1:] and grad.size != hess.size:
        raise DataError(
            f"Mismatched shape between the gradient and hessian: {grad.shape} and "
            f"{hess.shape}",
            code=ErrorCode.GRADIENT_SIZE_MISMATCH,
        )
    if len(grad) != n_rows or len(hess) != n_rows:
        raise DataError(
            "Mismatched size between the gradient and training data: the data has "
            f"{n_rows} rows, and gradients and hessians have the shapes {grad.shape} "
            f"and {hess.shape}",
            code=ErrorCode.GRADIENT_SIZE_MISMATCH,
        )
    return grad, hess
