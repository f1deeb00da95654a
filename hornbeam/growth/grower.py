"""Grows one tree in a backend, depthwise or lossguide."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import Backend, GrowthLimits, RowSample, SplitParams
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.forest.tree import Tree
from hornbeam.growth.column_sampler import ColumnSampler
from hornbeam.growth.constraints import ConstrainedBackend, Constraints
from hornbeam.growth.lossguide import grow_lossguide
from hornbeam.growth.tree_builder import TreeBuilder, prune
from hornbeam.kernels.leaves import weigh_nodes

__all__ = ["LeafConstants", "Thresholds", "grow_tree"]

Values = NDArray[np.float32]
#: Takes the output of a tree, the leaf of each row and the number of leaves; returns
#: the weight of each leaf before it is multiplied by the learning rate.
LeafConstants = Callable[[int, NDArray[np.uint32], int], NDArray[np.float64]]

_FLOAT32_MAX = np.finfo(np.float32).max
_NO_BOUNDS = np.empty((0, 2))


class Thresholds(Protocol):
    """Maps bins to the values of features."""

    def thresholds(self, splits: NDArray[Any]) -> NDArray[np.float64]:
        """Return the thresholds of (splits,) `SPLIT_DTYPE`: lower values go left."""


def grow_tree(
    backend: Backend,
    output: int,
    cuts: Thresholds,
    params: SplitParams,
    limits: GrowthLimits,
    columns: ColumnSampler,
    sample: RowSample | None,
    learning_rate: float,
    constraints: Constraints | None = None,
    contributions: Callable[[Values], Values] | None = None,
    constants: LeafConstants | None = None,
) -> Tree:
    """Return a new tree for one output, and add its values to the margins.

    If there are `contributions`, they map the leaf values to those that are added.
    Leaf weights are the `constants` if there are any, otherwise Newton steps.

    Splits are found as in XGBoost (Chen and Guestrin 2016, algorithm 1 on the cuts of
    the histograms); leaf weights come from wide sums, which are more precise than
    packed histograms.
    """
    backend.begin_tree(output, params, columns.columns, sample)
    constrained = None
    if constraints is not None or params.counts_rows:
        constrained = ConstrainedBackend(backend, params, constraints)
    grown = None
    if constrained is None and columns.depend_on_depth_only(limits.max_depth):
        grown = backend.grow(limits, columns.by_depth(limits.max_depth))
    if grown is not None:
        tree = TreeBuilder.of(grown)
        nodes = owners = tree.leaves()
    elif limits.lossguide:
        tree, nodes, owners = grow_lossguide(constrained or backend, limits, columns)
    else:
        tree = _grow_depthwise(constrained or backend, limits, columns)
        nodes = owners = tree.leaves()
    if limits.prunes:
        tree, kept = prune(tree, limits.gamma)
        owners = kept[owners]
    finished = _finish(
        tree,
        nodes,
        owners,
        backend,
        cuts,
        params,
        learning_rate,
        None if constrained is None else constrained.bounds(tree),
        None if constants is None else partial(constants, output),
    )
    values = finished.value[finished.left < 0]
    backend.add_leaf_values(values if contributions is None else contributions(values))
    return finished


def _grow_depthwise(
    backend: Backend | ConstrainedBackend, limits: GrowthLimits, columns: ColumnSampler
) -> TreeBuilder:
    tree = TreeBuilder()
    level = np.zeros(1, np.intp)
    depth, leaves = 0, 1
    while level.size > 0 and not limits.deep_enough(depth):
        splits, sets = backend.find_splits(level, columns.allowed(level, depth))
        chosen = np.flatnonzero(limits.worthwhile(splits))[: limits.leaves_left(leaves)]
        if chosen.size == 0:
            break
        nodes, splits, sets = level[chosen], splits[chosen], sets[chosen]
        left = tree.split(nodes, splits, sets)
        backend.apply_splits(nodes, splits, sets, left)
        leaves += nodes.size
        level = np.arange(left[0], left[-1] + 2)
        depth += 1
    return tree


def _finish(
    tree: TreeBuilder,
    nodes: NDArray[np.intp],
    owners: NDArray[np.intp],
    backend: Backend,
    cuts: Thresholds,
    params: SplitParams,
    learning_rate: float,
    bounds: NDArray[np.float64] | None,
    constants: Callable[[NDArray[np.uint32], int], NDArray[np.float64]] | None,
) -> Tree:
    """Compute the weights of the nodes, within their bounds, and return the tree.

    The rows of the backend's ``nodes[i]`` are in leaf ``owners[i]`` of the tree.
    """
    n_nodes = tree.n_nodes
    left = tree.left[:n_nodes]
    is_leaf = left < 0
    leaves = np.flatnonzero(is_leaf)
    numbers = np.searchsorted(leaves, owners)
    found = backend.sum_leaves(nodes, numbers, leaves.size)
    if bounds is not None and found.ndim == 3 and len(found) > backend.n_outputs:
        raise ParameterError(
            "monotone_constraints bound the weights of the gradients that splits are "
            "searched by, and leaves are weighted by other gradients; return "
            "(gradients, hessians) alone, or leave monotone_constraints out",
            code=ErrorCode.CONFLICTING_PARAMETERS,
        )
    # In multi-output trees the first axis is that of the outputs.
    sums = np.zeros((*found.shape[:-2], n_nodes, 2))
    sums[..., leaves, :] = found
    rows = tree.rows() if params.path_smooth > 0.0 else np.empty(0)
    weights = np.empty(sums.shape[:-1])
    for output in np.ndindex(sums.shape[:-2]):
        own_bounds = _NO_BOUNDS if bounds is None else bounds[output or 0]
        own = sums[output], own_bounds, rows, weights[output]
        weigh_nodes(left, params.rules, learning_rate, *own)
    covers = sums[..., 1].reshape(-1, n_nodes)
    if len(covers) > backend.n_outputs:
        # The columns that splits were searched by follow the outputs.
        weights, covers = weights[: backend.n_outputs], covers[backend.n_outputs :]
    if constants is not None:
        found = constants(backend.leaf_of(), leaves.size)
        weights[leaves] = found * learning_rate
    if np.abs(weights[..., leaves]).max() > _FLOAT32_MAX:
        raise DataError(
            "a leaf value is beyond the range of float32: labels, weights or the "
            "learning rate are too large; scale the labels or weights down, or lower "
            "learning_rate",
            code=ErrorCode.FLOAT_OVERFLOW,
        )
    splits = tree.splits[:n_nodes]
    by_category = splits["is_categorical"] != 0
    category_counts, categories = tree.categories()
    return Tree(
        left=left.copy(),
        right=np.where(is_leaf, -1, left + 1).astype(np.int32),
        parent=tree.parent[:n_nodes].copy(),
        feature=splits["feature"].copy(),
        threshold=np.where(is_leaf | by_category, np.nan, cuts.thresholds(splits)),
        default_left=splits["missing_left"].astype(np.uint8),
        split_type=by_category.astype(np.uint8),
        category_counts=category_counts,
        categories=categories,
        value=_as_float32(np.where(is_leaf, weights, 0.0).T),
        gain=_as_float32(splits["gain"]),
        cover=_as_float32(covers.sum(axis=0)),
        weight=_as_float32(weights.T),
    )


def _as_float32(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the nearest finite float32 numbers, as model files need them."""
    return np.clip(values, -_FLOAT32_MAX, _FLOAT32_MAX).astype(np.float32, order="C")
