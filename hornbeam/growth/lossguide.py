"""Grows a tree leaf by leaf (`grow_policy="lossguide"`), with speculative splits.

If rows are in external memory or on workers, each call costs a pass or a message,
however few rows it concerns. So a backend says how many nodes it should be given at a
time, and the leaves that are likely to be next are split there in one batch. The tree
takes the splits one by one, in the order of their gains, and is identical to the tree
without speculation. Speculative splits that are not used are merged back into their
leaf.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import Backend, GrowthLimits
from hornbeam.growth.column_sampler import ColumnSampler
from hornbeam.growth.constraints import ConstrainedBackend
from hornbeam.growth.tree_builder import TreeBuilder
from hornbeam.kernels.layout import SPLIT_DTYPE

__all__ = ["grow_lossguide"]

Nodes = NDArray[np.intp]
#: A heap of minus the gain, number in the tree, node of the backend: the highest gain
#: comes first, and of equal gains the lower number.
Candidates = list[tuple[float, int, int]]


def grow_lossguide(
    backend: Backend | ConstrainedBackend, limits: GrowthLimits, columns: ColumnSampler
) -> tuple[TreeBuilder, Nodes, Nodes]:
    """Return the tree, the leaves of the backend, and the tree's leaf of each."""
    grower = _Lossguide(backend, limits, columns)
    grower.grow()
    return grower.tree(), *grower.nodes_and_owners()


class _Lossguide:
    """Nodes of the backend, and the order in which the tree takes their splits.

    The tree numbers its nodes in that order: the children of its i-th split, from 0,
    are 2 i + 1 and 2 i + 2. The lists here are indexed by the numbers of the backend.
    """

    def __init__(
        self,
        backend: Backend | ConstrainedBackend,
        limits: GrowthLimits,
        columns: ColumnSampler,
    ) -> None:
        self._backend, self._limits, self._columns = backend, limits, columns
        # Where the columns of a node depend on its number in the tree, only the
        # children of the next split have known numbers.
        self._batch_size = 1 if columns.go_by_node else backend.lookahead
        self._candidates: Candidates = []
        #: Nodes of the backend in the order of their splits, and their tree's numbers.
        self._order: list[int] = []
        self._numbers: list[int] = []
        self._parent = [-1]
        self._depth = [0]
        #: The left child; -1: not split in the backend.
        self._left = [-1]
        #: The gain of the best split; 0: not worthwhile, or not searched.
        self._gain = [0.0]
        self._splits = np.zeros(127, SPLIT_DTYPE)
        self._sets = np.zeros((127, 0), np.uint64)

    def grow(self) -> None:
        """Split leaves until no split is worthwhile."""
        if self._may_have(1):
            self._find([0], self._columns.allowed(np.zeros(1, np.intp), 0))
            self._push(self._candidates, 0, 0)
        while self._candidates and self._may_have(len(self._order) + 1):
            _, number, node = heapq.heappop(self._candidates)
            self._order.append(node)
            self._numbers.append(number)
            n_splits = len(self._order)
            if self._left[node] < 0 and self._may_split_children(node, n_splits):
                batch = self._next_nodes(node)
                self._find(self._apply(batch), self._drawn(batch))
            self._push_children(self._candidates, node, n_splits)
        last = [node for node in self._order if self._left[node] < 0]
        if last:
            self._apply(last)

    def _may_have(self, n_leaves: int) -> bool:
        return self._limits.leaves_left(n_leaves) > 0

    def _may_split_children(self, node: int, n_splits: int) -> bool:
        """Return whether the children of split `n_splits` may be split, too."""
        deeper = self._depth[node] + 1
        return self._may_have(n_splits + 1) and not self._limits.deep_enough(deeper)

    def _push(self, candidates: Candidates, number: int, node: int) -> None:
        if self._gain[node] > 0.0:
            heapq.heappush(candidates, (-self._gain[node], number, node))

    def _push_children(self, candidates: Candidates, node: int, n_splits: int) -> None:
        """Add the children of split `n_splits` to the candidates."""
        left = self._left[node]
        if left >= 0:
            self._push(candidates, 2 * n_splits - 1, left)
            self._push(candidates, 2 * n_splits, left + 1)

    def _next_nodes(self, node: int) -> list[int]:
        """Return this node, which is next, and those that are likely to follow.

        They are in the order in which the tree would be grown if their children were
        never better; better children only delay the others.
        """
        batch = [node]
        if self._batch_size == 1:
            return batch
        candidates, n_splits = self._candidates.copy(), len(self._order)
        while (
            candidates
            and len(batch) < self._batch_size
            and self._may_have(n_splits + 1)
        ):
            _, _, following = heapq.heappop(candidates)
            n_splits += 1
            if self._left[following] < 0 and self._may_split_children(
                following, n_splits
            ):
                batch.append(following)
            self._push_children(candidates, following, n_splits)
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
        self._backend.apply_splits(nodes, splits, sets, np.array(children[::2]))
        return children

    def _find(self, nodes: list[int], drawn: NDArray[np.uint8] | None) -> None:
        """Find the best splits of the newest nodes of the backend."""
        splits, sets = self._backend.find_splits(np.array(nodes), drawn)
        gains = splits["gain"]
        gains = np.where(self._limits.worthwhile(gains), gains, 0.0)
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
        """Return the features drawn for the children of these nodes."""
        # Numbers of the first node's children; a batch has other nodes only if draws
        # do not depend on numbers.
        children = 2 * len(self._order) + np.arange(-1, 1)
        depths = [self._depth[node] + 1 for node in batch]
        masks = {depth: self._columns.allowed(children, depth) for depth in set(depths)}
        if any(mask is None for mask in masks.values()):
            return None
        return np.concatenate([masks[depth] for depth in depths])

    def tree(self) -> TreeBuilder:
        """Return the tree."""
        tree = TreeBuilder.of_root()
        order = np.array(self._order, np.intp)
        numbers = np.array(self._numbers, np.intp)
        tree.split(numbers, self._splits[order], self._sets[order], order)
        return tree

    def nodes_and_owners(self) -> tuple[Nodes, Nodes]:
        """Return the leaves of the backend, and the tree's leaf that each is in."""
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
