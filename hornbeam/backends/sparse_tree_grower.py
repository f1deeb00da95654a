"""Grows whole trees of the stored entries of rows, each in one call of a kernel."""

from __future__ import annotations

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
from hornbeam.backends.row_state import NO_ROWS
from hornbeam.backends.tree_arrays import TreeArrays
from hornbeam.binning.layout import SparseBins
from hornbeam.kernels.histogram import QuantisedGradients
from hornbeam.kernels.layout import FEATURE_DTYPE, SPLIT_DTYPE, SplitRules
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.sampling import ColumnDraws
from hornbeam.kernels.sparse import (
    MOST_NODES,
    SparseEntries,
    SparseHistograms,
    SparseScratch,
)
from hornbeam.kernels.sparse_tree import (
    CELLS_PER_ENTRY,
    RowEntries,
    SparseTreeBuffers,
    SparseTreeRows,
    grow_sparse_tree,
)
from hornbeam.kernels.team import Team
from hornbeam.kernels.tree_tables import (
    COMPLETE,
    STATUS,
    LeafGradients,
    TreeFeatures,
    TreeLeaves,
    TreeTables,
)

__all__ = ["SparseTreeGrower", "SparseTreeSearch"]

#: If the nodes have fewer rows than one in this many, their entries are gathered before
#: the search, which costs as much as searching three times as many entries.
_GATHER_ONE_IN = 4
#: The histograms that a tree has memory for: those of nodes of more than a sixteenth of
#: the rows.
_SLOTS = 15
#: The most bytes of the masks of features of the nodes that are searched together.
_MASK_BYTES = 1 << 26
_Gathering = tuple[
    NDArray[np.uint32],
    SparseEntries,
    NDArray[np.int64],
    NDArray[np.uint32],
    NDArray[Any],
]
_NO_UNITS = QuantisedGradients(np.empty(0, np.int64), np.empty((2, 0), np.int64))


class SparseTreeSearch(NamedTuple):
    """What the splits of a tree are searched by.

    Attributes
    ----------
    gradients
        In fixed point.
    taken
        (rows,) uint8: whether a row is in the sample; empty: all are.
    leaves
        The gradients that leaves are summed of, and an array (rows,) uint32 for the
        leaf of each row.
    chosen
        (chosen,) uint64: the features of the tree, ascending.
    scales, leaf_scales
        (2,) and (1, 2) float64: the value of one unit of gradient and hessian sums, of
        nodes and of leaves.
    rules
        Of splits and leaf weights.
    limits
        The constraints of the split search, as yet of no node; None: none.
    constraints
        Of the tree; None: none.
    """

    gradients: QuantisedGradients
    taken: NDArray[np.uint8]
    leaves: tuple[LeafGradients, NDArray[np.uint32]]
    chosen: NDArray[np.uint64]
    scales: NDArray[np.float64]
    leaf_scales: NDArray[np.float64]
    rules: SplitRules
    limits: NodeConstraints | None
    constraints: Constraints | None


