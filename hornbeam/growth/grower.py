"""Growing one tree from histograms, level by level or best leaf first."""

from __future__ import annotations

import heapq
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.base import Backend, Growth, RowSample
from hornbeam.binning.cuts import Cuts
from hornbeam.errors import DataError
from hornbeam.forest.tree import Tree
from hornbeam.growth.sampling import ColumnSampler
from hornbeam.kernels.layout import SPLIT_DTYPE
from hornbeam.kernels.leaves import weigh_nodes

__all__ = ["Shape", "grow_tree"]

#: A split must gain more than this, whatever gamma says (XGBoost's kRtEps).
_LEAST_GAIN = 1e-6
_MOST = np.finfo(np.float32).max

Nodes = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a tree may become.

    Parameters
    ----------
    best_first
        Split the leaf of the highest gain next, instead of whole levels.
    max_depth, max_leaves
        0 means no limit.
    gamma
        The least gain of a split.
    """

    best_first: bool
    max_depth: int
    max_leaves: int
    gamma: float

    def deep_enough(self, depth: int) -> bool:
        """Whether nodes at this depth stay leaves."""
        return 0 < self.max_depth <= depth

    def leaves_left(self, leaves: int) -> int:
        """Return how many more splits a tree of so many leaves may have."""
        return self.max_leaves - leaves if self.max_leaves > 0 else sys.maxsize

    def worthwhile(self, splits: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which splits gain enough."""
        gains = splits["gain"]
        return (gains > _LEAST_GAIN) & (gains >= self.gamma)


