"""JSON in the subset that XGBoost's strictly typed parser accepts.

That parser distinguishes 1 from 1.0 and supports few escapes: it does not interpret
``\\u`` and rejects ``\\b``, ``\\f`` and ``\\/``. Strings are therefore written as
UTF-8, and only the characters that JSON requires are escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ModelFileError
from hornbeam.forest.object_table import ObjectTable
from hornbeam.kernels.number_text import (
    HALF_GAPS,
    LONGEST,
    POWERS,
    read_numbers,
    write_floats,
    write_integers,
)

__all__ = ["dumps", "loads"]

_ESCAPES = {code: f"\\u{code:04x}" for code in range(32)}
_ESCAPES |= {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    ord('"'): '\\"',
    ord("\\"): "\\\\",
}


def dumps(document: Mapping[str, Any]) -> bytes:
    """Return the JSON bytes of `document`, with sorted keys and no spaces.

    Values may be mappings, lists, tables of objects, strings, booleans, integers, NumPy
    floats and arrays of numbers. Each number has the fewest digits that identify it in
    its type; digits half way between two float32 identify none of them.
    """
    parts: list[bytes] = []
    _write(document, parts)
    return b"".join(parts)


def _write(value: Any, parts: list[bytes]) -> None:
    if isinstance(value, np.ndarray):
        parts += _arrays(value.ravel(), [0, value.size])
    elif isinstance(value, str):
        parts.append(_text(value))
    elif isinstance(value, bool):
        parts.append(b"true" if value else b"false")
    elif isinstance(value, int | np.floating):
        parts.append(str(value).encode())
    elif isinstance(value, list):
        separator = b"["
        for element in value:
            parts.append(separator)
            _write(element, parts)
            separator = b","
        parts.append(b"]" if value else b"[]")
    elif isinstance(value, ObjectTable):
        objects = value.written(_head, _arrays, _write, b",")
        parts += b"[", b",".join(objects), b"]"
    else:
        separator = b"{"
        for key in sorted(value):
            parts += separator, _head(key)
            _write(value[key], parts)
            separator = b","
        parts.append(b"}" if value else b"{}")


def _arrays(column: NDArray[Any], bounds: list[int]) -> list[bytes]:
    """Return the texts of arrays of numbers, the parts of a column."""
    if column.dtype == np.float64:
        numbers = list(map(repr, column.tolist()))
        parts = [",".join(numbers[i:j]) for i, j in pairwise(bounds)]
        return [b"[%s]" % part.encode() for part in parts]
    text = np.empty(LONGEST * column.size, np.uint8)
    if column.dtype == np.float32:
        size = write_floats(np.array(column), POWERS, HALF_GAPS, text)
        if size < 0:
            raise ModelFileError(
                f"{column[~np.isfinite(column)][0]} is not a valid number in a model",
                code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
            )
    else:
        size = write_integers(column.astype(np.int64), text)
    # Each number is behind a comma.
    starts = np.append(np.flatnonzero(text[:size] == ord(",")), size)[bounds].tolist()
    written = text[:size].tobytes()
    return [b"[%s]" % written[i + 1 : j] for i, j in pairwise(starts)]


def _text(text: str) -> bytes:
    return f'"{text.translate(_ESCAPES)}"'.encode()


@lru_cache(maxsize=256)
def _head(key: str) -> bytes:
    return _text(key) + b":"


#: An array of numbers, without spaces, behind a key. The quotation mark ends the key:
#: one that begins a string cannot follow a letter, nor can one that is in a string.
_ARRAY = re.compile(rb'(?<=\w)":\[([-+.0-9eE,]+)\]')


def loads(data: bytes) -> Any:
    """Return the document in the JSON bytes `data`.

    Arrays of numbers become NumPy arrays, int64 or float64, or lists.

    Raises
    ------
    ModelFileError
        If `data` is not valid JSON, repeats a key, or contains NaN or Infinity.
    """
    if b"NaN" not in data:  # which stands for an array that is cut out
        rest, arrays = _cut_arrays(data)
        found = iter(arrays)

        def paste(name: str) -> Any:
            return next(found) if name == "NaN" else _refuse_constant(name)

        try:
            return _parse(rest, paste)
        except (ModelFileError, ValueError):
            pass  # what is wrong is said of the whole text
    return _parse(data, _refuse_constant)


def _cut_arrays(data: bytes) -> tuple[bytes, list[NDArray[Any]]]:
    """Return a text with NaN for the arrays of numbers in it, and these in order."""
    text, arrays = np.frombuffer(bytearray(data), np.uint8), []

    def cut(match: re.Match[bytes]) -> bytes:
        begin, end = match.span(1)
        size = data.count(b",", begin, end) + 1
        integers, floats = np.empty(size, np.int64), np.empty(size)
        kind = read_numbers(text, begin, end, integers, floats, POWERS)
        if kind == 0:
            return match[0]
        arrays.append(integers if kind == 1 else floats)
        return b'":NaN'

    return _ARRAY.sub(cut, data), arrays


def _parse(data: bytes, parse_constant: Callable[[str], Any]) -> Any:
    """Return a document; raise a `ModelFileError` if it is not valid."""
    try:
        return json.loads(
            data.decode(), object_pairs_hook=_members, parse_constant=parse_constant
        )
    except ModelFileError:
        raise
    except UnicodeDecodeError as error:
        raise ModelFileError(
            f"byte {error.start}: the text is not UTF-8",
            code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
        ) from None
    except json.JSONDecodeError as error:
        raise ModelFileError(
            f"character {error.pos}: {error.msg}",
            code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
        ) from None
    except ValueError:
        raise ModelFileError(
            "a number has thousands of digits", code=ErrorCode.MODEL_FILE_NOT_PARSABLE
        ) from None
    except RecursionError:
        raise ModelFileError(
            "values are nested too deep", code=ErrorCode.MODEL_FILE_NOT_PARSABLE
        ) from None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ModelFileError(
                    f"the key {key!r:.60} is repeated",
                    code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
                )
            seen.add(key)
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise ModelFileError(
        f"{name} is not a valid number in a model",
        code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
    )
