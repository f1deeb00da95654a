"""Lazy prediction of Dask collections: one task for each partition."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.base import tokenize
from dask.delayed import delayed
from distributed import Client, Future
from distributed.protocol.pickle import dumps, loads

from hornbeam.boosting.booster import Booster
from hornbeam.dask.client import task_key, with_client
from hornbeam.dask.matrix import DaskDMatrix
from hornbeam.dask.partitions import is_dataframe, merge_column_chunks
from hornbeam.dask.workers import Workers
from hornbeam.data.containers.dispatch import words
from hornbeam.distributed.partitions import PartitionReader
from hornbeam.distributed.prediction import (
    PartitionPrediction,
    PredictionMeta,
    load_model,
    prediction_meta_of,
)
from hornbeam.errors import DataError, ErrorCode, ParameterError

__all__ = [
    "ModelSource",
    "inplace_predict",
    "predict",
    "predict_partitions",
    "prediction_meta",
]

#: The dict from `hornbeam.dask.train`, its booster, or a future of a booster.
ModelSource: TypeAlias = Mapping[str, Any] | Booster | Future
#: From a booster, the data of a partition and its base margin to predictions.
Task: TypeAlias = Callable[[Booster, Any, Any], npt.NDArray[Any]]


@with_client
def predict(
    client: Client | None,
    model: ModelSource,
    data: Any,
    *,
    output_margin: bool = False,
    missing: float = math.nan,
    pred_leaf: bool = False,
    pred_contribs: bool = False,
    approx_contribs: bool = False,
    pred_interactions: bool = False,
    validate_features: bool = True,
    iteration_range: tuple[int, int] = (0, 0),
    strict_shape: bool = False,
) -> Any:
    """Return a lazy collection of predictions, those of `Booster.predict`.

    Each partition is predicted by one task, on one thread, on the worker that Dask
    chooses; if a worker dies, Dask runs its tasks again elsewhere. With an asynchronous
    client the collection has to be awaited.

    Parameters
    ----------
    client
        The client of the cluster; None for Dask's default client.
    model
        The dict from `train`, a booster, or a future of a booster.
    data
        A dask.array or a `DaskDMatrix`, whose predictions are a dask.array; or a
        dask.dataframe, whose predictions are a series with the same index, or a
        dask.dataframe if there are several for each row.
    missing
        The number that represents a missing value, in addition to NaN and null; a
        `DaskDMatrix` has its own.
    output_margin, pred_leaf, pred_contribs, approx_contribs, pred_interactions, \
validate_features, iteration_range, strict_shape
        As for `hornbeam.Booster.predict`.
    """
    task = PartitionPrediction(
        {
            "output_margin": output_margin,
            "pred_leaf": pred_leaf,
            "pred_contribs": pred_contribs,
            "approx_contribs": approx_contribs,
            "pred_interactions": pred_interactions,
            "validate_features": validate_features,
            "iteration_range": iteration_range,
            "strict_shape": strict_shape,
        },
        PartitionReader(missing=missing),
    )
    meta = prediction_meta(model, task.arguments)
    if isinstance(data, DaskDMatrix):
        return _predict_matrix(model, data, task, meta)
    return predict_partitions(model, data, task, meta)


@with_client
def inplace_predict(
    client: Client | None,
    model: ModelSource,
    data: Any,
    *,
    iteration_range: tuple[int, int] = (0, 0),
    predict_type: str = "value",
    missing: float = math.nan,
    validate_features: bool = True,
    base_margin: Any = None,
    strict_shape: bool = False,
) -> Any:
    """Return a lazy collection of predictions, those of `Booster.inplace_predict`.

    Parameters
    ----------
    client, model
        As for `predict`.
    data
        A dask.array or a dask.dataframe; the type of the result is as for `predict`.
    base_margin
        The initial margins: a collection with the same partitions.
    iteration_range, predict_type, missing, validate_features, strict_shape
        As for `hornbeam.Booster.inplace_predict`.
    """
    if predict_type not in ("value", "margin"):
        raise ParameterError(
            f"predict_type must be 'value' or 'margin', not {predict_type!r}",
            code=ErrorCode.UNKNOWN_OPTION,
        )
    task = partial(
        _predict_inplace,
        iteration_range=iteration_range,
        predict_type=predict_type,
        missing=missing,
        validate_features=validate_features,
        strict_shape=strict_shape,
    )
    meta = prediction_meta(
        model,
        {
            "iteration_range": iteration_range,
            "output_margin": predict_type == "margin",
            "strict_shape": strict_shape,
        },
    )
    return predict_partitions(model, data, task, meta, base_margin)


def _predict_inplace(
    booster: Booster, data: Any, base_margin: Any, **arguments: Any
) -> npt.NDArray[Any]:
    return booster.inplace_predict(data, base_margin=base_margin, **arguments)


def prediction_meta(model: ModelSource, arguments: Mapping[str, Any]) -> PredictionMeta:
    """Return shape and type of a row's prediction by `Booster.predict`."""
    if isinstance(model, Future):
        task = model.client.submit(prediction_meta_of, model, arguments, pure=False)
        found: PredictionMeta = Workers(model.client).results([task])[0]
        return found
    return prediction_meta_of(_booster_of(model), arguments)


