"""Small arrays in messages, as a type, a shape and bytes.

A message to a worker has several arrays of few numbers. NumPy's own pickle of one takes
longer than all else in the message: it imports, and describes the fields of records.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cluster import Call
from hornbeam.kernels.layout import SPLIT_DTYPE

__all__ = ["Calls", "PackedArray", "packed", "unpacked"]

#: The number of its type, the shape and the bytes of an array, or the array.
PackedArray = tuple[int, tuple[int, ...], bytes] | NDArray[Any]

#: Larger arrays are sent from where they are.
_MAX_BYTES = 1 << 14
_TYPES = (
    *map(np.dtype, ["<i4", "<i8", "<u4", "<u8", "<f4", "<f8", "u1", "?"]),
    SPLIT_DTYPE,
)
_NUMBERS = {dtype: number for number, dtype in enumerate(_TYPES)}


def packed(array: NDArray[Any]) -> PackedArray:
    """Return what is pickled of an array."""
    kind = _NUMBERS.get(array.dtype)
    if kind is None or array.nbytes > _MAX_BYTES:
        return array
    return kind, array.shape, array.tobytes()


def unpacked(value: PackedArray) -> NDArray[Any]:
    """Return the array of `packed`."""
    if isinstance(value, np.ndarray):
        return value
    kind, shape, content = value
    # Of a copy, since kernels are compiled for memory that can be written to.
    return np.ndarray(shape, _TYPES[kind], bytearray(content))


class Calls(list[Call]):
    """Calls of methods of rows, in order, which are pickled with packed arrays."""

    def __reduce__(self) -> Any:
        return _calls_of, ([_pack(*call) for call in self],)


def _pack(operation: str, args: tuple[Any, ...]) -> tuple[str, list[Any], list[int]]:
    """Return a call, its arguments with packed arrays, and which of them these are."""
    places = [i for i, arg in enumerate(args) if isinstance(arg, np.ndarray)]
    values = list(args)
    for place in places:
        values[place] = packed(values[place])
    return operation, values, places


def _calls_of(packed_calls: list[tuple[str, list[Any], list[int]]]) -> Calls:
    calls = Calls()
    for operation, args, places in packed_calls:
        for place in places:
            args[place] = unpacked(args[place])
        calls.append((operation, tuple(args)))
    return calls
