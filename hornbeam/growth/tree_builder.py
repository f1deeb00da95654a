"""The nodes of a tree that is grown, and its pruning."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import GrownTree
from hornbeam.kernels.layout import SPLIT_DTYPE
from hornbeam.kernels.leaves import NodeColumns

__all__ = ["TreeBuilder", "categories_of", "prune"]


class TreeBuilder:
    """The nodes of a tree that is grown.

    Attributes
    ----------
    parent, left
        (nodes,) int32: -1 where there is none; the right child is ``left + 1``.
    splits
        (nodes,) `SPLIT_DTYPE`.
    origin
        (nodes,): number of a split node in the backend.
    sets
        (nodes, words) uint64: the categories that go right in categorical splits.
    n_nodes
        Number of nodes; the arrays may be longer.
    """

    def __init__(
        self,
        left: NDArray[np.int32],
        parent: NDArray[np.int32],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        origin: NDArray[np.intp],
        n_nodes: int,
    ) -> None:
        self.left, self.parent = left, parent
        self.splits, self.sets = splits, sets
        self.origin, self.n_nodes = origin, n_nodes

    @classmethod
    def of_root(cls) -> TreeBuilder:
        """Return a tree of the root alone."""
        return cls(
            np.full(127, -1, np.int32),
            np.full(127, -1, np.int32),
            np.zeros(127, SPLIT_DTYPE),
            np.zeros((127, 0), np.uint64),
            np.full(127, -1, np.intp),
            1,
        )

    @classmethod
    def of(cls, grown: GrownTree) -> TreeBuilder:
        """Return a tree that a backend has grown."""
        n_nodes = grown.left.size
        return cls(*grown[:4], np.arange(n_nodes), n_nodes)

    def split(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        origin: NDArray[np.intp] | None = None,
    ) -> NDArray[np.intp]:
        """Add two children to each node; return the left ones.

        `origin` are the numbers of the nodes in the backend; None: the same as here.
        """
        left = np.arange(self.n_nodes, self.n_nodes + 2 * nodes.size, 2)
        self.n_nodes += 2 * nodes.size
        while self.n_nodes > self.left.size:
            more = np.full(self.left.size, -1, np.int32)
            self.parent = np.concatenate([self.parent, more])
            self.left = np.concatenate([self.left, more])
            self.origin = np.concatenate([self.origin, more.astype(np.intp)])
            self.splits = np.concatenate([self.splits, np.zeros_like(self.splits)])
            self.sets = np.concatenate([self.sets, np.zeros_like(self.sets)])
        self.left[nodes] = left
        self.parent[left] = nodes
        self.parent[left + 1] = nodes
        self.splits[nodes] = splits
        self.origin[nodes] = nodes if origin is None else origin
        if self.sets.shape[1] < sets.shape[1]:
            self.sets = np.zeros((self.left.size, sets.shape[1]), np.uint64)
        self.sets[nodes] = sets
        return left

    def keep(self, nodes: NDArray[np.intp], is_leaf: NDArray[np.bool_]) -> TreeBuilder:
        """Return the tree of these nodes, ascending, some of which become leaves."""
        left, parent = self.left[nodes], self.parent[nodes]
        left = np.where(is_leaf, -1, np.searchsorted(nodes, left))
        parent = np.where(parent < 0, -1, np.searchsorted(nodes, parent))
        splits = self.splits[nodes]
        splits[is_leaf] = np.zeros(1, SPLIT_DTYPE)
        return TreeBuilder(
            left.astype(np.int32),
            parent.astype(np.int32),
            splits,
            self.sets[nodes],
            self.origin[nodes],
            nodes.size,
        )

    def leaves(self) -> NDArray[np.intp]:
        """Return the nodes without children, ascending."""
        return (self.left[: self.n_nodes] < 0).nonzero()[0]

    def rows(self) -> NDArray[np.float64]:
        """Return the number of rows in each node, if rows were counted."""
        inner = np.flatnonzero(self.left[: self.n_nodes] >= 0)
        left, splits = self.left[inner], self.splits[inner]
        rows = np.zeros(self.n_nodes)
        rows[inner] = splits["total_rows"]
        rows[left] = splits["left_rows"]
        rows[left + 1] = splits["total_rows"] - splits["left_rows"]
        return rows

    def grown(self, columns: NodeColumns, is_beyond: bool) -> GrownTree:
        """Return the tree with the columns that follow from the weights of its nodes.

        `is_beyond` says whether a leaf value is beyond float32.
        """
        size = self.n_nodes
        left, parent = self.left[:size].copy(), self.parent[:size].copy()
        splits, sets = self.splits[:size], self.sets[:size]
        return GrownTree(left, parent, splits, sets, columns, is_beyond)


def categories_of(grown: GrownTree) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the number of categories that go right at each node, and all these."""
    counts = np.zeros(grown.left.size, np.int64)
    if grown.sets.shape[1] == 0:
        return counts, np.empty(0, np.int32)
    nodes = grown.splits["is_categorical"].nonzero()[0]
    words = grown.sets[nodes].astype("<u8").view(np.uint8)
    bits = np.unpackbits(words, axis=1, bitorder="little")
    places, categories = bits.nonzero()
    counts[nodes] = np.bincount(places, minlength=nodes.size)
    return counts, categories.astype(np.int32)


def prune(tree: TreeBuilder, gamma: float) -> tuple[TreeBuilder, NDArray[np.intp]]:
    """Return the tree without splits above two leaves whose gain is below `gamma`.

    And, for each node of the given tree, the node of the returned tree that it is in.
    A node that becomes a leaf may make its parent the next one to be pruned
    (XGBoost's pruner; Chen and Guestrin 2016, section 2.2).
    """
    n_nodes = tree.n_nodes
    left, parent = tree.left[:n_nodes].tolist(), tree.parent[:n_nodes].tolist()
    gains = tree.splits["gain"][:n_nodes]
    is_leaf = [child < 0 for child in left]
    # A child has a higher number than its parent.
    for node in range(n_nodes - 1, -1, -1):
        child = left[node]
        if child >= 0 and is_leaf[child] and is_leaf[child + 1]:
            is_leaf[node] = bool(gains[node] < gamma)
    owners = np.zeros(n_nodes, np.intp)
    for node in range(1, n_nodes):
        above = owners[parent[node]]
        owners[node] = above if is_leaf[above] else node
    kept = np.unique(owners)
    return tree.keep(kept, np.array(is_leaf)[kept]), np.searchsorted(kept, owners)
