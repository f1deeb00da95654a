"""The loop of training where the rows are on the workers of a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from distributed import Client

from hornbeam.boosting.booster import Booster
from hornbeam.boosting.custom import MetricFunction, ObjectiveFunction
from hornbeam.callbacks import TrainingCallback, TrainingCheckPoint
from hornbeam.dask.booster import ClusterBooster
from hornbeam.dask.cluster import DaskCluster
from hornbeam.dask.matrix import DaskDMatrix
from hornbeam.dask.shard import Shard
from hornbeam.dask.sync import with_client
from hornbeam.errors import ClusterError
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.params import ParameterSource
from hornbeam.training import check_training_data, run_rounds

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

    The booster is that of `hornbeam.train` with the same rows on one machine, byte for
    byte, however many workers there are, whatever partitions, and whether or not
    workers are lost on the way. With an asynchronous client the dict has to be awaited.

    Parameters
    ----------
    client
        The client of the cluster; None for the one that Dask has. It must stay open.
    params
        Parameters, as a mapping or as pairs of name and value. ``nthread`` is that of
        each worker; by default the threads that Dask gives it.
    dtrain
        Data with labels.
    num_boost_round
        Rounds to add.
    evals
        Data to measure after every round, with a name for each.
    obj
        An objective of your own: formulas (a `ScalarLoss`), or a function
        of (predictions, data) to (gradients, hessians). It runs on every worker and
        gets the margins of the rows there, and their labels.
    early_stopping_rounds
        Stop when the last metric of the last of `evals` has not become better for so
        many rounds.
    xgb_model
        A model to continue; it is not changed.
    verbose_eval
        Print the metrics every round, every so many rounds, or not.
    callbacks
        See `hornbeam.callbacks`; they run where the client is.
    custom_metric
        A metric of your own: (predictions, data) to (name, value), of all rows, where
        the client is.
    coll_cfg
        Taken for XGBoost's sake: the workers need no connections but Dask's.
    patience
        Seconds without any sign of life after which a worker is given up, and its
        partitions go to others; by default the setting ``hornbeam.patience`` of Dask,
        or 10.
    """
    check_training_data(dtrain, evals, DaskDMatrix)
    cluster = DaskCluster(client, Shard, patience=patience)
    booster = ClusterBooster(cluster, params, xgb_model)
    callbacks = list(callbacks or ())
    try:
        trained, log = run_rounds(
            booster,
            dtrain,
            num_boost_round,
            evals=evals,
            obj=obj,
            maximize=None,
            early_stopping_rounds=early_stopping_rounds,
            verbose_eval=verbose_eval,
            callbacks=callbacks,
            custom_metric=custom_metric,
        )
    except ClusterError as error:
        raise ClusterError(
            f"{error}{_way_on(callbacks)}", code=error.code, **error.details
        ) from error
    finally:
        booster.close()
        cluster.close()
    return {"booster": Booster(model_file=trained), "history": log.history}


def _way_on(callbacks: Sequence[TrainingCallback]) -> str:
    """Return where a training that broke off can be taken up again."""
    saved = [
        callback.latest
        for callback in callbacks
        if isinstance(callback, TrainingCheckPoint) and callback.latest is not None
    ]
    if not saved:
        return "; a TrainingCheckPoint among the callbacks would have kept its trees"
    return f"; go on from the last checkpoint: xgb_model={str(saved[-1])!r}"