class _Sapling:
    """The nodes of a tree that is still growing."""

    def __init__(self) -> None:
        self.parent = np.full(127, -1, np.int32)
        self.left = np.full(127, -1, np.int32)
        self.splits = np.zeros(127, SPLIT_DTYPE)
        #: The categories that go right, where a split is by category.
        self.sets = np.zeros((127, 0), np.uint64)
        self.n_nodes = 1

    def split(
        self, nodes: Nodes, splits: NDArray[Any], sets: NDArray[np.uint64]
    ) -> Nodes:
        """Give each node two children; return the left ones."""
        left = np.arange(self.n_nodes, self.n_nodes + 2 * nodes.size, 2)
        self.n_nodes += 2 * nodes.size
        while self.n_nodes > self.left.size:
            more = np.full(self.left.size, -1, np.int32)
            self.parent = np.concatenate([self.parent, more])
            self.left = np.concatenate([self.left, more])
            self.splits = np.concatenate([self.splits, np.zeros_like(self.splits)])
            self.sets = np.concatenate([self.sets, np.zeros_like(self.sets)])
        self.left[nodes] = left
        self.parent[left] = nodes
        self.parent[left + 1] = nodes
        self.splits[nodes] = splits
        if self.sets.shape[1] < sets.shape[1]:
            self.sets = np.zeros((self.left.size, sets.shape[1]), np.uint64)
        self.sets[nodes] = sets
        return left

    def categories(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return how many categories go right at each node, and all of these."""
        if self.sets.shape[1] == 0:  # no feature has any
            return np.zeros(self.n_nodes, np.int64), np.empty(0, np.int32)
        words = np.where(
            self.splits["is_categorical"][: self.n_nodes, None] != 0,
            self.sets[: self.n_nodes],
            np.uint64(0),
        )
        bits = np.unpackbits(
            words.astype("<u8").view(np.uint8), axis=1, bitorder="little"
        )
        counts = np.count_nonzero(bits, axis=1)
        return counts.astype(np.int64), np.nonzero(bits)[1].astype(np.int32)


def grow_tree(
    backend: Backend,
    output: int,
    cuts: Cuts,
    growth: Growth,
    shape: Shape,
    columns: ColumnSampler,
    sample: RowSample | None,
    learning_rate: float,
) -> Tree:
    """Return a new tree for one output, and add its values to the scores.

    Splits are searched as in XGBoost (Chen and Guestrin 2016, algorithm 1 on the
    histograms' cuts); leaf weights come from sums in finer steps than the
    histograms'.
    """
    backend.begin_tree(output, growth, columns.columns, sample)
    grow = _grow_best_first if shape.best_first else _grow_by_level
    sapling = grow(backend, shape, columns)
    return _finish(sapling, backend, cuts, growth, learning_rate)


def _grow_by_level(backend: Backend, shape: Shape, columns: ColumnSampler) -> _Sapling:
    sapling = _Sapling()
    level = np.zeros(1, np.intp)
    depth, leaves = 0, 1
    while level.size > 0 and not shape.deep_enough(depth):
        splits, sets = backend.find_splits(level, columns.allowed(level, depth))
        chosen = np.flatnonzero(shape.worthwhile(splits))[: shape.leaves_left(leaves)]
        if chosen.size == 0:
            break
        nodes, splits, sets = level[chosen], splits[chosen], sets[chosen]
        left = sapling.split(nodes, splits, sets)
        backend.apply_splits(nodes, splits, sets, left)
        leaves += nodes.size
        level = np.arange(left[0], left[-1] + 2)
        depth += 1
    return sapling


def _grow_best_first(
    backend: Backend, shape: Shape, columns: ColumnSampler
) -> _Sapling:
    sapling = _Sapling()
    leaves = 1
    #: Splits by falling gain; of equal ones that of the lower node first.
    waiting: list[tuple[float, int, int, NDArray[Any], NDArray[np.uint64]]] = []

    def consider(nodes: Nodes, depth: int) -> None:
        if shape.deep_enough(depth) or shape.leaves_left(leaves) <= 0:
            return
        splits, sets = backend.find_splits(nodes, columns.allowed(nodes, depth))
        for i in np.flatnonzero(shape.worthwhile(splits)):
            own = slice(i, i + 1)
            order = -float(splits["gain"][i]), int(nodes[i])
            heapq.heappush(waiting, (*order, depth, splits[own], sets[own]))

    consider(np.zeros(1, np.intp), 0)
    while waiting and shape.leaves_left(leaves) > 0:
        _, node, depth, split, rights = heapq.heappop(waiting)
        nodes = np.array([node])
        left = sapling.split(nodes, split, rights)
        backend.apply_splits(nodes, split, rights, left)
        leaves += 1
        consider(np.array([left[0], left[0] + 1]), depth + 1)
    return sapling


def _finish(
    sapling: _Sapling,
    backend: Backend,
    cuts: Cuts,
    growth: Growth,
    learning_rate: float,
) -> Tree:
    """Weigh the nodes, add the leaves' values to the scores, return the tree."""
    n_nodes = sapling.n_nodes
    left = sapling.left[:n_nodes]
    is_leaf = left < 0
    leaves = np.flatnonzero(is_leaf)
    sums = np.zeros((n_nodes, 2))
    sums[leaves] = backend.sum_leaves(leaves, np.arange(leaves.size), leaves.size)
    weights = np.empty(n_nodes)
    weigh_nodes(left, growth.rules, learning_rate, sums, weights)
    if np.abs(weights[leaves]).max() > _MOST:
        raise DataError(
            "a leaf value is beyond the range of float32: labels, weights or the "
            "learning rate are too large; scale the labels or weights down, or lower "
            "learning_rate"
        )
    values = _as_float32(np.where(is_leaf, weights, 0.0))
    backend.add_leaf_values(values[leaves])

    splits = sapling.splits[:n_nodes]
    feature, last_bin = splits["feature"], splits["bin"]
    threshold = cuts.values[cuts.pointers[feature] + np.maximum(last_bin, 0)]
    threshold = np.where(last_bin < 0, cuts.minimums[feature], threshold)
    by_category = splits["is_categorical"] != 0
    category_counts, categories = sapling.categories()
    return Tree(
        left=left.copy(),
        right=np.where(is_leaf, -1, left + 1).astype(np.int32),
        parent=sapling.parent[:n_nodes].copy(),
        feature=feature.copy(),
        threshold=np.where(is_leaf | by_category, np.nan, threshold),
        default_left=splits["missing_left"].astype(np.uint8),
        split_type=by_category.astype(np.uint8),
        category_counts=category_counts,
        categories=categories,
        value=values,
        gain=_as_float32(splits["gain"]),
        cover=_as_float32(sums[:, 1]),
        weight=_as_float32(weights),
    )


def _as_float32(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return what model files hold: the nearest finite numbers."""
    return np.clip(values, -_MOST, _MOST).astype(np.float32)
