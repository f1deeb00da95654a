"""Rows whose leaves are known: gradients, and their sums over the nodes of a tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.quantisation import choose_scales
from hornbeam.backends.row_state import MarginRows

__all__ = ["LeafRows"]


class LeafRows(MarginRows):
    """Rows that no tree grows on, but that trees are revised by."""

    def sums(
        self, outputs: Sequence[int], nodes: NDArray[np.uint32], n_nodes: int
    ) -> NDArray[np.float64]:
        """Return the sums of gradients and hessians over nodes, (outputs, nodes, 2).

        `nodes`, (rows,), says in which of them each row is. The steps are those in
        which the leaves of a tree that grows on these rows are summed.
        """
        state = self._state
        steps = choose_scales(state.gradient_ranges()[:, :2], self.n_rows).fine
        state.leaf_of[:] = nodes
        sums = np.empty((len(outputs), n_nodes, 2))
        for own, output in zip(sums, outputs, strict=True):
            state.set_tree(output, None, steps[output])
            own[:] = state.sum_leaves(n_nodes) * steps[output]
        return sums
