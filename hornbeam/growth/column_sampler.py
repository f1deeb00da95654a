"""Column samples of trees, levels and nodes (`colsample_bytree` and others).

The draws are counter-based: each depends on the seed, on the tree, level or node, and
on the column's number, not on the order of draws or on where they are made.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.sampling import (
    ColumnDraws,
    draw_bits,
    draw_columns,
    draw_share,
)

__all__ = ["ColumnSampler", "draw_projection"]

# Counters of the purposes of draws; that of rows is 0 (see `RowSample.key`).
_OF_TREE = 1 << 28
_OF_MIX = 4 << 28

_EQUAL = np.empty(0)


def draw_projection(
    columns: int, outputs: int, seed: int, iteration: int
) -> NDArray[np.float64]:
    """Return a random projection of the outputs to a few columns, (columns, outputs).

    It consists of random signs (Achlioptas 2003), which preserve lengths and thus the
    gains of splits in expectation (Iosipoi and Vakhrushev 2022).
    """
    bits = np.empty(columns * outputs, np.uint32)
    key = np.uint64(seed % 2**64)
    draw_bits(np.uint64(iteration), np.uint64(_OF_MIX), key, bits)
    signs = np.where(bits >> 31, 1.0, -1.0).reshape(columns, outputs)
    return signs / np.sqrt(columns)


@lru_cache(maxsize=16)
def _all_columns(n_features: int) -> NDArray[np.uint64]:
    """Return 0, 1, 2, ...: the same array each time, which backends compare first."""
    return np.arange(n_features, dtype=np.uint64)


class ColumnSampler:
    """Nested samples of columns: by tree, of these by level, of these by node.

    Parameters
    ----------
    n_features
        Columns of the data.
    by_tree, by_level, by_node
        The share of the columns that is drawn, at least one column.
    seed, tree
        That the draws depend on.
    weights
        (features,) relative probabilities of columns, or None for equal ones. Columns
        of weight 0 are drawn only if no others are left.
    """

    def __init__(
        self,
        n_features: int,
        by_tree: float,
        by_level: float,
        by_node: float,
        seed: int,
        tree: int,
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        self._n_features = n_features
        weights = _EQUAL if weights is None else weights
        key = np.uint64(tree), np.uint64(seed % 2**64)
        #: What kernels need to draw as `allowed` does.
        self.draws = ColumnDraws(*key, weights, by_level, by_node)
        #: The features of the tree, ascending, uint64.
        self.columns = _all_columns(n_features)
        if by_tree < 1.0:
            columns, scratch = self.columns.copy(), np.empty((2, n_features), np.uint64)
            count = draw_share(columns, by_tree, _OF_TREE, self.draws, *scratch)
            self.columns = columns[:count]

    @property
    def go_by_node(self) -> bool:
        """Whether the columns of a node depend on the node's number in the tree."""
        return self.draws.by_node < 1.0

    def allowed(self, nodes: NDArray[np.intp], depth: int) -> NDArray[np.uint8] | None:
        """Return which features each node may use, (nodes, features); None: all."""
        draws = self.draws
        if draws.by_level == 1.0 and draws.by_node == 1.0:
            return None
        out = np.empty((nodes.size, self._n_features), np.uint8)
        scratch = np.empty((3, self._n_features), np.uint64)
        for node, own in zip(nodes.tolist(), out, strict=True):
            draw_columns(self.columns, draws, depth, node, scratch, own)
        return out
