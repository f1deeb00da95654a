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
    "IMPORTANCES",
    "feature_importance",
    "frame_of",
    "split_sums",
    "split_values",
]

_COLUMNS = "Tree Node ID Feature Split Yes No Missing Gain Cover Category".split()


def frame_of(model: Model, features: FeatureMap) -> Any:
    """Return a pandas frame with a row for each node, as XGBoost makes it.

    Numbers are those of the dump. The gain of a leaf is its value. Indicators, which
    XGBoost cannot put into a frame, are told as quantities.
    """
    pandas = require("pandas", "frames", "trees_to_dataframe")
    if model.linear is not None:
        raise ParameterError(
            "a model of booster='gblinear' has no trees to put into a frame; "
            "get_score() tells its weights",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    if model.leaf_size > 1:
        raise ParameterError(
            f"leaves of {model.leaf_size} values do not fit into a frame with a "
            "number for each; get_dump(dump_format='json') tells them all",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    features = features.without_indicators()
    rows = [
        (number, *row)
        for number, tree in enumerate(model.trees)
        for row in _rows(number, FormattedTree(tree, features))
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(_COLUMNS)
    return pandas.DataFrame(
        {name: list(c) for name, c in zip(_COLUMNS, columns, strict=True)}
    )


def _rows(number: int, tree: FormattedTree) -> list[tuple[Any, ...]]:
    """Return the rows of a tree but for its number, in the order of its nodes."""
    rows: list[tuple[Any, ...]] = []
    for node in sorted(node for node, _ in tree.walk()):
        place, cover = f"{number}-{node}", float(tree.cover(node))
        if tree.is_leaf(node):
            nothing = [np.nan] * 4
            value = float(tree.values(node)[0])
            rows.append((node, place, "Leaf", *nothing, value, cover, np.nan))
            continue
        by_category = tree.kind(node) == "c"
        split = np.nan if by_category else float(tree.limit(node))
        codes = tree.categories(node) if by_category else None
        ways = [f"{number}-{child}" for child in tree.ways(node)]
        gain = float(tree.gain(node))
        rows.append((node, place, tree.name(node), split, *ways, gain, cover, codes))
    return rows


def split_values(
    model: Model, features: FeatureMap, feature: str, bins: int | None
) -> NDArray[np.float64]:
    """Return a histogram of the thresholds of a feature.

    Parameters
    ----------
    model
        A model of trees.
    features
        Names and types of its features.
    feature
        A name among them.
    bins
        How many at most; None: one for each of the different thresholds.

    Returns
    -------
    (bins, 2): where a bin ends, and how many thresholds are in it. Empty ones are left
    out.
    """
    if feature not in features.names:
        raise ParameterError(
            f"the model has no feature {feature!r}; it has {listed(features.names)}",
            code=ErrorCode.UNKNOWN_FEATURE,
        )
    if features.types[features.names.index(feature)] == "c":
        raise ParameterError(
            f"{feature!r} is split by category, which has no thresholds; "
            "trees_to_dataframe() tells its categories",
            code=ErrorCode.CATEGORICAL_SPLIT_VALUES,
        )
    features = features.without_indicators()
    values = [
        float(spelled.limit(node))
        for tree in model.trees
        for spelled in [FormattedTree(tree, features)]
        for node, _ in spelled.walk()
        if not spelled.is_leaf(node) and spelled.name(node) == feature
    ]
    different = len(set(values))
    bins = different if bins is None else min(different, bins)
    counts, edges = np.histogram(values, bins=max(bins, 1))
    table = np.column_stack([edges[1:], counts])
    return table[table[:, 1] > 0]


IMPORTANCES = ("weight", "gain", "cover", "total_gain", "total_cover")


def feature_importance(model: Model, kind: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the importance of each feature that a tree splits on, by its name.

    Parameters
    ----------
    model
        A trained model.
    kind
        ``"weight"`` counts splits; ``"gain"`` and ``"cover"`` are means over the splits
        of a feature, ``"total_gain"`` and ``"total_cover"`` sums. Of a linear model
        ``"weight"`` are the weights of all features, a list where there are several
        outputs.
    names
        Of the features.
    """
    if kind not in IMPORTANCES:
        raise ParameterError(
            f"importance_type must be one of {', '.join(IMPORTANCES)}, not {kind!r}",
            code=ErrorCode.UNKNOWN_IMPORTANCE_TYPE,
        )
    if model.linear is not None:
        if kind != "weight":
            raise ParameterError(
                "the importances of a model of booster='gblinear' are its weights, "
                f"importance_type='weight', not {kind!r}",
                code=ErrorCode.IMPORTANCE_UNSUPPORTED_BY_GBLINEAR,
            )
        weights = model.linear.weights[:-1].astype(np.float64)
        listed = weights[:, 0] if weights.shape[1] == 1 else weights
        return dict(zip(names, listed.tolist(), strict=True))
    totals, counts = split_sums(model, "cover" if "cover" in kind else "gain")
    used = np.flatnonzero(counts)
    values = totals
    if kind == "weight":
        values = counts
    elif not kind.startswith("total"):
        values = np.divide(totals, counts, out=totals, where=counts > 0)
    return {names[i]: float(values[i]) for i in used.tolist()}


def split_sums(
    model: Model, of_node: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ``"gain"`` or ``"cover"`` of the splits of each feature in all.

    And how many splits there are; both are (features,).
    """
    totals, counts = np.zeros(model.num_feature), np.zeros(model.num_feature)
    for tree in model.trees:
        inner = tree.left >= 0
        np.add.at(counts, tree.feature[inner], 1.0)
        np.add.at(totals, tree.feature[inner], getattr(tree, of_node)[inner])
    return totals, counts
