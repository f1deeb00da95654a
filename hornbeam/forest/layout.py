"""Memory layouts of trees for the prediction kernels.

`Layout` compares features with thresholds. `BinnedLayout`, for many rows, compares bin
indices of the features, which the kernel computes once per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hornbeam.data.floats import nearest
from hornbeam.forest.tree import Tree, concatenate_trees
from hornbeam.kernels.binned_trees import BIN_BITS, MOST_CUTS, TOP_LEVELS
from hornbeam.kernels.layout import BINNED_COLUMN_DTYPE, RUN_DTYPE
from hornbeam.kernels.predict import FEATURE, FEATURE_BITS, MOST_LEVELS, PackedNodes

__all__ = [
    "BinnedLayout",
    "Layout",
    "weighted_leaf_values",
]

#: Rows with fewer features are copied without a selection of features.
_MIN_SELECTED_FEATURES = 64


@dataclass(frozen=True)
class Layout:
    """The nodes of all trees as the arrays that the prediction kernels traverse.

    Parameters
    ----------
    roots
        (trees, 4) int32: index of the root, depth, output, number of categorical
        splits.
    nodes
        (nodes,) uint64: feature, whether missing values go right, and the index of the
        left child; the right child is the next node (see `hornbeam.kernels.predict`).
        A leaf is its own left child.
    thresholds
        (nodes,) in the type of the features; NaN at leaves.
    category_spans, category_bits
        (nodes, 2) int64 and (words,) uint64: the bit set of the categories that go
        right, as the first word and the number of bits; -1 and 0 at numerical splits.
        Both are empty if no split is categorical.
    values
        (nodes,) float32, or (nodes, outputs) for multi-output trees.
    numbers
        (nodes,) int32: the index of each node in its tree.
    features
        The features that the trees split on, ascending; the features in `nodes` are
        indices into this array. None: indices of all features.
    """

    roots: NDArray[np.int32]
    nodes: NDArray[np.uint64]
    thresholds: NDArray[Any]
    category_spans: NDArray[np.int64]
    category_bits: NDArray[np.uint64]
    values: NDArray[np.float32]
    numbers: NDArray[np.int32]
    features: NDArray[np.intp] | None

    @classmethod
    def of(
        cls,
        trees: Sequence[Tree],
        outputs: Sequence[int],
        dtype: DTypeLike,
        n_features: int,
        weights: NDArray[np.float32] | None = None,
        step: float = 0.0,
    ) -> Layout:
        """Return the layout of trees.

        Parameters
        ----------
        trees, outputs
            Trees, and the output that each adds to.
        dtype, n_features
            Type and number of the features of rows to predict.
        weights
            (trees,): factors on the leaf values; None: all 1.
        step
            See `weighted_leaf_values`.
        """
        joined, starts = concatenate_trees(trees)
        sizes = np.diff(starts)
        indices = np.arange(starts[-1])
        offsets = np.repeat(starts[:-1], sizes)
        is_leaf = joined.left < 0
        left = np.where(is_leaf, indices, joined.left + offsets).astype(np.uint64)
        missing_right = (~is_leaf & (joined.default_left == 0)).astype(np.uint64)
        features, numbered = _select_features(joined.feature, is_leaf, n_features)
        nodes = (((left << 1) | missing_right) << FEATURE_BITS) | numbered
        depths = [tree.depth() for tree in trees]
        by_category = [np.count_nonzero(tree.split_type) for tree in trees]
        roots = np.stack([starts[:-1], depths, outputs, by_category], axis=1)
        category_spans, category_bits = _category_bits(joined)
        values = joined.value
        if weights is not None:
            node_weights = np.repeat(weights, sizes).reshape(
                -1, *[1] * (values.ndim - 1)
            )
            values = weighted_leaf_values(values, node_weights, step)
        return cls(
            roots.astype(np.int32),
            nodes,
            nearest(np.where(is_leaf, np.nan, joined.threshold), dtype),
            category_spans,
            category_bits,
            values,
            (indices - offsets).astype(np.int32),
            features,
        )

    @cached_property
    def steps(self) -> int:
        """Number of nodes that a row visits in all trees, at most."""
        return int(self.roots[:, 1].sum())

    @cached_property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The arrays that the prediction kernels take, in their order."""
        return (
            self.roots,
            self.nodes,
            self.thresholds,
            self.category_spans,
            self.category_bits,
            self.values,
        )

    @cached_property
    def packed(self) -> PackedNodes:
        """The nodes, as kernels take them."""
        return PackedNodes(
            self.nodes, self.thresholds, self.category_spans, self.category_bits
        )

    @cached_property
    def by_output(self) -> NDArray[np.float32]:
        """(outputs, nodes) leaf values by output; (1, nodes) for scalar leaves."""
        return np.ascontiguousarray(np.atleast_2d(self.values.T))

    def cost(self, n_rows: int, n_features: int) -> int:
        """Return the cost of a prediction in the unit of `lease`: histogram bins."""
        return n_rows * (4 * self.steps + n_features)

    @cached_property
    def binned(self) -> BinnedLayout | None:
        """The layout by bins for many rows; None if the trees do not support it.

        It supports trees with scalar leaves, without categorical splits, up to a depth
        beyond which most rows would wait at leaves.
        """
        by_category = self.roots[:, 3].any()
        is_deep = self.roots[:, 1].max(initial=0) > MOST_LEVELS
        if by_category or is_deep or self.values.ndim > 1:
            return None
        return BinnedLayout.of(self.roots, self.nodes, self.thresholds)

    def skip_trees(self, n_trees: int) -> Layout:
        """Return the layout without its first `n_trees` trees."""
        return replace(self, roots=self.roots[n_trees:])


