"""The category names of a model as XGBoost's `CatContainer`.

For each feature the container has either the concatenated UTF-8 bytes of all names and
their offsets, or an array of numbers and the code of its type. It also has the sort
order of the names, which XGBoost uses for look-ups.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.categories import NO_CATEGORIES, Categories
from hornbeam.errors import DataError, ErrorCode, ModelFileError
from hornbeam.forest.json_fields import as_array, as_count, as_integers, as_object
from hornbeam.forest.object_table import ObjectTable
from hornbeam.forest.validation import UnsupportedModelError

__all__ = ["read_categories", "write_categories"]

_EMPTY_INT32 = np.empty(0, np.int32)
# XGBoost's codes of the types of numbers.
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
    """Return the container; it is empty if no feature has named categories."""
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
            # XGBoost compares bytes as signed integers.
            keys = [np.frombuffer(text, np.int8).tolist() for text in texts]
            order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int32)
        else:
            code = _CODES[names.dtype]
            # UBJSON has no uint64; the values are stored with the bits of int64.
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
    """Return the category names in a container.

    Parameters
    ----------
    value
        The untrusted value of a model file.
    where
        Its position in the file, for error messages.
    num_feature, feature_names
        Number and names of the features of the model.

    Raises
    ------
    ModelFileError
        If the container is not valid or does not match the features.
    """
    container = as_object(value, where, [], ["enc", "feature_segments", "sorted_idx"])
    encoded = container.get("enc", [])
    if not isinstance(encoded, list | ObjectTable):
        raise ModelFileError(
            f"{where}.enc is not an array of objects",
            code=ErrorCode.MODEL_FILE_WRONG_TYPE,
        )
    segments = as_integers(
        container.get("feature_segments", []), f"{where}.feature_segments"
    )
    order = as_integers(container.get("sorted_idx", []), f"{where}.sorted_idx")
    if not encoded:
        if any(segments) or order:
            raise ModelFileError(
                f"{where}.enc is empty, but feature_segments or sorted_idx is not",
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
    sizes = [0 if array is None else len(array) for array in names]
    if segments != [0, *np.cumsum(sizes).tolist()]:
        raise ModelFileError(
            f"{where}.feature_segments does not have the offsets of the categories of "
            "each feature",
            code=ErrorCode.MODEL_FILE_INVALID_CATEGORIES,
        )
    if len(order) != segments[-1] or any(
        sorted(order[start:stop]) != list(range(stop - start))
        for start, stop in pairwise(segments)
    ):
        raise ModelFileError(
            f"{where}.sorted_idx is not a permutation of the categories",
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
    encoded = as_object(value, where, ["type", "values"])
    code = as_count(encoded["type"], f"{where}.type")
    if code not in _TYPES:
        raise ModelFileError(
            f"{where}.type is {code}, which is not the code of a number type",
            code=ErrorCode.MODEL_FILE_INVALID_CATEGORIES,
        )
    kind = np.int64 if code == _UINT64 else _TYPES[code]
    numbers = as_array(encoded["values"], kind)
    if numbers is None:
        raise ModelFileError(
            f"{where}.values is not an array of {np.dtype(kind)}",
            code=ErrorCode.MODEL_FILE_WRONG_TYPE,
        )
    return numbers.view(_TYPES[code])


def _read_texts(value: Any, where: str) -> NDArray[Any] | None:
    encoded = as_object(value, where, ["offsets", "values"])
    offsets = as_integers(encoded["offsets"], f"{where}.offsets")
    values = as_array(encoded["values"], np.int8)
    if values is None:
        raise ModelFileError(
            f"{where}.values is not an array of int8",
            code=ErrorCode.MODEL_FILE_WRONG_TYPE,
        )
    if not offsets and values.size == 0:
        return None
    rising = all(a <= b for a, b in pairwise(offsets))
    if not offsets or offsets[0] != 0 or offsets[-1] != values.size or not rising:
        raise ModelFileError(
            f"{where}.offsets does not ascend from 0 to the {values.size} bytes",
            code=ErrorCode.MODEL_FILE_INVALID_CATEGORIES,
        )
    text = values.tobytes()
    names = np.empty(len(offsets) - 1, object)
    try:
        names[:] = [text[start:stop].decode() for start, stop in pairwise(offsets)]
    except UnicodeDecodeError:
        raise UnsupportedModelError(
            f"{where} has names that are not UTF-8: XGBoost truncates the names of "
            "pandas categories that contain non-ASCII characters; rename those "
            "categories, or pass an Arrow table to XGBoost, and train again",
            code=ErrorCode.MODEL_FILE_UNSUPPORTED,
        ) from None
    return names
