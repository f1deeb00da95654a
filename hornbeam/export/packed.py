"""Trees in few numbers: what a program walks that has them in its own source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.export.plan import Plan

__all__ = ["BY_CATEGORY", "FLAGS", "MISSING_RIGHT", "Packed", "in_lines", "spelled"]

#: Bits of `Packed.next` below the place of the left child.
MISSING_RIGHT, BY_CATEGORY = 1, 2
FLAGS = 2


@dataclass(frozen=True, slots=True)
class Packed:
    """The nodes of all trees end to end, with three numbers each.

    Attributes
    ----------
    split
        What goes left is below it; at splits by category the number of the set of codes
        that go right; at leaves what they add to the margins. float32 where that holds
        all of them, else float64.
    next
        The place of the left child, which the right one follows, and the flags; 0 at
        leaves.
    feature
        What a split asks for; at leaves of all outputs the number of the leaf.
    roots, outputs
        (trees,): the place of each root, and the output that the tree adds to.
    sets
        Codes that go right, each set for one split.
    leaves
        (leaves, outputs) of trees of all outputs; else None.
    """

    split: NDArray[Any]
    next: NDArray[np.int64]
    feature: NDArray[np.int64]
    roots: NDArray[np.int64]
    outputs: NDArray[np.int64]
    sets: list[list[int]]
    leaves: NDArray[np.float32] | None

    @classmethod
    def of(cls, plan: Plan) -> Packed:
        """Return the trees of a model that has some."""
        nodes = plan.nodes
        assert nodes is not None
        is_leaf, by_category = nodes.is_leaf, nodes.by_category
        split = nodes.threshold.copy()
        split[by_category] = np.arange(np.count_nonzero(by_category))
        next_ = (nodes.left << FLAGS) + MISSING_RIGHT * nodes.missing_right
        next_ += BY_CATEGORY * by_category
        feature = nodes.feature.astype(np.int64)
        leaves = None
        if nodes.of_all_outputs:
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
        )


def spelled(values: NDArray[np.floating[Any]]) -> list[str]:
    """Return the shortest decimals that become these numbers, all with a point or an e.

    Those of float32 may be read as float64 and rounded then.
    """
    texts = values.ravel().astype(str)
    read = texts.astype(np.float64).astype(values.dtype)
    wide = values.ravel().astype(np.float64).astype(str)
    return np.where(read == values.ravel(), texts, wide).tolist()


def in_lines(items: Sequence[str], separator: str, each: int = 8) -> Iterator[str]:
    """Yield so many items a line."""
    lines: Iterable[int] = range(0, len(items), each)
    for start in lines:
        yield separator.join(items[start : start + each])
