"""Growing a tree best leaf first, with splits asked for ahead of their turn.

Where rows are on disk or on a cluster, every question costs a sweep or a message,
however small it is. So a backend says how many splits it wants to be asked for at once,
and the leaves that are likely to be next are split there in one batch. The tree takes
the splits one by one, in the order of their gains, and is node for node the tree that
grows without looking ahead. What was split for nothing is still one leaf of the tree.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.growth.column_sampler import ColumnSampler
from hornbeam.growth.growth_limits import GrowthLimits
from hornbeam.growth.split_finder import SplitFinder
from hornbeam.growth.tree_builder import TreeBuilder
from hornbeam.kernels.layout import SPLIT_DTYPE

__all__ = ["grow_lossguide"]

Nodes = NDArray[np.intp]
#: Minus the gain, number in the tree, node of the backend: the highest gain comes
#: first, and of equal ones that of the lower number.
Waiting = list[tuple[float, int, int]]


def grow_lossguide(
    search: SplitFinder, shape: GrowthLimits, columns: ColumnSampler
) -> tuple[TreeBuilder, Nodes, Nodes]:
    """Return the tree, the childless nodes of the backend, and the leaf each is in."""
    growth = _Lossguide(search, shape, columns)
    growth.grow()
    return growth.sapling(), *growth.nodes_and_owners()


class _Lossguide:
    """Nodes of the backend, and the order in which the tree takes their splits.

    The tree numbers its nodes in that order: the children of its i-th split, from 0,
    are 2 i + 1 and 2 i + 2. What is kept here goes by the numbers of the backend.
    """

    def __init__(
        self, search: SplitFinder, shape: GrowthLimits, columns: ColumnSampler
    ) -> None:
        self._search, self._shape, self._columns = search, shape, columns
        # Where the columns of a node depend on its number in the tree, only the
        # children of the very next split have known numbers.
        self._most = 1 if columns.go_by_node else search.lookahead
        self._waiting: Waiting = []
        #: Nodes of the backend in the order of their splits, and their tree's numbers.
        self._order: list[int] = []
        self._numbers: list[int] = []
        self._parent = [-1]
        self._depth = [0]
        #: The left child, -1 of what is not split in the backend.
        self._left = [-1]
        #: The gain of the best split, 0 where none is worth it or none was looked for.
        self._gain = [0.0]
        self._splits = np.zeros(127, SPLIT_DTYPE)
        self._sets = np.zeros((127, 0), np.uint64)

    def grow(self) -> None:
        """Split leaves until none is left that is worth it."""
        if self._has_room(1):
            self._find([0], self._columns.allowed(np.zeros(1, np.intp), 0))
            self._push(self._waiting, 0, 0)
        while self._waiting and self._has_room(len(self._order) + 1):
            _, number, node = heapq.heappop(self._waiting)
            self._order.append(node)
            self._numbers.append(number)
            n_splits = len(self._order)
            if self._left[node] < 0 and self._goes_on(node, n_splits):
                batch = self._next_nodes(node)
                self._find(self._apply(batch), self._drawn(batch))
            self._push_children(self._waiting, node, n_splits)
        last = [node for node in self._order if self._left[node] < 0]
        if last:
            self._apply(last)

    def _has_room(self, n_leaves: int) -> bool:
        return self._shape.leaves_left(n_leaves) > 0

    def _goes_on(self, node: int, n_splits: int) -> bool:
        """Whether the children may be split, too, if this is the split so many."""
        deeper = self._depth[node] + 1
        return self._has_room(n_splits + 1) and not self._shape.deep_enough(deeper)

    def _push(self, waiting: Waiting, number: int, node: int) -> None:
        if self._gain[node] > 0.0:
            heapq.heappush(waiting, (-self._gain[node], number, node))

    def _push_children(self, waiting: Waiting, node: int, n_splits: int) -> None:
        """Let the children wait, those of the split so many."""
        left = self._left[node]
        if left >= 0:
            self._push(waiting, 2 * n_splits - 1, left)
            self._push(waiting, 2 * n_splits, left + 1)

    def _next_nodes(self, node: int) -> list[int]:
        """Return this node, whose turn it is, and those that are likely to be next.

        As far as is known now the tree would grow in this very order. Children that
        are not known yet may come in between, which only puts the others off.
        """
        batch = [node]
        if self._most == 1:
            return batch
        waiting, n_splits = self._waiting.copy(), len(self._order)
        while waiting and len(batch) < self._most and self._has_room(n_splits + 1):
            _, _, following = heapq.heappop(waiting)
            n_splits += 1
            if self._left[following] < 0 and self._goes_on(following, n_splits):
                batch.append(following)
            self._push_children(waiting, following, n_splits)
        return batch

    def _apply(self, batch: list[int]) -> list[int]:
        """Split these nodes in the backend; return their children there."""
        first = len(self._parent)
        children = list(range(first, first + 2 * len(batch)))
        for node, left in zip(batch, children[::2], strict=True):
            self._left[node] = left
            self._parent += [node, node]
            self._depth += [self._depth[node] + 1] * 2
        self._left += [-1] * len(children)
        self._gain += [0.0] * len(children)
        nodes = np.array(batch)
        splits, sets = self._splits[nodes], self._sets[nodes]
        self._search.apply(nodes, splits, sets, np.array(children[::2]))
        return children

    def _find(self, nodes: list[int], drawn: NDArray[np.uint8] | None) -> None:
        """Find the best splits of the last nodes that the backend has."""
        splits, sets = self._search.find(np.array(nodes), drawn)
        gains = np.where(self._shape.worthwhile(splits), splits["gain"], 0.0)
        begin, end = nodes[0], nodes[-1] + 1
        self._gain[begin:end] = gains.tolist()
        if begin == 0:
            self._sets = np.zeros((self._splits.size, sets.shape[1]), np.uint64)
        while end > self._splits.size:
            self._splits = _doubled(self._splits)
            self._sets = _doubled(self._sets)
        self._splits[begin:end] = splits
        self._sets[begin:end] = sets

    def _drawn(self, batch: list[int]) -> NDArray[np.uint8] | None:
        """Return which features are drawn for the children of these nodes."""
        # The numbers that the first one's children will have; others do not matter.
        children = 2 * len(self._order) + np.arange(-1, 1)
        depths = [self._depth[node] + 1 for node in batch]
        masks = {depth: self._columns.allowed(children, depth) for depth in set(depths)}
        if any(mask is None for mask in masks.values()):
            return None
        return np.concatenate([masks[depth] for depth in depths])

    def sapling(self) -> TreeBuilder:
        """Return the tree."""
        sapling = TreeBuilder()
        order = np.array(self._order, np.intp)
        numbers = np.array(self._numbers, np.intp)
        sapling.split(numbers, self._splits[order], self._sets[order], order)
        return sapling

    def nodes_and_owners(self) -> tuple[Nodes, Nodes]:
        """Return the backend's nodes without children, and the tree's leaf of each."""
        left, parent = np.array(self._left), np.array(self._parent)
        owner = np.full(left.size, -1)
        owner[0] = 0
        taken = left[self._order]
        owner[taken] = 2 * np.arange(taken.size) + 1
        owner[taken + 1] = owner[taken] + 1
        while (ahead := np.flatnonzero(owner < 0)).size > 0:
            owner[ahead] = owner[parent[ahead]]
        nodes = np.flatnonzero(left < 0)
        return nodes, owner[nodes]


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.zeros_like(array)])
