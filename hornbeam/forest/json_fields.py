"""Typed access to the values of an untrusted JSON document.

Each function returns the value as a type, or raises a `ModelFileError` that names the
position `where` in the document.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ModelFileError

__all__ = [
    "as_array",
    "as_count",
    "as_integers",
    "as_object",
    "as_string",
    "as_string_map",
    "as_strings",
    "count_param",
]

_MAX_COUNT = 2**31 - 1


def as_object(
    value: Any, where: str, required: Collection[str], optional: Collection[str] = ()
) -> dict[str, Any]:
    """Return an object that has all required keys and no other than the optional."""
    if not isinstance(value, dict):
        raise ModelFileError(
            f"{where} is not an object", code=ErrorCode.MODEL_FILE_WRONG_TYPE
        )
    for key in required:
        if key not in value:
            raise ModelFileError(
                f"{where} has no key {key!r}", code=ErrorCode.MODEL_FILE_MISSING_KEY
            )
    if len(value) > len(required):
        for key in value:
            if key not in required and key not in optional:
                raise ModelFileError(
                    f"{where} has the unknown key {key!r:.60}",
                    code=ErrorCode.MODEL_FILE_UNKNOWN_KEY,
                )
    return value


def as_string(value: Any, where: str) -> str:
    """Return a string."""
    if not isinstance(value, str):
        raise ModelFileError(
            f"{where} is not a string", code=ErrorCode.MODEL_FILE_WRONG_TYPE
        )
    return value


def as_strings(value: Any, where: str) -> list[str]:
    """Return an array of strings."""
    if not isinstance(value, list):
        raise ModelFileError(
            f"{where} is not an array of strings", code=ErrorCode.MODEL_FILE_WRONG_TYPE
        )
    return [as_string(text, f"{where}[{number}]") for number, text in enumerate(value)]


def as_string_map(value: Any, where: str) -> dict[str, str]:
    """Return an object whose values are strings."""
    if not isinstance(value, dict):
        raise ModelFileError(
            f"{where} is not an object", code=ErrorCode.MODEL_FILE_WRONG_TYPE
        )
    return {
        as_string(name, where): as_string(text, f"{where}[{name!r:.60}]")
        for name, text in value.items()
    }


def as_integers(value: Any, where: str) -> list[int]:
    """Return an array of int32 as a list."""
    numbers = as_array(value, np.int32)
    if numbers is None:
        raise ModelFileError(
            f"{where} is not an array of integers", code=ErrorCode.MODEL_FILE_WRONG_TYPE
        )
    integers: list[int] = numbers.tolist()
    return integers


def as_count(value: Any, where: str) -> int:
    """Return a number from 0 to 2^31 - 1 that the document stores as an integer."""
    if type(value) is not int or not 0 <= value <= _MAX_COUNT:
        raise ModelFileError(
            f"{where} is {value!r:.40}, not a non-negative integer",
            code=ErrorCode.MODEL_FILE_WRONG_TYPE,
        )
    return value


def count_param(
    param: dict[str, Any], key: str, where: str, low: int = 0, high: int = _MAX_COUNT
) -> int:
    """Return an integer that is stored as a string, as XGBoost stores parameters."""
    text = as_string(param[key], f"{where}.{key}")
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise ModelFileError(
            f"{where}.{key} is {text!r:.40}, not a non-negative integer",
            code=ErrorCode.MODEL_FILE_WRONG_TYPE,
        )
    if not low <= int(text) <= high:
        raise ModelFileError(
            f"{where}.{key} is {text}, not from {low} to {high}",
            code=ErrorCode.MODEL_FILE_INVALID_NUMBER,
        )
    return int(text)


def as_array(value: Any, dtype: type[np.number]) -> NDArray[Any] | None:
    """Return an array of numbers as `dtype`; None if `dtype` cannot represent one."""
    kinds = "f" if np.dtype(dtype).kind == "f" else "iu"
    if isinstance(value, list):
        # XGBoost before 1.6 wrote booleans for default_left.
        integers = {int, bool} if dtype is np.uint8 else {int}
        if not set(map(type, value)) <= ({float} if kinds == "f" else integers):
            return None
        try:
            value = np.array(value, np.float64 if kinds == "f" else np.int64)
        except OverflowError:
            return None
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
        return None
    if value.dtype == dtype:
        return value
    with np.errstate(over="ignore"):
        numbers = value.astype(dtype)
    return numbers if kinds == "f" or np.array_equal(numbers, value) else None
