"""The state that training and prediction share: model, parameters, objective, metrics.

The trainer adds rounds to the model and the predictor reads it. Parameters and model
agree at all times: a change that contradicts the model raises an error and leaves
everything as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.boosting.parameter_checks import check_parameters
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.schema import Schema
from hornbeam.errors import DataError, ErrorCode, NotTrainedError, ParameterError
from hornbeam.features.matrix import expanded, with_derived
from hornbeam.forest.model import LinearModel, Model
from hornbeam.metrics.base import Metric
from hornbeam.metrics.registry import create as create_metric
from hornbeam.objectives.base import Objective
from hornbeam.objectives.compiled import CompiledObjective, ScalarLoss
from hornbeam.objectives.config import read_settings
from hornbeam.objectives.registry import create as create_objective
from hornbeam.params import Parameters

__all__ = ["Learner", "booster_of", "needs_float64", "parameters_of"]

#: Labels closer together than this many float32 steps need float64 margins.
_LEAST_STEPS_OF_SPREAD = 1000.0


class FeatureInfo(Protocol):
    """A matrix as the model sees its features."""

    n_features: int

    @property
    def schema(self) -> Schema:
        """Names, types and categories of the features."""

    @property
    def feature_names(self) -> Sequence[str] | None:
        """Names of the features."""

    @property
    def feature_types(self) -> Sequence[str] | None:
        """Types of the features."""


class Learner:
    """The model of a booster with its parameters, its objective and its metrics.

    Parameters
    ----------
    parameters
        Of training; `configure` or `replace_model` checks them.

    Attributes
    ----------
    model
        The trees, or the linear model.
    params
        The parameters that the next round uses.
    objective
        Computes gradients, and turns margins into predictions.
    metrics
        Evaluated after each round.
    loss
        The custom objective in formulas; None: the parameters name the objective.
    """

    objective: Objective
    metrics: list[Metric]

    def __init__(self, parameters: Parameters) -> None:
        self.params, self.model = parameters, Model()
        self.loss: ScalarLoss | None = None

    # Parameters

    def configure(self, parameters: Parameters, loss: ScalarLoss | None) -> None:
        """Use these parameters and this custom objective from now on.

        Raises
        ------
        ParameterError
            If they contradict each other or the model; nothing has changed then.
        """
        objective = self.create_objective(parameters, loss)
        self.check(parameters, objective)
        metrics = self.create_metrics(parameters, objective)
        self.params, self.loss = parameters, loss
        self.objective, self.metrics = objective, metrics
        self._sync_model()
        if isinstance(objective, CompiledObjective):
            objective.mark(self.model.attributes)
        objective.state = objective.next_state = self.model.objective_state

    def replace_model(
        self, model: Model, parameters: Parameters, loss: ScalarLoss | None
    ) -> None:
        """Use another model with these parameters; an error changes nothing."""
        before, self.model = self.model, model
        try:
            self.configure(parameters, loss)
        except BaseException:
            self.model = before
            raise

    def check(self, parameters: Parameters, objective: Objective) -> None:
        """Raise a `ParameterError` if these cannot add rounds to the model."""
        check_parameters(parameters, objective)
        _check_model(self.model, parameters, objective)
        if self.model.n_rounds > 0:
            self.check_strategy(parameters, objective)

    def check_strategy(self, parameters: Parameters, objective: Objective) -> None:
        """Raise a `ParameterError` if trees would have leaves of another size."""
        p, before = parameters, self.model.leaf_size
        if (p.multi_output_columns(objective.n_outputs) > 0) != (before > 1):
            raise ParameterError(
                f"multi_strategy={p.multi_strategy!r} differs from the model's; leave "
                "it out when you continue a model",
                code=ErrorCode.MODEL_PARAMETER_MISMATCH,
            )

    def create_objective(
        self, parameters: Parameters, loss: ScalarLoss | None
    ) -> Objective:
        """Return the objective: the custom one, or the one that the parameters name."""
        if loss is None:
            return create_objective(parameters)
        return CompiledObjective(parameters, loss)

    def create_metrics(
        self, parameters: Parameters, objective: Objective
    ) -> list[Metric]:
        """Return the metrics that the parameters name, or the objective's default."""
        names = parameters.eval_metric
        if not names and not parameters.disable_default_eval_metric:
            names = (objective.default_metric,)
        return [create_metric(name, objective.n_outputs, parameters) for name in names]

    def check_base_score(self, parameters: Parameters) -> None:
        """Raise a `ParameterError` if the first round began at another base score."""
        given, known = parameters.base_score, self.model.base_score
        if self.model.n_rounds == 0 or given is None:
            return
        if not np.array_equal(np.broadcast_to(given, known.shape), known):
            raise ParameterError(
                f"base_score={given} differs from the one that the rounds of this "
                f"model began with ({known.tolist()}); leave it out when you continue "
                "a model",
                code=ErrorCode.MODEL_PARAMETER_MISMATCH,
            )

    def _sync_model(self) -> None:
        """Write the parameters into the model, which agrees with them."""
        model, p, objective = self.model, self.params, self.objective
        if model.n_rounds == 0:
            outputs = objective.n_outputs
            model.num_class = p.num_class
            model.num_target = 1 if p.num_class else outputs
            model.num_parallel_tree = p.num_parallel_tree
            model.base_score = _given_base_score(p, objective)
            model.boost_from_average = p.base_score is None
        if p.booster != booster_of(model):
            model.tree_weights = model.weights if p.booster == "dart" else None
            model.linear = None
            if p.booster == "gblinear":
                model.linear = LinearModel.zero(model.num_feature, model.n_outputs)
        model.unseen_missing = p.unseen == "missing"
        model.objective = objective.name
        model.objective_config = objective.config()
        model.objective_state = objective.known(model.objective_state)

    # The model before its first round

    def targets_of(self, data: DMatrix) -> NDArray[np.float64]:
        """Return the checked labels, (targets, rows); the model gets its outputs."""
        self.set_num_target(data.n_targets)
        targets = self.objective.targets_of(data.info)
        self.objective.check_targets(targets)
        return targets

    def set_num_target(self, n_targets: int) -> None:
        """Give the model an output for each target, before its first round."""
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
        self.configure(self.params.updated({"num_target": n_targets}), self.loss)

    def initialise_model(
        self, data: DMatrix, targets: NDArray[np.float64] | None
    ) -> None:
        """Set features and base score by the training data of the first round.

        `targets`, (targets, rows), estimate the base score unless it is given; None:
        gradients do not come from the objective.
        """
        self.set_features(expanded(data))
        estimate = None
        if targets is not None and self.model.boost_from_average:
            estimate = self.objective.estimate_base_score(targets, data.row_weights)
        labels = data.labels
        span = None if labels is None else (float(labels.min()), float(labels.max()))
        self.set_base_score(estimate, span)

    def set_base_score(
        self, estimate: NDArray[np.float64] | None, span: tuple[float, float] | None
    ) -> None:
        """Set the base score, (outputs,), and the type of margins.

        `estimate` is None where the base score is given, and `span` holds the least
        and the greatest label, None if there are none.
        """
        model = self.model
        if estimate is not None:
            model.base_score = estimate
        else:
            _check_base_score(self.params, model.n_outputs)
        is_single = self.params.margin_type == "float32"
        model.double_scores = (
            not is_single and span is not None and needs_float64(*span)
        )
        if not model.double_scores:
            with np.errstate(over="ignore"):  # the gradients will overflow as well
                rounded = model.base_score.astype(np.float32)
            model.base_score = rounded.astype(np.float64)

    def set_features(self, data: FeatureInfo) -> None:
        """Set number, names, types and categories of the features."""
        self.model.num_feature = data.n_features
        self.model.feature_names = list(data.feature_names or [])
        self.model.feature_types = list(data.feature_types or [])
        self.model.categories = data.schema.categories
        self.model.derived = getattr(data, "derived", None)
        if self.model.linear is not None:
            self.model.linear = LinearModel.zero(data.n_features, self.model.n_outputs)

    def schema(self, validate_features: bool = True) -> Schema:
        """Return the columns that the model takes; without names by position."""
        schema = self.model.raw_schema
        return schema if validate_features else replace(schema, names=None)

    def align(
        self,
        data: DMatrix,
        validate_features: bool = True,
        unseen: str | None = None,
    ) -> DMatrix:
        """Return `data` with the features and the category codes of the model."""
        if not isinstance(data, DMatrix):
            raise DataError(
                f"expected a DMatrix, got {type(data).__name__}; wrap it: "
                "DMatrix(data), or use inplace_predict",
                code=ErrorCode.NOT_A_DMATRIX,
            )
        model = self.model
        if model.num_feature == 0:
            return expanded(data)
        known = data.expansion
        if known is not None and known.derived == model.derived:
            data = known
        if data.derived is not None:
            if data.derived != model.derived or not _fits(data.schema, model.schema):
                raise DataError(
                    "this matrix has derived features, and they are not those of the "
                    "model, which computes its own; pass a matrix of the columns that "
                    "they were derived from",
                    code=ErrorCode.DERIVED_FEATURES_MISMATCH,
                )
            return data
        unseen = unseen or self.params.unseen
        return self._with_derived(data.like(self.schema(validate_features), unseen))

    def columns_of(self, data: DMatrix) -> tuple[Any, ...]:
        """Return what `align` goes by: it gives the same for the same objects."""
        table, model = data.table, self.model
        of_data = table, table.names, table.types, table.categories, data.expansion
        names = model.feature_names, model.feature_types, model.categories
        return (*of_data, *names, model.derived, self.params.unseen)

    def _with_derived(self, aligned: DMatrix) -> DMatrix:
        """Return a matrix of the model's columns with its derived features."""
        model = self.model
        if model.derived is None:
            return aligned
        return with_derived(aligned, model.derived, not model.exact_features)

    def require_model(self) -> None:
        """Raise a `NotTrainedError` if the booster has neither trained nor loaded."""
        if self.model.num_feature == 0:
            raise NotTrainedError(
                "this Booster has neither been trained nor loaded; train it, or use "
                "load_model",
                code=ErrorCode.EMPTY_BOOSTER,
            )


