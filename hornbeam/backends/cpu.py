"""The codes of all cells in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.base import DenseCodes, Growth, RowSample
from hornbeam.backends.memory import CELLS_PER_ROW, RowsBackend
from hornbeam.kernels.histogram import build_histograms
from hornbeam.kernels.layout import (
    BYTE_CELLS,
    JOIN_CELLS,
    NODE_DTYPE,
    SPLIT_DTYPE,
    TASK_ROWS,
)
from hornbeam.kernels.partition import (
    mark_leaves,
    partition_rows,
    route_rows,
)
from hornbeam.kernels.plan import (
    enter_splits,
    plan_histograms,
    plan_leaves,
    plan_partition,
    settle_children,
)
from hornbeam.kernels.split import find_splits

__all__ = ["CpuBackend"]

#: Memory for the histograms of one training.
_HISTOGRAM_BYTES = 1 << 30
#: Packed cells of one task: what fits in the second-level cache.
_SCRATCH_CELLS = 1 << 16
#: Cells of one split task.
_SPLIT_CELLS = 1 << 15
#: The cost of one bin in the search for splits, in cells of a histogram.
_CELLS_PER_BIN = 4
_NO_MASK = np.empty((0, 0), np.uint8)
_NO_NODES = np.empty(0, np.intp)


class CpuBackend(RowsBackend):
    """Codes of all cells in memory, and histograms of them.

    Parameters
    ----------
    codes
        Bin numbers of all cells.
    labels, weights, scores, threads
        As for `RowsBackend`.
    max_histograms
        The most histograms kept at once; None: what fits in one GiB.
    """

    def __init__(
        self,
        codes: DenseCodes,
        labels: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        scores: NDArray[np.float64],
        *,
        threads: int = 0,
        max_histograms: int | None = None,
    ) -> None:
        super().__init__(labels, weights, scores, threads)
        self._by_feature, self._by_row = codes.by_feature, codes.by_row
        layout = codes.layout
        self._offsets = layout.offsets
        self._cells_of = np.diff(layout.offsets)
        self._features = layout.feature_table
        #: The features of the tree, none before the first.
        self._chosen = np.empty(0, np.uint64)
        rows = self._n_rows
        self._rows = np.empty((2, rows), np.uint32)
        self._init_histograms(max_histograms)
        self._widest = int(layout.bins.max())
        categories = layout.most_categories
        # Each category may go alone, with the missing and without them.
        candidates = max(self._widest, 2 * categories)
        self._split_scratch = np.empty((self._team.size, 5, candidates + 1))
        self._set_words = -(-categories // 64)
        self._nodes = np.zeros(64, NODE_DTYPE)
        # A code may go left that is no category: that of the missing.
        words = -(-int(self._cells_of.max()) // 64) if categories > 0 else 0
        self._lefts = np.empty((64, words), np.uint64)
        self._every_row = np.arange(rows, dtype=np.uint32)

    def _init_histograms(self, most: int | None) -> None:
        self._cells = int(self._offsets[-1])
        self._n_slabs = 5 * self._team.size
        if most is None:
            most = _HISTOGRAM_BYTES // (16 * self._cells)
        # Six is what splitting one node takes: see `find_splits`.
        self._n_slots = max(6, min(most, 2 * self._n_rows + 1))
        # Pages of memory are only taken when a histogram is written to them. Zeros,
        # because joins also go over the cells of columns that a tree does not use.
        self._histograms = np.zeros(
            (self._n_slots + self._n_slabs, 2, self._cells), np.int64
        )
        # Bytes have as many cells each, so that kernels know where one is.
        is_byte = self._by_row.dtype.itemsize == 1
        self._packed_cells = self._cells_of.copy()
        if is_byte:
            self._packed_cells[:] = BYTE_CELLS
        most_packed = max(_SCRATCH_CELLS, int(self._packed_cells.max()))
        cells = min(most_packed, int(self._packed_cells.sum()))
        self._scratch = np.zeros((self._team.size, cells), np.int64)
        self._slots_in_order = np.arange(self._n_slots)[::-1]
        self._free = np.empty(self._n_slots, np.int64)
        self._state = np.zeros(3, np.int64)

    @property
    def n_features(self) -> int:
        return self._features.size

    def begin_tree(
        self,
        output: int,
        growth: Growth,
        features: NDArray[np.uint64],
        sample: RowSample | None,
    ) -> None:
        self._rules = growth.rules
        if not np.array_equal(features, self._chosen):
            self._chosen = features
            self._choose_columns()
        self._quantise(output)
        rows = self._n_rows
        if sample is None:
            self._rows[0] = self._every_row
            self._left_out = np.empty(0, np.uint32)
        else:
            taken = self._draw(sample)
            chosen = np.flatnonzero(taken)
            rows = chosen.size
            self._rows[0, :rows] = chosen
            self._left_out = np.flatnonzero(taken == 0).astype(np.uint32)
        self._nodes["slot"] = -1
        root = self._nodes[0]
        root["side"], root["begin"], root["end"] = 0, 0, rows
        root["parent"] = root["left"] = -1
        self._waiting = _NO_NODES
        self._free[:] = self._slots_in_order
        self._state[0] = self._n_slots

    def _choose_columns(self) -> None:
        """Take the columns of the tree's features, and say which task sums which."""
        columns = np.unique(self._features["column"][self._chosen])
        self._columns = columns.astype(np.uint64)
        cells = self._packed_cells[columns]
        ends = np.cumsum(cells)
        blocks = [0]
        while blocks[-1] < columns.size:
            begin = blocks[-1]
            most = int(ends[begin] - cells[begin]) + self._scratch.shape[1]
            blocks.append(int(np.searchsorted(ends, most, side="right")))
        self._blocks = np.array(blocks)
        first = np.repeat(self._blocks[:-1], np.diff(self._blocks))
        self._starts = (ends - cells - (ends - cells)[first]).astype(np.uint64)
        # Any column counts each row once; the narrowest is added up soonest.
        narrow = columns[self._cells_of[columns].argmin()]
        self._totals = self._offsets[narrow : narrow + 2]

    def find_splits(
        self, nodes: NDArray[np.intp], allowed: NDArray[np.uint8] | None
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        # A batch may need a slot for each node beside those of the nodes' parents.
        batch = self._n_slots // 3 & ~1
        if nodes.size <= batch:
            return self._find_splits(nodes, allowed)
        parts = []
        for i in range(0, nodes.size, batch):
            mask = None if allowed is None else allowed[i : i + batch]
            parts.append(self._find_splits(nodes[i : i + batch], mask))
        splits, sets = zip(*parts, strict=True)
        return np.concatenate(splits), np.concatenate(sets)

    def _find_splits(
        self, nodes: NDArray[np.intp], allowed: NDArray[np.uint8] | None
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        self._move_rows()
        self._build_histograms(nodes)
        features = self._chosen.size
        members = self._team.members_for(
            _CELLS_PER_BIN * features * self._widest * nodes.size
        )
        block = features
        if members > 1:
            block = max(1, min(features, _SPLIT_CELLS // self._widest))
        parts = -(-features // block)
        splits = np.empty((nodes.size, parts), SPLIT_DTYPE)
        words = self._set_words
        sets = np.empty((nodes.size, parts, words), np.uint64 if words else np.uint8)
        self._team.run(
            find_splits,
            members,
            self._nodes["slot"][nodes],
            self._histograms,
            self._totals,
            self._chosen,
            _NO_MASK if allowed is None else allowed,
            self._features,
            self._steps,
            self._rules,
            self._split_scratch,
            block,
            splits,
            sets,
        )
        sets = sets.view(np.uint64)
        if parts == 1:
            return splits[:, 0], sets[:, 0]
        best = splits["gain"].argmax(axis=1)  # the first of equals: lowest feature
        every = np.arange(nodes.size)
        return splits[every, best], sets[every, best]

    def _build_histograms(self, nodes: NDArray[np.intp]) -> None:
        blocks = self._blocks.size - 1
        tasks = np.empty(((nodes.size + self._n_slabs) * blocks, 6), np.int64)
        joins = np.empty((nodes.size * (self._cells // JOIN_CELLS + 1), 6), np.int64)
        members = plan_histograms(
            nodes,
            self._nodes,
            self._free,
            self._state,
            self._team.size,
            self._blocks,
            self._cells,
            self._n_slots,
            np.empty((nodes.size, 2), np.int64),
            tasks,
            joins,
        )
        self._team.run(
            build_histograms,
            members,
            tasks[: self._state[1]],
            joins[: self._state[2]],
            self._by_row,
            self._columns,
            self._offsets,
            self._rows,
            self._packed if self._coarse else self._packed[:0],
            self._wide,
            self._scratch,
            self._starts,
            self._histograms,
        )

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        # Rows only move when splits of the children are looked for: the last level's
        # stay where they are.
        self._move_rows()
        last = int(left[-1]) + 2
        if last > self._nodes.size:
            more = np.zeros(max(last, 2 * self._nodes.size), NODE_DTYPE)
            more["slot"] = -1
            more[: self._nodes.size] = self._nodes
            lefts = np.empty((more.size, self._lefts.shape[1]), np.uint64)
            lefts[: self._nodes.size] = self._lefts
            self._nodes, self._lefts = more, lefts
        enter_splits(
            nodes, splits, sets, left, self._features, self._nodes, self._lefts
        )
        self._waiting = nodes

    def _move_rows(self) -> None:
        """Send the rows that wait at split nodes to the children."""
        nodes, self._waiting = self._waiting, _NO_NODES
        if nodes.size == 0:
            return
        most_tasks = nodes.size + 5 * self._team.size
        tasks = np.empty((most_tasks, 5), np.int64)
        counts = np.empty(most_tasks, np.int64)
        n_tasks, members = plan_partition(nodes, self._nodes, self._team.size, tasks)
        tasks = tasks[:n_tasks]
        self._team.run(
            partition_rows,
            members,
            tasks,
            self._nodes,
            self._lefts,
            self._by_feature,
            self._rows,
            counts,
        )
        settle_children(tasks, counts, self._nodes)

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.float64]:
        members = self._team.members_for(CELLS_PER_ROW * self._n_rows)
        most_tasks = nodes.size + self._waiting.size + self._n_rows // TASK_ROWS
        tasks = np.empty((most_tasks, 5), np.int64)
        self._leaf_of_node = np.zeros(self._nodes.size, np.uint32)
        self._leaf_of_node[nodes] = leaves
        n_tasks = plan_leaves(
            nodes, self._waiting, self._nodes, members, self._leaf_of_node, tasks
        )
        # Rows that are left out of the sample go to a sum that nobody reads.
        if self._left_out.size > 0:
            self._leaf_of[self._left_out] = n_leaves
        self._team.run(
            mark_leaves,
            members,
            tasks[:n_tasks],
            self._nodes,
            self._lefts,
            self._by_feature,
            self._rows,
            self._leaf_of_node,
            self._leaf_of,
        )
        return self._sum_leaf_of(n_leaves)

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        if self._left_out.size > 0:
            self._run_rows(
                route_rows,
                8 * self._left_out.size,
                self._left_out,
                self._by_feature,
                self._nodes,
                self._lefts,
                self._leaf_of_node,
                self._leaf_of,
            )
        self._add_values(values)
