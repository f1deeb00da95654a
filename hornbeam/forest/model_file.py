"""Model files: XGBoost's JSON and UBJSON, with a checksum and Hornbeam's extension.

The extension is what XGBoost's files have no fields for, such as float64 thresholds. In
files it is one string among the parameters of the forest (`gbtree_model_param`), where
XGBoost ignores unknown parameters. Other readers, such as treelite, do so there only
and reject unknown keys elsewhere. A linear model has no such parameters: its extension
is an object next to ``learner``.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ModelFileError, ParameterError
from hornbeam.files import naming, replace_file
from hornbeam.forest import json_text, ubjson
from hornbeam.forest.json_model import read_document, write_document
from hornbeam.forest.model import Model
from hornbeam.forest.object_table import ABSENT, ObjectTable
from hornbeam.forest.validation import UnsupportedModelError

__all__ = [
    "decode",
    "decode_as_xgboost",
    "digest",
    "encode",
    "encode_for_xgboost",
    "load",
    "save",
]

_ENCODERS = {"json": json_text.dumps, "ubj": ubjson.dumps}


def encode(model: Model, format: str, checksum: str = "digest") -> bytes:
    """Return the bytes of a model file with a checksum.

    Parameters
    ----------
    model
        A model.
    format
        ``"json"`` or ``"ubj"``.
    checksum
        What the checksum covers: ``"digest"``: the whole model;
        ``"prediction_digest"``: what predictions are computed from, so that tools may
        edit the names and types of features and the parameters of a ranking.

    Raises
    ------
    ParameterError
        If the format is unknown.
    ModelFileError
        If the model is not valid.
    """
    if format not in _ENCODERS:
        raise ParameterError(
            f"the format {format!r} is unknown; pass 'json' or 'ubj'",
            code=ErrorCode.UNKNOWN_MODEL_FORMAT,
            format=format,
        )
    document = write_document(model)
    document["hornbeam"][checksum] = _CHECKSUMS[checksum](document)
    return _ENCODERS[format](_embed_extension(document))


def encode_for_xgboost(model: Model, format: str) -> bytes:
    """Return the bytes of a model file without the extension, as XGBoost writes it.

    Readers that reject unknown parameters need it. The file has no checksum, no float64
    thresholds, and no note that predictions are summed in float64.
    """
    return _ENCODERS[format](_remove_extension(_embed_extension(write_document(model))))


def decode(data: bytes | bytearray | memoryview) -> Model:
    """Return the model in the bytes of a model file of either format.

    Raises
    ------
    ModelFileError
        If the file is incomplete, was changed, or does not contain a valid model.
    """
    data = bytes(data)
    try:
        document = _extract_extension(_loads(data))
        model = read_document(document)
        if "hornbeam" in document:
            (checksum,) = _CHECKSUMS.keys() & document["hornbeam"].keys()
            stored = document["hornbeam"][checksum]
            found = _CHECKSUMS[checksum](write_document(model))
            if stored != found:
                raise ModelFileError(
                    f"the checksum is {found}, and {stored!r:.80} is stored",
                    code=ErrorCode.MODEL_FILE_CHECKSUM_MISMATCH,
                )
    except UnsupportedModelError:
        raise
    except ModelFileError as error:
        raise ModelFileError(
            f"this is not a valid model file: {error}. It was damaged or edited; "
            "restore it from a copy, or save the model again",
            code=error.code,
            **error.details,
        ) from None
    return model


def decode_as_xgboost(data: bytes | bytearray | memoryview) -> Model:
    """Return the model that XGBoost would load from the bytes of a model file.

    The extension is ignored, the checksum included, so the file may have been edited.

    Raises
    ------
    ModelFileError
        If the rest of the file is not a valid model.
    """
    return read_document(_remove_extension(_loads(bytes(data))))


def digest(model: Model) -> str:
    """Return the SHA-256 of everything in `model`, as 64 hexadecimal digits."""
    return _digest(write_document(model))


def _digest(document: dict[str, Any]) -> str:
    # Excludes the XGBoost version, which identifies the format only.
    model = {key: document[key] for key in ("hornbeam", "learner")}
    return hashlib.sha256(ubjson.dumps(model)).hexdigest()


def _prediction_digest(document: dict[str, Any]) -> str:
    learner = {**document["learner"], "feature_names": [], "feature_types": []}
    objective = learner["objective"].items()
    learner["objective"] = {k: v for k, v in objective if k != "lambdarank_param"}
    return _digest({**document, "learner": learner})


#: The checksums by their names in files, each of a document without a checksum.
_CHECKSUMS = {"digest": _digest, "prediction_digest": _prediction_digest}


def _loads(data: bytes) -> Any:
    start = data[:64].lstrip(b" \t\r\n")[:2]
    if not data:
        raise ModelFileError("it is empty", code=ErrorCode.MODEL_FILE_NOT_PARSABLE)
    if not start.startswith(b"{"):
        raise ModelFileError(
            "it starts like neither JSON nor UBJSON",
            code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
        )
    return json_text.loads(data) if start[1:] in b'" \t\r\n' else ubjson.loads(data)


def save(model: Model, path: str | os.PathLike[str], checksum: str = "digest") -> None:
    """Write `model` to the file `path`, in the format of its suffix .json or .ubj.

    The file is replaced atomically: after an error, `path` still has its old content.
    For `checksum` see `encode`.

    Raises
    ------
    ParameterError
        If the suffix is another one.
    """
    format = Path(path).suffix.lower().removeprefix(".")
    if format not in _ENCODERS:
        raise ParameterError(
            f"{os.fspath(path)}: the suffix is not that of a model file format; "
            "use the suffix .json or .ubj",
            code=ErrorCode.UNKNOWN_FILE_FORMAT,
        )
    replace_file(path, [encode(model, format, checksum)])


def load(path: str | os.PathLike[str]) -> Model:
    """Return the model in the file `path` of either format.

    Raises
    ------
    ModelFileError
        If the file is not a valid model file; see `decode`.
    """
    with naming(path):
        data = Path(path).read_bytes()
    try:
        return decode(data)
    except ModelFileError as error:
        raise type(error)(
            f"{os.fspath(path)}: {error}", code=error.code, **error.details
        ) from None


# --- Hornbeam's extension of XGBoost's format -----------------------------------------

_KEY, _THRESHOLDS_KEY = "hornbeam", "hornbeam_thresholds"


def _embed_extension(document: dict[str, Any]) -> dict[str, Any]:
    """Move the extension to its place in files; changes and returns `document`."""
    forest = _gbtree_model(document)
    if forest is None:
        return document
    exact = {
        str(number): base64.b64encode(values.tobytes()).decode()
        for number, values in _take_thresholds(forest["trees"])
    }
    extension = {**document.pop(_KEY), **({"thresholds": exact} if exact else {})}
    forest["gbtree_model_param"][_KEY] = json.dumps(extension, sort_keys=True)
    return document


def _take_thresholds(trees: Any) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield the numbers of the trees with thresholds of float64; remove these."""
    if isinstance(trees, ObjectTable):
        for number, values in enumerate(trees.take(_THRESHOLDS_KEY)):
            if values is not ABSENT:
                yield number, values
        return
    for number, tree in enumerate(trees):
        if _THRESHOLDS_KEY in tree:
            yield number, tree.pop(_THRESHOLDS_KEY)


