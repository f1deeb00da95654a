"""JSON in the subset that XGBoost's strictly typed parser accepts.

That parser distinguishes 1 from 1.0 and supports few escapes: it does not interpret
``\\u`` and rejects ``\\b``, ``\\f`` and ``\\/``. Strings are therefore written as
UTF-8, and only the characters that JSON requires are escaped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from hornbeam.errors import ErrorCode, ModelFileError

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

    Values may be mappings, lists, strings, booleans, integers, NumPy floats and arrays
    of numbers. Each number has the fewest digits that identify it in its type.
    """
    parts: list[str] = []
    _write(document, parts)
    return "".join(parts).encode()


def _write(value: Any, parts: list[str]) -> None:
    if isinstance(value, np.ndarray):
        parts += "[", ",".join(value.astype(np.str_).tolist()), "]"
    elif isinstance(value, str):
        parts.append(_text(value))
    elif isinstance(value, bool):
        parts.append("true" if value else "false")
    elif isinstance(value, int | np.floating):
        parts.append(str(value))
    elif isinstance(value, list):
        separator = "["
        for element in value:
            parts.append(separator)
            _write(element, parts)
            separator = ","
        parts.append("]" if value else "[]")
    else:
        separator = "{"
        for key in sorted(value):
            parts += separator, _text(key), ":"
            _write(value[key], parts)
            separator = ","
        parts.append("}" if value else "{}")


def _text(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def loads(data: bytes) -> Any:
    """Return the document in the JSON bytes `data`; arrays become lists.

    Raises
    ------
    ModelFileError
        If `data` is not valid JSON, repeats a key, or contains NaN or Infinity.
    """
    try:
        return json.loads(
            data.decode(), object_pairs_hook=_members, parse_constant=_refuse_constant
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
