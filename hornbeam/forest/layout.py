"""Trees laid out for prediction: all nodes end to end in the order of use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hornbeam.data.floats import nearest
from hornbeam.forest.tree import Tree, join
from hornbeam.kernels.coded import CODE_BITS, MOST_CUTS, TOP_LEVELS
from hornbeam.kernels.layout import CODED_DTYPE, RUN_DTYPE
from hornbeam.kernels.predict import FEATURE, FEATURE_BITS, MOST_LEVELS

__all__ = [
    "BinnedLayout",
    "Layout",
    "contributions",
]

#: Rows of fewer features are read whole.
_WIDE = 64


@dataclass(frozen=True)
class Layout:
    """The arrays that the prediction kernels walk.

    Parameters
    ----------
    roots
        (trees, 4) int32: place of the root, depth, output, splits by category.
    nodes
        (nodes,) uint64: feature, whether the missing go right, and the place of the
        left child, which the right one follows (see `hornbeam.kernels.predict`). A
        leaf is its own left child.
    thresholds
        (nodes,) of the type of the features; NaN at leaves.
    spans, rights
        The categories that go right, as bits in the (words,) uint64 `rights`; and for
        each node, (nodes, 2) int64, the first word and the number of bits, -1 and 0 at
        splits by threshold. No rows at all where every split is one.
    values
        (nodes,) float32, or (nodes, outputs) where trees are of all outputs.
    numbers
        (nodes,) int32: each node's number in its tree.
    features
        The columns that the trees look at, ascending, by whose places in this array
        the nodes name them; None for all columns.
    """

    roots: NDArray[np.int32]
    nodes: NDArray[np.uint64]
    thresholds: NDArray[Any]
    spans: NDArray[np.int64]
    rights: NDArray[np.uint64]
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
        """Return the layout of `trees` for rows of `n_features` of type `dtype`.

        The values are the `contributions` of trees of these weights; None: all 1.
        """
        joined, starts = join(trees)
        sizes = np.diff(starts)
        places = np.arange(starts[-1])
        offsets = np.repeat(starts[:-1], sizes)
        is_leaf = joined.left < 0
        left = np.where(is_leaf, places, joined.left + offsets).astype(np.uint64)
        missing_right = (~is_leaf & (joined.default_left == 0)).astype(np.uint64)
        features, named = _choose_features(joined.feature, is_leaf, n_features)
        nodes = (((left << 1) | missing_right) << FEATURE_BITS) | named
        depths = [tree.depth() for tree in trees]
        by_category = [np.count_nonzero(tree.split_type) for tree in trees]
        roots = np.stack([starts[:-1], depths, outputs, by_category], axis=1)
        spans, rights = _list_rights(joined)
        values = joined.value
        if weights is not None:
            of_nodes = np.repeat(weights, sizes).reshape(-1, *[1] * (values.ndim - 1))
            values = contributions(values, of_nodes, step)
        return cls(
            roots.astype(np.int32),
            nodes,
            nearest(np.where(is_leaf, np.nan, joined.threshold), dtype),
            spans,
            rights,
            values,
            (places - offsets).astype(np.int32),
            features,
        )

    @cached_property
    def steps(self) -> int:
        """Steps of a row down all trees."""
        return int(self.roots[:, 1].sum())

    @cached_property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What kernels take of it, in their order."""
        return (
            self.roots,
            self.nodes,
            self.thresholds,
            self.spans,
            self.rights,
            self.values,
        )

    @cached_property
    def by_output(self) -> NDArray[np.float32]:
        """The values of nodes, (outputs, nodes): one row for trees of one output."""
        return np.ascontiguousarray(np.atleast_2d(self.values.T))

    def cells(self, n_rows: int, n_features: int) -> int:
        """Return the work of so many rows, in cells of a histogram."""
        return n_rows * (4 * self.steps + n_features)

    @cached_property
    def coded(self) -> BinnedLayout | None:
        """The same trees for many rows; None if they do not go by codes.

        Those are trees of one output without categories, and not as deep and uneven as
        to have most rows wait at leaves.
        """
        by_category = self.roots[:, 3].any()
        is_deep = self.roots[:, 1].max(initial=0) > MOST_LEVELS
        if by_category or is_deep or self.values.ndim > 1:
            return None
        return BinnedLayout.of(self.roots, self.nodes, self.thresholds)

    def after(self, n_trees: int) -> Layout:
        """Return the layout without its first trees."""
        return replace(self, roots=self.roots[n_trees:])


