"""The derived features of a model in its file: formulas that XGBoost passes over.

They are in Hornbeam's extension (see `model_file`). A formula has the numbers of the
columns that it reads, and the means of levels as decimals in one text; a part of a time
has the feature type of its column, with the time zone, as XGBoost has no such type. How
a person reads a formula is the name of its feature.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hornbeam.data.schema import time_kind
from hornbeam.errors import ErrorCode, ModelFileError
from hornbeam.features.dates import parts_of
from hornbeam.features.derived import DerivedFeatures
from hornbeam.features.formulas import (
    Arithmetic,
    DatePart,
    Deviation,
    Formula,
    TargetMean,
)
from hornbeam.features.level_means import MAX_CELLS, LevelMeans
from hornbeam.forest.json_fields import (
    as_count,
    as_integers,
    as_object,
    as_string,
)
from hornbeam.forest.model import Model
from hornbeam.forest.validation import parse_float

__all__ = ["read_derived", "write_derived"]

_SIGNS = ("-", "*", "/")
_MEANS = ["categories", "means", "sizes"]


def write_derived(features: DerivedFeatures) -> dict[str, Any]:
    """Return the derived features as an object of the extension."""
    return {
        "formulas": [_written(formula) for formula in features.formulas],
        "named": features.named,
    }


def _written(formula: Formula) -> dict[str, Any]:
    if isinstance(formula, Arithmetic):
        return {"kind": formula.sign, "numbers": list(formula.numbers)}
    if isinstance(formula, DatePart):
        of_column = {"column": formula.kind, "numbers": [formula.time]}
        return {"kind": "date", "part": formula.part, **of_column}
    means = {
        "categories": list(formula.means.categories),
        "means": " ".join(map(repr, formula.means.values.tolist())),
        "sizes": list(formula.means.sizes),
    }
    if isinstance(formula, Deviation):
        return {"kind": "deviation", "numbers": [formula.number], **means}
    label = {} if formula.label is None else {"label": formula.label}
    return {"kind": "mean", **label, **means}


def read_derived(value: Any, model: Model) -> DerivedFeatures:
    """Return the derived features in an object, after validation of every part.

    The features of `model` are known.

    Raises
    ------
    ModelFileError
        If a part is not valid.
    """
    where = "hornbeam.derived"
    block = as_object(value, where, ["formulas", "named"])
    if type(block["named"]) is not bool:
        raise ModelFileError(
            f"{where}.named is not true or false",
            code=ErrorCode.MODEL_FILE_WRONG_TYPE,
        )
    formulas = block["formulas"]
    if not isinstance(formulas, list) or not 0 < len(formulas) < model.num_feature:
        raise ModelFileError(
            f"{where}.formulas is not an array of formulas, fewer than the "
            f"{model.num_feature} features",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    reader = _Reader(model, model.num_feature - len(formulas))
    read = tuple(
        reader.formula(formula, f"{where}.formulas[{number}]")
        for number, formula in enumerate(formulas)
    )
    return DerivedFeatures(read, block["named"])


class _Reader:
    """Reads the formulas of a model whose data have so many columns."""

    def __init__(self, model: Model, columns: int) -> None:
        self._model, self._columns = model, columns

    def formula(self, value: Any, where: str) -> Formula:
        kind = value.get("kind") if isinstance(value, dict) else None
        if kind in _SIGNS:
            block = as_object(value, where, ["kind", "numbers"])
            left, right = self._places(block["numbers"], f"{where}.numbers", 2)
            return Arithmetic(kind, left, right)
        if kind == "date":
            return self._date_part(value, where)
        if kind == "deviation":
            block = as_object(value, where, ["kind", "numbers", *_MEANS])
            (number,) = self._places(block["numbers"], f"{where}.numbers", 1)
            return Deviation(number, self._means(block, where))
        if kind == "mean":
            block = as_object(value, where, ["kind", *_MEANS], ["label"])
            label = None
            if "label" in block:
                label = as_count(block["label"], f"{where}.label")
            return TargetMean(self._means(block, where), label)
        raise ModelFileError(
            f"{where} is not an object of a known kind of formula",
            code=ErrorCode.MODEL_FILE_WRONG_TYPE,
        )

    def _date_part(self, value: Any, where: str) -> DatePart:
        block = as_object(value, where, ["kind", "column", "numbers", "part"])
        (time,) = self._places(block["numbers"], f"{where}.numbers", 1)
        part = as_string(block["part"], f"{where}.part")
        column = as_string(block["column"], f"{where}.column")
        if time_kind([column], 0) is None or part not in parts_of(column):
            raise ModelFileError(
                f"{where} is {part!r} of a column of type {column!r}, which is not a "
                "part of a time",
                code=ErrorCode.MODEL_FILE_INCONSISTENT,
            )
        return DatePart(part, time, column)

    def _places(self, value: Any, where: str, count: int | None) -> tuple[int, ...]:
        places = as_integers(value, where)
        is_valid = all(0 <= place < self._columns for place in places) and places
        if not is_valid or count not in (None, len(places)):
            raise ModelFileError(
                f"{where} is not a list of columns of the {self._columns} of the data",
                code=ErrorCode.MODEL_FILE_INCONSISTENT,
            )
        return tuple(places)

    def _means(self, block: dict[str, Any], where: str) -> LevelMeans:
        categories = self._places(block["categories"], f"{where}.categories", None)
        sizes = as_integers(block["sizes"], f"{where}.sizes")
        levels = [self._model.categories.of(category) for category in categories]
        fits = len(sizes) == len(categories) and all(
            size >= 2 if own is None else size == len(own) + 2
            for size, own in zip(sizes, levels, strict=False)
        )
        texts = as_string(block["means"], f"{where}.means").split()
        if not fits or prod(sizes) > MAX_CELLS or prod(sizes) != len(texts):
            raise ModelFileError(
                f"{where}.means has {len(texts)} numbers, which are not one for each "
                "level of its categories",
                code=ErrorCode.MODEL_FILE_INCONSISTENT,
            )
        values = np.array([parse_float(text) for text in texts])
        if not np.isfinite(values).all():
            raise ModelFileError(
                f"{where}.means has a number that is not finite",
                code=ErrorCode.MODEL_FILE_INVALID_NUMBER,
            )
        return LevelMeans(categories, tuple(sizes), values)
