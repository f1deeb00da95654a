"""Grows one tree in a backend: depthwise, lossguide or symmetric."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import (
    Backend,
    Constraints,
    GrownTree,
    GrowthLimits,
    RowLoss,
    RowSample,
    SplitParams,
)
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.forest.tree import LeafTerms, Tree, split_trees
from hornbeam.growth.column_sampler import ColumnSampler
from hornbeam.growth.constraints import ConstrainedBackend, bounds_in
from hornbeam.growth.lossguide import grow_lossguide
from hornbeam.growth.symmetric import grow_symmetric
from hornbeam.growth.tree_builder import TreeBuilder, categories_of, prune
from hornbeam.kernels.leaves import NodeColumns, weigh_nodes, write_nodes
from hornbeam.kernels.symmetric_tree import inherit_weights

__all__ = [
    "LeafConstants",
    "LeafRegression",
    "Thresholds",
    "beyond_float32",
    "grow_rounds",
    "grow_tree",
]

Values = NDArray[np.float32]
#: Takes the output of a tree, the leaf of each row and the number of leaves; returns
#: the weight of each leaf before it is multiplied by the learning rate.
LeafConstants = Callable[[int, NDArray[np.uint32], int], NDArray[np.float64]]
#: Takes the backend and a tree of constant leaves; returns the terms of its leaves, and
#: adds what the leaves then predict to the margins.
LeafRegression = Callable[[Backend, Tree], LeafTerms]

_NO_BOUNDS = np.empty((0, 2))


class Thresholds(Protocol):
    """Maps bins to the values of features."""

    def thresholds(
        self, splits: NDArray[Any], rounded: bool = False
    ) -> NDArray[np.float64]:
        """Return the thresholds of (splits,) `SPLIT_DTYPE`: lower values go left.

        Those of leaves and of splits by category mean nothing. If the model rounds
        features to float32, the thresholds have to be `rounded` alike.
        """


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
    regression: LeafRegression | None = None,
    rounded: bool = False,
) -> Tree:
    """Return a new tree for one output, and add its values to the margins.

    If there are `contributions`, they map the leaf values to those that are added.
    Leaf weights are the `constants` if there are any, otherwise Newton steps. With a
    `regression` leaves are linear. Thresholds are `rounded` to float32 where the model
    rounds features.

    Splits are found as in XGBoost (Chen and Guestrin 2016, algorithm 1 on the cuts of
    the histograms); leaf weights come from wide sums, which are more precise than
    packed histograms.
    """
    backend.begin_tree(output, params, columns.columns, sample)
    sides = None
    weighs = constants is None and limits.weighs_early(params.path_smooth)
    if constraints is not None and constraints.directions is not None:
        weighs = False  # weights have bounds
    rate = learning_rate if weighs else None
    grown = backend.grow(limits, columns.draws, rate, constraints)
    if grown is None or grown.columns is None:
        if grown is not None:
            tree, sides = TreeBuilder.of(grown), grown.sides
            nodes = owners = tree.leaves()
        elif limits.symmetric:
            groups = None if constraints is None else constraints.groups
            tree = grow_symmetric(backend, limits, columns, groups)
            nodes = owners = tree.leaves()
        else:
            finder: Backend | ConstrainedBackend = backend
            if constraints is not None or params.counts_rows:
                finder = ConstrainedBackend(backend, params, constraints)
            if limits.lossguide:
                tree, nodes, owners = grow_lossguide(finder, limits, columns)
            else:
                tree = _grow_depthwise(finder, limits, columns)
                nodes = owners = tree.leaves()
            if isinstance(finder, ConstrainedBackend):
                sides = finder.sides
        if limits.prunes:
            tree, kept = prune(tree, limits.gamma)
            owners = kept[owners]
        columns_of_nodes, is_beyond = _weigh(
            tree,
            nodes,
            owners,
            backend,
            params,
            limits.symmetric,
            learning_rate,
            None if constraints is None else bounds_in(tree, constraints, sides),
            None if constants is None else partial(constants, output),
        )
        grown = tree.grown(columns_of_nodes, is_beyond)
    if grown.is_beyond:
        raise beyond_float32()
    leaves = (grown.left < 0).nonzero()[0]
    finished = _finish(grown, leaves, cuts, rounded)
    if regression is not None:
        finished.terms = regression(backend, finished)
        return finished
    values = finished.value[leaves]
    backend.add_leaf_values(values if contributions is None else contributions(values))
    return finished


def grow_rounds(
    backend: Backend, loss: RowLoss, wanted: int, cuts: Thresholds, rounded: bool
) -> list[Tree]:
    """Return the trees of up to `wanted` rounds like the last one, done in one job.

    There are none if the backend cannot do that; see `Backend.grow_rounds`.
    """
    grown = backend.grow_rounds(loss, wanted)
    if grown is None:
        return []
    leaves = (grown.nodes.left < 0).nonzero()[0]
    return split_trees(_finish(grown.nodes, leaves, cuts, rounded), grown.starts)


def beyond_float32() -> DataError:
    """Return the error that a leaf value is beyond the range of float32."""
    return DataError(
        "a leaf value is beyond the range of float32: labels, weights or the "
        "learning rate are too large; scale the labels or weights down, or lower "
        "learning_rate",
        code=ErrorCode.FLOAT_OVERFLOW,
    )


def _grow_depthwise(
    backend: Backend | ConstrainedBackend, limits: GrowthLimits, columns: ColumnSampler
) -> TreeBuilder:
    tree = TreeBuilder.of_root()
    level = np.zeros(1, np.intp)
    depth, leaves = 0, 1
    while level.size > 0 and not limits.deep_enough(depth):
        splits, sets = backend.find_splits(level, columns.allowed(level, depth))
        enough = limits.worthwhile(splits["gain"])
        chosen = enough.nonzero()[0][: limits.leaves_left(leaves)]
        if chosen.size == 0:
            break
        nodes, splits, sets = level[chosen], splits[chosen], sets[chosen]
        left = tree.split(nodes, splits, sets)
        backend.apply_splits(nodes, splits, sets, left)
        leaves += nodes.size
        level = np.arange(left[0], left[-1] + 2)
        depth += 1
    return tree


def _weigh(
    tree: TreeBuilder,
    nodes: NDArray[np.intp],
    owners: NDArray[np.intp],
    backend: Backend,
    params: SplitParams,
    symmetric: bool,
    learning_rate: float,
    bounds: NDArray[np.float64] | None,
    constants: Callable[[NDArray[np.uint32], int], NDArray[np.float64]] | None,
) -> tuple[NodeColumns, bool]:
    """Compute the weights of the nodes, within their bounds.

    Returns the columns of the tree, and whether a leaf value is beyond float32. The
    rows of the backend's ``nodes[i]`` are in leaf ``owners[i]`` of the tree.
    """
    n_nodes = tree.n_nodes
    left, splits = tree.left[:n_nodes], tree.splits[:n_nodes]
    leaves = tree.leaves()
    found = backend.sum_leaves(nodes, leaves.searchsorted(owners), leaves.size)
    # In multi-output trees the first axis is that of the outputs.
    is_multi_output = found.ndim == 3
    n_columns = len(found) if is_multi_output else 1
    if bounds is not None and n_columns > backend.n_outputs:
        raise ParameterError(
            "monotone_constraints bound the weights of the gradients that splits are "
            "searched by, and leaves are weighted by other gradients; return "
            "(gradients, hessians) alone, or leave monotone_constraints out",
            code=ErrorCode.CONFLICTING_PARAMETERS,
        )
    sums = np.zeros((n_columns, n_nodes, 2))
    sums[:, leaves] = found
    rows = tree.rows() if params.path_smooth > 0.0 else np.empty(0)
    weights = np.empty((n_columns, n_nodes))
    for column in range(n_columns):
        own_bounds = _NO_BOUNDS if bounds is None else bounds[column]
        own = sums[column], own_bounds, rows, weights[column]
        weigh_nodes(left, splits, params.rules, learning_rate, *own)
        if symmetric:
            of_column = sums[column], weights[column]
            inherit_weights(left, params.rules, learning_rate, *of_column)
    if constants is not None:
        weights[0, leaves] = constants(backend.leaf_of(), leaves.size) * learning_rate
    if len(sums) > backend.n_outputs:
        # The columns that splits were searched by follow the outputs.
        weights, sums = weights[: backend.n_outputs], sums[backend.n_outputs :]
    of_outputs = len(weights), n_nodes
    columns = NodeColumns(
        right=np.empty(n_nodes, np.int32),
        feature=np.empty(n_nodes, np.int32),
        default_left=np.empty(n_nodes, np.uint8),
        split_type=np.empty(n_nodes, np.uint8),
        value=np.empty(of_outputs, np.float32),
        gain=np.empty(n_nodes, np.float32),
        cover=np.empty(n_nodes, np.float32),
        weight=np.empty(of_outputs, np.float32),
    )
    is_beyond = write_nodes(left, splits, weights, sums, columns)
    value, weight = columns.value, columns.weight
    of_tree = (value.T, weight.T) if is_multi_output else (value[0], weight[0])
    value, weight = map(np.ascontiguousarray, of_tree)
    return columns._replace(value=value, weight=weight), is_beyond


def _finish(
    grown: GrownTree, leaves: NDArray[np.intp], cuts: Thresholds, rounded: bool
) -> Tree:
    """Return the tree, whose columns and leaves are known."""
    columns = grown.columns
    assert columns is not None
    threshold = cuts.thresholds(grown.splits, rounded)
    threshold[leaves] = np.nan
    category_counts, categories = categories_of(grown)
    if categories.size > 0:
        threshold[columns.split_type.view(np.bool_)] = np.nan
    return Tree(
        left=grown.left,
        right=columns.right,
        parent=grown.parent,
        feature=columns.feature,
        threshold=threshold,
        default_left=columns.default_left,
        split_type=columns.split_type,
        category_counts=category_counts,
        categories=categories,
        value=columns.value,
        gain=columns.gain,
        cover=columns.cover,
        weight=columns.weight,
    )
