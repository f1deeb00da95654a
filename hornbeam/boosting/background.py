"""What the features contribute to margins against rows of a background."""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.boosting.prediction import Rows, add_layout, blocks
from hornbeam.data.floats import shared
from hornbeam.errors import DataError
from hornbeam.forest.layout import Layout
from hornbeam.forest.ways import Ways
from hornbeam.kernels.background import (
    explain_by_tables,
    explain_pairs,
    weigh_background,
)
from hornbeam.kernels.team import Team

__all__ = ["contributions_against", "linear_contributions_against", "shares_of"]

Floats = NDArray[np.float64]

#: Rows that go down a tree together.
_ROWS = 512
#: The most cells of the tables of one tree, and of trees that have them at a time.
_CELLS_OF_TREE = 1 << 22
_CELLS = 1 << 23
#: More make tables that are too large in any case.
_MOST_FEATURES = 24
#: Cells of work of one edge for a row, and of one step of two rows.
_CELLS_OF_EDGE = 4
_CELLS_OF_STEP = 16


def shares_of(weights: Floats | None, n_rows: int) -> Floats:
    """Return the share of each row in the background, by its weight; the sum is 1."""
    if n_rows == 0:
        raise DataError(
            "the background has no rows to compare with; give it some rows, such as a "
            "sample of the training data"
        )
    if weights is None:
        return np.full(n_rows, 1.0 / n_rows)
    total = weights.sum()
    if not total > 0.0:
        raise DataError(
            "the weights of the background are all 0; give some of its rows a weight, "
            "or none of them"
        )
    return weights / total


def contributions_against(
    team: Team,
    data: Rows,
    background: Rows,
    shares: Floats,
    layout: Layout,
    ways: Ways,
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
    against = _Against(team, data, background, shares, layout, ways, outputs)
    against.add_trees()
    found = np.zeros((n_rows, outputs, data.n_features + 1))
    names = slice(data.n_features) if layout.features is None else layout.features
    found[:, :, names] = against.found.transpose(2, 0, 1)
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


class _Against:
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
        ways: Ways,
        outputs: int,
    ) -> None:
        self._team, self._shares, self._ways = team, shares, ways
        self._rows, self._others = _whole(data, layout), _whole(background, layout)
        self._roots = layout.roots
        self._nodes = layout.nodes, layout.thresholds, layout.spans, layout.rights
        self._values = np.ascontiguousarray(
            layout.values.reshape(layout.nodes.size, -1).T
        )
        self._levels = int(layout.roots[:, 1].max(initial=0)) + 1
        self._weights = _weights(self._levels)
        #: (outputs, features of the layout, rows).
        self.found = np.zeros((outputs, self._rows.shape[1], len(self._rows)))

    def add_trees(self) -> None:
        """Add all trees, by tables where they are small, else by pairs of rows."""
        trees, edges = self._ways.trees, self._ways.edges
        # A table has a row for each feature, with a cell for each pattern.
        features = np.where(edges["is_leaf"], edges["features"], 0)
        cells = features << np.minimum(features, _MOST_FEATURES)
        starts = np.append(0, np.cumsum(cells))
        sizes = starts[trees["end"]] - starts[trees["begin"]]
        has_tables = sizes <= _CELLS_OF_TREE
        part = np.cumsum(np.where(has_tables, sizes, 0)) // _CELLS
        changes = (np.diff(part) != 0) | (np.diff(has_tables) != 0)
        bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(trees)]
        for begin, end in pairwise(bounds):
            if begin < end and has_tables[begin]:
                self._add_by_tables(trees[begin:end], starts)
            elif begin < end:
                self._add_by_pairs(self._roots[begin:end])

    def _add_by_tables(
        self, trees: NDArray[np.void], starts: NDArray[np.int64]
    ) -> None:
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
            np.empty((members, self._levels, _ROWS), np.uint32),
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
            np.empty((members, self._levels, _ROWS), np.uint32),
            np.empty((members, self._levels), np.int64),
            self.found,
        )

    def _add_by_pairs(self, roots: NDArray[np.int32]) -> None:
        team = self._team
        pairs = len(self._rows) * len(self._others)
        members = team.members_for(_CELLS_OF_STEP * pairs * int(roots[:, 1].sum()))
        team.run(
            explain_pairs,
            members,
            self._rows,
            self._others,
            self._shares,
            roots,
            *self._nodes,
            self._values,
            self._weights,
            np.empty((members, self._levels, 3), np.int64),
            np.empty((members, self._levels), np.int64),
            np.empty((members, self._rows.shape[1]), np.int64),
            self.found,
        )


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
