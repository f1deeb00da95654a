"""Asking a backend for splits, and having it apply them, under constraints."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.base import Backend
from hornbeam.growth.constraints import Constraints, Tracker

__all__ = ["Search"]

Nodes = NDArray[np.intp]


class Search:
    """The backend of one growing tree, held to constraints.

    Parameters
    ----------
    backend
        Where a tree has begun.
    constraints
        Of the training; None: there are none.

    Attributes
    ----------
    lookahead
        How many splits a grower that goes best first should ask for at once.
    """

    def __init__(self, backend: Backend, constraints: Constraints | None) -> None:
        self._backend = backend
        self.lookahead = backend.lookahead
        self._tracker: Tracker | None = None
        if constraints is not None:
            self._tracker = Tracker(constraints, backend.n_features)

    def find(
        self, nodes: Nodes, drawn: NDArray[np.uint8] | None
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        """Return the best splits of these nodes among the features drawn for each.

        As `Backend.find_splits`, which see.
        """
        allowed = drawn
        if self._tracker is not None:
            allowed = self._tracker.allowed(nodes, drawn)
        return self._backend.find_splits(nodes, allowed)

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
            self._tracker.enter(nodes, splits["feature"], left)
