"""Values of a document that nobody has checked yet, each asked for by its kind."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ModelFileError

__all__ = [
    "array_of",
    "count_in",
    "count_of",
    "integers_of",
    "object_of",
    "text_of",
    "texts_by_name",
    "texts_of",
]

_MAX_COUNT = 2**31 - 1


def object_of(
    value: Any, where: str, required: Collection[str], optional: Collection[str] = ()
) -> dict[str, Any]:
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


def text_of(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise ModelFileError(
            f"{where} is not text", code=ErrorCode.MODEL_FILE_WRONG_TYPE
        )
    return value


def texts_of(value: Any, where: str) -> list[str]:
    if not isinstance(value, list):
        raise ModelFileError(
            f"{where} is not an array of texts", code=ErrorCode.MODEL_FILE_WRONG_TYPE
        )
    return [text_of(text, f"{where}[{number}]") for number, text in enumerate(value)]


def texts_by_name(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ModelFileError(
            f"{where} is not an object", code=ErrorCode.MODEL_FILE_WRONG_TYPE
        )
    return {
        text_of(name, where): text_of(text, f"{where}[{name!r:.60}]")
        for name, text in value.items()
    }


def integers_of(value: Any, where: str) -> list[int]:
    numbers = array_of(value, np.int32)
    if numbers is None:
        raise ModelFileError(
            f"{where} is not an array of integers", code=ErrorCode.MODEL_FILE_WRONG_TYPE
        )
    integers: list[int] = numbers.tolist()
    return integers


def count_in(value: Any, where: str) -> int:
    """Return an integer that is written as one."""
    if type(value) is not int or not 0 <= value <= _MAX_COUNT:
        raise ModelFileError(
            f"{where} is {value!r:.40}, not a whole number",
            code=ErrorCode.MODEL_FILE_WRONG_TYPE,
        )
    return value


def count_of(
    param: dict[str, Any], key: str, where: str, low: int = 0, high: int = _MAX_COUNT
) -> int:
    """Return an integer that is written as text, as XGBoost writes parameters."""
    text = text_of(param[key], f"{where}.{key}")
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise ModelFileError(
            f"{where}.{key} is {text!r:.40}, not a whole number",
            code=ErrorCode.MODEL_FILE_WRONG_TYPE,
        )
    if not low <= int(text) <= high:
        raise ModelFileError(
            f"{where}.{key} is {text}, not from {low} to {high}",
            code=ErrorCode.MODEL_FILE_INVALID_NUMBER,
        )
    return int(text)


def array_of(value: Any, dtype: type[np.number]) -> NDArray[Any] | None:
    """Return the numbers of an array that hold in `dtype`, or None if some do not."""
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
