"""Objectives and metrics that are functions of the caller's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import DataError, ParameterError

__all__ = [
    "MetricFunction",
    "ObjectiveFunction",
    "as_gradients",
    "gradients_of",
    "metric_pairs",
]

#: (predictions, data) -> (gradients, hessians).
ObjectiveFunction = Callable[[NDArray[Any], DMatrix], tuple[Any, Any]]
#: (predictions, data) -> (name, value), or a list of such pairs.
MetricFunction = Callable[[NDArray[Any], DMatrix], Any]


def metric_pairs(result: Any) -> Iterator[tuple[str, float]]:
    """Yield what a caller's metric gave as pairs of name and value."""
    for pair in result if isinstance(result, list) else [result]:
        try:
            name, value = pair
            if not isinstance(name, str) or "\t" in name:
                raise ValueError
            yield name, float(value)
        except (TypeError, ValueError):
            raise DataError(
                "a custom metric must return (name, value), a string without tabs and "
                f"a number, or a list of such pairs, not {_brief(result)}"
            ) from None


def gradients_of(
    objective: ObjectiveFunction, margins: NDArray[Any], data: DMatrix
) -> tuple[Any, Any]:
    """Return the gradients and hessians of a caller's objective."""
    if not callable(objective):
        raise ParameterError(
            "an objective of your own must be a function of (predictions, data), not "
            f"{objective!r}; Hornbeam's are named in the parameter objective"
        )
    result = objective(margins, data)
    try:
        gradients, hessians = result
    except (TypeError, ValueError):
        raise DataError(
            "an objective of your own must return (gradients, hessians), not "
            f"{_brief(result)}"
        ) from None
    return gradients, hessians


def _brief(value: Any) -> str:
    """Return a value in a few words, on one line."""
    return " ".join(repr(value).split())[:100]


def as_gradients(values: Any, what: str, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Return a caller's gradients as (outputs, rows), or say what is wrong."""
    if values is None:
        raise DataError(f"{what} are missing; give grad and hess")
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        raise DataError(f"{what} must be an array of numbers, not {_brief(values)}")
    if array.shape not in (shape, shape[:1]) or array.size != shape[0] * shape[1]:
        raise DataError(
            f"{what} have the shape {array.shape}, but the data has {shape[0]} rows "
            f"and the model {shape[1]} outputs; give the shape {shape}"
        )
    array = array.reshape(shape).astype(np.float64)
    wrong = np.argwhere(~np.isfinite(array))
    if wrong.size > 0:
        row, output = (int(i) for i in wrong[0])
        raise DataError(
            f"{what} hold {array[row, output]} in row {row} (output {output}); they "
            "must be finite"
        )
    return array.T
