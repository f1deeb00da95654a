"""Trees laid out for many rows, whose features become codes before trees see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.coded import CODE_BITS, MOST_CUTS, TOP_LEVELS
from hornbeam.kernels.layout import CODED_DTYPE, RUN_DTYPE
from hornbeam.kernels.predict import FEATURE

__all__ = ["CodedLayout"]

#: The lower half of a node of a layout: its feature, and where the missing go.
_QUESTION = np.uint64((1 << 32) - 1)
_LEFT = np.uint64(32)
#: The code of a leaf, which none reaches.
_NEVER = MOST_CUTS + 1


@dataclass(frozen=True, slots=True)
class CodedLayout:
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
    ) -> CodedLayout | None:
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
