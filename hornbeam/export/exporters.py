"""Export of models to ONNX, C, Python and XGBoost, as objects and as files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.export.c_source import c_source
from hornbeam.export.exported_model import Exportable, ExportedModel, model_of
from hornbeam.export.onnx_model import onnx_model
from hornbeam.export.python_source import python_source
from hornbeam.files import replace_file
from hornbeam.forest.model_file import encode_for_xgboost

__all__ = ["save", "to_c", "to_onnx", "to_python", "to_xgboost"]

Rounds = tuple[int, int]


def to_onnx(
    model: Exportable,
    *,
    output_margin: bool = False,
    iteration_range: Rounds = (0, 0),
    input_type: str = "float32",
) -> Any:
    """Return a model as an ``onnx.ModelProto``.

    Its input ``X`` is (rows, features), with NaN for missing values and category codes
    for categories. Its output is ``variable``, (rows, outputs). A classifier has two
    outputs instead: ``label``, (rows,), and ``probabilities``, (rows, classes).

    Parameters
    ----------
    model
        A booster, or a fitted estimator, whose class labels are exported too.
    output_margin
        Whether to export margins, without the objective's transformation.
    iteration_range
        Rounds (begin, end); (0, 0) means all, or for an estimator with early stopping
        those up to the best iteration.
    input_type
        The type of the features: ``"float32"``, or ``"float64"`` to compare them with
        thresholds in double precision.
    """
    return onnx_model(
        ExportedModel.of(model, output_margin, iteration_range), input_type
    )


def to_c(
    model: Exportable,
    *,
    output_margin: bool = False,
    iteration_range: Rounds = (0, 0),
    name: str = "model",
) -> str:
    """Return a model as one C99 source file that needs only the standard library.

    Parameters
    ----------
    model, output_margin, iteration_range
        As for `to_onnx`.
    name
        The prefix of its function names.
    """
    return c_source(ExportedModel.of(model, output_margin, iteration_range), name)


def to_python(
    model: Exportable,
    *,
    output_margin: bool = False,
    iteration_range: Rounds = (0, 0),
) -> str:
    """Return a model as one Python module that imports only the standard library.

    The parameters are those of `to_onnx`.
    """
    return python_source(ExportedModel.of(model, output_margin, iteration_range))


def to_xgboost(
    model: Exportable,
    *,
    iteration_range: Rounds = (0, 0),
    raw_format: str = "ubj",
) -> bytes:
    """Return the bytes of a model file in XGBoost's format, without additions.

    `save_model` adds entries that only Hornbeam reads: a checksum, and exact values of
    numbers that XGBoost rounds to float32. XGBoost ignores them; other readers of its
    files might not.

    Parameters
    ----------
    model, iteration_range
        As for `to_onnx`.
    raw_format
        ``"ubj"`` or ``"json"``.
    """
    part = model_of(model, iteration_range)
    if part.has_linear_leaves:
        raise ParameterError(
            "XGBoost's trees have constant leaves, and those of this model are linear; "
            "export it as C or Python, or train with leaf_model='constant'",
            code=ErrorCode.NOT_EXPORTABLE,
        )
    return encode_for_xgboost(part, raw_format)


_EXPORTERS: Mapping[str, Any] = {
    ".onnx": to_onnx,
    ".c": to_c,
    ".py": to_python,
    ".json": partial(to_xgboost, raw_format="json"),
    ".ubj": partial(to_xgboost, raw_format="ubj"),
}


def save(model: Exportable, fname: str | os.PathLike[str], **options: Any) -> None:
    """Export a model to a file, in the format of its suffix.

    An existing file is replaced atomically: on an error it is unchanged.

    Parameters
    ----------
    model
        A booster, or a fitted estimator.
    fname
        A path with the suffix ``.onnx``, ``.c`` or ``.py``; or ``.json`` or ``.ubj``
        for XGBoost's format.
    options
        Arguments of `to_onnx`, `to_c`, `to_python` or `to_xgboost`.
    """
    ending = Path(fname).suffix
    if ending not in _EXPORTERS:
        raise ParameterError(
            f"the suffix of {os.fspath(fname)!r} must be one of "
            f"{', '.join(_EXPORTERS)}; use save_model for files to load again",
            code=ErrorCode.UNKNOWN_FILE_FORMAT,
        )
    to = _EXPORTERS[ending]
    known = signature(to).parameters.keys() - {"model", "raw_format"}
    for name in options:
        if name not in known:
            raise ParameterError(
                f"an export to {ending!r} has no option {name}; its options are "
                f"{', '.join(sorted(known))}",
                code=ErrorCode.UNKNOWN_OPTION,
            )
    exported = to(model, **options)
    if isinstance(exported, str):
        exported = exported.encode()
    elif not isinstance(exported, bytes):
        exported = exported.SerializeToString()
    replace_file(fname, [exported])
