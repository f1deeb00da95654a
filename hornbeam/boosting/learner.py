"""What rounds build on: parameters, and margins of data from round to round."""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from hornbeam.boosting.custom import MetricFunction, metric_pairs
from hornbeam.boosting.dart import check_booster
from hornbeam.boosting.gblinear import check_features, check_linear
from hornbeam.boosting.line_search import check_line_search
from hornbeam.boosting.linear_rounds import LinearRounds
from hornbeam.boosting.margin_cache import Session, ValidationSession
from hornbeam.boosting.prediction import add_layout, squeezed
from hornbeam.boosting.predictor import Predictor
from hornbeam.boosting.refresh import check_update
from hornbeam.boosting.rounds import Rounds
from hornbeam.boosting.sync_model import (
    booster_of,
    check_agreement,
    check_same_start,
    follow,
)
from hornbeam.boosting.tree_methods import check_method
from hornbeam.boosting.tree_rounds import TreeRounds
from hornbeam.boosting.update_rounds import UpdateRounds
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.schema import Schema
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.forest.layout import Layout
from hornbeam.forest.model import LinearModel, Model
from hornbeam.forest.tree import Tree
from hornbeam.kernels.team import lease
from hornbeam.metrics.base import Metric
from hornbeam.metrics.base import create as create_metric
from hornbeam.objectives.base import Objective
from hornbeam.objectives.base import create as create_objective
from hornbeam.objectives.compiled import CompiledObjective, ScalarLoss
from hornbeam.params import Parameters, ParameterSource

__all__ = ["Learner", "needs_double"]

#: Labels closer together than this many steps of float32 need float64 scores.
_LEAST_STEPS_OF_SPREAD = 1000.0


class Columned(Protocol):
    """What has columns: a matrix."""

    n_features: int

    @property
    def schema(self) -> Schema:
        """The columns."""

    @property
    def feature_names(self) -> Sequence[str] | None:
        """Names of the columns."""

    @property
    def feature_types(self) -> Sequence[str] | None:
        """Types of the columns."""


