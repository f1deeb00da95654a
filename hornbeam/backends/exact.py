"""Splits between any two values, from sorted columns (`tree_method="exact"`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import EVERY_FEATURE, Backend, RowSample, SplitParams
from hornbeam.backends.margin_rows import MarginRows
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.binning.layout import SortedColumns
from hornbeam.cpu_count import available_threads
from hornbeam.kernels.exact import (
    NodeEntries,
    find_exact_splits,
    partition_entries,
    send_left_out,
    send_rows,
)
from hornbeam.kernels.layout import SPLIT_DTYPE, TASK_ROWS
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.plan import CELLS_PER_ROW
from hornbeam.kernels.split import CandidateFeatures
from hornbeam.kernels.team import Team

__all__ = ["ExactBackend", "working_bytes"]

#: The cost of one entry in the split search, in histogram bins.
_CELLS_PER_ENTRY = 8
#: Values per entry of a column in the buffer of a thread.
_SCRATCH = 7
_NOWHERE = np.iinfo(np.uint32).max

Nodes = NDArray[np.intp]


def working_bytes(n_entries: int, longest: int, threads: int) -> int:
    """Return the memory of the backend in addition to `n_entries` sorted entries.

    `longest` is the number of entries of the longest column.
    """
    if threads <= 0:
        threads = available_threads()
    return 8 * n_entries + threads * 8 * _SCRATCH * longest


class ExactBackend(MarginRows, Backend):
    """Sorted columns, in each of which the entries of a node are contiguous.

    Each level of a tree is one pass over all stored entries, which are partitioned
    among the children (Mehta, Agrawal and Rissanen 1996; Chen and Guestrin 2016,
    section 4.1).

    Parameters
    ----------
    ordered
        The sorted columns; not changed.
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
        ordered: SortedColumns,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[np.float64],
        team: Team,
        numbers: RowNumbers | None = None,
    ) -> None:
        super().__init__(targets, weights, margins, team, numbers)
        self._starts, self._every_entry = ordered.starts, ordered.entries
        sizes = np.diff(ordered.starts)
        self._last_below = ordered.last_below
        self._most_candidates = ordered.max_candidates
        self._density = np.float32(1) - (self.n_rows - sizes) / np.float32(self.n_rows)
        self._is_constant = _are_constant(ordered)
        self._entries = np.empty_like(ordered.entries)
        self._scratch = np.empty((team.size, _SCRATCH, int(sizes.max()) + 1))
        self._node_of = np.empty(self.n_rows, np.uint32)
        self._segments = np.zeros((64, self.n_features, 2), np.int64)
        self._totals = np.zeros((64, 3), np.int64)

    @property
    def n_features(self) -> int:
        return self._starts.size - 1

    def begin_tree(
        self,
        output: int,
        params: SplitParams,
        features: NDArray[np.uint64],
        sample: RowSample | None,
    ) -> None:
        self._output, self._rules, self._chosen = output, params.rules, features
        self._directions = self._directions_of(params)
        column, _, self._scales = self._quantise(output, params, sample)
        if column.packed.size > 0:
            column.widen()
        self._wide = column.wide
        # A row's gradient and hessian share a cache line.
        self._pairs = column.wide.T.reshape(-1)
        self._taken = self._state.draw_sample()
        self._put_into_root()
        #: Applied splits, and those whose entries are not partitioned yet.
        self._applied: list[tuple[Nodes, NDArray[Any], Nodes]] = []
        self._pending: list[tuple[Nodes, Nodes]] = []

    def _directions_of(self, params: SplitParams) -> NDArray[np.int64]:
        """Return the default directions to search, (features, 2): from, and up to.

        Direction 0 has missing values on the right, direction 1 on the left. As in
        XGBoost, direction 0 is left out by default where hardly any row misses the
        feature, or all rows that have it have the same value.
        """
        directions = np.full((self.n_features, 2), (0, 2))
        if params.default_direction == "right":
            directions[:, 1] = 1
        else:
            left_only = params.default_direction == "left"
            is_dense = self._density >= np.float32(params.opt_dense_col)
            directions[:, 0] = left_only | is_dense | self._is_constant
        return directions

    def _put_into_root(self) -> None:
        taken, wide = self._taken, self._wide
        root = self._segments[0]
        root[:, 0] = self._starts[:-1]
        if taken is None:
            root[:, 1] = self._starts[1:]
            self._entries[:] = self._every_entry
            self._node_of[:] = 0
            self._totals[0] = *wide.sum(axis=1), self.n_rows
            return
        chosen = taken != 0
        self._node_of[:] = np.where(chosen, np.uint32(0), np.uint32(_NOWHERE))
        self._totals[0] = *wide[:, chosen].sum(axis=1), np.count_nonzero(chosen)
        for feature in self._chosen.tolist():
            begin, end = self._starts[feature], self._starts[feature + 1]
            entries = self._every_entry[begin:end]
            entries = entries[chosen[entries.astype(np.uint32)]]
            self._entries[begin : begin + entries.size] = entries
            root[feature, 1] = begin + entries.size

    def find_splits(
        self,
        nodes: Nodes,
        allowed: NDArray[np.uint8] | None,
        limits: NodeConstraints | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        self._partition()
        segments = self._segments[nodes]
        splits = np.empty((nodes.size, self._chosen.size), SPLIT_DTYPE)
        n_entries = int(np.diff(segments[:, self._chosen.astype(np.intp)]).sum())
        self._team.run(
            find_exact_splits,
            self._team.threads_for(_CELLS_PER_ENTRY * n_entries),
            NodeEntries(
                self._entries,
                segments,
                self._pairs,
                self._totals[nodes],
                self._directions,
            ),
            CandidateFeatures(
                self._chosen, EVERY_FEATURE if allowed is None else allowed
            ),
            self._scales,
            self._rules,
            limits,
            self._most_candidates,
            self._scratch,
            splits,
        )
        best = splits["gain"].argmax(axis=1)  # the first of equals: lowest feature
        no_sets = np.empty((nodes.size, 0), np.uint64)
        return splits[np.arange(nodes.size), best], no_sets

    def apply_splits(
        self,
        nodes: Nodes,
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: Nodes,
    ) -> None:
        self._reserve(int(left[-1]) + 2)
        for side, own in (("left", left), ("right", left + 1)):
            for place, sums in enumerate(("gradient", "hessian", "rows")):
                sums_left, total = splits[f"left_{sums}"], splits[f"total_{sums}"]
                part = sums_left if side == "left" else total - sums_left
                self._totals[own, place] = part
        features = splits["feature"].astype(np.intp)
        segments = self._segments[nodes, features]
        self._send(nodes, splits, left, self._entries, nodes, segments)
        self._applied.append((nodes, splits, left))
        self._pending.append((nodes, left))

    def _send(
        self,
        nodes: Nodes,
        splits: NDArray[Any],
        left: Nodes,
        entries: NDArray[np.uint64],
        owners: Nodes,
        segments: NDArray[np.int64],
    ) -> None:
        """Move rows to the children by the entries of these segments.

        A segment holds entries of the feature that its owner is split by.
        """
        size = int(nodes.max()) + 1
        table = np.full((3, size), -1, np.int64)
        table[:, nodes] = left, splits["feature"], splits["bin"]
        missing_left = np.zeros(size, np.uint8)
        missing_left[nodes] = splits["missing_left"]
        tasks = [
            (owner, start, min(start + TASK_ROWS, end))
            for owner, (begin, end) in zip(
                owners.tolist(), segments.tolist(), strict=True
            )
            for start in range(begin, end, TASK_ROWS)
        ]
        n_entries = int(np.diff(segments).sum())
        self._team.run(
            send_rows,
            self._team.threads_for(CELLS_PER_ROW * n_entries),
            np.array(tasks, np.int64).reshape(-1, 3),
            entries,
            table[2],
            table[0],
            table[1],
            self._node_of,
        )
        if (self._density[splits["feature"]] == 1.0).all():
            return
        self._team.run(
            send_left_out,
            self._team.threads_for(CELLS_PER_ROW * self.n_rows),
            table[0],
            table[1],
            missing_left,
            self._node_of,
        )

    def _reserve(self, n_nodes: int) -> None:
        size = len(self._totals)
        if n_nodes > size:
            more = max(n_nodes, 2 * size) - size
            self._totals = np.pad(self._totals, ((0, more), (0, 0)))
            self._segments = np.pad(self._segments, ((0, more), (0, 0), (0, 0)))

    def _partition(self) -> None:
        """Partition the entries of split nodes among the children."""
        if not self._pending:
            return
        pending = zip(*self._pending, strict=True)
        nodes, left = (np.concatenate(part) for part in pending)
        self._pending = []
        segments = self._segments[nodes][:, self._chosen.astype(np.intp)]
        self._team.run(
            partition_entries,
            self._team.threads_for(_CELLS_PER_ENTRY * int(np.diff(segments).sum())),
            nodes,
            left,
            self._chosen,
            self._node_of,
            self._scratch,
            self._segments,
            self._entries,
        )

    def sum_leaves(
        self, nodes: Nodes, leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.float64]:
        # The last one is for rows that are in no node.
        self._leaf_of_node = np.full(len(self._totals) + 1, n_leaves, np.uint32)
        self._leaf_of_node[nodes] = leaves
        self._mark_leaves()
        return self._state.sum_leaves(n_leaves)[0] * self._scales

    def _mark_leaves(self) -> None:
        leaf_of = self._state.leaf_of
        np.take(self._leaf_of_node, self._node_of, out=leaf_of, mode="clip")

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        if self._taken is not None:
            self._send_left_out_of_sample()
            self._mark_leaves()
        self._state.add_leaf_values(self._output, values)

    def _send_left_out_of_sample(self) -> None:
        """Move the rows that are not in the sample down the tree, split by split."""
        self._node_of[self._taken == 0] = 0
        for nodes, found, left in self._applied:
            # A threshold lies between values of the sample; other rows may have values
            # in between.
            splits = found.copy()
            splits["bin"] = self._last_below(found)
            features, first = np.unique(splits["feature"], return_index=True)
            segments = np.stack([self._starts[features], self._starts[features + 1]], 1)
            every_entry = self._every_entry
            self._send(nodes, splits, left, every_entry, nodes[first], segments)


def _are_constant(ordered: SortedColumns) -> NDArray[np.bool_]:
    """Return which columns have the same value in all entries."""
    begins, ends = ordered.starts[:-1], ordered.starts[1:]
    constant = np.zeros(begins.size, np.bool_)
    some = ends > begins
    # The upper half of an entry is the rank of its value.
    first, last = ordered.entries[begins[some]], ordered.entries[ends[some] - 1]
    constant[some] = first >> np.uint64(32) == last >> np.uint64(32)
    return constant
