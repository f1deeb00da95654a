"""Models in other languages: which there are, and how they become files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.export.plan import Exportable, Plan, model_of
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

    Its input ``X`` is (rows, features), missing as NaN, categories as their codes. Its
    output is ``variable``, (rows, outputs). Where the model tells classes apart it has
    two: ``label``, (rows,), and ``probabilities``, (rows, classes).

    Parameters
    ----------
    model
        A booster, or a fitted estimator, which knows the labels of its classes.
    output_margin
        Whether to leave out the transformation of the objective.
    iteration_range
        Rounds (begin, end); (0, 0) means all, or those up to the best of an estimator
        whose training stopped early.
    input_type
        Of the features: ``"float32"``, or ``"float64"`` to compare them as they are.
    """
    from hornbeam.export.onnx_model import onnx_of

    return onnx_of(Plan.of(model, output_margin, iteration_range), input_type)


def to_c(
    model: Exportable,
    *,
    output_margin: bool = False,
    iteration_range: Rounds = (0, 0),
    name: str = "model",
) -> str:
    """Return a model as one file of C99 that needs nothing but its standard library.

    Parameters
    ----------
    model, output_margin, iteration_range
        As for `to_onnx`.
    name
        How the names of its functions begin.
    """
    from hornbeam.export.c_source import c_of

    return c_of(Plan.of(model, output_margin, iteration_range), name)


def to_python(
    model: Exportable,
    *,
    output_margin: bool = False,
    iteration_range: Rounds = (0, 0),
) -> str:
    """Return a model as one module of Python that imports the standard library alone.

    The parameters are those of `to_onnx`.
    """
    from hornbeam.export.python_source import python_of

    return python_of(Plan.of(model, output_margin, iteration_range))


def to_xgboost(
    model: Exportable,
    *,
    iteration_range: Rounds = (0, 0),
    raw_format: str = "ubj",
) -> bytes:
    """Return a model in the bytes of a file of XGBoost's, and nothing else in it.

    `save_model` adds what Hornbeam alone reads: a checksum, and exact numbers where
    those of XGBoost are rounded to float32. XGBoost passes over that, and so do other
    readers of its files, but maybe not all.

    Parameters
    ----------
    model, iteration_range
        As for `to_onnx`.
    raw_format
        ``"ubj"`` or ``"json"``.
    """
    return encode_for_xgboost(model_of(model, iteration_range), raw_format)


_KINDS: Mapping[str, Any] = {
    ".onnx": to_onnx,
    ".c": to_c,
    ".py": to_python,
    ".json": partial(to_xgboost, raw_format="json"),
    ".ubj": partial(to_xgboost, raw_format="ubj"),
}


def save(model: Exportable, fname: str | os.PathLike[str], **options: Any) -> None:
    """Write a model in the language that the ending of the file names.

    The file is complete or, whatever happens, left as it was.

    Parameters
    ----------
    model
        A booster, or a fitted estimator.
    fname
        Ends in ``.onnx``, ``.c`` or ``.py``; or, for `to_xgboost`, in ``.json`` or
        ``.ubj``.
    options
        For `to_onnx`, `to_c`, `to_python` or `to_xgboost`.
    """
    ending = Path(fname).suffix
    if ending not in _KINDS:
        raise ParameterError(
            f"{os.fspath(fname)!r} must end in {', '.join(_KINDS)}; what can be loaded "
            "again is written by save_model",
            code=ErrorCode.UNKNOWN_FILE_FORMAT,
        )
    to = _KINDS[ending]
    known = signature(to).parameters.keys() - {"model", "raw_format"}
    for name in options:
        if name not in known:
            raise ParameterError(
                f"an export to {ending!r} takes no {name}; its options are "
                f"{', '.join(sorted(known))}",
                code=ErrorCode.UNKNOWN_OPTION,
            )
    made = to(model, **options)
    if isinstance(made, str):
        made = made.encode()
    replace_file(fname, [made if isinstance(made, bytes) else made.SerializeToString()])
