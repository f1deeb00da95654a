"""Asking a backend for splits, and having it apply them, under constraints."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import Backend, SplitParams
from hornbeam.growth.constraints import Constraints, Tracker
from hornbeam.growth.tree_builder import TreeBuilder

__all__ = ["SplitFinder"]

Nodes = NDArray[np.intp]


class SplitFinder:
    """The backend of one growing tree, held to constraints.

    Parameters
    ----------
    backend
        Where a tree has begun.
    growth
        The rules of the tree.
    constraints
        Of the training; None: there are none.

    Attributes
    ----------
    lookahead
        How many splits a grower that goes best first should ask for at once.
    """

    def __init__(
        self, backend: Backend, growth: SplitParams, constraints: Constraints | None
    ) -> None:
        self._backend = backend
        # What bounds follow is not known before its turn.
        follows = constraints is not None and constraints.bounds_follow
        self.lookahead = 1 if follows else backend.lookahead
        self._tracker: Tracker | None = None
        if constraints is not None or growth.counts_rows:
            self._tracker = Tracker(
                constraints or Constraints(),
                growth,
                backend.n_features,
                backend.multi_output_columns,
            )

    def find(
        self, nodes: Nodes, drawn: NDArray[np.uint8] | None
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        """Return the best splits of these nodes among the features drawn for each.

        As `Backend.find_splits`, which see.
        """
        if self._tracker is None:
            return self._backend.find_splits(nodes, drawn)
        allowed = self._tracker.allowed(nodes, drawn)
        limits = self._tracker.limits(nodes)
        splits, sets = self._backend.find_splits(nodes, allowed, limits)
        self._tracker.found(nodes, splits, limits)
        return splits, sets

    def apply(
        self,
        nodes: Nodes,
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: Nodes,
    ) -> None:
        """Split the nodes; their children are ``left`` and ``left + 1``."""
        self._backend.apply_splits(nodes, splits, sets, left)
        if self._tracker is not None:
            self._tracker.enter(nodes, splits, left)

    def bounds(self, sapling: TreeBuilder) -> NDArray[np.float64] | None:
        """Return the least and the largest weight of each node, (columns, nodes, 2).

        None: there are no bounds.
        """
        return None if self._tracker is None else self._tracker.bounds_in(sapling)
