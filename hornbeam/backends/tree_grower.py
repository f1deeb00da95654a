"""Grows whole trees of rows in memory, each in one call of a kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import GrownTree, GrowthLimits
from hornbeam.backends.row_partition import RowPartition
from hornbeam.kernels.layout import JOIN_BINS, SPLIT_DTYPE, TASK_ROWS, SplitRules
from hornbeam.kernels.leaves import NodeColumns
from hornbeam.kernels.sampling import ColumnDraws
from hornbeam.kernels.sync import SYNC_SIZE
from hornbeam.kernels.team import Team
from hornbeam.kernels.tree import grow_tree
from hornbeam.kernels.tree_tables import (
    BEYOND,
    FULL,
    N_NODES,
    N_PENDING,
    STATE_SIZE,
    STATUS,
    GrowthRules,
    HistogramPool,
    LeafGradients,
    TreeBuffers,
    TreeFeatures,
    TreeLeaves,
    TreeRows,
    TreeTables,
)

__all__ = ["TreeGrower", "TreeRoot", "TreeSearch", "features_of_task"]

#: Histogram bins of one task of the split search.
_SPLIT_CELLS = 1 << 15
#: The most nodes whose histograms are built before they are searched.
_MOST_NODES = 1024


def features_of_task(features: int, bins: int, threads: int) -> int:
    """Return how many of the features, of at most `bins` bins, a task searches."""
    return features if threads == 1 else max(1, min(features, _SPLIT_CELLS // bins))


class TreeRoot(NamedTuple):
    """The root of a tree of rows in memory, and memory for building histograms.

    Attributes
    ----------
    rows
        Of the tree.
    leaves
        The gradients that leaves are summed of, and an array (rows,) uint32 for the
        leaf of each row.
    partition
        Of the rows among the nodes.
    blocks
        (blocks + 1,) int64: the first columns of tasks that build histograms.
    slabs
        (slabs, 2, bins) int64: for partial sums of nodes of many rows.
    packed
        (threads, bins of a task) int64, zeros: for packed sums.
    """

    rows: TreeRows
    leaves: tuple[LeafGradients, NDArray[np.uint32]]
    partition: RowPartition
    blocks: NDArray[np.int64]
    slabs: NDArray[np.int64]
    packed: NDArray[np.int64]


class TreeSearch(NamedTuple):
    """How the splits of a tree are searched.

    Attributes
    ----------
    histograms
        (slots, 2, bins) int64.
    free
        (slots + 1,) int64: a stack of free slots; its last number is its height.
    candidates
        The most candidates of a feature, plus 1.
    features
        Table of `FEATURE_DTYPE`.
    chosen
        (chosen,) uint64: the features of the tree, ascending.
    every_row
        (2,) int64: begin and end of histogram bins that count each row once.
    scales
        (2,) float64: the value of one unit of gradient and hessian sums.
    leaf_scales
        (2,) float64: the same of the sums of leaves.
    rules
        Of splits and leaf weights.
    """

    histograms: NDArray[np.int64]
    free: NDArray[np.int64]
    candidates: int
    features: NDArray[np.void]
    chosen: NDArray[np.uint64]
    every_row: NDArray[np.int64]
    scales: NDArray[np.float64]
    leaf_scales: NDArray[np.float64]
    rules: SplitRules


class TreeGrower:
    """Memory for growing trees of the same rows, one after the other.

    Parameters
    ----------
    bins
        Of a histogram.
    words
        Of a set of categories; 0 where no feature is categorical.
    team
        The threads that work.
    """

    def __init__(self, bins: int, words: int, team: Team) -> None:
        self._team, self._words = team, words
        self._sums = np.zeros((team.size, bins), np.int64)
        self._touched = np.zeros((team.size, bins // 64 + 1), np.uint64)
        self._state = np.zeros(STATE_SIZE, np.int64)
        self._sync = np.zeros(SYNC_SIZE, np.int64)
        self._tables: TreeTables | None = None
        #: The arrays of `TreeLeaves` that are as long as the tables.
        self._leaves: tuple[Any, ...] = ()
        #: (columns, nodes) of each type: left, parent and `NodeColumns`.
        self._columns: list[NDArray[Any]] = []
        self._buffers: TreeBuffers | None = None

    def grow(
        self,
        root: TreeRoot,
        search: TreeSearch,
        limits: GrowthLimits,
        draws: ColumnDraws,
        learning_rate: float | None,
    ) -> GrownTree:
        """Return the tree that grows from this root; see `Backend.grow`."""
        rows = root.rows
        threads = self._team.threads_for(rows.rows.shape[1] * rows.columns.chosen.size)
        features = TreeFeatures(
            search.features,
            search.chosen,
            draws,
            search.every_row,
            root.blocks,
            features_of_task(search.chosen.size, search.candidates, threads),
        )
        packs = rows.gradients.packed.size > 0 and rows.columns.histogram_bins.size == 0
        rules = GrowthRules(
            search.rules,
            search.scales,
            0.0 if limits.prunes else float(limits.gamma),
            limits.max_depth,
            limits.max_leaves,
            limits.lossguide,
            packs,
        )
        pool = HistogramPool(search.histograms, root.slabs, search.free)
        state = self._state
        state[:] = 0
        state[:4] = 1, 1, 0, 1
        tables, buffers = self._allocate(root, features, search, 128)
        tables.family[:, 0] = -1, -1, 0, 0
        state[STATUS] = FULL
        while state[STATUS] == FULL:
            leaves = TreeLeaves(
                *root.leaves,
                search.leaf_scales,
                learning_rate is not None,
                learning_rate or 0.0,
                *self._leaves,
            )
            self._team.run(
                grow_tree, threads, rows, pool, features, rules, tables, buffers, leaves
            )
            if state[STATUS] == FULL:
                size = 2 * tables.nodes.size
                tables, buffers = self._allocate(root, features, search, size)
        count = int(state[N_NODES])
        splits, sets = tables.splits[:count], tables.sets[:count].view(np.uint64)
        if learning_rate is None:
            root.partition.wait(tables.pending[: state[N_PENDING]])
            left = tables.nodes["left"][:count].astype(np.int32)
            parent = tables.family[0, :count].astype(np.int32)
            return GrownTree(left, parent, splits, sets)
        integers, flags, floats = [own[:, :count].copy() for own in self._columns]
        left, parent, right, feature = integers
        columns = NodeColumns(right, feature, *flags, *floats)
        return GrownTree(left, parent, splits, sets, columns, bool(state[BEYOND]))

    def _allocate(
        self, root: TreeRoot, features: TreeFeatures, search: TreeSearch, nodes: int
    ) -> tuple[TreeTables, TreeBuffers]:
        """Return tables of at least this many nodes, and buffers that go with them."""
        root.partition.reserve(nodes)
        if self._tables is None or self._tables.nodes is not root.partition.table:
            self._tables = self._new_tables(root.partition, self._tables)
            self._leaves = self._new_leaves(root.partition)
            self._buffers = None
        tables, buffers = self._tables, self._buffers
        parts = -(-features.chosen.size // features.block)
        blocks, team = features.blocks.size - 1, self._team.size
        batch = min(tables.nodes.size, _MOST_NODES)
        tasks = (batch + 5 * team) * blocks
        if (
            buffers is None
            or buffers.found.shape[1] != parts
            or len(buffers.tasks) != tasks
            or buffers.values.shape[2] != search.candidates
        ):
            bins, size = self._sums.shape[1], tables.nodes.size
            buffers = self._buffers = TreeBuffers(
                np.empty((4, size), np.int64),
                np.empty((2, size), np.int64),
                np.empty((size + 5 * team, 5), np.int64),
                np.empty(size + 5 * team, np.int64),
                np.empty((tasks, 7), np.int64),
                np.empty((batch * (bins // JOIN_BINS + 1), 5), np.int64),
                np.empty((batch, parts), SPLIT_DTYPE),
                np.empty((batch, parts, self._words), tables.sets.dtype),
                root.packed,
                np.empty((team, 3, features.table.size), np.uint64),
                np.empty((team, features.table.size), np.uint8),
                np.empty((team, 8, search.candidates)),
                np.arange(search.candidates),
                self._sums,
                self._touched,
                self._sync,
            )
        return tables, buffers

    def _new_tables(
        self, partition: RowPartition, old: TreeTables | None
    ) -> TreeTables:
        """Return tables of the size of the partition's, with the old ones' contents."""
        size = partition.table.size
        tables = TreeTables(
            partition.table,
            partition.lefts,
            np.zeros(size, SPLIT_DTYPE),
            np.zeros((size, self._words), np.uint64 if self._words else np.uint8),
            np.empty((4, size), np.int64),
            np.empty(size, np.int64),
            np.empty(size, np.int64),
            self._state,
        )
        if old is not None:
            count = min(size, old.splits.size)
            tables.family[:, :count] = old.family[:, :count]
            for name in ("splits", "sets", "queue", "pending"):
                getattr(tables, name)[:count] = getattr(old, name)[:count]
        return tables

    def _new_leaves(self, partition: RowPartition) -> tuple[Any, ...]:
        """Return the arrays of `TreeLeaves` for tables of the partition's size."""
        size, team = partition.table.size, self._team.size
        # The columns of one type are in one array, so that they are copied in one go.
        kinds = (4, np.int32), (2, np.uint8), (4, np.float32)
        self._columns = [np.empty((count, size), dtype) for count, dtype in kinds]
        left, parent, *columns = (own for table in self._columns for own in table)
        new = NodeColumns(*columns)
        return (
            np.empty(size, np.int64),
            partition.leaf_of_node,
            np.empty((size + 1 + partition.every_row.size // TASK_ROWS, 5), np.int64),
            np.empty((team, size + 1, 2), np.int64),
            np.empty((1, size, 2)),
            np.empty((1, size)),
            left,
            parent,
            new._replace(value=new.value[:, None], weight=new.weight[:, None]),
        )
