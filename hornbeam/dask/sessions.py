"""Rows on a cluster that a model is trained on, and rows that it is measured on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cluster import Call, Member, MemberLostError
from hornbeam.backends.cluster_rows import ClusterRows, Spread, join_margins
from hornbeam.backends.factory import create_hist_backend
from hornbeam.backends.interface import Backend
from hornbeam.binning.layout import HistogramLayout
from hornbeam.boosting.dart import MarginScale
from hornbeam.dask.binning import Coded, bin_parts, calls_for_codes
from hornbeam.dask.cluster import DaskCluster
from hornbeam.dask.learning import Start, View
from hornbeam.dask.matrix import DaskDMatrix
from hornbeam.dask.placement import Holding
from hornbeam.dask.shard import LabelFacts
from hornbeam.data.meta_info import MetaInfo
from hornbeam.data.schema import Schema
from hornbeam.forest.layout import Layout
from hornbeam.forest.model import Model
from hornbeam.forest.tree import Tree
from hornbeam.objectives.base import Objective
from hornbeam.objectives.totals import as_totals
from hornbeam.params import Parameters

__all__ = ["ClusterMargins", "ClusterTraining", "Trainee"]

Floats = NDArray[np.float64]
Weights = NDArray[np.float32]


class Trainee(Protocol):
    """What rows on a cluster need to know of the booster."""

    @property
    def model(self) -> Model:
        """The model so far."""

    @property
    def params(self) -> Parameters:
        """The parameters of training."""

    @property
    def objective(self) -> Objective:
        """The objective."""

    def base(self) -> Floats:
        """Return the margins before the first tree, (outputs,)."""

    def start_now(
        self, weights: Weights, scale: MarginScale | None, learns: bool = False
    ) -> Start:
        """Return the trees so far, under these weights, rounded by the scale.

        With the objective, if gradients come from it.
        """

    def changes(
        self, before: Weights, weights: Weights, scale: MarginScale | None
    ) -> Layout | None:
        """Return trees that bring margins from these weights to those, or None."""

    def begin_on(self, facts: LabelFacts, start: Floats | None, coded: Coded) -> None:
        """Begin the model, if it has no trees, from what the training data says."""


class _Measured(Holding):
    """Rows whose labels can be compared with their margins.

    Attributes
    ----------
    weights
        Those under which the first trees of the model are in the margins.
    scale
        By which margins are rounded; None: they are not.
    """

    weights: Weights
    scale: MarginScale | None = None
    _trainee: Trainee
    _view: View | None = None

    def _ready(self, members: Sequence[Member]) -> None:
        self._take_scale(members)
        super()._ready(members)

    def _take_scale(self, members: Sequence[Member]) -> None:
        """Ask how large the margins are, if it matters; `members` have all rows."""
        model = self._trainee.model
        if self.scale is None:
            self.weights = model.weights
            if model.tree_weights is not None:
                base = self._trainee.base()
                found = self.cluster.call(members, "largest_margin", base)
                self.scale = MarginScale(max(found)).with_trees(model.trees)

    def extend_scale(self, trees: Sequence[Tree]) -> None:
        """Round by the scale of these trees, too."""
        if self.scale is None:
            return
        step = self.scale.step
        self.scale = self.scale.with_trees(trees)
        if self.scale.step != step:
            self.weights = self._trainee.model.weights
            try:
                self._begin_anew()
            except MemberLostError as lost:
                self.mend(lost)

    def _begin_anew(self) -> None:
        """Make the margins of the members anew."""
        super()._ready(self.members)

    def beside(self) -> View:
        """Return what goes with all rows, which is asked for once."""
        while self._view is None:
            try:
                self._view = self._gathered()
            except MemberLostError as lost:
                self.mend(lost)
        return self._view

    def _gathered(self) -> View:
        return self._beside_of(self.members)

    def _beside_of(self, members: Sequence[Member]) -> View:
        matrix = self.matrix
        found = self.cluster.call(members, "beside")
        fields: dict[str, Any] = {}
        for name in found[0][1]:
            parts = [
                (spans, own[name].T.reshape(-1, len(own[name]))) for spans, own in found
            ]
            whole = join_margins(parts, (len(parts[0][1]), matrix.n_rows))
            fields[name] = whole[0] if len(whole) == 1 else whole.T
        info = MetaInfo(matrix.n_rows, matrix.n_features)
        info.set(fields)
        return View(info, matrix.schema)


class ClusterTraining(_Measured):
    """Rows that trees grow on.

    Parameters
    ----------
    trainee
        Whose trees.
    estimate
        Whether gradients come from its objective, and the base score, too.
    cluster, matrix, schema, unseen, of
        As for `Holding`.
    """

    def __init__(
        self,
        trainee: Trainee,
        estimate: bool,
        cluster: DaskCluster,
        matrix: DaskDMatrix,
        schema: Schema,
        unseen: str,
        of: str,
    ) -> None:
        super().__init__(cluster, matrix, schema, unseen, of)
        self._trainee, self._estimate = trainee, estimate
        self._coded: Coded | None = None
        self._term = 0
        self._rows: ClusterRows | None = None
        self._backend: Backend | None = None
        self._recuts = trainee.params.method() == "approx"
        #: Whether all rows have the codes of `coded`, by the hessians of a tree.
        self._is_cut = False

    @property
    def coded(self) -> Coded:
        """How the rows are coded."""
        assert self._coded is not None
        return self._coded

    @property
    def rows(self) -> ClusterRows:
        """The rows of all members."""
        assert self._rows is not None
        return self._rows

    @property
    def backend(self) -> Backend:
        """The rows as growers use them."""
        assert self._backend is not None
        return self._backend

    @property
    def cuts(self) -> ClusterTraining:
        """The values at the bounds of bins."""
        return self

    @property
    def info(self) -> MetaInfo:
        """The meta info of all rows."""
        return self.beside().info

    @property
    def feature_weights(self) -> Floats | None:
        """(features,): the weights of features in column sampling."""
        return self.matrix.feature_weights

    def hold(self) -> None:
        super().hold()
        p, outputs = self._trainee.params, self._trainee.objective.n_outputs
        self._backend = create_hist_backend(
            self.rows, self.coded.layout, self.matrix.n_rows,
            threads=p.nthread, max_histograms=p.max_cached_hist_node,
            multi_output_columns=p.multi_output_columns(outputs),
            make_tree_bins=self._recut if self._recuts else None,
        )  # fmt: skip

    def _ready(self, members: Sequence[Member]) -> None:
        if self._coded is None:
            self._coded = self._begin_model(members)
            self._take_scale(members)
            self._begin(members)
        else:
            super()._ready(members)

    def _beginning(self) -> list[Call]:
        calls = calls_for_codes(self.coded, self._trainee.params.nthread)
        return [*calls, self._begin_call()]

    def _begin_model(self, members: Sequence[Member]) -> Coded:
        matrix = self.matrix
        objective = self._trainee.objective
        model = self._trainee.model
        facts = self.cluster.sum(
            members,
            "look_at_labels",
            objective if self._estimate else None,
            model.boost_from_average and not model.trees,
        )
        totals = None
        if self._estimate and not objective.by_row:
            self._view = self._beside_of(members)
        if facts.largest is not None:
            steps = self.cluster.sum(
                members, "sum_start", objective, facts.largest, matrix.n_rows
            )
            totals = as_totals(steps, facts.largest, matrix.n_rows)
        coded = self._bin(members, matrix.largest_weight)
        self._trainee.begin_on(facts, self._start(totals), coded)
        return coded

    def _bin(self, members: Sequence[Member], largest_weight: float | None) -> Coded:
        p = self._trainee.params
        return bin_parts(
            self.cluster,
            members,
            self._schema,
            self.matrix.n_rows,
            largest_weight,
            p.bins(),
            p.nthread,
            self._recuts,
        )

    def _recut(self, output: int) -> HistogramLayout | None:
        """Have the rows coded by the hessians of this output, unless they are."""
        self.rows.flush()
        found = self.cluster.call(self.members, "weigh_cuts", output)
        if self._is_cut and all(is_same for _, is_same in found):
            return None
        self._is_cut = False
        self._coded = self._bin(self.members, max(largest for largest, _ in found))
        layout = self._coded.layout
        self.cluster.call(self.members, "recode", layout)
        self.rows.set_layout(layout)
        self._is_cut = True
        return layout

    def thresholds(self, splits: NDArray[Any]) -> Floats:
        """Return what values that go left are below, as `Cuts.thresholds` does."""
        return self.coded.cuts.thresholds(splits)

    def _start(self, totals: Floats | None) -> Floats | None:
        """Return the base score; None if it is not estimated."""
        model, objective = self._trainee.model, self._trainee.objective
        if not self._estimate or not model.boost_from_average or model.trees:
            return None
        if totals is not None:
            return objective.start_from(totals)
        info = self.beside().info
        return objective.estimate_base_score(
            objective.targets_of(info), info.row_weights
        )

    def _begin(self, members: Sequence[Member]) -> None:
        verb, args = self._begin_call()
        self.cluster.call(members, verb, *args)

    def _begin_call(self) -> Call:
        start = self._trainee.start_now(self._weights_now(), self.scale, self._estimate)
        return "begin", (self._term, start, self.coded.layout)

    def _weights_now(self) -> Weights:
        """Return the weights of the trees that are to be in the margins."""
        return self._trainee.model.weights if self.scale is None else self.weights

    def _rewind(self) -> None:
        self._term += 1
        self.weights = self._trainee.model.weights
        n_trees = len(self._trainee.model.trees)
        able = self.cluster.call(self.members, "rewind", self._term, n_trees)
        self._begin(
            [m for m, is_able in zip(self.members, able, strict=True) if not is_able]
        )

    def _settle(self) -> None:
        if self._rows is None:
            outputs = self._trainee.objective.n_outputs
            self._rows = ClusterRows(
                self.cluster,
                self.coded.layout,
                self.matrix.n_rows,
                outputs,
                self._trainee.params.multi_output_columns(outputs),
            )
        self._rows.begin_term(self._term, self.members)
        self._is_cut = False

    def _before_moving(self) -> None:
        self.rows.flush()

    def _catch_up(self, members: Sequence[Member]) -> None:
        start = self._trainee.start_now(self._weights_now(), self.scale)
        self.cluster.call(members, "catch_up", start)

    def update_to(self, weights: Weights) -> None:
        """Have the margins be those of the trees under these weights."""
        if self.scale is None:
            return
        layout = self._trainee.changes(self.weights, weights, self.scale)
        if layout is not None:
            self.rows.defer("add_trees", layout)
        self.weights = weights

    def _begin_anew(self) -> None:
        self._begin(self.members)
        self._settle()

    def margins(self) -> Floats:
        """Return the margins under all trees, (rows, outputs)."""
        while True:
            try:
                self.update_to(self._trainee.model.weights)
                return np.array(self.rows.margins().T, order="C")
            except MemberLostError as lost:
                self.mend(lost)

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()
        super().close()


class ClusterMargins(_Measured):
    """Margins of rows that are only looked at.

    Parameters
    ----------
    trainee
        Whose trees.
    cluster, matrix, schema, unseen, of
        As for `Holding`.
    """

    def __init__(
        self,
        trainee: Trainee,
        cluster: DaskCluster,
        matrix: DaskDMatrix,
        schema: Schema,
        unseen: str,
        of: str,
    ) -> None:
        super().__init__(cluster, matrix, schema, unseen, of)
        self._trainee = trainee

    def _beginning(self) -> list[Call]:
        weights = self._trainee.model.weights
        return [("begin_margins", (self._trainee.start_now(weights, self.scale),))]

    def margins(self) -> Floats:
        """Return the margins under all trees, (rows, outputs)."""
        model = self._trainee.model
        self.extend_scale(model.trees[self.weights.size :])
        begin, n_trees = self.weights.size, len(model.trees)
        layout = self._trainee.changes(self.weights, model.weights, self.scale)
        threads = self._trainee.params.nthread
        while True:
            try:
                found: list[Spread] = self.cluster.call(
                    self.members, "margins_with", layout, begin, n_trees, threads
                )
                break
            except MemberLostError as lost:
                self.mend(lost)
        self.weights = model.weights
        outputs = len(found[0][1])
        return np.ascontiguousarray(
            join_margins(found, (outputs, self.matrix.n_rows)).T
        )
