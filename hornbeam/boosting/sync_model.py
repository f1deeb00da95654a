"""What a model, and the parameters that train it on, have to agree on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.forest.model import Linear, Model
from hornbeam.objectives.base import Objective
from hornbeam.objectives.base import create as create_objective
from hornbeam.objectives.config import read_settings
from hornbeam.params import Parameters

__all__ = ["booster_of", "check_agreement", "check_same_start", "follow", "settings_of"]


def booster_of(model: Model) -> str:
    """Return the parameter `booster` that makes such a model."""
    if model.linear is not None:
        return "gblinear"
    return "gbtree" if model.tree_weights is None else "dart"


def check_agreement(model: Model, parameters: Parameters, objective: Objective) -> None:
    """Raise a `ParameterError` if these cannot add rounds to the model."""
    p, outputs = parameters, objective.n_outputs
    columns = p.multi_output_columns(outputs)
    if model.n_rounds == 0:
        _given_base_score(p, outputs)
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
    if (columns > 0) != (model.leaf_size > 1):
        raise ParameterError(
            f"multi_strategy={p.multi_strategy!r} differs from the model's; leave it "
            "out when you continue a model",
            code=ErrorCode.MODEL_PARAMETER_MISMATCH,
        )
    before = booster_of(model)
    if p.booster != before and (before, p.booster) != ("gbtree", "dart"):
        raise ParameterError(
            f"booster={p.booster!r} cannot continue a model of booster={before!r}; "
            "leave booster out",
            code=ErrorCode.MODEL_PARAMETER_MISMATCH,
        )


def check_same_start(model: Model, parameters: Parameters) -> None:
    """Raise a `ParameterError` if the model's rounds began with another base score."""
    given = parameters.base_score
    if model.n_rounds == 0 or given is None:
        return
    if not np.array_equal(
        np.broadcast_to(given, model.base_score.shape), model.base_score
    ):
        raise ParameterError(
            f"base_score={given} differs from the one that the rounds of this model "
            f"began with ({model.base_score.tolist()}); leave it out when you continue "
            "a model",
            code=ErrorCode.MODEL_PARAMETER_MISMATCH,
        )


def follow(model: Model, parameters: Parameters, objective: Objective) -> None:
    """Have the model be one of these parameters, with which it agrees."""
    p, outputs = parameters, objective.n_outputs
    if model.n_rounds == 0:
        model.num_class = p.num_class
        model.num_target = 1 if p.num_class else outputs
        model.num_parallel_tree = p.num_parallel_tree
        model.base_score = _given_base_score(p, outputs)
        model.boost_from_average = p.base_score is None
    if p.booster != booster_of(model):
        model.tree_weights = model.weights if p.booster == "dart" else None
        model.linear = None
        if p.booster == "gblinear":
            model.linear = Linear.zero(model.num_feature, model.n_outputs)
    model.unseen_missing = p.unseen == "missing"
    model.objective = objective.name
    model.objective_config = objective.config()
    model.objective_state = objective.known(model.objective_state)


def _given_base_score(p: Parameters, outputs: int) -> NDArray[np.float64]:
    given = 0.5 if p.base_score is None else p.base_score
    values = np.atleast_1d(np.asarray(given, np.float64))
    if values.size not in (1, outputs):
        raise ParameterError(
            f"base_score has {values.size} values, but the model has {outputs} "
            "outputs; give one number, or one for each output",
            code=ErrorCode.MODEL_OUTPUTS_MISMATCH,
        )
    return np.full(outputs, values)


def settings_of(model: Model, parameters: Parameters) -> Parameters:
    """Return parameters changed to those that the model was made by."""
    strategy = parameters.multi_strategy
    if model.n_outputs > 1:  # with one, both are the same
        vectors = model.leaf_size > 1
        strategy = "multi_output_tree" if vectors else "one_output_per_tree"
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
