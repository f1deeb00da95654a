"""One decision tree as arrays, with an entry for each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["Tree", "climb", "cut_off", "join", "split"]


@dataclass(slots=True, eq=False)
class Tree:
    """The nodes of one tree. Node 0 is the root.

    A row goes left where ``x[feature] < threshold``, and where the feature is missing
    and ``default_left`` is 1. At a split by category it goes right where the feature,
    its fraction dropped, is one of the node's categories. The right child always
    follows the left one, as XGBoost takes it for granted. A node that pruning has cut
    off keeps its number: it is a node other than the root without parent and children.

    Parameters
    ----------
    left, right
        Children; -1 at leaves.
    parent
        Parent; -1 at the root.
    feature, threshold, default_left
        The split; 0, NaN and 0 at leaves. Splits by category have the threshold NaN.
    split_type
        1 at splits by category, else 0.
    category_counts
        (nodes,) int64: how many categories go right; 0 at other nodes.
    categories
        Those categories, ascending, node after node; int32.
    value
        What a leaf adds to the score, learning rate included; 0 at internal nodes.
        (nodes,), or (nodes, outputs) of a tree of all outputs, and so is `weight`.
    gain
        Loss that the split saves; 0 at leaves.
    cover
        Sum of the hessians of the rows that came here, over all outputs of the tree.
    weight
        The node's own best value, before the learning rate (XGBoost's `base_weights`).
    """

    left: NDArray[np.int32]
    right: NDArray[np.int32]
    parent: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    default_left: NDArray[np.uint8]
    split_type: NDArray[np.uint8]
    category_counts: NDArray[np.int64]
    categories: NDArray[np.int32]
    value: NDArray[np.float32]
    gain: NDArray[np.float32]
    cover: NDArray[np.float32]
    weight: NDArray[np.float32]

    @property
    def n_nodes(self) -> int:
        return self.left.size

    @property
    def leaf_size(self) -> int:
        """Values of a leaf: 1, or one for each output."""
        return 1 if self.value.ndim == 1 else self.value.shape[1]

    @property
    def leaf_mask(self) -> NDArray[np.bool_]:
        """True at leaves; False at internal nodes and at nodes that were cut off."""
        return (self.left < 0) & ~cut_off(self, np.zeros(1, np.int64))

    @property
    def n_leaves(self) -> int:
        return int(np.count_nonzero(self.leaf_mask))

    @property
    def category_starts(self) -> NDArray[np.int64]:
        """Where each node's categories begin, and the number of all: (nodes + 1,)."""
        return np.concatenate([[0], np.cumsum(self.category_counts)])

    def depth(self) -> int:
        """Return the number of splits on the longest way to a leaf."""
        _, steps = climb(self.parent)
        return int(steps.max())


_DTYPES = {
    "left": np.int32,
    "right": np.int32,
    "parent": np.int32,
    "feature": np.int32,
    "threshold": np.float64,
    "default_left": np.uint8,
    "split_type": np.uint8,
    "category_counts": np.int64,
    "categories": np.int32,
    "value": np.float32,
    "gain": np.float32,
    "cover": np.float32,
    "weight": np.float32,
}


def join(trees: Sequence[Tree]) -> tuple[Tree, NDArray[np.int64]]:
    """Return the nodes of all trees end to end, and where each tree begins and ends.

    Children and parents still count from the root of their own tree.
    """
    starts = np.zeros(len(trees) + 1, np.int64)
    np.cumsum([tree.n_nodes for tree in trees], out=starts[1:])
    columns = {
        name: np.concatenate(
            [getattr(tree, name) for tree in trees] or [np.empty(0, dtype)],
            dtype=dtype,
            casting="safe",
        )
        for name, dtype in _DTYPES.items()
    }
    return Tree(**columns), starts


def split(nodes: Tree, starts: NDArray[np.int64]) -> list[Tree]:
    """Return the trees that were joined; they share the memory of `nodes`."""
    columns = {field.name: getattr(nodes, field.name) for field in fields(Tree)}
    categories = columns.pop("categories")
    places = nodes.category_starts[starts].tolist()
    return [
        Tree(
            categories=categories[first:last],
            **{name: column[start:stop] for name, column in columns.items()},
        )
        for (start, stop), (first, last) in zip(
            pairwise(starts.tolist()), pairwise(places), strict=True
        )
    ]


def cut_off(nodes: Tree, roots: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which nodes no way from a root leads to."""
    mask = nodes.parent < 0
    mask[roots] = False
    return mask


def climb(
    parent: NDArray[np.signedinteger],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the topmost ancestor of each node and the steps that lead to it.

    The steps double in every round, so a chain of n nodes takes log2(n) rounds, and
    so does a cycle, whose nodes find only one another.
    """
    top = np.where(parent < 0, np.arange(parent.size), parent)
    steps = (parent >= 0).astype(np.int64)
    for _ in range(parent.size.bit_length()):
        above = top[top]
        if np.array_equal(above, top):
            break
        steps += steps[top]
        top = above
    return top, steps
