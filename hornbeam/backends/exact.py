"""Splits between any two values, from columns in order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import Backend, RowSample, SplitParams
from hornbeam.backends.row_state import CELLS_PER_ROW, MarginRows
from hornbeam.binning.layout import SortedColumns
from hornbeam.cpu_count import available_threads
from hornbeam.kernels.exact import (
    NodeEntries,
    find_exact_splits,
    part_cells,
    send_left_out,
    send_rows,
)
from hornbeam.kernels.layout import SPLIT_DTYPE, TASK_ROWS
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.split import CandidateFeatures
from hornbeam.kernels.team import Team

__all__ = ["ExactBackend", "bytes_beside"]

#: The cost of one cell in the search for splits, in cells of a histogram.
_CELLS_PER_CELL = 8
#: Numbers that a thread holds of each cell of a column.
_SCRATCH = 7
_NO_MASK = np.empty((0, 0), np.uint8)
_NOWHERE = np.iinfo(np.uint32).max

Nodes = NDArray[np.intp]


def bytes_beside(n_cells: int, longest: int, threads: int) -> int:
    """Return the memory that the backend takes beside so many cells in order.

    The `longest` column has so many of them.
    """
    members = threads if threads > 0 else available_threads()
    return 8 * n_cells + members * 8 * _SCRATCH * longest


class ExactBackend(MarginRows, Backend):
    """Cells in order, of which those of a node lie together in each column.

    Each level of a tree goes once through all cells that are filled, and parts them
    among the children (Mehta, Agrawal and Rissanen 1996; Chen and Guestrin 2016,
    section 4.1).

    Parameters
    ----------
    ordered
        The cells; not changed.
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    margins
        (outputs, rows) float64: the margins to begin with; kept and changed.
    team
        The threads that work; given back when the backend is closed.
    """

    def __init__(
        self,
        ordered: SortedColumns,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[np.float64],
        team: Team,
    ) -> None:
        super().__init__(targets, weights, margins, team)
        self._starts, self._every_cell = ordered.starts, ordered.entries
        sizes = np.diff(ordered.starts)
        self._last_below = ordered.last_below
        self._most_candidates = ordered.max_candidates
        self._density = np.float32(1) - (self.n_rows - sizes) / np.float32(self.n_rows)
        self._is_constant = _are_constant(ordered)
        self._cells = np.empty_like(ordered.entries)
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
        growth: SplitParams,
        features: NDArray[np.uint64],
        sample: RowSample | None,
    ) -> None:
        self._rules, self._chosen = growth.rules, features
        self._ways = self._ways_of(growth)
        state = self._state
        steps, _ = self._quantise(output, growth, sample)
        state.widen()
        self._steps = steps.fine
        # A row's two are on one line of the cache.
        self._pairs = state.wide.T.reshape(-1)
        self._taken = state.draw()
        self._put_into_root()
        #: Splits that have been applied, and those whose cells are still at the parent.
        self._applied: list[tuple[Nodes, NDArray[Any], Nodes]] = []
        self._waiting: list[tuple[Nodes, Nodes]] = []

    def _ways_of(self, growth: SplitParams) -> NDArray[np.int64]:
        """Return which ways columns are searched, (features, 2): from, and up to.

        Way 0 has missing values on the right, way 1 on the left. As in XGBoost the
        first is left out, unless it is asked for, where hardly a row misses the
        feature, or all have the same value of it.
        """
        ways = np.full((self.n_features, 2), (0, 2))
        if growth.default_direction == "right":
            ways[:, 1] = 1
        else:
            left_only = growth.default_direction == "left"
            is_dense = self._density >= np.float32(growth.opt_dense_col)
            ways[:, 0] = left_only | is_dense | self._is_constant
        return ways

    def _put_into_root(self) -> None:
        taken, wide = self._taken, self._state.wide
        root = self._segments[0]
        root[:, 0] = self._starts[:-1]
        if taken is None:
            root[:, 1] = self._starts[1:]
            self._cells[:] = self._every_cell
            self._node_of[:] = 0
            self._totals[0] = *wide.sum(axis=1), self.n_rows
            return
        chosen = taken != 0
        self._node_of[:] = np.where(chosen, np.uint32(0), np.uint32(_NOWHERE))
        self._totals[0] = *wide[:, chosen].sum(axis=1), np.count_nonzero(chosen)
        for feature in self._chosen.tolist():
            begin, end = self._starts[feature], self._starts[feature + 1]
            cells = self._every_cell[begin:end]
            cells = cells[chosen[cells.astype(np.uint32)]]
            self._cells[begin : begin + cells.size] = cells
            root[feature, 1] = begin + cells.size

    def find_splits(
        self,
        nodes: Nodes,
        allowed: NDArray[np.uint8] | None,
        limits: NodeConstraints | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        self._part()
        segments = self._segments[nodes]
        splits = np.empty((nodes.size, self._chosen.size), SPLIT_DTYPE)
        n_cells = int(np.diff(segments[:, self._chosen.astype(np.intp)]).sum())
        self._team.run(
            find_exact_splits,
            self._team.members_for(_CELLS_PER_CELL * n_cells),
            NodeEntries(
                self._cells, segments, self._pairs, self._totals[nodes], self._ways
            ),
            CandidateFeatures(self._chosen, _NO_MASK if allowed is None else allowed),
            self._steps,
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
        self._make_room(int(left[-1]) + 2)
        for side, own in (("left", left), ("right", left + 1)):
            for place, sums in enumerate(("gradient", "hessian", "rows")):
                sums_left, total = splits[f"left_{sums}"], splits[f"total_{sums}"]
                part = sums_left if side == "left" else total - sums_left
                self._totals[own, place] = part
        features = splits["feature"].astype(np.intp)
        segments = self._segments[nodes, features]
        self._send(nodes, splits, left, self._cells, nodes, segments)
        self._applied.append((nodes, splits, left))
        self._waiting.append((nodes, left))

    def _send(
        self,
        nodes: Nodes,
        splits: NDArray[Any],
        left: Nodes,
        cells: NDArray[np.uint64],
        owners: Nodes,
        segments: NDArray[np.int64],
    ) -> None:
        """Send rows to the children by the cells of these segments.

        Of each segment all cells are of the feature that its owner is split by.
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
        n_cells = int(np.diff(segments).sum())
        self._team.run(
            send_rows,
            self._team.members_for(CELLS_PER_ROW * n_cells),
            np.array(tasks, np.int64).reshape(-1, 3),
            cells,
            table[2],
            table[0],
            table[1],
            self._node_of,
        )
        if (self._density[splits["feature"]] == 1.0).all():
            return
        self._team.run(
            send_left_out,
            self._team.members_for(CELLS_PER_ROW * self.n_rows),
            table[0],
            table[1],
            missing_left,
            self._node_of,
        )

    def _make_room(self, n_nodes: int) -> None:
        size = len(self._totals)
        if n_nodes > size:
            more = max(n_nodes, 2 * size) - size
            self._totals = np.pad(self._totals, ((0, more), (0, 0)))
            self._segments = np.pad(self._segments, ((0, more), (0, 0), (0, 0)))

    def _part(self) -> None:
        """Part the cells of split nodes among the children."""
        if not self._waiting:
            return
        waiting = zip(*self._waiting, strict=True)
        nodes, left = (np.concatenate(part) for part in waiting)
        self._waiting = []
        segments = self._segments[nodes][:, self._chosen.astype(np.intp)]
        self._team.run(
            part_cells,
            self._team.members_for(_CELLS_PER_CELL * int(np.diff(segments).sum())),
            nodes,
            left,
            self._chosen,
            self._node_of,
            self._scratch,
            self._segments,
            self._cells,
        )

    def sum_leaves(
        self, nodes: Nodes, leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.float64]:
        # The last is for rows that are nowhere.
        self._leaf_of_node = np.full(len(self._totals) + 1, n_leaves, np.uint32)
        self._leaf_of_node[nodes] = leaves
        self._mark_leaves()
        return self._state.sum_leaves(n_leaves) * self._steps

    def _mark_leaves(self) -> None:
        leaf_of = self._state.leaf_of
        np.take(self._leaf_of_node, self._node_of, out=leaf_of, mode="clip")

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        if self._taken is not None:
            self._send_left_out_of_sample()
            self._mark_leaves()
        self._state.add_leaf_values(values)

    def _send_left_out_of_sample(self) -> None:
        """Send the rows that did not grow the tree down, split by split."""
        self._node_of[self._taken == 0] = 0
        for nodes, found, left in self._applied:
            # Their values may lie on either side of a threshold between two others.
            splits = found.copy()
            splits["bin"] = self._last_below(found)
            features, first = np.unique(splits["feature"], return_index=True)
            segments = np.stack([self._starts[features], self._starts[features + 1]], 1)
            every_cell = self._every_cell
            self._send(nodes, splits, left, every_cell, nodes[first], segments)


def _are_constant(ordered: SortedColumns) -> NDArray[np.bool_]:
    """Return which columns have one value in all filled cells."""
    begins, ends = ordered.starts[:-1], ordered.starts[1:]
    constant = np.zeros(begins.size, np.bool_)
    some = ends > begins
    # The upper half of a cell is the number of its value, in ascending order.
    first, last = ordered.entries[begins[some]], ordered.entries[ends[some] - 1]
    constant[some] = first >> np.uint64(32) == last >> np.uint64(32)
    return constant
