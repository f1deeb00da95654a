"""`train` on a Dask cluster, with the arguments of xgboost.dask.train."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from distributed import Client

from hornbeam.boosting.booster import Booster
from hornbeam.boosting.custom import MetricFunction, ObjectiveFunction
from hornbeam.callbacks import TrainingCallback
from hornbeam.dask.client import with_client
from hornbeam.dask.cluster import DaskCluster
from hornbeam.dask.matrix import DaskDMatrix
from hornbeam.distributed.cluster_booster import ClusterBooster, train_booster
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.params import ParameterSource
from hornbeam.training import check_training_data

__all__ = ["train"]


@with_client
def train(
    client: Client | None,
    params: ParameterSource,
    dtrain: DaskDMatrix,
    num_boost_round: int = 10,
    *,
    evals: Sequence[tuple[DaskDMatrix, str]] | None = None,
    obj: ObjectiveFunction | ScalarLoss | None = None,
    early_stopping_rounds: int | None = None,
    xgb_model: Booster | str | os.PathLike[str] | bytes | bytearray | None = None,
    verbose_eval: bool | int | None = True,
    callbacks: Sequence[TrainingCallback] | None = None,
    custom_metric: MetricFunction | None = None,
    coll_cfg: Any = None,
    patience: float | str | None = None,
) -> Any:
    """Return a dict of the ``"booster"`` and the ``"history"`` of its metrics.

    The booster equals that of `hornbeam.train` on the same rows on one machine, byte
    for byte, for any number of workers, any partitions, and whether or not workers are
    lost during training. With an asynchronous client the dict has to be awaited.

    Parameters
    ----------
    client
        The client of the cluster; None for Dask's default client. It must stay open.
    params
        Parameters, as a mapping or as pairs of name and value. ``nthread`` is the
        number of threads on each worker; by default that of the Dask worker.
    dtrain
        Training data with labels.
    num_boost_round
        Number of rounds to add.
    evals
        Pairs of evaluation data and its name, evaluated after every round.
    obj
        A custom objective: formulas (a `ScalarLoss`), or a function of (predictions,
        data) to (gradients, hessians). It runs on every worker, with the margins and
        the labels of the rows there.
    early_stopping_rounds
        Stop if the last metric of the last of `evals` has not improved for this number
        of rounds.
    xgb_model
        A model to continue; it is not modified.
    verbose_eval
        Whether to print the metrics of every round, or the period in rounds.
    callbacks
        See `hornbeam.callbacks`; they run in the client's process.
    custom_metric
        A custom metric: a function of (predictions, data) to (name, value), of all
        rows. It runs in the client's process.
    coll_cfg
        Ignored; for compatibility with XGBoost. Workers use Dask's connections only.
    patience
        Seconds without a reply after which a worker is considered lost, and its
        partitions are placed on others; by default the setting ``hornbeam.patience`` of
        Dask, or 10.
    """
    check_training_data(dtrain, evals, DaskDMatrix)
    cluster = DaskCluster(client, patience=patience)
    return train_booster(
        cluster,
        ClusterBooster(cluster, params, xgb_model),
        dtrain,
        num_boost_round,
        evals=evals,
        obj=obj,
        early_stopping_rounds=early_stopping_rounds,
        verbose_eval=verbose_eval,
        callbacks=callbacks,
        custom_metric=custom_metric,
    )
