"""A booster that trains and evaluates on matrices of a cluster, through a client."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from hornbeam.backends.cluster import ActorLostError, RowActor
from hornbeam.backends.interface import GradientRows
from hornbeam.boosting.booster import Booster
from hornbeam.boosting.custom import MetricFunction, ObjectiveFunction
from hornbeam.boosting.evaluation import Evaluator
from hornbeam.boosting.learner import Learner
from hornbeam.boosting.predictor import Predictor
from hornbeam.boosting.trainer import Trainer
from hornbeam.callbacks import TrainingCallback, TrainingCheckPoint
from hornbeam.distributed.parameter_checks import check_cluster_training
from hornbeam.distributed.partitioned_matrix import PartitionedMatrix
from hornbeam.distributed.placed_matrices import ClusterMarginCache
from hornbeam.distributed.transport import Transport
from hornbeam.errors import ClusterError, ErrorCode, ParameterError
from hornbeam.objectives.base import Objective
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.params import Parameters, ParameterSource
from hornbeam.training import run_rounds

__all__ = ["ClusterBooster", "ClusterLearner", "train_booster"]

#: The maximum number of attempts of one round.
_MAX_ATTEMPTS = 20


class ClusterLearner(Learner):
    """A learner that accepts only what a cluster can train."""

    def check(self, parameters: Parameters, objective: Objective) -> None:
        super().check(parameters, objective)
        check_cluster_training(parameters)


class ClusterBooster(Booster):
    """A booster whose training and evaluation rows are on the workers of a cluster.

    The model is on the client, which takes all decisions. Its trainer runs the same
    step as that of a `Booster`.

    Parameters
    ----------
    cluster
        The cluster.
    params, model_file
        As for `Booster`.
    """

    _learner_class: type[ClusterLearner] = ClusterLearner

    def __init__(
        self,
        cluster: Transport,
        params: ParameterSource | None = None,
        model_file: Booster | str | os.PathLike[str] | bytes | bytearray | None = None,
    ) -> None:
        self._cluster = cluster
        super().__init__(params, None, model_file)

    def _compose(self, parameters: Parameters) -> None:
        learner = self._learner_class(parameters)
        predictor = Predictor(learner)
        self._cache = ClusterMarginCache(learner, predictor, self._cluster)
        self._learner, self._predictor = learner, predictor
        self._trainer = ClusterTrainer(learner, predictor, self._cache)
        self._evaluator = Evaluator(learner, predictor, self._cache)

    def plain(self) -> Booster:
        """Return a `Booster` of the same model, without the cluster."""
        return Booster(model_file=self)

    def copy(self) -> ClusterBooster:
        return type(self)(self._cluster, model_file=self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _plain, (self.plain(),)

    @property
    def actors(self) -> Sequence[RowActor]:
        """The actors on workers that have the training rows."""
        return self._cache.actors

    def close(self) -> None:
        """Release the rows on the workers."""
        self._cache.close()

    def update(
        self,
        dtrain: Any,
        iteration: int,
        fobj: ObjectiveFunction | ScalarLoss | None = None,
        rounds: int = 1,
    ) -> None:
        function = self._use_objective(fobj)
        if function is None:
            self._trainer.steps(dtrain, rounds)
            return
        custom = self._cluster.custom_objective(function)
        for _ in range(rounds):
            self._trainer.step(dtrain, lambda rows: rows.compute_gradients(custom))

    def boost(self, *args: Any, **options: Any) -> None:
        raise ParameterError(
            "gradients cannot be given to a booster on a cluster: its rows are on the "
            "workers; pass the objective as obj to train",
            code=ErrorCode.UNSUPPORTED_ON_CLUSTER,
        )


class ClusterTrainer(Trainer):
    """A trainer that repeats a round in which workers are lost.

    The repeated round, on the remaining workers, grows the same trees.
    """

    _cache: ClusterMarginCache

    def step(
        self, data: Any, set_gradients: Callable[[GradientRows], None] | None = None
    ) -> None:
        training = self._cache.training_data(data, set_gradients is None)
        for _ in range(_MAX_ATTEMPTS):
            try:
                training.rebalance()
                super().step(data, set_gradients)
                return
            except ActorLostError as lost:
                training.recover(lost)
        raise ClusterError(
            f"workers were lost {_MAX_ATTEMPTS} times in one round; see their logs",
            code=ErrorCode.WORKERS_LOST,
        )


def _plain(booster: Booster) -> Booster:
    """Return the booster that a pickle contains."""
    return booster


def train_booster(
    cluster: Transport,
    booster: ClusterBooster,
    dtrain: PartitionedMatrix,
    num_boost_round: int,
    *,
    evals: Sequence[tuple[PartitionedMatrix, str]] | None = None,
    obj: ObjectiveFunction | ScalarLoss | None = None,
    early_stopping_rounds: int | None = None,
    verbose_eval: bool | int | None = True,
    callbacks: Sequence[TrainingCallback] | None = None,
    custom_metric: MetricFunction | None = None,
) -> dict[str, Any]:
    """Train a booster, and release its rows and its cluster; return as
    `hornbeam.dask.train` does.

    Parameters
    ----------
    cluster, booster
        The cluster, and the booster on it.
    dtrain, num_boost_round, evals, obj, early_stopping_rounds, verbose_eval, \
callbacks, custom_metric
        As for `hornbeam.dask.train`.
    """
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
        if error.code == ErrorCode.CLUSTER_FAILURE:  # it would come again
            raise
        raise ClusterError(
            f"{error}{_resume_hint(callbacks)}", code=error.code, **error.details
        ) from error
    finally:
        booster.close()
        cluster.close()
    return {"booster": Booster(model_file=trained), "history": log.history}


def _resume_hint(callbacks: Sequence[TrainingCallback]) -> str:
    """Return the end of an error message: how to resume training."""
    saved = [
        callback.latest
        for callback in callbacks
        if isinstance(callback, TrainingCheckPoint) and callback.latest is not None
    ]
    if not saved:
        return (
            "; pass a TrainingCheckPoint as a callback to keep the trees grown so far"
        )
    return f"; continue from the last checkpoint: xgb_model={str(saved[-1])!r}"
