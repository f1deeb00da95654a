"""Finds and applies splits in a backend under the constraints of the training."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import Backend, SplitParams
from hornbeam.growth.constraints import Constraints, ConstraintTracker
from hornbeam.growth.tree_builder import TreeBuilder

__all__ = ["SplitFinder"]

Nodes = NDArray[np.intp]


class SplitFinder:
    """The backend of one tree, and the constraints of its nodes.

    Parameters
    ----------
    backend
        In which a tree has begun.
    params
        Of the tree.
    constraints
        Of the training; None: there are none.

    Attributes
    ----------
    lookahead
        Number of nodes that a leaf-wise grower should split at a time.
    """

    def __init__(
        self, backend: Backend, params: SplitParams, constraints: Constraints | None
    ) -> None:
        self._backend = backend
        # Bounds that follow the tree depend on all splits that come before.
        follows = constraints is not None and constraints.bounds_follow
        self.lookahead = 1 if follows else backend.lookahead
        self._tracker: ConstraintTracker | None = None
        if constraints is not None or params.counts_rows:
            self._tracker = ConstraintTracker(
                constraints or Constraints(),
                params,
                backend.n_features,
                backend.multi_output_columns,
            )

    def find(
        self, nodes: Nodes, drawn: NDArray[np.uint8] | None
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        """Return the best splits of these nodes among the features drawn for each.

        The arrays are those of `Backend.find_splits`.
        """
        if self._tracker is None:
            return self._backend.find_splits(nodes, drawn)
        allowed = self._tracker.allowed(nodes, drawn)
        limits = self._tracker.limits(nodes)
        splits, sets = self._backend.find_splits(nodes, allowed, limits)
        self._tracker.set_best(nodes, splits, limits)
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
            self._tracker.add_children(nodes, splits, left)

    def bounds(self, tree: TreeBuilder) -> NDArray[np.float64] | None:
        """Return the minimum and maximum weight of each node, (columns, nodes, 2).

        None: there are no bounds.
        """
        return None if self._tracker is None else self._tracker.bounds_in(tree)
