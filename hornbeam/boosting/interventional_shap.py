"""What the features contribute to margins against rows of a background."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.boosting.margins import Rows, add_layout, blocks
from hornbeam.data.floats import shared
from hornbeam.errors import DataError, ErrorCode
from hornbeam.forest.layout import Layout
from hornbeam.forest.tree_paths import TreePaths
from hornbeam.kernels.interventional_shap import (
    BITS_OF_WORD,
    ROWS_OF_WORD,
    explain_by_lists,
    explain_by_tables,
    list_background,
    weigh_background,
)
from hornbeam.kernels.team import Team

__all__ = [
    "Against",
    "contributions_against",
    "linear_contributions_against",
    "shares_of",
]

Floats = NDArray[np.float64]

#: Rows that go down a tree together, and where their background is listed.
_ROWS = 512
_ROWS_WITH_LISTS = 32
#: The most cells of the tables of one tree, and of trees that have them at a time.
_CELLS_OF_TREE = 1 << 22
_CELLS = 1 << 23
#: More make tables that are too large in any case.
_MOST_FEATURES = 24
#: The most bytes of lists of the background, at a time.
_BYTES_OF_LISTS = 1 << 25
#: Cells of work of one edge for a row.
_CELLS_OF_EDGE = 4
#: So many rows are reckoned with, however many there are, so that what is found of one
#: does not depend on those beside it.
_ROWS_TO_EXPLAIN = 300
#: Cells of work of an entry of a table for a part of a pattern, and of looking one up.
_CELLS_OF_PART = 9.0
_CELLS_OF_LOOK = 4.0
#: Cells of work at a leaf of listing a row of the background, of a row that looks for
#: those that it meets, and of each of them.
_CELLS_OF_LISTED = 20.0
_CELLS_OF_ROW = 160.0
_CELLS_OF_MEETING = 16.0


def shares_of(weights: Floats | None, n_rows: int) -> Floats:
    """Return the share of each row in the background, by its weight; the sum is 1."""
    if n_rows == 0:
        raise DataError(
            "the background has no rows to compare with; give it some rows, such as a "
            "sample of the training data",
            code=ErrorCode.EMPTY_DATA,
        )
    if weights is None:
        return np.full(n_rows, 1.0 / n_rows)
    total = weights.sum()
    if not total > 0.0:
        raise DataError(
            "the weights of the background are all 0; give some of its rows a weight, "
            "or none of them",
            code=ErrorCode.WEIGHTS_ALL_ZERO,
        )
    return weights / total


def contributions_against(
    team: Team,
    data: Rows,
    background: Rows,
    shares: Floats,
    layout: Layout,
    ways: TreePaths,
    margins: Floats,
) -> Floats:
    """Return contributions, (rows, outputs, features + 1).

    The last is the mean of what the trees predict of the background, on top of the
    margins that they start from, (rows, outputs).

    Parameters
    ----------
    shares
        The share of each row in the background, of sum 1.
    """
    n_rows, outputs = margins.shape
    against = Against(team, data, background, shares, layout, ways, outputs)
    against.add_trees()
    found = np.zeros((n_rows, outputs, data.n_features + 1))
    names = slice(data.n_features) if layout.features is None else layout.features
    found[:, :, names] = against.found
    means = np.zeros((background.n_rows, outputs))
    add_layout(team, background, layout, means)
    found[:, :, -1] = margins + _mean(means, shares)
    return found


def linear_contributions_against(
    team: Team,
    data: Rows,
    background: Rows,
    shares: Floats,
    weights: NDArray[np.float32],
    kind: Any,
    margins: Floats,
) -> Floats:
    """Return the same of a linear model of features of type `kind`.

    A feature contributes its weight times what its value is above the mean of the
    background, where the missing count as 0.
    """
    n_rows, outputs = margins.shape
    mean = _mean(_linear_values(team, background, kind), shares)
    values = _linear_values(team, data, kind)
    found = np.empty((n_rows, outputs, data.n_features + 1))
    for k in range(outputs):
        found[:, k, :-1] = (values - mean) * weights[:-1, k]
    found[:, :, -1] = margins + weights[-1] + (mean[:, None] * weights[:-1]).sum(axis=0)
    return found


def _linear_values(team: Team, data: Rows, kind: Any) -> Floats:
    values = np.empty((data.n_rows, data.n_features))
    for start, block, _ in blocks(team, data, np.dtype(kind), None, 0):
        values[start : start + len(block)] = np.where(np.isnan(block), 0.0, block)
    return values


def _mean(values: Floats, shares: Floats) -> Floats:
    """Return the means of columns; by no library whose sums depend on threads."""
    mean: Floats = (values.T * shares).sum(axis=1)
    return mean


class Against:
    """The contributions of rows against others, to which trees are added.

    Parameters
    ----------
    data, background, shares, layout, ways
        As for `contributions_against`.
    outputs
        Of the trees.
    """

    def __init__(
        self,
        team: Team,
        data: Rows,
        background: Rows,
        shares: Floats,
        layout: Layout,
        ways: TreePaths,
        outputs: int,
    ) -> None:
        self._team, self._shares, self._ways = team, shares, ways
        self._rows, self._others = _whole(data, layout), _whole(background, layout)
        self._nodes = (
            layout.nodes,
            layout.thresholds,
            layout.category_spans,
            layout.category_bits,
        )
        self._values = layout.by_output
        self._levels = int(layout.roots[:, 1].max(initial=0)) + 1
        self._weights = _weights(self._levels)
        # A table has a row for each feature, with a cell for each pattern.
        edges = ways.edges
        features = np.where(edges["is_leaf"], edges["features"], 0)
        cells = features << np.minimum(features, _MOST_FEATURES)
        self._starts = np.append(0, np.cumsum(cells))
        shape = outputs, self._rows.shape[1], len(self._rows)
        #: (outputs, features of the layout, rows).
        self._by_tables = np.zeros(shape)
        #: (outputs, rows, features of the layout).
        self._by_lists = np.zeros(shape).transpose(0, 2, 1).copy()

    @property
    def found(self) -> Floats:
        """What has been added up, (rows, outputs, features of the layout)."""
        return self._by_tables.transpose(2, 0, 1) + self._by_lists.transpose(1, 0, 2)

    def add_trees(self) -> None:
        """Add all trees, each by what is less work, tables or lists."""
        trees, starts = self._ways.trees, self._starts
        sizes = starts[trees["end"]] - starts[trees["begin"]]
        has_tables = (sizes <= _CELLS_OF_TREE) & self._favours_tables()
        for begin, end in _runs(has_tables):
            if has_tables[begin]:
                self.add_by_tables(trees[begin:end])
            else:
                self.add_by_lists(trees[begin:end])

    def _favours_tables(self) -> NDArray[np.bool_]:
        """Return which trees are less work by tables, (trees,).

        Of n features a row takes about half. So its pattern has 1.5**n parts, each an
        entry for every feature, and of others it meets 0.75**n.
        """
        trees, edges = self._ways.trees, self._ways.edges
        others = len(self._others)
        n = np.minimum(edges["features"], _MOST_FEATURES)
        # The patterns of all rows have no more parts than all patterns have.
        parts = _CELLS_OF_PART * np.minimum(others * 1.5**n, 3.0**n)
        tables = n * (parts + _CELLS_OF_LOOK * _ROWS_TO_EXPLAIN)
        row = _CELLS_OF_ROW + _CELLS_OF_MEETING * others * 0.75**n
        lists = _ROWS_TO_EXPLAIN * row + _CELLS_OF_LISTED * others
        saved = (lists - tables) * edges["is_leaf"]
        tree = np.repeat(np.arange(len(trees)), trees["end"] - trees["begin"])
        favours: NDArray[np.bool_] = np.bincount(tree, saved, len(trees)) >= 0.0
        return favours

    def add_by_tables(self, trees: NDArray[np.void]) -> None:
        """Add some of the trees, each with tables of few enough cells, by these."""
        starts = self._starts
        part = np.cumsum(starts[trees["end"]] - starts[trees["begin"]]) // _CELLS
        for begin, end in _runs(part):
            self._add_tables(trees[begin:end], starts)

    def add_by_lists(self, trees: NDArray[np.void]) -> None:
        """Add some of the trees by lists of the background."""
        edges = self._ways.edges
        sizes = np.stack([edges["is_leaf"], edges["is_leaf"] * edges["features"]])
        places = np.zeros((len(edges) + 1, 2), np.int64)
        np.cumsum(sizes.T, axis=0, out=places[1:])
        firsts, ends = places[trees["begin"]], places[trees["end"]]
        words = -(-int(edges["features"].max(initial=1)) // BITS_OF_WORD)
        bytes_of_row = (ends - firsts) @ [4.0 * words, 8.0 / ROWS_OF_WORD]
        together = int(_BYTES_OF_LISTS / max(1.0, bytes_of_row.max())) // _ROWS * _ROWS
        together = min(max(together, _ROWS), len(self._others))
        for begin, end in _runs(np.cumsum(bytes_of_row * together) // _BYTES_OF_LISTS):
            first = firsts[begin]
            for row in range(0, len(self._others), together):
                self._add_lists(
                    trees[begin:end],
                    firsts[begin:end] - first,
                    (ends[end - 1] - first).tolist(),
                    words,
                    slice(row, row + together),
                )

    def _add_tables(self, trees: NDArray[np.void], starts: NDArray[np.int64]) -> None:
        edges, team = self._ways.edges, self._team
        first, last = trees["begin"][0], trees["end"][-1]
        starts = starts - starts[first]
        n_edges = int(last - first)
        tables = np.empty(int(starts[last]))
        patterns = np.where(edges["is_leaf"], 1 << edges["features"], 0)
        of_tree = np.append(0, np.cumsum(patterns))
        most = int((of_tree[trees["end"]] - of_tree[trees["begin"]]).max())
        width = self._rows.shape[1]

        cells = _CELLS_OF_EDGE * n_edges
        members = team.members_for(cells * len(self._others) + tables.size)
        team.run(
            weigh_background,
            members,
            self._others,
            self._shares,
            *self._nodes,
            trees,
            edges,
            starts,
            self._weights,
            np.empty((members, width, _ROWS), self._others.dtype),
            np.empty((members, self._levels, 1, _ROWS), np.uint32),
            np.empty((members, most)),
            tables,
        )
        members = team.members_for(cells * len(self._rows))
        team.run(
            explain_by_tables,
            members,
            self._rows,
            *self._nodes,
            self._values,
            trees,
            edges,
            starts,
            tables,
            np.empty((members, width, _ROWS), self._rows.dtype),
            np.empty((members, self._levels, 1, _ROWS), np.uint32),
            np.empty((members, self._levels), np.int64),
            self._by_tables,
        )

    def _add_lists(
        self,
        trees: NDArray[np.void],
        firsts: NDArray[np.int64],
        sizes: Sequence[int],
        words: int,
        these: slice,
    ) -> None:
        """Add trees against these rows of the background.

        They have so many leaves, and so many features of leaves, before each and in
        all.
        """
        team, edges, others = self._team, self._ways.edges, self._others[these]
        width, levels = self._rows.shape[1], self._levels
        lacks = np.empty((sizes[0], words, len(others)), np.uint32)
        takers = np.empty((sizes[1], -(-len(others) // ROWS_OF_WORD)), np.uint64)
        cells = _CELLS_OF_EDGE * int(trees["end"][-1] - trees["begin"][0])
        members = team.members_for((cells + sizes[1]) * len(others))
        team.run(
            list_background,
            members,
            others,
            *self._nodes,
            trees,
            edges,
            firsts,
            np.empty((members, width, _ROWS), others.dtype),
            np.empty((members, levels, words, _ROWS), np.uint32),
            lacks,
            takers,
        )
        members = team.members_for((cells + takers.size) * len(self._rows))
        team.run(
            explain_by_lists,
            members,
            self._rows,
            self._shares[these],
            *self._nodes,
            self._values,
            trees,
            edges,
            lacks,
            takers,
            self._weights,
            np.empty((members, width, _ROWS_WITH_LISTS), self._rows.dtype),
            np.empty((members, levels, words, _ROWS_WITH_LISTS), np.uint32),
            np.empty((members, levels), np.int64),
            np.empty((members, takers.shape[1]), np.uint64),
            np.empty((members, levels)),
            self._by_lists,
        )


def _runs(numbers: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each run of equal numbers."""
    ends = np.flatnonzero(np.diff(numbers)) + 1
    if numbers.size > 0:
        yield from pairwise([0, *ends.tolist(), numbers.size])


def _whole(data: Rows, layout: Layout) -> NDArray[Any]:
    """Return all rows as the trees read them."""
    rows = data.rows(0, data.n_rows, layout.features)
    return shared(np.ascontiguousarray(rows, layout.thresholds.dtype))


def _weights(levels: int) -> Floats:
    """Return (a - 1)! b! / (a + b)! for all a and b of fewer levels; 0 where a is."""
    weights = np.zeros((levels, levels))
    for a, b in product(range(1, levels), range(levels)):
        weights[a, b] = 1.0 / (a * math.comb(a + b, a))
    return weights