def _fits(given: Schema, expected: Schema) -> bool:
    """Return whether columns are the expected ones, as far as they have names."""
    return (
        given.n_features == expected.n_features
        and given.names in (None, expected.names)
        and (given.categories.empty() or given.categories == expected.categories)
    )


def booster_of(model: Model) -> str:
    """Return the value of the parameter `booster` that makes such a model."""
    if model.linear is not None:
        return "gblinear"
    return "gbtree" if model.tree_weights is None else "dart"


def parameters_of(model: Model, parameters: Parameters) -> Parameters:
    """Return `parameters` with the settings that the model was trained with."""
    strategy = parameters.multi_strategy
    if model.n_outputs > 1:  # with one output, both strategies are the same
        multi = model.leaf_size > 1
        strategy = "multi_output_tree" if multi else "one_output_per_tree"
    changed = parameters.updated(
        {
            "booster": booster_of(model),
            "objective": model.objective,
            "num_class": model.num_class,
            "num_parallel_tree": model.num_parallel_tree,
            "multi_strategy": strategy,
            "unseen": "missing" if model.unseen_missing else "error",
        }
    )
    for settings in model.objective_config.values():
        changed = changed.updated(read_settings(settings))
    if model.n_rounds == 0 and not model.boost_from_average:
        changed = changed.updated({"base_score": model.base_score.tolist()})
    if create_objective(changed).many_targets:
        changed = changed.updated({"num_target": model.num_target})
    return changed