def contributions(
    values: NDArray[np.float32],
    weights: NDArray[np.float32] | np.float32,
    step: float,
) -> NDArray[np.float32]:
    """Return what leaf values add to margins: in whole steps, unless `step` is 0."""
    weighted = values * weights
    if step == 0.0:
        return weighted
    return (np.rint(weighted.astype(np.float64) / step) * step).astype(np.float32)


def _choose_features(
    feature: NDArray[np.int32], is_leaf: NDArray[np.bool_], n_features: int
) -> tuple[NDArray[np.intp] | None, NDArray[np.uint64]]:
    """Return the columns worth reading, or None, and the nodes' places among them."""
    if n_features >= _WIDE:
        used = np.unique(feature[~is_leaf]).astype(np.intp)
        if 0 < used.size <= n_features // 2:
            places = np.searchsorted(used, np.where(is_leaf, used[0], feature))
            return used, places.astype(np.uint64)
    return None, feature.astype(np.uint64)


def _list_rights(nodes: Tree) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the spans and the bits of all categories that go right."""
    if not nodes.split_type.any():
        return np.empty((0, 2), np.int64), np.empty(0, np.uint64)
    node = np.repeat(np.arange(nodes.n_nodes), nodes.category_counts)
    bits = np.zeros(nodes.n_nodes, np.int64)
    # Categories ascend, so that the last one of a node is the highest.
    some = nodes.category_counts > 0
    bits[some] = nodes.categories[nodes.category_starts[1:][some] - 1] + 1
    words = -(-bits // 64)
    first = np.cumsum(words) - words
    rights = np.zeros(int(words.sum()), np.uint64)
    category = nodes.categories.astype(np.uint64)
    bit = np.uint64(1) << (category & np.uint64(63))
    np.bitwise_or.at(rights, first[node] + (nodes.categories >> 6), bit)
    first[nodes.split_type == 0] = -1
    return np.stack([first, bits], axis=1), rights


#: The lower half of a node of a layout: its feature, and where the missing go.
_QUESTION = np.uint64((1 << 32) - 1)
_LEFT = np.uint64(32)
#: The code of a leaf, which none reaches.
_NEVER = MOST_CUTS + 1


@dataclass(frozen=True, slots=True)
class BinnedLayout:
    """The arrays that `hornbeam.kernels.coded.add_coded_trees` walks beside a layout's.

    Trees that follow one another make a run, as long as they ask of each feature for
    `MOST_CUTS` thresholds at most; each run has codes of its own.

    Parameters
    ----------
    runs
        (runs,) RUN_DTYPE.
    columns
        (columns,) CODED_DTYPE: the codes that each run compares. A feature has two
        columns where some splits send the missing left and some right.
    cuts
        The thresholds of all columns, each time after one that is not used, and before
        as many NaN as make a power of two.
    tops
        (trees, 2 ** TOP_LEVELS - 1) uint32: the splits of the first levels, each a
        column and a code. Below a leaf there is the same leaf.
    entries
        (trees, 2 ** TOP_LEVELS) uint32: the places in the layout where they lead.
    nodes
        (nodes,) uint64: the left child and the split of each place of the layout.
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
        """Return it for the trees of a layout, all of whose splits are by threshold.

        None if one tree asks for more thresholds of a feature than there are codes.
        """
        left = (nodes >> _LEFT).astype(np.intp)
        inner = np.flatnonzero(left != np.arange(nodes.size))
        splits = np.full(nodes.size, _NEVER, np.uint32)
        bounds = np.append(np.searchsorted(inner, roots[:, 0]), inner.size)
        pending, runs, columns, cuts = [(0, len(roots))], [], [], []
        n_columns = n_cuts = 0
        while pending:
            begin, end = pending.pop()
            asking = inner[bounds[begin] : bounds[end]]
            codes = _Codes.of(nodes[asking] & _QUESTION, thresholds[asking])
            if codes.counts.max(initial=0) > MOST_CUTS:
                if end == begin + 1:
                    return None
                middle = (begin + end) // 2
                pending += [(middle, end), (begin, middle)]
                continue
            splits[asking] = codes.splits
            columns.append(codes.columns(n_cuts))
            cuts.append(codes.padded_cuts())
            runs.append((begin, end, n_columns, n_columns + codes.counts.size))
            n_columns, n_cuts = runs[-1][3], n_cuts + cuts[-1].size
        return cls(
            np.array(runs, RUN_DTYPE),
            np.concatenate(columns),
            np.concatenate(cuts),
            *_top(roots, left, splits),
            (nodes >> _LEFT << _LEFT) | splits,
        )


