"""Converts CART trees to a `Booster`, which predicts, explains and saves them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.binning.sparse import join_ranges
from hornbeam.boosting.booster import Booster
from hornbeam.boosting.learner import needs_float64
from hornbeam.cart.binned_features import BinnedFeatures
from hornbeam.cart.targets import Targets
from hornbeam.cart.tree_builder import CartTree
from hornbeam.data.dmatrix import DMatrix
from hornbeam.forest.tree import Tree

__all__ = ["as_booster", "as_tree", "base_score_for"]

# Gains grow with the square of the targets, so they may exceed float32.
_MAX_GAIN = np.finfo(np.float32).max


def as_tree(
    tree: CartTree,
    features: BinnedFeatures,
    values: NDArray[np.float64],
    cover: NDArray[np.float64],
    share: float = 1.0,
) -> Tree:
    """Return the tree as a `Tree` of a model.

    Parameters
    ----------
    tree, features
        The grown tree and the binned features that it was grown on.
    values
        (nodes,) or (nodes, outputs): the prediction of each node.
    cover
        (nodes,): the sum of weights of each node.
    share
        The factor on the leaf values, 1 / trees in a forest.
    """
    nodes = tree.nodes
    is_split = nodes["left"] >= 0
    by_category = is_split & (features.is_categorical[nodes["feature"]] != 0)
    counts = nodes["n_categories"].astype(np.int64)
    positions = join_ranges(nodes["first_category"], counts)
    leaf_values = values * share
    leaf_values[is_split] = 0.0
    return Tree(
        left=nodes["left"].copy(),
        right=np.where(is_split, nodes["left"] + 1, -1).astype(np.int32),
        parent=nodes["parent"].copy(),
        feature=np.where(is_split, nodes["feature"], 0).astype(np.int32),
        threshold=tree.thresholds,
        default_left=np.where(is_split, nodes["missing_left"], 0).astype(np.uint8),
        split_type=by_category.astype(np.uint8),
        category_counts=counts,
        categories=tree.categories[positions],
        value=leaf_values.astype(np.float32),
        gain=np.minimum(nodes["gain"], _MAX_GAIN).astype(np.float32),
        cover=cover.astype(np.float32),
        weight=values.astype(np.float32),
    )


def as_booster(
    trees: Sequence[Tree],
    data: DMatrix,
    features: BinnedFeatures,
    targets: Targets,
    span: tuple[float, float],
    n_threads: int | None,
) -> Booster:
    """Return a model whose prediction is the sum of the trees and the base score.

    Parameters
    ----------
    trees
        The trees, with leaf values divided by the number of trees.
    data
        The training data, for names and types of the features.
    features, targets
        The training data as the trees used them.
    span
        The smallest and the largest target.
    n_threads
        Number of threads of predictions.
    """
    outputs = trees[0].leaf_size
    params: dict[str, Any] = {
        "nthread": n_threads,
        "num_parallel_tree": len(trees),
        "base_score": base_score_for(targets, *span),
    }
    if outputs > 1:
        params |= {"num_target": outputs, "multi_strategy": "multi_output_tree"}
    booster = Booster.of_trees(trees, data, params)
    booster.model.exact_features = not features.is_float32
    booster.model.double_scores = needs_float64(*span)
    return booster


def base_score_for(targets: Targets, low: float, high: float) -> float:
    """Return the base score for targets from `low` to `high`.

    It is 0, or a value near the mean of the targets where float32 leaf values are not
    precise enough.
    """
    return targets.center if needs_float64(low, high) else 0.0
