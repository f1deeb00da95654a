"""Feature importance, data frames of trees and histograms of split values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.schema import listed
from hornbeam.errors import ErrorCode, ParameterError, require
from hornbeam.forest.dump import FormattedTree
from hornbeam.forest.feature_map import FeatureMap
from hornbeam.forest.model import Model

__all__ = [
    "IMPORTANCE_TYPES",
    "feature_importance",
    "split_totals",
    "split_value_histogram",
    "trees_to_dataframe",
]

_COLUMNS = (
    "Tree Target Node ID Feature Split Yes No Missing Gain Cover Category".split()
)


def trees_to_dataframe(model: Model, features: FeatureMap) -> Any:
    """Return a pandas data frame with one row per node, with XGBoost's columns.

    Numbers are those of the dump. The column Gain has the value of a leaf. Indicators,
    which XGBoost does not support here, are treated as quantitative features. Vector
    leaves have a row per value, and the column Target has its output, as in XGBoost
    3.4. With linear leaves there is a column Terms, a list of their terms.

    Raises
    ------
    ParameterError
        For a linear model.
    """
    pandas = require("pandas", "frames", "trees_to_dataframe")
    if model.linear is not None:
        raise ParameterError(
            "a model of booster='gblinear' has no trees for a data frame; "
            "get_score() returns its weights",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    features = features.without_indicators()
    targets = [
        None if tree.leaf_size > 1 else output
        for tree, output in zip(model.trees, model.tree_output, strict=True)
    ]
    rows = [
        (number, *row)
        for number, (tree, target) in enumerate(zip(model.trees, targets, strict=True))
        for row in _rows(number, FormattedTree(tree, features), target)
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(_COLUMNS)
    frame = pandas.DataFrame(
        {name: list(c) for name, c in zip(_COLUMNS, columns, strict=True)}
    )
    if model.has_linear_leaves:
        frame["Terms"] = [
            formatted.terms(node) if formatted.is_leaf(node) else np.nan
            for tree in model.trees
            for formatted in [FormattedTree(tree, features)]
            for node in sorted(node for node, _ in formatted.walk())
        ]
    if None in targets:
        return frame.astype({"Target": "Int64"})
    return frame.drop(columns="Target")


def _rows(
    number: int, tree: FormattedTree, target: int | None
) -> list[tuple[Any, ...]]:
    """Return the rows of a tree without the column Tree, ordered by node.

    `target` is the output of the tree; None: its leaves have values of all outputs.
    """
    rows: list[tuple[Any, ...]] = []
    for node in sorted(node for node, _ in tree.walk()):
        node_id, cover = f"{number}-{node}", float(tree.cover(node))
        if tree.is_leaf(node):
            missing = [np.nan] * 4
            for output, value in enumerate(tree.values(node), target or 0):
                row = (output, node, node_id, "Leaf", *missing, float(value))
                rows.append((*row, cover, np.nan))
            continue
        by_category = tree.kind(node) == "c"
        split = np.nan if by_category else float(tree.split_condition(node))
        categories = tree.categories(node) if by_category else None
        children = [f"{number}-{child}" for child in tree.children(node)]
        row = (target, node, node_id, tree.name(node), split, *children)
        rows.append((*row, float(tree.gain(node)), cover, categories))
    return rows


def split_value_histogram(
    model: Model, features: FeatureMap, feature: str, bins: int | None
) -> NDArray[np.float64]:
    """Return a histogram of the thresholds of a feature, (bins, 2).

    Parameters
    ----------
    model
        A model of trees.
    features
        Names and types of its features.
    feature
        The name of a feature.
    bins
        Maximum number of bins; None: the number of distinct thresholds.

    Returns
    -------
    The right edge and the count of each bin. Empty bins are omitted.

    Raises
    ------
    ParameterError
        If the model has no such feature, or the feature is categorical.
    """
    if feature not in features.names:
        raise ParameterError(
            f"the model has no feature {feature!r}; it has {listed(features.names)}",
            code=ErrorCode.UNKNOWN_FEATURE,
        )
    if features.types[features.names.index(feature)] == "c":
        raise ParameterError(
            f"{feature!r} is categorical, and its splits have no thresholds; "
            "trees_to_dataframe() returns their categories",
            code=ErrorCode.CATEGORICAL_SPLIT_VALUES,
        )
    features = features.without_indicators()
    values = [
        float(formatted.split_condition(node))
        for tree in model.trees
        for formatted in [FormattedTree(tree, features)]
        for node, _ in formatted.walk()
        if not formatted.is_leaf(node) and formatted.name(node) == feature
    ]
    n_distinct = len(set(values))
    bins = n_distinct if bins is None else min(n_distinct, bins)
    counts, edges = np.histogram(values, bins=max(bins, 1))
    table = np.column_stack([edges[1:], counts])
    return table[table[:, 1] > 0]


IMPORTANCE_TYPES = ("weight", "gain", "cover", "total_gain", "total_cover")


def feature_importance(model: Model, kind: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the importance of each feature that the trees split on, by name.

    Parameters
    ----------
    model
        A trained model.
    kind
        ``"weight"``: number of splits; ``"gain"``, ``"cover"``: means over the splits
        of a feature; ``"total_gain"``, ``"total_cover"``: sums. For a linear model
        ``"weight"`` returns the weights of all features, a list of them if the model
        has several outputs.
    names
        The names of all features.

    Raises
    ------
    ParameterError
        If `kind` is unknown, or not ``"weight"`` for a linear model.
    """
    if kind not in IMPORTANCE_TYPES:
        raise ParameterError(
            f"importance_type must be one of {', '.join(IMPORTANCE_TYPES)}, "
            f"not {kind!r}",
            code=ErrorCode.UNKNOWN_IMPORTANCE_TYPE,
        )
    if model.linear is not None:
        if kind != "weight":
            raise ParameterError(
                "booster='gblinear' supports importance_type='weight' only, its "
                f"weights, not {kind!r}",
                code=ErrorCode.IMPORTANCE_UNSUPPORTED_BY_GBLINEAR,
            )
        weights = model.linear.weights[:-1].astype(np.float64)
        listed = weights[:, 0] if weights.shape[1] == 1 else weights
        return dict(zip(names, listed.tolist(), strict=True))
    totals, counts = split_totals(model, "cover" if "cover" in kind else "gain")
    used = np.flatnonzero(counts)
    values = totals
    if kind == "weight":
        values = counts
    elif not kind.startswith("total"):
        values = np.divide(totals, counts, out=totals, where=counts > 0)
    return {names[i]: float(values[i]) for i in used.tolist()}


def split_totals(
    model: Model, of_node: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sum over splits and the number of splits of each feature.

    Parameters
    ----------
    model
        A model of trees.
    of_node
        ``"gain"`` or ``"cover"``.

    Returns
    -------
    Two float64 arrays, (features,).
    """
    totals, counts = np.zeros(model.num_feature), np.zeros(model.num_feature)
    for tree in model.trees:
        inner = tree.left >= 0
        np.add.at(counts, tree.feature[inner], 1.0)
        np.add.at(totals, tree.feature[inner], getattr(tree, of_node)[inner])
    return totals, counts