def _check_model(model: Model, p: Parameters, objective: Objective) -> None:
    """Raise a `ParameterError` if the model cannot continue with these parameters."""
    outputs = objective.n_outputs
    if model.n_rounds == 0:
        _given_base_score(p, objective)
        return
    if model.n_outputs != outputs:
        raise ParameterError(
            f"objective={p.objective!r} has {outputs} outputs, but the model has "
            f"{model.n_outputs}; continue a model with an objective of as many outputs",
            code=ErrorCode.MODEL_OUTPUTS_MISMATCH,
        )
    if model.num_parallel_tree != p.num_parallel_tree:
        raise ParameterError(
            f"num_parallel_tree={p.num_parallel_tree} differs from the model's "
            f"{model.num_parallel_tree}; leave it out when you continue a model",
            code=ErrorCode.MODEL_PARAMETER_MISMATCH,
        )
    if p.booster == "dart" and model.has_linear_leaves:
        raise ParameterError(
            "booster='dart' cannot continue a model of leaf_model='linear'; leave "
            "booster out",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    before = booster_of(model)
    if p.booster != before and (before, p.booster) != ("gbtree", "dart"):
        raise ParameterError(
            f"booster={p.booster!r} cannot continue a model of booster={before!r}; "
            "leave booster out",
            code=ErrorCode.MODEL_PARAMETER_MISMATCH,
        )


def _given_base_score(p: Parameters, objective: Objective) -> NDArray[np.float64]:
    """Return the base score of the parameters, or 0.5, for each output.

    Several values may be those of targets, whose number only the labels tell.
    """
    outputs, given = objective.n_outputs, p.base_score
    if isinstance(given, tuple) and outputs == 1 and objective.many_targets:
        return np.full(1, given[0])
    _check_base_score(p, outputs)
    return np.full(outputs, 0.5 if given is None else given, np.float64)


def _check_base_score(p: Parameters, outputs: int) -> None:
    """Raise a `ParameterError` unless there is one base score, or one an output."""
    given = p.base_score
    if isinstance(given, tuple) and len(given) not in (1, outputs):
        raise ParameterError(
            f"base_score has {len(given)} values, but the model has {outputs} "
            "outputs; give one number, or one for each output",
            code=ErrorCode.MODEL_OUTPUTS_MISMATCH,
        )


def needs_float64(least: float, greatest: float) -> bool:
    """Whether float32 is too coarse for labels in this range, as 1e9 to 1e9 + 10."""
    spread = greatest - least
    with np.errstate(over="ignore", invalid="ignore"):
        step = float(np.spacing(np.float32(max(abs(least), abs(greatest)))))
    return 0.0 < spread < step * _LEAST_STEPS_OF_SPREAD
