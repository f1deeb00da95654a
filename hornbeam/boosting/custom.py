"""Custom objectives and metrics that are Python functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import GradientRows
from hornbeam.boosting.margins import squeeze_outputs
from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import DataError, ErrorCode, ParameterError

__all__ = [
    "MetricFunction",
    "ObjectiveFunction",
    "metric_pairs",
    "set_gradients",
    "set_gradients_of",
]

#: (predictions, data) -> (gradients, hessians), and optionally the gradients and
#: hessians that splits of multi-output trees are searched by.
ObjectiveFunction = Callable[[NDArray[Any], DMatrix], tuple[Any, ...]]
#: (predictions, data) -> (name, value), or a list of such pairs.
MetricFunction = Callable[[NDArray[Any], DMatrix], Any]


def metric_pairs(result: Any) -> Iterator[tuple[str, float]]:
    """Yield the (name, value) pairs of the result of a custom metric."""
    for pair in result if isinstance(result, list) else [result]:
        try:
            name, value = pair
            if not isinstance(name, str) or "\t" in name:
                raise ValueError
            yield name, float(value)
        except (TypeError, ValueError):
            raise DataError(
                "a custom metric must return (name, value), a string without tabs and "
                f"a number, or a list of such pairs, not {_brief(result)}",
                code=ErrorCode.INVALID_CUSTOM_METRIC,
            ) from None


def set_gradients_of(
    rows: GradientRows, objective: ObjectiveFunction, data: DMatrix
) -> None:
    """Set the gradients of a custom objective at the margins of the rows."""
    if not callable(objective):
        raise ParameterError(
            "a custom objective must be a function of (predictions, data), not "
            f"{objective!r}; built-in objectives are named by the parameter objective",
            code=ErrorCode.INVALID_CUSTOM_OBJECTIVE,
        )
    margins = squeeze_outputs(np.ascontiguousarray(rows.margins().T))
    result = objective(margins, data)
    try:
        gradients, hessians, *searched = result
        if len(searched) not in (0, 2):
            raise ValueError
    except (TypeError, ValueError):
        raise DataError(
            "a custom objective must return (gradients, hessians), or these and the "
            f"pair that splits are searched by, not {_brief(result)}",
            code=ErrorCode.INVALID_CUSTOM_OBJECTIVE,
        ) from None
    set_gradients(rows, gradients, hessians)
    if searched:
        _set_split_gradients(rows, *searched)


def set_gradients(rows: GradientRows, gradients: Any, hessians: Any) -> None:
    """Set custom gradients and hessians, (rows,) or (rows, outputs)."""
    shape = rows.n_rows, rows.n_outputs
    rows.set_gradients(
        _as_gradients(gradients, "gradients", shape),
        _as_gradients(hessians, "hessians", shape),
    )


def _set_split_gradients(rows: GradientRows, gradients: Any, hessians: Any) -> None:
    """Search the splits of multi-output trees by custom gradients and hessians."""
    names = "gradients to split by", "hessians to split by"
    pair = [
        _numbers(*given) for given in zip((gradients, hessians), names, strict=True)
    ]
    counts = [array.shape[-1] if array.ndim == 2 else 1 for array in pair]
    if counts[0] != counts[1]:
        raise DataError(
            f"the {names[0]} have {counts[0]} columns, and the {names[1]} {counts[1]}; "
            "give a hessian for each",
            code=ErrorCode.GRADIENT_SIZE_MISMATCH,
        )
    if not 1 <= counts[0] <= rows.n_outputs:
        raise DataError(
            f"the {names[0]} have {counts[0]} columns, and the model has "
            f"{rows.n_outputs} outputs; give one column at least, and one for each "
            "output at most",
            code=ErrorCode.GRADIENT_SIZE_MISMATCH,
        )
    shape = rows.n_rows, counts[0]
    checked = [_as_gradients(*given, shape) for given in zip(pair, names, strict=True)]
    rows.set_split_gradients(*checked)


def _brief(value: Any) -> str:
    """Return the beginning of the representation of a value, on one line."""
    return " ".join(repr(value).split())[:100]


def _numbers(values: Any, what: str) -> NDArray[Any]:
    """Return custom gradients as an array of numbers, or raise an error."""
    if values is None:
        raise DataError(
            f"{what} are missing; give grad and hess", code=ErrorCode.INVALID_GRADIENT
        )
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        raise DataError(
            f"{what} must be an array of numbers, not {_brief(values)}",
            code=ErrorCode.INVALID_GRADIENT,
        )
    return array


def _as_gradients(
    values: Any, what: str, shape: tuple[int, int]
) -> NDArray[np.float64]:
    """Return custom gradients as (outputs, rows), or raise an error."""
    array = _numbers(values, what)
    if array.shape not in (shape, shape[:1]) or array.size != shape[0] * shape[1]:
        raise DataError(
            f"{what} have the shape {array.shape}, but the data has {shape[0]} rows "
            f"and there are {shape[1]} outputs; give the shape {shape}",
            code=ErrorCode.GRADIENT_SHAPE_MISMATCH,
        )
    array = array.reshape(shape).astype(np.float64)
    wrong = np.argwhere(~np.isfinite(array))
    if wrong.size > 0:
        row, output = (int(i) for i in wrong[0])
        raise DataError(
            f"{what} hold {array[row, output]} in row {row} (output {output}); they "
            "must be finite",
            code=ErrorCode.INVALID_GRADIENT,
        )
    return array.T
