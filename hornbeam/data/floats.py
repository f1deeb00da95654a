"""Exact conversion of stored numbers to float32 or float64.

A column is read as float32 if that holds every value of its dtype, else as float64. A
64-bit integer that float64 cannot hold raises an error.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from hornbeam.errors import DataError, ErrorCode

__all__ = [
    "EXACT",
    "NOT_NUMBERS",
    "Locate",
    "as_floats",
    "beyond_exact",
    "check_finite",
    "check_missing",
    "common_float",
    "feature_type",
    "float_type",
    "is_masked",
    "is_plain",
    "nearest",
    "shared",
    "write_floats",
]

# float64 holds every integer up to this one.
EXACT = 2**53
# Values checked in one step: few, so that temporaries stay in the cache.
STEP = 1 << 16
NOT_NUMBERS = (
    "only integers, booleans and floats of up to 64 bits are; put text and categories "
    "into a data frame, and make numbers of dates, such as days, or leave them out"
)

_NARROW: np.dtype[Any] = np.dtype(np.float32)
_WIDE: np.dtype[Any] = np.dtype(np.float64)

Locate = Callable[[tuple[int, ...]], str]


def is_masked(values: Any) -> TypeGuard[np.ma.MaskedArray[Any, Any]]:
    """Return whether values are a masked array of NumPy.

    A process without any starts without the module, which `np.ma` would import.
    """
    return "numpy.ma" in sys.modules and isinstance(values, np.ma.MaskedArray)


def float_type(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return float32 or float64, whichever holds every value of `dtype`.

    None if `dtype` is not numeric. float64 for 64-bit integers; `write_floats` checks
    their values.
    """
    kind, size = dtype.kind, dtype.itemsize
    if kind == "f" and size <= 8:
        return _NARROW if size <= 4 else _WIDE
    if kind in "iu":
        return _NARROW if size <= 2 else _WIDE
    return _NARROW if kind == "b" else None


def common_float(dtypes: list[np.dtype[Any]]) -> np.dtype[Any]:
    """Return float32 if that holds every value of all dtypes, else float64."""
    return _WIDE if _WIDE in map(float_type, dtypes) else _NARROW


def feature_type(dtype: np.dtype[Any]) -> str:
    """Return XGBoost's feature type of a dtype."""
    return {"b": "i", "i": "int", "u": "int", "f": "float"}[dtype.kind]


def check_missing(missing: Any) -> float:
    """Return the value that stands for missing, NaN by default."""
    if missing is None:
        return math.nan
    if type(missing) is float:
        return missing
    if isinstance(missing, (bool, str, bytes)) or not np.isscalar(missing):
        raise DataError(
            f"missing must be one number, not {missing!r}; "
            "pass NaN (the default) or the number that stands for missing",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    if isinstance(missing, (complex, np.complexfloating)):
        raise DataError(
            f"missing must be a real number, not {missing!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
    # Integers stay integers: float would round a marker such as 2**63 - 1.
    whole = isinstance(missing, (int, np.integer))
    return int(missing) if whole else float(missing)


def _marker(dtype: np.dtype[Any], missing: float) -> Any:
    """Return the value of `dtype` that stands for missing; None if there is none."""
    if missing != missing:
        return None
    if dtype.kind == "f":
        # A float32 column holds float32(0.1) for 0.1.
        with np.errstate(over="ignore"):
            held = dtype.type(missing)
        return None if math.isinf(held) and not math.isinf(missing) else held
    if math.isinf(missing) or missing != int(missing):
        return None
    if dtype.kind == "b":
        return bool(missing) if missing in (0, 1) else None
    limits = np.iinfo(dtype)
    return int(missing) if limits.min <= missing <= limits.max else None


def write_floats(
    values: np.ndarray,
    out: np.ndarray,
    missing: float,
    locate: Locate,
    nulls: np.ndarray | None = None,
) -> None:
    """Write the values into `out` as floats, with NaN for missing values.

    `locate` takes an index of `values` and returns its name in error messages. `nulls`
    marks values that are missing in addition to those equal to `missing`. The arrays
    can have any number of axes.
    """
    # With casting="safe", NumPy raises an error if the conversion may be inexact.
    np.copyto(out, values, casting="safe")
    absent = nulls
    marker = _marker(values.dtype, missing)
    if marker is not None:
        equal = values == marker
        absent = equal if nulls is None else nulls | equal
    wide = values.dtype.kind in "iu" and values.dtype.itemsize == 8
    # Rounding never leads below 2**53. Check the floats, because they are contiguous
    # and the integers may not be.
    if wide and values.size and max(out.max(), -out.min()) >= EXACT:
        _check_exact(values, absent, locate)
    if absent is not None:
        out[absent] = np.nan


def _check_exact(values: np.ndarray, absent: np.ndarray | None, locate: Locate) -> None:
    beyond = values > EXACT
    if values.dtype.kind == "i":
        beyond |= values < -EXACT
    if absent is not None:
        beyond &= ~absent
    if beyond.any():
        index = _first(beyond)
        raise DataError(
            beyond_exact(values[index], locate(index)), code=ErrorCode.INTEGER_NOT_EXACT
        )


def beyond_exact(value: Any, where: str) -> str:
    """Return the error message for an integer that float64 may not hold."""
    return (
        f"the integer {value} in {where} is beyond 2**53, where floats no longer hold "
        "every integer; subtract an offset, split it into two columns, or cast it to "
        "float64 if rounding does no harm"
    )


def _first(flags: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(flags.argmax()), flags.shape))


def as_floats(
    values: np.ndarray,
    missing: float,
    locate: Locate,
    nulls: np.ndarray | None = None,
) -> np.ndarray:
    """Return the values as contiguous floats, without a copy if they are already.

    The dtype of `values` must be numeric (see `float_type`).
    """
    if nulls is None and is_plain(values) and _marker(values.dtype, missing) is None:
        return shared(values)
    out = np.empty(values.shape, float_type(values.dtype))
    write_floats(values, out, missing, locate, nulls)
    return out


def is_plain(values: np.ndarray) -> bool:
    """Return whether an array is of native floats, C-contiguous and aligned."""
    return (
        values.dtype in (_NARROW, _WIDE)
        and values.flags.c_contiguous
        and values.flags.aligned
    )


class _Memory:
    """The array interface of an array, without the read-only mark."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array  # keeps the memory alive
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


def shared(array: np.ndarray) -> np.ndarray:
    """Return a view without the read-only mark. Do not write to it.

    Data frames return read-only arrays, for which Numba would compile each kernel a
    second time.
    """
    return array if array.flags.writeable else np.asarray(_Memory(array))


def check_finite(column: np.ndarray, label: str, first_row: int = 0) -> None:
    """Raise a `DataError` for the first infinite value of a column, if any."""
    for start in range(0, len(column), STEP):
        infinite = np.isinf(column[start : start + STEP])
        if infinite.any():
            row = start + int(infinite.argmax())
            raise DataError(
                f"{label} holds {column[row]} in row {first_row + row}; replace "
                "infinite values by a number or NaN, or pass missing=inf where inf "
                "stands for missing",
                code=ErrorCode.FEATURE_NOT_FINITE,
            )


def nearest(values: np.ndarray, dtype: npt.DTypeLike) -> np.ndarray:
    """Return `values` in `dtype`, rounded to the nearest finite number.

    A threshold of float64 data then splits the float32 copy of the data as it splits
    the data, except for values that become equal.
    """
    limits = np.finfo(dtype)
    return values.clip(limits.min, limits.max).astype(dtype)
