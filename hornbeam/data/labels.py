"""Reads labels, weights and other fields of rows, and checks ranking labels."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.data.containers.dispatch import as_column, as_frame, words
from hornbeam.data.containers.from_numpy import as_array
from hornbeam.data.floats import float_type, is_masked, write_floats
from hornbeam.errors import DataError, ErrorCode

__all__ = [
    "FIELDS",
    "Field",
    "as_base_margin",
    "check_gains",
    "check_grades",
    "check_relevant",
    "gains_of",
    "read_field",
    "read_numbers",
    "read_whole",
    "size_mismatch",
]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Field:
    """A numeric field of rows or columns.

    Attributes
    ----------
    name
        XGBoost's name of the field.
    each
        Whether each "row" or each "column" has a value.
    wide
        The second axis, such as "target"; empty: values are 1-d.
    negative
        Whether values can be negative.
    infinite
        The infinity that is a valid value; 0: none.
    idle
        Advice in the error message if all values are 0; empty: they can be.
    advice
        Advice in the error message for values that are not numeric.
    """

    name: str
    each: str = "row"
    wide: str = ""
    negative: bool = True
    infinite: float = 0.0
    idle: str = ""
    advice: str = ""


FIELDS = {
    field.name: field
    for field in (
        Field(
            "label",
            wide="target",
            advice="; encode classes as 0, 1, 2, ... or use HornbeamClassifier, which "
            "takes labels of any kind",
        ),
        Field("weight", negative=False, idle="at least one row must count"),
        Field("base_margin", wide="output"),
        Field("label_lower_bound", infinite=-np.inf),
        Field("label_upper_bound", infinite=np.inf),
        Field(
            "feature_weights",
            each="column",
            negative=False,
            idle="at least one column must be there to be drawn",
        ),
    )
}


#: Advice in the error message for groups that are not numeric.
WHOLE = {
    "qid": "; number the groups, such as 0, 1, 2, ...",
    "row_key": "; pass whole numbers or text, none of them missing",
}


def as_base_margin(data: Any, n_rows: int) -> Floats:
    """Return a copy of the margins, float64 of shape (n_rows,) or (n_rows, outputs)."""
    return read_field(FIELDS["base_margin"], data, n_rows)


def read_field(
    field: Field,
    data: Any,
    count: int,
    groups: int | None = None,
    *,
    whole: bool = True,
) -> Floats:
    """Return a checked copy of a field's values, float64 and C-contiguous.

    Parameters
    ----------
    field
        The field.
    data
        Array, list, Series, Arrow array, or data frame of one column (or several, if
        the field is 2-d).
    count
        Number of rows or columns.
    groups
        Number of groups, if the field can have one value per group; else None.
    whole
        Whether these are all rows. If not, all values can be 0.
    """
    values = read_numbers(data, field)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim > (2 if field.wide else 1):
        more = f", or one for each {field.each} and {field.wide}" if field.wide else ""
        raise DataError(
            f"{field.name} has shape {values.shape}; pass one number for each "
            f"{field.each}{more}",
            code=ErrorCode.META_INFO_SIZE_MISMATCH,
        )
    if values.ndim == 0 or len(values) not in (count, groups):
        _raise_length(field, values, count, groups)
    each = field.each if len(values) == count else "group"
    _check_domain(field, values, each)
    if whole and field.idle and values.size and not values.any():
        raise DataError(
            f"every {field.name} is zero; {field.idle}", code=ErrorCode.WEIGHTS_ALL_ZERO
        )
    return values


def size_mismatch(name: str) -> ErrorCode:
    """Return the error code for a field with a wrong number of values."""
    return _SIZE_MISMATCH.get(name, ErrorCode.META_INFO_SIZE_MISMATCH)


_SIZE_MISMATCH = {
    "label": ErrorCode.LABEL_SIZE_MISMATCH,
    "weight": ErrorCode.WEIGHT_SIZE_MISMATCH,
    "base_margin": ErrorCode.BASE_MARGIN_SIZE_MISMATCH,
}


def _raise_length(field: Field, values: Floats, count: int, groups: int | None) -> None:
    given = "one value" if values.ndim == 0 else f"{len(values)} values"
    if field.each == "column":
        raise DataError(
            f"{field.name} has {given} for {count} columns; pass one for each column",
            code=ErrorCode.META_INFO_SIZE_MISMATCH,
        )
    if groups is None:
        more = f", or a row of one for each {field.wide}" if field.wide else ""
        if field.name == "weight":
            more = " (one for each group of rows needs group or qid first)"
        raise DataError(
            f"{field.name} has {given} for {count} rows of features; "
            f"pass one for each row{more}",
            code=size_mismatch(field.name),
        )
    raise DataError(
        f"{field.name} has {given} for {count} rows of features in {groups} groups; "
        "pass one for each row, or one for each group",
        code=size_mismatch(field.name),
    )


def _check_domain(field: Field, values: Floats, each: str) -> None:
    good = np.isfinite(values)
    if field.infinite:
        good |= values == field.infinite
    bad = ~(good if good.ndim == 1 else good.all(axis=1))
    if bad.any():
        i = int(bad.argmax())
        finite = "finite " if not field.infinite else ""
        advice = (
            f"drop the rows without a {finite}{field.name}, or correct them"
            if each == "row"
            else f"give each {each} a {finite}number"
        )
        raise DataError(
            f"{field.name} is {values[i]} in {each} {i} (so in {np.count_nonzero(bad)} "
            f"of {len(values)} {each}s); {advice}",
            code=ErrorCode.LABEL_NOT_FINITE
            if field.name == "label"
            else ErrorCode.META_INFO_NOT_FINITE,
        )
    if not field.negative and (values < 0).any():
        i = int((values < 0).argmax())
        raise DataError(
            f"{field.name} is {values[i]} in {each} {i}; weights must not be negative",
            code=ErrorCode.WEIGHT_NEGATIVE,
        )


def read_whole(data: Any, what: str) -> npt.NDArray[Any]:
    """Return integers, 1-d, in an integer dtype that holds all of them."""
    array, nulls = _values_or_error(data, what, WHOLE.get(what, ""))
    if array.ndim == 2 and array.shape[1] == 1:
        array, nulls = array[:, 0], None if nulls is None else nulls[:, 0]
    if array.ndim != 1:
        raise DataError(
            f"{what} has shape {array.shape}; pass whole numbers in a row",
            code=ErrorCode.META_INFO_SIZE_MISMATCH,
        )
    if nulls is not None and nulls.any():
        raise DataError(
            f"{what} is missing at position {int(nulls.argmax())}",
            code=ErrorCode.META_INFO_NOT_FINITE,
        )
    if array.dtype.kind == "u":
        return array.astype(np.uint64)
    if array.dtype.kind in "ib" or not array.size:
        return array.astype(np.int64)
    whole = array == np.floor(array)
    whole &= np.abs(array) < 2.0**53
    if not whole.all():
        i = int((~whole).argmax())
        raise DataError(
            f"{what} is {array[i]} at position {i}; {what} must be whole numbers",
            code=ErrorCode.META_INFO_NOT_NUMERIC,
        )
    return array.astype(np.int64)


def read_numbers(data: Any, field: Field) -> Floats:
    """Return the numbers of a container as a new float64 array, with NaN for null."""
    array, nulls = _values_or_error(data, field.name, field.advice)

    def locate(index: tuple[int, ...]) -> str:
        return f"{field.each} {index[0]} of {field.name}"

    out = np.empty(array.shape)
    write_floats(array, out, np.nan, locate, nulls)
    return out


def _values_or_error(
    data: Any, what: str, advice: str
) -> tuple[np.ndarray, np.ndarray | None]:
    try:
        return _values(data)
    except DataError as error:
        raise DataError(
            f"{what} must be numbers: {error}{advice}", code=error.code, **error.details
        ) from None


def _values(data: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the numbers, in the dtype of the container, and which of them are null."""
    column = as_column(data)
    if column is not None:
        return column.read(0, len(data))
    frame = as_frame(data)
    if frame is not None:
        return frame.rows(0, frame.n_rows), None
    array = np.asarray(data) if isinstance(data, numbers.Real) else as_array(data)
    if array is None:
        raise DataError(
            f"a {words(data)} cannot be read as such",
            code=ErrorCode.META_INFO_NOT_NUMERIC,
        )
    if float_type(array.dtype) is None:
        raise DataError(
            f"values of type {array.dtype} cannot be read as such",
            code=ErrorCode.META_INFO_NOT_NUMERIC,
        )
    if is_masked(array):
        return array.data, np.ma.getmaskarray(array)
    return array, None