def predict_partitions(
    model: ModelSource,
    data: Any,
    task: Task,
    meta: PredictionMeta,
    base_margin: Any = None,
) -> Any:
    """Return a lazy collection of a task's predictions for each partition.

    Parameters
    ----------
    model
        As for `predict`.
    data
        A dask.array or a dask.dataframe.
    task
        A function of a booster, the data of a partition and its part of `base_margin`
        that returns an array with a row for each row of the partition. It must not
        modify its arguments.
    meta
        Shape and type of that array.
    base_margin
        A collection with the same partitions, or None.
    """
    booster = model_task(model)
    if isinstance(data, da.Array):
        return _predict_array(booster, data, task, base_margin, meta)
    if is_dataframe(data):
        return _predict_dataframe(booster, data, task, base_margin, meta)
    raise DataError(
        f"cannot predict {words(data)}; pass a dask.array, a dask.dataframe or a "
        "DaskDMatrix",
        code=ErrorCode.UNSUPPORTED_COLLECTION,
    )


def model_task(model: ModelSource) -> Any:
    """Return the model as an argument of tasks: a delayed object, or its future.

    As part of the task graph the model is sent to each worker once, and again to the
    replacement of a worker that dies.
    """
    if isinstance(model, Future):
        return model
    pickled = dumps(_booster_of(model))
    key = f"hornbeam-model-{tokenize(pickled)}"
    return delayed(load_model)(pickled, loads, dask_key_name=key)


def _booster_of(model: Any) -> Booster:
    if isinstance(model, Mapping):
        if "booster" not in model:
            raise ParameterError(
                'model has no "booster"; pass the dict from hornbeam.dask.train',
                code=ErrorCode.NOT_A_MODEL,
            )
        model = model["booster"]
    if not isinstance(model, Booster):
        raise ParameterError(
            "model must be the dict from hornbeam.dask.train, a Booster or a future "
            f"of one, not {words(model)}",
            code=ErrorCode.NOT_A_MODEL,
        )
    return model


def _predict_array(
    booster: Any,
    data: da.Array,
    task: Task,
    base_margin: Any,
    meta: PredictionMeta,
) -> da.Array:
    width, dtype = meta.shape, meta.dtype
    if data.ndim != 2:
        raise DataError(
            f"data has {data.ndim} dimensions; pass rows x columns to predict",
            code=ErrorCode.WRONG_DIMENSIONS,
        )
    data = merge_column_chunks(data)
    if base_margin is not None:
        base_margin = _align_margin(base_margin, data)
    return da.map_blocks(
        _predict_block,
        task,
        booster,
        data,
        base_margin,
        width,
        token="hornbeam-predict",
        chunks=(data.chunks[0], *((size,) for size in width)),
        drop_axis=[] if width else [1],
        new_axis=[axis + 2 for axis in range(len(width) - 1)],
        dtype=dtype,
        meta=np.empty((0,) * (1 + len(width)), dtype),
    )


