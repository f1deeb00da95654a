"""Reads a model from the JSON document of a model file, which is not trusted."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.floats import nearest
from hornbeam.errors import ErrorCode, ModelFileError
from hornbeam.forest.cat_container import read_categories
from hornbeam.forest.json_fields import (
    as_array,
    as_integers,
    as_object,
    as_string,
    as_string_map,
    as_strings,
    count_param,
)
from hornbeam.forest.model import LinearModel, Model
from hornbeam.forest.tree import Tree, deleted_nodes, roots_and_depths, split_trees
from hornbeam.forest.validation import (
    MAX_FEATURES,
    MAX_OUTPUTS,
    UnsupportedModelError,
    category_limits,
    check_features,
    check_model,
    normalize_nodes,
    parse_float,
)
from hornbeam.forest.writer import FORMAT, ROOT_PARENT
from hornbeam.objectives.config import spelled
from hornbeam.objectives.registry import find
from hornbeam.params import Parameters

__all__ = ["read_document"]

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

_Number: TypeAlias = type[np.float64 | np.float32 | np.int32 | np.uint8]
_TREE_COLUMNS: dict[str, _Number] = {
    "base_weights": np.float32,
    "default_left": np.uint8,
    "left_children": np.int32,
    "loss_changes": np.float32,
    "parents": np.int32,
    "right_children": np.int32,
    "split_conditions": np.float32,
    "split_indices": np.int32,
    "sum_hessian": np.float32,
}
_CATEGORY_COLUMNS: dict[str, type[np.uint8 | np.int32 | np.int64]] = {
    "categories": np.int32,
    "categories_nodes": np.int32,
    "categories_segments": np.int64,
    "categories_sizes": np.int64,
    "split_type": np.uint8,
}
_NO_CATEGORIES = np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int32)


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
    check_model(model)
    return model


def _read_extension(model: Model, value: Any) -> None:
    flags = ["double_scores", "exact_features"]
    block = as_object(
        value,
        "hornbeam",
        ["digest", "format", *flags],
        ["last_change", "unseen_missing"],
    )
    written = block["format"]
    if type(written) is not int or written < FORMAT:
        raise ModelFileError(
            f"hornbeam.format is {written!r}, not {FORMAT}",
            code=ErrorCode.MODEL_FILE_WRONG_TYPE,
        )
    if written > FORMAT:
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
    if as_string(booster["name"], f"{where}.name") != "gbtree":
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
    weights = forest.get("weight_drop", weights)
    if weights is not None:
        model.tree_weights = as_array(weights, np.float32)
        if model.tree_weights is None:
            raise ModelFileError(
                "weight_drop is not an array of floating-point numbers",
                code=ErrorCode.MODEL_FILE_WRONG_TYPE,
            )
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
    if not isinstance(trees, list) or len(trees) != n_trees:
        raise ModelFileError(
            f"{where}.trees is not an array of {n_trees} trees",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    model.trees = _read_trees(trees, model.num_feature, category_limits(model))
    model.tree_output = as_integers(forest["tree_info"], f"{where}.tree_info")
    if "iteration_indptr" in forest:
        starts = as_integers(forest["iteration_indptr"], f"{where}.iteration_indptr")
        model.round_starts = starts
        return
    multi_output = model.leaf_size > 1
    size = model.num_parallel_tree * (1 if multi_output else model.n_outputs)
    if n_trees % size:
        raise ModelFileError(
            f"{where} has {n_trees} trees, not a multiple of the {size} of a round",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    model.round_starts = list(range(0, n_trees + 1, size))


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
    rounds = block.get("boosted_rounds", 1)
    if type(rounds) is not int or rounds < 0:
        raise ModelFileError(
            f"{where}.boosted_rounds is {rounds!r}, not a number",
            code=ErrorCode.MODEL_FILE_WRONG_TYPE,
        )
    # XGBoost adds the base score of the first output to all outputs.
    model.base_score = np.repeat(model.base_score[:1], model.n_outputs)
    return LinearModel(weights.reshape(shape), rounds)


def _read_trees(
    values: list[Any], num_feature: int, limits: NDArray[np.int64] | None
) -> list[Tree]:
    params = [
        _read_tree_param(value, f"trees[{number}]")
        for number, value in enumerate(values)
    ]
    sizes = [size for size, _, _ in params]
    leaf_sizes = {leaf_size for _, _, leaf_size in params}
    if len(leaf_sizes) > 1:
        raise ModelFileError(
            f"the leaves of the trees have different numbers of values: "
            f"{sorted(leaf_sizes)}",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    leaf_size = max(leaf_sizes, default=1)
    is_usable, weight = _read_weights(values, sizes, leaf_size)
    columns = {
        key: _column(values, key, sizes, dtype)
        for key, dtype in _TREE_COLUMNS.items()
        if key != "base_weights"
    }
    starts = np.cumsum([0, *sizes])
    kinds = [
        _read_categories(value, f"trees[{number}]", size)
        for number, (value, size) in enumerate(zip(values, sizes, strict=True))
    ]
    split_type, counts, categories = (
        np.concatenate([empty, *parts])
        for empty, *parts in zip(_NO_CATEGORIES, *kinds, strict=True)
    )
    value = condition = columns["split_conditions"]
    if leaf_size > 1:
        value = _read_leaf_vectors(values, columns, sizes, leaf_size)
    parent = columns["parents"]
    parent[starts[:-1][parent[starts[:-1]] == ROOT_PARENT]] = -1
    nodes = normalize_nodes(
        Tree(
            left=columns["left_children"],
            right=columns["right_children"],
            parent=parent,
            feature=columns["split_indices"],
            threshold=condition.astype(np.float64),
            default_left=columns["default_left"],
            split_type=split_type,
            category_counts=counts,
            categories=categories,
            value=value,
            gain=columns["loss_changes"],
            cover=columns["sum_hessian"],
            weight=weight,
        ),
        starts,
        num_feature,
        limits,
    )
    stored = [deleted for _, deleted, _ in params]
    _check_deleted(deleted_nodes(nodes, starts[:-1]), starts, stored)
    trees = [
        tree if known else replace(tree, weight=_mean_leaf_values(tree))
        for tree, known in zip(split_trees(nodes, starts), is_usable, strict=True)
    ]
    for number, (tree, value) in enumerate(zip(trees, values, strict=True)):
        if "hornbeam_thresholds" in value:
            where = f"trees[{number}].hornbeam_thresholds"
            _refine_thresholds(tree, value["hornbeam_thresholds"], where)
    return trees


def _read_weights(
    values: list[Any], sizes: list[int], leaf_size: int
) -> tuple[list[bool], NDArray[np.float32]]:
    """Return which trees have usable node weights, and the weights of all nodes.

    XGBoost stores one weight for each gradient column of the split search. With reduced
    gradients these are fewer than the values of a leaf; the weights of such a tree are
    not usable, and zeros here.
    """
    counts = [size * leaf_size for size in sizes]
    stored = [value["base_weights"] for value in values]
    is_usable = [
        not isinstance(weights, list | np.ndarray)
        or len(weights) not in range(size, count, size)
        for weights, size, count in zip(stored, sizes, counts, strict=True)
    ]
    usable = [
        value if is_known else {"base_weights": [0.0] * count}
        for value, is_known, count in zip(values, is_usable, counts, strict=True)
    ]
    weight = _column(usable, "base_weights", counts, np.float32)
    return is_usable, weight.reshape(-1, leaf_size) if leaf_size > 1 else weight


def _mean_leaf_values(tree: Tree) -> NDArray[np.float32]:
    """Return the mean value of the leaves below each node, weighted by cover."""
    cover, means = tree.cover.astype(np.float64), tree.value.astype(np.float64)
    _, depth = roots_and_depths(tree.parent)
    for node in np.argsort(-depth, kind="stable").tolist():
        pair = [tree.left[node], tree.left[node] + 1]
        if pair[0] >= 0:
            rows = cover[pair] if cover[pair].sum() > 0.0 else None
            means[node] = np.average(means[pair], axis=0, weights=rows)
    return means.astype(np.float32)


def _read_leaf_vectors(
    values: list[Any],
    columns: dict[str, NDArray[Any]],
    sizes: list[int],
    leaf_size: int,
) -> NDArray[np.float32]:
    """Return the values of all nodes, (nodes, values of a leaf); 0 at internal nodes.

    XGBoost stores the row of a leaf's values as its right child; this sets it to -1 in
    `columns`.
    """
    is_leaf = columns["left_children"] == -1
    starts = np.cumsum([0, *sizes])
    counts = np.add.reduceat(is_leaf, starts[:-1], dtype=np.int64)
    flat = [int(count) * leaf_size for count in counts]
    rows = _column(values, "leaf_weights", flat, np.float32).reshape(-1, leaf_size)
    row = columns["right_children"][is_leaf].astype(np.int64)
    most = np.repeat(counts, counts)
    if ((row < 0) | (row >= most)).any():
        raise ModelFileError(
            "right_children of a leaf is not the index of a row of leaf_weights",
            code=ErrorCode.MODEL_FILE_INVALID_TREE,
        )
    found = np.zeros((is_leaf.size, leaf_size), np.float32)
    found[is_leaf] = rows[np.repeat(np.cumsum(counts) - counts, counts) + row]
    columns["right_children"][is_leaf] = -1
    return found


def _read_tree_param(value: Any, where: str) -> tuple[int, int, int]:
    """Return the number of nodes, of deleted nodes, and of values of a leaf."""
    tree = as_object(
        value,
        where,
        [*_TREE_COLUMNS, "tree_param"],
        [*_CATEGORY_COLUMNS, "hornbeam_thresholds", "id", "leaf_weights"],
    )
    param_where = f"{where}.tree_param"
    param = as_object(
        tree["tree_param"],
        param_where,
        ["num_nodes"],
        ["num_deleted", "num_feature", "size_leaf_vector"],
    )
    param = {"num_deleted": "0", "size_leaf_vector": "1"} | param
    # XGBoost before 2.0 wrote 0 for scalar leaves.
    leaf_size = max(
        1, count_param(param, "size_leaf_vector", param_where, 0, MAX_OUTPUTS)
    )
    if ("leaf_weights" in tree) != (leaf_size > 1):
        raise ModelFileError(
            f"{where} has leaves of {leaf_size} values and "
            f"{'no' if leaf_size > 1 else 'the'} key 'leaf_weights'",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    size = count_param(param, "num_nodes", param_where, 1)
    if "id" in tree and type(tree["id"]) is not int:
        raise ModelFileError(
            f"{where}.id is not an integer", code=ErrorCode.MODEL_FILE_WRONG_TYPE
        )
    return size, count_param(param, "num_deleted", param_where), leaf_size


def _read_categories(
    tree: dict[str, Any], where: str, size: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int32]]:
    """Return split types, counts of categories per node, and the categories."""
    found = {}
    for key, dtype in _CATEGORY_COLUMNS.items():
        default = np.zeros(size if key == "split_type" else 0, dtype)
        column = as_array(tree.get(key, default), dtype)
        if column is None:
            raise ModelFileError(
                f"{where}.{key} is not an array of integers",
                code=ErrorCode.MODEL_FILE_WRONG_TYPE,
            )
        found[key] = column
    kinds, nodes = found["split_type"], found["categories_nodes"]
    sizes, categories = found["categories_sizes"], found["categories"]
    if kinds.size != size or (kinds > 1).any():
        raise ModelFileError(
            f"{where}.split_type is not an array of {size} numbers 0 or 1",
            code=ErrorCode.MODEL_FILE_INVALID_TREE,
        )
    if not np.array_equal(nodes, np.flatnonzero(kinds)):
        raise ModelFileError(
            f"{where}.categories_nodes does not list the nodes of split_type 1",
            code=ErrorCode.MODEL_FILE_INVALID_CATEGORIES,
        )
    if (
        sizes.size != nodes.size
        or (sizes < 0).any()
        or (sizes > categories.size).any()
        or sizes.sum() != categories.size
    ):
        raise ModelFileError(
            f"{where}.categories_sizes does not add up to {categories.size} categories",
            code=ErrorCode.MODEL_FILE_INVALID_CATEGORIES,
        )
    if not np.array_equal(found["categories_segments"], np.cumsum(sizes) - sizes):
        raise ModelFileError(
            f"{where}.categories_segments does not have the offsets of the categories",
            code=ErrorCode.MODEL_FILE_INVALID_CATEGORIES,
        )
    counts = np.zeros(size, np.int64)
    counts[nodes] = sizes
    return kinds, counts, categories


def _column(
    trees: list[Any], key: str, sizes: list[int], dtype: _Number
) -> NDArray[Any]:
    """Return the arrays that the trees have under `key`, concatenated."""
    parts: list[NDArray[Any]] = [np.empty(0, dtype)]
    for number, (tree, size) in enumerate(zip(trees, sizes, strict=True)):
        part = as_array(tree[key], dtype)
        if part is None or part.size != size:
            what = "floating-point numbers" if dtype is np.float32 else "integers"
            raise ModelFileError(
                f"trees[{number}].{key} is not an array of {size} {what}",
                code=ErrorCode.MODEL_FILE_INCONSISTENT,
            )
        parts.append(part)
    return np.concatenate(parts)


def _check_deleted(
    mask: NDArray[np.bool_], starts: NDArray[np.int64], stored: list[int]
) -> None:
    for number, (start, stop) in enumerate(pairwise(starts.tolist())):
        found = np.count_nonzero(mask[start:stop])
        if found != stored[number]:
            raise ModelFileError(
                f"trees[{number}]: {found} nodes are not reachable from the root, but "
                f"tree_param.num_deleted is {stored[number]}",
                code=ErrorCode.MODEL_FILE_INVALID_TREE,
            )


def _refine_thresholds(tree: Tree, value: Any, where: str) -> None:
    ordered = (tree.left >= 0) & (tree.split_type == 0)
    thresholds = as_array(value, np.float64)
    if thresholds is None or thresholds.size != np.count_nonzero(ordered):
        raise ModelFileError(
            f"{where} is not an array of one number per threshold",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    rounded = nearest(thresholds, np.float32)
    agree = np.isfinite(thresholds) & (rounded == tree.threshold[ordered])
    if not agree.all():
        raise ModelFileError(
            f"{where} does not agree with split_conditions",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    tree.threshold[ordered] = thresholds
