"""Reads and writes trees as the arrays of XGBoost's JSON document.

The document has an array per property of nodes and tree. Hornbeam adds the key
``hornbeam_thresholds`` to trees with thresholds that float32 cannot represent, and the
key ``linear_leaves`` to trees whose leaves have terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.floats import nearest
from hornbeam.errors import ErrorCode, ModelFileError
from hornbeam.forest.json_fields import (
    as_array,
    as_object,
    count_param,
)
from hornbeam.forest.model import Model
from hornbeam.forest.tree import (
    LeafTerms,
    Tree,
    concatenate_trees,
    deleted_nodes,
    roots_and_depths,
    split_trees,
)
from hornbeam.forest.validation import (
    category_limits,
    normalize_nodes,
)
from hornbeam.kernels.layout import TERM_DTYPE
from hornbeam.params import MAX_OUTPUTS

__all__ = ["read_trees", "write_trees"]

# XGBoost writes these as the parent of a root and the feature of a deleted node. The
# root of a multi-output tree has the parent -1.
_ROOT_PARENT = 2**31 - 1
_DELETED_FEATURE = 2**31 - 1

# The threshold of a categorical split and the value of a vector leaf: the smallest
# positive float32.
_NO_THRESHOLD = np.finfo(np.float32).smallest_subnormal

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
_TERM_COLUMNS: dict[str, type[np.int32 | np.float64]] = {
    "feature": np.int32,
    "slope": np.float64,
    "centre": np.float64,
    "low": np.float64,
    "high": np.float64,
}
_NO_CATEGORIES = np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int32)


def write_trees(model: Model) -> list[dict[str, Any]]:
    """Return the trees of a model as objects of arrays.

    Raises
    ------
    ModelFileError
        If a node is not valid.
    """
    documents: dict[int, dict[str, Any]] = {}
    for numbers in _by_leaf_size([tree.leaf_size for tree in model.trees]):
        documents |= _write_equal_trees(model, numbers)
    return [documents[number] for number in range(len(model.trees))]


def _by_leaf_size(sizes: list[int]) -> Iterator[list[int]]:
    """Yield the numbers of the trees of each leaf size."""
    for size in sorted(set(sizes)):
        yield [number for number, own in enumerate(sizes) if own == size]


def _write_equal_trees(model: Model, numbers: list[int]) -> dict[int, dict[str, Any]]:
    """Return the trees of these numbers, whose leaves have the same size."""
    nodes, starts = concatenate_trees([model.trees[number] for number in numbers])
    limits, names = category_limits(model), [f"trees[{n}]" for n in numbers]
    nodes = normalize_nodes(nodes, starts, model.num_feature, limits, names)
    internal = nodes.left >= 0
    categorical = nodes.split_type == 1
    numerical = internal & ~categorical
    rounded = nearest(nodes.threshold, np.float32)
    deleted = deleted_nodes(nodes, starts[:-1])
    # XGBoost reads the parent of every node but the root, even of deleted ones.
    parent = np.where(deleted, np.int32(0), nodes.parent)
    size = nodes.leaf_size
    is_vector = size > 1
    parent[starts[:-1]] = -1 if is_vector else _ROOT_PARENT
    columns = {
        "base_weights": nodes.weight,
        "default_left": np.where(deleted, np.uint8(1), nodes.default_left),
        "left_children": nodes.left,
        "loss_changes": nodes.gain,
        "parents": parent,
        "right_children": nodes.right,
        "split_conditions": np.select(
            [numerical, categorical],
            [rounded, _NO_THRESHOLD],
            _NO_THRESHOLD if is_vector else nodes.value,
        ).astype(np.float32),
        "split_indices": np.where(deleted, np.int32(_DELETED_FEATURE), nodes.feature),
        "split_type": nodes.split_type,
        "sum_hessian": nodes.cover,
    }
    inexact = numerical & (nodes.threshold != rounded)
    category_starts = nodes.category_starts
    documents = {}
    for number, (start, stop) in zip(numbers, pairwise(starts.tolist()), strict=True):
        document: dict[str, Any] = {
            name: column[start:stop].ravel() for name, column in columns.items()
        }
        if is_vector:
            leaf = ~internal[start:stop]
            rows = np.cumsum(leaf, dtype=np.int32) - 1
            document["leaf_weights"] = nodes.value[start:stop][leaf].ravel()
            document["right_children"] = np.where(leaf, rows, nodes.right[start:stop])
        split_nodes = np.flatnonzero(categorical[start:stop])
        begin = category_starts[start]
        document |= {
            "categories": nodes.categories[begin : category_starts[stop]],
            "categories_nodes": split_nodes.astype(np.int32),
            "categories_segments": category_starts[start + split_nodes] - begin,
            "categories_sizes": nodes.category_counts[start + split_nodes],
        }
        document["id"] = number
        document["tree_param"] = {
            "num_deleted": str(np.count_nonzero(deleted[start:stop])),
            "num_feature": str(model.num_feature),
            "num_nodes": str(stop - start),
            "size_leaf_vector": str(size),
        }
        if inexact[start:stop].any():
            thresholds = nodes.threshold[start:stop]
            document["hornbeam_thresholds"] = thresholds[numerical[start:stop]]
        terms = model.trees[number].terms
        if terms is not None:
            document["linear_leaves"] = _write_terms(terms)
        documents[number] = document
    return documents


def read_trees(
    values: list[Any], num_feature: int, limits: NDArray[np.int64] | None
) -> list[Tree]:
    """Return the trees of an array of objects.

    Parameters
    ----------
    values
        The untrusted trees of a document.
    num_feature, limits
        See `normalize_nodes`.

    Raises
    ------
    ModelFileError
        If a tree is not valid.
    """
    params = [
        _read_tree_param(value, f"trees[{number}]")
        for number, value in enumerate(values)
    ]
    trees: dict[int, Tree] = {}
    for numbers in _by_leaf_size([leaf_size for _, _, leaf_size in params]):
        some = {f"trees[{number}]": values[number] for number in numbers}
        own = [params[number] for number in numbers]
        found = _read_equal_trees(some, own, num_feature, limits)
        trees |= zip(numbers, found, strict=True)
    return [trees[number] for number in range(len(values))]


def _read_equal_trees(
    values: dict[str, Any],
    params: list[tuple[int, int, int]],
    num_feature: int,
    limits: NDArray[np.int64] | None,
) -> list[Tree]:
    """Return trees whose leaves have the same size.

    Parameters
    ----------
    values
        The trees of a document, by their names in error messages.
    params
        Of each tree, see `_read_tree_param`.
    num_feature, limits
        See `normalize_nodes`.
    """
    sizes, leaf_size = [size for size, _, _ in params], params[0][2]
    is_usable, weight = _read_weights(values, sizes, leaf_size)
    columns = {
        key: _column(values, key, sizes, dtype)
        for key, dtype in _TREE_COLUMNS.items()
        if key != "base_weights"
    }
    starts = np.cumsum([0, *sizes])
    kinds = [
        _read_categories(value, where, size)
        for (where, value), size in zip(values.items(), sizes, strict=True)
    ]
    split_type, counts, categories = (
        np.concatenate([empty, *parts])
        for empty, *parts in zip(_NO_CATEGORIES, *kinds, strict=True)
    )
    value = condition = columns["split_conditions"]
    if leaf_size > 1:
        value = _read_leaf_vectors(values, columns, sizes, leaf_size)
    parent = columns["parents"]
    parent[starts[:-1][parent[starts[:-1]] == _ROOT_PARENT]] = -1
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
        list(values),
    )
    stored = [deleted for _, deleted, _ in params]
    _check_deleted(deleted_nodes(nodes, starts[:-1]), starts, stored, list(values))
    trees = [
        tree if known else replace(tree, weight=_mean_leaf_values(tree))
        for tree, known in zip(split_trees(nodes, starts), is_usable, strict=True)
    ]
    for tree, (where, value) in zip(trees, values.items(), strict=True):
        if "hornbeam_thresholds" in value:
            where += ".hornbeam_thresholds"
            _refine_thresholds(tree, value["hornbeam_thresholds"], where)
    for tree, (where, value) in zip(trees, values.items(), strict=True):
        if "linear_leaves" in value:
            where += ".linear_leaves"
            tree.terms = _read_terms(tree, value["linear_leaves"], where, num_feature)
    return trees


def _write_terms(terms: LeafTerms) -> dict[str, Any]:
    """Return the terms of the leaves of a tree as an object of arrays."""
    columns = {name: terms.terms[name].astype(t) for name, t in _TERM_COLUMNS.items()}
    return {"counts": terms.counts.astype(np.int32), **columns}


def _read_terms(tree: Tree, value: Any, where: str, num_feature: int) -> LeafTerms:
    """Return the terms of the leaves of a tree."""
    columns = as_object(value, where, ["counts", *_TERM_COLUMNS])
    counts = as_array(columns["counts"], np.int32)
    if (
        counts is None
        or counts.size != tree.n_nodes
        or (counts < 0).any()
        or counts[~tree.leaf_mask].any()
    ):
        raise ModelFileError(
            f"{where}.counts does not have the number of terms of each leaf",
            code=ErrorCode.MODEL_FILE_INCONSISTENT,
        )
    terms = np.zeros(int(counts.sum(dtype=np.int64)), TERM_DTYPE)
    for name, dtype in _TERM_COLUMNS.items():
        column = as_array(columns[name], dtype)
        if column is None or column.size != terms.size or not np.isfinite(column).all():
            raise ModelFileError(
                f"{where}.{name} is not an array of {terms.size} finite numbers",
                code=ErrorCode.MODEL_FILE_INCONSISTENT,
            )
        terms[name] = column
    feature = terms["feature"]
    if ((feature < 0) | (feature >= num_feature)).any():
        raise ModelFileError(
            f"{where}.feature has a number that is not one of {num_feature} features",
            code=ErrorCode.MODEL_FILE_INVALID_TREE,
        )
    if (terms["low"] > terms["high"]).any() or tree.leaf_size > 1:
        raise ModelFileError(
            f"{where} has an empty range, or a leaf of {tree.leaf_size} values",
            code=ErrorCode.MODEL_FILE_INVALID_TREE,
        )
    return LeafTerms(counts.astype(np.int64), terms)


def _read_weights(
    values: dict[str, Any], sizes: list[int], leaf_size: int
) -> tuple[list[bool], NDArray[np.float32]]:
    """Return which trees have usable node weights, and the weights of all nodes.

    XGBoost stores one weight for each gradient column of the split search. With reduced
    gradients these are fewer than the values of a leaf; the weights of such a tree are
    not usable, and zeros here.
    """
    counts = [size * leaf_size for size in sizes]
    stored = [value["base_weights"] for value in values.values()]
    is_usable = [
        not isinstance(weights, list | np.ndarray)
        or len(weights) not in range(size, count, size)
        for weights, size, count in zip(stored, sizes, counts, strict=True)
    ]
    usable = {
        where: values[where] if is_known else {"base_weights": [0.0] * count}
        for where, is_known, count in zip(values, is_usable, counts, strict=True)
    }
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
    values: dict[str, Any],
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
        [
            *_CATEGORY_COLUMNS,
            *("hornbeam_thresholds", "id", "leaf_weights", "linear_leaves"),
        ],
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
    sizes, segments = found["categories_sizes"], found["categories_segments"]
    categories = found["categories"]
    if kinds.size != size or (kinds > 1).any():
        raise ModelFileError(
            f"{where}.split_type is not an array of {size} numbers 0 or 1",
            code=ErrorCode.MODEL_FILE_INVALID_TREE,
        )
    stated = nodes.size or sizes.size or segments.size or categories.size
    if not (stated or kinds.any()):
        return kinds, np.zeros(size, np.int64), categories
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
    if not np.array_equal(segments, np.cumsum(sizes) - sizes):
        raise ModelFileError(
            f"{where}.categories_segments does not have the offsets of the categories",
            code=ErrorCode.MODEL_FILE_INVALID_CATEGORIES,
        )
    counts = np.zeros(size, np.int64)
    counts[nodes] = sizes
    return kinds, counts, categories


def _column(
    trees: dict[str, Any], key: str, sizes: list[int], dtype: _Number
) -> NDArray[Any]:
    """Return the arrays that the trees have under `key`, concatenated."""
    parts: list[NDArray[Any]] = [np.empty(0, dtype)]
    for (where, tree), size in zip(trees.items(), sizes, strict=True):
        part = as_array(tree[key], dtype)
        if part is None or part.size != size:
            what = "floating-point numbers" if dtype is np.float32 else "integers"
            raise ModelFileError(
                f"{where}.{key} is not an array of {size} {what}",
                code=ErrorCode.MODEL_FILE_INCONSISTENT,
            )
        parts.append(part)
    return np.concatenate(parts)


def _check_deleted(
    mask: NDArray[np.bool_],
    starts: NDArray[np.int64],
    stored: list[int],
    names: list[str],
) -> None:
    bounds = pairwise(starts.tolist())
    for name, (start, stop), count in zip(names, bounds, stored, strict=True):
        found = np.count_nonzero(mask[start:stop])
        if found != count:
            raise ModelFileError(
                f"{name}: {found} nodes are not reachable from the root, but "
                f"tree_param.num_deleted is {count}",
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
