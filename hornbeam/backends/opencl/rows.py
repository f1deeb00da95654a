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
from hornbeam.backends.opencl.gradient_columns import (
    ColumnBuffers,
    DeviceColumn,
    GradientPair,
)
from hornbeam.backends.opencl.gradients import DeviceGradients
from hornbeam.backends.opencl.histograms import DeviceHistograms, pack_rows
from hornbeam.backends.opencl.mirror import Mirror
from hornbeam.backends.opencl.partition import DevicePartition
from hornbeam.backends.opencl.queue import Buffer, DeviceQueue, check_memory, tiles_of
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.backends.row_state import gradient_type
from hornbeam.binning.layout import DenseBins, HistogramLayout, PerTreeBins
from hornbeam.kernels.linear_leaves import NodeTerms
from hornbeam.kernels.team import Team

__all__ = ["OpenCLRows", "state_bytes"]


def state_bytes(
    margins: NDArray[Any],
    targets: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
) -> int:
    """Return the memory that rows take on a device in addition to their bins."""
    weight_bytes = 0 if weights is None else weights.nbytes
    kind = gradient_type(weights if weight_bytes > 0 else None)
    # Row lists, their sides, packed gradients and leaves; then what the host has.
    lists = (8 + 4 + 1 + 8 + 4) * margins.shape[1]
    pairs = (8 + 2 * kind.itemsize) * margins.size
    return lists + pairs + targets.nbytes + weight_bytes


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
    queue
        Of the device that the rows are on.
    numbers, multi_output_columns
        As for `MemoryRows`.

    Attributes
    ----------
    by_row
        The bins, row by row; see `pack_rows`.

    Raises
    ------
    DeviceError
        If the memory of the device is too small; and from all methods, if it fails.
    """

    by_row: Buffer

    #: A pass over few rows takes the device hardly longer than starting it.
    lookahead = 8

    def __init__(
        self,
        bins: DenseBins | PerTreeBins,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[Any],
        team: Team,
        queue: DeviceQueue,
        numbers: RowNumbers | None = None,
        multi_output_columns: int = 0,
    ) -> None:
        self._queue = queue
        state = targets, weights, margins, team
        super().__init__(bins, *state, numbers, multi_output_columns)
        rows = self._state
        self._margins = Mirror(queue, rows.margins)
        computes = self.multi_output_columns == 0
        self._gradients = DeviceGradients(queue, rows, self._margins, computes)
        self._buffers: list[ColumnBuffers] = []
        self._ones: Buffer | None = None
        self._leaf_of = Mirror(queue, rows.leaf_of[None])

    def _use_bins(self, bins: DenseBins) -> HistogramLayout:
        queue, layout, kind = self._queue, bins.layout, bins.by_feature.dtype
        n_rows, n_columns = self.n_rows, layout.n_columns
        words = -(-n_columns * kind.itemsize // 4)
        by_row, by_feature = 4 * words * n_rows, n_columns * kind.itemsize * n_rows
        rows = self._state.rows
        state = state_bytes(rows.margins, rows.targets, rows.weights)
        largest = max(by_row, by_feature, 8 * n_rows)
        check_memory(queue.device, by_row + by_feature + state, largest)
        self._partition_rows(layout, kind)
        self._histograms = DeviceHistograms(queue, layout, kind)
        on_device = queue.buffer_of(np.ascontiguousarray(bins.by_feature))
        self.set_by_feature(on_device)
        self.by_row = queue.empty(by_row)
        pack_rows(queue, on_device, (n_rows, 1), n_rows, n_columns, self.by_row)
        return layout

    def set_by_feature(self, by_feature: Buffer) -> None:
        """Move and route rows by these bins from now on, (columns, rows)."""
        self._partition.by_feature = by_feature

    def _partition_rows(self, layout: HistogramLayout, kind: np.dtype[Any]) -> None:
        """Make the partition of the rows, whose bins are of this layout and type."""
        self._queue.bins = kind
        table, words = layout.feature_table, layout.n_set_words
        self._partition = DevicePartition(self._queue, table, words, self.n_rows)

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
        queue, rows = self._queue, self.n_rows
        while len(self._buffers) < len(pairs):
            self._buffers.append(ColumnBuffers(queue, rows))
        return [
            DeviceColumn(queue, rows, pair, wide_scales[k], self._buffers[k])
            for k, pair in enumerate(pairs)
        ]

    def _begin(
        self, features: NDArray[np.uint64], taken: NDArray[np.uint8] | None
    ) -> None:
        self._histograms.choose(features)
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
        counts_rows = self._histograms.begin(nodes.size, histograms, len(self._columns))
        self.add_histograms(self._histograms, nodes, counts_rows)
        self._histograms.read(slots, histograms)

    def add_histograms(
        self,
        histograms: DeviceHistograms,
        nodes: NDArray[np.intp],
        counts_rows: bool,
    ) -> None:
        """Move rows to the nodes, and add them to histograms that have begun."""
        partition = self._partition
        partition.move()
        rows = self.by_row, partition, nodes
        for number, column in enumerate(self._columns):
            histograms.add(number, *rows, column.quantised, column.is_wide)
        if counts_rows:
            histograms.add(len(self._columns), *rows, self._unit_hessians(), False)
        partition.learn_extents()

    def _unit_hessians(self) -> Buffer:
        """Return packed pairs of gradient 0 and hessian 1 for each row."""
        if self._ones is None:
            self._ones = self._queue.empty(8 * self.n_rows)
            rows = np.uint32(self.n_rows)
            self._queue.run("fill_ones", tiles_of(self.n_rows), rows, self._ones)
        return self._ones

    # Leaves and margins

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.int64]:
        sums = np.empty((self.n_leaf_columns, n_leaves, 2), np.int64)
        on_device = [self._queue.zeros(own.nbytes) for own in sums]
        self.add_leaves(nodes, leaves, n_leaves, on_device)
        for buffer, own in zip(on_device, sums, strict=True):
            self._queue.read(buffer, own)
        return sums

    @property
    def n_leaf_columns(self) -> int:
        """Number of columns that leaves are summed of."""
        return len(self._leaf_columns)

    def add_leaves(
        self,
        nodes: NDArray[np.intp],
        leaves: NDArray[np.intp],
        n_leaves: int,
        sums: Sequence[Buffer],
    ) -> None:
        """Write the leaf of each row, and add the rows to sums on the device.

        There is a buffer for each column that leaves are summed of.
        """
        (leaf_of,) = self._leaf_of.to_write()
        self._is_routed = False
        for column, own in zip(self._leaf_columns, sums, strict=True):
            self._partition.mark_leaves(nodes, leaves, n_leaves, column, leaf_of, own)

    def leaf_gradients(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the gradients and hessians that leaves are summed of, each (rows,)."""
        self._gradients.on_host()
        found = self._state.leaf_columns[0].leaf_gradients()
        gradients, hessians = (own for own in found if own.size > 0)
        return gradients, hessians

    def leaf_of(self) -> NDArray[np.uint32]:
        leaf_of: NDArray[np.uint32] = self._leaf_of.on_host()[0]
        return leaf_of

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        (leaf_of,) = self._leaf_of.on_device()
        self.route_left_out()
        self._margins.on_device()
        outputs = [self._tree_output] if values.ndim == 1 else range(self.n_outputs)
        for output, own in zip(outputs, np.atleast_2d(values.T), strict=True):
            self._queue.run(
                "add_leaf_values",
                tiles_of(self.n_rows),
                leaf_of,
                self._queue.copy_of(own),
                np.uint32(self.n_rows),
                np.uint32(self._state.rows.single),
                self._margins.to_write()[output],
            )

    def route_left_out(self) -> None:
        """Route the rows that are not in the sample to their leaves, once a tree."""
        if self._is_routed:
            return
        self._is_routed = True
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
        self.route_left_out()
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
