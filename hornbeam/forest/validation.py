"""Validates a model before kernels use it or a file stores it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.categories import MAX_LEVELS
from hornbeam.errors import ErrorCode, ModelFileError
from hornbeam.forest.model import Model
from hornbeam.forest.tree import Tree, roots_and_depths
from hornbeam.objectives.registry import find, names
from hornbeam.params import MAX_OUTPUTS, Parameters

__all__ = [
    "MAX_FEATURES",
    "UnsupportedModelError",
    "category_limits",
    "check_features",
    "check_model",
    "normalize_nodes",
    "parse_float",
]

# Deeper than any grown tree, and still fast to traverse for one row.
MAX_DEPTH = 65_535
# Features are int32, and 2**31 - 1 marks a deleted node.
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
    """A valid model uses something that Hornbeam does not support."""


def parse_float(text: str) -> float:
    """Return the finite number in `text`, or NaN if it is not one."""
    if len(text) > 400 or _NUMBER.fullmatch(text) is None:
        return math.nan
    number = float(text)
    return number if math.isfinite(number) else math.nan


def check_model(model: Model) -> None:
    """Check all of `model` but the nodes of its trees.

    Raises
    ------
    ModelFileError
        If something is not valid.
    """
    n_outputs = model.n_outputs
    _require(0 <= model.num_feature <= MAX_FEATURES, "num_feature", model.num_feature)
    _require(model.num_class >= 0, "num_class", model.num_class)
    _require(model.num_target >= 1, "num_target", model.num_target)
    _require(n_outputs <= MAX_OUTPUTS, "the number of outputs", n_outputs)
    if model.num_class > 1 and model.num_target > 1:
        raise ModelFileError(
            f"there are {model.num_class} classes and {model.num_target} targets; "
            "only one of the two may be above 1",
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
                f"the string {text!r:.60} is not valid Unicode",
                code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
            )


def check_features(model: Model) -> None:
    """Check the names, types and categories of the features of `model`.

    Raises
    ------
    ModelFileError
        If something is not valid.
    """
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
            "feature_names has the same name for two features",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    names = model.categories.names
    texts = (array for array in names if array is not None and array.dtype == object)
    for text in (*model.feature_names, *chain.from_iterable(texts)):
        if not _is_unicode(text):
            raise ModelFileError(
                f"the string {text!r:.60} is not valid Unicode",
                code=ErrorCode.MODEL_FILE_NOT_PARSABLE,
            )
    for kind in set(model.feature_types) - _FEATURE_TYPES:
        raise ModelFileError(
            f"feature_types has the unknown type {kind!r}",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    if names and len(names) != model.num_feature:
        raise ModelFileError(
            f"there are categories for {len(names)} features, not {model.num_feature}",
            code=ErrorCode.MODEL_FILE_INVALID_CATEGORIES,
        )
    if model.feature_types:
        for feature, categories in enumerate(names):
            if categories is not None and model.feature_types[feature] != "c":
                raise ModelFileError(
                    f"feature {feature} has categories and the type "
                    f"{model.feature_types[feature]!r}, not 'c'",
                    code=ErrorCode.MODEL_FILE_INVALID_CATEGORIES,
                )


def category_limits(model: Model) -> NDArray[np.int64] | None:
    """Return the maximum number of categories of each feature, (features,).

    It is -1 for numerical features. The result is None if the model does not state
    which features are categorical. The codes of categories without names are below
    `MAX_LEVELS`.
    """
    names, types = model.categories.names, model.feature_types
    if not names and not types:
        return None
    limits = np.full(model.num_feature, -1)
    for feature in range(model.num_feature):
        categories = names[feature] if names else None
        if categories is not None:
            limits[feature] = len(categories)
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
                f"the objective {model.objective!r} is not supported; "
                f"Hornbeam has {', '.join(names())}",
                code=ErrorCode.MODEL_FILE_UNSUPPORTED,
            )
        raise ModelFileError(
            f"the objective {model.objective!r} is unknown",
            code=ErrorCode.MODEL_FILE_INVALID_OBJECTIVE,
        )
    group, parameters, state = objective.config_group
    expected = {group: set(parameters)} if parameters else {}
    config: Mapping[str, Mapping[str, str]] = model.objective_config
    if {name: set(config[name]) for name in config} != expected:
        needed = {name: dict.fromkeys(parameters, "...") for name in expected}
        raise ModelFileError(
            f"the parameters of {model.objective} are {dict(config)}, "
            f"but {needed} is expected",
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
        if any(math.isnan(parse_float(number)) for number in numbers):
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
            f"{' and '.join(state)} of {model.objective} are not arrays of finite "
            f"numbers of equal length for each of {', '.join(names) or 'none'}",
            code=ErrorCode.MODEL_FILE_INVALID_NUMBER,
        )


def _check_rounds(model: Model) -> None:
    if model.linear is not None:
        shape = model.num_feature + 1, model.n_outputs
        matrix = model.linear.weights
        if model.trees or matrix.shape != shape or not np.isfinite(matrix).all():
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
            "weight_drop has a number that is not finite",
            code=ErrorCode.MODEL_FILE_INVALID_NUMBER,
        )
    for number, tree in enumerate(model.trees):
        size = tree.leaf_size
        if size not in (1, model.n_outputs):
            raise ModelFileError(
                f"trees[{number}] has {size} values per leaf, and the model has "
                f"{model.n_outputs} outputs",
                code=ErrorCode.MODEL_FILE_INCONSISTENT,
            )
    starts = model.round_starts
    rising = all(a < b for a, b in pairwise(starts))
    if not starts or starts[0] != 0 or starts[-1] != n_trees or not rising:
        raise ModelFileError(
            f"iteration_indptr does not ascend from 0 to the {n_trees} trees",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )


def normalize_nodes(
    nodes: Tree,
    starts: NDArray[np.int64],
    num_feature: int,
    limits: NDArray[np.int64] | None,
    names: Sequence[str],
) -> Tree:
    """Return the validated nodes of concatenated trees, with unused entries reset.

    Unused are the splits of leaves, the values of internal nodes and all entries of
    deleted nodes.

    Parameters
    ----------
    nodes, starts
        See `concatenate_trees`.
    num_feature
        Number of features of the model.
    limits
        See `category_limits`.
    names
        What error messages call each tree.

    Raises
    ------
    ModelFileError
        If a node is not valid.
    """
    sizes = np.diff(starts)
    tree = np.repeat(np.arange(sizes.size), sizes)
    checks = _NodeChecks(nodes, names, tree, starts[tree])
    reached = checks.links(sizes[tree])
    internal, leaf = reached & (nodes.left != -1), reached & (nodes.left == -1)
    checks.splits(internal, num_feature, limits)
    categorical = internal & (nodes.split_type == 1)
    numerical = internal & ~categorical
    categories, counts = checks.categories(categorical, limits)
    for where, what, values in (
        (numerical, "threshold", nodes.threshold),
        (leaf, "value", nodes.value),
        (internal, "gain", nodes.gain),
        (reached, "cover", nodes.cover),
        (reached, "weight", nodes.weight),
    ):
        finite = np.isfinite(values)
        every = finite.all(axis=1) if values.ndim > 1 else finite
        checks.refuse(where & ~every, f"its {what} is {{}}", values)

    def only(where: NDArray[np.bool_], values: NDArray[Any]) -> NDArray[Any]:
        """Return the values, scalar or vector, with zeros where `where` is False."""
        if values.ndim > 1:
            where = where[:, None]
        return np.where(where, values, np.float32(0))

    return Tree(
        left=np.where(internal, nodes.left, np.int32(-1)),
        right=np.where(internal, nodes.right, np.int32(-1)),
        parent=np.where(reached, nodes.parent, np.int32(-1)),
        feature=np.where(internal, nodes.feature, np.int32(0)),
        threshold=np.where(numerical, nodes.threshold, np.nan),
        default_left=np.where(internal, nodes.default_left, np.uint8(0)),
        split_type=categorical.astype(np.uint8),
        category_counts=counts,
        categories=categories,
        value=only(leaf, nodes.value),
        gain=np.where(internal, nodes.gain, np.float32(0)),
        cover=np.where(reached, nodes.cover, np.float32(0)),
        weight=only(reached, nodes.weight),
    )


class _NodeChecks(NamedTuple):
    """The checks of concatenated trees; each raises an error for the first bad node.

    Attributes
    ----------
    nodes
        Of all trees.
    names
        What error messages call each tree.
    tree, root
        (nodes,): the number of each node's tree, and the place of its root.
    """

    nodes: Tree
    names: Sequence[str]
    tree: NDArray[np.intp]
    root: NDArray[np.int64]

    def refuse(
        self, wrong: NDArray[np.bool_], what: str, values: NDArray[np.generic]
    ) -> None:
        """Raise a `ModelFileError` if a node is wrong; `what` formats its value."""
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ModelFileError(
                f"{self.names[self.tree[i]]}, node {i - self.root[i]}: "
                f"{what.format(values[i])}",
                code=ErrorCode.MODEL_FILE_INVALID_TREE,
            )

    def links(self, sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which nodes the root reaches, given the size of each node's tree."""
        nodes, refuse = self.nodes, self.refuse
        left = nodes.left.astype(np.int64)
        leaf = left == -1
        refuse(leaf & (nodes.right != -1), "it has only a right child, {}", nodes.right)
        refuse(
            ~leaf & ((left < 1) | (left + 1 >= sizes)),
            "its left child is {}, so its children are not both nodes of the tree",
            left,
        )
        refuse(
            ~leaf & (nodes.right != left + 1),
            "its right child is {}, not the node after its left child",
            nodes.right,
        )
        above = np.flatnonzero(~leaf)
        below = (self.root + left)[above]
        counts = np.bincount(np.concatenate([below, below + 1]), minlength=left.size)
        refuse(counts > 1, "it is the child of {} nodes", counts)
        parent = np.full(left.size, -1)
        parent[below] = parent[below + 1] = above
        top, depth = roots_and_depths(parent)
        reached = top == self.root
        parent = np.where(parent < 0, -1, parent - self.root)
        deepest = f"it is deeper than {MAX_DEPTH}: {{}}"
        refuse(reached & (depth > MAX_DEPTH), deepest, depth)
        refuse(
            reached & (nodes.parent != parent),
            "its parent is stored as {}, but is another node",
            nodes.parent,
        )
        return reached

    def splits(
        self,
        internal: NDArray[np.bool_],
        num_feature: int,
        limits: NDArray[np.int64] | None,
    ) -> None:
        """Check the features of splits, their kinds and the way of missing values."""
        nodes, refuse = self.nodes, self.refuse
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
        if limits is None:
            return
        is_number = limits[np.where(internal, nodes.feature, 0)] < 0
        is_set = nodes.split_type == 1
        refuse(
            internal & is_set & is_number,
            "it splits feature {}, which is not categorical, by category",
            nodes.feature,
        )
        refuse(
            internal & ~is_set & ~is_number,
            "it splits feature {}, which is categorical, by a threshold",
            nodes.feature,
        )

    def categories(
        self, categorical: NDArray[np.bool_], limits: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the categories of categorical splits, and the count of each node."""
        nodes = self.nodes
        node = np.repeat(np.arange(nodes.left.size), nodes.category_counts)
        limit = np.full(node.size, MAX_LEVELS)
        if limits is not None:
            limit[categorical[node]] = limits[nodes.feature[node[categorical[node]]]]
        beyond = (nodes.categories < 0) | (nodes.categories >= limit)
        falling = np.zeros(node.size, bool)
        falling[1:] = (node[1:] == node[:-1]) & (
            nodes.categories[1:] <= nodes.categories[:-1]
        )
        for wrong, what in (
            (beyond, "one of its {} categories is not a category of the feature"),
            (falling, "its {} categories do not ascend"),
        ):
            at = np.zeros(nodes.left.size, bool)
            at[node[wrong]] = True
            self.refuse(categorical & at, what, nodes.category_counts)
        is_kept = categorical[node]
        counts = np.where(categorical, nodes.category_counts, 0)
        return nodes.categories[is_kept], counts
