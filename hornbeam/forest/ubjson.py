"""Universal Binary JSON, draft 12, in the subset that XGBoost reads and writes.

All numbers are big-endian. Keys and strings have an int64 length, arrays of numbers
have one type and a count, and other arrays have a count:

    {  L<length><key> <value> ...  } S  L<length><bytes> [  $<type> #L<count>  <numbers>
    [  #L<count>  <value> ...

The reader also accepts lengths of smaller integer types, and arrays without a count
that end with a bracket.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ModelFileError
from hornbeam.forest.object_table import ObjectTable

__all__ = ["dumps", "loads"]

# A model file has 7 levels.
_MAX_DEPTH = 32

_INTEGERS = {
    b"i": struct.Struct(">b"),
    b"U": struct.Struct(">B"),
    b"I": struct.Struct(">h"),
    b"l": struct.Struct(">i"),
    b"L": struct.Struct(">q"),
}
_NUMBERS = _INTEGERS | {b"d": struct.Struct(">f"), b"D": struct.Struct(">d")}
_CONSTANTS = {b"Z": None, b"T": True, b"F": False}
#: The type of a length as it is written, and the length.
_LENGTH = struct.Struct(">cq")
_COUNT = struct.Struct(">q")
#: The types of numbers by their markers, as they are in memory and in files.
_DTYPES = {
    marker: (np.dtype(own), np.dtype(own).newbyteorder(">"))
    for marker, own in (
        (b"i", np.int8),
        (b"U", np.uint8),
        (b"I", np.int16),
        (b"l", np.int32),
        (b"L", np.int64),
        (b"d", np.float32),
        (b"D", np.float64),
    )
}
#: By type: its marker, how an array of it begins, and its type in files.
_MARKERS = {
    own: (marker, b"[$" + marker + b"#", stored)
    for marker, (own, stored) in _DTYPES.items()
}


def dumps(document: Mapping[str, Any]) -> bytes:
    """Return the UBJSON bytes of `document`, with sorted keys.

    Values may be mappings, lists, tables of objects, strings, booleans, integers, NumPy
    floats and arrays of numbers. Equal documents have equal bytes.
    """
    parts: list[bytes] = []
    _write(document, parts)
    return b"".join(parts)


def _write(value: Any, parts: list[bytes]) -> None:
    if isinstance(value, np.ndarray):
        parts += _arrays(value, [0, value.size])
    elif isinstance(value, str):
        parts.append(b"S" + _text(value))
    elif isinstance(value, bool):
        parts.append(b"T" if value else b"F")
    elif isinstance(value, int):
        parts.append(_integer(value))
    elif isinstance(value, np.floating):
        marker, _, _ = _MARKERS[value.dtype]
        parts.append(marker + _NUMBERS[marker].pack(value))
    elif isinstance(value, list):
        parts.append(b"[#" + _length(len(value)))
        for element in value:
            _write(element, parts)
    elif isinstance(value, ObjectTable):
        parts.append(b"[#" + _length(len(value)))
        parts += value.written(_key, _arrays, _write, b"")
    else:
        parts.append(b"{")
        for key in sorted(value):
            parts.append(_key(key))
            _write(value[key], parts)
        parts.append(b"}")


def _arrays(column: NDArray[Any], bounds: list[int]) -> list[bytes]:
    """Return the bytes of arrays of numbers, the parts of a column."""
    _, begin, stored = _MARKERS[column.dtype]
    width, content = stored.itemsize, column.astype(stored).tobytes()
    return [
        begin + _LENGTH.pack(b"L", stop - start) + content[width * start : width * stop]
        for start, stop in pairwise(bounds)
    ]


def _length(count: int) -> bytes:
    return _LENGTH.pack(b"L", count)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _length(len(encoded)) + encoded


_key = lru_cache(maxsize=256)(_text)


def _integer(value: int) -> bytes:
    for marker in (b"i", b"I", b"l"):
        layout = _INTEGERS[marker]
        bound = 1 << (8 * layout.size - 1)
        if -bound <= value < bound:
            return marker + layout.pack(value)
    return b"L" + _INTEGERS[b"L"].pack(value)


def loads(data: bytes) -> Any:
    """Return the document in the UBJSON bytes `data`; typed arrays become NumPy arrays.

    Lists of objects with the same keys in the same order, and with arrays of the same
    types under them, become tables.

    Allocated memory is bounded by the size of `data`, not by the counts stored in it.

    Raises
    ------
    ModelFileError
        If `data` is not valid UBJSON, repeats a key, or is followed by other bytes.
    """
    reader = _Reader(data)
    document = reader.value(reader.take(1), depth=0)
    if reader.at != len(data):
        raise ModelFileError(
            f"the document ends at byte {reader.at}, "
            f"and {len(data) - reader.at} bytes follow it",
            code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
        )
    return document


#: How a member begins, the bytes of an item (0: it is any value), and what was found.
_Member = tuple[bytes, int, list[Any]]


def _members_like(
    first: Mapping[str, Any], begin: bytes = b""
) -> tuple[list[_Member], bytes]:
    """Return the members of objects like this one, and how these objects end.

    Of arrays and strings the bytes are found, and objects of strings are taken apart.
    """
    members: list[_Member] = []
    begin += b"{"
    for key, value in first.items():
        begin += _text(key)
        if isinstance(value, np.ndarray):
            begin += _MARKERS[value.dtype][1] + b"L"
            members.append((begin, value.itemsize, []))
        elif isinstance(value, str):
            members.append((begin + b"SL", 1, []))
        elif _has_strings(value):
            nested, begin = _members_like(value, begin)
            members += nested
            continue
        else:
            members.append((begin, 0, []))
        begin = b""
    return members, begin + b"}"


def _has_strings(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(v, str) for v in value.values())


def _table_of(
    first: Mapping[str, Any], size: int, parts: Iterator[list[Any]]
) -> ObjectTable:
    """Return the table of objects like the first one, from what was found of each."""
    columns: dict[str, tuple[NDArray[Any], list[int]]] = {}
    values: dict[str, Any] = {}
    for key, value in first.items():
        if _has_strings(value):
            values[key] = _table_of(value, size, parts)
            continue
        found = next(parts)
        if isinstance(value, np.ndarray):
            own, stored = value.dtype, _MARKERS[value.dtype][2]
            bounds = accumulate(
                (len(part) // own.itemsize for part in found), initial=0
            )
            numbers = np.frombuffer(b"".join(found), stored).astype(own)
            columns[key] = numbers, list(bounds)
        elif isinstance(value, str):
            values[key] = [text.decode() for text in found]
        else:
            values[key] = found
    return ObjectTable(size, columns, values)


class _Reader:
    __slots__ = ("at", "data", "tries_table")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        #: Objects that turn out to be no table are read again. So there is no table in
        #: a table: with each level of nested objects the time would double.
        self.tries_table = False

    def error(self, what: str) -> ModelFileError:
        return ModelFileError(
            f"byte {self.at}: {what}", code=ErrorCode.MODEL_FILE_NOT_PARSABLE
        )

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise self.error(
                f"{size} bytes are expected, but only {len(self.data) - self.at} follow"
            )
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def length(self) -> int:
        if self.at + _LENGTH.size <= len(self.data):  # the usual case, in one step
            marker, count = _LENGTH.unpack_from(self.data, self.at)
            if marker == b"L" and count >= 0:
                self.at += _LENGTH.size
                return int(count)
        marker = self.take(1)
        layout = _INTEGERS.get(marker)
        if layout is None:
            raise self.error(f"a length has the invalid type {marker!r}")
        (count,) = layout.unpack(self.take(layout.size))
        if count < 0:
            raise self.error(f"the length {count} is negative")
        return int(count)

    def text(self) -> str:
        encoded = self.take(self.length())
        try:
            return encoded.decode()
        except UnicodeDecodeError:
            raise self.error("the string before it is not UTF-8") from None

    def value(self, marker: bytes, depth: int) -> Any:
        if marker == b"S":
            return self.text()
        if marker == b"[":
            return self.array(depth + 1)
        if marker == b"{":
            return self.object(depth + 1)
        layout = _NUMBERS.get(marker)
        if layout is not None:
            return layout.unpack(self.take(layout.size))[0]
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        raise self.error(f"{marker!r} is not a valid type marker")

    def object(self, depth: int) -> dict[str, Any]:
        self.descend(depth)
        members: dict[str, Any] = {}
        while self.data[self.at : self.at + 1] != b"}":
            key = self.text()
            if key in members:
                raise self.error(f"the key {key!r:.60} is repeated")
            members[key] = self.value(self.take(1), depth)
        self.at += 1
        return members

    def array(self, depth: int) -> list[Any] | ObjectTable | NDArray[Any]:
        self.descend(depth)
        marker = self.take(1)
        if marker == b"$":
            return self.numbers()
        if marker == b"#":
            count = self.length()
            if count > len(self.data) - self.at:
                raise self.error(
                    f"{count} values are expected, but the file is too short"
                )
            begin = self.at
            is_object = self.data.startswith(b"{", begin)
            if count > 1 and is_object and not self.tries_table:
                self.tries_table = True
                table = self.table(count, depth)
                self.tries_table = False
                if table is not None:
                    return table
                self.at = begin
            return [self.value(self.take(1), depth) for _ in range(count)]
        values = []
        while marker != b"]":
            values.append(self.value(marker, depth))
            marker = self.take(1)
        return values

    def table(self, count: int, depth: int) -> ObjectTable | None:
        """Return so many objects with arrays; None unless all are like the first."""
        data, at = self.data, self.at
        first = self.value(self.take(1), depth)
        if not any(isinstance(value, np.ndarray) for value in first.values()):
            return None
        members, end = _members_like(first)
        for _ in range(count):
            for begin, width, found in members:
                if not data.startswith(begin, at):
                    return None
                at += len(begin)
                if width == 0:
                    self.at = at
                    found.append(self.value(self.take(1), depth + 1))
                    at = self.at
                    continue
                start = at + _COUNT.size
                if start > len(data):
                    return None
                at = start + width * _COUNT.unpack_from(data, at)[0]
                if not start <= at <= len(data):
                    return None
                found.append(data[start:at])
            if not data.startswith(end, at):
                return None
            at += len(end)
        self.at = at
        parts = iter([found for _, _, found in members])
        try:
            return _table_of(first, count, parts)
        except UnicodeDecodeError:
            return None

    def numbers(self) -> NDArray[Any]:
        marker = self.take(1)
        types = _DTYPES.get(marker)
        if types is None:
            raise self.error(f"an array of numbers has the invalid type {marker!r}")
        if self.take(1) != b"#":
            raise self.error("an array of numbers has no count")
        own, stored = types
        numbers = self.take(self.length() * own.itemsize)
        return np.frombuffer(numbers, stored).astype(own)

    def descend(self, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise self.error(f"values are nested in more than {_MAX_DEPTH} levels")
