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
from hornbeam.forest.object_table import ObjectTable
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
#: The trees of a document, which may be anything.
Trees: TypeAlias = ObjectTable | list[Any]
_NO_CATEGORIES = np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int32)


def write_trees(model: Model) -> ObjectTable | list[dict[str, Any]]:
    """Return the trees of a model as objects of arrays.

    Raises
    ------
    ModelFileError
        If a node is not valid.
    """
    groups = list(_by_leaf_size([tree.leaf_size for tree in model.trees]))
    if len(groups) == 1:
        return _write_equal_trees(model, groups[0])
    documents: dict[int, dict[str, Any]] = {}
    for numbers in groups:
        own = _write_equal_trees(model, numbers)
        documents |= zip(numbers, own, strict=True)
    return [documents[number] for number in range(len(model.trees))]


def _by_leaf_size(sizes: list[int]) -> Iterator[list[int]]:
    """Yield the numbers of the trees of each leaf size."""
    for size in sorted(set(sizes)):
        yield [number for number, own in enumerate(sizes) if own == size]


def _write_equal_trees(model: Model, numbers: list[int]) -> ObjectTable:
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
    right = nodes.right
    if is_vector:
        # The row of a leaf's values among those of its tree.
        first = np.repeat(_counts_before(~internal, starts)[:-1], np.diff(starts))
        row = np.cumsum(~internal) - 1 - first
        right = np.where(internal, right, row).astype(np.int32)
    of_nodes = {
        "default_left": np.where(deleted, np.uint8(1), nodes.default_left),
        "left_children": nodes.left,
        "loss_changes": nodes.gain,
        "parents": parent,
        "right_children": right,
        "split_conditions": np.select(
            [numerical, categorical],
            [rounded, _NO_THRESHOLD],
            _NO_THRESHOLD if is_vector else nodes.value,
        ).astype(np.float32),
        "split_indices": np.where(deleted, np.int32(_DELETED_FEATURE), nodes.feature),
        "split_type": nodes.split_type,
        "sum_hessian": nodes.cover,
    }
    bounds = starts.tolist()
    columns = {name: (column, bounds) for name, column in of_nodes.items()}
    columns["base_weights"] = nodes.weight.ravel(), (size * starts).tolist()
    if is_vector:
        columns["leaf_weights"] = (
            nodes.value[~internal].ravel(),
            (size * _counts_before(~internal, starts)).tolist(),
        )
    columns |= _write_categories(nodes, starts)
    params = {
        "num_deleted": np.diff(_counts_before(deleted, starts)),
        "num_feature": np.full(len(numbers), model.num_feature),
        "num_nodes": np.diff(starts),
        "size_leaf_vector": np.full(len(numbers), size),
    }
    of_trees = {name: list(map(str, own.tolist())) for name, own in params.items()}
    tree_param = ObjectTable(len(numbers), {}, of_trees)
    values = {"id": list(numbers), "tree_param": tree_param}
    table = ObjectTable(len(numbers), columns, values)
    inexact = np.diff(_counts_before(numerical & (nodes.threshold != rounded), starts))
    for place in inexact.nonzero()[0].tolist():
        own = slice(bounds[place], bounds[place + 1])
        table.set(place, "hornbeam_thresholds", nodes.threshold[own][numerical[own]])
    for place, number in enumerate(numbers):
        terms = model.trees[number].terms
        if terms is not None:
            table.set(place, "linear_leaves", _write_terms(terms))
    return table


def _write_categories(
    nodes: Tree, starts: NDArray[np.int64]
) -> dict[str, tuple[NDArray[Any], list[int]]]:
    """Return the columns of the splits by category of concatenated trees."""
    splits = np.flatnonzero(nodes.split_type == 1)
    tree = np.searchsorted(starts, splits, side="right") - 1
    begins = nodes.category_starts
    bounds = np.searchsorted(splits, starts).tolist()
    return {
        "categories": (nodes.categories, begins[starts].tolist()),
        "categories_nodes": ((splits - starts[tree]).astype(np.int32), bounds),
        "categories_segments": (begins[splits] - begins[starts[tree]], bounds),
        "categories_sizes": (nodes.category_counts[splits], bounds),
    }


