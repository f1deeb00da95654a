"""`train` on a Dask cluster, with the arguments of xgboost.dask.train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import dask
from distributed import Client

from hornbeam.callbacks import TrainingCallback
from hornbeam.callbacks.base import EvalsLog
from hornbeam.dask.cluster import DaskCluster
from hornbeam.dask.matrix import DaskDMatrix
from hornbeam.distributed.cluster_booster import (
    ClusterBooster,
    ClusterLearner,
    train_booster,
)
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.params import ParameterSource
from hornbeam.training import check_training_data
from hornbeam.xgboost.booster import Booster
from hornbeam.xgboost.dask.client import with_client
from hornbeam.xgboost.deprecation import deprecate_positional_args
from hornbeam.xgboost.learner import XGBoostLearner
from hornbeam.xgboost.parameters import as_pairs
from hornbeam.xgboost.training import all_callbacks

__all__ = ["TrainReturnT", "train"]


class _Learner(XGBoostLearner, ClusterLearner):
    """XGBoost's rankings, of what a cluster can train."""


class _Booster(ClusterBooster):
    """A booster on a cluster whose rankings are XGBoost's."""

    _learner_class = _Learner


class TrainReturnT(TypedDict):
    """The result of `train`: the model, and the metrics of each round."""

    booster: Booster
    history: EvalsLog


@deprecate_positional_args
@with_client
def train(
    client: Client | None,
    params: ParameterSource,
    dtrain: DaskDMatrix,
    num_boost_round: int = 10,
    *,
    evals: Sequence[tuple[DaskDMatrix, str]] | None = None,
    obj: Any = None,
    early_stopping_rounds: int | None = None,
    xgb_model: Booster | None = None,
    verbose_eval: int | bool = True,
    callbacks: Sequence[TrainingCallback] | None = None,
    custom_metric: Any = None,
    coll_cfg: Any = None,
) -> Any:
    """Return a dict of the ``"booster"`` and the ``"history"`` of its metrics.

    The arguments are those of `hornbeam.dask.train`. Callbacks run, and metrics are
    printed, in the client's process. With an asynchronous client the dict, a
    `TrainReturnT`, has to be awaited.
    """
    _check_settings()
    given = dict(as_pairs(params))
    _check_parameters(given)
    booster = Booster(given)
    check_training_data(dtrain, evals, DaskDMatrix)
    resolved = booster.resolved(dtrain.n_targets)
    cluster = DaskCluster(client)
    found = train_booster(
        cluster,
        _Booster(cluster, resolved, xgb_model),
        dtrain,
        num_boost_round,
        evals=evals,
        obj=obj,
        early_stopping_rounds=None,
        verbose_eval=None,
        callbacks=all_callbacks(callbacks, verbose_eval, early_stopping_rounds, None),
        custom_metric=custom_metric,
    )
    trained = found["booster"]
    booster._replace_model(trained.model, trained.params, trained._learner.loss)
    if not trained.params.nthread > 0:
        booster.set_param({"nthread": _threads_of(client)})
    return TrainReturnT(booster=booster, history=found["history"])


def _check_settings() -> None:
    """Raise an error for unknown settings under ``xgboost`` in Dask's configuration."""
    unknown = sorted(dask.config.get("xgboost", {}).keys() - {"scheduler_address"})
    if unknown:
        raise ParameterError(
            f"Unknown configuration: {', '.join(unknown)} in Dask's settings for "
            "xgboost; the only setting is scheduler_address",
            code=ErrorCode.UNKNOWN_PARAMETER,
        )


def _check_parameters(given: Mapping[str, Any]) -> None:
    """Raise an error for parameters that work on one machine only."""
    if given.get("booster") == "gblinear":
        raise NotImplementedError(
            "booster `gblinear` is not supported for distributed training; train it "
            "on one machine, with hornbeam.xgboost.train"
        )
    device = given.get("device")
    if device and not isinstance(device, str):
        raise TypeError(
            "Invalid type for the `device` parameter. Expecting a str, got: "
            f"{type(device).__name__}"
        )
    if device and ":" in device and device != "sycl:gpu":
        raise ParameterError(
            "Distributed training doesn't support selecting device ordinal, as in "
            f"device={device!r}; leave the number out",
            code=ErrorCode.UNSUPPORTED_ON_CLUSTER,
        )


def _threads_of(client: Any) -> int:
    """Return the number of threads of the largest worker, for the model's nthread."""
    return max(client.nthreads().values(), default=1)
