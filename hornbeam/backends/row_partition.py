"""Partitions rows among the nodes of a tree, from bins that are in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.row_loop import run_rows
from hornbeam.kernels.bins import Bins
from hornbeam.kernels.layout import NODE_DTYPE, TASK_ROWS
from hornbeam.kernels.partition import (
    bring_home,
    mark_leaves,
    partition_rows,
    route_rows,
)
from hornbeam.kernels.plan import (
    CELLS_PER_ROW,
    enter_splits,
    plan_leaves,
    plan_partition,
    settle_children,
)
from hornbeam.kernels.team import Team

__all__ = ["RowPartition"]

_NO_NODES = np.empty(0, np.intp)


class RowPartition:
    """A list of rows in which the rows of each node are contiguous.

    Parameters
    ----------
    features
        Table of `FEATURE_DTYPE`.
    words
        Of a set of bins; 0 where no feature is categorical.
    every_row
        (rows,) uint32: 0, 1, 2, ...
    rows
        (2, rows) uint32, a double buffer: a node's rows are on one of the two sides.
    team
        The threads that work.

    Attributes
    ----------
    every_row
        As given.
    table
        The nodes, of `NODE_DTYPE`.
    lefts
        (nodes, words) uint64: bins that go left at splits by category.
    leaf_of_node
        (nodes,) uint32: the leaf that the rows of a node without children are in.
    rows
        The list.
    """

    def __init__(
        self,
        features: NDArray[Any],
        words: int,
        every_row: NDArray[np.uint32],
        rows: NDArray[np.uint32],
        team: Team,
    ) -> None:
        self._team = team
        self._features = features
        self.every_row, self.rows = every_row, rows
        self.table = np.zeros(64, NODE_DTYPE)
        self.lefts = np.empty((64, words), np.uint64)
        self.leaf_of_node = np.empty(64, np.uint32)
        self._list = rows[0]
        self._pending = _NO_NODES
        self._n_taken = 0
        #: A root: on the first side, from the first row on, not split.
        self._root = np.zeros((), NODE_DTYPE)
        self._root["left"] = -1

    def begin_tree(self, taken: NDArray[np.uint8] | None) -> None:
        """Put all rows, or those taken, into the root.

        Other rows follow at the end of the list, outside of all nodes.
        """
        if taken is None:
            self.begin_with_all()[:] = self.every_row
        else:
            chosen = np.flatnonzero(taken)
            self.rows[0, : chosen.size] = chosen
            self.rows[0, chosen.size :] = np.flatnonzero(taken == 0)
            self._begin(chosen.size)

    def begin_with_all(self) -> NDArray[np.uint32]:
        """Put all rows into the root; return the list, for the caller to write.

        They are 0, 1, 2, ...
        """
        self._begin(self.every_row.size)
        return self._list

    def has_all(self) -> bool:
        """Return whether the last tree was of all rows."""
        return self._n_taken == self.every_row.size

    def _begin(self, size: int) -> None:
        if self._n_taken != size:
            self._n_taken = self._root["end"] = size
        self.table[0] = self._root
        self._pending = _NO_NODES

    def sizes(self, nodes: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the number of rows of each node, after `move`."""
        sizes: NDArray[np.int64] = self.table["end"][nodes]
        sizes -= self.table["begin"][nodes]
        return sizes

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        """Enter the splits; rows stay in the parents until `move`."""
        self.reserve(int(left[-1]) + 2)
        enter_splits(nodes, splits, sets, left, self._features, self.table, self.lefts)
        pending = self._pending
        self._pending = np.concatenate([pending, nodes]) if pending.size > 0 else nodes

    def reserve(self, nodes: int) -> None:
        """Make room for this many nodes."""
        if nodes > self.table.size:
            more = np.zeros(max(nodes, 2 * self.table.size), NODE_DTYPE)
            more[: self.table.size] = self.table
            lefts = np.empty((more.size, self.lefts.shape[1]), np.uint64)
            lefts[: self.table.size] = self.lefts
            self.table, self.lefts = more, lefts
            self.leaf_of_node = np.empty(more.size, np.uint32)

    def wait(self, nodes: NDArray[np.intp]) -> None:
        """Let the rows of these nodes, which are split, stay there until `move`."""
        self._pending = nodes

    def move(self, by_feature: Bins) -> NDArray[np.intp]:
        """Move the rows of pending splits to the children; return the split nodes.

        `by_feature` are the bins, (columns, rows), of which those of the splits are
        read.
        """
        nodes, self._pending = self._pending, _NO_NODES
        if nodes.size == 0:
            return nodes
        most_tasks = nodes.size + 5 * self._team.size
        tasks = np.empty((most_tasks, 5), np.int64)
        counts = np.empty(most_tasks, np.int64)
        n_tasks, threads = plan_partition(
            nodes, self.table, self._team.size, False, tasks
        )
        tasks = tasks[:n_tasks]
        self._team.run(
            partition_rows,
            threads,
            tasks,
            self.table,
            self.lefts,
            by_feature,
            self.rows,
            counts,
        )
        settle_children(tasks, counts, self.table)
        return nodes

    def bring_home(self, nodes: NDArray[np.intp]) -> None:
        """Copy the rows of the children of these nodes to the first side."""
        bring_home(nodes, self.table, self.rows)

    def name_leaves(self, nodes: NDArray[np.intp], leaves: NDArray[np.intp]) -> None:
        """Set the leaf of ``nodes[i]``, which has no children, to ``leaves[i]``."""
        self.leaf_of_node[nodes] = leaves

    def mark_leaves(
        self,
        nodes: NDArray[np.intp],
        leaves: NDArray[np.intp],
        n_leaves: int,
        by_feature: Bins,
        leaf_of: NDArray[np.uint32],
    ) -> None:
        """Write the leaf of each row to `leaf_of`; `n_leaves` if it is in no node.

        `nodes` are those without children, and ``leaves[i]`` the leaf of ``nodes[i]``.
        Rows of pending splits are routed from the parents.
        """
        threads = self._team.threads_for(CELLS_PER_ROW * leaf_of.size)
        most_tasks = 1 + nodes.size + self._pending.size + leaf_of.size // TASK_ROWS
        tasks = np.empty((most_tasks, 5), np.int64)
        self.name_leaves(nodes, leaves)
        n_tasks = plan_leaves(
            nodes,
            self._pending,
            self.table,
            leaf_of.size,
            n_leaves,
            threads,
            self.leaf_of_node,
            tasks,
        )
        self._team.run(
            mark_leaves,
            threads,
            tasks[:n_tasks],
            self.table,
            self.lefts,
            by_feature,
            self.rows,
            self.leaf_of_node,
            leaf_of,
        )

    def mark_left_out(self, by_feature: Bins, leaf_of: NDArray[np.uint32]) -> None:
        """Write the leaf of each row that is not in the sample, from the root."""
        if self._n_taken < self.every_row.size:
            self.route(self.rows[0, self._n_taken :], by_feature, leaf_of)

    def route(
        self,
        rows: NDArray[np.uint32],
        by_feature: Bins,
        leaf_of: NDArray[np.uint32],
    ) -> None:
        """Write the leaf of each of these rows, routed from the root.

        They may be other rows than those of the list: those of `by_feature`.
        """
        if rows.size == 0:
            return
        run_rows(
            self._team,
            route_rows,
            8 * rows.size,
            rows,
            by_feature,
            self.table,
            self.lefts,
            self.leaf_of_node,
            leaf_of,
        )