def _remove_extension(document: Any) -> Any:
    """Remove the extension from the document of a file; changes and returns it.

    Leaves a malformed document to the checks of `read_document`.
    """
    with contextlib.suppress(AttributeError, KeyError, TypeError):
        document.pop(_KEY, None)
        forest = _gbtree_model(document)
        if forest is not None:
            forest["gbtree_model_param"].pop(_KEY, None)
    return document


def _extract_extension(document: Any) -> Any:
    """Move the extension to where `read_document` expects it; changes and returns it.

    Leaves a document that is malformed elsewhere to the checks of `read_document`.

    Raises
    ------
    ModelFileError
        If the extension itself is malformed or present twice.
    """
    try:
        forest = _gbtree_model(document)
        text = forest and forest["gbtree_model_param"].pop(_KEY, None)
        trees = forest and forest["trees"]
    except (AttributeError, KeyError, TypeError):
        return document
    if text is None:
        return document
    if _KEY in document:
        raise ModelFileError(
            "the key 'hornbeam' is present twice",
            code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
        )
    try:
        extension = json.loads(text)
        exact = extension.pop("thresholds", {})
        for number, packed in exact.items():
            values = np.frombuffer(base64.b64decode(packed, validate=True), "<f8")
            own = values.astype(np.float64)
            if isinstance(trees, ObjectTable):
                trees.set(int(number), _THRESHOLDS_KEY, own)
            else:
                trees[int(number)][_THRESHOLDS_KEY] = own
    except (
        *(AttributeError, IndexError, RecursionError, TypeError),
        *(binascii.Error, ValueError),
    ) as error:
        raise ModelFileError(
            f"the value of the key 'hornbeam' is not valid: {error}",
            code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
        ) from None
    document[_KEY] = extension
    return document


def _gbtree_model(document: Any) -> Any:
    """Return the part of a document with the trees; None for a linear model."""
    booster = document["learner"]["gradient_booster"]
    booster = booster.get("gbtree", booster)
    return booster["model"] if "trees" in booster["model"] else None
