"""Training and prediction on plain processes: a client, and workers that it calls.

    from functools import partial
    from hornbeam.distributed.process_cluster import ProcessCluster
    from hornbeam.distributed.processes import ProcessDMatrix, predict, train

    with ProcessCluster(n_workers=2) as cluster:
        data = ProcessDMatrix(cluster, [partial(read, path) for path in paths])
        result = train(cluster, {"objective": "binary:logistic"}, data, 100)
        predictions = predict(cluster, result["booster"], data)

The model equals that of `hornbeam.train` on the same rows, byte for byte, for any
number of workers, whichever of them die during training. `read` is a function of a
module that the workers can import, and returns a dict such as
``{"data": features, "label": labels}``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.boosting.booster import Booster
from hornbeam.data.categories import Categories
from hornbeam.data.opening import Folders, cache_options
from hornbeam.distributed.cluster_booster import ClusterBooster, train_booster
from hornbeam.distributed.partitioned_matrix import PartitionedMatrix
from hornbeam.distributed.partitions import Partition, PartitionReader
from hornbeam.distributed.prediction import PartitionPrediction, prediction_meta_of
from hornbeam.distributed.process_cluster import ProcessCluster
from hornbeam.distributed.worker_process import PartitionSource
from hornbeam.errors import DataError, ErrorCode
from hornbeam.params import ParameterSource
from hornbeam.training import check_training_data

__all__ = ["ProcessDMatrix", "predict", "train"]


class ProcessDMatrix(PartitionedMatrix):
    """Features with labels and so on, in partitions that worker processes read.

    Parameters
    ----------
    cluster
        The worker processes.
    parts
        A function for each partition, in the order of rows. It returns a dict of
        ``"data"``, any container that `hornbeam.DMatrix` takes, and of ``"label"`` and
        other fields of these rows: weight, base_margin, qid, group, row_key and so on.
        A worker calls it whenever it needs the rows; it has to return the same each
        time.
    missing, feature_names, feature_types, feature_weights, enable_categorical, dates
        As for `hornbeam.DMatrix`.
    cache, memory_limit, codec
        As for `hornbeam.dask.DaskDMatrix`.
    """

    def __init__(
        self,
        cluster: ProcessCluster,
        parts: Sequence[Callable[[], dict[str, Any]]],
        *,
        missing: float | None = None,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | Categories | None = None,
        feature_weights: Any = None,
        enable_categorical: bool = True,
        cache: Folders | None = None,
        memory_limit: int | str | None = None,
        codec: str = "auto",
        dates: str = "error",
    ) -> None:
        if not parts:
            raise DataError(
                "there are no partitions; pass a function for each one",
                code=ErrorCode.EMPTY_DATA,
            )
        _, caching = cache_options(None, cache, memory_limit, codec)
        self.reader = PartitionReader(
            missing, feature_names, feature_types, enable_categorical, caching, dates
        )
        self.parts = [PartitionSource(k, read) for k, read in enumerate(parts)]
        self._cluster = cluster
        self._describe(feature_weights)

    def _map(self, task: Any, *args: Any) -> list[Any]:
        return self._cluster.map(task, self.parts, *args)


def train(
    cluster: ProcessCluster,
    params: ParameterSource,
    dtrain: ProcessDMatrix,
    num_boost_round: int = 10,
    *,
    xgb_model: Booster | str | os.PathLike[str] | bytes | bytearray | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return a dict of the ``"booster"`` and the ``"history"`` of its metrics.

    Parameters
    ----------
    cluster
        The worker processes. Those that are lost are replaced by the others, and those
        that connect later are used.
    params, dtrain, num_boost_round, xgb_model, options
        As for `hornbeam.dask.train`: ``evals``, ``obj``, ``early_stopping_rounds``,
        ``verbose_eval``, ``callbacks`` and ``custom_metric``. A custom objective is a
        function of a module.
    """
    check_training_data(dtrain, options.get("evals"), ProcessDMatrix)
    booster = ClusterBooster(cluster, params, xgb_model)
    return train_booster(cluster, booster, dtrain, num_boost_round, **options)


def predict(
    cluster: ProcessCluster, model: Booster, data: ProcessDMatrix, **arguments: Any
) -> npt.NDArray[Any]:
    """Return the predictions of all rows, those of `Booster.predict`.

    Parameters
    ----------
    cluster
        The worker processes; each partition is predicted by one of them.
    model, arguments
        The booster, and options of its `predict`.
    data
        The rows.
    """
    meta = prediction_meta_of(model, arguments)
    task = PartitionPrediction(arguments, data.reader)
    one_thread = model.copy()
    one_thread.set_param({"nthread": 1})
    found = cluster.map(_predict, data.parts, task, one_thread)
    rows = [part for part in found if part is not None]
    return np.concatenate(rows).astype(meta.dtype, copy=False)


def _predict(
    part: Partition, task: PartitionPrediction, model: Booster
) -> npt.NDArray[Any] | None:
    return task.of_partition(model, part)
