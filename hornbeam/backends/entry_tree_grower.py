"""Grows whole trees of entries that are stored feature by feature.

The entries are those of a sparse table (see `sparse_tree_grower`), or all values in
sorted columns (see `exact_tree_grower`). Each tree is grown in one call of a kernel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
from hornbeam.kernels.histogram import QuantisedGradients
from hornbeam.kernels.layout import FEATURE_DTYPE, SplitRules
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.sampling import ColumnDraws
from hornbeam.kernels.team import Team
from hornbeam.kernels.tree_tables import (
    COMPLETE,
    STATUS,
    GradientColumns,
    GrowthRules,
    LeafGradients,
    TreeFeatures,
    TreeLeaves,
    TreeLimits,
    TreeTables,
)

__all__ = ["EntryTreeGrower", "EntryTreeSearch", "TreeCall"]

#: The most bytes of the masks of features of the nodes that are searched together.
_MASK_BYTES = 1 << 26
_NO_UNITS = QuantisedGradients(np.empty(0, np.int64), np.empty((2, 0), np.int64))


class EntryTreeSearch(NamedTuple):
    """What the splits of a tree are searched by.

    Attributes
    ----------
    gradients
        In fixed point; those of a multi-output tree have several columns.
    taken
        (rows,) uint8: whether a row is in the sample; empty: all are.
    leaves
        The gradients that leaves are summed of, and an array (rows,) uint32 for the
        leaf of each row.
    chosen
        (chosen,) uint64: the features of the tree, ascending.
    scales
        (2,) float64, of a multi-output tree (columns, 2): the value of one unit of
        gradient and hessian sums of nodes.
    outputs
        Of the tree.
    leaf_scales
        (columns, 2) float64: the same of the sums of leaves, whose columns are the
        outputs, followed by those that an objective has set for the split search.
    rules
        Of splits and leaf weights.
    counts_rows
        Whether the split search needs the numbers of rows.
    limits
        The constraints of the split search, as yet of no node; None: none.
    constraints
        Of the tree; None: none.
    """

    gradients: QuantisedGradients | GradientColumns
    taken: NDArray[np.uint8]
    leaves: tuple[LeafGradients, NDArray[np.uint32]]
    chosen: NDArray[np.uint64]
    scales: NDArray[np.float64]
    outputs: int
    leaf_scales: NDArray[np.float64]
    rules: SplitRules
    counts_rows: bool
    limits: NodeConstraints | None
    constraints: Constraints | None

    @property
    def columns(self) -> int:
        """The gradient columns of a multi-output tree; 0: it has one output."""
        return len(self.scales) if isinstance(self.gradients, GradientColumns) else 0


class TreeCall(NamedTuple):
    """What both kernels take beside rows, tables and buffers."""

    features: TreeFeatures
    rules: GrowthRules
    limits: TreeLimits | None
    leaves: TreeLeaves


class EntryTreeGrower(TreeArrays, ABC):
    """Memory for growing trees of the same rows, one after the other.

    Parameters
    ----------
    n_features, n_rows
        Of the table.
    most_nodes
        The most nodes that are searched together.
    team
        The threads that work.

    Attributes
    ----------
    node_of
        (rows,) uint32: the node of each row in the last tree.
    """

    def __init__(
        self, n_features: int, n_rows: int, most_nodes: int, team: Team
    ) -> None:
        super().__init__(0, team)
        self._n_features, self._most_nodes = n_features, most_nodes
        self.node_of = np.empty(n_rows, np.uint32)
        # Rows are not moved: `node_of` says where they are.
        no_features, no_rows = np.empty(0, FEATURE_DTYPE), np.empty((2, 0), np.uint32)
        self._partition = RowPartition(no_features, 0, NO_ROWS, no_rows, team)
        self._buffers: Any = None

    @property
    def leaf_of_node(self) -> NDArray[np.uint32]:
        """The leaf of each node that has no children, (nodes,)."""
        return self._partition.leaf_of_node

    @abstractmethod
    def _new_buffers(self, size: int, allowed: NDArray[np.uint8], searched: int) -> Any:
        """Return buffers for tables of this size, and so many nodes searched together.

        `allowed` are the masks of features. The buffers keep the contents of the last
        ones where the tables do.
        """

    @abstractmethod
    def _run(self, search: EntryTreeSearch, call: TreeCall, tables: TreeTables) -> None:
        """Call the kernel."""

    def grow(
        self,
        search: EntryTreeSearch,
        limits: GrowthLimits,
        draws: ColumnDraws,
        learning_rate: float | None,
    ) -> GrownTree:
        """Return the tree that grows from all rows; see `Backend.grow`."""
        constraints, state = search.constraints, self._state
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
        scales = search.scales.reshape(-1, 2)
        rules = limits.rules(search.rules, scales[0], False, len(scales))
        masks = groups is not None or min(draws.by_level, draws.by_node) < 1.0
        tables = self._allocate(search, masks, 128)
        limited = self._limited(search)
        self._begin(limited)
        tables.nodes[0]["left"] = -1
        while True:
            leaves = self._weighed_leaves(
                search.leaves, search.leaf_scales, learning_rate
            )
            self._run(search, TreeCall(features, rules, limited, leaves), tables)
            if state[STATUS] == COMPLETE:
                return self._grown(self._partition, leaves, limited, search.columns > 0)
            tables = self._allocate(search, masks, 2 * tables.nodes.size)
            limited = self._limited(search)

    def _limited(self, search: EntryTreeSearch) -> TreeLimits | None:
        if search.limits is None:
            return None
        return self._limit(search.limits, search.constraints, search.columns, _NO_UNITS)

    def _allocate(self, search: EntryTreeSearch, masks: bool, nodes: int) -> TreeTables:
        """Return tables of at least this many nodes, and make buffers go with them.

        `masks` is whether nodes may use different features.
        """
        features, kind = self._n_features, np.dtype(np.uint8)
        is_new = self._reserve(
            self._partition,
            nodes,
            (len(search.leaf_scales), search.outputs),
            features,
            search.constraints,
            kind,
        )
        assert self._tables is not None
        size = self._tables.nodes.size
        searched = min(size, self._most_nodes)
        if masks:
            searched = min(searched, _MASK_BYTES // features)
        searched = max(2, searched & ~1)  # siblings are searched together
        shape = searched if masks else 1, features
        if is_new or self._buffers is None or self._buffers.allowed.shape != shape:
            allowed = np.empty(shape, np.uint8)
            self._buffers = self._new_buffers(size, allowed, searched)
        return self._tables
