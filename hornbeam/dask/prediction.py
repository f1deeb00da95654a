"""Predictions of collections, made where their partitions lie."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.delayed import delayed
from distributed import Client, Future
from distributed.protocol.pickle import dumps, loads

from hornbeam.boosting.booster import Booster
from hornbeam.dask.matrix import DaskDMatrix
from hornbeam.dask.opening import Opening, named
from hornbeam.dask.partitions import Partition, is_frame, one_block_wide
from hornbeam.dask.sync import with_client
from hornbeam.dask.workers import Workers
from hornbeam.data.containers.dispatch import words
from hornbeam.data.containers.from_numpy import ArrayTable
from hornbeam.data.dmatrix import DMatrix
from hornbeam.errors import DataError, ErrorCode, NotTrainedError, ParameterError

__all__ = [
    "ModelSource",
    "Outcome",
    "inplace_predict",
    "outcome_of",
    "predict",
    "predict_by",
]

#: What `hornbeam.dask.train` returns, its booster, or a future of a booster.
ModelSource: TypeAlias = Mapping[str, Any] | Booster | Future
#: From a booster, a partition and its base margin to predictions.
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

    Every partition is predicted by a task of its own, on one thread, wherever Dask
    runs it; if a worker dies, Dask does its tasks again elsewhere. With an asynchronous
    client the collection has to be awaited.

    Parameters
    ----------
    client
        The client of the cluster; None for the one that Dask has.
    model
        What `train` returns, a booster, or a future of a booster.
    data
        A dask.array or a `DaskDMatrix`, whose predictions are a dask.array; or a
        dask.dataframe, whose predictions are a series, or a dataframe where a row has
        several, with the same index.
    missing
        The number that stands for missing, besides NaN and null; a `DaskDMatrix` has
        its own.
    output_margin, pred_leaf, pred_contribs, approx_contribs, pred_interactions, \
validate_features, iteration_range, strict_shape
        As for `hornbeam.Booster.predict`.
    """
    how = _Prediction(
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
        Opening(missing=missing),
    )
    outcome = outcome_of(model, how.arguments)
    if isinstance(data, DaskDMatrix):
        return _predict_matrix(model, data, how, outcome)
    return predict_by(model, data, how, outcome)


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
        A dask.array or a dask.dataframe; what comes back is as for `predict`.
    base_margin
        Where the sums start from: a collection with the same partitions.
    iteration_range, predict_type, missing, validate_features, strict_shape
        As for `hornbeam.Booster.inplace_predict`.
    """
    if predict_type not in ("value", "margin"):
        raise ParameterError(
            f"predict_type must be 'value' or 'margin', not {predict_type!r}",
            code=ErrorCode.UNKNOWN_OPTION,
        )
    how = _InplacePrediction(
        {
            "iteration_range": iteration_range,
            "predict_type": predict_type,
            "missing": missing,
            "validate_features": validate_features,
            "strict_shape": strict_shape,
        }
    )
    outcome = outcome_of(
        model,
        {
            "iteration_range": iteration_range,
            "output_margin": predict_type == "margin",
            "strict_shape": strict_shape,
        },
    )
    return predict_by(model, data, how, outcome, base_margin)


@dataclass(frozen=True, slots=True)
class _Prediction:
    """The task of `predict`."""

    arguments: dict[str, Any]
    opening: Opening

    def __call__(
        self, booster: Booster, data: Any, base_margin: Any
    ) -> npt.NDArray[Any]:
        matrix = DMatrix(data, base_margin=base_margin, missing=self.opening.missing)
        return booster.predict(matrix, **self.arguments)

    def of_partition(self, booster: Booster, part: Partition) -> npt.NDArray[Any]:
        """Return the predictions of a partition of a `DaskDMatrix`."""
        opened = self.opening.open(part)
        assert opened is not None
        margin = opened.fields.get("base_margin")
        with named(part.number):
            matrix = DMatrix.of_table(opened.table, {"base_margin": margin})
            return booster.predict(matrix, **self.arguments)


@dataclass(frozen=True, slots=True)
class _InplacePrediction:
    """The task of `inplace_predict`."""

    arguments: dict[str, Any]

    def __call__(
        self, booster: Booster, data: Any, base_margin: Any
    ) -> npt.NDArray[Any]:
        return booster.inplace_predict(data, base_margin=base_margin, **self.arguments)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the predictions of a row look like: their shape and type."""

    width: tuple[int, ...]
    dtype: np.dtype[Any]