def _counts_before(
    mask: NDArray[np.bool_], starts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the number of nodes of a mask before each start, (trees + 1,)."""
    before = np.zeros(mask.size + 1, np.int64)
    np.cumsum(mask, out=before[1:])
    return before[starts]


def read_trees(
    values: Trees, num_feature: int, limits: NDArray[np.int64] | None
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
    if isinstance(values, list):
        values = ObjectTable.of(values) or values
    names = [f"trees[{number}]" for number in range(len(values))]
    groups = list(_by_leaf_size([leaf_size for _, _, leaf_size in params]))
    if len(groups) == 1:
        return _read_equal_trees(values, names, params, num_feature, limits)
    trees: dict[int, Tree] = {}
    for numbers in groups:
        found = _read_equal_trees(
            [values[number] for number in numbers],
            [names[number] for number in numbers],
            [params[number] for number in numbers],
            num_feature,
            limits,
        )
        trees |= zip(numbers, found, strict=True)
    return [trees[number] for number in range(len(values))]


def _read_equal_trees(
    values: Trees,
    names: list[str],
    params: list[tuple[int, int, int]],
    num_feature: int,
    limits: NDArray[np.int64] | None,
) -> list[Tree]:
    """Return trees whose leaves have the same size.

    Parameters
    ----------
    values
        The trees of a document.
    names
        What error messages call each tree.
    params
        Of each tree, see `_read_tree_param`.
    num_feature, limits
        See `normalize_nodes`.
    """
    sizes, leaf_size = [size for size, _, _ in params], params[0][2]
    is_usable, weight = _read_weights(values, names, sizes, leaf_size)
    columns = {
        key: _column(values, names, key, sizes, dtype)
        for key, dtype in _TREE_COLUMNS.items()
        if key != "base_weights"
    }
    starts = np.cumsum([0, *sizes])
    split_type, counts, categories = _read_kinds(values, names, sizes)
    value = condition = columns["split_conditions"]
    if leaf_size > 1:
        value = _read_leaf_vectors(values, names, columns, sizes, leaf_size)
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
        names,
    )
    stored = [deleted for _, deleted, _ in params]
    _check_deleted(deleted_nodes(nodes, starts[:-1]), starts, stored, names)
    trees = [
        tree if known else replace(tree, weight=_mean_leaf_values(tree))
        for tree, known in zip(split_trees(nodes, starts), is_usable, strict=True)
    ]
    for number, found in _values_of(values, "hornbeam_thresholds"):
        where = f"{names[number]}.hornbeam_thresholds"
        _refine_thresholds(trees[number], found, where)
    for number, found in _values_of(values, "linear_leaves"):
        where = f"{names[number]}.linear_leaves"
        trees[number].terms = _read_terms(trees[number], found, where, num_feature)
    return trees


def _values_of(trees: Trees, key: str) -> Iterator[tuple[int, Any]]:
    """Yield the numbers of the trees that have a key, and the values."""
    if isinstance(trees, ObjectTable) and key not in trees.columns | trees.values:
        return
    for number, tree in enumerate(trees):
        if key in tree:
            yield number, tree[key]


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
    values: Trees, names: list[str], sizes: list[int], leaf_size: int
) -> tuple[list[bool], NDArray[np.float32]]:
    """Return which trees have usable node weights, and the weights of all nodes.

    XGBoost stores one weight for each gradient column of the split search. With reduced
    gradients these are fewer than the values of a leaf; the weights of such a tree are
    not usable, and zeros here.
    """
    counts = [size * leaf_size for size in sizes]
    weight = None
    if isinstance(values, ObjectTable):
        weight = values.column("base_weights", counts, np.float32)
    if weight is not None:
        every = [True] * len(values)
        return every, weight.reshape(-1, leaf_size) if leaf_size > 1 else weight
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
    weight = _column(usable, names, "base_weights", counts, np.float32)
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
    values: Trees,
    names: list[str],
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
    rows = _column(values, names, "leaf_weights", flat, np.float32)
    rows = rows.reshape(-1, leaf_size)
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


def _read_kinds(
    values: Trees, names: list[str], sizes: list[int]
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int32]]:
    """Return split types, counts of categories, and the categories of all trees."""
    if isinstance(values, ObjectTable):
        kinds, none = values.column("split_type", sizes, np.uint8), [0] * len(sizes)
        has_none = all(
            values.column(key, none, dtype) is not None
            for key, dtype in _CATEGORY_COLUMNS.items()
            if key != "split_type"
        )
        if has_none and kinds is not None and not kinds.any():
            _, counts, categories = _NO_CATEGORIES
            return kinds, np.zeros(kinds.size, np.int64), categories
    found = [
        _read_categories(tree, where, size)
        for tree, where, size in zip(values, names, sizes, strict=True)
    ]
    split_type, counts, categories = (
        np.concatenate([empty, *parts])
        for empty, *parts in zip(_NO_CATEGORIES, *found, strict=True)
    )
    return split_type, counts, categories


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
    trees: Trees, names: list[str], key: str, sizes: list[int], dtype: _Number
) -> NDArray[Any]:
    """Return the arrays that the trees have under `key`, concatenated."""
    if isinstance(trees, ObjectTable):
        column = trees.column(key, sizes, dtype)
        if column is not None:
            return column
    parts: list[NDArray[Any]] = [np.empty(0, dtype)]
    for tree, where, size in zip(trees, names, sizes, strict=True):
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
