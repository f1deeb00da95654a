"""What must hold of a model before a kernel may read it or a file may hold it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.categories import MAX_LEVELS
from hornbeam.errors import ErrorCode, ModelFileError
from hornbeam.forest.model import Model
from hornbeam.forest.tree import Tree, climb
from hornbeam.objectives.base import find, names
from hornbeam.params import Parameters

__all__ = [
    "MAX_FEATURES",
    "MAX_OUTPUTS",
    "UnsupportedModelError",
    "category_limits",
    "check_features",
    "check_model",
    "normal_form",
    "number_in_text",
]

# Far above what growth reaches, and still little to walk for one row.
MAX_DEPTH = 65_535
# Arrays with an entry for each output are made before any tree is seen.
MAX_OUTPUTS = 1 << 20
# Features are numbered in int32, and 2**31 - 1 marks a node that was cut off.
MAX_FEATURES = (1 << 31) - 2

_OBJECTIVES_OF_XGBOOST = (
    "binary:",
    "count:",
    "multi:",
    "rank:",
    "reg:",
    "survival:",
)
_FEATURE_TYPES = {"c", "float", "int", "i", "q"}

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)


class UnsupportedModelError(ModelFileError):
    """A sound model holds something that Hornbeam does not have yet."""


def number_in_text(text: str) -> float:
    """Return the finite number that `text` spells, or NaN if it does not spell one."""
    if len(text) > 400 or _NUMBER.fullmatch(text) is None:
        return math.nan
    number = float(text)
    return number if math.isfinite(number) else math.nan


def check_model(model: Model) -> None:
    """Raise an error unless everything about `model` but its nodes is in order."""
    n_outputs = model.n_outputs
    _require(0 <= model.num_feature <= MAX_FEATURES, "num_feature", model.num_feature)
    _require(model.num_class >= 0, "num_class", model.num_class)
    _require(model.num_target >= 1, "num_target", model.num_target)
    _require(n_outputs <= MAX_OUTPUTS, "the number of outputs", n_outputs)
    if model.num_class > 1 and model.num_target > 1:
        raise ModelFileError(
            f"there are {model.num_class} classes and {model.num_target} targets; "
            "a model has several of one of them at most",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    scores = model.base_score
    if scores.shape != (n_outputs,) or not np.isfinite(scores).all():
        raise ModelFileError(
            f"base_score is not {n_outputs} finite numbers, one for each output",
            code=ErrorCode.MODEL_FILE_INVALID_NUMBER,
        )
    _check_objective(model)
    _check_rounds(model)
    check_features(model)
    for text in (*model.attributes, *model.attributes.values()):
        if not _is_unicode(text):
            raise ModelFileError(
                f"the text {text!r:.60} is not Unicode",
                code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
            )


def check_features(model: Model) -> None:
    """Raise an error unless names, types and categories of features are in order."""
    for what, labels in (
        ("feature_names", model.feature_names),
        ("feature_types", model.feature_types),
    ):
        if labels and len(labels) != model.num_feature:
            raise ModelFileError(
                f"{what} has {len(labels)} entries for {model.num_feature} features",
                code=ErrorCode.MODEL_FILE_INCONSISTENT,
            )
    if len(set(model.feature_names)) < len(model.feature_names):
        raise ModelFileError(
            "feature_names gives two features the same name",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    names = model.categories.names
    texts = (own for own in names if own is not None and own.dtype == object)
    for text in (*model.feature_names, *chain.from_iterable(texts)):
        if not _is_unicode(text):
            raise ModelFileError(
                f"the text {text!r:.60} is not Unicode",
                code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
            )
    for kind in set(model.feature_types) - _FEATURE_TYPES:
        raise ModelFileError(
            f"feature_types has the unknown type {kind!r}",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    if names and len(names) != model.num_feature:
        raise ModelFileError(
            f"{len(names)} features have categories, of {model.num_feature}",
            code=ErrorCode.MODEL_FILE_INVALID_CATEGORIES,
        )
    if model.feature_types:
        for feature, own in enumerate(names):
            if own is not None and model.feature_types[feature] != "c":
                raise ModelFileError(
                    f"feature {feature} has categories and the type "
                    f"{model.feature_types[feature]!r}, not 'c'",
                    code=ErrorCode.MODEL_FILE_INVALID_CATEGORIES,
                )


def category_limits(model: Model) -> NDArray[np.int64] | None:
    """Return how many categories each feature of a checked model may have.

    -1 is for features that are numbers, None for a model that does not say which are
    categorical. Categories without names are codes below `MAX_LEVELS`.
    """
    names, types = model.categories.names, model.feature_types
    if not names and not types:
        return None
    limits = np.full(model.num_feature, -1)
    for feature in range(model.num_feature):
        own = names[feature] if names else None
        if own is not None:
            limits[feature] = len(own)
        elif types and types[feature] == "c":
            limits[feature] = MAX_LEVELS
    return limits


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _require(holds: bool, what: str, number: int) -> None:
    if not holds:
        raise ModelFileError(
            f"{what} is {number}, which is out of range",
            code=ErrorCode.MODEL_FILE_INVALID_NUMBER,
        )


def _check_objective(model: Model) -> None:
    objective = find(model.objective)
    if objective is None:
        if model.objective.startswith(_OBJECTIVES_OF_XGBOOST):
            raise UnsupportedModelError(
                f"the objective {model.objective!r} is not in Hornbeam yet; "
                f"it has {', '.join(names())}",
                code=ErrorCode.MODEL_FILE_UNSUPPORTED,
            )
        raise ModelFileError(
            f"the objective {model.objective!r} is unknown",
            code=ErrorCode.MODEL_FILE_INVALID_OBJECTIVE,
        )
    group, parameters, state = objective.config_group
    expected = {group: set(parameters)} if parameters else {}
    config: Mapping[str, Mapping[str, str]] = model.objective_config
    if {own: set(config[own]) for own in config} != expected:
        needed = {own: dict.fromkeys(parameters, "...") for own in expected}
        raise ModelFileError(
            f"the parameters of {model.objective} are {dict(config)}, "
            f"where {needed} is expected",
            code=ErrorCode.MODEL_FILE_INVALID_OBJECTIVE,
        )
    for name in parameters:
        choices = Parameters.choices(name)
        if choices:
            if config[group][name] not in choices:
                raise ModelFileError(
                    f"{name} is {config[group][name]!r:.60}, not one of "
                    f"{', '.join(choices)}",
                    code=ErrorCode.MODEL_FILE_INVALID_OBJECTIVE,
                )
            continue
        numbers = config[group][name].removeprefix("[").removesuffix("]").split(",")
        if any(math.isnan(number_in_text(number)) for number in numbers):
            raise ModelFileError(
                f"{name} is {config[group][name]!r}, not a finite number",
                code=ErrorCode.MODEL_FILE_INVALID_NUMBER,
            )
    _check_state(model, state)
    if "num_class" not in parameters:
        return
    if model.num_class < 1 or config[group]["num_class"] != str(model.num_class):
        raise ModelFileError(
            f"num_class is {config[group]['num_class']!r} for the objective and "
            f"{model.num_class} for the model",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )


def _check_state(model: Model, names: Sequence[str]) -> None:
    state = model.objective_state
    sizes = {array.size for array in state.values()}
    sound = all(np.isfinite(array).all() for array in state.values())
    if state and (set(state) != set(names) or len(sizes) > 1 or not sound):
        raise ModelFileError(
            f"{' and '.join(state)} of {model.objective} are not finite numbers, as "
            f"many of each of {', '.join(names) or 'none'}",
            code=ErrorCode.MODEL_FILE_INVALID_NUMBER,
        )


def _check_rounds(model: Model) -> None:
    if model.linear is not None:
        shape = model.num_feature + 1, model.n_outputs
        own = model.linear.weights
        if model.trees or own.shape != shape or not np.isfinite(own).all():
            raise ModelFileError(
                f"the weights are not {shape[0] * shape[1]} finite numbers, one for "
                "each output and each feature or bias",
                code=ErrorCode.MODEL_FILE_INVALID_NUMBER,
            )
        _require(model.linear.rounds >= 0, "boosted_rounds", model.linear.rounds)
        return
    n_trees = len(model.trees)
    _require(model.num_parallel_tree >= 1, "num_parallel_tree", model.num_parallel_tree)
    if len(model.tree_output) != n_trees:
        raise ModelFileError(
            f"tree_info has {len(model.tree_output)} entries for {n_trees} trees",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    outputs = range(model.n_outputs)
    for number, output in enumerate(model.tree_output):
        if output not in outputs:
            raise ModelFileError(
                f"tree_info[{number}] is {output}; "
                f"the outputs count from 0 to {model.n_outputs - 1}",
                code=ErrorCode.MODEL_FILE_INCONSISTENT,
            )
    weights = model.tree_weights
    if weights is not None and weights.shape != (n_trees,):
        raise ModelFileError(
            f"weight_drop has {weights.size} entries for {n_trees} trees",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    if weights is not None and not np.isfinite(weights).all():
        raise ModelFileError(
            "weight_drop holds a number that is not finite",
            code=ErrorCode.MODEL_FILE_INVALID_NUMBER,
        )
    for number, tree in enumerate(model.trees):
        size = tree.leaf_size
        if size != model.leaf_size or size not in (1, model.n_outputs):
            raise ModelFileError(
                f"trees[{number}] has {size} values a leaf, the first tree "
                f"{model.leaf_size}, and the model {model.n_outputs} outputs",
                code=ErrorCode.MODEL_FILE_INCONSISTENT,
            )
    starts = model.round_starts
    rising = all(a < b for a, b in pairwise(starts))
    if not starts or starts[0] != 0 or starts[-1] != n_trees or not rising:
        raise ModelFileError(
            f"iteration_indptr does not rise from 0 to the {n_trees} trees",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )


def normal_form(
    nodes: Tree,
    starts: NDArray[np.int64],
    num_feature: int,
    limits: NDArray[np.int64] | None,
) -> Tree:
    """Return the checked nodes of joined trees, with what does not count set to zero.

    `limits` are those of `category_limits`. What does not count are splits of leaves,
    values of internal nodes and all of the nodes that no way from their root leads to.
    """
    sizes = np.diff(starts)
    tree = np.repeat(np.arange(sizes.size), sizes)
    root = starts[tree]
    left = nodes.left.astype(np.int64)
    leaf = left == -1

    def refuse(
        wrong: NDArray[np.bool_], what: str, values: NDArray[np.generic]
    ) -> None:
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ModelFileError(
                f"trees[{tree[i]}], node {i - root[i]}: {what.format(values[i])}",
                code=ErrorCode.MODEL_FILE_INVALID_TREE,
            )

    refuse(leaf & (nodes.right != -1), "it has only a right child, {}", nodes.right)
    refuse(
        ~leaf & ((left < 1) | (left + 1 >= sizes[tree])),
        "its left child is {}, which leaves no room for two children in the tree",
        left,
    )
    refuse(
        ~leaf & (nodes.right != left + 1),
        "its right child is {}, not the one after its left child",
        nodes.right,
    )
    above = np.flatnonzero(~leaf)
    below = (root + left)[above]
    times = np.bincount(np.concatenate([below, below + 1]), minlength=left.size)
    refuse(times > 1, "it is the child of {} nodes", times)

    parent = np.full(left.size, -1)
    parent[below] = parent[below + 1] = above
    top, depth = climb(parent)
    reached = top == root
    parent = np.where(parent < 0, -1, parent - root)
    refuse(reached & (depth > MAX_DEPTH), f"it is deeper than {MAX_DEPTH}: {{}}", depth)
    refuse(
        reached & (nodes.parent != parent),
        "its parent is given as {}, and is another node",
        nodes.parent,
    )

    internal, leaf = reached & ~leaf, reached & leaf
    refuse(
        internal & ((nodes.feature < 0) | (nodes.feature >= num_feature)),
        f"it splits on feature {{}} of {num_feature}",
        nodes.feature,
    )
    refuse(
        internal & (nodes.default_left > 1),
        "default_left is {}, not 0 or 1",
        nodes.default_left,
    )
    refuse(
        internal & (nodes.split_type > 1),
        "its split_type is {}, not 0 or 1",
        nodes.split_type,
    )
    listed = internal & (nodes.split_type == 1)
    ordered = internal & ~listed
    if limits is not None:
        own = np.where(internal, nodes.feature, 0)
        is_number = limits[own] < 0
        refuse(
            listed & is_number,
            "it splits the feature {}, which is no category, by category",
            nodes.feature,
        )
        refuse(
            ordered & ~is_number,
            "it splits the categories of feature {} by a threshold",
            nodes.feature,
        )
    categories, counts = _check_categories(nodes, listed, limits, refuse)
    for where, what, values in (
        (ordered, "threshold", nodes.threshold),
        (leaf, "value", nodes.value),
        (internal, "gain", nodes.gain),
        (reached, "cover", nodes.cover),
        (reached, "weight", nodes.weight),
    ):
        finite = np.isfinite(values)
        every = finite.all(axis=1) if values.ndim > 1 else finite
        refuse(where & ~every, f"its {what} is {{}}", values)

    def only(where: NDArray[np.bool_], values: NDArray[Any]) -> NDArray[Any]:
        """Return what nodes have, be it a number or several, and zeros elsewhere."""
        if values.ndim > 1:
            where = where[:, None]
        return np.where(where, values, np.float32(0))

    return Tree(
        left=np.where(internal, nodes.left, np.int32(-1)),
        right=np.where(internal, nodes.right, np.int32(-1)),
        parent=np.where(reached, nodes.parent, np.int32(-1)),
        feature=np.where(internal, nodes.feature, np.int32(0)),
        threshold=np.where(ordered, nodes.threshold, np.nan),
        default_left=np.where(internal, nodes.default_left, np.uint8(0)),
        split_type=listed.astype(np.uint8),
        category_counts=counts,
        categories=categories,
        value=only(leaf, nodes.value),
        gain=np.where(internal, nodes.gain, np.float32(0)),
        cover=np.where(reached, nodes.cover, np.float32(0)),
        weight=only(reached, nodes.weight),
    )


def _check_categories(
    nodes: Tree,
    listed: NDArray[np.bool_],
    limits: NDArray[np.int64] | None,
    refuse: Callable[[NDArray[np.bool_], str, NDArray[np.generic]], None],
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the categories of the nodes that are split by them, and their counts."""
    node = np.repeat(np.arange(nodes.left.size), nodes.category_counts)
    limit = np.full(node.size, MAX_LEVELS)
    if limits is not None:
        limit[listed[node]] = limits[nodes.feature[node[listed[node]]]]
    beyond = (nodes.categories < 0) | (nodes.categories >= limit)
    falling = np.zeros(node.size, bool)
    falling[1:] = (node[1:] == node[:-1]) & (
        nodes.categories[1:] <= nodes.categories[:-1]
    )
    for wrong, what in (
        (beyond, "one of its {} categories is not one of the feature's"),
        (falling, "its {} categories do not ascend"),
    ):
        at = np.zeros(nodes.left.size, bool)
        at[node[wrong]] = True
        refuse(listed & at, what, nodes.category_counts)
    kept = listed[node]
    counts = np.where(listed, nodes.category_counts, 0)
    return nodes.categories[kept], counts