def _align_margin(base_margin: Any, data: da.Array) -> da.Array:
    """Return the margins in two dimensions, rechunked like the rows of the data."""
    if not isinstance(base_margin, da.Array):
        if not hasattr(base_margin, "to_dask_array"):
            raise DataError(
                f"base_margin is {words(base_margin)}; pass a dask.array or a series",
                code=ErrorCode.UNSUPPORTED_COLLECTION,
            )
        base_margin = base_margin.to_dask_array()
    if base_margin.ndim == 1:
        base_margin = base_margin[:, None]
    base_margin = merge_column_chunks(base_margin)
    rows = data.chunks[0]
    if base_margin.numblocks[0] != len(rows) or base_margin.chunks[0] != rows:
        known = not any(n != n for n in (*rows, *base_margin.chunks[0]))
        if not known and base_margin.numblocks[0] == len(rows):
            return base_margin
        if not known or sum(base_margin.chunks[0]) != sum(rows):
            raise DataError(
                f"base_margin has chunks {base_margin.chunks[0]} and the data has "
                f"{rows}; give one margin for each row, in the same partitions",
                code=ErrorCode.PARTITION_SIZE_MISMATCH,
            )
        base_margin = base_margin.rechunk({0: rows})
    return base_margin


def _predict_block(
    task: Task,
    booster: Booster,
    block: Any,
    base_margin: Any,
    width: tuple[int, ...],
) -> npt.NDArray[Any]:
    found = task(booster, block, base_margin)
    # Those of zero rows get the shape that others have.
    return found.reshape(-1, *width) if found.size == 0 else found


def _predict_dataframe(
    booster: Any,
    data: Any,
    task: Task,
    base_margin: Any,
    meta: PredictionMeta,
) -> Any:
    import dask.dataframe as dd
    import pandas as pd

    width = meta.shape
    if len(width) > 1:
        raise DataError(
            "the prediction of a row has several dimensions, which a dask.dataframe "
            "does not support; pass data.to_dask_array(), or a DaskDMatrix",
            code=ErrorCode.WRONG_DIMENSIONS,
        )
    if isinstance(base_margin, da.Array):
        base_margin = dd.from_dask_array(merge_column_chunks(base_margin))
    if base_margin is not None and base_margin.npartitions != data.npartitions:
        raise DataError(
            f"base_margin has {base_margin.npartitions} partitions and the data has "
            f"{data.npartitions}; give both the same, with repartition",
            code=ErrorCode.PARTITION_SIZE_MISMATCH,
        )
    kind = pd.DataFrame if width else pd.Series
    empty = kind(np.empty((0, *width), meta.dtype), index=data._meta.index[:0])
    return dd.map_partitions(
        _predict_frame,
        data,
        base_margin,
        task,
        booster,
        width,
        token="hornbeam-predict",
        meta=empty,
        align_dataframes=False,
    )


def _predict_frame(
    frame: Any, base_margin: Any, task: Task, booster: Booster, width: tuple[int, ...]
) -> Any:
    import pandas as pd

    found = _predict_block(task, booster, frame, base_margin, width)
    kind = pd.DataFrame if width else pd.Series
    return kind(found, index=frame.index)


def _predict_matrix(
    model: ModelSource,
    data: DaskDMatrix,
    task: PartitionPrediction,
    meta: PredictionMeta,
) -> da.Array:
    booster = model_task(model)
    predict_one = delayed(replace(task, reader=data.reader).of_partition)
    pieces = []
    for number, part in enumerate(data.parts):
        rows = int(data.first_rows[number + 1] - data.first_rows[number])
        if rows:
            found = predict_one(booster, part, dask_key_name=task_key("predict"))
            pieces.append(da.from_delayed(found, (rows, *meta.shape), meta.dtype))
    return da.concatenate(pieces)
