"""Rows whose bins, gradients, margins and nodes are on an OpenCL device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import (
    GradientSource,
    LeafFeatures,
    LeafSlopes,
    RowSample,
)
from hornbeam.backends.memory_rows import MemoryRows
from hornbeam.backends.opencl.column_groups import ColumnGroups, group_columns
from hornbeam.backends.opencl.devices import Device
from hornbeam.backends.opencl.gradient_columns import (
    ColumnBuffers,
    DeviceColumn,
    GradientPair,
)
from hornbeam.backends.opencl.gradients import DeviceGradients
from hornbeam.backends.opencl.mirror import Mirror
from hornbeam.backends.opencl.partition import DevicePartition
from hornbeam.backends.opencl.queue import Buffer, DeviceQueue, check_memory, tiles_of
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.binning.layout import DenseBins, HistogramLayout, PerTreeBins
from hornbeam.kernels.layout import BLOCK_ROWS
from hornbeam.kernels.linear_leaves import NodeTerms
from hornbeam.kernels.team import Team

__all__ = ["OpenCLRows"]

#: Work-groups for each compute unit that share the rows of the histograms of a level.
_GROUPS_PER_UNIT = 8
#: The least rows of such a group: it adds its sums to the node's histogram at the end.
_LEAST_ROWS = 1 << 11


class OpenCLRows(MemoryRows):
    """Bins, gradients, margins and the node of each row, on a device.

    The histograms that it builds are read back, and the split search is that of rows
    in memory. What the device does not compute (gradients of most objectives, draws of
    rows, regressions of leaves) is computed on the host, from and to arrays that are
    copied when the other side reads them.

    Parameters
    ----------
    bins, targets, weights, margins, team
        As for `MemoryRows`.
    device
        That the rows are on.
    numbers, multi_output_columns
        As for `MemoryRows`.

    Raises
    ------
    DeviceError
        If the memory of the device is too small; and from all methods, if it fails.
    """

    #: A pass over few rows takes the device hardly longer than starting it.
    lookahead = 8

    def __init__(
        self,
        bins: DenseBins | PerTreeBins,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[Any],
        team: Team,
        device: Device,
        numbers: RowNumbers | None = None,
        multi_output_columns: int = 0,
    ) -> None:
        self._device = device
        self._queue: DeviceQueue | None = None
        state = targets, weights, margins, team
        super().__init__(bins, *state, numbers, multi_output_columns)
        if self._queue is None:
            self._start()

    def _use_bins(self, bins: DenseBins) -> HistogramLayout:
        layout, kind = bins.layout, bins.by_feature.dtype
        self._check_memory(layout, kind)
        if self._queue is None:
            self._start()
        queue, n_rows = self.queue, self.n_rows
        queue.bins = kind
        n_columns = layout.n_columns
        self._bins_per_word = 4 // kind.itemsize
        self._row_words = -(-n_columns // self._bins_per_word)
        by_feature = queue.buffer_of(np.ascontiguousarray(bins.by_feature))
        self._by_row = queue.empty(4 * self._row_words * n_rows)
        queue.run(
            "transpose",
            tiles_of(n_rows),
            by_feature,
            *map(np.uint32, (n_rows, n_columns, self._row_words)),
            self._by_row,
        )
        self._partition = DevicePartition(
            queue, layout.feature_table, layout.n_set_words, n_rows, by_feature
        )
        self._columns_of_features = layout.column_of
        self._chosen = np.empty(0, np.uint64)
        self._histograms, self._n_histograms = queue.empty(0), 0
        return layout

    @property
    def queue(self) -> DeviceQueue:
        """The queue of the device."""
        assert self._queue is not None
        return self._queue

    def _start(self) -> None:
        """Start the queue, and allocate what does not depend on the bins."""
        queue = self._queue = DeviceQueue(self._device)
        state = self._state
        self._margins = Mirror(queue, state.margins)
        computes = self.multi_output_columns == 0
        self._gradients = DeviceGradients(queue, state, self._margins, computes)
        self._buffers: list[ColumnBuffers] = []
        self._ones: Buffer | None = None
        self._leaf_of = Mirror(queue, state.leaf_of[None])

    def _check_memory(self, layout: HistogramLayout, kind: np.dtype[Any]) -> None:
        """Raise a `DeviceError` if the device has too little memory for the rows."""
        n_rows, gradients = self.n_rows, self._state.gradients
        words = -(-layout.n_columns * kind.itemsize // 4)
        by_row = 4 * words * n_rows
        by_feature = layout.n_columns * kind.itemsize * n_rows
        # Row lists, their sides, packed gradients and leaves; then what the host has.
        lists = (8 + 4 + 1 + 8 + 4) * n_rows
        rows = self._state.rows
        state = rows.margins.nbytes + rows.targets.nbytes + rows.weights.nbytes
        state += 2 * gradients.nbytes
        largest = max(by_row, by_feature, 8 * n_rows)
        check_memory(self._device, by_row + by_feature + lists + state, largest)

    # The gradients of a round

    def compute_gradients(self, objective: GradientSource) -> None:
        self._gradients.compute(objective)

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        self._gradients.set(gradients, hessians)

    def gradient_ranges(self) -> NDArray[np.float64]:
        return self._gradients.ranges()

    def count_size_classes(
        self, output: int, hessian_weight: float
    ) -> NDArray[np.int64]:
        self._gradients.on_host()
        return super().count_size_classes(output, hessian_weight)

    def bin_weights(self, output: int) -> NDArray[np.float64]:
        self._gradients.on_host()
        return super().bin_weights(output)

    # The rows of a tree

    def begin_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        scales: NDArray[np.float64],
        leaf_scales: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        self._tree_output = output
        if sample is not None and sample.by_gradient:
            self._gradients.on_host()
        own_output = self._output(output)
        self._state.set_tree(own_output, sample, leaf_scales)
        self._begin(features, self._state.draw_sample())
        leaf_pairs, pairs = self._gradients.of_tree(own_output, sample)
        self._leaf_columns = self._columns_of(leaf_pairs, leaf_scales)
        self._columns = self._leaf_columns
        if pairs is not leaf_pairs:
            self._columns = self._columns_of(pairs, leaf_scales[-len(pairs) :])
        columns = zip(self._columns, scales, strict=True)
        return np.stack([column.quantise(own) for column, own in columns])

    def _columns_of(
        self, pairs: list[GradientPair], wide_scales: NDArray[np.float64]
    ) -> list[DeviceColumn]:
        queue, rows = self.queue, self.n_rows
        while len(self._buffers) < len(pairs):
            self._buffers.append(ColumnBuffers(queue, rows))
        return [
            DeviceColumn(queue, rows, pair, wide_scales[k], self._buffers[k])
            for k, pair in enumerate(pairs)
        ]

    def _begin(
        self, features: NDArray[np.uint64], taken: NDArray[np.uint8] | None
    ) -> None:
        if not np.array_equal(features, self._chosen):
            self._chosen = features
            self._groups: dict[bool, tuple[ColumnGroups, list[Buffer]]] = {}
        self._partition.begin_tree(taken)

    def widen(self, columns: Sequence[int] = (0,)) -> None:
        for column in columns:
            self._columns[column].widen()

    def sizes(self, nodes: NDArray[np.intp]) -> None:
        return None  # the device knows them first, and the host does not wait for them

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        self._partition.apply_splits(nodes, splits, sets, left)

    # Histograms

    def build_histograms(
        self,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
    ) -> None:
        self._partition.move()
        for number, column in enumerate(self._columns):
            own = histograms[number]
            if own.shape[1] > 2:
                own[slots, 2] = self._build(nodes, self._unit_hessians(), False)[:, 1]
            own[slots, :2] = self._build(nodes, column.quantised, column.is_wide)
        if len(histograms) > len(self._columns):
            histograms[-1, slots] = self._build(nodes, self._unit_hessians(), False)
        self._partition.learn_extents()

    def _build(
        self, nodes: NDArray[np.intp], pairs: Buffer, is_wide: bool
    ) -> NDArray[np.int64]:
        """Return the sums of these pairs of numbers of each row, (nodes, 2, bins)."""
        queue, partition = self.queue, self._partition
        assert self.layout is not None
        sums = np.empty((nodes.size, 2, self.layout.n_histogram_bins), np.int64)
        if sums.nbytes > self._n_histograms:
            self._n_histograms = sums.nbytes
            self._histograms = queue.empty(sums.nbytes)
        queue.zero(self._histograms, sums.nbytes)
        groups, (group_list, words, bin_of_cell) = self._groups_for(is_wide)
        sizes = partition.most_rows(nodes)
        units = self._device.units
        shared = int(sizes.sum()) // (_GROUPS_PER_UNIT * units) + 1
        task_rows = min(max(shared, _LEAST_ROWS), BLOCK_ROWS)
        parts = -(-sizes // task_rows)
        first = np.cumsum(parts) - parts
        of_node = np.repeat(np.arange(nodes.size), parts)
        tasks = np.empty((of_node.size, 4), np.int32)
        tasks[:, 0], tasks[:, 2] = 1 + nodes[of_node], of_node
        tasks[:, 1] = partition.sides(nodes)[of_node]
        tasks[:, 3] = np.arange(of_node.size) - first[of_node]
        queue.run(
            "build_wide" if is_wide else "build_packed",
            (of_node.size, len(groups.groups)),
            self._by_row,
            np.uint32(self._row_words),
            np.uint32(self.n_rows),
            partition.rows,
            partition.extents,
            queue.copy_of(tasks),
            np.uint32(task_rows),
            group_list,
            words,
            bin_of_cell,
            self._histograms,
            np.uint32(self.layout.n_histogram_bins),
            pairs,
            groups.most_cells * (16 if is_wide else 8),
        )
        return queue.read(self._histograms, sums)

    def _groups_for(self, is_wide: bool) -> tuple[ColumnGroups, list[Buffer]]:
        """Return the groups of the tree's columns, on the host and on the device."""
        if is_wide not in self._groups:
            assert self.layout is not None
            groups = group_columns(
                self.layout,
                np.unique(self._columns_of_features[self._chosen]),
                self._bins_per_word,
                self._device.options.local_bytes // (16 if is_wide else 8),
            )
            lists = groups.groups, groups.words, groups.bin_of_cell
            self._groups[is_wide] = groups, [self.queue.copy_of(own) for own in lists]
        return self._groups[is_wide]

    def _unit_hessians(self) -> Buffer:
        """Return packed pairs of gradient 0 and hessian 1 for each row."""
        if self._ones is None:
            self._ones = self.queue.empty(8 * self.n_rows)
            rows = np.uint32(self.n_rows)
            self.queue.run("fill_ones", tiles_of(self.n_rows), rows, self._ones)
        return self._ones

    # Leaves and margins

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.int64]:
        sums = np.zeros((len(self._leaf_columns), n_leaves, 2), np.int64)
        (leaf_of,) = self._leaf_of.to_write()
        for column, own in zip(self._leaf_columns, sums, strict=True):
            on_device = self.queue.zeros(own.nbytes)
            self._partition.mark_leaves(
                nodes, leaves, n_leaves, column, leaf_of, on_device
            )
            self.queue.read(on_device, own)
        return sums

    def leaf_of(self) -> NDArray[np.uint32]:
        leaf_of: NDArray[np.uint32] = self._leaf_of.on_host()[0]
        return leaf_of

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        (leaf_of,) = self._leaf_of.on_device()
        self._route_left_out()
        self._margins.on_device()
        outputs = [self._tree_output] if values.ndim == 1 else range(self.n_outputs)
        for output, own in zip(outputs, np.atleast_2d(values.T), strict=True):
            self.queue.run(
                "add_leaf_values",
                tiles_of(self.n_rows),
                leaf_of,
                self.queue.copy_of(own),
                np.uint32(self.n_rows),
                np.uint32(self._state.rows.single),
                self._margins.to_write()[output],
            )

    def _route_left_out(self) -> None:
        """Route the rows that are not in the sample to their leaves."""
        (leaf_of,) = self._leaf_of.on_device()
        self._leaf_of.to_write()
        self._partition.route_left_out(leaf_of)

    def regress_leaves(
        self, features: LeafFeatures, linear_lambda: float
    ) -> LeafSlopes:
        self._gradients.on_host()
        self._leaf_of.on_host()
        return self._state.regress_leaves(features, linear_lambda)

    def add_linear_leaves(
        self, data: NDArray[Any], values: NDArray[np.float32], leaves: NodeTerms
    ) -> None:
        self._route_left_out()
        self._leaf_of.on_host()
        self._margins.on_host()
        self._state.add_linear_leaves(self._tree_output, data, values, leaves)
        self._margins.written_on_host()

    def margins(self) -> NDArray[np.float64]:
        margins: NDArray[np.float64] = self._margins.on_host()
        return margins.copy()

    def set_margins(self, margins: NDArray[np.float64]) -> None:
        super().set_margins(margins)
        self._margins.written_on_host()
