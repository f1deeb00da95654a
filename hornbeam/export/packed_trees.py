"""Trees packed into three numbers per node, for exported source code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.export.exported_model import ExportedModel
from hornbeam.forest.tree import LeafTerms

__all__ = [
    "BY_CATEGORY",
    "FLAGS",
    "MISSING_RIGHT",
    "PackedTrees",
    "join_in_lines",
    "shortest_decimals",
]

#: The flag bits of `PackedTrees.next`, below the index of the left child.
MISSING_RIGHT, BY_CATEGORY = 1, 2
FLAGS = 2


@dataclass(frozen=True, slots=True)
class PackedTrees:
    """The concatenated nodes of all trees, with three numbers per node.

    Attributes
    ----------
    split
        The threshold: smaller values go left. For a categorical split the index in
        `sets`; for a leaf its value. float32 if that is exact for all, else float64.
    next
        The index of the left child, which the right child follows, and the flags; 0 for
        a leaf.
    feature
        The feature of a split; for a vector leaf the index in `leaves`, and for a
        linear leaf its number, which counts leaves.
    roots, outputs
        (trees,): the index of each root, and the output that the tree adds to.
    sets
        The category codes that go right at each categorical split.
    leaves
        (leaves, outputs): the values of vector leaves; None without vector leaves.
    terms
        The terms of linear leaves; None without any.
    """

    split: NDArray[Any]
    next: NDArray[np.int64]
    feature: NDArray[np.int64]
    roots: NDArray[np.int64]
    outputs: NDArray[np.int64]
    sets: list[list[int]]
    leaves: NDArray[np.float32] | None
    terms: LeafTerms | None

    @classmethod
    def of(cls, model: ExportedModel) -> PackedTrees:
        """Return the packed trees of a model."""
        nodes = model.nodes
        assert nodes is not None
        is_leaf, by_category = nodes.is_leaf, nodes.by_category
        split = nodes.threshold.copy()
        split[by_category] = np.arange(np.count_nonzero(by_category))
        next_ = (nodes.left << FLAGS) + MISSING_RIGHT * nodes.missing_right
        next_ += BY_CATEGORY * by_category
        feature = nodes.feature.astype(np.int64)
        leaves, terms = None, nodes.terms
        if terms is not None:
            feature[is_leaf] = np.arange(np.count_nonzero(is_leaf))
            terms = terms._replace(counts=terms.counts[is_leaf])
        if nodes.has_vector_leaves:
            leaves = nodes.values[is_leaf]
            feature[is_leaf] = np.arange(len(leaves))
            split[is_leaf] = 0.0
        else:
            split[is_leaf] = nodes.values[is_leaf, 0]
        narrow = split.astype(np.float32)
        return cls(
            split=narrow if np.array_equal(narrow, split) else split,
            next=np.where(is_leaf, 0, next_),
            feature=feature,
            roots=nodes.roots,
            outputs=nodes.outputs,
            sets=[nodes.codes(n) for n in np.flatnonzero(by_category).tolist()],
            leaves=leaves,
            terms=terms,
        )


def shortest_decimals(values: NDArray[np.floating[Any]]) -> list[str]:
    """Return the shortest decimal text of each number, with a point or an exponent.

    The text of a float32 may be parsed as float64 and then rounded to float32.
    """
    texts = values.ravel().astype(str)
    read = texts.astype(np.float64).astype(values.dtype)
    wide = values.ravel().astype(np.float64).astype(str)
    return np.where(read == values.ravel(), texts, wide).tolist()


def join_in_lines(items: Sequence[str], separator: str, each: int = 8) -> Iterator[str]:
    """Yield lines of `each` items."""
    lines: Iterable[int] = range(0, len(items), each)
    for start in lines:
        yield separator.join(items[start : start + each])
