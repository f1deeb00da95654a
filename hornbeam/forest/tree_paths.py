"""The ways from roots to leaves, edge by edge, and how the rows share them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hornbeam.forest.layout import Layout
from hornbeam.forest.tree import Tree, climb, join
from hornbeam.kernels.layout import EDGE_DTYPE, WAYS_DTYPE
from hornbeam.kernels.predict import FEATURE

__all__ = ["TreePaths"]


@dataclass(frozen=True, slots=True)
class TreePaths:
    """The edges of laid out trees, each before those below it and left before right.

    Parameters
    ----------
    trees
        (trees,) WAYS_DTYPE: the edges of each tree.
    edges
        (edges,) EDGE_DTYPE.
    means
        (outputs, nodes), or (1, nodes) of trees of one output: what the leaves below
        each node of the layout are worth to a row of which nothing is known, which
        takes all edges in part, by the cover.
    """

    trees: NDArray[np.void]
    edges: NDArray[np.void]
    means: NDArray[np.float64]

    @classmethod
    def of(cls, trees: Sequence[Tree], layout: Layout) -> TreePaths:
        """Return the ways through `trees`, which are laid out in `layout`."""
        joined, starts = join(trees)
        roots, sizes = starts[:-1], np.diff(starts)
        offsets = np.repeat(roots, sizes)
        parent = np.where(joined.parent < 0, -1, joined.parent + offsets)
        _, level = climb(parent)
        # All edges of a level at once; each is known by the node that it ends in.
        order = np.argsort(level, kind="stable")
        ends = np.cumsum(np.bincount(level))
        levels = [order[begin:end] for begin, end in pairwise(ends)]

        edges = np.zeros(parent.size, EDGE_DTYPE)
        edges["parent"], edges["child"] = parent, np.arange(parent.size)
        edges["feature"] = (layout.nodes & FEATURE)[parent]
        edges["level"] = level
        edges["is_right"] = edges["child"] == joined.left[parent] + offsets + 1
        edges["is_leaf"] = joined.left < 0
        parts = _parts(joined.cover.astype(np.float64), parent)
        _share_out(edges, parts, levels)

        means = layout.by_output.astype(np.float64)
        below = np.ones(parent.size, np.int64)
        for nodes in reversed(levels):
            np.add.at(below, parent[nodes], below[nodes])
            for of_output in means:
                np.add.at(of_output, parent[nodes], parts[nodes] * of_output[nodes])
        ways = np.zeros(len(trees), WAYS_DTYPE)
        ways["end"] = np.cumsum(below[roots] - 1)
        ways["begin"] = ways["end"] - (below[roots] - 1)
        tree = np.repeat(np.arange(len(trees)), sizes)
        n_features = np.maximum(1, edges["features"])
        np.maximum.at(ways["points"], tree, (n_features + 1) // 2)
        ways["output"] = layout.roots[:, 2] if layout.values.ndim == 1 else -1

        place = np.zeros(parent.size, np.int64)
        place[roots] = ways["begin"] - 1
        for nodes in levels:
            passed = np.where(edges["is_right"][nodes] == 1, below[nodes - 1], 0)
            place[nodes] = place[parent[nodes]] + 1 + passed
        ordered = np.empty(int(ways["end"].max(initial=0)), EDGE_DTYPE)
        for nodes in levels:
            ordered[place[nodes]] = edges[nodes]
        return cls(ways, ordered, means)


def _share_out(
    edges: NDArray[np.void],
    parts: NDArray[np.float64],
    levels: Sequence[NDArray[np.intp]],
) -> None:
    """Write which features lead to each edge, and what share of the rows takes them."""
    parent, n_features = edges["parent"], edges["features"]
    twin = _same_above(parent, edges["feature"])
    edges["above"] = np.where(twin >= 0, edges["level"][twin], 0)
    edges["share"] = edges["share_above"] = 1.0
    for nodes in levels:
        is_first = twin[nodes] < 0
        shares = np.where(is_first, 1.0, edges["share"][twin[nodes]])
        edges["share_above"][nodes] = shares
        edges["share"][nodes] = parts[nodes] * shares
        n_features[nodes] = n_features[parent[nodes]] + is_first
        edges["bit"][nodes] = np.where(
            is_first, n_features[nodes] - 1, edges["bit"][twin[nodes]]
        )


def _parts(
    cover: NDArray[np.float64], parent: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return what part of the rows of its parent comes to each node, half of none."""
    whole = cover[parent]
    return np.divide(cover, whole, out=np.full(cover.size, 0.5), where=whole > 0)


def _same_above(
    parent: NDArray[np.int64], feature: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the end of the last edge above by the same feature as each; -1: none."""
    above = parent.copy()
    seeking = np.flatnonzero(parent >= 0)
    while seeking.size:
        edge = above[seeking]
        # No edge ends in a root.
        above[seeking[parent[edge] < 0]] = -1
        seeking = seeking[(parent[edge] >= 0) & (feature[edge] != feature[seeking])]
        above[seeking] = parent[above[seeking]]
    return above