def outcome_of(model: ModelSource, arguments: Mapping[str, Any]) -> Outcome:
    """Return what `Booster.predict` with these arguments makes of a row."""
    if isinstance(model, Future):
        task = model.client.submit(_outcome, model, arguments, pure=False)
        found: Outcome = Workers(model.client).results([task])[0]
        return found
    return _outcome(_booster_of(model), arguments)


def _outcome(booster: Any, arguments: Mapping[str, Any]) -> Outcome:
    if not isinstance(booster, Booster):
        raise ParameterError(
            f"the future of a model holds {words(booster)}, not a Booster",
            code=ErrorCode.NOT_A_MODEL,
        )
    if booster.num_features() == 0:
        raise NotTrainedError(
            "this Booster has neither been trained nor loaded; train it first",
            code=ErrorCode.EMPTY_BOOSTER,
        )
    table = ArrayTable(np.empty((0, booster.num_features()), np.float32))
    table.typeless = frozenset(range(table.n_features))
    without_names = {**arguments, "validate_features": False}
    found = booster.predict(DMatrix.of_table(table, {}), **without_names)
    return Outcome(found.shape[1:], found.dtype)


def predict_by(
    model: ModelSource,
    data: Any,
    task: Task,
    outcome: Outcome,
    base_margin: Any = None,
) -> Any:
    """Return what a task makes of each partition of a collection, lazily.

    Parameters
    ----------
    model
        As for `predict`.
    data
        A dask.array or a dask.dataframe.
    task
        From a booster, a partition, and what it has of `base_margin`, to an array with
        a row for each of the partition's; it must not change them.
    outcome
        What that array looks like.
    base_margin
        A collection with the same partitions, or None.
    """
    booster = model_task(model)
    if isinstance(data, da.Array):
        return _predict_array(booster, data, task, base_margin, outcome)
    if is_frame(data):
        return _predict_frame(booster, data, task, base_margin, outcome)
    raise DataError(
        f"cannot predict {words(data)}; pass a dask.array, a dask.dataframe or a "
        "DaskDMatrix",
        code=ErrorCode.UNSUPPORTED_COLLECTION,
    )


def model_task(model: ModelSource) -> Any:
    """Return the model as what a task can take: in its graph, or a future.

    A model that lies in the graph comes to each worker once, and comes again to
    whoever takes the place of a worker that dies.
    """
    if isinstance(model, Future):
        return model
    return delayed(_on_one_thread, pure=True)(dumps(_booster_of(model)))


def _on_one_thread(pickled: bytes) -> Booster:
    """Return a booster that leaves the other threads of a worker to other tasks."""
    booster: Booster = loads(pickled)
    booster.set_param({"nthread": 1})
    return booster


def _booster_of(model: Any) -> Booster:
    if isinstance(model, Mapping):
        if "booster" not in model:
            raise ParameterError(
                'model has no "booster"; pass what hornbeam.dask.train returns',
                code=ErrorCode.NOT_A_MODEL,
            )
        model = model["booster"]
    if not isinstance(model, Booster):
        raise ParameterError(
            "model must be what hornbeam.dask.train returns, a Booster or a future of "
            f"one, not {words(model)}",
            code=ErrorCode.NOT_A_MODEL,
        )
    return model


