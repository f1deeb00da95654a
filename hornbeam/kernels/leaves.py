"""Weights of nodes and gains of splits, from sums of gradients and hessians."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels import maths
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import CATEGORY_SETS, SplitRules

__all__ = [
    "NodeColumns",
    "bound_children",
    "bound_nodes",
    "gain_of",
    "rate_splits",
    "rules_of_sides",
    "weigh_nodes",
    "weight_of",
    "write_nodes",
]

_FLOAT32_MAX = 3.4028234663852886e38


class NodeColumns(NamedTuple):
    """Columns of a finished tree; see `Tree`. In kernels outputs are the first axis."""

    right: NDArray[np.int32]
    feature: NDArray[np.int32]
    default_left: NDArray[np.uint8]
    split_type: NDArray[np.uint8]
    value: NDArray[np.float32]
    gain: NDArray[np.float32]
    cover: NDArray[np.float32]
    weight: NDArray[np.float32]


@inline
def weight_of(gradient, hessian, rules):
    """Return the weight of a leaf with these sums under `SplitRules`."""
    return maths.leaf_weight(
        gradient, hessian, rules.reg_lambda, rules.reg_alpha, rules.max_delta_step
    )


@inline
def gain_of(gradient, hessian, rules):
    """Return the gain of a leaf with these sums under `SplitRules`."""
    return maths.leaf_gain(
        gradient, hessian, rules.reg_lambda, rules.reg_alpha, rules.max_delta_step
    )


@inline
def rules_of_sides(is_categorical, rules):
    """Return the rules of both children of a split: `cat_l2` is for CATEGORY_SETS."""
    return SplitRules(
        rules.reg_lambda + (rules.cat_l2 if is_categorical == CATEGORY_SETS else 0.0),
        rules.reg_alpha,
        rules.max_delta_step,
        rules.min_child_weight,
        rules.max_cat_to_onehot,
        rules.max_cat_threshold,
        rules.min_samples_leaf,
        rules.path_smooth,
        rules.cat_smooth,
        rules.cat_l2,
        rules.min_category_weight,
        rules.min_group_weight,
    )


@kernel
def weigh_nodes(
    left,  # (nodes,) int32: left child, or -1; children come after their parents
    splits,  # (nodes,) SPLIT_DTYPE; (0,): all children are weighted by the same rules
    rules,  # SplitRules
    learning_rate,
    sums,  # (nodes, 2) float64: gradients and hessians of leaves, in; of all, out
    bounds,  # (nodes, 2) float64: least and largest weight; (0, 2): unbounded
    rows,  # (nodes,) float64: number of rows; (0,): weights are not smoothed
    weights,  # (nodes,) float64, out
):
    """Write the weight of each node, as a leaf.

    Weights of leaves are multiplied by the learning rate, those of inner nodes are
    not, as in XGBoost.
    """
    for node in range(left.size - 1, -1, -1):
        child = left[node]
        if child >= 0:
            sums[node, 0] = sums[child, 0] + sums[child + 1, 0]
            sums[node, 1] = sums[child, 1] + sums[child + 1, 1]
    for node in range(left.size):
        weights[node] = weight_of(sums[node, 0], sums[node, 1], rules)
    for node in range(left.size):
        weight = weights[node]
        if bounds.size > 0:
            weight = min(max(weight, bounds[node, 0]), bounds[node, 1])
        child = left[node]
        weights[node] = weight if child >= 0 else weight * learning_rate
        if child >= 0 and (splits.size > 0 or rows.size > 0):
            kind = splits[node]["is_categorical"] if splits.size > 0 else 0
            own = rules_of_sides(kind, rules)
            for side in range(child, child + 2):
                of_side = weight_of(sums[side, 0], sums[side, 1], own)
                if rows.size > 0:
                    of_side = maths.smoothed_weight(
                        of_side, rows[side], weight, rules.path_smooth
                    )
                weights[side] = of_side


@inline
def _as_float32(value):
    """Return the nearest finite float32 number, as model files need them."""
    return np.float32(min(max(value, -_FLOAT32_MAX), _FLOAT32_MAX))


@kernel
def write_nodes(
    left,  # (nodes,) int32: left child, or -1
    splits,  # (nodes,) SPLIT_DTYPE
    weights,  # (outputs, nodes) float64: times the learning rate at leaves
    sums,  # (columns, nodes, 2) float64: gradients and hessians
    new,  # NodeColumns, out
):
    """Write columns of a tree; return whether a leaf value is beyond float32."""
    is_beyond = False
    for node in range(left.size):
        is_leaf = left[node] < 0
        split = splits[node]
        new.right[node] = -1 if is_leaf else left[node] + 1
        new.feature[node] = split["feature"]
        new.default_left[node] = split["missing_left"]
        new.split_type[node] = split["is_categorical"] != 0
        new.gain[node] = _as_float32(split["gain"])
        cover = sums[0, node, 1]
        for column in range(1, sums.shape[0]):
            cover += sums[column, node, 1]
        new.cover[node] = _as_float32(cover)
        for output in range(weights.shape[0]):
            weight = weights[output, node]
            new.weight[output, node] = _as_float32(weight)
            new.value[output, node] = _as_float32(weight) if is_leaf else 0.0
            is_beyond |= is_leaf and abs(weight) > _FLOAT32_MAX
    return is_beyond


@kernel
def rate_splits(
    left,  # (nodes,) int32: left child, or -1
    rules,  # SplitRules
    sums,  # (nodes, 2) float64: gradients and hessians
    gains,  # (nodes,) float64, out; 0 at leaves
):
    """Write the gain of each split."""
    for node in range(left.size):
        child = left[node]
        gains[node] = 0.0
        if child >= 0:
            children = gain_of(sums[child, 0], sums[child, 1], rules)
            children += gain_of(sums[child + 1, 0], sums[child + 1, 1], rules)
            gains[node] = children - gain_of(sums[node, 0], sums[node, 1], rules)


@inline
def bound_children(node, child, direction, both_grow, reach, bounds):
    """Write the bounds of the children of a node, from its own; see `bound_nodes`."""
    for side in range(2):
        bounds[child + side, 0] = bounds[node, 0]
        bounds[child + side, 1] = bounds[node, 1]
    if direction != 0:
        low = child + np.int64(direction < 0)
        high = child + np.int64(direction > 0)
        top, bottom = reach[low, 1], reach[high, 0]
        if both_grow:
            top = bottom = (top + bottom) / 2.0
        bounds[low, 1] = min(bounds[low, 1], bottom)
        bounds[high, 0] = max(bounds[high, 0], top)


@kernel
def bound_nodes(
    left,  # (nodes,) int32: left child, or -1; children come after their parents
    directions,  # (nodes,) int8: 1 or -1 where weights must rise or fall to the right
    follows,  # whether the reach of an inner node is that of its leaves
    reach,  # (nodes, 2) float64, in: least and largest possible weight; out: of all
    grows,  # (nodes,) uint8, in: whether its weights may change; out: those of a leaf
    bounds,  # (nodes, 2) float64, out: least and largest weight in the subtree
):
    """Write bounds that keep monotone constraints however the subtrees grow on.

    The subtrees of two constrained children are separated at the midpoint between
    their nearest weights; if only one of them grows, its bound is the other's weight.
    """
    if follows:
        for node in range(left.size - 1, -1, -1):
            child = left[node]
            if child >= 0:
                reach[node, 0] = min(reach[child, 0], reach[child + 1, 0])
                reach[node, 1] = max(reach[child, 1], reach[child + 1, 1])
                grows[node] = grows[child] | grows[child + 1]
    bounds[0, 0] = -np.inf
    bounds[0, 1] = np.inf
    for node in range(left.size):
        child = left[node]
        if child >= 0:
            both_grow = grows[child] & grows[child + 1]
            direction = directions[node]
            bound_children(node, child, direction, both_grow, reach, bounds)
