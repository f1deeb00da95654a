"""Interventional SHAP values: absent features take the values of background rows.

A tree uses lookup tables or lists of background rows, whichever is estimated to be
faster: tables suit shallow trees and lists deep ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.boosting.linear_shap import add_terms_against, paths_of_terms
from hornbeam.boosting.margins import Rows, add_layout, blocks, check_values
from hornbeam.data.floats import shared
from hornbeam.errors import DataError, ErrorCode
from hornbeam.forest.layout import Layout
from hornbeam.forest.tree_paths import TreePaths
from hornbeam.kernels.interventional_shap import (
    BITS_OF_WORD,
    ROWS_OF_WORD,
    BackgroundLists,
    LeafTables,
    ListScratch,
    PathScratch,
    explain_by_lists,
    explain_by_tables,
    list_background,
    weigh_background,
)
from hornbeam.kernels.team import Team

__all__ = [
    "InterventionalShap",
    "background_weights",
    "interventional_shap_values",
    "linear_interventional_shap_values",
]

Floats = NDArray[np.float64]

#: Rows of a block, with tables and with lists.
_ROWS = 512
_ROWS_WITH_LISTS = 32
#: The maximum number of entries in the tables of one tree, and of trees together.
_ENTRIES_OF_TREE = 1 << 22
_ENTRIES = 1 << 23
#: More features make tables too large in any case.
_MOST_FEATURES = 24
#: The maximum number of bytes of the lists of background rows.
_BYTES_OF_LISTS = 1 << 25
#: The cost of one edge for a row, in histogram bins.
_COST_OF_EDGE = 4
#: Costs assume this number of rows, so that the values of a row do not depend on the
#: other rows.
_ROWS_TO_EXPLAIN = 300
#: The cost of computing one part of a table entry, and of one lookup.
_COST_OF_SUBSET = 9.0
_COST_OF_LOOKUP = 4.0
#: The cost, at a leaf, of listing a background row, of a row that searches the list,
#: and of each match.
_COST_OF_LISTED = 20.0
_COST_OF_ROW = 160.0
_COST_OF_MATCH = 16.0


def background_weights(weights: Floats | None, n_rows: int) -> Floats:
    """Return the normalised weights of background rows, (rows,), whose sum is 1."""
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


def interventional_shap_values(
    team: Team,
    data: Rows,
    background: Rows,
    shares: Floats,
    layout: Layout,
    paths: TreePaths,
    margins: Floats,
) -> Floats:
    """Return interventional SHAP values, (rows, outputs, features + 1).

    The last is the mean prediction of the trees on the background, plus the initial
    `margins`, (rows, outputs).

    Parameters
    ----------
    shares
        The normalised weights of the background rows.
    """
    n_rows, outputs = margins.shape
    against = InterventionalShap(team, data, background, shares, layout, paths, outputs)
    against.add_trees()
    values = against.found
    if layout.terms is not None:
        check_values(data)
        check_values(background)
        against.add_terms(layout, values)
    found = np.zeros((n_rows, outputs, data.n_features + 1))
    names = slice(data.n_features) if layout.features is None else layout.features
    found[:, :, names] = values
    means = np.zeros((background.n_rows, outputs))
    add_layout(team, background, layout, means)
    found[:, :, -1] = margins + _mean(means, shares)
    return found


def linear_interventional_shap_values(
    team: Team,
    data: Rows,
    background: Rows,
    shares: Floats,
    weights: NDArray[np.float32],
    kind: Any,
    margins: Floats,
) -> Floats:
    """Return the interventional SHAP values of a linear model.

    The value of a feature is its weight times the difference between its value and
    the mean of the background; missing values count as 0. `kind` is the type of
    features.
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
    """Return weighted means of columns, without BLAS, whose sums depend on threads."""
    mean: Floats = (values.T * shares).sum(axis=1)
    return mean


