"""The model as a user holds it: it trains, predicts, is saved and loaded."""

from __future__ import annotations

import operator
import os
import sys
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.base import FilledColumns, GradientRows
from hornbeam.backends.open import open_leaf_rows, open_linear_rows
from hornbeam.boosting.custom import (
    MetricFunction,
    ObjectiveFunction,
    as_gradients,
    gradients_of,
    metric_pairs,
)
from hornbeam.boosting.dart import check_booster
from hornbeam.boosting.gbtree import boost_round
from hornbeam.boosting.linear import (
    begin_linear,
    check_features,
    check_linear,
    descend_round,
    fill_columns,
)
from hornbeam.boosting.prediction import leaves_of, squeezed
from hornbeam.boosting.predictor import Predictor
from hornbeam.boosting.session import Session, TrainingSession, ValidationSession
from hornbeam.boosting.updating import Revision, check_update
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.info import Info
from hornbeam.data.schema import Schema
from hornbeam.errors import DataError, ParameterError
from hornbeam.forest.layout import Layout
from hornbeam.forest.linear import Linear
from hornbeam.forest.merging import merge_models
from hornbeam.forest.model import Model
from hornbeam.forest.model_file import decode, encode, load
from hornbeam.forest.settings import read_settings
from hornbeam.forest.tree import Tree
from hornbeam.kernels.team import lease
from hornbeam.metrics.base import Metric
from hornbeam.metrics.base import create as create_metric
from hornbeam.objectives.base import Objective
from hornbeam.objectives.base import create as create_objective
from hornbeam.objectives.compiled import CompiledObjective, ScalarLoss
from hornbeam.objectives.totals import totals_of
from hornbeam.params import Parameters, ParameterSource

__all__ = ["Booster", "merge"]

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


