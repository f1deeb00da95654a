"""Predictions of a Spark data frame: an Arrow UDF, with the model broadcast once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.pandas.functions import arrow_udf

from hornbeam.data.schema import times_of
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.kernels.team import lease
from hornbeam.spark.rows import Features, Rows, arrow_array, read_rows

__all__ = ["Prediction"]


@dataclass(frozen=True)
class Prediction:
    """What the UDF of a struct of columns predicts.

    Attributes
    ----------
    library
        The module of the booster.
    features, fields
        The columns.
    is_classifier
        Whether margins and probabilities of classes are predicted, too.
    with_contrib
        Whether the contributions of features are.
    missing, iteration_range
        As for `DMatrix` and `Booster.predict`.
    """

    library: str
    features: Features
    fields: Mapping[str, str]
    is_classifier: bool
    with_contrib: bool
    missing: float
    iteration_range: tuple[int, int]

    def udf(self, model: Any, digest: str) -> Any:
        """Return the UDF, for the broadcast bytes of a model and its digest."""
        kind = "prediction double"
        if self.is_classifier:
            kind += ", raw array<double>, probability array<double>"
        if self.with_contrib:
            nested = "array<array<double>>" if self.is_classifier else "array<double>"
            kind += f", contrib {nested}"

        def hornbeam_predict(structs: Iterator[pa.Array]) -> Iterator[pa.Array]:
            booster = _booster(self.library, model, digest)
            context = TaskContext.get()
            booster.set_param({"nthread": 1 if context is None else context.cpus()})
            for columns in structs:
                batch = pa.RecordBatch.from_struct_array(columns)
                rows = read_rows([batch], self.features, self.fields)
                yield self._predict(booster, rows)

        return arrow_udf(hornbeam_predict, kind)  # type: ignore[call-overload]

    def _predict(self, booster: Any, rows: Rows) -> pa.Array:
        columns, n_rows = booster.model.raw_schema, rows.shape[0]
        matrix = import_module(self.library).DMatrix(
            rows.features,
            feature_names=columns.names,
            feature_types=columns.types,
            missing=self.missing,
            **rows.fields,
            **({"dates": "expand"} if times_of(columns) else {}),
        )
        predict = partial(booster.predict, matrix, iteration_range=self.iteration_range)
        predicted = predict(output_margin=self.is_classifier)
        found: dict[str, npt.NDArray[Any]] = {}
        if self.is_classifier:
            raw, probability = _of_classes(booster, predicted)
            found["prediction"] = probability.argmax(axis=1)
            found |= {"raw": raw, "probability": probability}
        elif predicted.size == n_rows:
            found["prediction"] = predicted.reshape(n_rows)
        else:
            raise ParameterError(
                f"the model predicts {predicted.size // n_rows} numbers for a row, and "
                "the prediction column has one; use get_booster().predict",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        if self.with_contrib:
            contrib = predict(pred_contribs=True, strict_shape=self.is_classifier)
            found["contrib"] = contrib
        arrays = [_lists(values.astype(float)) for values in found.values()]
        return pa.StructArray.from_arrays(arrays, names=list(found))


#: The booster that this process has read last, by the digest of its model.
_last: dict[str, Any] = {}


def _booster(library: str, model: Any, digest: str) -> Any:
    """Return the booster, which a process reads once."""
    key = f"{library} {digest}"
    if key not in _last:
        _last.clear()
        _last[key] = import_module(library).Booster(model_file=bytearray(model.value))
    return _last[key]


def _lists(values: npt.NDArray[np.float64]) -> pa.Array:
    """Return an Arrow array of an array, with a list for each row of it."""
    found = arrow_array(values.reshape(-1))
    for axis in range(values.ndim - 1, 0, -1):
        size = values.shape[axis]
        offsets = np.arange(0, len(found) + 1, size, dtype=np.int32)
        found = pa.ListArray.from_arrays(arrow_array(offsets), found)
    return found


def _of_classes(
    booster: Any, margins: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the margins and the probabilities of each class."""
    objective = booster.objective
    columns = margins.reshape(len(margins), -1)
    compute = objective.to_output
    if objective.has_probabilities:
        compute = objective.class_probabilities
    with lease(booster.params.nthread) as team:
        values = compute(team, columns.astype(np.float32)).reshape(len(margins), -1)
    if values.shape[1] > 1:
        return columns, values
    positive = values[:, 0].astype(float)
    pairs = np.concatenate([-columns, columns], axis=1)
    return pairs, np.stack([1.0 - positive, positive], axis=1)
