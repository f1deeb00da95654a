"""Grows whole trees of sorted columns, each in one call of a kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.entry_tree_grower import (
    EntryTreeGrower,
    EntryTreeSearch,
    TreeCall,
)
from hornbeam.binning.layout import SortedColumns
from hornbeam.cpu_count import available_threads
from hornbeam.kernels.exact import SentNodes
from hornbeam.kernels.exact_tree import (
    CELLS_PER_ENTRY,
    ExactTreeBuffers,
    ExactTreeRows,
    grow_exact_tree,
    send_left_out,
)
from hornbeam.kernels.layout import SPLIT_DTYPE, TASK_ROWS
from hornbeam.kernels.plan import CELLS_PER_ROW
from hornbeam.kernels.team import Team
from hornbeam.kernels.tree_tables import DEPTH, N_NODES, TreeTables

__all__ = ["ExactTreeGrower", "working_bytes"]

#: Values per entry of a column in the buffer of a thread.
_SCRATCH = 7
#: The most nodes that are searched together.
_MOST_NODES = 1024


def working_bytes(n_entries: int, longest: int, threads: int) -> int:
    """Return the memory of the grower in addition to `n_entries` sorted entries.

    `longest` is the number of entries of the longest column.
    """
    if threads <= 0:
        threads = available_threads()
    return 8 * n_entries + threads * 8 * _SCRATCH * longest


class ExactTreeGrower(EntryTreeGrower):
    """Memory for growing trees of the same rows, one after the other.

    Parameters
    ----------
    ordered
        The sorted columns; not changed.
    n_rows
        The number of rows.
    team
        The threads that work.

    Attributes
    ----------
    directions
        (features, 2) int64: the first direction of the search, and the end; to be set
        for each tree.
    """

    directions: NDArray[np.int64]

    def __init__(self, ordered: SortedColumns, n_rows: int, team: Team) -> None:
        sizes = np.diff(ordered.starts)
        super().__init__(sizes.size, n_rows, _MOST_NODES, team)
        self._ordered = ordered
        self._entries = np.empty_like(ordered.entries)
        self._scratch = np.empty((team.size, _SCRATCH, int(sizes.max()) + 1))
        self._gradients = np.empty(2 * n_rows, np.int64)

    def _run(self, search: EntryTreeSearch, call: TreeCall, tables: TreeTables) -> None:
        self._rows = ExactTreeRows(
            self._ordered.starts,
            self._ordered.entries,
            self.directions,
            self._ordered.max_candidates,
            search.gradients.wide,
            search.taken,
            self.node_of,
        )
        self._team.run(
            grow_exact_tree,
            self._team.threads_for(CELLS_PER_ENTRY * self._entries.size),
            self._rows,
            call.features,
            call.rules,
            call.limits,
            tables,
            self._buffers,
            call.leaves,
        )

    def _new_buffers(
        self, size: int, allowed: NDArray[np.uint8], searched: int
    ) -> ExactTreeBuffers:
        features, team = self._n_features, self._team.size
        new = ExactTreeBuffers(
            np.empty(size, np.int64),
            SentNodes(*np.full((4, size), -1)),
            np.empty((size + self.node_of.size // TASK_ROWS, 3), np.int64),
            self._entries,
            np.empty((size, features, 2), np.int64),
            np.empty((size, 3), np.int64),
            self._gradients,
            np.empty((team, 3), np.int64),
            allowed,
            np.empty((3, features), np.uint64),
            self._scratch,
            np.empty((team, searched + 1), SPLIT_DTYPE),
            np.empty((searched, 0, 2)),
            self._sync,
        )
        old: ExactTreeBuffers | None = self._buffers
        if old is not None:
            count = min(size, old.batch.size)
            new.segments[:count] = old.segments[:count]
            new.totals[:count] = old.totals[:count]
        return new

    def send_left_out(self) -> None:
        """Send the rows that are not in the sample of the last tree to the leaves."""
        tables, buffers = self._tables, self._buffers
        assert tables is not None
        nodes = int(self._state[N_NODES])
        left, splits = tables.nodes["left"][:nodes], tables.splits[:nodes]
        depth = tables.family[DEPTH, :nodes]
        inner = np.flatnonzero(left >= 0)
        if inner.size == 0:
            return
        order = inner[depth[inner].argsort(kind="stable")]
        ends = np.cumsum(np.bincount(depth[inner]))
        # A threshold lies between values of the sample; other rows may have values in
        # between.
        every = np.full((4, nodes), -1)
        every[0, inner] = splits["feature"][inner]
        every[1, inner] = self._ordered.last_below(splits[inner])
        every[2, inner] = left[inner]
        every[3, inner] = left[inner] + 1 - splits["missing_left"][inner]
        known = SentNodes(*every)
        n_tasks = self._entries.size // TASK_ROWS + self._n_features
        self._team.run(
            send_left_out,
            self._team.threads_for(CELLS_PER_ROW * self.node_of.size * ends.size),
            self._rows,
            order,
            ends,
            known,
            known._replace(feature=buffers.sent.feature),
            np.full(self._n_features, -1),
            np.empty((n_tasks, 3), np.int64),
            np.empty(1, np.int64),
        )
