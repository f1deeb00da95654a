"""Grows whole trees of rows in memory, each in one call of a kernel."""

from __future__ import annotations

from operator import is_
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import (
    NO_FEATURES,
    Constraints,
    GrownTree,
    GrowthLimits,
)
from hornbeam.backends.row_partition import RowPartition
from hornbeam.kernels.histogram import HistogramBuffers, QuantisedGradients
from hornbeam.kernels.layout import JOIN_BINS, SPLIT_DTYPE, TASK_ROWS, SplitRules
from hornbeam.kernels.leaves import NodeColumns
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.sampling import ColumnDraws
from hornbeam.kernels.sync import SYNC_SIZE
from hornbeam.kernels.team import Team
from hornbeam.kernels.tree import grow_tree
from hornbeam.kernels.tree_tables import (
    BEYOND,
    END,
    FULL,
    N_LEAVES,
    N_NODES,
    N_PENDING,
    STATE_SIZE,
    STATUS,
    BoundTables,
    GradientColumns,
    GrowthRules,
    HistogramPool,
    LeafGradients,
    OutputColumns,
    TreeBuffers,
    TreeFeatures,
    TreeLeaves,
    TreeLimits,
    TreeRows,
    TreeTables,
)

__all__ = ["TreeGrower", "TreeRoot", "TreeSearch", "features_of_task"]

#: The least histogram bins of one task of the split search.
_SPLIT_CELLS = 1 << 12
#: The most nodes whose histograms are built before they are searched.
_MOST_NODES = 1024
#: The state of a tree of the root alone, which the kernel continues.
_STATE_OF_ROOT = np.zeros(STATE_SIZE, np.int64)
_STATE_OF_ROOT[[N_NODES, N_LEAVES, END]] = 1
_STATE_OF_ROOT[STATUS] = FULL
#: No parent, no slot, no sum of hessians yet, depth 0.
_FAMILY_OF_ROOT = np.array([-1, -1, 0, 0])


