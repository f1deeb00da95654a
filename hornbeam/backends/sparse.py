"""Splits from the stored entries of sparse features, in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import (
    EVERY_FEATURE,
    Backend,
    LeafFeatures,
    LeafSlopes,
    RowSample,
    SplitParams,
)
from hornbeam.backends.margin_rows import MarginRows
from hornbeam.backends.row_loop import run_rows
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.binning.layout import PerTreeBins, SparseBins
from hornbeam.kernels.layout import SPLIT_DTYPE
from hornbeam.kernels.linear_leaves import NodeTerms
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.sparse import (
    MOST_NODES,
    NodeGradients,
    SparseEntries,
    SparseScratch,
    find_sparse_splits,
    gather_bins,
    list_rows,
    look_up,
    mark_rows,
    send_rows,
)
from hornbeam.kernels.split import CandidateFeatures
from hornbeam.kernels.team import Team

__all__ = ["SparseBackend"]

#: Tasks per thread, so that threads that finish early take more of them.
_TASKS_PER_THREAD = 16
#: The cost of one stored entry in the split search, in histogram bins.
_CELLS_PER_ENTRY = 20
#: If the nodes have fewer rows than one in this many, their entries are gathered before
#: the search, which costs as much as searching three times as many entries.
_GATHER_ONE_IN = 4
_EVERY_ROW = np.empty(0, np.uint8)


class SparseBackend(MarginRows, Backend):
    """Stored entries feature by feature, and the node of each row.

    Parameters
    ----------
    bins
        Of the stored entries, or what makes them for each tree.
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    margins
        (outputs, rows) float64: the initial margins; kept and updated in place.
    team
        The threads that work; given back by `close`.
    numbers
        Of the rows, which random draws depend on; None: they start at 0.
    """

    def __init__(
        self,
        bins: SparseBins | PerTreeBins,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[np.float64],
        team: Team,
        numbers: RowNumbers | None = None,
    ) -> None:
        super().__init__(targets, weights, margins, team, numbers)
        self._node_of = np.empty(self.n_rows, np.uint32)
        self._words = np.empty(self.n_rows, np.int64)
        self._tree_bins: PerTreeBins | None = None
        if isinstance(bins, PerTreeBins):
            self._tree_bins, self._bin_weights = bins, np.empty(0)
            self._n_features = bins.n_features
        else:
            self._set_bins(bins)

    def _set_bins(self, bins: SparseBins) -> None:
        self._bins, self._n_features = bins, bins.n_bins.size
        self._most_entries = int(np.diff(bins.starts).max())
        self._most_bins = int(bins.n_bins.max())
        threads = self._team.size
        self._cell_scratch = np.empty((threads, 2, self._most_entries), np.int64)
        self._wide_scratch = np.empty((threads, 2, 0), np.int64)
        self._bin_scratch = np.empty((threads, 5, self._most_bins + 1))

    @property
    def n_features(self) -> int:
        return self._n_features

    def _bin_tree(self, output: int) -> None:
        """Bin the rows by the hessians of this output, unless they already are."""
        assert self._tree_bins is not None
        weights = self._state.bin_weights(output)
        if not np.array_equal(weights, self._bin_weights):
            self._bin_weights = weights
            bins = self._tree_bins.make_bins(weights)
            assert isinstance(bins, SparseBins)
            self._set_bins(bins)

    def begin_tree(
        self,
        output: int,
        params: SplitParams,
        features: NDArray[np.uint64],
        sample: RowSample | None,
    ) -> None:
        if self._tree_bins is not None:
            self._bin_tree(output)
        self._output, self._rules = output, params.rules
        self._chosen = features
        self._column, self._scales, self._leaf_scales = self._quantise(
            output, params, sample
        )
        self._is_wide = self._column.packed.size == 0
        if self._is_wide and self._wide_scratch.shape[2] < self._most_entries:
            self._wide_scratch = np.empty_like(self._cell_scratch)
        taken = self._state.draw_sample()
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
            mask = EVERY_FEATURE if allowed is None else allowed[i : i + MOST_NODES]
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
        entries = self._entries_of(nodes.size, int(totals[:, 2].sum()))
        threads = self._team.threads_for(_CELLS_PER_ENTRY * entries.rows.size)
        block = max(1, self._chosen.size // (threads * _TASKS_PER_THREAD))
        splits = np.zeros((threads, nodes.size), SPLIT_DTYPE)
        self._team.run(
            find_sparse_splits,
            threads,
            entries,
            NodeGradients(self._words, self._column.wide, totals),
            CandidateFeatures(self._chosen, allowed, block),
            self._scales,
            self._rules,
            limits,
            SparseScratch(
                self._cell_scratch,
                self._wide_scratch if self._is_wide else self._wide_scratch[:, :, :0],
                np.empty((threads, nodes.size + 1), np.int64),
                self._bin_scratch,
            ),
            splits,
        )
        return splits[0]

    def _mark_rows(self, nodes: NDArray[np.intp]) -> NDArray[np.int64]:
        """Mark each row with its node; return sums and row counts, (nodes, 3)."""
        place = np.full(self._n_nodes, nodes.size, np.uint32)
        place[nodes] = np.arange(nodes.size)
        threads = self._team.threads_for(8 * self.n_rows)
        sums = np.zeros((threads, nodes.size + 1, 3), np.int64)
        self._team.run(
            mark_rows,
            threads,
            self._node_of,
            place,
            self._taken,
            self._column.packed,
            self._column.wide,
            self._words,
            sums,
        )
        of_nodes: NDArray[np.int64] = sums.sum(axis=0)[:-1]
        return of_nodes

    def _entries_of(self, n_nodes: int, n_rows: int) -> SparseEntries:
        """Return all entries, or only those of the nodes' rows if they are few."""
        own = self._bins
        if _GATHER_ONE_IN * n_rows > self.n_rows:
            return SparseEntries(own.starts, own.rows, own.bins)
        pointers, row_features, row_bins = own.by_row()
        listed = np.empty(n_rows, np.uint32)
        n_entries = list_rows(self._words, n_nodes, pointers, listed)
        starts = np.empty_like(own.starts)
        rows = np.empty(n_entries, np.uint32)
        bins = np.empty(n_entries, own.bins.dtype)
        gather_bins(
            listed,
            pointers,
            row_features,
            row_bins,
            np.empty(self._most_bins, np.int64),
            np.empty((2, n_entries), np.uint32),
            np.empty_like(bins),
            starts,
            rows,
            bins,
        )
        return SparseEntries(starts, rows, bins)

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
            SparseEntries(self._bins.starts, self._bins.rows, self._bins.bins),
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
        return self._state.sum_leaves(n_leaves)[0] * self._leaf_scales

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
        self._state.add_leaf_values(self._output, values)

    def regress_leaves(
        self, features: LeafFeatures, linear_lambda: float
    ) -> LeafSlopes:
        return self._state.regress_leaves(features, linear_lambda)

    def add_linear_leaves(
        self, data: NDArray[Any], values: NDArray[np.float32], leaves: NodeTerms
    ) -> None:
        if self._taken.size > 0:
            self._find_leaves()
        self._state.add_linear_leaves(self._output, data, values, leaves)