class Booster(Predictor):
    """Gradient boosted trees with their parameters.

    Parameters
    ----------
    params
        Parameters of training, as a mapping or as pairs of name and value.
    cache
        Taken for XGBoost's sake: matrices that training will use.
    model_file
        A model to begin with: a path, the bytes of a file, or another booster.
    """

    def __init__(
        self,
        params: ParameterSource | None = None,
        cache: Sequence[DMatrix] | None = None,
        model_file: Booster | str | os.PathLike[str] | bytes | bytearray | None = None,
    ) -> None:
        for data in cache or ():
            if not isinstance(data, DMatrix):
                raise DataError(
                    f"cache must hold DMatrix objects, not {type(data).__name__}"
                )
        self.params = Parameters.resolve(params)
        self.model = Model()
        #: The model whose rounds are being updated.
        self._grown: Model | None = None
        self._loss: ScalarLoss | None = None
        self._sessions: weakref.WeakKeyDictionary[DMatrix, Session] = (
            weakref.WeakKeyDictionary()
        )
        self._layouts = {}
        self._columns: weakref.WeakKeyDictionary[DMatrix, FilledColumns] = (
            weakref.WeakKeyDictionary()
        )
        if isinstance(model_file, Booster):
            self.model = model_file.model.copy()
            self.params = model_file.params
            self._loss = model_file._loss
            self.set_param(params or {})
        elif model_file is not None:
            self.load_model(model_file)
            self.set_param(params or {})
        else:
            self._configure()
            if cache:
                self._take_columns(cache[0])

    # Parameters

    def _configure(self) -> None:
        """Make the objective; before the first tree the model follows it."""
        check_booster(self.params)
        check_linear(self.params)
        check_update(self.params)
        self.objective: Objective = (
            create_objective(self.params)
            if self._loss is None
            else CompiledObjective(self.params, self._loss)
        )
        self._metrics = self._create_metrics()
        outputs = self.objective.n_outputs
        columns = self.params.vector_columns(outputs)
        if self.model.n_rounds:
            if self.model.n_outputs != outputs:
                raise ParameterError(
                    f"objective={self.params.objective!r} has {outputs} outputs, but "
                    f"the model has {self.model.n_outputs}; continue a model with an "
                    "objective of as many outputs"
                )
            if self.model.num_parallel_tree != self.params.num_parallel_tree:
                raise ParameterError(
                    f"num_parallel_tree={self.params.num_parallel_tree} differs from "
                    f"the model's {self.model.num_parallel_tree}; leave it out when "
                    "you continue a model"
                )
            if (columns > 0) != (self.model.leaf_size > 1):
                raise ParameterError(
                    f"multi_strategy={self.params.multi_strategy!r} differs from the "
                    "model's; leave it out when you continue a model"
                )
        else:
            self.model.num_class = self.params.num_class
            self.model.num_target = 1 if self.params.num_class else outputs
            self.model.num_parallel_tree = self.params.num_parallel_tree
            self._take_given_base_score()
        self._take_booster()
        if self.params.process_type == "default":
            self._grown = None
        self.model.unseen_missing = self.params.unseen == "missing"
        self.model.objective = self.objective.name
        self.model.objective_config = self.objective.config()
        if isinstance(self.objective, CompiledObjective):
            self.objective.mark(self.model.attributes)
        state = self.objective.known(self.model.objective_state)
        self.model.objective_state = state
        self.objective.state = self.objective.next_state = state

    def _take_booster(self) -> None:
        """Give trees weights if some are to be dropped, and features for gblinear."""
        model, booster = self.model, self.params.booster
        before = "gbtree" if model.tree_weights is None else "dart"
        if model.linear is not None:
            before = "gblinear"
        if booster == before:
            return
        if model.n_rounds and (before, booster) != ("gbtree", "dart"):
            raise ParameterError(
                f"booster={booster!r} cannot continue a model of booster={before!r}; "
                "leave booster out"
            )
        self.reset()
        model.tree_weights = model.weights if booster == "dart" else None
        model.linear = None
        if booster == "gblinear":
            model.linear = Linear.zero(model.num_feature, model.n_outputs)

    def _create_metrics(self) -> list[Any]:
        names = self.params.eval_metric
        if not names and not self.params.disable_default_eval_metric:
            names = (self.objective.default_metric,)
        outputs = self.objective.n_outputs
        return [create_metric(name, outputs, self.params) for name in names]

    @property
    def metrics(self) -> list[Metric]:
        """What `eval` reports."""
        return list(self._metrics)

    def _take_given_base_score(self) -> None:
        given = self.params.base_score
        outputs = self.objective.n_outputs
        values = np.atleast_1d(np.asarray(0.5 if given is None else given, np.float64))
        if values.size not in (1, outputs):
            raise ParameterError(
                f"base_score has {values.size} values, but the model has {outputs} "
                "outputs; give one number, or one for each output"
            )
        self.model.base_score = np.full(outputs, values)
        self.model.boost_from_average = given is None

    def set_param(self, params: ParameterSource | str, value: Any = None) -> None:
        """Change parameters: a mapping, pairs, or a name and its value."""
        before = self.params
        pairs = {params: value} if isinstance(params, str) else params
        self.params = before.updated(pairs)
        given = self.params.base_score
        if self.model.n_rounds and given != before.base_score and given is not None:
            same = np.array_equal(
                np.broadcast_to(given, self.model.base_score.shape),
                self.model.base_score,
            )
            if not same:
                self.params = before
                raise ParameterError(
                    f"base_score={given} differs from the one that the rounds of this "
                    f"model began with ({self.model.base_score.tolist()}); leave it "
                    "out when you continue a model"
                )
        self._configure()

    def set_objective(self, objective: ScalarLoss) -> None:
        """Take an objective in formulas, to train and to predict with.

        `train` does it for the one that it is given. A model file holds no formulas:
        with a loaded model its user does it, where predictions are asked for.
        """
        if not isinstance(objective, ScalarLoss):
            raise ParameterError(
                "an objective in formulas has the functions gradient(y, m) and "
                f"hessian(y, m); {objective!r} has not"
            )
        if self._loss is not objective:
            before, self._loss = self._loss, objective
            try:
                self._configure()
            except BaseException:
                self._loss = before
                raise
            self.reset()  # the labels have not been looked at with it

    # Training

    def update(
        self,
        dtrain: DMatrix,
        iteration: int,
        fobj: ObjectiveFunction | ScalarLoss | None = None,
    ) -> None:
        """Add one round of trees.

        Parameters
        ----------
        dtrain
            Data with labels.
        iteration
            Number of the round in the caller's count; it changes nothing.
        fobj
            An objective of your own, instead of the parameter's: a function of
            (predictions, data), or formulas.
        """
        fobj = self._function_in(fobj)
        with self._round(dtrain, estimate=fobj is None) as rows:
            if fobj is None:
                self._compute_gradients(rows, dtrain.info)
            else:
                margins = squeezed(np.ascontiguousarray(rows.scores().T))
                _set_gradients(rows, *gradients_of(fobj, margins, dtrain))

    def _function_in(
        self, own: ObjectiveFunction | ScalarLoss | None
    ) -> ObjectiveFunction | None:
        """Return an objective that is a function; take one that is formulas."""
        if isinstance(own, ScalarLoss):
            self.set_objective(own)
            return None
        return own

    def _compute_gradients(self, backend: GradientRows, info: Info | None) -> None:
        """Have the backend take new gradients, where `info` is of all its rows.

        It is not needed where each row has all that its gradient needs.
        """
        if self.objective.by_row:
            backend.compute_gradients(self.objective)
            return
        assert info is not None
        with lease(self.params.nthread) as team:
            pair = self.objective.gradients(
                team, backend.scores(), info, self.model.n_rounds
            )
        backend.set_gradients(*pair)

    def boost(
        self,
        dtrain: DMatrix,
        iteration: int,
        *,
        grad: Any = None,
        hess: Any = None,
        fobj: ObjectiveFunction | None = None,
    ) -> None:
        """Add one round of trees from your own gradients and hessians.

        Parameters
        ----------
        dtrain
            Data; its labels are not looked at.
        iteration
            Number of the round in the caller's count; it changes nothing.
        grad, hess
            (rows,) or (rows, outputs).
        fobj
            A function that gives both, instead.
        """
        if fobj is not None:
            if grad is not None or hess is not None:
                raise ParameterError("give either fobj, or grad and hess, not both")
            self.update(dtrain, iteration, fobj)
            return
        with self._round(dtrain, estimate=False) as rows:
            _set_gradients(rows, grad, hess)

    def _round(
        self, data: DMatrix, estimate: bool
    ) -> AbstractContextManager[GradientRows]:
        """Lend the rows of `data` to set gradients on, then add a round."""
        if self.params.booster == "gblinear":
            return self._descending(data, estimate)
        if self.params.process_type == "default":
            return self._growing(data, estimate)
        if self._grown is None:
            self._grown = self.model
            self._take_back_rounds()
        return self._revising(data, estimate, self._grown, Revision.by(self.params))

    @contextmanager
    def _descending(self, data: DMatrix, estimate: bool) -> Iterator[GradientRows]:
        """Lend the rows of `data`, then move the weights of the linear model."""
        check_features(data)
        aligned = self._aligned(data)
        columns = self._columns.get(data)
        if columns is None:
            columns = self._columns[data] = fill_columns(aligned.table)
        targets = None
        if estimate:
            self._take_targets(data.n_targets)
            targets = self.objective.targets_of(data.info)
            self.objective.check_targets(targets)
        if self.model.n_rounds == 0:
            self._begin_model(data, targets)
            self.model.exact_features = data.dtype == np.float64
            self.model.linear = begin_linear(self._base(), data.n_features)
            self.model.base_score[:] = self.model.base_score[0]
        rows = open_linear_rows(
            columns,
            np.empty((1, 0)) if targets is None else targets,
            data.row_weights,
            np.ascontiguousarray(self._margins_of(aligned)[0].T),
            threads=self.params.nthread,
        )
        with closing(rows):
            yield rows
            total = float(data.n_rows)
            if data.row_weights is not None:
                total = float(totals_of([data.row_weights], data.n_rows)[0])
            assert self.model.linear is not None
            self.model.linear = descend_round(
                rows, self.params, self.model.linear, total
            )

    def _take_back_rounds(self) -> None:
        """Go on with the model of before its first round."""
        if not self.model.trees:
            raise ParameterError(
                "process_type='update' updates the rounds of a model, and there are "
                "none; pass the model as xgb_model"
            )
        self.model = self.model.beginning()
        self.reset()

    @contextmanager
    def _revising(
        self, data: DMatrix, estimate: bool, grown: Model, revision: Revision
    ) -> Iterator[GradientRows]:
        """Lend the rows of `data`, then add the next round of `grown`, revised."""
        model, number = self.model, self.model.n_rounds
        if number == grown.n_rounds:
            raise ParameterError(
                f"all {number} rounds of the model have been updated; lower "
                "num_boost_round"
            )
        if any(tree.value.ndim > 1 for tree in grown.trees):
            raise ParameterError(
                "trees of all outputs (multi_strategy='multi_output_tree') are not "
                "updated yet; train anew, or with one tree for each output"
            )
        aligned, session = self._aligned(data), self._session(data)
        targets = np.empty((1, 0))
        if estimate:
            targets = self.objective.targets_of(data.info)
            self.objective.check_targets(targets)
            if self.objective.many_targets and len(targets) != model.n_outputs:
                raise DataError(
                    f"the labels have {len(targets)} columns, but the model has "
                    f"{model.n_outputs} targets; give a column for each"
                )
        rows = open_leaf_rows(
            targets,
            data.row_weights,
            np.ascontiguousarray(session.margins().T),
            threads=self.params.nthread,
        )
        with closing(rows):
            yield rows
            begin, end = grown.round_starts[number : number + 2]
            kind = self._feature_type(data.dtype)
            trees, outputs = grown.trees[begin:end], grown.tree_output[begin:end]
            layout = Layout.of(trees, outputs, kind, grown.num_feature)
            with lease(self.params.nthread) as team:
                leaves = leaves_of(team, aligned, layout).astype(np.uint32)
            revised = [
                revision.of(tree, rows.sums(output, nodes, tree.n_nodes))
                for tree, output, nodes in zip(trees, outputs, leaves.T, strict=True)
            ]
        model.add_round(revised, outputs, grown.weights[begin:end])
        self._layouts.clear()

    @contextmanager
    def _growing(self, data: DMatrix, estimate: bool) -> Iterator[GradientRows]:
        """Lend the rows of `data`, then grow a round of trees on them."""
        session = self._training_session(data, estimate)
        aligned, model = self._aligned(data), self.model
        dropout = self._next_dropout()
        weights, known = model.weights, len(model.trees)
        try:
            if dropout is not None:
                self._follow(session, aligned, dropout.during(weights))
            yield session.backend
            boost_round(
                session.backend,
                session.cuts,
                self.params,
                model,
                aligned.feature_weights,
                session.contributions(dropout),
            )
        except BaseException:
            # Some trees of the round may be in the margins, and none in the model.
            self._sessions.pop(data, None)
            session.close()
            raise
        if dropout is None:
            session.weights = model.weights
        else:
            model.tree_weights = dropout.after(weights, len(model.trees) - known)
            session.weights = np.concatenate(
                [session.weights, model.tree_weights[known:]]
            )
            self._rescale(session, aligned, model.trees[known:])
        self._end_round()

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

    def _training_session(self, data: DMatrix, estimate: bool) -> TrainingSession:
        """Return the rows of `data` ready for another round of this model."""
        aligned = self._aligned(data)
        session = self._sessions.get(data)
        by_row = estimate and self.objective.by_row
        if (
            isinstance(session, TrainingSession)
            and session.weights.size == len(self.model.trees)
            and session.suits(data, self.params, by_row)
        ):
            return session
        targets = None
        if estimate:
            self._take_targets(data.n_targets)
            targets = self.objective.targets_of(data.info)
            self.objective.check_targets(targets)
        # Rows that cannot be binned are found before they have changed the model.
        binned = aligned.binned(self.params.max_bin, self.params.nthread)
        if not self.model.trees:
            self._begin_model(data, targets)
            self.model.exact_features = not binned.is_float32
        session = TrainingSession(
            aligned,
            targets if by_row else None,
            self.params,
            *self._margins_of(aligned),
        )
        self._sessions[data] = session
        return session

    def _take_targets(self, n_targets: int) -> None:
        """Give the model an output for each target, before its first tree."""
        targets = self.params.num_target
        if n_targets > 1 and targets != n_targets and self.objective.many_targets:
            if self.model.n_rounds or targets > 1:
                raise DataError(
                    f"the labels have {n_targets} columns, but the model has {targets} "
                    f"target{'s' if targets > 1 else ''}; train another model"
                )
            self.set_param("num_target", n_targets)

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
        model.double_scores = span is not None and _needs_double(*span)
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
            self.model.linear = Linear.zero(data.n_features, self.model.n_outputs)

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
                        f"against; pass them: DMatrix(data, {field}=...)"
                    )
            given = squeezed(margins.copy()) if feval and output_margin else None
            with lease(self.params.nthread) as team:
                self._need_transform()
                predictions = squeezed(self.objective.transform(team, margins))
            with warnings.catch_warnings():
                if self.params.verbosity == 0:
                    warnings.simplefilter("ignore")
                for metric in self._metrics:
                    value = metric.of(predictions, beside.info)
                    scores.append((f"{name}-{metric.name}", value))
            if feval is not None:
                result = feval(predictions if given is None else given, beside)
                for metric_name, value in metric_pairs(result):
                    scores.append((f"{name}-{metric_name}", value))
        return scores

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

    def _follow(
        self, session: Session, data: DMatrix, weights: NDArray[np.float32]
    ) -> None:
        """Bring the margins of a session to the present trees under these weights."""
        self._rescale(session, data, self.model.trees[session.weights.size :])
        before = np.zeros_like(weights)
        before[: session.weights.size] = session.weights
        changed = np.flatnonzero(before != weights)
        numbers = np.concatenate([changed, changed])
        weight = np.concatenate([-before[changed], weights[changed]])
        counts = weight != 0
        if counts.any():
            step = 0.0 if session.scale is None else session.scale.step
            layout = self._layout_of(numbers[counts], weight[counts], data.dtype, step)
            with lease(self.params.nthread) as team:
                session.add(team, data, layout)
        session.weights = weights

    def _rescale(self, session: Session, data: DMatrix, trees: Sequence[Tree]) -> None:
        """Have a session round by the scale of these trees, too."""
        if session.scale is None:
            return
        step = session.scale.step
        session.scale = session.scale.with_trees(trees)
        if session.scale.step != step:
            margins, session.weights, session.scale = self._margins_of(data)
            session.set_margins(margins)

    def load_model(self, fname: str | os.PathLike[str] | bytes | bytearray) -> None:
        """Replace this model by that of a file, or of the bytes of one."""
        if isinstance(fname, bytes | bytearray):
            model = decode(fname)
        elif isinstance(fname, str | os.PathLike):
            model = load(fname)
        else:
            raise ParameterError(
                "a model comes from a path, the bytes of a model file, or a Booster, "
                f"not from {fname!r}"
            )
        booster = "gbtree" if model.tree_weights is None else "dart"
        loaded = self.params.updated(
            {
                "booster": booster if model.linear is None else "gblinear",
                "objective": model.objective,
                "num_class": model.num_class,
                "num_parallel_tree": model.num_parallel_tree,
                "multi_strategy": "multi_output_tree"
                if model.leaf_size > 1
                else "one_output_per_tree",
                "unseen": "missing" if model.unseen_missing else "error",
            }
        )
        for settings in model.objective_config.values():
            loaded = loaded.updated(read_settings(settings))
        if create_objective(loaded).many_targets:
            loaded = loaded.updated({"num_target": model.num_target})
        self.params, self.model = loaded, model
        self._grown = self._loss = None
        self.reset()
        self._configure()

    def reset(self) -> Booster:
        """Let go of the training data and of what prediction has cached."""
        for session in self._sessions.values():
            session.close()
        self._sessions = weakref.WeakKeyDictionary()
        self._columns = weakref.WeakKeyDictionary()
        self._layouts.clear()
        return self

    def refit(self, data: DMatrix, decay: float = 0.9) -> Booster:
        """Return a booster of the same trees with leaf values for other data.

        Round after round each leaf value becomes `decay` times the old one and the rest
        times the one that the rows of `data` would give it now. Leaves that no row
        falls into keep theirs. The learning rate is that of the parameters, which
        files do not hold.

        Parameters
        ----------
        data
            With labels.
        decay
            The share of the old values, from 0 to 1.
        """
        self._need_model()
        if not 0.0 <= decay <= 1.0:
            raise ParameterError(f"decay must be from 0 to 1, not {decay!r}")
        if self.model.linear is not None:
            raise ParameterError(
                "a linear model has no leaves to refit; train it on with xgb_model"
            )
        fitted = self.copy()
        fitted.set_param({"process_type": "update", "updater": "refresh"})
        revision = replace(Revision.by(fitted.params), decay=decay)
        fitted.model = self.model.beginning()
        for _ in range(self.model.n_rounds):
            with fitted._revising(data, True, self.model, revision) as rows:
                fitted._compute_gradients(rows, data.info)
        fitted.model.attributes = dict(self.model.attributes)
        fitted.params = self.params
        return fitted.reset()

    def copy(self) -> Booster:
        """Return a booster of the same model that goes its own way."""
        return Booster(model_file=self)

    def __copy__(self) -> Booster:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Booster:
        return self.copy()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "params": self.params.changed(),
            "model": encode(self.model, "ubj"),
            "loss": self._loss,
        }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        self.model = decode(state["model"])
        self.params = Parameters.resolve(state["params"])
        self._loss = state["loss"]
        self._configure()

    def __getitem__(self, rounds: int | slice) -> Booster:
        """Return a booster of some rounds; it shares their trees."""
        n_rounds = self.model.n_rounds
        if isinstance(rounds, slice):
            if rounds.step is not None and operator.index(rounds.step) < 1:
                raise IndexError(f"the step is {rounds.step}; give 1 or more")
            begin, end, step = rounds.indices(n_rounds)
        else:
            number = operator.index(rounds)
            begin = number + n_rounds if number < 0 else number
            end, step = begin + 1, 1
        part = self.copy()
        part.model = self.model.slice(begin, end, step)
        return part

    def __add__(self, other: Booster) -> Booster:
        """Return a booster of the rounds of both; see `merge`."""
        if not isinstance(other, Booster):
            return NotImplemented
        return merge([self, other])

    def __iter__(self) -> Iterator[Booster]:
        for number in range(self.model.n_rounds):
            yield self[number]


