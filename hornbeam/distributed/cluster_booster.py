"""A booster that trains and evaluates on matrices of a cluster, through a client."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cluster import ActorLostError, RowActor
from hornbeam.backends.interface import GradientRows
from hornbeam.boosting.booster import Booster
from hornbeam.boosting.custom import ObjectiveFunction
from hornbeam.boosting.dart import MarginScale
from hornbeam.boosting.evaluation import Evaluator
from hornbeam.boosting.learner import Learner
from hornbeam.boosting.margin_cache import MarginCache
from hornbeam.boosting.predictor import Predictor
from hornbeam.boosting.trainer import Trainer
from hornbeam.distributed.binning import GlobalBins
from hornbeam.distributed.label_info import LabelInfo
from hornbeam.distributed.parameter_checks import (
    check_cluster_booster,
    check_cluster_parameters,
)
from hornbeam.distributed.partitioned_matrix import PartitionedMatrix
from hornbeam.distributed.placed_matrices import ClusterMargins, ClusterTraining
from hornbeam.distributed.training_rows import MetaInfoView, ModelState
from hornbeam.distributed.transport import Transport
from hornbeam.errors import ClusterError, DataError, ErrorCode, ParameterError
from hornbeam.forest.layout import Layout
from hornbeam.forest.model import Model
from hornbeam.objectives.base import Objective
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.params import Parameters, ParameterSource

__all__ = ["ClusterBooster", "ClusterLearner"]

Floats = NDArray[np.float64]

#: The maximum number of attempts of one round.
_MAX_ATTEMPTS = 20


class ClusterLearner(Learner):
    """A learner that accepts only what a cluster can train."""

    def check(self, parameters: Parameters, objective: Objective) -> None:
        super().check(parameters, objective)
        check_cluster_parameters(parameters)


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
    ) -> None:
        function = self._use_objective(fobj)
        if function is None:
            self._trainer.step(dtrain)
            return
        custom = self._cluster.custom_objective(function)
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


class ClusterMarginCache(MarginCache):
    """The margins of matrices on a cluster, which their workers keep.

    Parameters
    ----------
    learner, predictor
        Of the model.
    cluster
        The cluster.
    """

    def __init__(
        self, learner: Learner, predictor: Predictor, cluster: Transport
    ) -> None:
        super().__init__(learner, predictor)
        self._cluster = cluster
        self._training: ClusterTraining | None = None
        self._made_with: tuple[Any, ...] | None = None
        self._evaluated: dict[int, ClusterMargins] = {}

    @property
    def actors(self) -> Sequence[RowActor]:
        """The actors that have the training rows; none before the first round."""
        return () if self._training is None else self._training.actors

    def margins(self, data: Any) -> Floats:
        return self._rows_of(data).margins()

    def labelled(self, data: Any) -> MetaInfoView:
        return self._rows_of(data).view()

    def _rows_of(self, data: Any) -> ClusterTraining | ClusterMargins:
        if self._training is not None and self._training.matrix is data:
            return self._training
        rows = self._evaluated.get(id(data))
        if rows is None:
            rows = ClusterMargins(self, *self._placement(data))
            rows.place()
            self._evaluated[id(data)] = rows
        return rows

    def training_data(self, data: Any, use_objective: bool) -> ClusterTraining:
        """Return the rows of `data` ready for another round of trees."""
        p, learner = self.params, self._learner
        check_cluster_booster(p)
        training = self._training
        made_with = (
            p.bins(),
            p.method(),
            p.nthread,
            p.booster,
            p.multi_strategy,
            p.sketch_outputs,
            p.margin_type,
        )
        if training is not None:
            if training.matrix is data and self._made_with == made_with:
                return training
            training.close()
        if use_objective:
            learner.set_num_target(data.n_targets)
        if p.method() == "approx":
            _check_values(data)
        if data.max_bin not in (None, p.bins()):
            raise DataError(
                f"this {type(data).__name__} was made with max_bin={data.max_bin} and "
                f"cannot serve max_bin={p.bins()}; use the same number for both",
                code=ErrorCode.MAX_BIN_MISMATCH,
            )
        if not self.model.trees:
            learner.set_features(data)
        self._made_with = made_with
        self._training = ClusterTraining(self, use_objective, *self._placement(data))
        self._training.place()
        return self._training

    def discard(self, training: Any) -> None:
        """Keep the rows: the workers go back to the margins before the round."""

    def clear(self) -> None:
        """Keep the rows: they are expensive to place, and `close` releases them."""

    def close(self) -> None:
        """Release all rows."""
        for rows in (self._training, *self._evaluated.values()):
            if rows is not None:
                rows.close()
        self._training = None
        self._evaluated.clear()

    def _placement(self, data: PartitionedMatrix) -> tuple[Any, ...]:
        """Return the arguments of a `Placement` of this matrix."""
        if self.model.num_feature == 0:
            schema, derived = data.raw_schema, data.derived
            return self._cluster, data, schema, "error", "the other partitions", derived
        schema, derived = self._learner.schema(), self.model.derived
        return self._cluster, data, schema, self.params.unseen, "training", derived

    # The state of the model, as the workers need it

    @property
    def model(self) -> Model:
        return self._learner.model

    @property
    def params(self) -> Parameters:
        return self._learner.params

    @property
    def objective(self) -> Objective:
        return self._learner.objective

    def base(self) -> Floats:
        return self._predictor.base_margins()

    def model_state(
        self,
        weights: NDArray[np.float32],
        scale: MarginScale | None,
        with_objective: bool = False,
    ) -> ModelState:
        p, n_trees = self.params, len(self.model.trees)
        columns = p.multi_output_columns(self.model.n_outputs)
        step, layout = 0.0 if scale is None else scale.step, None
        if n_trees > 0:
            every = np.arange(n_trees)
            layout = self._predictor.layout_of(every, weights, np.float64, step)
        return ModelState(
            self.base(),
            layout,
            n_trees,
            p.num_parallel_tree * (1 if columns > 0 else self.model.n_outputs),
            p.nthread,
            p.cached_share(),
            self.objective if with_objective and self.objective.by_row else None,
            columns,
            step,
            self._predictor.sum_type,
        )

    def layout_between(
        self,
        before: NDArray[np.float32],
        weights: NDArray[np.float32],
        scale: MarginScale | None,
    ) -> Layout | None:
        step = 0.0 if scale is None else scale.step
        return self._predictor.layout_between(before, weights, np.float64, step)

    def initialize(
        self, labels: LabelInfo, base_score: Floats | None, bins: GlobalBins
    ) -> None:
        """Set base score and types of a model without trees by the training data."""
        if self.model.trees:
            return
        self._learner.set_base_score(base_score, labels.span)
        self.model.exact_features = not bins.facts.is_float32


def _check_values(data: PartitionedMatrix) -> None:
    """Raise an error unless workers can keep the values of this matrix in memory."""
    if data.max_bin is not None:
        name = type(data).__name__
        raise DataError(
            "tree_method='approx' needs the values of the features, and a "
            f"{name} has only their bins; make a {name.replace('Quantile', '')}",
            code=ErrorCode.RAW_VALUES_NEEDED,
        )
    if data.reader.caching is not None:
        raise DataError(
            "tree_method='approx' keeps the values in memory, and this matrix has a "
            "cache for their bins; use tree_method='hist', or make the matrix without "
            "cache",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )


def _plain(booster: Booster) -> Booster:
    """Return the booster that a pickle contains."""
    return booster
