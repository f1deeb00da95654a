"""Whole trees as a model of Hornbeam, which predicts, explains and is saved as any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.binning.sparse import join_ranges
from hornbeam.boosting.booster import Booster
from hornbeam.boosting.learner import needs_double
from hornbeam.cart.codes import Codes
from hornbeam.cart.growing import Grown
from hornbeam.cart.targets import Targets
from hornbeam.data.dmatrix import DMatrix
from hornbeam.forest.tree import Tree

__all__ = ["as_booster", "as_tree", "start_of"]

# Gains grow with the square of the targets.
_LARGEST = np.finfo(np.float32).max


def as_tree(
    grown: Grown,
    codes: Codes,
    values: NDArray[np.float64],
    cover: NDArray[np.float64],
    share: float = 1.0,
) -> Tree:
    """Return a tree in the form of models.

    Parameters
    ----------
    grown, codes
        The tree, and the codes that it was grown on.
    values
        (nodes,) or (nodes, outputs): what each predicts.
    cover
        (nodes,): the weight of each.
    share
        What this tree counts among all.
    """
    nodes = grown.nodes
    is_split = nodes["left"] >= 0
    by_category = is_split & (codes.is_categorical[nodes["feature"]] != 0)
    counts = nodes["n_categories"].astype(np.int64)
    places = join_ranges(nodes["first_category"], counts)
    leaf_values = values * share
    leaf_values[is_split] = 0.0
    return Tree(
        left=nodes["left"].copy(),
        right=np.where(is_split, nodes["left"] + 1, -1).astype(np.int32),
        parent=nodes["parent"].copy(),
        feature=np.where(is_split, nodes["feature"], 0).astype(np.int32),
        threshold=grown.thresholds,
        default_left=np.where(is_split, nodes["missing_left"], 0).astype(np.uint8),
        split_type=by_category.astype(np.uint8),
        category_counts=counts,
        categories=grown.categories[places],
        value=leaf_values.astype(np.float32),
        gain=np.minimum(nodes["gain"], _LARGEST).astype(np.float32),
        cover=cover.astype(np.float32),
        weight=values.astype(np.float32),
    )


def as_booster(
    trees: Sequence[Tree],
    data: DMatrix,
    codes: Codes,
    targets: Targets,
    span: tuple[float, float],
    n_threads: int | None,
) -> Booster:
    """Return a model that predicts the mean of the trees.

    Parameters
    ----------
    trees
        Each with its share of the mean.
    data
        What they were grown on.
    codes, targets
        As they were grown.
    span
        The least and the greatest target.
    n_threads
        Of predictions.
    """
    outputs = trees[0].leaf_size
    params: dict[str, Any] = {
        "nthread": n_threads,
        "num_parallel_tree": len(trees),
        "base_score": start_of(targets, *span),
    }
    if outputs > 1:
        params |= {"num_target": outputs, "multi_strategy": "multi_output_tree"}
    booster = Booster.of_trees(trees, data, params)
    booster.model.exact_features = not codes.is_float32
    booster.model.double_scores = needs_double(*span)
    return booster


def start_of(targets: Targets, least: float, most: float) -> float:
    """Return what the values of leaves are added to, for targets in this range.

    That is 0, or near the mean where float32 is too coarse for the targets.
    """
    return targets.center if needs_double(least, most) else 0.0
