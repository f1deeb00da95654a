"""The arrays of a tree that a kernel grows, which the next trees use again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import Constraints, GrownTree
from hornbeam.backends.row_partition import RowPartition
from hornbeam.kernels.histogram import QuantisedGradients
from hornbeam.kernels.layout import SPLIT_DTYPE, TASK_ROWS
from hornbeam.kernels.leaves import NodeColumns
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.sync import SYNC_SIZE
from hornbeam.kernels.team import Team
from hornbeam.kernels.tree_growth import enter_root
from hornbeam.kernels.tree_tables import (
    BEYOND,
    N_NODES,
    N_PENDING,
    STATE_SIZE,
    BoundTables,
    LeafGradients,
    TreeLeaves,
    TreeLimits,
    TreeTables,
)

__all__ = ["TreeArrays"]


class TreeArrays:
    """Nodes, constraints and leaves of a tree, whatever its rows are stored in.

    Parameters
    ----------
    words
        Of a set of categories; 0 where no feature is categorical.
    team
        The threads that work.
    """

    def __init__(self, words: int, team: Team) -> None:
        self._team, self._words = team, words
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

    def _begin(self, limited: TreeLimits | None) -> None:
        """Let the tree be its root alone; `limited` is what `_limit` has returned."""
        assert self._tables is not None
        enter_root(self._tables.family, self._tables.used, self._state)
        if limited is not None:
            limited.tables.weights[0] = np.nan
            limited.tables.bounds[0] = -np.inf, np.inf
            limited.tables.left[:] = -1

    def _reserve(
        self,
        partition: RowPartition,
        nodes: int,
        width: tuple[int, int],
        features: int,
        constraints: Constraints | None,
        sets: np.dtype[Any],
    ) -> bool:
        """Make room for at least this many nodes; return whether tables are new.

        They keep the contents of the old ones. `sets` is the type of words of sets of
        categories.
        """
        if nodes > partition.table.size:
            partition.reserve(nodes)
        old, words = self._tables, 0
        if constraints is not None and constraints.follow_paths:
            words = -(-features // 64)
        if old is not None and (old.used.shape[1], old.sets.dtype) != (words, sets):
            old = None
        if old is not None and old.nodes is partition.table and self._width == width:
            return False
        self._width = width
        self._tables = self._new_tables(partition, old, words, sets)
        self._leaves = self._new_leaves(partition)
        return True

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

    def _weighed_leaves(
        self,
        leaves: tuple[LeafGradients, NDArray[np.uint32]],
        scales: NDArray[np.float64],
        learning_rate: float | None,
    ) -> TreeLeaves:
        """Return the leaves of the kernel; it weighs nodes if there is a rate."""
        weighs, rate = learning_rate is not None, learning_rate or 0.0
        return TreeLeaves(*leaves, scales, weighs, rate, *self._leaves)

    def _limit(
        self,
        limits: NodeConstraints,
        constraints: Constraints | None,
        columns: int,
        units: QuantisedGradients,
    ) -> TreeLimits:
        """Return the constraints of as many nodes as there are tables for.

        `columns` is the number of weights of a node of a multi-output tree; 0: a tree
        of one output.
        """
        assert self._tables is not None
        size, old, width = self._tables.nodes.size, self._bounded, max(columns, 1)
        if old is None or old.weights.shape != (size, width):
            new = self._bounded = BoundTables(
                np.empty((size, width)),
                np.empty((size, width, 2)),
                np.full(size, -1, np.int32),
                np.empty(size, np.int8),
                np.empty((size, width, 2)),
                np.empty((size, width, 2)),
                np.empty(size, np.uint8),
                np.empty((size, 2)),
                np.empty(size, np.uint8),
            )
            if old is not None and old.weights.shape[1] == width:
                count = min(size, old.left.size)
                for name in BoundTables._fields:
                    getattr(new, name)[:count] = getattr(old, name)[:count]
        own = self._bounded
        assert own is not None
        of_nodes = limits._replace(
            weights=own.weights, bounds=own.bounds, used=self._tables.used
        )
        if columns == 0:
            of_nodes = of_nodes._replace(
                weights=own.weights[:, 0], bounds=own.bounds[:, 0]
            )
        follows = constraints is not None and constraints.bounds_follow
        return TreeLimits(of_nodes, own, follows, units)

    def _grown(
        self,
        partition: RowPartition,
        tree_leaves: TreeLeaves,
        limited: TreeLimits | None,
        is_multi_output: bool,
    ) -> GrownTree:
        """Return the tree that the kernel has grown."""
        tables, state = self._tables, self._state
        assert tables is not None
        count = int(state[N_NODES])
        splits, sets = tables.splits[:count], tables.sets[:count].view(np.uint64)
        if not tree_leaves.weighs:
            partition.wait(tables.pending[: state[N_PENDING]])
            left = tables.nodes["left"][:count].astype(np.int32)
            parent = tables.family[0, :count].astype(np.int32)
            sides = None if limited is None else limited.tables.sides[:count]
            return GrownTree(left, parent, splits, sets, sides=sides)
        integers, flags, floats = self._columns
        floats = floats[:, :count].copy()
        left, parent, right, feature = integers[:, :count].copy()
        default_left, split_type = flags[:, :count].copy()
        gain, cover, *of_outputs = floats
        if is_multi_output:  # (nodes, outputs)
            outputs = self._width[1]
            of_outputs = [
                np.ascontiguousarray(floats[first : first + outputs].T)
                for first in (2, 2 + outputs)
            ]
        value, weight = of_outputs
        of_nodes = NodeColumns(
            right, feature, default_left, split_type, value, gain, cover, weight
        )
        return GrownTree(left, parent, splits, sets, of_nodes, bool(state[BEYOND]))