def features_of_task(features: int, bins: int, threads: int) -> int:
    """Return how many of the features, of at most `bins` bins, a task searches."""
    return min(features, max(-(-features // threads), _SPLIT_CELLS // bins))


class TreeRoot(NamedTuple):
    """The root of a tree of rows in memory, and memory for building histograms.

    Attributes
    ----------
    rows
        Of the tree.
    gradients
        In fixed point; None: the tree has several outputs.
    columns
        The gradient columns of a multi-output tree; None: it has one output.
    leaves
        The gradients that leaves are summed of, and an array (rows,) uint32 for the
        leaf of each row.
    partition
        Of the rows among the nodes.
    blocks
        (blocks + 1,) int64: the first columns of tasks that build histograms.
    slabs
        (slabs, 2, bins) int64: for partial sums of nodes of many rows.
    histogram_buffers
        Memory of the threads that build histograms.
    units
        A gradient of 0 and a hessian of 1 for each row, where rows are counted.
    outputs
        Of the tree.
    """

    rows: TreeRows
    gradients: QuantisedGradients | None
    columns: GradientColumns | None
    leaves: tuple[LeafGradients, NDArray[np.uint32]]
    partition: RowPartition
    blocks: NDArray[np.int64]
    slabs: NDArray[np.int64]
    histogram_buffers: HistogramBuffers
    units: QuantisedGradients
    outputs: int


class TreeSearch(NamedTuple):
    """How the splits of a tree are searched.

    Attributes
    ----------
    histograms
        (slots, 2 or 3, bins) int64; rows are counted in the third part. In multi-output
        trees they are those of the first column.
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
        (columns, 2) float64: the same of the sums of leaves.
    columns
        Of a multi-output tree; None: it has one output.
    rules
        Of splits and leaf weights.
    limits
        The constraints of the split search, as yet of no node; None: none.
    constraints
        Of the tree; None: none.
    """

    histograms: NDArray[np.int64]
    free: NDArray[np.int64]
    candidates: int
    features: NDArray[np.void]
    chosen: NDArray[np.uint64]
    every_row: NDArray[np.int64]
    scales: NDArray[np.float64]
    leaf_scales: NDArray[np.float64]
    columns: OutputColumns | None
    rules: SplitRules
    limits: NodeConstraints | None
    constraints: Constraints | None


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
        #: Columns of gradients that leaves are summed of, and outputs of the tree.
        self._width = 1, 1
        #: The arrays of `TreeLeaves` that are as long as the tables.
        self._leaves: tuple[Any, ...] = ()
        #: (columns, nodes) of each type: left, parent and `NodeColumns`, of which the
        #: values and weights of all outputs are the last.
        self._columns: list[NDArray[Any]] = []
        self._bounded: BoundTables | None = None
        self._buffers: TreeBuffers | None = None
        #: Threads and arguments of the kernel, and what they were made of: the same
        #: objects in most trees.
        self._call: tuple[int, tuple[Any, ...]] = 0, ()
        self._made_of: tuple[Any, ...] = ()

    def grow(
        self,
        root: TreeRoot,
        search: TreeSearch,
        limits: GrowthLimits,
        draws: ColumnDraws,
        learning_rate: float | None,
    ) -> GrownTree:
        """Return the tree that grows from this root; see `Backend.grow`."""
        given = root, search, limits, draws, learning_rate
        made_of = (*root, *given[1:], root.partition.table)
        if not (self._made_of and all(map(is_, made_of, self._made_of))):
            self._prepare(*given, 128)
        threads, arguments = self._call
        state = self._state
        state[:] = _STATE_OF_ROOT
        *_, limited, tables, _, _ = arguments
        tables.family[:, 0] = _FAMILY_OF_ROOT
        tables.used[0] = 0
        if limited is not None:
            limited.tables.weights[0] = np.nan
            limited.tables.bounds[0] = -np.inf, np.inf
            limited.tables.left[:] = -1
        self._team.run(grow_tree, threads, *arguments)
        while state[STATUS] == FULL:
            self._prepare(*given, 2 * tables.nodes.size)
            threads, arguments = self._call
            *_, limited, tables, _, _ = arguments
            self._team.run(grow_tree, threads, *arguments)
        count = int(state[N_NODES])
        splits, sets = tables.splits[:count], tables.sets[:count].view(np.uint64)
        if learning_rate is None:
            root.partition.wait(tables.pending[: state[N_PENDING]])
            left = tables.nodes["left"][:count].astype(np.int32)
            parent = tables.family[0, :count].astype(np.int32)
            sides = None if limited is None else limited.tables.sides[:count]
            return GrownTree(left, parent, splits, sets, sides=sides)
        integers, flags, floats = self._columns
        left, parent, right, feature = integers[:, :count].copy()
        default_left, split_type = flags[:, :count].copy()
        gain, cover, *of_outputs = floats = floats[:, :count].copy()
        if search.columns is not None:  # (nodes, outputs)
            of_outputs = [
                np.ascontiguousarray(floats[first : first + root.outputs].T)
                for first in (2, 2 + root.outputs)
            ]
        value, weight = of_outputs
        of_nodes = NodeColumns(
            right, feature, default_left, split_type, value, gain, cover, weight
        )
        return GrownTree(left, parent, splits, sets, of_nodes, bool(state[BEYOND]))

    def _prepare(
        self,
        root: TreeRoot,
        search: TreeSearch,
        limits: GrowthLimits,
        draws: ColumnDraws,
        learning_rate: float | None,
        nodes: int,
    ) -> None:
        """Make the arguments of the kernel, with tables of at least this many nodes."""
        rows, columns = root.rows, search.columns
        width = 1 if columns is None else len(columns.scales)
        cells = rows.rows.shape[1] * rows.columns.chosen.size
        threads = self._team.threads_for(width * cells)
        constraints = search.constraints
        groups = None if constraints is None else constraints.groups
        features = TreeFeatures(
            search.features,
            search.chosen,
            draws,
            NO_FEATURES if groups is None else groups,
            search.every_row,
            root.blocks,
            features_of_task(search.chosen.size, width * search.candidates, threads),
        )
        counts_rows = search.histograms.shape[1] > 2
        gradients = root.gradients
        packs = (
            gradients is not None
            and gradients.packed.size > 0
            and rows.columns.histogram_bins.size == 0
        )
        rules = GrowthRules(
            search.rules,
            search.scales,
            limits.least_gain,
            limits.max_depth,
            limits.max_leaves,
            limits.lossguide,
            packs and not counts_rows,
            width,
        )
        pool = HistogramPool(search.histograms, root.slabs, search.free)
        tables, buffers = self._allocate(root, features, search, nodes)
        limited = None if search.limits is None else self._limit(root, search)
        leaves = TreeLeaves(
            *root.leaves,
            search.leaf_scales,
            learning_rate is not None,
            learning_rate or 0.0,
            *self._leaves,
        )
        of_tree = rows, gradients, columns, pool, features, rules
        self._call = threads, (*of_tree, limited, tables, buffers, leaves)
        partition = root.partition
        self._made_of = (*root, search, limits, draws, learning_rate, partition.table)

    def _allocate(
        self, root: TreeRoot, features: TreeFeatures, search: TreeSearch, nodes: int
    ) -> tuple[TreeTables, TreeBuffers]:
        """Return tables of at least this many nodes, and buffers that go with them."""
        root.partition.reserve(nodes)
        width = len(search.leaf_scales), root.outputs
        old, words = self._tables, 0
        if search.constraints is not None and search.constraints.follow_paths:
            words = -(-search.features.size // 64)
        # The kernel is compiled without categories for sets of bytes, of which there
        # are none then. With limits it is compiled for both at once.
        has_sets = self._words > 0 or search.limits is not None
        sets = np.dtype(np.uint64 if has_sets else np.uint8)
        if old is not None and (old.used.shape[1], old.sets.dtype) != (words, sets):
            old = None
        if old is None or old.nodes is not root.partition.table or self._width != width:
            self._width = width
            self._tables = self._new_tables(root.partition, old, words, sets)
            self._leaves = self._new_leaves(root.partition)
            self._buffers = None
        assert self._tables is not None
        tables, buffers = self._tables, self._buffers
        parts = -(-features.chosen.size // features.block)
        blocks, team = features.blocks.size - 1, self._team.size
        batch = min(tables.nodes.size, _MOST_NODES)
        columns = 0
        if search.limits is not None and search.columns is not None:
            columns = len(search.columns.scales)
        tasks = (batch + 9 * team) * blocks
        if (
            buffers is None
            or buffers.found.shape[1] != parts
            or buffers.found_sides.shape[2] != columns
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
                np.empty((batch, parts, columns, 2)),
                root.histogram_buffers,
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
        self,
        partition: RowPartition,
        old: TreeTables | None,
        path_words: int,
        sets: np.dtype[Any],
    ) -> TreeTables:
        """Return tables of the size of the partition's, with the old ones' contents."""
        size = partition.table.size
        tables = TreeTables(
            partition.table,
            partition.lefts,
            np.zeros(size, SPLIT_DTYPE),
            np.zeros((size, self._words), sets),
            np.empty((size, path_words), np.uint64),
            np.empty((4, size), np.int64),
            np.empty(size, np.int64),
            np.empty(size, np.int64),
            self._state,
        )
        if old is not None:
            count = min(size, old.splits.size)
            tables.family[:, :count] = old.family[:, :count]
            for name in ("splits", "sets", "used", "queue", "pending"):
                getattr(tables, name)[:count] = getattr(old, name)[:count]
        return tables

    def _new_leaves(self, partition: RowPartition) -> tuple[Any, ...]:
        """Return the arrays of `TreeLeaves` for tables of the partition's size."""
        size, team = partition.table.size, self._team.size
        columns, outputs = self._width
        # The columns of one type are in one array, so that they are copied in one go.
        kinds = (4, np.int32), (2, np.uint8), (2 + 2 * outputs, np.float32)
        self._columns = [np.empty((count, size), dtype) for count, dtype in kinds]
        (left, parent, right, feature), flags, floats = self._columns
        (default_left, split_type), (gain, cover) = flags, floats[:2]
        value, weight = floats[2 : 2 + outputs], floats[2 + outputs :]
        return (
            np.empty(size, np.int64),
            partition.leaf_of_node,
            np.empty((size + 1 + partition.every_row.size // TASK_ROWS, 5), np.int64),
            np.empty((columns, team, size + 1, 2), np.int64),
            np.empty((columns, size, 2)),
            np.empty((columns, size)),
            left,
            parent,
            NodeColumns(
                right, feature, default_left, split_type, value, gain, cover, weight
            ),
        )

    def _limit(self, root: TreeRoot, search: TreeSearch) -> TreeLimits:
        """Return the constraints of as many nodes as there are tables for."""
        limits, constraints = search.limits, search.constraints
        assert limits is not None
        columns = 1 if search.columns is None else len(search.columns.scales)
        size, old = root.partition.table.size, self._bounded
        if old is None or old.weights.shape != (size, columns):
            new = self._bounded = BoundTables(
                np.empty((size, columns)),
                np.empty((size, columns, 2)),
                np.full(size, -1, np.int32),
                np.empty(size, np.int8),
                np.empty((size, columns, 2)),
                np.empty((size, columns, 2)),
                np.empty(size, np.uint8),
                np.empty((size, 2)),
                np.empty(size, np.uint8),
            )
            if old is not None and old.weights.shape[1] == columns:
                count = min(size, old.left.size)
                for name in BoundTables._fields:
                    getattr(new, name)[:count] = getattr(old, name)[:count]
        own = self._bounded
        assert own is not None
        assert self._tables is not None
        of_nodes = limits._replace(
            weights=own.weights, bounds=own.bounds, used=self._tables.used
        )
        if search.columns is None:
            of_nodes = of_nodes._replace(
                weights=own.weights[:, 0], bounds=own.bounds[:, 0]
            )
        follows = constraints is not None and constraints.bounds_follow
        return TreeLimits(of_nodes, own, follows, root.units)