def _predict_array(
    booster: Any,
    data: da.Array,
    task: Task,
    base_margin: Any,
    outcome: Outcome,
) -> da.Array:
    width, dtype = outcome.width, outcome.dtype
    if data.ndim != 2:
        raise DataError(
            f"data has {data.ndim} dimensions; pass rows x columns to predict",
            code=ErrorCode.WRONG_DIMENSIONS,
        )
    data = one_block_wide(data)
    if base_margin is not None:
        base_margin = _margin_of_array(base_margin, data)
    return da.map_blocks(
        _of_array,
        task,
        booster,
        data,
        base_margin,
        width,
        chunks=(data.chunks[0], *((size,) for size in width)),
        drop_axis=[] if width else [1],
        new_axis=[axis + 2 for axis in range(len(width) - 1)],
        dtype=dtype,
        meta=np.empty((0,) * (1 + len(width)), dtype),
    )


def _margin_of_array(base_margin: Any, data: da.Array) -> da.Array:
    """Return margins in two dimensions, in the chunks of the data's rows."""
    if not isinstance(base_margin, da.Array):
        if not hasattr(base_margin, "to_dask_array"):
            raise DataError(
                f"base_margin is {words(base_margin)}; pass a dask.array, or a series",
                code=ErrorCode.UNSUPPORTED_COLLECTION,
            )
        base_margin = base_margin.to_dask_array()
    if base_margin.ndim == 1:
        base_margin = base_margin[:, None]
    base_margin = one_block_wide(base_margin)
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


def _of_array(
    task: Task,
    booster: Booster,
    block: npt.NDArray[Any],
    base_margin: npt.NDArray[Any] | None,
    width: tuple[int, ...],
) -> npt.NDArray[Any]:
    return _shaped(task(booster, block, base_margin), width)


def _shaped(found: npt.NDArray[Any], width: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the predictions of no rows in the shape of those of some."""
    return found.reshape(-1, *width) if found.size == 0 else found


def _predict_frame(
    booster: Any,
    data: Any,
    task: Task,
    base_margin: Any,
    outcome: Outcome,
) -> Any:
    import dask.dataframe as dd
    import pandas as pd

    width = outcome.width
    if len(width) > 1:
        raise DataError(
            "a prediction of a row has several dimensions, which a dataframe cannot "
            "hold; pass data.to_dask_array(), or a DaskDMatrix",
            code=ErrorCode.WRONG_DIMENSIONS,
        )
    if isinstance(base_margin, da.Array):
        base_margin = dd.from_dask_array(one_block_wide(base_margin))
    if base_margin is not None and base_margin.npartitions != data.npartitions:
        raise DataError(
            f"base_margin has {base_margin.npartitions} partitions and the data has "
            f"{data.npartitions}; give both the same, with repartition",
            code=ErrorCode.PARTITION_SIZE_MISMATCH,
        )
    kind = pd.DataFrame if width else pd.Series
    meta = kind(np.empty((0, *width), outcome.dtype), index=data._meta.index[:0])
    return dd.map_partitions(
        _of_frame,
        data,
        base_margin,
        task,
        booster,
        width,
        meta=meta,
        align_dataframes=False,
    )


def _of_frame(
    frame: Any, base_margin: Any, task: Task, booster: Booster, width: tuple[int, ...]
) -> Any:
    import pandas as pd

    found = _shaped(task(booster, frame, base_margin), width)
    kind = pd.DataFrame if width else pd.Series
    return kind(found, index=frame.index)


def _predict_matrix(
    model: ModelSource, data: DaskDMatrix, how: _Prediction, outcome: Outcome
) -> da.Array:
    booster = model_task(model)
    task = delayed(replace(how, opening=data.opening).of_partition, pure=True)
    pieces = []
    for number, part in enumerate(data.parts):
        rows = int(data.first_rows[number + 1] - data.first_rows[number])
        if rows:
            shape = (rows, *outcome.width)
            pieces.append(da.from_delayed(task(booster, part), shape, outcome.dtype))
    return da.concatenate(pieces)
