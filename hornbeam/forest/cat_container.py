"""The names of categories as XGBoost's model files spell them (its container).

For each feature either the UTF-8 bytes of all names, end to end, and where each
begins, or numbers and the code of their type; and the order of the names, by which
XGBoost looks them up.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.categories import NO_CATEGORIES, Categories
from hornbeam.errors import DataError, ErrorCode, ModelFileError
from hornbeam.forest.json_fields import array_of, count_in, integers_of, object_of
from hornbeam.forest.validation import UnsupportedModelError

__all__ = ["read_categories", "write_categories"]

_EMPTY_INT32 = np.empty(0, np.int32)
# XGBoost's numbers of the types of values.
_TYPES: dict[int, type[np.number[Any]]] = {
    7: np.float32,
    8: np.float64,
    9: np.int8,
    10: np.uint8,
    11: np.int16,
    12: np.uint16,
    13: np.int32,
    14: np.uint32,
    15: np.int64,
    16: np.uint64,
}
_UINT64 = 16
_CODES = {np.dtype(kind): code for code, kind in _TYPES.items()}


def write_categories(categories: Categories) -> dict[str, Any]:
    """Return the container, empty where no category has a name."""
    encoded, segments, orders = [], [0], [_EMPTY_INT32]
    for names in categories.names:
        if names is None:
            encoded.append({"offsets": _EMPTY_INT32, "values": np.empty(0, np.int8)})
            order = _EMPTY_INT32
        elif names.dtype == object:
            texts = [name.encode() for name in names]
            ends = np.cumsum([0, *map(len, texts)]).astype(np.int32)
            values = np.frombuffer(b"".join(texts), np.int8)
            encoded.append({"offsets": ends, "values": values})
            # XGBoost compares the bytes as signed numbers.
            keys = [np.frombuffer(text, np.int8).tolist() for text in texts]
            order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int32)
        else:
            code = _CODES[names.dtype]
            # UBJSON has no uint64, so these are written as if they were signed.
            values = names.view(np.int64) if code == _UINT64 else names
            encoded.append({"type": code, "values": values})
            order = np.argsort(names, kind="stable").astype(np.int32)
        orders.append(order)
        segments.append(segments[-1] + order.size)
    return {
        "enc": encoded,
        "feature_segments": np.array(segments if encoded else [], np.int32),
        "sorted_idx": np.concatenate(orders),
    }


def read_categories(
    value: Any, where: str, num_feature: int, feature_names: list[str]
) -> Categories:
    """Return the names of categories that the container `value` holds."""
    container = object_of(value, where, [], ["enc", "feature_segments", "sorted_idx"])
    encoded = container.get("enc", [])
    if not isinstance(encoded, list):
        raise ModelFileError(
            f"{where}.enc is not an array of objects",
            code=ErrorCode.MODEL_FILE_WRONG_TYPE,
        )
    segments = integers_of(
        container.get("feature_segments", []), f"{where}.feature_segments"
    )
    order = integers_of(container.get("sorted_idx", []), f"{where}.sorted_idx")
    if not encoded:
        if any(segments) or order:
            raise ModelFileError(
                f"{where}.enc is empty, and its order is not",
                code=ErrorCode.MODEL_FILE_INVALID_CATEGORIES,
            )
        return NO_CATEGORIES
    if len(encoded) != num_feature:
        raise ModelFileError(
            f"{where}.enc has {len(encoded)} entries for {num_feature} features",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    names = [
        _read_names(names, f"{where}.enc[{feature}]")
        for feature, names in enumerate(encoded)
    ]
    sizes = [0 if own is None else len(own) for own in names]
    if segments != [0, *np.cumsum(sizes).tolist()]:
        raise ModelFileError(
            f"{where}.feature_segments does not say where the categories of each "
            "feature begin",
            code=ErrorCode.MODEL_FILE_INVALID_CATEGORIES,
        )
    if len(order) != segments[-1] or any(
        sorted(order[start:stop]) != list(range(stop - start))
        for start, stop in pairwise(segments)
    ):
        raise ModelFileError(
            f"{where}.sorted_idx is no order of the categories",
            code=ErrorCode.MODEL_FILE_INVALID_CATEGORIES,
        )
    try:
        return Categories(names, feature_names or None)
    except DataError as error:
        raise ModelFileError(
            f"{where}: {error}", code=ErrorCode.MODEL_FILE_INVALID_CATEGORIES
        ) from None


def _read_names(value: Any, where: str) -> NDArray[Any] | None:
    if not isinstance(value, dict) or "type" not in value:
        return _read_texts(value, where)
    encoded = object_of(value, where, ["type", "values"])
    code = count_in(encoded["type"], f"{where}.type")
    if code not in _TYPES:
        raise ModelFileError(
            f"{where}.type is {code}, which is no type of numbers",
            code=ErrorCode.MODEL_FILE_INVALID_CATEGORIES,
        )
    kind = np.int64 if code == _UINT64 else _TYPES[code]
    numbers = array_of(encoded["values"], kind)
    if numbers is None:
        raise ModelFileError(
            f"{where}.values is not an array of {np.dtype(kind)}",
            code=ErrorCode.MODEL_FILE_WRONG_TYPE,
        )
    return numbers.view(_TYPES[code])


def _read_texts(value: Any, where: str) -> NDArray[Any] | None:
    encoded = object_of(value, where, ["offsets", "values"])
    offsets = integers_of(encoded["offsets"], f"{where}.offsets")
    values = array_of(encoded["values"], np.int8)
    if values is None:
        raise ModelFileError(
            f"{where}.values is not an array of signed bytes",
            code=ErrorCode.MODEL_FILE_WRONG_TYPE,
        )
    if not offsets and values.size == 0:
        return None
    rising = all(a <= b for a, b in pairwise(offsets))
    if not offsets or offsets[0] != 0 or offsets[-1] != values.size or not rising:
        raise ModelFileError(
            f"{where}.offsets does not rise from 0 to the {values.size} bytes",
            code=ErrorCode.MODEL_FILE_INVALID_CATEGORIES,
        )
    text = values.tobytes()
    names = np.empty(len(offsets) - 1, object)
    try:
        names[:] = [text[start:stop].decode() for start, stop in pairwise(offsets)]
    except UnicodeDecodeError:
        raise UnsupportedModelError(
            f"{where} has names that are not UTF-8: XGBoost cuts names of pandas "
            "categories short where they have letters beyond ASCII; rename those "
            "categories, or hand XGBoost an Arrow table, and train again",
            code=ErrorCode.MODEL_FILE_UNSUPPORTED,
        ) from None
    return names