class InterventionalShap:
    """Sums the interventional SHAP values of trees.

    Parameters
    ----------
    data, background, shares, layout, paths
        As for `interventional_shap_values`.
    outputs
        The number of outputs of the trees.
    """

    def __init__(
        self,
        team: Team,
        data: Rows,
        background: Rows,
        shares: Floats,
        layout: Layout,
        paths: TreePaths,
        outputs: int,
    ) -> None:
        self._team, self._shares, self._paths = team, shares, paths
        self._rows, self._others = _whole(data, layout), _whole(background, layout)
        self._packed = layout.double_packed
        self._values = layout.by_output
        self._levels = int(layout.roots[:, 1].max(initial=0)) + 1
        self._weights = _weights(self._levels)
        # A table has a row for each feature, with a cell for each pattern.
        edges = paths.edges
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
        """The sums, (rows, outputs, features of the layout)."""
        return self._by_tables.transpose(2, 0, 1) + self._by_lists.transpose(1, 0, 2)

    def add_trees(self) -> None:
        """Add all trees, each by the cheaper of tables and lists."""
        trees, starts = self._paths.trees, self._starts
        sizes = starts[trees["end"]] - starts[trees["begin"]]
        has_tables = (sizes <= _ENTRIES_OF_TREE) & self._favours_tables()
        for begin, end in _runs(has_tables):
            if has_tables[begin]:
                self.add_by_tables(trees[begin:end])
            else:
                self.add_by_lists(trees[begin:end])

    def _favours_tables(self) -> NDArray[np.bool_]:
        """Return which trees are cheaper with tables, (trees,).

        A row satisfies the conditions of about half of the n features on a path. So its
        pattern has 1.5**n subsets, each an entry for every feature, and a share of
        0.75**n of the background rows matches.
        """
        trees, edges = self._paths.trees, self._paths.edges
        others = len(self._others)
        n = np.minimum(edges["features"], _MOST_FEATURES)
        # The patterns of all rows have at most as many subsets as all patterns have.
        parts = _COST_OF_SUBSET * np.minimum(others * 1.5**n, 3.0**n)
        tables = n * (parts + _COST_OF_LOOKUP * _ROWS_TO_EXPLAIN)
        row = _COST_OF_ROW + _COST_OF_MATCH * others * 0.75**n
        lists = _ROWS_TO_EXPLAIN * row + _COST_OF_LISTED * others
        saved = (lists - tables) * edges["is_leaf"]
        tree = np.repeat(np.arange(len(trees)), trees["end"] - trees["begin"])
        favours: NDArray[np.bool_] = np.bincount(tree, saved, len(trees)) >= 0.0
        return favours

    def add_terms(self, layout: Layout, found: Floats) -> None:
        """Add the terms of linear leaves to (rows, outputs, features of the layout)."""
        paths = paths_of_terms(layout, self._paths)
        weights = _weights(paths.features.shape[1] + 2)
        arrays = self._rows, self._others, self._shares
        add_terms_against(self._team, *arrays, layout, paths, weights, found)

    def add_by_tables(self, trees: NDArray[np.void]) -> None:
        """Add some of the trees by tables, which must be small enough."""
        starts = self._starts
        part = np.cumsum(starts[trees["end"]] - starts[trees["begin"]]) // _ENTRIES
        for begin, end in _runs(part):
            self._add_tables(trees[begin:end], starts)

    def add_by_lists(self, trees: NDArray[np.void]) -> None:
        """Add some of the trees by lists of background rows."""
        edges = self._paths.edges
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
        edges, team = self._paths.edges, self._team
        first, last = trees["begin"][0], trees["end"][-1]
        starts = starts - starts[first]
        n_edges = int(last - first)
        tables = LeafTables(starts, np.empty(int(starts[last])))
        paths = self._paths._replace(trees=trees)
        patterns = np.where(edges["is_leaf"], 1 << edges["features"], 0)
        of_tree = np.append(0, np.cumsum(patterns))
        most = int((of_tree[trees["end"]] - of_tree[trees["begin"]]).max())
        cells = _COST_OF_EDGE * n_edges
        threads = team.threads_for(cells * len(self._others) + tables.values.size)
        team.run(
            weigh_background,
            threads,
            self._others,
            self._shares,
            self._packed,
            paths,
            self._weights,
            self._scratch(threads, 1, _ROWS),
            np.empty((threads, most)),
            tables,
        )
        threads = team.threads_for(cells * len(self._rows))
        team.run(
            explain_by_tables,
            threads,
            self._rows,
            self._packed,
            self._values,
            paths,
            tables,
            self._scratch(threads, 1, _ROWS),
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
        """Add trees against the background rows `these`.

        `firsts` counts the leaves, and the features of leaves, before each tree, and
        `sizes` those of all trees.
        """
        team, others = self._team, self._others[these]
        paths = self._paths._replace(trees=trees)
        lacks = np.empty((sizes[0], words, len(others)), np.uint32)
        takers = np.empty((sizes[1], -(-len(others) // ROWS_OF_WORD)), np.uint64)
        lists = BackgroundLists(self._shares[these], lacks, takers)
        cells = _COST_OF_EDGE * int(trees["end"][-1] - trees["begin"][0])
        threads = team.threads_for((cells + sizes[1]) * len(others))
        team.run(
            list_background,
            threads,
            others,
            self._packed,
            paths,
            firsts,
            self._scratch(threads, words, _ROWS),
            lists,
        )
        threads = team.threads_for((cells + takers.size) * len(self._rows))
        team.run(
            explain_by_lists,
            threads,
            self._rows,
            self._packed,
            self._values,
            paths,
            lists,
            self._weights,
            ListScratch(
                self._scratch(threads, words, _ROWS_WITH_LISTS),
                np.empty((threads, takers.shape[1]), np.uint64),
                np.empty((threads, self._levels)),
            ),
            self._by_lists,
        )

    def _scratch(self, threads: int, words: int, rows: int) -> PathScratch:
        """Return scratch arrays for so many words of bits and rows at once."""
        levels, width = self._levels, self._rows.shape[1]
        return PathScratch(
            np.empty((threads, width, rows)),
            np.empty((threads, levels, words, rows), np.uint32),
            np.empty((threads, levels), np.int64),
        )


def _runs(numbers: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each run of equal numbers."""
    ends = np.flatnonzero(np.diff(numbers)) + 1
    if numbers.size > 0:
        yield from pairwise([0, *ends.tolist(), numbers.size])


def _whole(data: Rows, layout: Layout) -> Floats:
    """Return all rows as float64 numbers of the type and features of the layout."""
    rows = data.rows(0, data.n_rows, layout.features)
    typed = rows.astype(layout.thresholds.dtype, copy=False)
    return shared(np.ascontiguousarray(typed, np.float64))


def _weights(levels: int) -> Floats:
    """Return (a - 1)! b! / (a + b)! for all a and b of fewer levels; 0 where a is."""
    weights = np.zeros((levels, levels))
    for a, b in product(range(1, levels), range(levels)):
        weights[a, b] = 1.0 / (a * math.comb(a + b, a))
    return weights