class Learner(Predictor):
    """The part of a `Booster` that rounds build on.

    Names that begin with an underscore are no user's: they are for boosters and for
    their `Rounds`.
    """

    _metrics: list[Metric]
    _rounds: Rounds
    #: The margins of data, by its matrix.
    _sessions: weakref.WeakKeyDictionary[DMatrix, Session]

    def _begin(self, parameters: Parameters) -> None:
        """Begin with nothing but parameters, which are still to be looked at."""
        self.params, self.model, self._loss = parameters, Model(), None
        self._layouts = {}
        self._sessions = weakref.WeakKeyDictionary()
        self._rounds = TreeRounds()

    # Parameters

    @property
    def metrics(self) -> list[Metric]:
        """What `eval` reports."""
        return list(self._metrics)

    def set_param(self, params: ParameterSource | str, value: Any = None) -> None:
        """Change parameters: a mapping, pairs, or a name and its value."""
        pairs = {params: value} if isinstance(params, str) else params
        changed = self.params.updated(pairs)
        if changed.base_score != self.params.base_score:
            check_same_start(self.model, changed)
        self._configure(changed, self._loss)

    def set_objective(self, objective: ScalarLoss) -> None:
        """Take an objective in formulas, to train and to predict with.

        `train` does it for the one that it is given. A model file holds no formulas:
        with a loaded model its user does it, where predictions are asked for.
        """
        if not isinstance(objective, ScalarLoss):
            raise ParameterError(
                "an objective in formulas has the functions gradient(y, m) and "
                f"hessian(y, m); {objective!r} has not",
                code=ErrorCode.INVALID_CUSTOM_OBJECTIVE,
            )
        if self._loss is not objective:
            self._configure(self.params, objective)
            self.reset()  # the labels have not been looked at with it

    def _configure(self, parameters: Parameters, loss: ScalarLoss | None) -> None:
        """Take parameters and formulas; an error leaves everything as it was."""
        objective: Objective = (
            create_objective(parameters)
            if loss is None
            else CompiledObjective(parameters, loss)
        )
        self._check(parameters, objective)
        metrics = _create_metrics(parameters, objective)
        self.params, self._loss = parameters, loss
        self.objective, self._metrics = objective, metrics
        if parameters.booster != booster_of(self.model):
            self.reset()
        kind = _kind_of_rounds(parameters)
        if not isinstance(self._rounds, kind):
            self._rounds = kind()
        follow(self.model, parameters, objective)
        if isinstance(objective, CompiledObjective):
            objective.mark(self.model.attributes)
        objective.state = objective.next_state = self.model.objective_state

    def _take(
        self,
        model: Model,
        parameters: Parameters,
        loss: ScalarLoss | None,
        rounds: Rounds | None = None,
    ) -> None:
        """Go on with another model; an error leaves everything as it was."""
        before = self.model, self._rounds
        self.model, self._rounds = model, rounds or TreeRounds()
        try:
            self._configure(parameters, loss)
        except BaseException:
            self.model, self._rounds = before
            raise
        self.reset()

    def _check(self, parameters: Parameters, objective: Objective) -> None:
        """Raise a `ParameterError` if the model cannot be trained on by these."""
        check_booster(parameters)
        check_linear(parameters)
        check_update(parameters)
        check_method(parameters)
        check_line_search(parameters, objective)
        check_agreement(self.model, parameters, objective)

    # The beginning of a model

    def check_labels(self, data: DMatrix) -> None:
        """Raise a `DataError` unless the objective can learn from these labels."""
        self._targets_of(data)

    def _targets_of(self, data: DMatrix) -> NDArray[np.float64]:
        """Return the checked targets, for which the model has outputs."""
        self._take_targets(data.n_targets)
        targets = self.objective.targets_of(data.info)
        self.objective.check_targets(targets)
        return targets

    def _take_targets(self, n_targets: int) -> None:
        """Give the model an output for each target, before its first tree."""
        targets = self.params.num_target
        if n_targets in (0, targets) or not self.objective.many_targets:
            return
        if self.model.n_rounds or targets > 1:
            raise DataError(
                f"the labels have {n_targets} column{'s' if n_targets > 1 else ''}, "
                f"but the model has {targets} target{'s' if targets > 1 else ''}; "
                "train another model",
                code=ErrorCode.LABEL_TARGETS_MISMATCH,
            )
        counted = self.params.updated({"num_target": n_targets})
        self._configure(counted, self._loss)

    def _begin_model(self, data: DMatrix, targets: NDArray[np.float64] | None) -> None:
        """Take columns and the base score from the first training data."""
        self._take_columns(data)
        start = None
        if targets is not None and self.model.boost_from_average:
            start = self.objective.estimate_base_score(targets, data.row_weights)
        labels = data.labels
        span = None if labels is None else (float(labels.min()), float(labels.max()))
        self._begin_from(start, span)

    def _begin_from(
        self, start: NDArray[np.float64] | None, span: tuple[float, float] | None
    ) -> None:
        """Take the base score, if it was estimated, and the range of the labels."""
        model = self.model
        if start is not None:
            model.base_score = start
        model.double_scores = span is not None and needs_double(*span)
        if not model.double_scores:
            with np.errstate(over="ignore"):  # the gradients will be too large, too
                rounded = model.base_score.astype(np.float32)
            model.base_score = rounded.astype(np.float64)

    def _take_columns(self, data: Columned) -> None:
        self.model.num_feature = data.n_features
        self.model.feature_names = list(data.feature_names or [])
        self.model.feature_types = list(data.feature_types or [])
        self.model.categories = data.schema.categories
        if self.model.linear is not None:
            self.model.linear = LinearModel.zero(data.n_features, self.model.n_outputs)

    # Evaluation

    def eval(self, data: DMatrix, name: str = "eval", iteration: int = 0) -> str:
        """Return the line that reports the metrics on `data`."""
        return self.eval_set([(data, name)], iteration)

    def eval_set(
        self,
        evals: Sequence[tuple[DMatrix, str]],
        iteration: int = 0,
        feval: MetricFunction | None = None,
        output_margin: bool = True,
    ) -> str:
        r"""Return a line such as ``"[0]\ttrain-rmse:0.5\tvalid-rmse:0.6"``.

        Parameters
        ----------
        evals
            Data with labels, and the name of each.
        iteration
            The number in brackets.
        feval
            A metric of your own, besides the parameter's.
        output_margin
            Whether `feval` gets margins instead of predictions.
        """
        scores = self.measure(evals, feval, output_margin)
        return "\t".join([f"[{iteration}]", *(f"{k}:{v!r}" for k, v in scores)])

    def measure(
        self,
        evals: Sequence[tuple[DMatrix, str]],
        feval: MetricFunction | None = None,
        output_margin: bool = True,
    ) -> list[tuple[str, float]]:
        """Return the metrics on `evals`, as in ``("valid-rmse", 0.6)``.

        The arguments are those of `eval_set`.
        """
        scores = []
        for data, name in evals:
            margins, beside = self._measured(data)
            for field in dict.fromkeys(f for m in self._metrics for f in m.needs):
                if beside.info[field] is None:
                    raise DataError(
                        f"the data {name!r} in evals has no {field}s to measure "
                        f"against; pass them: DMatrix(data, {field}=...)",
                        code=ErrorCode.EVAL_LABEL_MISSING
                        if field == "label"
                        else ErrorCode.META_INFO_MISSING,
                    )
            shown = margins if feval is None else margins.copy()
            predictions = self._transformed(margins)
            with warnings.catch_warnings():
                if self.params.verbosity == 0:
                    warnings.simplefilter("ignore")
                for metric in self._metrics:
                    value = metric.of(predictions, beside.info)
                    scores.append((f"{name}-{metric.name}", value))
            if feval is not None:
                result = feval(self._shown(shown, output_margin), beside)
                for metric_name, value in metric_pairs(result):
                    scores.append((f"{name}-{metric_name}", value))
        return scores

    def _shown(
        self, margins: NDArray[np.float64], output_margin: bool
    ) -> NDArray[np.float64]:
        """Return what `predict` would of these margins, which it may reuse."""
        if not output_margin:
            with lease(self.params.nthread) as team:
                self._need_transform()
                margins = self.objective.to_output(team, margins)
        return squeezed(margins)

    def predictions_to_measure(self, data: DMatrix) -> NDArray[np.float64]:
        """Return what metrics compare with labels: (rows,), or (rows, outputs).

        Of classes that is always the probability of each.
        """
        margins, _ = self._measured(data)
        return self._transformed(margins)

    def _transformed(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        with lease(self.params.nthread) as team:
            self._need_transform()
            return squeezed(self.objective.transform(team, margins))

    # Margins, from round to round

    def _measured(self, data: Any) -> tuple[NDArray[np.float64], Any]:
        """Return the margins of `data`, (rows, outputs), and what has its labels."""
        if self.model.linear is not None:
            check_features(data)
            return self._margins_of(self._aligned(data))[0], data
        return self._session(data).margins(), data

    def _session(self, data: DMatrix) -> Session:
        """Return the margins of `data`, brought up to the present trees."""
        aligned = self._aligned(data)
        session = self._sessions.get(data)
        if session is None or not session.begins_at(data.base_margin):
            session = ValidationSession(*self._margins_of(aligned), data.base_margin)
            self._sessions[data] = session
        self._follow(session, aligned, self.model.weights)
        return session

    def margins_of_last_round(
        self, data: DMatrix
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the margins before the last round and after it, (rows, outputs)."""
        after, aligned = self._session(data).margins(), self._aligned(data)
        weights = self.model.weights
        without = weights.copy()
        without[self.model.round_starts[-2] :] = 0.0
        before, layout = after.copy(), self._changes(weights, without, data.dtype, 0.0)
        if layout is not None:
            with lease(self.params.nthread) as team:
                add_layout(team, aligned, layout, before)
        return before, after

    def _follow(
        self, session: Session, data: DMatrix, weights: NDArray[np.float32]
    ) -> None:
        """Bring the margins of a session to the present trees under these weights."""
        self._rescale(session, data, self.model.trees[session.weights.size :])
        step = 0.0 if session.scale is None else session.scale.step
        layout = self._changes(session.weights, weights, data.dtype, step)
        if layout is not None:
            with lease(self.params.nthread) as team:
                session.add(team, data, layout)
        session.weights = weights

    def _changes(
        self,
        before: NDArray[np.float32],
        weights: NDArray[np.float32],
        dtype: Any,
        step: float,
    ) -> Layout | None:
        """Return trees that bring margins from these weights to those; None: none do.

        A tree whose weight is another is subtracted and added again.
        """
        known = np.zeros_like(weights)
        known[: before.size] = before
        changed = np.flatnonzero(known != weights)
        numbers = np.concatenate([changed, changed])
        weight = np.concatenate([-known[changed], weights[changed]])
        counts = weight != 0
        if not counts.any():
            return None
        return self._layout_of(numbers[counts], weight[counts], dtype, step)

    def _rescale(self, session: Session, data: DMatrix, trees: Sequence[Tree]) -> None:
        """Have a session round by the scale of these trees, too."""
        if session.scale is None:
            return
        step = session.scale.step
        session.scale = session.scale.with_trees(trees)
        if session.scale.step != step:
            margins, session.weights, session.scale = self._margins_of(data)
            session.set_margins(margins)

    def _end_round(self) -> None:
        """Take over what a round leaves behind beside its trees."""
        self._layouts.clear()
        self.model.objective_state = self.objective.state = self.objective.next_state
        if self.params.verbosity >= 2:
            first, _ = self.model.round_starts[-2:]
            sizes = [
                f"{t.n_leaves} leaves deep {t.depth()}"
                for t in self.model.trees[first:]
            ]
            sys.stderr.write(f"round {self.model.n_rounds}: {', '.join(sizes)}\n")

    def reset(self) -> Self:
        """Let go of the training data and of what prediction has cached."""
        for session in self._sessions.values():
            session.close()
        self._sessions = weakref.WeakKeyDictionary()
        self._rounds.let_go()
        self._layouts.clear()
        return self


def _kind_of_rounds(parameters: Parameters) -> type[Rounds]:
    if parameters.booster == "gblinear":
        return LinearRounds
    return TreeRounds if parameters.process_type == "default" else UpdateRounds


def _create_metrics(parameters: Parameters, objective: Objective) -> list[Metric]:
    names = parameters.eval_metric
    if not names and not parameters.disable_default_eval_metric:
        names = (objective.default_metric,)
    return [create_metric(name, objective.n_outputs, parameters) for name in names]


def needs_double(least: float, most: float) -> bool:
    """Whether float32 is too coarse to tell labels apart, as with 1e9 and 1e9 + 10."""
    spread = most - least
    with np.errstate(over="ignore", invalid="ignore"):
        step = float(np.spacing(np.float32(max(abs(least), abs(most)))))
    return 0.0 < spread < step * _LEAST_STEPS_OF_SPREAD
