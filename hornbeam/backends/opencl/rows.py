"""Rows whose bins, gradients, margins and nodes are on an OpenCL device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import (
    GradientSource,
    GrownTree,
    GrowthLimits,
    LeafFeatures,
    LeafSlopes,
    RowSample,
)
from hornbeam.backends.opencl.bin_upload import BinUpload
from hornbeam.backends.opencl.gradient_columns import (
    ColumnBuffers,
    DeviceColumn,
    GradientPair,
)
from hornbeam.backends.opencl.gradients import DeviceGradients
from hornbeam.backends.opencl.histograms import (
    DeviceHistograms,
    histogram_bytes,
    words_of_row,
)
from hornbeam.backends.opencl.level_grower import LevelGrower
from hornbeam.backends.opencl.listed_rows import ListedRows
from hornbeam.backends.opencl.mirror import Mirror
from hornbeam.backends.opencl.partition import (
    LIST_BYTES,
    SCRATCH_BYTES,
    PartitionScratch,
)
from hornbeam.backends.opencl.queue import Buffer, DeviceQueue, check_memory, tiles_of
from hornbeam.backends.opencl.split_search import DeviceSplitSearch
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.backends.row_state import gradient_type
from hornbeam.backends.rows import SplitSearch
from hornbeam.binning.layout import (
    DenseBins,
    ExternalBins,
    HistogramLayout,
    PerTreeBins,
)
from hornbeam.kernels.layout import SplitRules
from hornbeam.kernels.linear_leaves import NodeTerms
from hornbeam.kernels.team import Team

__all__ = ["OpenCLRows", "state_row_bytes"]


def state_row_bytes(
    margins: NDArray[Any],
    targets: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    multi_output_columns: int,
) -> int:
    """Return the memory of a device that each row takes, without its bins."""
    is_weighted = weights is not None and weights.size > 0
    gradient_bytes = gradient_type(weights if is_weighted else None).itemsize
    # The leaf, packed gradients, and what the host has as well.
    packed = 8 * max(1, multi_output_columns)
    pairs = (8 + 2 * gradient_bytes) * len(margins)
    return LIST_BYTES + 4 + packed + pairs + 8 * len(targets) + 8 * is_weighted


class OpenCLRows(ListedRows):
    """Bins, gradients, margins and the node of each row, on a device.

    Splits of trees of one output are searched there as well, but for rare rules;
    otherwise histograms are read back, and the split search is that of rows in memory.
    What the device does not compute (gradients of most objectives, draws of
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

    Raises
    ------
    DeviceError
        If the memory of the device is too small; and from all methods, if it fails.
    """

    #: A pass over few rows takes the device hardly longer than starting it.
    lookahead = 8
    #: Of the bins in memory.
    _upload: BinUpload | None = None
    #: The sums of the leaves of a tree that has grown on the device.
    _leaf_sums: NDArray[np.int64] | None = None

    def __init__(
        self,
        bins: DenseBins | PerTreeBins | ExternalBins,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[Any],
        team: Team,
        queue: DeviceQueue,
        numbers: RowNumbers | None = None,
        multi_output_columns: int = 0,
    ) -> None:
        state = targets, weights, margins, team, queue
        super().__init__(bins, *state, numbers, multi_output_columns)
        self.histogram_bytes = histogram_bytes(queue.device)
        rows = self._state
        self._margins = Mirror(queue, rows.margins)
        computes = self.multi_output_columns == 0
        self._gradients = DeviceGradients(queue, rows, self._margins, computes)
        self._buffers: list[ColumnBuffers] = []
        self._leaf_of = Mirror(queue, rows.leaf_of[None])
        self._values, self._n_values = queue.empty(0), 0

    def _use_bins(self, bins: DenseBins) -> HistogramLayout:
        queue, layout, kind = self._queue, bins.layout, bins.by_feature.dtype
        n_rows, n_columns = self.n_rows, layout.n_columns
        by_row = 4 * words_of_row(n_columns, kind) * n_rows
        by_feature = n_columns * kind.itemsize * n_rows
        rows, columns = self._state.rows, self.multi_output_columns
        state = state_row_bytes(rows.margins, rows.targets, rows.weights, columns)
        state = (state + SCRATCH_BYTES) * n_rows
        largest = max(by_row, by_feature, LIST_BYTES * n_rows)
        check_memory(queue.device, by_row + by_feature + state, largest)
        histograms = DeviceHistograms(queue, layout, kind)
        self._list_rows(layout, kind, histograms, PartitionScratch(queue, n_rows))
        self._search = DeviceSplitSearch(queue, histograms, layout)
        self._upload = BinUpload(queue, bins.by_feature)
        self.set_by_feature(self._upload.by_feature)
        self.by_row = self._upload.by_row
        own = histograms, self._partition, self._search, self.by_row
        self._grower = LevelGrower(queue, layout, *own)
        return layout

    def _words(self, row_words: int) -> Iterable[range]:
        # The first histograms of all are those of a root: no bins are needed before.
        if self._upload is None or self._upload.has_arrived:
            return super()._words(row_words)
        return self._upload.arrive()

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

    def start_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        scales: NDArray[np.float64],
        leaf_scales: NDArray[np.float64],
    ) -> None:
        self._tree_output, self._leaf_sums = output, None
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
        for column, own in zip(self._columns, scales, strict=True):
            column.quantise(own)

    def magnitudes(self) -> NDArray[np.int64]:
        return np.stack([column.magnitudes() for column in self._columns])

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

    def widen(self, columns: Sequence[int] = (0,)) -> None:
        for column in columns:
            self._columns[column].widen()

    def _quantised(self) -> list[tuple[Buffer, bool]]:
        return [(column.quantised, column.is_wide) for column in self._columns]

    def finds_splits(self, features: NDArray[np.uint64], rules: SplitRules) -> bool:
        return self._search.can_search(features, rules)

    def find_splits(
        self,
        search: SplitSearch,
        others: Callable[[], NDArray[np.int64]] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        counts_rows = search.counts_rows
        self._histograms.begin_in(search.built[1], counts_rows=counts_rows)
        self.add_histograms(search.built[0], counts_rows)
        if others is not None:
            self._queue.flush()
            self._histograms.add_others(others())
        return self._search.find_splits(search)

    def grow(
        self, search: SplitSearch, limits: GrowthLimits, max_histograms: int
    ) -> GrownTree | None:
        if not self._grower.can_grow(limits, max_histograms):
            return None
        if self._upload is not None:
            deque(self._upload.arrive(), maxlen=0)
        (column,), (leaf_column,) = self._columns, self._leaf_columns
        (leaf_of,) = self._leaf_of.to_write()
        self._is_routed = False
        own = column, leaf_column, leaf_of
        grown, self._leaf_sums = self._grower.grow(search, limits, *own)
        return grown

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.int64]:
        if self._leaf_sums is None:
            return super().sum_leaves(nodes, leaves, n_leaves)
        return self._leaf_sums[None]

    def read_histograms(self, search: SplitSearch) -> NDArray[np.int64]:
        """Return the histograms of a search on another device, (nodes, parts, bins)."""
        nodes, counts_rows = search.built[0], search.counts_rows
        self._histograms.begin_in(np.arange(nodes.size), counts_rows=counts_rows)
        self.add_histograms(nodes, counts_rows)
        return self._histograms.read()

    # Leaves and margins

    def _leaf_pairs(self) -> list[tuple[GradientPair, NDArray[np.float64]]]:
        return [(column.pair, column.per_unit) for column in self._leaf_columns]

    def leaf_gradients(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the gradients and hessians that leaves are summed of, each (rows,)."""
        self._gradients.on_host()
        return self._state.leaf_columns[0].pair

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        (leaf_of,) = self._leaf_of.on_device()
        self.route_left_out()
        self._margins.on_device()
        outputs = [self._tree_output] if values.ndim == 1 else range(self.n_outputs)
        if values.size > self._n_values:
            self._n_values = 2 * values.size
            self._values = self._queue.empty(4 * self._n_values)
        for output, own in zip(outputs, np.atleast_2d(values.T), strict=True):
            self._queue.send(self._values, np.ascontiguousarray(own))
            self._queue.run(
                "add_leaf_values",
                tiles_of(self.n_rows),
                leaf_of,
                self._values,
                np.uint32(self.n_rows),
                np.uint32(self._state.rows.single),
                self._margins.to_write()[output],
            )

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
