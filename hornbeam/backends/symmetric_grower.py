"""Grows whole symmetric trees of rows in memory, each in one call of a kernel."""

from __future__ import annotations

import numpy as np

from hornbeam.backends.interface import NO_FEATURES, GrownTree, GrowthLimits
from hornbeam.backends.tree_grower import TreeRoot, TreeSearch, features_of_task
from hornbeam.kernels.layout import JOIN_BINS, SPLIT_DTYPE
from hornbeam.kernels.sampling import ColumnDraws
from hornbeam.kernels.symmetric_growth import (
    BEGIN,
    END,
    STATE_SIZE,
    LevelBuffers,
    SymmetricNodes,
    grow_symmetric_tree,
)
from hornbeam.kernels.symmetric_tree import CHOICE_DTYPE, LevelGains
from hornbeam.kernels.sync import SYNC_SIZE
from hornbeam.kernels.team import Team
from hornbeam.kernels.tree_tables import HistogramPool, TreeFeatures

__all__ = ["SymmetricGrower"]

#: No parent, no slot yet, and more hessians than any split needs.
_FAMILY_OF_ROOT = np.array([-1, -1, 1 << 62])


class SymmetricGrower:
    """Memory for growing symmetric trees of the same rows, one after the other.

    Parameters
    ----------
    words
        Of a set of categories; 0 where no feature is categorical.
    team
        The threads that work.
    """

    def __init__(self, words: int, team: Team) -> None:
        self._words, self._team = words, team
        self._tables: SymmetricNodes | None = None
        self._buffers: LevelBuffers | None = None

    def grow(
        self,
        root: TreeRoot,
        search: TreeSearch,
        limits: GrowthLimits,
        draws: ColumnDraws,
    ) -> GrownTree | None:
        """Return the tree that grows from this root.

        None: it may need more histograms than there are.
        """
        levels, rows = limits.max_depth, root.rows
        # Only siblings of which one has rows have histograms; one more is in use while
        # the slots of parents are assigned to their children.
        most = min(1 << (levels - 1), 2 * rows.rows.shape[1] + 1)
        if len(search.histograms) < most:
            return None
        gradients, chosen = root.gradients, search.chosen
        assert gradients is not None
        threads = self._team.threads_for(rows.rows.shape[1] * rows.columns.chosen.size)
        groups = None if search.constraints is None else search.constraints.groups
        features = TreeFeatures(
            search.features,
            chosen,
            draws,
            NO_FEATURES if groups is None else groups,
            search.every_row,
            root.blocks,
            features_of_task(chosen.size, search.candidates, threads),
        )
        packs = gradients.packed.size > 0 and rows.columns.histogram_bins.size == 0
        rules = limits.rules(search.rules, search.scales, packs, 1)
        pool = HistogramPool(search.histograms, root.slabs, search.free)
        tables = self._tables_for(root, features, levels)
        self._team.run(
            grow_symmetric_tree,
            threads,
            rows,
            gradients,
            pool,
            features,
            rules,
            tables,
            self._buffers_for(root, features, search, levels),
        )
        count = int(tables.state[END])
        nodes, parents = tables.nodes[:count], tables.family[0, :count]
        # The rows of the last level were not moved if no further split was allowed.
        unmoved = np.flatnonzero(nodes["end"] < 0)
        root.partition.wait(np.unique(parents[unmoved]))
        left, parent = nodes["left"].astype(np.int32), parents.astype(np.int32)
        return GrownTree(left, parent, tables.splits[:count], tables.sets[:count])

    def _tables_for(
        self, root: TreeRoot, features: TreeFeatures, levels: int
    ) -> SymmetricNodes:
        """Return the tables of the root, with room for these levels below."""
        partition = root.partition
        partition.reserve(2 << levels)
        size = partition.table.size
        words = -(-features.table.size // 64) if features.groups.size > 0 else 0
        tables = self._tables
        if (
            tables is None
            or tables.nodes is not partition.table
            or tables.used.shape[1] != words
        ):
            tables = self._tables = SymmetricNodes(
                partition.table,
                partition.lefts,
                np.zeros(size, SPLIT_DTYPE),
                np.zeros((size, self._words), np.uint64),
                np.empty((3, size), np.int64),
                np.zeros((size, words), np.uint64),
                np.zeros(STATE_SIZE, np.int64),
            )
        tables.family[:, 0] = _FAMILY_OF_ROOT
        tables.state[BEGIN], tables.state[END] = 0, 1  # the root is the last level
        return tables

    def _buffers_for(
        self, root: TreeRoot, features: TreeFeatures, search: TreeSearch, levels: int
    ) -> LevelBuffers:
        team, blocks = self._team.size, features.blocks.size - 1
        most, chosen = 1 << levels, features.chosen.size
        bins = search.histograms.shape[2]
        shape = chosen, 2, search.candidates
        old = self._buffers
        if (
            old is None
            or old.batch.shape[1] != most
            or len(old.tasks) != (most + 9 * team) * blocks
            or old.level.sums.shape != shape
        ):
            old = self._buffers = LevelBuffers(
                np.empty((3, most), np.int64),
                np.empty((2, most), np.int64),
                np.empty((most + 5 * team, 5), np.int64),
                np.empty(most + 5 * team, np.int64),
                np.empty(((most + 9 * team) * blocks, 7), np.int64),
                np.empty((most * (bins // JOIN_BINS + 1), 6), np.int64),
                root.histogram_buffers,
                np.empty((3, features.table.size), np.uint64),
                np.empty((1, features.table.size), np.uint8),
                np.empty((team, 2, search.candidates), np.int64),
                LevelGains(np.empty(shape), np.empty(chosen, np.uint8)),
                np.zeros(1, CHOICE_DTYPE),
                np.zeros(SYNC_SIZE, np.int64),
            )
        return old
