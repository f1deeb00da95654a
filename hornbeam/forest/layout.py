"""Memory layouts of trees for the prediction kernels.

`Layout` compares features with thresholds. `BinnedLayout`, for many rows, compares bin
indices of the features, which the kernel computes once per row.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hornbeam.forest.tree import (
    Tree,
    joined_terms,
    with_equal_leaves,
)
from hornbeam.kernels.binned_trees import (
    BIN_BITS,
    LEAF_BIN,
    MOST_CUTS,
    MOST_SLOTS,
    SLOT_BITS,
    TOP_DTYPE,
    TopScratch,
    choose_top_splits,
)
from hornbeam.kernels.layout import BINNED_COLUMN_DTYPE, RUN_DTYPE
from hornbeam.kernels.linear_leaves import NodeTerms
from hornbeam.kernels.predict import FEATURE, PackedNodes, mark_symmetric, pack_nodes

__all__ = [
    "MIN_SELECTED_FEATURES",
    "BinnedLayout",
    "Layout",
    "weighted_leaf_values",
]

#: Rows with fewer features are copied without a selection of features.
MIN_SELECTED_FEATURES = 64


@dataclass(frozen=True)
class Layout:
    """The nodes of all trees as the arrays that the prediction kernels traverse.

    Parameters
    ----------
    roots
        (trees, 5) int32: index of the root, depth, output, number of categorical
        splits, and whether the tree is symmetric: complete, with nodes numbered level
        by level and one numerical split a level.
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
        (nodes,) float32, or (nodes, outputs) if some trees are multi-output trees.
    features
        The features that the trees split on, ascending; the features in `nodes` are
        indices into this array. None: indices of all features.
    covers
        (nodes of the tree,) of each tree: its `Tree.cover`.
    terms
        Of linear leaves, whose features are columns of the rows; None: all leaves are
        constants.
    """

    roots: NDArray[np.int32]
    nodes: NDArray[np.uint64]
    thresholds: NDArray[Any]
    category_spans: NDArray[np.int64]
    category_bits: NDArray[np.uint64]
    values: NDArray[np.float32]
    features: NDArray[np.intp] | None
    covers: Sequence[NDArray[np.float32]]
    terms: NodeTerms | None = None

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
        trees = with_equal_leaves(trees, outputs)
        sizes = [tree.left.size for tree in trees]
        starts = np.array([0, *itertools.accumulate(sizes)], np.int64)
        kind, n_nodes = np.dtype(dtype), sum(sizes)
        features, columns = _select_features(trees, n_features)
        nodes, thresholds = np.empty(n_nodes, np.uint64), np.empty(n_nodes, kind)
        depths = np.empty(len(trees), np.int64)
        pack_nodes(
            starts,
            _joined([tree.left for tree in trees], np.int32),
            _joined([tree.feature for tree in trees], np.int32),
            _joined([tree.threshold for tree in trees], np.float64),
            _joined([tree.default_left for tree in trees], np.uint8),
            columns,
            float(np.finfo(kind).max),
            np.empty(max(sizes, default=1), np.int32),
            nodes,
            thresholds,
            depths,
        )
        for number in (depths < 0).nonzero()[0].tolist():
            depths[number] = trees[number].depth()
        by_category = [np.count_nonzero(tree.split_type) for tree in trees]
        symmetric = np.empty(len(trees), np.uint8)
        mark_symmetric(starts, depths, nodes, thresholds, symmetric)
        roots = np.empty((len(trees), 5), np.int32)
        of_roots: list[Any] = [starts[:-1], depths, outputs, by_category, symmetric]
        for column, own in enumerate(of_roots):
            roots[:, column] = own
        roots[roots[:, 3] > 0, 4] = 0
        category_spans, category_bits = _category_bits(trees)
        values = _joined([tree.value for tree in trees], np.float32)
        if weights is not None and (step != 0.0 or not (weights == 1).all()):
            node_weights = np.repeat(weights, np.diff(starts)).reshape(
                -1, *[1] * (values.ndim - 1)
            )
            values = weighted_leaf_values(values, node_weights, step)
        return cls(
            roots,
            nodes,
            thresholds,
            category_spans,
            category_bits,
            values,
            features,
            [tree.cover for tree in trees],
            _joined_terms(trees, weights, columns),
        )

    @cached_property
    def numbers(self) -> NDArray[np.int32]:
        """(nodes,): the index of each node in its tree."""
        starts = np.concatenate([[0], self.roots[:, 0]])
        sizes = np.diff(starts, append=self.nodes.size)
        index = np.arange(self.nodes.size) - np.repeat(starts, sizes)
        return index.astype(np.int32)

    @cached_property
    def steps(self) -> int:
        """Number of nodes that a row visits in all trees, at most."""
        return int(self.roots[:, 1].sum())

    @cached_property
    def has_single_leaves(self) -> bool:
        """Whether each leaf is one constant."""
        return self.terms is None and self.values.ndim == 1

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
    def arrays_of_all_features(self) -> tuple[NDArray[Any], ...]:
        """The same arrays, for rows that have all features."""
        if self.features is None:
            return self.arrays
        column = self.nodes & FEATURE
        nodes = self.nodes - column + self.features.astype(np.uint64)[column]
        return self.arrays[0], nodes, *self.arrays[2:]

    @cached_property
    def packed(self) -> PackedNodes:
        """The nodes, as kernels take them."""
        return PackedNodes(
            self.nodes, self.thresholds, self.category_spans, self.category_bits
        )

    @cached_property
    def double_packed(self) -> PackedNodes:
        """The nodes with float64 thresholds, which have the same values."""
        thresholds = self.thresholds.astype(np.float64, copy=False)
        return self.packed._replace(thresholds=thresholds)

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

        It supports trees with scalar leaves, without categorical splits, unless one
        tree has more than `MOST_CUTS` thresholds of a feature.
        """
        if self.roots[:, 3].any() or self.values.ndim > 1:
            return None
        return BinnedLayout.of(self)

    def columns_of_features(self, n_features: int) -> NDArray[np.int32]:
        """Return the binned columns of each feature of the rows, as `Entries` does."""
        assert self.binned is not None
        columns = np.full((self.binned.runs.size, n_features, 2), -1, np.int32)
        for found, run in zip(columns, self.binned.runs, strict=True):
            own = self.binned.columns[run["first_column"] : run["end_column"]]
            feature = own["feature"]
            if self.features is not None:
                feature = self.features[feature]
            place = (own["missing_code"] != 0).astype(np.intp)
            found[feature, place] = np.arange(own.size)
        return columns

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


