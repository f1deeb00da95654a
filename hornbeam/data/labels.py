"""What goes with the rows beside the features: labels, weights and margins."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.data.adapters import as_column, as_frame, words
from hornbeam.data.floats import float_type, write_floats
from hornbeam.data.from_numpy import as_array
from hornbeam.errors import DataError

__all__ = ["as_base_margin", "as_labels", "as_weights"]

MENDS = {
    "label": "; encode classes as 0, 1, 2, ... or use HornbeamClassifier, which takes "
    "labels of any kind"
}

Floats = npt.NDArray[np.float64]


def as_labels(data: Any, n_rows: int) -> Floats:
    """Return a copy of the labels, one float64 for each row."""
    labels = _read(data, "label")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim > 1:
        raise DataError(
            f"label has shape {labels.shape}; Hornbeam does not train several targets "
            "together yet: pass one label for each row"
        )
    return _checked(labels, n_rows, "label")


def as_weights(data: Any, n_rows: int) -> Floats:
    """Return a copy of the weights, one float64 for each row."""
    weights = _read(data, "weight")
    if weights.ndim == 2 and weights.shape[1] == 1:
        weights = weights[:, 0]
    if weights.ndim > 1:
        raise DataError(
            f"weight has shape {weights.shape}; pass one weight for each row"
        )
    weights = _checked(weights, n_rows, "weight")
    negative = weights < 0
    if negative.any():
        row = int(negative.argmax())
        raise DataError(
            f"weight is {weights[row]} in row {row}; weights must not be negative"
        )
    if n_rows and not weights.any():
        raise DataError("every weight is zero; at least one row must count")
    return weights


def as_base_margin(data: Any, n_rows: int) -> Floats:
    """Return a copy of the margins, float64 of shape (n_rows,) or (n_rows, outputs)."""
    margins = _read(data, "base_margin")
    if margins.ndim > 2:
        raise DataError(
            f"base_margin has shape {margins.shape}; "
            "pass one value for each row, or one for each row and output"
        )
    return _checked(margins, n_rows, "base_margin")


def _read(data: Any, what: str) -> Floats:
    """Return the numbers of any container in a new float64 array, null as NaN."""
    try:
        array, nulls = _values(data)
    except DataError as error:
        raise DataError(
            f"{what} must be numbers: {error}{MENDS.get(what, '')}"
        ) from None

    def locate(index: tuple[int, ...]) -> str:
        return f"row {index[0]} of {what}"

    out = np.empty(array.shape)
    write_floats(array, out, np.nan, locate, nulls)
    return out


def _values(data: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the numbers and which of them are null, in the container's own type."""
    column = as_column(data)
    if column is not None:
        return column.read(0, len(data))
    frame = as_frame(data)
    if frame is not None:
        return frame.rows(0, frame.n_rows), None
    array = np.asarray(data) if isinstance(data, numbers.Real) else as_array(data)
    if array is None:
        raise DataError(f"a {words(data)} cannot be read as such")
    if float_type(array.dtype) is None:
        raise DataError(f"values of type {array.dtype} cannot be read as such")
    return array, None


def _checked(values: Floats, n_rows: int, what: str) -> Floats:
    """Return the values in C order, or raise unless there are `n_rows` finite ones."""
    if values.ndim == 0 or len(values) != n_rows:
        given = "one value" if values.ndim == 0 else f"{len(values)} values"
        raise DataError(
            f"{what} has {given} for {n_rows} rows of features; pass one for each row"
        )
    cells = np.isfinite(values)
    bad = ~(cells if cells.ndim == 1 else cells.all(axis=1))
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"{what} is {values[row]} in row {row} (so in {np.count_nonzero(bad)} of "
            f"{n_rows} rows); drop the rows without a finite {what}, or mend them"
        )
    return np.ascontiguousarray(values)
