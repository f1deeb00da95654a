"""Training and evaluation in a group: each process boosts on its part of the rows.

Every process runs the same round and takes the same decisions, since histograms, cuts
and metrics are those of the rows of all processes: sums of integers, which all of them
get. So each has the whole model at any time.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from operator import add, or_
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cluster import Call
from hornbeam.backends.cluster_rows import ClusterRows, LocalRows, PartialSums
from hornbeam.backends.factory import create_hist_backend, create_rows
from hornbeam.backends.interface import Backend, GradientRows
from hornbeam.backends.rows import Rows
from hornbeam.binning.layout import DenseBins, ExternalBins, HistogramLayout
from hornbeam.boosting.booster import Booster
from hornbeam.boosting.dart import MarginScale
from hornbeam.boosting.evaluation import Evaluator
from hornbeam.boosting.gradient_booster import Round
from hornbeam.boosting.learner import Learner
from hornbeam.boosting.margin_cache import MarginCache, TrainingData, TrainingMargins
from hornbeam.boosting.predictor import Predictor
from hornbeam.boosting.trainer import Trainer
from hornbeam.boosting.tree_methods import PreparedFeatures
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.meta_info import MetaInfo
from hornbeam.data.quantile_dmatrix import QuantileDMatrix
from hornbeam.distributed.group import Group
from hornbeam.distributed.group_matrix import (
    GroupCluster,
    GroupPart,
    OwnRows,
    align_part,
    bin_matrix,
    bins_of,
    join_fields,
    part_of,
)
from hornbeam.distributed.label_info import LabelInfo
from hornbeam.distributed.parameter_checks import check_cluster_training
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.forest.model_file import digest
from hornbeam.forest.tree import Tree
from hornbeam.kernels.team import Team, give_back_team, lease, take_team
from hornbeam.objectives.totals import as_totals, sum_steps
from hornbeam.params import Parameters, ParameterSource

__all__ = ["GroupBooster"]

Floats = NDArray[np.float64]

#: Parameters that may differ from process to process.
_OWN_PARAMETERS = {"nthread", "verbosity"}


class GroupTrainer(Trainer):
    """A trainer whose rows are those of all processes.

    Custom objectives get the rows of their process only, as in XGBoost.

    Parameters
    ----------
    learner, predictor, cache
        As for `Trainer`.
    group
        The group.
    """

    def __init__(
        self, learner: Learner, predictor: Predictor, cache: MarginCache, group: Group
    ) -> None:
        super().__init__(learner, predictor, cache)
        self._group = group

    def step(
        self, data: Any, set_gradients: Callable[[GradientRows], None] | None = None
    ) -> None:
        check_cluster_training(self._learner.params)
        if set_gradients is None:
            super().step(data)
            return
        given = set_gradients
        super().step(
            data,
            lambda rows: given(cast(GradientRows, _OwnGradients(rows, data.n_rows))),
        )

    def _compute_gradients(self, current: Round) -> None:
        learner, rows = self._learner, current.rows
        if learner.objective.by_row:
            rows.compute_gradients(learner.objective)
            return
        # Such a gradient depends on many rows: each process computes those of all.
        parts = self._group.gather("gather margins", rows.margins)
        first = sum(part.shape[1] for part in parts[: self._group.rank])
        own = slice(first, first + parts[self._group.rank].shape[1])
        with lease(learner.params.nthread) as team:
            gradients, hessians = learner.objective.gradients(
                team,
                np.concatenate(parts, axis=1),
                current.info,
                learner.model.n_rounds,
            )
        rows.set_gradients(gradients[:, own], hessians[:, own])


class _OwnGradients:
    """The rows of this process, as custom objectives see them: `n_rows` of all.

    Their margins and gradients are those of this process anyway.
    """

    def __init__(self, rows: GradientRows, n_rows: int) -> None:
        self._rows, self.n_rows = rows, n_rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)


class GroupEvaluator(Evaluator):
    """Evaluates on the rows of all processes.

    The first process gets predictions and labels of all, and computes the metrics. A
    custom metric is computed by each process of its rows; their mean is reported, as in
    XGBoost.

    Parameters
    ----------
    learner, predictor, cache
        As for `Evaluator`.
    group
        The group.
    """

    def __init__(
        self, learner: Learner, predictor: Predictor, cache: MarginCache, group: Group
    ) -> None:
        super().__init__(learner, predictor, cache)
        self._group = group
        #: The fields that were sent last.
        self._sent: weakref.WeakKeyDictionary[Any, dict[str, NDArray[Any]]] = (
            weakref.WeakKeyDictionary()
        )
        #: In the first process: the fields of each process, and of all together.
        self._known: weakref.WeakKeyDictionary[Any, dict[int, Any]] = (
            weakref.WeakKeyDictionary()
        )
        self._joined: weakref.WeakKeyDictionary[Any, MetaInfo] = (
            weakref.WeakKeyDictionary()
        )

    def _values(self, data: Any, predictions: Floats, labelled: Any) -> list[float]:
        fields, sent = labelled.info.fields(), self._sent.get(data, {})
        is_known = fields.keys() == sent.keys() and all(
            fields[name] is sent[name] for name in fields
        )
        self._sent[data] = fields
        rank = self._group.rank

        def own() -> dict[int, Any]:
            return {rank: (predictions, None if is_known else fields)}

        def measure(parts: dict[int, Any]) -> list[float]:
            found = [parts[number] for number in range(self._group.size)]
            known = self._known.setdefault(data, {})
            new = {number: part for number, (_, part) in parts.items() if part}
            if new or data not in self._joined:
                known.update(new)
                sizes = [len(predicted) for predicted, _ in found]
                every = [known.get(number, {}) for number in range(len(found))]
                self._joined[data] = join_fields(every, sizes, data.n_features)
            whole = np.concatenate([predicted for predicted, _ in found])
            return self._values_of(whole, self._joined[data])

        values: list[float] = self._group.combine("metrics", own, or_, measure)
        return values

    def _custom_values(self, result: Any) -> Iterable[tuple[str, float]]:
        pairs = list(super()._custom_values(result))
        names = ", ".join(name for name, _ in pairs)
        sums = self._group.combine(
            f"custom metric {names}", lambda: np.array([v for _, v in pairs]), add
        )
        means = (sums / self._group.size).tolist()
        return [(name, mean) for (name, _), mean in zip(pairs, means, strict=True)]


class GroupMarginCache(MarginCache):
    """The margins of the rows of this process.

    Parameters
    ----------
    learner, predictor
        Of the model.
    group
        The group.
    """

    def __init__(self, learner: Learner, predictor: Predictor, group: Group) -> None:
        super().__init__(learner, predictor)
        self._group = group
        predictor.scale_of = self._scale_of

    def _scale_of(self, start: Floats, trees: Iterable[Tree]) -> MarginScale:
        """Return the scale of the margins of all processes (DART)."""
        own = MarginScale.of(start, trees)
        base = self._group.combine("largest margin", lambda: own.base, max)
        return replace(own, base=base)

    def training_data(self, data: Any, use_objective: bool) -> TrainingData:
        learner = self._learner
        entry = self._entries.get(data)
        by_row = use_objective and learner.objective.by_row
        if isinstance(entry, GroupTraining) and entry.matches(data, by_row):
            return entry
        return self._begin(data, use_objective)

    def _begin(self, data: DMatrix, use_objective: bool) -> GroupTraining:
        """Bin the rows, and initialise a model without trees."""
        learner, group = self._learner, self._group
        self._check_agreement()
        part = part_of(group, data)
        aligned = data
        if learner.model.trees:
            aligned = learner.align(data)
        else:
            align_part(data, part)
        targets: Floats | None = None

        def own_labels() -> LabelInfo:
            nonlocal targets
            if use_objective:
                targets = learner.targets_of(data)
            estimate = learner.model.boost_from_average and not learner.model.trees
            objective = learner.objective if use_objective else None
            return LabelInfo.of(data.info, objective, estimate)

        labels: LabelInfo = group.combine("labels", own_labels, add)
        objective = learner.objective
        rows = self._bin(data, aligned, part)
        if not learner.model.trees:
            learner.set_features(aligned)
            estimate = None
            if use_objective and learner.model.boost_from_average:
                estimate = self._base_score(labels, targets, rows)
            learner.set_base_score(estimate, labels.span)
            learner.model.exact_features = not rows.own_bins.is_float32
        by_row = use_objective and objective.by_row
        training = GroupTraining(
            learner, self._predictor, aligned, targets if by_row else None, rows
        )
        training.bind(data, aligned)
        self._entries[data] = training
        return training

    def _check_agreement(self) -> None:
        """Raise a `ParameterError` unless all processes train the same model."""
        model, own = self._learner.model, self._learner.params.to_dict()
        start = digest(model) if model.trees else None
        given = {k: repr(v) for k, v in own.items() if k not in _OWN_PARAMETERS}
        found = self._group.gather("parameters", lambda: given | {"xgb_model": start})
        for rank, other in enumerate(found):
            for name, value in other.items():
                if value != found[0][name]:
                    raise ParameterError(
                        f"worker {rank} trains with {name}={value}, and worker 0 with "
                        f"{found[0][name]}; pass the same in all processes",
                        code=ErrorCode.MODEL_PARAMETER_MISMATCH,
                    )

    def _bin(self, data: DMatrix, aligned: DMatrix, part: GroupPart) -> OwnRows:
        """Return the rows of this process with their bins."""
        p, group = self._learner.params, self._group
        is_binned = isinstance(data, QuantileDMatrix)
        if p.method() == "approx":
            if is_binned:
                raise DataError(
                    "tree_method='approx' needs the values of the features, and a "
                    "QuantileDMatrix has only their bins; make a DMatrix",
                    code=ErrorCode.RAW_VALUES_NEEDED,
                )
            rows = OwnRows(group, part, aligned, None)
            rows.bin_all(p.bins(), p.nthread, part.largest_weight, keep_features=True)
            return rows
        rows = OwnRows(group, part, aligned, aligned.cache_options)
        if is_binned or aligned is data:
            rows.binned = bins_of(group, aligned, p.bins(), p.nthread)
        else:
            rows.binned = bin_matrix(group, aligned, p.bins(), p.nthread)
        cuts = rows.own_bins.cuts
        found = group.gather("cuts", lambda: (cuts.pointers, cuts.values))
        if any(
            not np.array_equal(own, first)
            for pair in found
            for own, first in zip(pair, found[0], strict=True)
        ):
            raise DataError(
                "the processes have binned their rows by different cuts; make each "
                f"{type(data).__name__} after the group is joined, in all processes in "
                "the same order, and of hornbeam.QuantileDMatrix, which bins its own "
                "rows only, a DMatrix instead",
                code=ErrorCode.MAX_BIN_MISMATCH,
            )
        return rows

    def _base_score(
        self, labels: LabelInfo, targets: Floats | None, rows: OwnRows
    ) -> Floats:
        """Return the base score that the labels of all processes lead to."""
        objective, largest = self._learner.objective, labels.largest
        assert targets is not None
        if largest is None:
            info = rows.all_info()
            return objective.estimate_base_score(
                objective.targets_of(info), info.row_weights
            )
        n_rows = rows.part.n_rows
        columns = objective.start_columns(targets, rows.row_weights)
        steps = self._group.combine(
            "sums of labels", lambda: sum_steps(columns, largest, n_rows), add
        )
        return objective.start_from(as_totals(steps, largest, n_rows))


class GroupTraining(TrainingMargins):
    """Training rows of this process, whose histograms are those of all processes.

    Parameters
    ----------
    learner, predictor, data, targets
        As for `TrainingMargins`.
    own
        The rows, binned.
    """

    def __init__(
        self,
        learner: Learner,
        predictor: Predictor,
        data: DMatrix,
        targets: Floats | None,
        own: OwnRows,
    ) -> None:
        self._own = own
        self._has_tree_bins = False
        binned = own.own_bins
        bins = binned.as_bins(learner.params.nthread)
        features = PreparedFeatures(own, bins, binned.is_float32)
        super().__init__(learner, predictor, data, features, targets)

    def _create_backend(self, features: PreparedFeatures, margins: Floats) -> Backend:
        p = self._learner.params
        bins = features.bins
        assert isinstance(bins, DenseBins | ExternalBins)
        columns = p.multi_output_columns(len(margins))
        team = take_team(p.nthread)
        rows, _ = create_rows(
            bins,
            np.empty((1, 0)) if self.targets is None else self.targets,
            self.row_weights,
            margins,
            team,
            spans=np.array([[0, self._own.part.first_row]]),
            cached_share=p.cached_share(),
            multi_output_columns=columns,
            row_keys=self.data.info.row_key,
        )
        self._rows = GroupRows(
            self._own.group,
            _RunnableRows(rows, bins.layout),
            team,
            bins.layout,
            self._own.part.n_rows,
            len(margins),
            columns,
            self._make_tree_bins if p.method() == "approx" else None,
        )
        return create_hist_backend(
            self._rows, threads=p.nthread, max_histograms=p.max_cached_hist_node
        )

    def _make_tree_bins(self, output: int) -> HistogramLayout | None:
        """Bin the rows by the hessians of an output; return the layout (approx)."""
        p, own, rows = self._learner.params, self._own, self._rows
        found = own.group.gather(
            "weights of cuts",
            lambda: own.use_cut_weights(rows.own.bin_weights(output)),
        )
        if self._has_tree_bins and all(is_same for _, is_same in found):
            return None
        largest = max(weight for weight, _ in found)
        own.bin_all(p.bins(), p.nthread, largest, keep_features=True)
        self._has_tree_bins = True
        bins = own.own_bins.as_bins(p.nthread)
        assert isinstance(bins, DenseBins)
        rows.set_own_bins(bins)
        return bins.layout

    @property
    def info(self) -> MetaInfo:
        return self._own.all_info()


class _RunnableRows(LocalRows):
    """The rows of this process, as `ClusterRows` calls them."""

    def run(self, term: int, calls: list[Call], n_workers: int) -> PartialSums:
        """Make the calls in order; return all results."""
        return self.run_calls(calls, n_workers)

    def set_bins(self, bins: DenseBins) -> None:
        """Use other bins of the same values from the next tree on."""
        self.rows.set_bins(bins)
        self._layout = bins.layout


class GroupRows(ClusterRows):
    """The rows of all processes; margins and gradients are those of this one.

    Parameters
    ----------
    group
        The group.
    local, team
        The rows of this process, and their threads; both are released by `close`.
    layout, n_rows, n_outputs, multi_output_columns, make_tree_bins
        As for `ClusterRows`.
    """

    def __init__(
        self,
        group: Group,
        local: _RunnableRows,
        team: Team,
        layout: HistogramLayout,
        n_rows: int,
        n_outputs: int,
        multi_output_columns: int,
        make_tree_bins: Callable[[int], HistogramLayout | None] | None,
    ) -> None:
        cluster = GroupCluster(group, local)
        shape = n_rows, n_outputs, multi_output_columns
        super().__init__(cluster, layout, *shape, make_tree_bins)
        self.begin_term(0, cluster.actors)
        self._local, self._team = local, team

    @property
    def own(self) -> Rows:
        """The rows of this process, after all calls so far."""
        self.flush()
        return self._local.rows

    def set_split_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        self.defer("set_split_gradients", gradients, hessians)

    def flush(self) -> None:
        self._local.run_calls(self._deferred, len(self.actors))
        self._deferred.clear()

    def set_own_bins(self, bins: DenseBins) -> None:
        """Use other bins of the same values from the next tree on."""
        self._local.set_bins(bins)

    def margins(self) -> Floats:
        return self.own.margins()

    def set_margins(self, margins: Floats) -> None:
        self.own.set_margins(margins)

    def close(self) -> None:
        super().close()
        self._local.rows.close()
        give_back_team(self._team)


class GroupBooster(Booster):
    """A booster that every process of a group trains on its part of the rows.

    All processes make the same calls, and each has the whole model.

    Parameters
    ----------
    group
        The group.
    params, model_file
        As for `Booster`.
    """

    def __init__(
        self,
        group: Group,
        params: ParameterSource | None = None,
        model_file: Booster | str | os.PathLike[str] | bytes | bytearray | None = None,
    ) -> None:
        self._group = group
        super().__init__(params, None, model_file)

    def _compose(self, parameters: Parameters) -> None:
        self.history = {}
        learner = Learner(parameters)
        predictor = Predictor(learner)
        cache = GroupMarginCache(learner, predictor, self._group)
        self._learner, self._predictor = learner, predictor
        self._trainer = GroupTrainer(learner, predictor, cache, self._group)
        self._evaluator = GroupEvaluator(learner, predictor, cache, self._group)

    def copy(self) -> GroupBooster:
        return type(self)(self._group, model_file=self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _plain, (Booster(model_file=self),)


def _plain(booster: Booster) -> Booster:
    return booster
