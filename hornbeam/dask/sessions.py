"""Rows on a cluster that a model is trained on, and rows that it is measured on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.base import Backend
from hornbeam.backends.cluster import Call, Member, MemberLostError
from hornbeam.backends.cluster_rows import ClusterRows, Spread, joined
from hornbeam.backends.open import open_histograms
from hornbeam.dask.binning import Coded, bin_parts, calls_for_codes
from hornbeam.dask.cluster import DaskCluster
from hornbeam.dask.holding import Holding
from hornbeam.dask.learning import Start, View
from hornbeam.dask.matrix import DaskDMatrix
from hornbeam.dask.shard import LabelFacts
from hornbeam.data.info import Info
from hornbeam.data.schema import Schema
from hornbeam.forest.layout import Layout
from hornbeam.forest.model import Model
from hornbeam.objectives.base import Objective
from hornbeam.objectives.totals import as_totals
from hornbeam.params import Parameters

__all__ = ["ClusterMargins", "ClusterTraining", "Trainee"]

Floats = NDArray[np.float64]


class Trainee(Protocol):
    """What rows on a cluster need to know of the booster."""

    model: Model
    params: Parameters
    objective: Objective

    def start_now(self, learns: bool = False) -> Start:
        """Return the trees so far; with the objective, if gradients come from it."""

    def begin_on(self, facts: LabelFacts, start: Floats | None, coded: Coded) -> None:
        """Begin the model, if it has no trees, from what the training data says."""


class _Measured(Holding):
    """Rows whose labels can be compared with their margins."""

    _view: View | None = None

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
            whole = joined(parts, (len(parts[0][1]), matrix.n_rows))
            fields[name] = whole[0] if len(whole) == 1 else whole.T
        info = Info(matrix.n_rows, matrix.n_features)
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
        """The rows as growers ask for them."""
        assert self._backend is not None
        return self._backend

    def hold(self) -> None:
        super().hold()
        p = self._trainee.params
        self._backend = open_histograms(
            self.rows, self.coded.layout, self.matrix.n_rows,
            threads=p.nthread, max_histograms=p.max_cached_hist_node,
        )  # fmt: skip

    def _ready(self, members: Sequence[Member]) -> None:
        if self._coded is None:
            self._coded = self._begin_model(members)
            self._begin(members)
        else:
            super()._ready(members)

    def _beginning(self) -> list[Call]:
        calls = calls_for_codes(self.coded, self._trainee.params.nthread)
        return [*calls, self._begin_call()]

    def _begin_model(self, members: Sequence[Member]) -> Coded:
        matrix, p = self.matrix, self._trainee.params
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
        coded = bin_parts(
            self.cluster,
            members,
            self._schema,
            matrix.n_rows,
            matrix.largest_weight,
            p.max_bin,
            p.nthread,
        )
        self._trainee.begin_on(facts, self._start(totals), coded)
        return coded

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
        start = self._trainee.start_now(self._estimate)
        return "begin", (self._term, start, self.coded.layout)

    def _rewind(self) -> None:
        self._term += 1
        n_trees = len(self._trainee.model.trees)
        able = self.cluster.call(self.members, "rewind", self._term, n_trees)
        self._begin(
            [m for m, is_able in zip(self.members, able, strict=True) if not is_able]
        )

    def _settle(self) -> None:
        if self._rows is None:
            n_outputs = self._trainee.objective.n_outputs
            self._rows = ClusterRows(
                self.cluster, self.coded.layout, self.matrix.n_rows, n_outputs
            )
        self._rows.begin_term(self._term, self.members)

    def _before_moving(self) -> None:
        self.rows.send()

    def _catch_up(self, members: Sequence[Member]) -> None:
        self.cluster.call(members, "catch_up", self._trainee.start_now())

    def margins(self) -> Floats:
        """Return the margins under all trees, (rows, outputs)."""
        while True:
            try:
                return np.array(self.rows.scores().T, order="C")
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
    layout_of
        Returns trees `begin` to `end`, laid out for prediction.
    cluster, matrix, schema, unseen, of
        As for `Holding`.
    """

    def __init__(
        self,
        trainee: Trainee,
        layout_of: Callable[[int, int], Layout],
        cluster: DaskCluster,
        matrix: DaskDMatrix,
        schema: Schema,
        unseen: str,
        of: str,
    ) -> None:
        super().__init__(cluster, matrix, schema, unseen, of)
        self._trainee, self._layout_of = trainee, layout_of
        self._n_trees = 0

    def _beginning(self) -> list[Call]:
        return [("begin_margins", (self._trainee.start_now(),))]

    def hold(self) -> None:
        super().hold()
        self._n_trees = len(self._trainee.model.trees)

    def margins(self, n_trees: int) -> Floats:
        """Return the margins under so many trees, (rows, outputs)."""
        begin = self._n_trees
        layout = self._layout_of(begin, n_trees) if begin < n_trees else None
        threads = self._trainee.params.nthread
        while True:
            try:
                found: list[Spread] = self.cluster.call(
                    self.members, "margins_with", layout, begin, n_trees, threads
                )
                break
            except MemberLostError as lost:
                self.mend(lost)
        self._n_trees = n_trees
        outputs = len(found[0][1])
        return np.ascontiguousarray(joined(found, (outputs, self.matrix.n_rows)).T)
