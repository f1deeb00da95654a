"""Cutting off what gains too little, from the leaves upwards."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.growth.tree_builder import TreeBuilder

__all__ = ["prune"]


def prune(sapling: TreeBuilder, gamma: float) -> tuple[TreeBuilder, NDArray[np.intp]]:
    """Return a tree without splits above two leaves that gain less than `gamma`.

    And, for each node of the tree before, the node that is now where it was, or above
    where it was. What becomes a leaf may make the node above it the next one to be cut
    (XGBoost's pruner; Chen and Guestrin 2016, section 2.2).
    """
    n_nodes = sapling.n_nodes
    left, parent = sapling.left[:n_nodes].tolist(), sapling.parent[:n_nodes].tolist()
    gains = sapling.splits["gain"][:n_nodes]
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
    return sapling.keep(kept, np.array(is_leaf)[kept]), np.searchsorted(kept, owners)
