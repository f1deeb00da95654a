"""Growing one tree from histograms, level by level or best leaf first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import Backend, RowSample, SplitParams
from hornbeam.errors import DataError, ErrorCode, ParameterError
from hornbeam.forest.tree import Tree
from hornbeam.growth.column_sampler import ColumnSampler
from hornbeam.growth.constraints import Constraints
from hornbeam.growth.growth_limits import GrowthLimits
from hornbeam.growth.lossguide import grow_lossguide
from hornbeam.growth.pruning import prune
from hornbeam.growth.split_finder import SplitFinder
from hornbeam.growth.tree_builder import TreeBuilder
from hornbeam.kernels.leaves import weigh_nodes

__all__ = ["LeafConstants", "Thresholds", "grow_tree"]

Values = NDArray[np.float32]
#: Takes the output of a tree, the leaf of each row and the number of leaves; returns
#: what each leaf weighs before it is shrunk.
LeafConstants = Callable[[int, NDArray[np.uint32], int], NDArray[np.float64]]

_MOST = np.finfo(np.float32).max
#: No bounds of weights.
_FREE = np.empty((0, 2))


class Thresholds(Protocol):
    """What knows the values that bins stand for."""

    def thresholds(self, splits: NDArray[Any]) -> NDArray[np.float64]:
        """Return what values that go left are below, for (splits,) `SPLIT_DTYPE`."""


def grow_tree(
    backend: Backend,
    output: int,
    cuts: Thresholds,
    growth: SplitParams,
    shape: GrowthLimits,
    columns: ColumnSampler,
    sample: RowSample | None,
    learning_rate: float,
    constraints: Constraints | None = None,
    contributions: Callable[[Values], Values] | None = None,
    constants: LeafConstants | None = None,
) -> Tree:
    """Return a new tree for one output, and add its values to the scores.

    What is added are their `contributions`, if they are not added as they are. Leaves
    weigh the `constants` if there are any, and else what their sums say.

    Splits are searched as in XGBoost (Chen and Guestrin 2016, algorithm 1 on the
    histograms' cuts); leaf weights come from sums in finer steps than the
    histograms'.
    """
    backend.begin_tree(output, growth, columns.columns, sample)
    search = SplitFinder(backend, growth, constraints)
    if shape.best_first:
        sapling, nodes, owners = grow_lossguide(search, shape, columns)
    else:
        sapling = _grow_by_level(search, shape, columns)
        nodes = owners = sapling.leaves()
    if shape.prunes:
        sapling, kept = prune(sapling, shape.gamma)
        owners = kept[owners]
    tree = _finish(
        sapling,
        nodes,
        owners,
        backend,
        cuts,
        growth,
        learning_rate,
        search.bounds(sapling),
        None if constants is None else partial(constants, output),
    )
    values = tree.value[tree.left < 0]
    backend.add_leaf_values(values if contributions is None else contributions(values))
    return tree


def _grow_by_level(
    search: SplitFinder, shape: GrowthLimits, columns: ColumnSampler
) -> TreeBuilder:
    sapling = TreeBuilder()
    level = np.zeros(1, np.intp)
    depth, leaves = 0, 1
    while level.size > 0 and not shape.deep_enough(depth):
        splits, sets = search.find(level, columns.allowed(level, depth))
        chosen = np.flatnonzero(shape.worthwhile(splits))[: shape.leaves_left(leaves)]
        if chosen.size == 0:
            break
        nodes, splits, sets = level[chosen], splits[chosen], sets[chosen]
        left = sapling.split(nodes, splits, sets)
        search.apply(nodes, splits, sets, left)
        leaves += nodes.size
        level = np.arange(left[0], left[-1] + 2)
        depth += 1
    return sapling


def _finish(
    sapling: TreeBuilder,
    nodes: NDArray[np.intp],
    owners: NDArray[np.intp],
    backend: Backend,
    cuts: Thresholds,
    growth: SplitParams,
    learning_rate: float,
    bounds: NDArray[np.float64] | None,
    constants: Callable[[NDArray[np.uint32], int], NDArray[np.float64]] | None,
) -> Tree:
    """Weigh the nodes, within their bounds, and return the tree.

    The rows of the backend's ``nodes[i]`` are in leaf ``owners[i]`` of the tree.
    """
    n_nodes = sapling.n_nodes
    left = sapling.left[:n_nodes]
    is_leaf = left < 0
    leaves = np.flatnonzero(is_leaf)
    numbers = np.searchsorted(leaves, owners)
    found = backend.sum_leaves(nodes, numbers, leaves.size)
    if bounds is not None and found.ndim == 3 and len(found) > backend.n_outputs:
        raise ParameterError(
            "monotone_constraints hold the weights that splits are searched by, and "
            "leaves have others; return (gradients, hessians) alone, or leave "
            "monotone_constraints out",
            code=ErrorCode.CONFLICTING_PARAMETERS,
        )
    # Of a tree of all outputs everything has an axis of outputs, the first one.
    sums = np.zeros((*found.shape[:-2], n_nodes, 2))
    sums[..., leaves, :] = found
    rows = sapling.rows() if growth.path_smooth > 0.0 else np.empty(0)
    weights = np.empty(sums.shape[:-1])
    for output in np.ndindex(sums.shape[:-2]):
        held = _FREE if bounds is None else bounds[output or 0]
        own = sums[output], held, rows, weights[output]
        weigh_nodes(left, growth.rules, learning_rate, *own)
    covers = sums[..., 1].reshape(-1, n_nodes)
    if len(covers) > backend.n_outputs:
        # After the outputs come the columns that the tree was grown by.
        weights, covers = weights[: backend.n_outputs], covers[backend.n_outputs :]
    if constants is not None:
        found = constants(backend.leaf_of(), leaves.size)
        weights[leaves] = found * learning_rate
    if np.abs(weights[..., leaves]).max() > _MOST:
        raise DataError(
            "a leaf value is beyond the range of float32: labels, weights or the "
            "learning rate are too large; scale the labels or weights down, or lower "
            "learning_rate",
            code=ErrorCode.FLOAT_OVERFLOW,
        )
    splits = sapling.splits[:n_nodes]
    by_category = splits["is_categorical"] != 0
    category_counts, categories = sapling.categories()
    return Tree(
        left=left.copy(),
        right=np.where(is_leaf, -1, left + 1).astype(np.int32),
        parent=sapling.parent[:n_nodes].copy(),
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
    """Return what model files hold: the nearest finite numbers."""
    return np.clip(values, -_MOST, _MOST).astype(np.float32, order="C")