@dataclass(frozen=True, slots=True)
class _Codes:
    """What splits ask: of which column, a number from 0, and for which of its cuts.

    Parameters
    ----------
    column, rank
        (splits,): the column of each, and the number of its threshold among the cuts.
    questions
        (columns,): the feature of each, and in the bit above the side of the missing.
    cuts
        The thresholds of each column, ascending, column after column.
    counts
        (columns,): how many.
    """

    column: NDArray[np.int64]
    rank: NDArray[np.int64]
    questions: NDArray[np.uint64]
    cuts: NDArray[Any]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, question: NDArray[np.uint64], threshold: NDArray[Any]) -> _Codes:
        order = np.lexsort((threshold, question))
        question, threshold = question[order], threshold[order]
        is_column = np.diff(question, prepend=~question[:1]) != 0
        is_cut = is_column | (np.diff(threshold, prepend=threshold[:1]) != 0)
        first = np.flatnonzero(is_column[is_cut])
        column, rank = np.empty((2, order.size), np.int64)
        column[order] = np.cumsum(is_column) - 1
        rank[order] = np.cumsum(is_cut) - 1
        cuts = threshold[is_cut]
        return cls(
            column,
            rank - first[column],
            question[is_column],
            cuts,
            np.diff(first, append=cuts.size),
        )

    @property
    def splits(self) -> NDArray[np.uint32]:
        """The splits as kernels read them: a code goes right that is above the cut."""
        return ((self.column << CODE_BITS) | (self.rank + 1)).astype(np.uint32)

    @property
    def steps(self) -> NDArray[np.int64]:
        """Steps of a search among the cuts of each column."""
        return np.ceil(np.log2(self.counts + 1.0)).astype(np.int64)

    def columns(self, first_cut: int) -> NDArray[np.void]:
        """Return the columns, whose cuts begin at this place."""
        columns = np.empty(self.counts.size, CODED_DTYPE)
        columns["feature"] = self.questions & FEATURE
        columns["steps"] = self.steps
        columns["first_cut"] = first_cut + self._starts()
        columns["missing_code"] = np.where(self.questions > FEATURE, MOST_CUTS, 0)
        return columns

    def _starts(self) -> NDArray[np.int64]:
        sizes = 1 << self.steps
        return np.cumsum(sizes) - sizes

    def padded_cuts(self) -> NDArray[Any]:
        """Return for each column a cut that is not used, its cuts, and NaN."""
        padded = np.full(int((1 << self.steps).sum()), np.nan, self.cuts.dtype)
        before = np.repeat(np.cumsum(self.counts) - self.counts, self.counts)
        places = np.repeat(self._starts() + 1, self.counts) - before
        padded[places + np.arange(self.cuts.size)] = self.cuts
        return padded


def _top(
    roots: NDArray[np.int32], left: NDArray[np.intp], splits: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the splits of the first levels of each tree, and where they lead."""
    n_trees, width = len(roots), 1 << TOP_LEVELS
    tops = np.full((n_trees, width - 1), _NEVER, np.uint32)
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
