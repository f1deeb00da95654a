"""Rows whose leaves are known: gradients, and their sums over the nodes of a tree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.memory import MarginRows
from hornbeam.backends.steps import choose_steps

__all__ = ["LeafRows"]


class LeafRows(MarginRows):
    """Rows that no tree grows on, but that trees are revised by."""

    def sums(
        self, output: int, nodes: NDArray[np.uint32], n_nodes: int
    ) -> NDArray[np.float64]:
        """Return the sums of gradients and hessians over nodes, (nodes, 2).

        `nodes`, (rows,), says in which of them each row is. The steps are those in
        which the leaves of a tree that grows on these rows are summed.
        """
        state = self._state
        steps = choose_steps(state.extents()[output, :2], self.n_rows).fine
        state.take_up(output, None, steps)
        state.leaf_of[:] = nodes
        return state.sum_leaves(n_nodes) * steps
