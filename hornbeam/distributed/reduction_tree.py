"""Tree reduction: the actors whose sums are added on workers, and not by the client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hornbeam.backends.cluster import RowActor

__all__ = ["TREE_FROM", "TREE_WIDTH", "ReductionTree", "reduction_trees"]

#: The number of actors from which sums are computed by tree reduction.
TREE_FROM = 16
#: The children of each node of the tree.
TREE_WIDTH = 4


@dataclass(frozen=True, slots=True)
class ReductionTree:
    """An actor and the subtrees whose sums it adds to its own result.

    Attributes
    ----------
    actor
        The actor at the root.
    key
        What workers reach it by: its key on Dask, or where its worker listens.
    children
        The subtrees.
    """

    actor: RowActor
    key: Any
    children: tuple[ReductionTree, ...]


def reduction_trees(
    leaves: Sequence[ReductionTree], width: int
) -> tuple[ReductionTree, ...]:
    """Return at most `width` trees, with at most `width` children in each node.

    Together they have all the actors of `leaves`, trees without children.
    """
    groups = [leaves[i::width] for i in range(min(width, len(leaves)))]
    return tuple(
        ReductionTree(first.actor, first.key, reduction_trees(rest, width))
        for first, *rest in groups
    )
