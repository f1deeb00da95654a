"""The margins of a booster on a cluster, which the workers of its matrices keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cluster import ActorLostError, Call, RowActor
from hornbeam.backends.cluster_rows import ClusterRows, Spread, join_margins
from hornbeam.backends.factory import create_hist_backend
from hornbeam.backends.interface import Backend
from hornbeam.binning.layout import HistogramLayout
from hornbeam.boosting.dart import MarginScale
from hornbeam.boosting.learner import Learner
from hornbeam.boosting.margin_cache import MarginCache
from hornbeam.boosting.predictor import Predictor
from hornbeam.data.meta_info import MetaInfo
from hornbeam.distributed.binning import (
    BinOptions,
    GlobalBins,
    bin_calls,
    bin_partitions,
)
from hornbeam.distributed.label_info import LabelInfo
from hornbeam.distributed.parameter_checks import check_cluster_training
from hornbeam.distributed.partitioned_matrix import PartitionedMatrix
from hornbeam.distributed.placement import Placement
from hornbeam.distributed.training_rows import MetaInfoView, ModelState
from hornbeam.distributed.transport import Transport
from hornbeam.errors import DataError, ErrorCode
from hornbeam.forest.layout import Layout
from hornbeam.forest.model import Model
from hornbeam.forest.tree import Tree
from hornbeam.objectives.base import Objective
from hornbeam.objectives.totals import as_totals
from hornbeam.params import Parameters

__all__ = ["ClusterMarginCache"]

Floats = NDArray[np.float64]
Weights = NDArray[np.float32]


class PlacedMatrix(Placement):
    """A matrix on the actors of a cluster, with labels and margins.

    Parameters
    ----------
    booster
        The cache of the booster, by which its state is known.
    placement
        The arguments of `Placement`.

    Attributes
    ----------
    weights
        The tree weights with which the first trees of the model are in the margins.
    scale
        The scale by which margins are rounded; None: they are not.
    """

    weights: Weights

    def __init__(self, booster: ClusterMarginCache, *placement: Any) -> None:
        super().__init__(*placement)
        self.scale: MarginScale | None = None
        self._booster = booster
        self._view: MetaInfoView | None = None

    def _initialize(self, actors: Sequence[RowActor]) -> None:
        self._set_scale(actors)
        super()._initialize(actors)

    def _set_scale(self, actors: Sequence[RowActor]) -> None:
        """Set the scale on the first call; `actors` then have all rows."""
        model = self._booster.model
        if self.scale is None:
            self.weights = model.weights
            if model.tree_weights is not None:
                base = self._booster.base()
                found = self.cluster.call(actors, "largest_margin", base)
                self.scale = MarginScale(max(found)).with_trees(model.trees)

    def extend_scale(self, trees: Sequence[Tree]) -> None:
        """Extend the scale so that it includes these trees.

        If it changes, actors compute their margins again.
        """
        if self.scale is None:
            return
        step = self.scale.step
        self.scale = self.scale.with_trees(trees)
        if self.scale.step != step:
            self.weights = self._booster.model.weights
            try:
                self._recompute()
            except ActorLostError as lost:
                self.recover(lost)

    def _recompute(self) -> None:
        """Compute the margins of all actors again."""
        super()._initialize(self.actors)

    def view(self) -> MetaInfoView:
        """Return labels, weights and so on of all rows, gathered on the first call."""
        while self._view is None:
            try:
                self._view = self._gather_fields(self.actors)
            except ActorLostError as lost:
                self.recover(lost)
        return self._view

    def _gather_fields(self, actors: Sequence[RowActor]) -> MetaInfoView:
        matrix = self.matrix
        found = self.cluster.call(actors, "fields")
        fields: dict[str, Any] = {}
        for name in found[0][1]:
            parts = [
                (spans, own[name].T.reshape(-1, len(own[name]))) for spans, own in found
            ]
            # Keys of rows are more than a float64 holds.
            dtype = np.uint64 if name == "row_key" else np.float64
            whole = join_margins(parts, (len(parts[0][1]), matrix.n_rows), dtype)
            fields[name] = whole[0] if len(whole) == 1 else whole.T
        info = MetaInfo(matrix.n_rows, matrix.n_features)
        info.set(fields)
        return MetaInfoView(info, matrix.schema)


class ClusterTraining(PlacedMatrix):
    """The training matrix on a cluster: bins, histograms and margins of its rows.

    Parameters
    ----------
    booster
        The cache of the booster, by which its state is known.
    estimate
        Whether gradients come from its objective, and so does the base score.
    placement
        The arguments of `Placement`.
    """

    def __init__(
        self, booster: ClusterMarginCache, estimate: bool, *placement: Any
    ) -> None:
        super().__init__(booster, *placement)
        self._estimate = estimate
        self._bins: GlobalBins | None = None
        #: Incremented by each recovery; actors reject messages of earlier terms.
        self._term = 0
        self._rows: ClusterRows | None = None
        self._backend: Backend | None = None
        self._per_tree_bins = booster.params.method() == "approx"
        #: Whether all actors have the bins of `bins`, from the hessians of a tree.
        self._has_tree_bins = False

    @property
    def bins(self) -> GlobalBins:
        """The cuts and the histogram layout of all rows."""
        assert self._bins is not None
        return self._bins

    @property
    def rows(self) -> ClusterRows:
        """The rows of all actors."""
        assert self._rows is not None
        return self._rows

    @property
    def backend(self) -> Backend:
        """The backend by which trees are grown on the rows."""
        assert self._backend is not None
        return self._backend

    @property
    def cuts(self) -> ClusterTraining:
        """The object whose `thresholds` returns the thresholds of splits."""
        return self

    @property
    def info(self) -> MetaInfo:
        """Labels, weights and so on of all rows."""
        return self.view().info

    @property
    def feature_weights(self) -> Floats | None:
        """(features,): the weights of features in column sampling."""
        return self.matrix.feature_weights

    def place(self) -> None:
        super().place()
        p = self._booster.params
        self._backend = create_hist_backend(
            self.rows, threads=p.nthread, max_histograms=p.max_cached_hist_node
        )  # fmt: skip

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()
        super().close()

    # Initialisation

    def _initialize(self, actors: Sequence[RowActor]) -> None:
        if self._bins is None:
            self._bins = self._begin_model(actors)
            self._set_scale(actors)
            self._begin(actors)
        else:
            super()._initialize(actors)

    def _initial_calls(self) -> list[Call]:
        calls = bin_calls(self.bins, self._booster.params.nthread)
        return [*calls, self._begin_call()]

    def _begin_model(self, actors: Sequence[RowActor]) -> GlobalBins:
        """Check the labels, bin the rows, and initialise the model."""
        matrix = self.matrix
        objective = self._booster.objective
        model = self._booster.model
        facts = self.cluster.sum(
            actors,
            "check_labels",
            objective if self._estimate else None,
            model.boost_from_average and not model.trees,
        )
        totals = None
        if self._estimate and not objective.by_row:
            self._view = self._gather_fields(actors)
        if facts.largest is not None:
            steps = self.cluster.sum(
                actors, "sum_start", objective, facts.largest, matrix.n_rows
            )
            totals = as_totals(steps, facts.largest, matrix.n_rows)
        bins = self._bin(actors, matrix.largest_weight)
        self._booster.initialize(facts, self._base_score(totals), bins)
        return bins

    def _base_score(self, totals: Floats | None) -> Floats | None:
        """Return the base score; None if it is not estimated."""
        model, objective = self._booster.model, self._booster.objective
        if not self._estimate or not model.boost_from_average or model.trees:
            return None
        if totals is not None:
            return objective.start_from(totals)
        info = self.view().info
        return objective.estimate_base_score(
            objective.targets_of(info), info.row_weights
        )

    def _begin(self, actors: Sequence[RowActor]) -> None:
        operation, args = self._begin_call()
        self.cluster.call(actors, operation, *args)

    def _begin_call(self) -> Call:
        state = self._booster.model_state(
            self._current_weights(), self.scale, self._estimate
        )
        return "begin", (self._term, state, self.bins.layout)

    def _current_weights(self) -> Weights:
        """Return the tree weights with which the margins have to be computed."""
        return self._booster.model.weights if self.scale is None else self.weights

    # Bins

    def _bin(
        self, actors: Sequence[RowActor], largest_weight: float | None
    ) -> GlobalBins:
        p, rows = self._booster.params, self.matrix.n_rows
        options = BinOptions(
            self._schema,
            rows,
            p.bins(),
            p.nthread,
            keep_columns=self.matrix.reader.caching is None,
            keep_features=self._per_tree_bins,
        )
        return bin_partitions(self.cluster, actors, options, largest_weight)

    def _make_tree_bins(self, output: int) -> HistogramLayout | None:
        """Bin the rows by the hessians of an output; return the layout.

        Returns None if the hessians, and so the bins, are those of the tree before.
        """
        self.rows.flush()
        found = self.cluster.call(self.actors, "weigh_cuts", output)
        if self._has_tree_bins and all(is_same for _, is_same in found):
            return None
        self._has_tree_bins = False
        self._bins = self._bin(self.actors, max(largest for largest, _ in found))
        layout = self._bins.layout
        self.cluster.call(self.actors, "set_tree_bins", layout)
        self._has_tree_bins = True
        return layout

    def thresholds(self, splits: NDArray[Any], rounded: bool = False) -> Floats:
        """Return the thresholds of splits, as `Cuts.thresholds` does."""
        return self.bins.cuts.thresholds(splits, rounded)

    # Recovery

    def _rewind(self) -> None:
        self._term += 1
        self.weights = self._booster.model.weights
        n_trees = len(self._booster.model.trees)
        able = self.cluster.call(self.actors, "rewind", self._term, n_trees)
        self._begin(
            [m for m, is_able in zip(self.actors, able, strict=True) if not is_able]
        )

    def _members_changed(self) -> None:
        if self._rows is None:
            outputs = self._booster.objective.n_outputs
            self._rows = ClusterRows(
                self.cluster,
                self.bins.layout,
                self.matrix.n_rows,
                outputs,
                self._booster.params.multi_output_columns(outputs),
                self._make_tree_bins if self._per_tree_bins else None,
            )
        self._rows.begin_term(self._term, self.actors)
        self._has_tree_bins = False

    def _before_transfer(self) -> None:
        self.rows.flush()

    def _catch_up(self, actors: Sequence[RowActor]) -> None:
        state = self._booster.model_state(self._current_weights(), self.scale)
        self.cluster.call(actors, "catch_up", state)

    # Margins

    def update_to(self, weights: Weights) -> None:
        """Update the margins to these tree weights."""
        if self.scale is None:
            return
        layout = self._booster.layout_between(self.weights, weights, self.scale)
        if layout is not None:
            self.rows.defer("add_trees", layout)
        self.weights = weights

    def _recompute(self) -> None:
        self._begin(self.actors)
        self._members_changed()

    def margins(self) -> Floats:
        """Return the margins of all trees, (rows, outputs)."""
        while True:
            try:
                self.update_to(self._booster.model.weights)
                return np.ascontiguousarray(self.rows.margins().T)
            except ActorLostError as lost:
                self.recover(lost)


class ClusterMargins(PlacedMatrix):
    """Margins of an evaluation matrix on a cluster; the parameters are the same."""

    def _initial_calls(self) -> list[Call]:
        weights = self._booster.model.weights
        return [("begin_margins", (self._booster.model_state(weights, self.scale),))]

    def margins(self) -> Floats:
        """Return the margins of all trees, (rows, outputs)."""
        model = self._booster.model
        self.extend_scale(model.trees[self.weights.size :])
        begin, n_trees = self.weights.size, len(model.trees)
        layout = self._booster.layout_between(self.weights, model.weights, self.scale)
        threads = self._booster.params.nthread
        while True:
            try:
                found: list[Spread] = self.cluster.call(
                    self.actors, "margins_with", layout, begin, n_trees, threads
                )
                break
            except ActorLostError as lost:
                self.recover(lost)
        self.weights = model.weights
        outputs = len(found[0][1])
        return np.ascontiguousarray(
            join_margins(found, (outputs, self.matrix.n_rows)).T
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
        check_cluster_training(p)
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
        """Return the margins before the first tree, (outputs,)."""
        return self._predictor.base_margins()

    def model_state(
        self,
        weights: NDArray[np.float32],
        scale: MarginScale | None,
        with_objective: bool = False,
    ) -> ModelState:
        """Return the trees so far with these tree weights, rounded by the scale.

        With `with_objective` it includes the objective, if its gradients depend on one
        row each, so that workers can compute them.
        """
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
        """Return the trees whose sum changes margins from `before` to `weights`.

        None if there is no change.
        """
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
