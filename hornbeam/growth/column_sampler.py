"""Column samples of trees, levels and nodes (`colsample_bytree` and others).

The draws are counter-based: each depends on the seed, on the tree, level or node, and
on the column's number, not on the order of draws or on where they are made.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.sampling import (
    OF_LEVEL,
    OF_NODE,
    ColumnDraws,
    draw_bits,
    draw_exponentials,
)

__all__ = ["ColumnSampler", "draw_projection"]

# Counters of the purposes of draws; that of rows is 0 (see `RowSample.key`).
_OF_TREE = 1 << 28
_OF_MIX = 4 << 28


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
        self._weights = weights
        self._n_features = n_features
        self._by_level, self._by_node = by_level, by_node
        self._key, self._tree = np.uint64(seed % 2**64), np.uint64(tree)
        #: The features of the tree, ascending, uint64.
        self.columns = self._draw(_all_columns(n_features), by_tree, _OF_TREE)

    @property
    def go_by_node(self) -> bool:
        """Whether the columns of a node depend on the node's number in the tree."""
        return self._by_node < 1.0

    def draws(self) -> ColumnDraws | None:
        """Return what a kernel needs to draw as `allowed` does; None: it cannot."""
        if self._weights is not None and min(self._by_level, self._by_node) < 1.0:
            return None
        return ColumnDraws(self._tree, self._key, self._by_level, self._by_node)

    def _draw(
        self, columns: NDArray[np.uint64], rate: float, purpose: int
    ) -> NDArray[np.uint64]:
        count = max(1, int(rate * columns.size))
        if count == columns.size:
            return columns
        if self._weights is None:
            bits = np.empty(self._n_features, np.uint32)
            draw_bits(self._tree, np.uint64(purpose), self._key, bits)
            order = np.argsort(bits[columns], kind="stable")
        else:
            order = self._weighted_order(columns, self._weights[columns], purpose)
        return np.sort(columns[order[:count]])

    def _weighted_order(
        self, columns: NDArray[np.uint64], weights: NDArray[np.float64], purpose: int
    ) -> NDArray[np.intp]:
        """Return the indices of the columns in the order in which they are drawn.

        Sorting by exponential waiting times with the weights as rates is weighted
        sampling without replacement: the largest u**(1/w) of Efraimidis and Spirakis
        (2006). With equal weights it is the order of the draws without weights.
        """
        waits = np.empty(self._n_features)
        draw_exponentials(self._tree, np.uint64(purpose), self._key, waits)
        never = weights == 0.0
        with np.errstate(over="ignore"):
            waits = waits[columns] / np.where(never, 1.0, weights)
        return np.lexsort((waits, never))

    def allowed(self, nodes: NDArray[np.intp], depth: int) -> NDArray[np.uint8] | None:
        """Return which features each node may use, (nodes, features); None: all."""
        if self._by_level == 1.0 and self._by_node == 1.0:
            return None
        level = self._draw(self.columns, self._by_level, OF_LEVEL + depth)
        out = np.zeros((nodes.size, self._n_features), np.uint8)
        for i, node in enumerate(nodes):
            out[i, self._draw(level, self._by_node, OF_NODE + int(node))] = 1
        return out
