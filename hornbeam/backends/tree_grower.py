"""Grows whole trees of rows in memory, each in one call of a kernel."""

from __future__ import annotations

from operator import is_
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import (
    NO_FEATURES,
    Constraints,
    GrownRounds,
    GrownTree,
    GrowthLimits,
)
from hornbeam.backends.round_grower import RoundBuffers, RoundCalls, grow_rounds
from hornbeam.backends.row_partition import RowPartition
from hornbeam.backends.tree_arrays import TreeArrays
from hornbeam.kernels.histogram import HistogramBuffers, QuantisedGradients
from hornbeam.kernels.layout import JOIN_BINS, SPLIT_DTYPE, SplitRules
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.sampling import ColumnDraws
from hornbeam.kernels.team import Team
from hornbeam.kernels.tree import grow_tree
from hornbeam.kernels.tree_tables import (
    FULL,
    STATUS,
    GradientColumns,
    HistogramPool,
    LeafGradients,
    OutputColumns,
    TreeBuffers,
    TreeFeatures,
    TreeRows,
    TreeTables,
)

__all__ = ["TreeGrower", "TreeRoot", "TreeSearch", "features_of_task"]

#: The least histogram bins of one task of the split search.
_SPLIT_CELLS = 1 << 12
#: The most nodes whose histograms are built before they are searched.
_MOST_NODES = 1024


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


class TreeGrower(TreeArrays):
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
        super().__init__(words, team)
        self._sums = np.zeros((team.size, bins), np.int64)
        self._touched = np.zeros((team.size, bins // 64 + 1), np.uint64)
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
        *_, limited, tables, _, leaves = arguments
        self._begin(limited)
        self._team.run(grow_tree, threads, *arguments)
        while self._state[STATUS] == FULL:
            self._prepare(*given, 2 * tables.nodes.size)
            threads, arguments = self._call
            *_, limited, tables, _, leaves = arguments
            self._team.run(grow_tree, threads, *arguments)
        is_multi_output = search.columns is not None
        return self._grown(root.partition, leaves, limited, is_multi_output)

    @property
    def n_nodes(self) -> int:
        """The number of nodes that there are tables for."""
        return 0 if self._tables is None else self._tables.nodes.size

    def grow_rounds(
        self, calls: RoundCalls, buffers: RoundBuffers, n_rows: int, n_rounds: int
    ) -> GrownRounds:
        """Grow the trees of rounds like the last one."""
        threads, arguments = self._call
        tree = grow_tree, threads, *arguments
        of_rounds = buffers, self._columns, n_rows, n_rounds
        return grow_rounds(self._team, calls, tree, *of_rounds)

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
        packs = packs and not counts_rows
        rules = limits.rules(search.rules, search.scales, packs, width)
        pool = HistogramPool(search.histograms, root.slabs, search.free)
        tables, buffers = self._allocate(root, features, search, nodes)
        bounded = 0 if columns is None else width
        limited = None
        if search.limits is not None:
            limited = self._limit(search.limits, constraints, bounded, root.units)
        leaves = self._weighed_leaves(root.leaves, search.leaf_scales, learning_rate)
        of_tree = rows, gradients, columns, pool, features, rules
        self._call = threads, (*of_tree, limited, tables, buffers, leaves)
        partition = root.partition
        self._made_of = (*root, search, limits, draws, learning_rate, partition.table)

    def _allocate(
        self, root: TreeRoot, features: TreeFeatures, search: TreeSearch, nodes: int
    ) -> tuple[TreeTables, TreeBuffers]:
        """Return tables of at least this many nodes, and buffers that go with them."""
        # The kernel is compiled without categories for sets of bytes, of which there
        # are none then. With limits it is compiled for both at once.
        has_sets = self._words > 0 or search.limits is not None
        if self._reserve(
            root.partition,
            nodes,
            (len(search.leaf_scales), root.outputs),
            search.features.size,
            search.constraints,
            np.dtype(np.uint64 if has_sets else np.uint8),
        ):
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
                np.empty((batch * (bins // JOIN_BINS + 1), 6), np.int64),
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