class SparseTreeGrower(TreeArrays):
    """Memory for growing trees of the same rows, one after the other.

    Parameters
    ----------
    bins
        Of the rows.
    n_rows
        Their number.
    team
        The threads that work.

    Attributes
    ----------
    node_of
        (rows,) uint32: the node of each row in the last tree.
    """

    def __init__(self, bins: SparseBins, n_rows: int, team: Team) -> None:
        super().__init__(0, team)
        self._bins = bins
        self.node_of = np.empty(n_rows, np.uint32)
        self._marks = np.empty(n_rows, np.int64)
        # Rows are not moved: `node_of` says where they are.
        no_features, no_rows = np.empty(0, FEATURE_DTYPE), np.empty((2, 0), np.uint32)
        self._partition = RowPartition(no_features, 0, NO_ROWS, no_rows, team)
        self._most_entries = int(np.diff(bins.starts).max())
        self._most_bins = int(bins.n_bins.max())
        kind = bins.bins.dtype
        self._by_row = RowEntries(np.empty(0, np.int64), NO_ROWS, np.empty(0, kind))
        #: The memory of `SparseTreeBuffers` that gathers entries.
        self._gathering: _Gathering = (
            NO_ROWS,
            SparseEntries(np.empty(0, np.int64), NO_ROWS, np.empty(0, kind)),
            np.empty(0, np.int64),
            np.empty((2, 0), np.uint32),
            np.empty(0, kind),
        )
        self._bounds = np.concatenate([[0], np.cumsum(bins.n_bins)])
        self._sums = np.empty((0, 0, 0), np.int64)
        self._free = np.ones(_SLOTS, np.uint8)
        self._buffers: SparseTreeBuffers | None = None

    @property
    def leaf_of_node(self) -> NDArray[np.uint32]:
        """The leaf of each node that has no children, (nodes,)."""
        return self._partition.leaf_of_node

    def grow(
        self,
        search: SparseTreeSearch,
        limits: GrowthLimits,
        draws: ColumnDraws,
        learning_rate: float | None,
    ) -> GrownTree:
        """Return the tree that grows from all rows; see `Backend.grow`."""
        own, constraints, state = self._bins, search.constraints, self._state
        entries = SparseEntries(own.starts, own.rows, own.bins)
        groups = None if constraints is None else constraints.groups
        features = TreeFeatures(
            np.empty(0, FEATURE_DTYPE),
            search.chosen,
            draws,
            NO_FEATURES if groups is None else groups,
            np.empty(0, np.int64),
            np.empty(0, np.int64),
            1,
        )
        rules = limits.rules(search.rules, search.scales, False, 1)
        masks = groups is not None or min(draws.by_level, draws.by_node) < 1.0
        limits_of = constraints, 0, _NO_UNITS
        if limits.max_depth != 1 and self._by_row.pointers.size == 0:
            self._list_by_row()
        tables, buffers = self._allocate(search, masks, 128)
        limited = None
        if search.limits is not None:
            limited = self._limit(search.limits, *limits_of)
        self._begin(limited)
        tables.nodes[0]["left"] = -1
        self.node_of[:] = 0
        while state[STATUS] != COMPLETE:
            leaves = TreeLeaves(
                *search.leaves,
                search.leaf_scales,
                learning_rate is not None,
                learning_rate or 0.0,
                *self._leaves,
            )
            self._team.run(
                grow_sparse_tree,
                self._team.threads_for(CELLS_PER_ENTRY * own.rows.size),
                SparseTreeRows(
                    entries, self._by_row, search.gradients, search.taken, self.node_of
                ),
                features,
                rules,
                limited,
                _GATHER_ONE_IN,
                tables,
                buffers,
                leaves,
            )
            if state[STATUS] != COMPLETE:
                nodes = 2 * tables.nodes.size
                tables, buffers = self._allocate(search, masks, nodes)
                if search.limits is not None:
                    limited = self._limit(search.limits, *limits_of)
        return self._grown(self._partition, leaves, limited, False)

    def _list_by_row(self) -> None:
        """List the entries by row, and allocate memory for gathering some of them."""
        own = self._bins
        self._by_row = RowEntries(*own.by_row())
        # The operating system allocates pages on first write.
        self._gathering = (
            np.empty(self.node_of.size, np.uint32),
            SparseEntries(
                np.empty_like(own.starts),
                np.empty_like(own.rows),
                np.empty_like(own.bins),
            ),
            np.empty(self._most_bins, np.int64),
            np.empty((2, own.rows.size), np.uint32),
            np.empty_like(own.bins),
        )

    def _allocate(
        self, search: SparseTreeSearch, masks: bool, nodes: int
    ) -> tuple[TreeTables, SparseTreeBuffers]:
        """Return tables of at least this many nodes, and buffers that go with them.

        `masks` is whether nodes may use different features.
        """
        features = self._bins.n_bins.size
        is_new = self._reserve(
            self._partition,
            nodes,
            (1, 1),
            features,
            search.constraints,
            np.dtype(np.uint8),
        )
        assert self._tables is not None
        own = self._bins
        tables, buffers, team = self._tables, self._buffers, self._team.size
        wide = self._most_entries if search.gradients.wide.size > 0 else 0
        size, searched = tables.nodes.size, min(tables.nodes.size, MOST_NODES)
        if masks:
            searched = max(1, min(searched, _MASK_BYTES // features))
        # Siblings are searched together.
        searched = max(2, searched & ~1)
        parts = 2 if search.limits is None else 3
        if self._sums.shape[1] != parts:
            # The operating system allocates pages on first write.
            self._sums = np.empty((_SLOTS, parts, self._bounds[-1]), np.int64)
            self._buffers = buffers = None
        if (
            is_new
            or buffers is None
            or buffers.scratch.wide.shape[2] != wide
            or len(buffers.allowed) != (searched if masks else 1)
        ):
            buffers = self._buffers = SparseTreeBuffers(
                np.empty(size, np.int64),
                np.empty(size, np.int64),
                np.empty(size, SPLIT_DTYPE),
                np.empty(size, np.uint32),
                np.empty(size, np.uint32),
                np.empty((team, searched + 1, 3), np.int64),
                np.empty((searched, 3), np.int64),
                np.empty((searched if masks else 1, features), np.uint8),
                np.empty((3, features), np.uint64),
                self._marks,
                SparseHistograms(
                    self._sums,
                    self._bounds,
                    SparseEntries(own.starts[:0], own.rows[:0], own.bins[:0]),
                    *np.empty((3, searched + 1), np.int64),
                ),
                self._free,
                *self._gathering,
                SparseScratch(
                    np.empty((team, 2, self._most_entries), np.int64),
                    np.empty((team, 2, wide), np.int64),
                    np.empty((team, searched + 1), np.int64),
                    np.empty((team, 8, self._most_bins + 1)),
                ),
                np.empty((team, searched), SPLIT_DTYPE),
                np.empty((0, 2)),
                self._sync,
            )
        return tables, buffers