def weighted_leaf_values(
    values: NDArray[np.float32],
    weights: NDArray[np.float32] | np.float32,
    step: float,
) -> NDArray[np.float32]:
    """Return `values` * `weights`, rounded to multiples of `step` unless it is 0."""
    weighted = values * weights
    if step == 0.0:
        return weighted
    return (np.rint(weighted.astype(np.float64) / step) * step).astype(np.float32)


def _select_features(
    feature: NDArray[np.int32], is_leaf: NDArray[np.bool_], n_features: int
) -> tuple[NDArray[np.intp] | None, NDArray[np.uint64]]:
    """Return the features used, None for all, and each node's index into them."""
    if n_features >= _MIN_SELECTED_FEATURES:
        used = np.unique(feature[~is_leaf]).astype(np.intp)
        if 0 < used.size <= n_features // 2:
            indices = np.searchsorted(used, np.where(is_leaf, used[0], feature))
            return used, indices.astype(np.uint64)
    return None, feature.astype(np.uint64)


def _category_bits(nodes: Tree) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the spans and the bit sets of the categories that go right."""
    if not nodes.split_type.any():
        return np.empty((0, 2), np.int64), np.empty(0, np.uint64)
    node = np.repeat(np.arange(nodes.n_nodes), nodes.category_counts)
    bits = np.zeros(nodes.n_nodes, np.int64)
    # Categories ascend, so the last one of a node is the highest.
    some = nodes.category_counts > 0
    bits[some] = nodes.categories[nodes.category_starts[1:][some] - 1] + 1
    words = -(-bits // 64)
    first = np.cumsum(words) - words
    category_bits = np.zeros(int(words.sum()), np.uint64)
    category = nodes.categories.astype(np.uint64)
    bit = np.uint64(1) << (category & np.uint64(63))
    np.bitwise_or.at(category_bits, first[node] + (nodes.categories >> 6), bit)
    first[nodes.split_type == 0] = -1
    return np.stack([first, bits], axis=1), category_bits


#: The lower half of a node of a layout: its feature, and where missing values go.
_SPLIT_BITS = np.uint64((1 << 32) - 1)
_LEFT = np.uint64(32)
#: The split bin of a leaf, which no bin index exceeds.
_LEAF_BIN = MOST_CUTS + 1


class BinnedLayout(NamedTuple):
    """The arrays that `kernels.binned_trees.add_binned_trees` takes with `Layout`.

    Consecutive trees form a run as long as they have at most `MOST_CUTS` distinct
    thresholds per feature. Each run has its own bins.

    Parameters
    ----------
    runs
        (runs,) RUN_DTYPE.
    columns
        (columns,) BINNED_COLUMN_DTYPE: the binned columns of each run. A feature has
        two columns if some of its splits send missing values left and some right.
    cuts
        The thresholds of all columns. Each column's are preceded by one unused entry
        and padded with NaN to a power of two.
    tops
        (trees, 2 ** TOP_LEVELS - 1) uint32: the splits of the first levels, each a
        column and a bin. Below a leaf the leaf is repeated.
    entries
        (trees, 2 ** TOP_LEVELS) uint32: the nodes of the layout that they lead to.
    nodes
        (nodes,) uint64: the left child and the split of each node of the layout.
    """

    runs: NDArray[np.void]
    columns: NDArray[np.void]
    cuts: NDArray[Any]
    tops: NDArray[np.uint32]
    entries: NDArray[np.uint32]
    nodes: NDArray[np.uint64]

    @classmethod
    def of(
        cls,
        roots: NDArray[np.int32],
        nodes: NDArray[np.uint64],
        thresholds: NDArray[Any],
    ) -> BinnedLayout | None:
        """Return the binned layout for the arrays of a `Layout` of numerical splits.

        None if one tree has more thresholds of a feature than `MOST_CUTS`.
        """
        left = (nodes >> _LEFT).astype(np.intp)
        inner = np.flatnonzero(left != np.arange(nodes.size))
        splits = np.full(nodes.size, _LEAF_BIN, np.uint32)
        bounds = np.append(np.searchsorted(inner, roots[:, 0]), inner.size)
        pending, runs, columns, cuts = [(0, len(roots))], [], [], []
        n_columns = n_cuts = 0
        while pending:
            begin, end = pending.pop()
            split_nodes = inner[bounds[begin] : bounds[end]]
            features = nodes[split_nodes] & _SPLIT_BITS
            bins = _RunBins.of(features, thresholds[split_nodes])
            if bins.counts.max(initial=0) > MOST_CUTS:
                if end == begin + 1:
                    return None
                middle = (begin + end) // 2
                pending += [(middle, end), (begin, middle)]
                continue
            splits[split_nodes] = bins.splits
            columns.append(bins.columns(n_cuts))
            cuts.append(bins.padded_cuts())
            runs.append((begin, end, n_columns, n_columns + bins.counts.size))
            n_columns, n_cuts = runs[-1][3], n_cuts + cuts[-1].size
        return cls(
            np.array(runs, RUN_DTYPE),
            np.concatenate(columns),
            np.concatenate(cuts),
            *_top_levels(roots, left, splits),
            (nodes >> _LEFT << _LEFT) | splits,
        )


@dataclass(frozen=True, slots=True)
class _RunBins:
    """The binned columns of a run of trees, and the bin of each of its splits.

    Parameters
    ----------
    column, rank
        (splits,): the column of each split, from 0 on, and the index of its threshold
        among the cuts of the column.
    features
        (columns,): the feature of each column, with the direction of missing values in
        the bit above.
    cuts
        The thresholds of each column, ascending, column by column.
    counts
        (columns,): the number of cuts of each column.
    """

    column: NDArray[np.int64]
    rank: NDArray[np.int64]
    features: NDArray[np.uint64]
    cuts: NDArray[Any]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, feature: NDArray[np.uint64], threshold: NDArray[Any]) -> _RunBins:
        order = np.lexsort((threshold, feature))
        feature, threshold = feature[order], threshold[order]
        is_column = np.diff(feature, prepend=~feature[:1]) != 0
        is_cut = is_column | (np.diff(threshold, prepend=threshold[:1]) != 0)
        first = np.flatnonzero(is_column[is_cut])
        column, rank = np.empty((2, order.size), np.int64)
        column[order] = np.cumsum(is_column) - 1
        rank[order] = np.cumsum(is_cut) - 1
        cuts = threshold[is_cut]
        return cls(
            column,
            rank - first[column],
            feature[is_column],
            cuts,
            np.diff(first, append=cuts.size),
        )

    @property
    def splits(self) -> NDArray[np.uint32]:
        """The splits in the kernels' encoding: a bin above the split's goes right."""
        return ((self.column << BIN_BITS) | (self.rank + 1)).astype(np.uint32)

    @property
    def steps(self) -> NDArray[np.int64]:
        """The number of steps of a binary search in the cuts of each column."""
        return np.ceil(np.log2(self.counts + 1.0)).astype(np.int64)

    def columns(self, first_cut: int) -> NDArray[np.void]:
        """Return the columns, with their cuts from `first_cut` on."""
        columns = np.empty(self.counts.size, BINNED_COLUMN_DTYPE)
        columns["feature"] = self.features & FEATURE
        columns["steps"] = self.steps
        columns["first_cut"] = first_cut + self._starts()
        columns["missing_code"] = np.where(self.features > FEATURE, MOST_CUTS, 0)
        return columns

    def _starts(self) -> NDArray[np.int64]:
        sizes = 1 << self.steps
        return np.cumsum(sizes) - sizes

    def padded_cuts(self) -> NDArray[Any]:
        """Return an unused entry, the cuts and NaN up to a power of two, by column."""
        padded = np.full(int((1 << self.steps).sum()), np.nan, self.cuts.dtype)
        before = np.repeat(np.cumsum(self.counts) - self.counts, self.counts)
        offsets = np.repeat(self._starts() + 1, self.counts) - before
        padded[offsets + np.arange(self.cuts.size)] = self.cuts
        return padded


def _top_levels(
    roots: NDArray[np.int32], left: NDArray[np.intp], splits: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the splits of the first levels of each tree, and the nodes below them."""
    n_trees, width = len(roots), 1 << TOP_LEVELS
    tops = np.full((n_trees, width - 1), _LEAF_BIN, np.uint32)
    entries = np.zeros((n_trees, width), np.uint32)
    levels = np.minimum(roots[:, 1], TOP_LEVELS)
    places = roots[:, :1].astype(np.intp)
    for level in range(TOP_LEVELS + 1):
        size = 1 << level
        here = levels == level
        entries[here, :size] = places[here]
        if level < TOP_LEVELS:
            tops[:, size - 1 : 2 * size - 1] = splits[places]
            below = left[places]
            right = below + (below != places)
            places = np.stack([below, right], axis=2).reshape(n_trees, -1)
    return tops, entries
