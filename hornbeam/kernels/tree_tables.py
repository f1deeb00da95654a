"""The tables of a tree that a kernel grows: rows, rules, nodes, leaves and buffers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.histogram import (
    BinColumns,
    HistogramBuffers,
    QuantisedGradients,
)
from hornbeam.kernels.jit import inline, overload
from hornbeam.kernels.layout import SplitRules
from hornbeam.kernels.leaves import NodeColumns
from hornbeam.kernels.multi_output import MultiOutputBuffers
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.sampling import ColumnDraws

__all__ = [
    "BEGIN",
    "BEYOND",
    "COMMAND",
    "COMPLETE",
    "DEPTH",
    "END",
    "FULL",
    "HESSIAN",
    "NEXT",
    "N_BUILDERS",
    "N_BUILT",
    "N_GATHERED",
    "N_JOINS",
    "N_LEAVES",
    "N_NODES",
    "N_PENDING",
    "N_QUEUE",
    "N_SEARCHED",
    "N_SENT",
    "N_SUBTRACTED",
    "N_TASKS",
    "PARENT",
    "SENDS_MISSING",
    "SLOT",
    "STATE_SIZE",
    "STATUS",
    "BoundTables",
    "GradientColumns",
    "GrowthRules",
    "HistogramPool",
    "LeafGradients",
    "OutputColumns",
    "TreeBuffers",
    "TreeFeatures",
    "TreeLeaves",
    "TreeLimits",
    "TreeRows",
    "TreeTables",
    "limits_of_nodes",
]

# Words of the state of a tree.
(
    N_NODES,
    N_LEAVES,
    BEGIN,  # the nodes of the last level, or the last two children
    END,
    NEXT,  # the first of these whose split has not been searched
    N_QUEUE,  # nodes in the queue of `lossguide`
    N_PENDING,  # split nodes whose rows have not been moved
    STATUS,
    COMMAND,
    N_TASKS,
    N_JOINS,
    N_BUILT,
    N_SUBTRACTED,
    N_SEARCHED,
    N_BUILDERS,  # threads that build the listed histograms, or sum nodes
    BEYOND,  # whether a leaf value is beyond float32
    N_GATHERED,  # gathered entries of sparse rows; -1: all entries are grouped
    N_SENT,  # nodes of exact trees whose rows go to the children
    SENDS_MISSING,  # whether some of these rows may miss the feature
    STATE_SIZE,
) = range(20)

#: Statuses: the tree is complete, or the tables have no room for more nodes.
COMPLETE, FULL = range(2)

# Rows of the table of families.
PARENT, SLOT, HESSIAN, DEPTH = range(4)


class GrowthRules(NamedTuple):
    """What a tree may grow to.

    Attributes
    ----------
    split
        Of splits and leaf weights.
    scales
        (2,) float64: the value of one unit of gradient and hessian sums.
    gamma
        The least gain of a split.
    max_depth, max_leaves
        0: no limit.
    lossguide
        Whether the leaf of the highest gain is split next, instead of whole levels.
    packs
        Whether the sums of at most BLOCK_ROWS rows are packed.
    columns
        The number of histograms of a node.
    """

    split: SplitRules
    scales: NDArray[np.float64]
    gamma: float
    max_depth: int
    max_leaves: int
    lossguide: bool
    packs: bool
    columns: int


class TreeRows(NamedTuple):
    """The rows that a tree is grown on.

    Attributes
    ----------
    columns
        Their bins.
    rows
        (2, rows) uint32: the rows of each node are contiguous, in one of two sides.
    """

    columns: BinColumns
    rows: NDArray[np.uint32]


class GradientColumns(NamedTuple):
    """The gradient columns of a multi-output tree, in fixed point.

    Attributes
    ----------
    packed
        (columns, rows) int64; see `QuantisedGradients`.
    wide
        (columns, 2, rows) int64, or (columns, 2, 0).
    is_wide
        (columns,) uint8: which of the two a column uses.
    """

    packed: NDArray[np.int64]
    wide: NDArray[np.int64]
    is_wide: NDArray[np.uint8]


class OutputColumns(NamedTuple):
    """What the splits of a multi-output tree are searched by.

    Attributes
    ----------
    gradients
        Of the rows.
    histograms
        (columns, slots, 2, bins) int64, those of one more column where it counts rows.
    scales
        (columns, 2) float64: the value of one unit of gradient and hessian sums.
    buffers
        Of the split search.
    """

    gradients: GradientColumns
    histograms: NDArray[np.int64]
    scales: NDArray[np.float64]
    buffers: MultiOutputBuffers


class HistogramPool(NamedTuple):
    """The histograms of nodes, in multi-output trees those of the first column.

    Attributes
    ----------
    histograms
        (slots, 2, bins) int64; (slots, 3, bins) where rows are counted.
    slabs
        (slabs, 2, bins) int64: partial sums, numbered after the slots.
    free
        (slots + 1,) int64: a stack of free slots; its last number is its height.
    """

    histograms: NDArray[np.int64]
    slabs: NDArray[np.int64]
    free: NDArray[np.int64]


class TreeFeatures(NamedTuple):
    """The features that splits are searched among.

    Attributes
    ----------
    table
        (features,) FEATURE_DTYPE.
    chosen
        (chosen,) uint64: the features of the tree, ascending.
    draws
        Of those that a node may use.
    groups
        (groups, words) uint64: sets of features that may interact; (0, 0): all may.
    every_row
        (2,) int64: begin and end of histogram bins that count each row once.
    blocks
        (blocks + 1,) int64: the first columns of tasks that build histograms.
    block
        The number of features of a task of the split search.
    """

    table: NDArray[Any]
    chosen: NDArray[np.uint64]
    draws: ColumnDraws
    groups: NDArray[np.uint64]
    every_row: NDArray[np.int64]
    blocks: NDArray[np.int64]
    block: int


class TreeTables(NamedTuple):
    """The nodes of a tree.

    Attributes
    ----------
    nodes
        (nodes,) NODE_DTYPE.
    lefts
        (nodes, words) uint64: bins that go left at splits by category.
    splits
        (nodes,) SPLIT_DTYPE: the best split of each node; at the end zero at leaves.
    sets
        (nodes, words) uint64: the categories that go right in these; or (nodes, 0)
        uint8 where no feature is categorical.
    used
        (nodes, words) uint64: the features on the path to each node; (nodes, 0) where
        no constraint depends on them.
    family
        (4, nodes) int64: the parent, the slot or -1, the sum of hessians, the depth.
    queue
        (nodes,) int64: of `lossguide`, the nodes that may be split; a binary heap.
    pending
        (nodes,) int64: split nodes whose rows have not been moved to the children.
    state
        (STATE_SIZE,) int64.
    """

    nodes: NDArray[Any]
    lefts: NDArray[np.uint64]
    splits: NDArray[Any]
    sets: NDArray[Any]
    used: NDArray[np.uint64]
    family: NDArray[np.int64]
    queue: NDArray[np.int64]
    pending: NDArray[np.int64]
    state: NDArray[np.int64]


class BoundTables(NamedTuple):
    """What the constraints of a tree's nodes depend on.

    Attributes
    ----------
    weights
        (nodes, columns) float64: as a leaf; NaN at the root, where it is not known.
    bounds
        (nodes, columns, 2) float64: the least and the largest weight in the node's
        subtree.
    left
        (nodes,) int32: the left child, or -1 where children are not searched.
    directions
        (nodes,) int8: those of the splits; see `NodeConstraints`.
    reach
        (nodes, columns, 2) float64: the range of the weights of each node and of the
        children that it would get.
    sides
        (nodes, columns, 2) float64: the weights of these children.
    grows
        (nodes,) uint8: whether the bounds of a node may still change.
    reach_below, grows_below
        (nodes, 2) and (nodes,) uint8: buffers of `leaves.bound_nodes`.
    """

    weights: NDArray[np.float64]
    bounds: NDArray[np.float64]
    left: NDArray[np.int32]
    directions: NDArray[np.int8]
    reach: NDArray[np.float64]
    sides: NDArray[np.float64]
    grows: NDArray[np.uint8]
    reach_below: NDArray[np.float64]
    grows_below: NDArray[np.uint8]


class TreeLimits(NamedTuple):
    """The constraints of a tree that has any.

    Attributes
    ----------
    of_nodes
        Of all nodes; weights and bounds are those of the tables.
    tables
        Of the nodes.
    follows
        Whether the bounds of monotone constraints are updated as the tree grows.
    units
        A gradient of 0 and a hessian of 1 for each row, where rows are counted.
    """

    of_nodes: NodeConstraints
    tables: BoundTables
    follows: bool
    units: QuantisedGradients


def limits_of_nodes(limits):
    """Return the `NodeConstraints` of `TreeLimits`; None if there are none."""
    return None if limits is None else limits.of_nodes


@inline
def _no_limits(limits):
    return None


@inline
def _own_limits(limits):
    return limits.of_nodes


@overload(limits_of_nodes)
def _overload_limits_of_nodes(limits):
    # Numba would make it a type that may be None, with code of its own for it.
    return _no_limits if str(limits) == "none" else _own_limits


class TreeBuffers(NamedTuple):
    """Task lists, and memory of the threads.

    Attributes
    ----------
    batch
        (4, nodes) int64: nodes to split, to build, their slots, and nodes to search.
    subtracted
        (2, nodes) int64: larger siblings, and the smaller ones to subtract.
    partition_tasks, counts
        (tasks, 5) and (tasks,) int64: see `partition.partition_rows`.
    tasks, joins
        See `histogram.build_histograms`.
    found, found_sets
        (nodes, parts) SPLIT_DTYPE and (nodes, parts, words): the best split of each
        task of the search.
    found_sides
        (nodes, parts, columns, 2) float64: the weights of the children of these splits;
        (nodes, parts, 0, 2) in trees of one output, or without constraints.
    histogram_buffers
        Memory of the threads that build histograms.
    columns, allowed
        (threads, 3, features) uint64 and (threads, features) uint8: see
        `sampling.draw_columns`.
    values, every_bin, sums, touched
        Of `SplitBuffers`, all but `every_bin` with an axis of threads.
    sync
        (SYNC_SIZE,) int64: for phases of one thread.
    """

    batch: NDArray[np.int64]
    subtracted: NDArray[np.int64]
    partition_tasks: NDArray[np.int64]
    counts: NDArray[np.int64]
    tasks: NDArray[np.int64]
    joins: NDArray[np.int64]
    found: NDArray[Any]
    found_sets: NDArray[Any]
    found_sides: NDArray[np.float64]
    histogram_buffers: HistogramBuffers
    columns: NDArray[np.uint64]
    allowed: NDArray[np.uint8]
    values: NDArray[np.float64]
    every_bin: NDArray[np.int64]
    sums: NDArray[np.int64]
    touched: NDArray[np.uint64]
    sync: NDArray[np.int64]


class LeafGradients(NamedTuple):
    """The gradients and hessians that leaves are summed of, (columns, rows) each.

    The columns are the outputs of the tree, followed in multi-output trees by those
    that an objective has set for the split search. They are float32, or float64 in the
    second pair; the other pair is empty.
    """

    single_gradients: NDArray[np.float32]
    single_hessians: NDArray[np.float32]
    double_gradients: NDArray[np.float64]
    double_hessians: NDArray[np.float64]

    @property
    def n_columns(self) -> int:
        """The number of columns."""
        return len(self.single_gradients) or len(self.double_gradients)


class TreeLeaves(NamedTuple):
    """The leaves of a tree, and the columns that follow from their weights.

    Attributes
    ----------
    gradients
        That they are summed of.
    leaf_of
        (rows,) uint32, out: the leaf of each row.
    scales
        (columns, 2) float64: the value of one unit of the sums.
    weighs, learning_rate
        Whether the nodes are weighed, and the factor on the weights of leaves.
    nodes
        (nodes,) int64: of the leaves.
    leaf_of_node
        (nodes,) uint32: the number of each leaf.
    tasks
        (tasks, 5) int64: see `partition.mark_leaves`.
    sums
        (columns, threads, nodes + 1, 2) int64: see `partition.sum_leaves`.
    node_sums, weights
        (columns, nodes, 2) and (columns, nodes) float64: see `leaves.weigh_nodes`.
    left, parent
        (nodes,) int32, out: -1 where there is none.
    columns
        Out.
    """

    gradients: LeafGradients
    leaf_of: NDArray[np.uint32]
    scales: NDArray[np.float64]
    weighs: bool
    learning_rate: float
    nodes: NDArray[np.int64]
    leaf_of_node: NDArray[np.uint32]
    tasks: NDArray[np.int64]
    sums: NDArray[np.int64]
    node_sums: NDArray[np.float64]
    weights: NDArray[np.float64]
    left: NDArray[np.int32]
    parent: NDArray[np.int32]
    columns: NodeColumns
