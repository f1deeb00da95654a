"""A decision tree as arrays with one entry per node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.layout import TERM_DTYPE

__all__ = [
    "LeafTerms",
    "Tree",
    "concatenate_trees",
    "deleted_nodes",
    "joined_terms",
    "roots_and_depths",
    "split_trees",
    "with_equal_leaves",
]


class LeafTerms(NamedTuple):
    """The terms of linear leaves, which are added to the leaf values.

    Attributes
    ----------
    counts
        (nodes,) int64: the number of terms of each node; 0 at internal nodes.
    terms
        `TERM_DTYPE`, node after node. The slopes include the learning rate.
    """

    counts: NDArray[np.int64]
    terms: NDArray[np.void]

    @classmethod
    def none(cls, n_nodes: int) -> LeafTerms:
        """Return those of constant leaves."""
        return cls(np.zeros(n_nodes, np.int64), np.empty(0, TERM_DTYPE))

    @property
    def starts(self) -> NDArray[np.int64]:
        """(nodes + 1,): the first term of each node."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    def scaled(self, factor: Any) -> LeafTerms:
        """Return the terms with their slopes times a factor, one or one a term."""
        terms = self.terms.copy()
        terms["slope"] *= factor
        return self._replace(terms=terms)


@dataclass(slots=True, eq=False, repr=False)
class Tree:
    """The nodes of one tree. Node 0 is the root.

    A row goes left where ``x[feature] < threshold``, and where the feature is missing
    and ``default_left`` is 1. At a categorical split it goes right where the feature,
    truncated to an integer, is one of the node's categories. The right child is always
    the node after the left child, which XGBoost assumes too. A node that pruning
    deleted keeps its number: it is a node other than the root without a parent and
    without children.

    Parameters
    ----------
    left, right
        Children, int32; -1 at leaves.
    parent
        Parent, int32; -1 at the root.
    feature, threshold, default_left
        The split; 0, NaN and 0 at leaves. The threshold of categorical splits is NaN.
    split_type
        1 at categorical splits, else 0.
    category_counts
        (nodes,) int64: the number of categories that go right; 0 at other nodes.
    categories
        Those categories, ascending, node after node; int32.
    value
        The leaf value, which is added to the margin, learning rate included; 0 at
        internal nodes. (nodes,), or (nodes, outputs) of multi-output trees, like
        `weight`.
    gain
        Loss reduction of the split; 0 at leaves.
    cover
        Sum of the hessians of the rows in the node, over all outputs of the tree.
    weight
        The optimal value of the node, before the learning rate (`base_weights` of
        XGBoost).
    terms
        Of linear leaves; None: all leaves are constants.
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
    terms: LeafTerms | None = None

    def __repr__(self) -> str:
        return f"Tree(leaves={self.n_leaves}, depth={self.depth()})"

    @property
    def n_nodes(self) -> int:
        return self.left.size

    @property
    def leaf_size(self) -> int:
        """Number of values of a leaf: 1, or one per output."""
        return 1 if self.value.ndim == 1 else self.value.shape[1]

    @property
    def leaf_mask(self) -> NDArray[np.bool_]:
        """True at leaves; False at internal nodes and at deleted nodes."""
        return (self.left < 0) & ~deleted_nodes(self, np.zeros(1, np.int64))

    @property
    def n_leaves(self) -> int:
        return int(np.count_nonzero(self.leaf_mask))

    @property
    def category_starts(self) -> NDArray[np.int64]:
        """(nodes + 1,): the offsets of the nodes' categories in `categories`."""
        return np.concatenate([[0], np.cumsum(self.category_counts)])

    def depth(self) -> int:
        """Return the number of splits on the longest path from the root to a leaf."""
        _, depths = roots_and_depths(self.parent)
        return int(depths.max())


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


def concatenate_trees(trees: Sequence[Tree]) -> tuple[Tree, NDArray[np.int64]]:
    """Return the nodes of all trees as one `Tree`, and the offsets, (trees + 1,).

    Children and parents stay relative to the root of their tree. The terms of linear
    leaves are left out.
    """
    starts = np.zeros(len(trees) + 1, np.int64)
    np.cumsum([tree.n_nodes for tree in trees], out=starts[1:])
    columns: dict[str, Any] = {
        name: np.concatenate(
            [getattr(tree, name) for tree in trees] or [np.empty(0, dtype)],
            dtype=dtype,
            casting="safe",
        )
        for name, dtype in _DTYPES.items()
    }
    return Tree(**columns), starts


def joined_terms(trees: Sequence[Tree]) -> LeafTerms | None:
    """Return the terms of the leaves of all trees; None if there are none."""
    if all(tree.terms is None for tree in trees):
        return None
    parts = [tree.terms or LeafTerms.none(tree.n_nodes) for tree in trees]
    counts, terms = zip(*parts, strict=True)
    return LeafTerms(np.concatenate(counts), np.concatenate(terms))


def with_equal_leaves(trees: Sequence[Tree], outputs: Sequence[int]) -> Sequence[Tree]:
    """Return the trees with leaves of the same size.

    Among multi-output trees the values and weights of a tree of one output become
    vectors, with zeros for the other outputs.

    Parameters
    ----------
    trees, outputs
        Trees, and the output that each adds to.
    """
    size = max((tree.leaf_size for tree in trees), default=1)
    if all(tree.leaf_size == size for tree in trees):
        return trees
    return [
        tree
        if tree.leaf_size == size
        else replace(
            tree,
            value=_in_column(tree.value, output, size),
            weight=_in_column(tree.weight, output, size),
        )
        for tree, output in zip(trees, outputs, strict=True)
    ]


def _in_column(
    values: NDArray[np.float32], column: int, columns: int
) -> NDArray[np.float32]:
    table = np.zeros((values.size, columns), np.float32)
    table[:, column] = values
    return table


def split_trees(nodes: Tree, starts: NDArray[np.int64]) -> list[Tree]:
    """Return the concatenated trees, as views of `nodes`."""
    columns = {name: getattr(nodes, name) for name in _DTYPES}
    categories = columns.pop("categories")
    category_starts = nodes.category_starts[starts].tolist()
    return [
        Tree(
            categories=categories[first:last],
            **{name: column[start:stop] for name, column in columns.items()},
        )
        for (start, stop), (first, last) in zip(
            pairwise(starts.tolist()), pairwise(category_starts), strict=True
        )
    ]


def deleted_nodes(nodes: Tree, roots: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of the nodes that pruning deleted, (nodes,) bool."""
    mask = nodes.parent < 0
    mask[roots] = False
    return mask


def roots_and_depths(
    parent: NDArray[np.signedinteger],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the root and the depth of each node from their parents (-1 at roots).

    Pointer jumping doubles the step in each round, so a chain of n nodes takes log2(n)
    rounds. A cycle of parents takes as many; its nodes have no root, and the first
    result is then another node of the cycle.
    """
    top = np.where(parent < 0, np.arange(parent.size), parent)
    steps = (parent >= 0).astype(np.int64)
    for _ in range(parent.size.bit_length()):
        above = top[top]
        if (above == top).all():
            break
        steps += steps[top]
        top = above
    return top, steps