_HIGHEST_GRADE = 31


def gains_of(grades: Floats) -> Floats:
    """Return the gain of each grade, 2**grade - 1."""
    return np.ldexp(1.0, grades.astype(np.int64)) - 1.0


def check_grades(what: str, labels: Floats) -> None:
    """Raise a `DataError` unless all labels are relevance grades."""
    fine = (labels >= 0) & (labels <= _HIGHEST_GRADE) & (labels == np.floor(labels))
    _raise_unless(
        fine,
        labels,
        f"{what} needs whole grades from 0 to {_HIGHEST_GRADE}, whose gain is "
        "2**grade - 1; for labels that are gains themselves set ndcg_exp_gain=False",
        ErrorCode.LABEL_NOT_GRADE,
    )


def check_gains(what: str, labels: Floats) -> None:
    """Raise a `DataError` unless all labels are valid gains."""
    _raise_unless(
        labels >= 0,
        labels,
        f"{what} needs gains of 0 or more",
        ErrorCode.LABEL_OUT_OF_DOMAIN,
    )


def check_relevant(what: str, labels: Floats) -> None:
    """Raise a `DataError` unless all labels are 0 or 1."""
    _raise_unless(
        (labels == 0) | (labels == 1),
        labels,
        f"{what} needs labels of 1 for relevant rows and 0 for others; use ndcg for "
        "grades",
        ErrorCode.LABEL_NOT_RELEVANCE,
    )


def _raise_unless(
    fine: npt.NDArray[np.bool_], labels: Floats, message: str, code: ErrorCode
) -> None:
    if not fine.all():
        row = int(np.argmin(fine))
        raise DataError(
            f"label {labels.flat[row]:g} in row {row}: {message}", code=code
        )