def _joined_terms(
    trees: Sequence[Tree],
    weights: NDArray[np.float32] | None,
    columns: NDArray[np.int32],
) -> NodeTerms | None:
    """Return the terms of the leaves of all trees; None if there are none.

    `columns` are those of the features; without any a feature is its column.
    """
    joined = joined_terms(trees)
    if joined is None:
        return None
    if weights is not None:
        factors = np.repeat(weights, [tree.n_nodes for tree in trees])
        joined = joined.scaled(np.repeat(factors.astype(np.float64), joined.counts))
    terms = joined.terms
    if columns.size > 0:
        terms = terms.copy()
        terms["feature"] = columns[terms["feature"]]
    return NodeTerms(joined.starts, terms)


def _joined(arrays: Sequence[NDArray[Any]], dtype: DTypeLike) -> NDArray[Any]:
    """Return the arrays of all trees as one, which kernels may take."""
    if not arrays:
        return np.empty(0, dtype)
    first = arrays[0]
    if len(arrays) == 1 and first.dtype == dtype and first.flags.carray:
        return first
    return np.concatenate(arrays, dtype=dtype, casting="safe")


def _select_features(
    trees: Sequence[Tree], n_features: int
) -> tuple[NDArray[np.intp] | None, NDArray[np.int32]]:
    """Return the features used, and the index of each feature among them.

    None and no indices if rows are to have all features.
    """
    every = None, np.empty(0, np.int32)
    if n_features < MIN_SELECTED_FEATURES:
        return every
    is_used = np.zeros(n_features, np.bool_)
    for tree in trees:
        is_used[tree.feature[tree.left >= 0]] = True
    used = np.flatnonzero(is_used)
    if not 0 < used.size <= n_features // 2:
        return every
    return used, (np.cumsum(is_used) - 1).astype(np.int32)


