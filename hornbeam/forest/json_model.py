"""Reads and writes a model as the JSON document of XGBoost's model files (3.2).

The reader does not trust the document and validates every part. The document has an
extension that XGBoost does not read: the object ``hornbeam`` next to ``learner``, and
float64 thresholds in trees (see `json_trees`). `model_file` moves it to another place
in files.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.errors import ErrorCode, ModelFileError
from hornbeam.forest.cat_container import read_categories, write_categories
from hornbeam.forest.derived_json import read_derived, write_derived
from hornbeam.forest.json_fields import (
    as_array,
    as_count,
    as_integers,
    as_object,
    as_string,
    as_string_map,
    as_strings,
    count_param,
)
from hornbeam.forest.json_trees import read_trees, write_trees
from hornbeam.forest.model import LinearModel, Model
from hornbeam.forest.object_table import ObjectTable
from hornbeam.forest.validation import (
    MAX_FEATURES,
    UnsupportedModelError,
    category_limits,
    check_features,
    check_model,
    parse_float,
)
from hornbeam.objectives.config import spelled
from hornbeam.objectives.registry import find
from hornbeam.params import MAX_OUTPUTS, Parameters

__all__ = ["read_document", "write_document"]

_FORMAT = 1
#: The booster of trees with linear leaves. XGBoost, which would predict by their
#: constants alone, does not know it and refuses the file.
_LINEAR_LEAVES = "gbtree_linear_leaves"
_XGBOOST_VERSION = [3, 2, 0]

# Files of older versions lack parameters that were added later.
_DEFAULTS = {
    name: spelled(getattr(Parameters(), name))
    for name in (
        "scale_pos_weight",
        "max_delta_step",
        "lambdarank_bias_norm",
        "lambdarank_normalization",
        "lambdarank_num_pair_per_sample",
        "lambdarank_pair_method",
        "lambdarank_score_normalization",
        "lambdarank_unbiased",
        "ndcg_exp_gain",
    )
}


def write_document(model: Model) -> dict[str, Any]:
    """Return `model` as a document.

    Raises
    ------
    ModelFileError
        If the model is not valid.
    """
    check_model(model)
    features = model.num_feature
    return {
        "hornbeam": {
            "double_scores": model.double_scores,
            "exact_features": model.exact_features,
            "format": _FORMAT,
            **(
                {"last_change": repr(model.linear.last_change)}
                if model.linear is not None and math.isfinite(model.linear.last_change)
                else {}
            ),
            **(
                {"derived": write_derived(model.derived)}
                if model.derived is not None
                else {}
            ),
            **({"unseen_missing": True} if model.unseen_missing else {}),
        },
        "learner": {
            "attributes": model.attributes,
            "feature_names": model.feature_names,
            "feature_types": model.feature_types,
            "gradient_booster": _write_booster(model),
            "learner_model_param": {
                "base_score": f"[{','.join(map(repr, model.base_score.tolist()))}]",
                "boost_from_average": str(int(model.boost_from_average)),
                "num_class": str(model.num_class),
                "num_feature": str(features),
                "num_target": str(model.num_target),
            },
            "objective": {
                "name": model.objective,
                **model.objective_config,
                **model.objective_state,
            },
        },
        "version": _XGBOOST_VERSION,
    }


def _write_booster(model: Model) -> dict[str, Any]:
    if model.linear is not None:
        return {
            "model": {
                "boosted_rounds": model.linear.rounds,
                "weights": model.linear.weights.ravel(),
            },
            "name": "gblinear",
        }
    booster = {
        "model": {
            "cats": write_categories(model.categories),
            "gbtree_model_param": {
                "num_parallel_tree": str(model.num_parallel_tree),
                "num_trees": str(len(model.trees)),
            },
            "iteration_indptr": model.round_starts,
            "tree_info": model.tree_output,
            "trees": write_trees(model),
        },
        "name": _LINEAR_LEAVES if model.has_linear_leaves else "gbtree",
    }
    if model.tree_weights is None:
        return booster
    # XGBoost cannot read them as a typed array.
    return {"gbtree": booster, "name": "dart", "weight_drop": list(model.tree_weights)}


def read_document(document: Any) -> Model:
    """Return the model in a document, after validation of every part.

    Raises
    ------
    ModelFileError
        If a part of the document is not valid.
    """
    top = as_object(document, "the file", ["learner"], ["hornbeam", "version"])
    as_integers(top.get("version", []), "version")
    learner = as_object(
        top["learner"],
        "learner",
        ["attributes", "gradient_booster", "learner_model_param", "objective"],
        ["feature_names", "feature_types"],
    )
    model = Model(exact_features=False)
    if "hornbeam" in top:
        _read_extension(model, top["hornbeam"])
    _read_shape(model, learner["learner_model_param"], exact="hornbeam" in top)
    _read_objective(model, learner["objective"])
    model.attributes = as_string_map(learner["attributes"], "learner.attributes")
    for key in ("feature_names", "feature_types"):
        setattr(model, key, as_strings(learner.get(key, []), f"learner.{key}"))
    _read_booster(model, learner["gradient_booster"])
    if model.linear is not None and "last_change" in top.get("hornbeam", {}):
        text = as_string(top["hornbeam"]["last_change"], "hornbeam.last_change")
        change = parse_float(text)
        if not change >= 0.0:
            raise ModelFileError(
                f"hornbeam.last_change is {text!r}, not a number",
                code=ErrorCode.MODEL_FILE_WRONG_TYPE,
            )
        model.linear = replace(model.linear, last_change=change)
    if "derived" in top.get("hornbeam", {}):
        model.derived = read_derived(top["hornbeam"]["derived"], model)
    check_model(model)
    return model


def _read_extension(model: Model, value: Any) -> None:
    flags = ["double_scores", "exact_features"]
    is_narrow = isinstance(value, dict) and "prediction_digest" in value
    checksum = "prediction_digest" if is_narrow else "digest"
    block = as_object(
        value,
        "hornbeam",
        [checksum, "format", *flags],
        ["derived", "last_change", "unseen_missing"],
    )
    written = block["format"]
    if type(written) is not int or written < _FORMAT:
        raise ModelFileError(
            f"hornbeam.format is {written!r}, not {_FORMAT}",
            code=ErrorCode.MODEL_FILE_WRONG_TYPE,
        )
    if written > _FORMAT:
        raise UnsupportedModelError(
            f"hornbeam.format is {written}: a later version of Hornbeam wrote this "
            "file; upgrade Hornbeam to read it",
            code=ErrorCode.MODEL_FILE_UNSUPPORTED,
        )
    for flag in [*flags, *block.keys() & {"unseen_missing"}]:
        if type(block[flag]) is not bool:
            raise ModelFileError(
                f"hornbeam.{flag} is not true or false",
                code=ErrorCode.MODEL_FILE_WRONG_TYPE,
            )
        setattr(model, flag, block[flag])


def _read_shape(model: Model, value: Any, exact: bool) -> None:
    where = "learner.learner_model_param"
    param = as_object(
        value,
        where,
        ["base_score", "num_class", "num_feature"],
        ["boost_from_average", "num_target"],
    )
    model.num_feature = count_param(param, "num_feature", where, high=MAX_FEATURES)
    model.num_class = count_param(param, "num_class", where, high=MAX_OUTPUTS)
    if "num_target" in param:
        model.num_target = count_param(param, "num_target", where, 1, MAX_OUTPUTS)
    if "boost_from_average" in param:
        model.boost_from_average = (
            count_param(param, "boost_from_average", where, high=1) > 0
        )
    text = as_string(param["base_score"], f"{where}.base_score")
    inside = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    scores = np.array([parse_float(number) for number in inside.split(",")])
    if not exact:
        # XGBoost stores float32 and writes as many digits as float32 needs.
        with np.errstate(over="ignore"):
            scores = scores.astype(np.float32).astype(np.float64)
    # XGBoost before 3.1 wrote one number for all outputs.
    model.base_score = np.repeat(scores, model.n_outputs if scores.size == 1 else 1)


def _read_objective(model: Model, value: Any) -> None:
    where = "learner.objective"
    if not isinstance(value, dict):
        raise ModelFileError(
            f"{where} is not an object", code=ErrorCode.MODEL_FILE_WRONG_TYPE
        )
    model.objective = as_string(value.get("name"), f"{where}.name")
    known = find(model.objective)
    if known is None:
        return  # check_model raises the error
    group, names, states = known.config_group
    if not names:
        as_object(value, where, ["name"])
        model.objective_config = {}
        return
    objective = as_object(value, where, ["name"], [group, *states])
    defaults = {"num_class": str(model.num_class), **_DEFAULTS}
    config = {name: defaults[name] for name in names if name in defaults}
    config |= as_string_map(objective.get(group, {}), f"{where}.{group}")
    model.objective_config = {group: config}
    state = {name: objective[name] for name in states if name in objective}
    for name, values in state.items():
        array = as_array(values, np.float32)
        if array is None:
            raise ModelFileError(
                f"{where}.{name} is not an array of numbers",
                code=ErrorCode.MODEL_FILE_WRONG_TYPE,
            )
        state[name] = array
    model.objective_state = state


def _read_booster(model: Model, value: Any) -> None:
    where = "learner.gradient_booster"
    if isinstance(value, dict) and value.get("name") == "gblinear":
        model.linear = _read_linear(as_object(value, where, ["model", "name"]), model)
        return
    weights = None
    if isinstance(value, dict) and value.get("name") == "dart":
        dart = as_object(value, where, ["gbtree", "name", "weight_drop"])
        value, weights = dart["gbtree"], dart["weight_drop"]
        where += ".gbtree"
    booster = as_object(value, where, ["model", "name"])
    name = as_string(booster["name"], f"{where}.name")
    if name not in ("gbtree", _LINEAR_LEAVES):
        raise ModelFileError(
            f"the booster {booster['name']!r} is unknown",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    where += ".model"
    forest = as_object(
        booster["model"],
        where,
        ["gbtree_model_param", "tree_info", "trees"],
        ["cats", "iteration_indptr", "weight_drop"],
    )
    # XGBoost 3.3 and later write them here.
    model.tree_weights = _tree_weights(forest.get("weight_drop", weights))
    model.categories = read_categories(
        forest.get("cats", {}), f"{where}.cats", model.num_feature, model.feature_names
    )
    check_features(model)
    param_where = f"{where}.gbtree_model_param"
    param = as_object(
        forest["gbtree_model_param"],
        param_where,
        ["num_trees"],
        ["num_parallel_tree", "size_leaf_vector"],
    )
    if "num_parallel_tree" in param:
        model.num_parallel_tree = count_param(
            param, "num_parallel_tree", param_where, 1
        )
    trees = forest["trees"]
    n_trees = count_param(param, "num_trees", param_where)
    if not isinstance(trees, list | ObjectTable) or len(trees) != n_trees:
        raise ModelFileError(
            f"{where}.trees is not an array of {n_trees} trees",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    model.trees = read_trees(trees, model.num_feature, category_limits(model))
    _check_leaves(model, name)
    model.tree_output = as_integers(forest["tree_info"], f"{where}.tree_info")
    model.round_starts = _round_starts(model, forest, where)


def _tree_weights(value: Any) -> NDArray[np.float32] | None:
    """Return the weights of the trees of DART, or None for other models."""
    if value is None:
        return None
    weights = as_array(value, np.float32)
    if weights is None:
        raise ModelFileError(
            "weight_drop is not an array of floating-point numbers",
            code=ErrorCode.MODEL_FILE_WRONG_TYPE,
        )
    return weights


def _check_leaves(model: Model, name: str) -> None:
    """Raise a `ModelFileError` if the leaves are not those of this booster."""
    if name == _LINEAR_LEAVES and model.tree_weights is not None:
        raise ModelFileError(
            "weight_drop belongs to trees of constant leaves, and these are linear",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    if model.has_linear_leaves != (name == _LINEAR_LEAVES):
        raise ModelFileError(
            f"the booster is {name!r}, and its trees have "
            f"{'linear leaves' if model.has_linear_leaves else 'no linear leaves'}",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )


def _round_starts(model: Model, forest: dict[str, Any], where: str) -> list[int]:
    """Return the number of the first tree of each round, and of all trees."""
    if "iteration_indptr" in forest:
        return as_integers(forest["iteration_indptr"], f"{where}.iteration_indptr")
    multi_output = model.leaf_size > 1
    size = model.num_parallel_tree * (1 if multi_output else model.n_outputs)
    n_trees = len(model.trees)
    if n_trees % size:
        raise ModelFileError(
            f"{where} has {n_trees} trees, not a multiple of the {size} of a round",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    return list(range(0, n_trees + 1, size))


def _read_linear(booster: dict[str, Any], model: Model) -> LinearModel:
    where = "learner.gradient_booster.model"
    block = as_object(booster["model"], where, ["weights"], ["boosted_rounds"])
    weights = as_array(block["weights"], np.float32)
    shape = model.num_feature + 1, model.n_outputs
    if weights is None or weights.size != shape[0] * shape[1]:
        raise ModelFileError(
            f"{where}.weights is not an array of {shape[0] * shape[1]} numbers",
            code=ErrorCode.MODEL_FILE_INVALID_NUMBER,
        )
    # XGBoost before 1.7 did not write the number of rounds.
    rounds = as_count(block.get("boosted_rounds", 1), f"{where}.boosted_rounds")
    # XGBoost adds the base score of the first output to all outputs.
    model.base_score = np.repeat(model.base_score[:1], model.n_outputs)
    return LinearModel(weights.reshape(shape), rounds)
