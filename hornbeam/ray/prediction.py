"""Prediction of datasets of Ray, block by block."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
from ray import cloudpickle

from hornbeam.boosting.booster import Booster
from hornbeam.distributed.partitions import PartitionReader
from hornbeam.distributed.prediction import PartitionPrediction, load_model
from hornbeam.ray.datasets import check_dataset, column_not_found

__all__ = ["predict"]


def predict(
    model: Booster | str | os.PathLike[str] | bytes | bytearray,
    dataset: Any,
    *,
    feature_columns: Sequence[str] | None = None,
    keep_columns: Sequence[str] = (),
    output_column: str = "predictions",
    batch_size: int | None = None,
    concurrency: int | None = None,
    **options: Any,
) -> Any:
    """Return a Dataset of predictions, which is computed when it is read.

    Parameters
    ----------
    model
        A booster, or the path or the bytes of a model file.
    dataset
        A Dataset of Ray.
    feature_columns
        The names of its features; by default those of the model.
    keep_columns
        The names of columns that the result has in addition.
    output_column
        The name of the column of predictions. Several values of a row are an array.
    batch_size
        The number of rows of a task's batch; None: whole blocks.
    concurrency
        The maximum number of tasks at a time; None: as Ray decides.
    options
        Of `Booster.predict`, such as ``output_margin``, ``pred_contribs`` or
        ``iteration_range``.
    """
    check_dataset(dataset, "dataset")
    booster = model if isinstance(model, Booster) else Booster(model_file=model)
    names = list(feature_columns or booster.model.raw_schema.names or ())
    pickled, kept = cloudpickle.dumps(booster), list(keep_columns)
    task = PartitionPrediction(options, PartitionReader())
    return dataset.map_batches(
        hornbeam_predict,
        batch_size=batch_size,
        batch_format="pyarrow",
        fn_args=(pickled, names, kept, output_column, task),
        concurrency=concurrency,
        zero_copy_batch=True,
    )


_load = lru_cache(maxsize=2)(load_model)


def hornbeam_predict(
    batch: pa.Table,
    pickled: bytes,
    names: list[str],
    kept: list[str],
    output: str,
    task: PartitionPrediction,
) -> dict[str, Any]:
    for name in (*names, *kept):
        if name not in batch.column_names:
            raise column_not_found(name, batch.column_names, "dataset")
    features = batch.select(names) if names else batch.drop_columns(kept)
    return {
        **{name: batch.column(name).to_numpy() for name in kept},
        output: task(_load(pickled, cloudpickle.loads), features, None),
    }