def _category_bits(
    trees: Sequence[Tree],
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the spans and the bit sets of the categories that go right."""
    if not any(tree.split_type.any() for tree in trees):
        return np.empty((0, 2), np.int64), np.empty(0, np.uint64)
    counts = _joined([tree.category_counts for tree in trees], np.int64)
    categories = _joined([tree.categories for tree in trees], np.int32)
    node = np.repeat(np.arange(counts.size), counts)
    bits = np.zeros(counts.size, np.int64)
    # Categories ascend, so the last one of a node is the highest.
    some = counts > 0
    bits[some] = categories[np.cumsum(counts)[some] - 1] + 1
    words = -(-bits // 64)
    first = np.cumsum(words) - words
    category_bits = np.zeros(int(words.sum()), np.uint64)
    bit = np.uint64(1) << (categories.astype(np.uint64) & np.uint64(63))
    np.bitwise_or.at(category_bits, first[node] + (categories >> 6), bit)
    first[_joined([tree.split_type for tree in trees], np.uint8) == 0] = -1
    return np.stack([first, bits], axis=1), category_bits


#: The lower half of a node of a layout: its feature, and where missing values go.
_SPLIT_BITS = np.uint64((1 << 32) - 1)
_LEFT = np.uint64(32)
#: The most splits of a run that are evaluated for all rows: their results for a set of
#: rows stay in the second cache.
_MOST_TESTS = 1 << 13


class BinnedLayout(NamedTuple):
    """The arrays that `kernels.binned_trees.add_binned_trees` takes with `Layout`.

    Consecutive trees form a run as long as they have at most `MOST_CUTS` distinct
    thresholds per feature, and `_MOST_TESTS` distinct top splits. Each run has its own
    bins.

    Parameters
    ----------
    runs
        (runs,) RUN_DTYPE.
    columns
        (columns,) BINNED_COLUMN_DTYPE: the binned columns of each run. A feature has
        two columns if some of its splits send missing values left and some right.
    spans
        (columns, 3) in the type of the features: the least cut of a column, the factor
        on the distance from it that gives the number of an interval, and the last one.
    starts, first_starts
        (intervals,) uint32: the number of cuts of the column below each interval;
        (columns,) int64: the first interval of each column.
    cuts
        The thresholds of all columns. Each column's are preceded by one unused entry
        and followed by NaN, where a search in the last interval may look.
    tests, test_starts
        (tests,) uint32: the distinct top splits of each run, each a column and a bin;
        (runs + 1,) int64: the first of each run.
    trees
        (trees,) TOP_DTYPE: which moves and slots are the tree's.
    moves
        (moves,) uint64: which rows move between slots, see `choose_top_splits`: the
        number of a test of the run, a digit, the source and the target.
    slots, slot_values
        (slots,) uint32 and float32: the node of the layout in each slot, and its value.
    nodes
        (nodes,) uint64: the left child and the split of each node of the layout.
    """

    runs: NDArray[np.void]
    columns: NDArray[np.void]
    spans: NDArray[Any]
    starts: NDArray[np.uint32]
    first_starts: NDArray[np.int64]
    cuts: NDArray[Any]
    tests: NDArray[np.uint32]
    test_starts: NDArray[np.int64]
    trees: NDArray[np.void]
    moves: NDArray[np.uint64]
    slots: NDArray[np.uint32]
    slot_values: NDArray[np.float32]
    nodes: NDArray[np.uint64]

    @classmethod
    def of(cls, layout: Layout) -> BinnedLayout | None:
        """Return the binned layout for a `Layout` of numerical splits.

        None if one tree has more thresholds of a feature than `MOST_CUTS`.
        """
        nodes, roots = layout.nodes, layout.roots
        left = nodes >> _LEFT
        inner = np.flatnonzero(left != np.arange(nodes.size))
        splits = np.full(nodes.size, LEAF_BIN, np.uint32)
        bounds = np.append(np.searchsorted(inner, roots[:, 0]), inner.size)
        trees, tops, moves, slots = _top_splits(layout)
        pending, runs = [(0, len(roots))], []
        columns, spans, starts, first_starts, cuts = [], [], [], [], []
        tests, numbers = [], []
        n_columns = n_cuts = n_starts = 0
        while pending:
            begin, end = pending.pop()
            split_nodes = inner[bounds[begin] : bounds[end]]
            features = nodes[split_nodes] & _SPLIT_BITS
            bins = _RunBins.of(features, layout.thresholds[split_nodes])
            is_single = end == begin + 1
            if is_single and bins.counts.max(initial=0) > MOST_CUTS:
                return None
            splits[split_nodes] = bins.splits
            own_tops = tops[trees["first_move"][begin] : trees["end_move"][end - 1]]
            own_tests = np.sort(splits[own_tops[own_tops >= 0]])
            is_new = np.ones(own_tests.size, np.bool_)  # np.unique imports numpy.ma
            np.not_equal(own_tests[1:], own_tests[:-1], out=is_new[1:])
            own_tests = own_tests[is_new]
            too_many = bins.counts.max(initial=0) > MOST_CUTS
            if too_many or (own_tests.size > _MOST_TESTS and not is_single):
                middle = (begin + end) // 2
                pending += [(middle, end), (begin, middle)]
                continue
            search = _Search.of(bins)
            columns.append(search.columns(bins, n_cuts))
            first_starts.append(n_starts + _offsets(search.intervals))
            spans.append(search.spans)
            starts.append(search.starts)
            cuts.append(search.cuts)
            tests.append(own_tests)
            # The last set of a run is that of all rows.
            number = np.searchsorted(own_tests, splits[own_tops])
            numbers.append(np.where(own_tops < 0, own_tests.size, number))
            runs.append((begin, end, n_columns, n_columns + bins.counts.size))
            n_columns, n_cuts = runs[-1][3], n_cuts + search.cuts.size
            n_starts += search.starts.size
        return cls(
            np.array(runs, RUN_DTYPE),
            np.concatenate(columns),
            np.concatenate(spans),
            np.concatenate(starts),
            np.concatenate(first_starts),
            np.concatenate(cuts),
            np.concatenate(tests),
            np.cumsum([0, *(own.size for own in tests)], dtype=np.int64),
            trees,
            (np.concatenate(numbers).astype(np.uint64) << np.uint64(3 * SLOT_BITS))
            | moves,
            slots,
            layout.values[slots],
            (left << _LEFT) | splits,
        )


def _top_splits(
    layout: Layout,
) -> tuple[NDArray[np.void], NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint32]]:
    """Return the outputs of `choose_top_splits`."""
    roots, n_nodes = layout.roots, layout.nodes.size
    # A move to a slot changes at most all digits of its number.
    most = SLOT_BITS * min(len(roots) * MOST_SLOTS, n_nodes) + 1
    trees = np.zeros(len(roots), TOP_DTYPE)
    splits, moves = np.empty(most, np.int64), np.empty(most, np.uint64)
    slots = np.empty(min(len(roots) * MOST_SLOTS, 2 * n_nodes), np.uint32)
    choose_top_splits(
        roots,
        layout.nodes,
        np.concatenate(layout.covers),
        trees,
        splits,
        moves,
        slots,
        TopScratch(
            np.empty(MOST_SLOTS, np.int64),
            np.empty(MOST_SLOTS),
            np.empty(MOST_SLOTS, np.int64),
            np.empty(MOST_SLOTS, np.int64),
            np.empty(MOST_SLOTS, np.bool_),
            np.empty((int(roots[:, 1].max(initial=0)) + 2, 2), np.int64),
        ),
    )
    n_moves, n_slots = trees["end_move"][-1], trees["end_slot"][-1]
    return trees, splits[:n_moves], moves[:n_moves].copy(), slots[:n_slots].copy()


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
        is_cut = is_column.copy()
        is_cut[1:] |= threshold[1:] != threshold[:-1]
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
        return ((self.column << BIN_BITS) | self.rank).astype(np.uint32)


#: Intervals of the range of a column's cuts, as a multiple of the bins.
_INTERVALS_PER_BIN = 4


@dataclass(frozen=True, slots=True)
class _Search:
    """How the bins of values are found in the columns of a run.

    The range of a column's cuts is divided into equal intervals, each with the number
    of cuts below it; a binary search finds the cut within the interval.

    Parameters
    ----------
    steps
        (columns,): the steps of the search.
    spans, starts, cuts
        As of `BinnedLayout`.
    sizes, intervals
        (columns,): the number of entries of `cuts` and of `starts`.
    """

    steps: NDArray[np.int64]
    spans: NDArray[Any]
    starts: NDArray[np.uint32]
    cuts: NDArray[Any]
    sizes: NDArray[np.int64]
    intervals: NDArray[np.int64]

    @classmethod
    def of(cls, bins: _RunBins) -> _Search:
        counts, cuts = bins.counts, bins.cuts
        first = _offsets(counts)
        low, high = cuts[first], cuts[first + counts - 1]
        intervals = _INTERVALS_PER_BIN << _ceil_log2(counts + 1)
        with np.errstate(all="ignore"):
            scale = (intervals - 1).astype(cuts.dtype) / (high - low)
        # Without a finite scale, all values are in the one interval.
        is_single = ~np.isfinite(low) | ~np.isfinite(scale) | (scale <= 0)
        intervals[is_single] = 1
        low, scale = np.where(is_single, 0, low), np.where(is_single, 0, scale)
        spans = np.stack([low, scale, intervals - 1], axis=1).astype(cuts.dtype)
        # The same operations as in the kernel, so that no value is below its interval.
        low, scale, last = np.repeat(spans, counts, axis=0).T
        with np.errstate(all="ignore"):
            interval = np.clip(np.nan_to_num((cuts - low) * scale), 0, last)
        begin = _offsets(intervals)
        own = np.repeat(begin, counts) + interval.astype(np.int64)
        inside = np.bincount(own, minlength=int(intervals.sum()))
        starts = _offsets(inside) - np.repeat(first, intervals)
        steps = _ceil_log2(_segment_max(inside, begin) + 1)
        sizes = counts + (1 << steps)
        padded = np.full(int(sizes.sum()), np.nan, cuts.dtype)
        shift = np.repeat(_offsets(sizes) + 1 - first, counts)
        padded[shift + np.arange(cuts.size)] = cuts
        return cls(steps, spans, starts.astype(np.uint32), padded, sizes, intervals)

    def columns(self, bins: _RunBins, first_cut: int) -> NDArray[np.void]:
        """Return the columns, with their cuts from `first_cut` on."""
        columns = np.empty(bins.counts.size, BINNED_COLUMN_DTYPE)
        columns["feature"] = bins.features & FEATURE
        columns["steps"] = self.steps
        columns["first_cut"] = first_cut + _offsets(self.sizes)
        columns["missing_code"] = np.where(bins.features > FEATURE, MOST_CUTS, 0)
        return columns


def _offsets(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of the counts before each."""
    return np.cumsum(counts) - counts


def _ceil_log2(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.ceil(np.log2(numbers)).astype(np.int64)


def _segment_max(
    numbers: NDArray[np.int64], starts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the maximum of each segment, none of which is empty."""
    return np.maximum.reduceat(numbers, starts) if starts.size else starts
