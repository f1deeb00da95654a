"""The paths from roots to leaves as edges with cover fractions, for TreeSHAP."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.forest.layout import Layout
from hornbeam.forest.tree import (
    Tree,
    concatenate_trees,
    roots_and_depths,
    with_equal_leaves,
)
from hornbeam.kernels.layout import EDGE_DTYPE, PATHS_DTYPE
from hornbeam.kernels.predict import FEATURE

__all__ = ["TreePaths"]


class TreePaths(NamedTuple):
    """The edges of trees in depth-first order, left before right.

    Parameters
    ----------
    trees
        (trees,) PATHS_DTYPE: the range of edges of each tree.
    edges
        (edges,) EDGE_DTYPE.
    means
        (outputs, nodes), or (1, nodes) of scalar leaves: the mean value of the leaves
        below each node of the layout, weighted by cover. It is the expected value of a
        row whose features are all unknown.
    """

    trees: NDArray[np.void]
    edges: NDArray[np.void]
    means: NDArray[np.float64]

    @classmethod
    def of(cls, trees: Sequence[Tree], layout: Layout) -> TreePaths:
        """Return the paths of `trees`, whose nodes `layout` contains."""
        outputs = layout.roots[:, 2].tolist()
        joined, starts = concatenate_trees(with_equal_leaves(trees, outputs))
        roots, sizes = starts[:-1], np.diff(starts)
        offsets = np.repeat(roots, sizes)
        parent = np.where(joined.parent < 0, -1, joined.parent + offsets)
        _, level = roots_and_depths(parent)
        # Edges are handled level by level; the child node identifies each edge.
        order = np.argsort(level, kind="stable")
        ends = np.cumsum(np.bincount(level))
        levels = [order[begin:end] for begin, end in pairwise(ends)]

        edges = np.zeros(parent.size, EDGE_DTYPE)
        edges["parent"], edges["child"] = parent, np.arange(parent.size)
        edges["feature"] = (layout.nodes & FEATURE)[parent]
        edges["level"] = level
        edges["is_right"] = edges["child"] == joined.left[parent] + offsets + 1
        edges["is_leaf"] = joined.left < 0
        fractions = _cover_fractions(joined.cover.astype(np.float64), parent)
        _write_fractions(edges, fractions, levels)

        means = layout.by_output.astype(np.float64)
        below = np.ones(parent.size, np.int64)
        for nodes in reversed(levels):
            np.add.at(below, parent[nodes], below[nodes])
            for output_means in means:
                np.add.at(
                    output_means, parent[nodes], fractions[nodes] * output_means[nodes]
                )
        paths = np.zeros(len(trees), PATHS_DTYPE)
        paths["end"] = np.cumsum(below[roots] - 1)
        paths["begin"] = paths["end"] - (below[roots] - 1)
        tree = np.repeat(np.arange(len(trees)), sizes)
        n_features = np.maximum(1, edges["features"])
        np.maximum.at(paths["points"], tree, (n_features + 1) // 2)
        paths["output"] = layout.roots[:, 2] if layout.values.ndim == 1 else -1

        place = np.zeros(parent.size, np.int64)
        place[roots] = paths["begin"] - 1
        for nodes in levels:
            passed = np.where(edges["is_right"][nodes] == 1, below[nodes - 1], 0)
            place[nodes] = place[parent[nodes]] + 1 + passed
        ordered = np.empty(int(paths["end"].max(initial=0)), EDGE_DTYPE)
        for nodes in levels:
            ordered[place[nodes]] = edges[nodes]
        return cls(paths, ordered, means)


def _write_fractions(
    edges: NDArray[np.void],
    fractions: NDArray[np.float64],
    levels: Sequence[NDArray[np.intp]],
) -> None:
    """Write the number of distinct features and the cover fractions of each edge."""
    parent, n_features = edges["parent"], edges["features"]
    previous = _previous_edge(parent, edges["feature"])
    edges["above"] = np.where(previous >= 0, edges["level"][previous], 0)
    edges["share"] = edges["share_above"] = 1.0
    for nodes in levels:
        is_first = previous[nodes] < 0
        shares = np.where(is_first, 1.0, edges["share"][previous[nodes]])
        edges["share_above"][nodes] = shares
        edges["share"][nodes] = fractions[nodes] * shares
        n_features[nodes] = n_features[parent[nodes]] + is_first
        edges["bit"][nodes] = np.where(
            is_first, n_features[nodes] - 1, edges["bit"][previous[nodes]]
        )


def _cover_fractions(
    cover: NDArray[np.float64], parent: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return each node's share of its parent's cover; one half if that is 0."""
    whole = cover[parent]
    return np.divide(cover, whole, out=np.full(cover.size, 0.5), where=whole > 0)


def _previous_edge(
    parent: NDArray[np.int64], feature: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the nearest edge above with the same feature, by its child; -1: none."""
    above = parent.copy()
    pending = np.flatnonzero(parent >= 0)
    while pending.size:
        edge = above[pending]
        # A root is not the child of any edge.
        above[pending[parent[edge] < 0]] = -1
        pending = pending[(parent[edge] >= 0) & (feature[edge] != feature[pending])]
        above[pending] = parent[above[pending]]
    return above
