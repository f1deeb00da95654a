"""A booster whose rows are on the workers of a cluster; the model is here."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cluster import MemberLostError
from hornbeam.boosting.booster import Booster
from hornbeam.boosting.custom import ObjectiveFunction
from hornbeam.boosting.dart import Scale, contributions_in
from hornbeam.boosting.gbtree import boost_round
from hornbeam.dask.binning import GlobalBins
from hornbeam.dask.cluster import DaskCluster
from hornbeam.dask.learning import CallersObjective, Start, View
from hornbeam.dask.margin_cache import ClusterMargins, ClusterTraining
from hornbeam.dask.matrix import DaskDMatrix, DaskQuantileDMatrix
from hornbeam.dask.shard import LabelInfo
from hornbeam.errors import ClusterError, DataError, ErrorCode, ParameterError
from hornbeam.forest.layout import Layout
from hornbeam.objectives.base import Objective
from hornbeam.objectives.compiled import ScalarLoss
from hornbeam.params import Parameters, ParameterSource

__all__ = ["ClusterBooster"]

Floats = NDArray[np.float64]

#: How often a round is done again.
_MOST_LOSSES = 20


class ClusterBooster(Booster):
    """A booster that trains on, and measures, matrices of a Dask cluster.

    All decisions are taken here, where the client is. A round in which workers are
    lost is done again with others, and ends in the same trees.

    Parameters
    ----------
    cluster
        Where the members are.
    params, model_file
        As for `Booster`.
    """

    def __init__(
        self,
        cluster: DaskCluster,
        params: ParameterSource | None = None,
        model_file: Booster | str | os.PathLike[str] | bytes | bytearray | None = None,
    ) -> None:
        self._cluster = cluster
        self._training: ClusterTraining | None = None
        self._made_for: tuple[Any, ...] | None = None
        self._measured_rows: dict[int, ClusterMargins] = {}
        super().__init__(params, None, model_file)

    def plain(self) -> Booster:
        """Return a booster of the same model that knows of no cluster."""
        return Booster(model_file=self)

    def copy(self) -> ClusterBooster:
        return ClusterBooster(self._cluster, model_file=self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _plain, (self.plain(),)

    def close(self) -> None:
        """Let go of all rows."""
        for holding in (self._training, *self._measured_rows.values()):
            if holding is not None:
                holding.close()
        self._training = None
        self._measured_rows.clear()

    # Training

    def _check(self, parameters: Parameters, objective: Objective) -> None:
        super()._check(parameters, objective)
        if parameters.process_type == "update":
            raise ParameterError(
                "process_type='update' is not in Hornbeam yet where the rows are on a "
                "cluster; train with hornbeam.train, from disk if need be: "
                "ExtMemQuantileDMatrix",
                code=ErrorCode.UNSUPPORTED_ON_CLUSTER,
            )
        method = parameters.method()
        if method == "exact" or parameters.sketch_scope == "local":
            what = (
                "sketch_scope='local'" if method == "approx" else "tree_method='exact'"
            )
            raise ParameterError(
                f"{what} doesn't support distributed training: it looks at all values "
                "of a column in order; use hornbeam.train, or tree_method='hist' or "
                "'approx' on a cluster",
                code=ErrorCode.UNSUPPORTED_ON_CLUSTER,
            )
        many = "multi_output_tree"
        if method == "approx" and parameters.multi_strategy == many:
            raise ParameterError(
                f"multi_strategy={many!r} on a cluster goes with tree_method='hist', "
                "not with 'approx'; use hornbeam.train, or leave one of them out",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )
        if parameters.leaf_solver != "newton":
            raise ParameterError(
                f"leaf_solver={parameters.leaf_solver!r} learns on one machine, not on "
                "a cluster; use hornbeam.train, or leave leaf_solver out",
                code=ErrorCode.UNSUPPORTED_ON_CLUSTER,
            )

    def update(
        self,
        dtrain: Any,
        iteration: int,
        fobj: ObjectiveFunction | ScalarLoss | None = None,
    ) -> None:
        fobj = self._function_in(fobj)
        training = self._training_on(dtrain, estimate=fobj is None)
        for _ in range(_MOST_LOSSES):
            try:
                self._boost(training, fobj)
                break
            except MemberLostError as lost:
                training.recover(lost)
        else:
            raise ClusterError(
                f"workers were lost {_MOST_LOSSES} times in one round; look into their "
                "logs",
                code=ErrorCode.WORKERS_LOST,
            )
        self._end_round()

    def boost(self, *args: Any, **options: Any) -> None:
        raise ParameterError(
            "gradients cannot be given to a booster on a cluster: its rows are on the "
            "workers; pass the objective as obj to train",
            code=ErrorCode.UNSUPPORTED_ON_CLUSTER,
        )

    def _boost(self, training: ClusterTraining, fobj: ObjectiveFunction | None) -> None:
        training.rebalance()
        dropout, model = self._next_dropout(), self.model
        weights, known = model.weights, len(model.trees)
        if dropout is not None:
            training.reweight(dropout.during(weights))
        if fobj is not None:
            training.backend.compute_gradients(CallersObjective.of(fobj))
        else:
            by_row = self.objective.by_row
            info = None if by_row else training.view().info
            self._compute_gradients(training.backend, info)
        boost_round(
            training.backend,
            training,
            self.params,
            model,
            training.matrix.feature_weights,
            contributions_in(dropout, training.scale),
        )
        if dropout is not None:
            model.tree_weights = dropout.after(weights, len(model.trees) - known)
            training.weights = np.concatenate(
                [training.weights, model.tree_weights[known:]]
            )
            training.rescale(model.trees[known:])

    def _training_on(self, data: DaskDMatrix, estimate: bool) -> ClusterTraining:
        """Return the rows of `data` ready for another round of this model."""
        if self.params.booster == "gblinear":
            raise ParameterError(
                "booster='gblinear' does not train on a cluster; train it on one "
                "machine with hornbeam.train",
                code=ErrorCode.UNSUPPORTED_ON_CLUSTER,
            )
        training = self._training
        p = self.params
        made_for = (
            p.bins(),
            p.method(),
            p.nthread,
            p.booster,
            p.multi_strategy,
            p.sketch_outputs,
        )
        if training is not None:
            if training.matrix is data and self._made_for == made_for:
                return training
            training.close()
        if estimate:
            self._take_targets(data.n_targets)
        if p.method() == "approx":
            self._check_values(data)
        if isinstance(data, DaskQuantileDMatrix) and data.max_bin != made_for[0]:
            raise DataError(
                f"this DaskQuantileDMatrix was made with max_bin={data.max_bin} and "
                f"cannot serve max_bin={made_for[0]}; use the same number for both",
                code=ErrorCode.MAX_BIN_MISMATCH,
            )
        if not self.model.trees:
            self._take_columns(data)
        self._made_for = made_for
        self._training = ClusterTraining(self, estimate, *self._held(data))
        self._training.place()
        return self._training

    def _check_values(self, data: DaskDMatrix) -> None:
        """Raise an error unless workers can hold the values of this matrix."""
        if isinstance(data, DaskQuantileDMatrix):
            raise DataError(
                "tree_method='approx' needs the values themselves, and a "
                "DaskQuantileDMatrix is for the codes of its bins; make a DaskDMatrix",
                code=ErrorCode.RAW_VALUES_NEEDED,
            )
        if data.reader.caching is not None:
            raise DataError(
                "tree_method='approx' holds the values in memory, and this matrix has "
                "a cache for their codes; use tree_method='hist', or make it without "
                "cache",
                code=ErrorCode.UNSUPPORTED_COMBINATION,
            )

    def _held(self, data: DaskDMatrix) -> tuple[Any, ...]:
        """Return what a `MarginCache` of this matrix is made with."""
        if self.model.num_feature == 0:
            return self._cluster, data, data.schema, "error", "the other partitions"
        expected = self._expected(True)
        return self._cluster, data, expected, self.params.unseen, "training"

    def base(self) -> Floats:
        return self._base()

    def start_now(
        self,
        weights: NDArray[np.float32],
        scale: Scale | None,
        learns: bool = False,
    ) -> Start:
        p, n_trees = self.params, len(self.model.trees)
        columns = p.multi_output_columns(self.model.n_outputs)
        step, layout = 0.0 if scale is None else scale.step, None
        if n_trees > 0:
            layout = self._layout_of(np.arange(n_trees), weights, np.float64, step)
        return Start(
            self._base(),
            layout,
            n_trees,
            p.num_parallel_tree * (1 if columns > 0 else self.model.n_outputs),
            p.nthread,
            p.cached_share(),
            self.objective if learns and self.objective.by_row else None,
            columns,
            step,
        )

    def changes(
        self,
        before: NDArray[np.float32],
        weights: NDArray[np.float32],
        scale: Scale | None,
    ) -> Layout | None:
        step = 0.0 if scale is None else scale.step
        return self._changes(before, weights, np.float64, step)

    def begin_on(
        self, facts: LabelInfo, start: Floats | None, bins: GlobalBins
    ) -> None:
        """Begin the model, if it has no trees, from what the training data says."""
        if self.model.trees:
            return
        span = None
        if facts.least is not None and facts.most is not None:
            span = facts.least, facts.most
        self._begin_from(start, span)
        self.model.exact_features = not bins.facts.is_float32

    # Evaluation

    def _measured(self, data: Any) -> tuple[Floats, View]:
        training = self._training
        if training is not None and training.matrix is data:
            return training.margins(), training.view()
        rows = self._measured_rows.get(id(data))
        if rows is None:
            rows = ClusterMargins(self, *self._held(data))
            rows.place()
            self._measured_rows[id(data)] = rows
        return rows.margins(), rows.view()


def _plain(booster: Booster) -> Booster:
    """Return what a pickle holds."""
    return booster
