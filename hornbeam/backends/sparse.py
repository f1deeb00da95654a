"""Filled cells in memory, for tables of which few cells are filled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import Backend, RowSample, SplitParams
from hornbeam.backends.row_state import MarginRows, run_rows
from hornbeam.binning.layout import SparseBins
from hornbeam.kernels.layout import SPLIT_DTYPE
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.sparse import (
    MOST_NODES,
    NodeGradients,
    SparseEntries,
    SparseScratch,
    find_sparse_splits,
    gather_cells,
    list_rows,
    look_up,
    mark_rows,
    send_rows,
)
from hornbeam.kernels.split import CandidateFeatures
from hornbeam.kernels.team import Team

__all__ = ["SparseBackend"]

#: Tasks a member, so that those who finish early find more to do.
_TASKS_PER_MEMBER = 16
#: The cost of one filled cell in the search for splits, in cells of a histogram.
_CELLS_PER_FILLED = 20
#: Where the rows of a batch are fewer than one in this many, their cells are gathered
#: before the search, which costs as much as the search through three times as many.
_GATHER_ONE_IN = 4
_NO_MASK = np.empty((0, 0), np.uint8)
_EVERY_ROW = np.empty(0, np.uint8)


class SparseBackend(MarginRows, Backend):
    """Cells of the features one after the other, and the node of each row.

    Parameters
    ----------
    codes
        The filled cells.
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    margins
        (outputs, rows) float64: the margins to begin with; kept and changed.
    team
        The threads that work; given back when the backend is closed.
    """

    def __init__(
        self,
        codes: SparseBins,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[np.float64],
        team: Team,
    ) -> None:
        super().__init__(targets, weights, margins, team)
        self._codes = codes
        self._most_cells = int(np.diff(codes.starts).max())
        self._most_bins = int(codes.n_bins.max())
        self._node_of = np.empty(self.n_rows, np.uint32)
        self._words = np.empty(self.n_rows, np.int64)
        members = team.size
        self._cell_scratch = np.empty((members, 2, self._most_cells), np.int64)
        self._wide_scratch = np.empty((members, 2, 0), np.int64)
        self._bin_scratch = np.empty((members, 5, self._most_bins + 1))

    @property
    def n_features(self) -> int:
        return self._codes.n_bins.size

    def begin_tree(
        self,
        output: int,
        growth: SplitParams,
        features: NDArray[np.uint64],
        sample: RowSample | None,
    ) -> None:
        self._rules = growth.rules
        self._chosen = features
        steps, self._coarse = self._quantise(output, growth, sample)
        self._steps = steps.coarse if self._coarse else steps.fine
        self._fine_steps = steps.fine
        if not self._coarse:
            self._state.widen()
            if self._wide_scratch.shape[2] < self._most_cells:
                self._wide_scratch = np.empty_like(self._cell_scratch)
        taken = self._state.draw()
        self._taken = _EVERY_ROW if taken is None else taken
        self._node_of[:] = 0
        self._n_nodes = 1

    def find_splits(
        self,
        nodes: NDArray[np.intp],
        allowed: NDArray[np.uint8] | None,
        limits: NodeConstraints | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        parts = []
        for i in range(0, nodes.size, MOST_NODES):
            mask = _NO_MASK if allowed is None else allowed[i : i + MOST_NODES]
            own = None if limits is None else limits.part(i, i + MOST_NODES)
            parts.append(self._find_splits(nodes[i : i + MOST_NODES], mask, own))
        return np.concatenate(parts), np.empty((nodes.size, 0), np.uint64)

    def _find_splits(
        self,
        nodes: NDArray[np.intp],
        allowed: NDArray[np.uint8],
        limits: NodeConstraints | None,
    ) -> NDArray[Any]:
        totals = self._mark_rows(nodes)
        entries = self._cells_of(nodes.size, int(totals[:, 2].sum()))
        members = self._team.members_for(_CELLS_PER_FILLED * entries.rows.size)
        block = max(1, self._chosen.size // (members * _TASKS_PER_MEMBER))
        wide = not self._coarse
        splits = np.zeros((members, nodes.size), SPLIT_DTYPE)
        self._team.run(
            find_sparse_splits,
            members,
            entries,
            NodeGradients(self._words, self._state.wide, totals),
            CandidateFeatures(self._chosen, allowed, block),
            self._steps,
            self._rules,
            limits,
            SparseScratch(
                self._cell_scratch,
                self._wide_scratch if wide else self._wide_scratch[:, :, :0],
                np.empty((members, nodes.size + 1), np.int64),
                self._bin_scratch,
            ),
            splits,
        )
        return splits[0]

    def _mark_rows(self, nodes: NDArray[np.intp]) -> NDArray[np.int64]:
        """Note each row's node; return the nodes' sums and rows, (nodes, 3)."""
        place = np.full(self._n_nodes, nodes.size, np.uint32)
        place[nodes] = np.arange(nodes.size)
        members = self._team.members_for(8 * self.n_rows)
        sums = np.zeros((members, nodes.size + 1, 3), np.int64)
        self._team.run(
            mark_rows,
            members,
            self._node_of,
            place,
            self._taken,
            self._state.packed,
            self._state.wide,
            self._words,
            sums,
        )
        of_nodes: NDArray[np.int64] = sums.sum(axis=0)[:-1]
        return of_nodes

    def _cells_of(self, n_nodes: int, n_rows: int) -> SparseEntries:
        """Return all cells, or of few rows only those of these rows."""
        own = self._codes
        if _GATHER_ONE_IN * n_rows > self.n_rows:
            return SparseEntries(own.starts, own.rows, own.bins)
        pointers, row_features, row_codes = own.by_row()
        listed = np.empty(n_rows, np.uint32)
        n_cells = list_rows(self._words, n_nodes, pointers, listed)
        starts = np.empty_like(own.starts)
        rows = np.empty(n_cells, np.uint32)
        codes = np.empty(n_cells, own.bins.dtype)
        gather_cells(
            listed,
            pointers,
            row_features,
            row_codes,
            np.empty(self._most_bins, np.int64),
            np.empty((2, n_cells), np.uint32),
            np.empty_like(codes),
            starts,
            rows,
            codes,
        )
        return SparseEntries(starts, rows, codes)

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        after = np.arange(self._n_nodes, dtype=np.uint32)
        after[nodes] = left + (splits["missing_left"] == 0)
        run_rows(
            self._team,
            send_rows,
            self.n_rows,
            SparseEntries(self._codes.starts, self._codes.rows, self._codes.bins),
            splits,
            left,
            after,
            self._node_of,
        )
        self._n_nodes = int(left[-1]) + 2

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.float64]:
        self._leaf_of_node = np.zeros(self._n_nodes, np.uint32)
        self._leaf_of_node[nodes] = leaves
        self._find_leaves()
        if self._taken.size > 0:
            self._state.leaf_of[self._taken == 0] = n_leaves
        return self._state.sum_leaves(n_leaves) * self._fine_steps

    def _find_leaves(self) -> None:
        run_rows(
            self._team,
            look_up,
            self.n_rows,
            self._leaf_of_node,
            self._node_of,
            self._state.leaf_of,
        )

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        if self._taken.size > 0:
            self._find_leaves()
        self._state.add_leaf_values(values)
