"""The nodes of a tree, whose rows are partitioned on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.opencl.gradient_columns import GradientPair
from hornbeam.backends.opencl.queue import Buffer, DeviceQueue, tiles_of
from hornbeam.kernels.layout import NODE_DTYPE
from hornbeam.kernels.plan import enter_splits

__all__ = [
    "LIST_BYTES",
    "NODE_BYTES",
    "SCRATCH_BYTES",
    "DevicePartition",
    "PartitionScratch",
    "Run",
]

#: Bytes of a row in the list, on both sides, and in the scratch memory of a partition.
LIST_BYTES, SCRATCH_BYTES = 8, 5

#: Starts a kernel, or records it: `run` of a `DeviceQueue` or of a `Recording`.
Run = Callable[..., None]

#: A node as kernels take it; see `kernels/common.cl`.
_NODE = np.dtype(
    [
        (name, np.int32)
        for name in (
            *("first_task", "place", "side", "left", "column", "low", "count"),
            *("inside_right", "is_categorical", "left_leaf", "right_leaf"),
        )
    ]
)
NODE_BYTES = _NODE.itemsize
_NO_NODES = np.empty(0, np.intp)
#: The places of the extents of all rows and of the root; other nodes follow the root.
_ALL_ROWS, _ROOT = 0, 1


class PartitionScratch:
    """What a partition needs while it works; partitions of one queue may share it.

    Parameters
    ----------
    queue
        Of the device.
    n_rows
        The most rows of a partition.

    Attributes
    ----------
    every_row
        (rows,) uint32: 0, 1 and so on.
    is_left
        (rows,) uint8, by the place in the list.
    """

    def __init__(self, queue: DeviceQueue, n_rows: int) -> None:
        self._queue = queue
        self.every_row = queue.buffer_of(np.arange(n_rows, dtype=np.uint32))
        self.is_left = queue.empty(n_rows)
        self._most_tiles = 1 + tiles_of(n_rows)
        self._tile_lefts = queue.empty(4 * self._most_tiles)

    def tile_lefts(self, tiles: int) -> Buffer:
        """Return (tiles,) uint32."""
        if tiles > self._most_tiles:
            self._most_tiles = 2 * tiles
            self._tile_lefts = self._queue.empty(4 * self._most_tiles)
        return self._tile_lefts


class DevicePartition:
    """A list of rows on the device in which the rows of each node are contiguous.

    It has two sides: a node's rows are on one, its children's on the other. Where the
    rows of a node begin and end is known to the device first, and to the host when the
    queue has been read after `learn_extents`.

    Parameters
    ----------
    queue
        Of the device.
    features
        Table of `FEATURE_DTYPE`.
    words
        Of a set of bins; 0 where no feature is categorical.
    n_rows
        Number of rows.
    scratch
        For at least so many rows.

    Attributes
    ----------
    by_feature
        The bins, (columns, rows); to be set before rows are moved, marked or routed.
    n_rows
        As given.
    rows
        The list, (2, rows) uint32.
    extents
        (nodes + 1, 2) uint32: begin and end of all rows, and of each node's.
    """

    by_feature: Buffer

    def __init__(
        self,
        queue: DeviceQueue,
        features: NDArray[Any],
        words: int,
        n_rows: int,
        scratch: PartitionScratch,
    ) -> None:
        self._queue, self._features, self._words = queue, features, words
        self.n_rows, self._scratch = n_rows, scratch
        self.rows = queue.empty(LIST_BYTES * n_rows)
        #: The extents of all rows, and of a root that has all.
        self._whole = queue.buffer_of(np.array([0, n_rows] * 2, np.uint32))
        self._make_table(64)
        self._pending = _NO_NODES

    def _make_table(self, size: int) -> None:
        """Allocate for this many nodes."""
        self._table = np.zeros(size, NODE_DTYPE)
        self._lefts = np.empty((size, self._words), np.uint64)
        self._sides = np.zeros(size, np.int32)
        self._extents = np.zeros((size + 1, 2), np.uint32)
        self._extents[_ALL_ROWS] = 0, self.n_rows
        self.extents = self._queue.buffer_of(self._extents)

    def reserve(self, nodes: int) -> None:
        """Make space for this many nodes."""
        known = self._table.size
        if nodes <= known:
            return
        table, lefts, sides = self._table, self._lefts, self._sides
        extents, buffer = self._extents, self.extents
        self._make_table(max(nodes, 2 * known))
        self._table[:known], self._lefts[:known] = table, lefts
        self._sides[:known], self._extents[: known + 1] = sides, extents
        self._queue.copy(buffer, self.extents, extents.nbytes)

    def begin_tree(self, taken: NDArray[np.uint8] | None) -> None:
        """Put all rows, or those taken, into the root.

        Other rows follow at the end of the list, outside of all nodes.
        """
        queue, n_rows = self._queue, self.n_rows
        self._pending = _NO_NODES
        self._table["left"][0] = -1
        self._sides[0] = 0
        self.n_taken = n_rows if taken is None else int(np.count_nonzero(taken))
        self._extents[_ROOT] = 0, self.n_taken
        self._n_known = 1
        if taken is None:
            queue.copy(self._scratch.every_row, self.rows, 4 * n_rows)
            queue.copy(self._whole, self.extents, 16)
            return
        queue.copy(self._scratch.every_row, self.rows, 4 * n_rows, 4 * n_rows)
        node = np.zeros(2, _NODE)
        node["place"], node["side"], node["left"] = _ALL_ROWS, 1, _ROOT
        tiles = node["first_task"][1] = tiles_of(n_rows)
        mask = queue.copy_of(taken)
        found = self._scratch.is_left, self._scratch.tile_lefts(tiles)
        queue.run("find_taken", tiles, mask, np.uint32(n_rows), *found)
        self._move(queue.run, queue.copy_of(node), 0, 1, tiles)

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        """Enter the splits; rows stay in the parents until `move`."""
        self.reserve(int(left[-1]) + 2)
        enter_splits(
            nodes, splits, sets, left, self._features, self._table, self._lefts
        )
        self._sides[left] = self._sides[left + 1] = 1 - self._sides[nodes]
        # The children have at most the rows of the parent.
        self._extents[1 + left] = self._extents[2 + left] = self._extents[1 + nodes]
        self._n_known = max(self._n_known, int(left[-1]) + 2)
        pending = self._pending
        self._pending = np.concatenate([pending, nodes]) if pending.size > 0 else nodes

    def most_rows(self, nodes: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the most rows that each node may have: those of its parent.

        After `learn_extents` and a read of the queue it is the number of its rows.
        """
        begins, ends = self._extents[1 + nodes].astype(np.int64).T
        sizes: NDArray[np.int64] = ends - begins
        return sizes

    def sides(self, nodes: NDArray[np.intp]) -> NDArray[np.int32]:
        """Return the side of the list that the rows of each node are on."""
        return self._sides[nodes]

    def learn_extents(self) -> None:
        """Start to read where the rows of the nodes begin and end."""
        self._queue.start_reading(self.extents, self._extents[: self._n_known + 1])

    def _nodes(self, numbers: NDArray[np.intp], shift: int) -> NDArray[Any]:
        """Return these nodes for kernels, with children numbered from `shift`.

        Their tasks are the tiles of their rows; there is one more node with their end.
        """
        own = np.append(self._table[numbers], self._table[:1])
        nodes = np.zeros(numbers.size + 1, _NODE)
        np.cumsum(tiles_of(self.most_rows(numbers)), out=nodes["first_task"][1:])
        nodes["place"][:-1], nodes["side"][:-1] = 1 + numbers, self._sides[numbers]
        nodes["left"] = np.where(own["left"] < 0, -1, own["left"] + shift)
        for name in ("column", "low", "count", "inside_right", "is_categorical"):
            nodes[name] = own[name]
        return nodes

    def move(self) -> None:
        """Move the rows of pending splits to the children."""
        numbers, self._pending = self._pending, _NO_NODES
        if numbers.size == 0:
            return
        nodes = self._nodes(numbers, 1)
        tiles = int(nodes["first_task"][-1])
        own = self._queue.copy_of(nodes), self._queue.copy_of(self._lefts[numbers])
        self.move_from(self._queue.run, *own, 0, numbers.size, tiles)

    def move_from(
        self,
        run: Run,
        nodes: Buffer,
        lefts: Buffer,
        first: int,
        count: int,
        tiles: int,
    ) -> None:
        """Move the rows of nodes on the device that have children.

        Parameters
        ----------
        run
            Starts kernels, or records them.
        nodes, lefts
            As kernels take them, with the bit sets of their splits.
        first, count
            The nodes whose rows are moved.
        tiles
            The most tiles of their rows.
        """
        given = np.uint32(self._words), np.uint32(first), np.uint32(count)
        run(
            "find_sides",
            tiles,
            *(nodes, lefts, *given),
            self.by_feature,
            np.uint32(self.n_rows),
            self.rows,
            self.extents,
            self._scratch.is_left,
            self._scratch.tile_lefts(tiles),
        )
        self._move(run, nodes, first, count, tiles)

    def _move(
        self, run: Run, nodes: Buffer, first: int, count: int, tiles: int
    ) -> None:
        """Move the rows of nodes to the sides that were found."""
        extents, first_node = self.extents, np.uint32(first)
        is_left, tile_lefts = self._scratch.is_left, self._scratch.tile_lefts(tiles)
        run("scan_tiles", count, nodes, first_node, tile_lefts, extents)
        own = nodes, first_node, np.uint32(count), np.uint32(self.n_rows)
        run("move_rows", tiles, *own, self.rows, extents, is_left, tile_lefts)

    def mark_leaves(
        self,
        nodes: NDArray[np.intp],
        leaves: NDArray[np.intp],
        n_leaves: int,
        pair: GradientPair,
        per_unit: NDArray[np.float64],
        leaf_of: Buffer,
        sums: Buffer,
    ) -> None:
        """Write the leaf of each row to `leaf_of`, and add the pair to `sums`.

        `per_unit` is what g and h are multiplied by. `nodes` are those without
        children, and ``leaves[i]`` the leaf of ``nodes[i]``; rows in no node have leaf
        `n_leaves`. Rows of pending splits are routed from the parents.
        """
        self._leaf_of_node = np.zeros(self._table.size, np.int32)
        self._leaf_of_node[nodes] = leaves
        waiting, left = self._pending, self._table["left"][self._pending]
        moved = np.setdiff1d(nodes, np.concatenate([left, left + 1]))
        numbers = np.concatenate([moved, waiting])
        own = self._nodes(numbers, 0)
        own["left_leaf"][: moved.size] = self._leaf_of_node[moved]
        own["left_leaf"][moved.size : -1] = self._leaf_of_node[left]
        own["right_leaf"][moved.size : -1] = self._leaf_of_node[left + 1]
        copy_of = self._queue.copy_of
        of_nodes = copy_of(own), copy_of(self._lefts[numbers]), numbers.size
        tiles = int(own["first_task"][-1])
        self.mark_from(*of_nodes, tiles, pair, per_unit, leaf_of, sums)
        self.mark_left_out(n_leaves, leaf_of)

    def mark_from(
        self,
        nodes: Buffer,
        lefts: Buffer,
        count: int,
        tiles: int,
        pair: GradientPair,
        per_unit: NDArray[np.float64],
        leaf_of: Buffer,
        sums: Buffer,
    ) -> None:
        """Do the same for nodes on the device, which have leaves.

        `tiles` is the most tiles of their rows.
        """
        self._queue.run(
            "mark_leaves",
            tiles,
            nodes,
            lefts,
            np.uint32(self._words),
            np.uint32(count),
            self.by_feature,
            np.uint32(self.n_rows),
            self.rows,
            self.extents,
            *pair.buffers,
            *per_unit,
            leaf_of,
            sums,
            reals=pair.dtype,
        )

    def mark_left_out(self, n_leaves: int, leaf_of: Buffer) -> None:
        """Write leaf `n_leaves` to `leaf_of` for rows that are in no node."""
        self._run_left_out("mark_left_out", (), (np.uint32(n_leaves), leaf_of))

    def enter_tree(
        self,
        left: NDArray[np.int32],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        leaf_of: Buffer,
    ) -> None:
        """Enter a tree that has grown on the device, if rows are outside of it.

        Their leaf is written to `leaf_of` as by `mark_leaves`.
        """
        if self.n_taken == self.n_rows:
            return
        self.reserve(left.size)
        inner, leaves = (left >= 0).nonzero()[0], (left < 0).nonzero()[0]
        own = inner, splits[inner], sets[inner], left[inner].astype(np.intp)
        enter_splits(*own, self._features, self._table, self._lefts)
        self._n_known = left.size
        self._leaf_of_node = np.zeros(self._table.size, np.int32)
        self._leaf_of_node[leaves] = np.arange(leaves.size)
        self.mark_left_out(leaves.size, leaf_of)

    def route_left_out(self, leaf_of: Buffer) -> None:
        """Write the leaf of each row that is not in the sample, from the root."""
        if self.n_taken == self.n_rows:
            return
        numbers = np.arange(self._n_known)
        nodes, words = self._nodes(numbers, 0), np.uint32(self._words)
        nodes["left_leaf"][:-1] = self._leaf_of_node[numbers]
        of_nodes = self._queue.copy_of(nodes), self._queue.copy_of(self._lefts[numbers])
        own = *of_nodes, words, self.by_feature
        self._run_left_out("route_rows", own, (leaf_of,))

    def _run_left_out(
        self, name: str, before: tuple[Any, ...], after: tuple[Any, ...]
    ) -> None:
        """Run a kernel on the rows that are not in the sample."""
        count = self.n_rows - self.n_taken
        rows = self.rows, np.uint32(self.n_taken), np.uint32(self.n_rows)
        self._queue.run(name, tiles_of(count), *before, *rows, *after)
