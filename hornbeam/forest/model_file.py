"""Model files: XGBoost's JSON and UBJSON, with a checksum of our own."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from hornbeam.errors import ErrorCode, ModelFileError, ParameterError
from hornbeam.files import replace_file
from hornbeam.forest import json_text, ubjson
from hornbeam.forest.model import Model
from hornbeam.forest.reader import read_document
from hornbeam.forest.validation import UnsupportedModelError
from hornbeam.forest.writer import write_document

__all__ = [
    "decode",
    "decode_standard",
    "digest",
    "encode",
    "encode_for_xgboost",
    "load",
    "save",
]

_SPELLINGS = {"json": json_text.dumps, "ubj": ubjson.dumps}


def encode(model: Model, format: str) -> bytes:
    """Return `model` as a file of the format "json" or "ubj", checksum included."""
    if format not in _SPELLINGS:
        raise ParameterError(
            f"the format {format!r} is unknown; give 'json' or 'ubj'",
            code=ErrorCode.UNKNOWN_MODEL_FORMAT,
            format=format,
        )
    document = write_document(model)
    document["hornbeam"]["digest"] = _digest(document)
    return _SPELLINGS[format](put_away(document))


def encode_for_xgboost(model: Model, format: str) -> bytes:
    """Return `model` as XGBoost itself writes it, in "json" or "ubj".

    What Hornbeam adds is left out, for readers that do not pass over it: the checksum,
    thresholds beyond float32, and whether predictions are float64.
    """
    return _SPELLINGS[format](dropped(write_document(model)))


def decode(data: bytes | bytearray | memoryview) -> Model:
    """Return the model in the bytes of a model file, whichever format it has.

    Raises
    ------
    ModelFileError
        If the bytes are anything but a whole, unchanged and possible model.
    """
    data = bytes(data)
    try:
        document = brought_out(_loads(data))
        model = read_document(document)
        if "hornbeam" in document:
            said, found = document["hornbeam"]["digest"], digest(model)
            if said != found:
                raise ModelFileError(
                    f"the checksum is {found}, and {said!r:.80} is stored",
                    code=ErrorCode.MODEL_FILE_CHECKSUM_MISMATCH,
                )
    except UnsupportedModelError:
        raise
    except ModelFileError as error:
        raise ModelFileError(
            f"this is not a sound model file: {error}. It was damaged or edited; "
            "restore it from a copy, or save the model again",
            code=error.code,
            **error.details,
        ) from None
    return model


def decode_standard(data: bytes | bytearray | memoryview) -> Model:
    """Return the model that XGBoost would find in the bytes of a model file.

    What Hornbeam adds is passed over, the checksum with it: the file may have been
    edited. What is left must be whole and possible, or it is a `ModelFileError`.
    """
    return read_document(passed_over(_loads(bytes(data))))


def digest(model: Model) -> str:
    """Return the SHA-256 of everything in `model`, as 64 hexadecimal digits."""
    return _digest(write_document(model))


def _digest(document: dict[str, Any]) -> str:
    # The version says only which XGBoost's files these are like.
    model = {key: document[key] for key in ("hornbeam", "learner")}
    return hashlib.sha256(ubjson.dumps(model)).hexdigest()


def _loads(data: bytes) -> Any:
    start = data[:64].lstrip(b" \t\r\n")[:2]
    if not data:
        raise ModelFileError("it is empty", code=ErrorCode.MODEL_FILE_NOT_PARSABLE)
    if not start.startswith(b"{"):
        raise ModelFileError(
            "it begins like neither JSON nor UBJSON",
            code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
        )
    return json_text.loads(data) if start[1:] in b'" \t\r\n' else ubjson.loads(data)


def save(model: Model, path: str | os.PathLike[str]) -> None:
    """Write `model` to the file `path`, as its suffix .json or .ubj says.

    The file is replaced as a whole: whatever happens on the way, `path` holds either
    what it held before or the whole new model.
    """
    format = Path(path).suffix.lower().removeprefix(".")
    if format not in _SPELLINGS:
        raise ParameterError(
            f"{os.fspath(path)}: the suffix names no format of model files; "
            "give the file the suffix .json or .ubj",
            code=ErrorCode.UNKNOWN_FILE_FORMAT,
        )
    replace_file(path, [encode(model, format)])


def load(path: str | os.PathLike[str]) -> Model:
    """Return the model in the file `path`, whichever format it has."""
    data = Path(path).read_bytes()
    try:
        return decode(data)
    except ModelFileError as error:
        raise type(error)(
            f"{os.fspath(path)}: {error}", code=error.code, **error.details
        ) from None


_BLOCK, _THRESHOLDS = "hornbeam", "hornbeam_thresholds"


def put_away(document: dict[str, Any]) -> dict[str, Any]:
    """Return the `document` with what is ours in its place; it is changed."""
    forest = _forest_of(document)
    if forest is None:
        return document
    exact = {
        str(number): base64.b64encode(tree.pop(_THRESHOLDS).tobytes()).decode()
        for number, tree in enumerate(forest["trees"])
        if _THRESHOLDS in tree
    }
    own = {**document.pop(_BLOCK), **({"thresholds": exact} if exact else {})}
    forest["gbtree_model_param"][_BLOCK] = json.dumps(own, sort_keys=True)
    return document


def dropped(document: dict[str, Any]) -> dict[str, Any]:
    """Return the `document` without what is ours; it is changed."""
    return passed_over(put_away(document))


def passed_over(document: Any) -> Any:
    """Return a document that was read without what is ours; it is changed.

    What is not as it should be is left for others to find.
    """
    with contextlib.suppress(AttributeError, KeyError, TypeError):
        document.pop(_BLOCK, None)
        forest = _forest_of(document)
        if forest is not None:
            forest["gbtree_model_param"].pop(_BLOCK, None)
    return document


def brought_out(document: Any) -> Any:
    """Return a document that was read, with what is ours where `read_document` looks.

    It is changed. What is not as it should be elsewhere is left for others to find.
    """
    try:
        forest = _forest_of(document)
        text = forest and forest["gbtree_model_param"].pop(_BLOCK, None)
        trees = forest and forest["trees"]
    except (AttributeError, KeyError, TypeError):
        return document
    if text is None:
        return document
    if _BLOCK in document:
        raise ModelFileError(
            "the block 'hornbeam' is there twice",
            code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
        )
    try:
        own = json.loads(text)
        exact = own.pop("thresholds", {})
        for number, packed in exact.items():
            values = np.frombuffer(base64.b64decode(packed, validate=True), "<f8")
            trees[int(number)][_THRESHOLDS] = values.astype(np.float64)
    except (
        *(AttributeError, IndexError, RecursionError, TypeError),
        *(binascii.Error, ValueError),
    ) as error:
        raise ModelFileError(
            f"the block 'hornbeam' cannot be read: {error}",
            code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
        ) from None
    document[_BLOCK] = own
    return document


def _forest_of(document: Any) -> Any:
    """Return the part of a document that holds trees; None of a linear model."""
    booster = document["learner"]["gradient_booster"]
    booster = booster.get("gbtree", booster)
    return booster["model"] if "trees" in booster["model"] else None
