"""Prediction of partitions on the workers of a cluster."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.boosting.booster import Booster
from hornbeam.data.containers.dispatch import words
from hornbeam.data.containers.from_numpy import ArrayTable
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.schema import times_of
from hornbeam.distributed.partitions import Partition, PartitionReader, partition_errors
from hornbeam.errors import ErrorCode, NotTrainedError, ParameterError

__all__ = ["PartitionPrediction", "PredictionMeta", "load_model", "prediction_meta_of"]


@dataclass(frozen=True, slots=True)
class PartitionPrediction:
    """The task of predicting a partition.

    Attributes
    ----------
    arguments
        Of `Booster.predict`.
    reader
        Reads partitions.
    """

    arguments: dict[str, Any]
    reader: PartitionReader

    def __call__(
        self, booster: Booster, data: Any, base_margin: Any
    ) -> npt.NDArray[Any]:
        """Return the predictions of rows in any container."""
        matrix = DMatrix(
            data,
            base_margin=base_margin,
            missing=self.reader.missing,
            dates="expand" if times_of(booster.model.raw_schema) else "error",
        )
        return booster.predict(matrix, **self.arguments)

    def of_partition(
        self, booster: Booster, part: Partition
    ) -> npt.NDArray[Any] | None:
        """Return the predictions of a partition; None if it has no rows."""
        content = self.reader.read(part)
        if content is None:
            return None
        margin = content.fields.get("base_margin")
        with partition_errors(part.number):
            matrix = DMatrix.of_table(content.table, {"base_margin": margin})
            return booster.predict(matrix, **self.arguments)


@dataclass(frozen=True, slots=True)
class PredictionMeta:
    """Shape and type of the predictions of a row."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def prediction_meta_of(booster: Any, arguments: Mapping[str, Any]) -> PredictionMeta:
    """Return shape and type of a row's prediction by `Booster.predict`."""
    if not isinstance(booster, Booster):
        raise ParameterError(
            f"the result of the future of a model is {words(booster)}, not a Booster",
            code=ErrorCode.NOT_A_MODEL,
        )
    if booster.num_features() == 0:
        raise NotTrainedError(
            "this Booster has neither been trained nor loaded; train it first",
            code=ErrorCode.EMPTY_BOOSTER,
        )
    # XGBoost's predictions of no rows have one dimension, so a row of missing values.
    n_columns = booster.model.raw_schema.n_features
    table = ArrayTable(np.full((1, n_columns), np.nan, np.float32))
    table.typeless = frozenset(range(table.n_features))
    without_names = {**arguments, "validate_features": False}
    found = booster.predict(DMatrix.of_table(table, {}), **without_names)
    return PredictionMeta(found.shape[1:], found.dtype)


def load_model(pickled: bytes, loads: Callable[[bytes], Any] = pickle.loads) -> Booster:
    """Return a booster that uses one thread: a task occupies one thread of a worker."""
    booster: Booster = loads(pickled)
    booster.set_param({"nthread": 1})
    return booster