def merge(boosters: Sequence[Booster]) -> Booster:
    """Return a booster of the rounds of all boosters, one after the other.

    Its margins are those of the first, and what the others add to their base score. So
    all must have the same base score, and the same columns, objective and outputs. Of
    their parameters and attributes it has the first's.
    """
    if not boosters or not all(isinstance(part, Booster) for part in boosters):
        raise ParameterError("merge takes a list of boosters, one at least")
    merged = boosters[0].copy()
    merged.model = merge_models([part.model for part in boosters])
    if merged.model.tree_weights is not None:
        merged.set_param("booster", "dart")
    return merged


def _needs_double(least: float, most: float) -> bool:
    """Whether float32 is too coarse to tell labels apart, as with 1e9 and 1e9 + 10."""
    spread = most - least
    with np.errstate(over="ignore", invalid="ignore"):
        step = float(np.spacing(np.float32(max(abs(least), abs(most)))))
    return 0.0 < spread < step * _LEAST_STEPS_OF_SPREAD


def _set_gradients(backend: GradientRows, grad: Any, hess: Any) -> None:
    outputs, rows = backend.n_outputs, backend.n_rows
    backend.set_gradients(
        as_gradients(grad, "gradients", (rows, outputs)),
        as_gradients(hess, "hessians", (rows, outputs)),
    )
