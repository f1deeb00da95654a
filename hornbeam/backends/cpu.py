"""Rows in memory, and a team of threads."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.base import Backend, GradientSource, Growth, RowSample
from hornbeam.errors import DataError
from hornbeam.kernels.gradients import find_extent, quantise, widen
from hornbeam.kernels.histogram import build_histograms
from hornbeam.kernels.layout import (
    BLOCK_ROWS,
    COARSE_GRADIENT_BITS,
    COARSE_HESSIAN_BITS,
    SPLIT_DTYPE,
    SUM_BITS,
    TASK_ROWS,
)
from hornbeam.kernels.partition import (
    add_leaf_values,
    add_routed_values,
    partition_rows,
    sum_leaves,
)
from hornbeam.kernels.sampling import draw_rows
from hornbeam.kernels.split import find_splits
from hornbeam.kernels.team import Team, lease

__all__ = ["CpuBackend"]

#: Where the mean |g| or h is under this many coarse steps, rounding is no longer
#: small beside it, and fine steps are used. A test shows both sides of the line.
_LEAST_MEAN_STEPS = 64
#: Memory for the histograms of one training.
_HISTOGRAM_BYTES = 1 << 30
#: Packed sums of one task: what fits in the second-level cache.
_SCRATCH_BYTES = 1 << 19
#: Cells of one join task, and work of one split task.
_JOIN_CELLS = 1 << 14
_SPLIT_CELLS = 1 << 15
#: A fixed-point value must stay below this for rounding by float64 to be exact.
_FINEST_BITS = 51


def _power_of_two_above(value: float) -> int:
    """Return the exponent e with value < 2**e <= 2 * value."""
    return int(np.frexp(value)[1])


class CpuBackend(Backend):
    """Rows in memory.

    Parameters
    ----------
    by_feature, by_row
        Codes of the same cells, (features, rows) and (rows * features,).
    bins
        (features,) int64: bins of each feature; the code of a missing cell.
    offsets
        (features + 1,) int64: first histogram cell of each feature.
    labels, weights
        (rows,) float64; weights may be None.
    scores
        (outputs, rows) float64: the margins to begin with; kept and changed.
    threads
        Size of the team; 0 or less means all processors.
    max_histograms
        The most histograms kept at once; None: what fits in one GiB.
    """

    def __init__(
        self,
        by_feature: NDArray[Any],
        by_row: NDArray[Any],
        bins: NDArray[np.int64],
        offsets: NDArray[np.int64],
        labels: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        scores: NDArray[np.float64],
        *,
        threads: int = 0,
        max_histograms: int | None = None,
    ) -> None:
        self._stack = ExitStack()
        self._team: Team = self._stack.enter_context(lease(threads))
        self._by_feature, self._by_row = by_feature, by_row
        self._bins, self._offsets = bins, offsets
        self._labels, self._weights = labels, weights
        self.scores = scores
        outputs, rows = scores.shape
        self._n_rows = rows
        self._gradients = np.empty((outputs, rows), np.float32)
        self._hessians = np.empty((outputs, rows), np.float32)
        self._packed = np.empty(rows, np.int64)
        self._wide = np.empty((2, 0), np.int64)
        self._rows = np.empty((2, rows), np.uint32)
        self._widest = int(np.diff(offsets).max())
        self._stride = 1 << int(self._widest - 1).bit_length()
        self._init_histograms(max_histograms)
        self._split_scratch = np.empty((self._team.size, 4, self._widest + 1))
        # Per node of the present tree: where its rows are, and its histogram.
        self._reserve_nodes(64)

    def _init_histograms(self, most: int | None) -> None:
        cells = int(self._offsets[-1])
        self._n_slabs = 4 * self._team.size if self._team.size > 1 else 0
        if most is None:
            most = _HISTOGRAM_BYTES // (16 * cells)
        # Three is what splitting one node takes: a parent and two children.
        self._n_slots = max(3, min(most, 2 * self._n_rows + 1))
        # Pages of memory are only taken when a histogram is written to them.
        self._histograms = np.empty(
            (self._n_slots + self._n_slabs, 2, cells), np.int64
        )
        columns = max(1, _SCRATCH_BYTES // (8 * self._stride))
        self._columns_of_a_task = min(columns, self.n_features)
        self._scratch = np.zeros(
            (self._team.size, self._columns_of_a_task * self._stride), np.int64
        )

    def _reserve_nodes(self, count: int) -> None:
        self._side = np.zeros(count, np.int64)
        self._begin = np.zeros(count, np.int64)
        self._end = np.zeros(count, np.int64)
        self._parent = np.full(count, -1, np.int64)
        self._slot = np.full(count, -1, np.int64)
        self._splits = np.zeros((count, 3), np.int32)
        self._children = np.full((count, 2), -1, np.int32)

    def _grow_nodes(self, count: int) -> None:
        before = self._side.size
        if count <= before:
            return
        old = (
            self._side, self._begin, self._end, self._parent, self._slot,
            self._splits, self._children,
        )  # fmt: skip
        self._reserve_nodes(max(count, 2 * before))
        new = (
            self._side, self._begin, self._end, self._parent, self._slot,
            self._splits, self._children,
        )  # fmt: skip
        for source, target in zip(old, new, strict=True):
            target[:before] = source

    @property
    def n_features(self) -> int:
        return self._bins.size

    def close(self) -> None:
        self._stack.close()

    def compute_gradients(self, objective: GradientSource) -> None:
        objective.write_gradients(
            self._team,
            self.scores,
            self._labels,
            self._weights,
            self._gradients,
            self._hessians,
        )

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        with np.errstate(over="ignore"):
            self._gradients[...] = gradients
            self._hessians[...] = hessians

    def begin_tree(
        self,
        output: int,
        growth: Growth,
        columns: NDArray[np.uint64],
        sample: RowSample | None,
    ) -> None:
        self._output = output
        self._rules = growth.rules
        self._columns = columns
        self._quantise()
        rows = self._n_rows
        if sample is None:
            self._rows[0] = np.arange(rows, dtype=np.uint32)
            self._left_out = np.empty(0, np.uint32)
        else:
            taken = self._draw(sample)
            chosen = np.flatnonzero(taken)
            rows = chosen.size
            self._rows[0, :rows] = chosen
            self._left_out = np.flatnonzero(taken == 0).astype(np.uint32)
        self._slot.fill(-1)
        self._children.fill(-1)
        self._side[0], self._begin[0], self._end[0] = 0, 0, rows
        self._parent[0] = -1
        self._free = list(range(self._n_slots - 1, -1, -1))

    def _draw(self, sample: RowSample) -> NDArray[np.uint8]:
        taken = np.empty(self._n_rows, np.uint8)
        self._run_rows(
            draw_rows,
            self._n_rows,
            int(sample.rate * 2.0**32),
            np.uint64(sample.tree),
            np.uint64(0),
            np.uint64(sample.seed % 2**64),
            taken,
        )
        return taken

    def _run_rows(self, kernel: Any, rows: int, *arguments: Any) -> None:
        """Run a flat loop over rows; one row is about eight cells of work."""
        self._team.run(kernel, self._team.members_for(8 * rows), *arguments)

    def _quantise(self) -> None:
        """Turn the output's gradients into integers, coarse where that is enough."""
        rows = self._n_rows
        gradients = self._gradients[self._output]
        hessians = self._hessians[self._output]
        tasks = -(-rows // TASK_ROWS)
        extent = np.empty((tasks, 2), np.int32)
        self._run_rows(
            find_extent, rows, gradients.view(np.int32), hessians.view(np.int32), extent
        )
        largest = extent.max(axis=0).view(np.float32).astype(np.float64)
        if not np.isfinite(largest).all():
            raise DataError(
                "a gradient or hessian is not a finite float32 number: labels, "
                "weights or base margins are too large, or the learning rate makes "
                "training diverge; scale the labels or weights down, or lower "
                "learning_rate"
            )
        exponents = [_power_of_two_above(value) for value in largest]
        fine = min(_FINEST_BITS, SUM_BITS - rows.bit_length())
        self._fine_steps = np.exp2([exponent - fine for exponent in exponents])
        self._steps = np.exp2(
            [
                exponents[0] - COARSE_GRADIENT_BITS,
                exponents[1] - COARSE_HESSIAN_BITS,
            ]
        )
        magnitudes = np.empty((tasks, 2), np.int64)
        self._run_rows(
            quantise, rows, gradients, hessians, *(1.0 / self._steps),
            self._packed, magnitudes,
        )  # fmt: skip
        means = magnitudes.sum(axis=0) / rows
        self._coarse = bool(((means >= _LEAST_MEAN_STEPS) | (largest == 0.0)).all())
        if not self._coarse:
            if self._wide.shape[1] == 0:
                self._wide = np.empty((2, rows), np.int64)
            self._steps = self._fine_steps
            self._run_rows(
                widen, rows, gradients, hessians, *(1.0 / self._steps), self._wide
            )

    def find_splits(
        self, nodes: NDArray[np.intp], allowed: NDArray[np.uint8] | None
    ) -> NDArray[Any]:
        batch = max(2, self._n_slots // 3 & ~1)
        if nodes.size <= batch:
            return self._find_splits(nodes, allowed)
        parts = [
            self._find_splits(
                nodes[i : i + batch], None if allowed is None else allowed[i : i + batch]
            )
            for i in range(0, nodes.size, batch)
        ]
        return np.concatenate(parts)

    def _find_splits(
        self, nodes: NDArray[np.intp], allowed: NDArray[np.uint8] | None
    ) -> NDArray[Any]:
        self._build_histograms(nodes)
        columns = self._columns.size
        work = columns * self._widest * nodes.size
        members = self._team.members_for(4 * work)
        block = max(1, min(columns, _SPLIT_CELLS // self._widest))
        if members == 1:
            block = columns
        splits = np.empty((nodes.size, -(-columns // block)), SPLIT_DTYPE)
        self._team.run(
            find_splits,
            members,
            self._slot[nodes],
            self._histograms,
            self._columns,
            np.empty((0, 0), np.uint8) if allowed is None else allowed,
            self._offsets,
            self._bins,
            self._steps,
            self._rules,
            self._split_scratch,
            block,
            splits,
        )
        if splits.shape[1] == 1:
            return splits[:, 0]
        best = splits["gain"].argmax(axis=1)  # the first of equals: lowest feature
        return splits[np.arange(nodes.size), best]

    def _build_histograms(self, nodes: NDArray[np.intp]) -> None:
        """Make the histograms of `nodes`, the larger of siblings by subtraction."""
        parent_slots = np.full(nodes.size, -1, np.int64)
        built = nodes
        if nodes.size > 1:
            left = nodes[0::2]
            right = left + 1
            sizes = self._end - self._begin
            parents = self._parent[left]
            known = self._slot[parents] >= 0
            smaller = np.where(sizes[left] <= sizes[right], left, right)
            larger = left + right - smaller
            # Siblings whose parent's histogram is gone are both built.
            both = ~known
            built = np.concatenate([smaller, larger[both]])
            self._make_room(built.size, self._slot[parents[known]])
            parent_slots = np.full(built.size, -1, np.int64)
            parent_slots[: left.size] = self._slot[parents]
            self._slot[larger[known]] = self._slot[parents[known]]
            self._slot[parents] = -1
        free = self._free
        self._slot[built] = free[: -built.size - 1 : -1]
        del free[-built.size :]
        self._run_histograms(built, parent_slots)

    def _make_room(self, count: int, kept: NDArray[np.int64]) -> None:
        """See to `count` free slots; all histograms but the `kept` ones may go."""
        if len(self._free) >= count:
            return
        in_use = np.flatnonzero(self._slot >= 0)
        gone = in_use[~np.isin(self._slot[in_use], kept)]
        self._free.extend(self._slot[gone].tolist())
        self._slot[gone] = -1

    def _run_histograms(
        self, nodes: NDArray[np.intp], parent_slots: NDArray[np.int64]
    ) -> None:
        begin, end, side = self._begin[nodes], self._end[nodes], self._side[nodes]
        slots = self._slot[nodes]
        rows = int((end - begin).sum())
        columns = self._columns.size
        members = self._team.members_for(rows * columns)
        # Slabs bound the number of tasks beyond one a node.
        chunk = rows if members == 1 else max(BLOCK_ROWS, rows // self._n_slabs + 1)
        parts = np.maximum(1, -(-(end - begin) // max(chunk, 1)))
        if members == 1 or parts.max() == 1:
            tasks = np.stack([slots, side, begin, end], axis=1)
            first_slab = last_slab = np.zeros(nodes.size, np.int64)
        else:
            owner = np.repeat(np.arange(nodes.size), parts)
            last_slab = np.cumsum(parts - 1) + self._n_slots
            first_slab = last_slab - (parts - 1)
            part = np.arange(owner.size) - np.repeat(np.cumsum(parts) - parts, parts)
            tasks = np.stack(
                [
                    np.where(part == 0, slots[owner], first_slab[owner] + part - 1),
                    side[owner],
                    begin[owner] + part * chunk,
                    np.minimum(begin[owner] + (part + 1) * chunk, end[owner]),
                ],
                axis=1,
            )
        cells = int(self._offsets[-1])
        self._team.run(
            build_histograms,
            members,
            _times(tasks, columns, self._columns_of_a_task),
            _times(
                np.stack([slots, first_slab, last_slab, parent_slots], axis=1),
                cells,
                cells if members == 1 else _JOIN_CELLS,
            ),
            self._by_row,
            self._columns,
            self._offsets,
            self._rows,
            self._packed if self._coarse else self._packed[:0],
            self._wide,
            self._scratch,
            self._stride,
            self._histograms,
        )

    def apply_splits(
        self, nodes: NDArray[np.intp], splits: NDArray[Any], left: NDArray[np.intp]
    ) -> None:
        self._grow_nodes(int(left[-1]) + 2)
        features = splits["feature"]
        applied = np.empty((nodes.size, 3), np.int32)
        applied[:, 0] = features
        applied[:, 1] = splits["bin"]
        applied[:, 2] = np.where(splits["missing_left"], self._bins[features], -1)
        self._splits[nodes] = applied
        self._children[nodes, 0] = left
        self._children[nodes, 1] = left + 1
        begin, end, side = self._begin[nodes], self._end[nodes], self._side[nodes]
        rows = int((end - begin).sum())
        members = self._team.members_for(8 * rows)
        chunk = rows if members == 1 else max(BLOCK_ROWS, rows // (4 * members) + 1)
        tasks = _chunks(np.arange(nodes.size), side, begin, end, chunk)
        counts = np.zeros(len(tasks), np.int64)
        self._team.run(
            partition_rows,
            members,
            tasks,
            applied,
            self._by_feature,
            self._rows,
            counts,
        )
        first = tasks[:, 4] == np.arange(len(tasks))
        lefts = np.add.reduceat(counts, np.flatnonzero(first))
        split_up = (tasks[:, 5] - tasks[:, 4])[first] > 1
        for child, child_begin, child_end in (
            (left, begin, begin + lefts),
            (left + 1, begin + lefts, end),
        ):
            self._begin[child], self._end[child] = child_begin, child_end
            self._side[child] = np.where(split_up, side, 1 - side)
            self._parent[child] = nodes

    def _leaf_tasks(self, leaves: NDArray[np.intp], members: int) -> NDArray[np.int64]:
        chunk = self._n_rows if members == 1 else TASK_ROWS
        tasks = _chunks(
            np.arange(leaves.size),
            self._side[leaves],
            self._begin[leaves],
            self._end[leaves],
            max(chunk, 1),
        )
        return np.ascontiguousarray(tasks[:, :4])

    def sum_leaves(self, leaves: NDArray[np.intp]) -> NDArray[np.float64]:
        sums = np.zeros((leaves.size, 2), np.int64)
        members = self._team.members_for(8 * self._n_rows)
        self._team.run(
            sum_leaves,
            members,
            self._leaf_tasks(leaves, members),
            self._rows,
            self._gradients[self._output],
            self._hessians[self._output],
            *(1.0 / self._fine_steps),
            sums,
        )
        return sums * self._fine_steps

    def add_leaf_values(
        self, leaves: NDArray[np.intp], values: NDArray[np.float32]
    ) -> None:
        scores = self.scores[self._output]
        members = self._team.members_for(8 * self._n_rows)
        self._team.run(
            add_leaf_values,
            members,
            self._leaf_tasks(leaves, members),
            self._rows,
            values,
            scores,
        )
        if self._left_out.size > 0:
            of_node = np.zeros(self._children.shape[0], np.float32)
            of_node[leaves] = values
            self._run_rows(
                add_routed_values,
                8 * self._left_out.size,
                TASK_ROWS,
                self._left_out,
                self._by_feature,
                self._splits,
                self._children,
                of_node,
                scores,
            )


def _times(tasks: NDArray[np.int64], length: int, block: int) -> NDArray[np.int64]:
    """Return each task once for every block of ``range(length)``, appended to it."""
    if block >= length:
        out = np.empty((len(tasks), tasks.shape[1] + 2), np.int64)
        out[:, :-2] = tasks
        out[:, -2] = 0
        out[:, -1] = length
        return out
    begins = np.arange(0, length, block)
    blocks = np.stack([begins, np.minimum(begins + block, length)], axis=1)
    return np.hstack(
        [np.repeat(tasks, len(blocks), axis=0), np.tile(blocks, (len(tasks), 1))]
    )


def _chunks(
    numbers: NDArray[np.intp],
    side: NDArray[np.int64],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    chunk: int,
) -> NDArray[np.int64]:
    """Return tasks of up to `chunk` rows of each node.

    Columns: node, side, begin, end, and the first and last of the node's tasks.
    """
    parts = np.maximum(1, -(-(end - begin) // max(chunk, 1)))
    last = np.cumsum(parts)
    first = last - parts
    owner = numbers if parts.size == last[-1] else np.repeat(numbers, parts)
    tasks = np.empty((owner.size, 6), np.int64)
    tasks[:, 0] = owner
    tasks[:, 1] = side[owner]
    tasks[:, 2] = begin[owner] + (np.arange(owner.size) - first[owner]) * chunk
    tasks[:, 3] = np.minimum(tasks[:, 2] + chunk, end[owner])
    tasks[:, 4] = first[owner]
    tasks[:, 5] = last[owner]
    return tasks
