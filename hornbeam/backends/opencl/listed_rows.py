"""Rows whose lists by node are on a device, and the passes over their bins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import RowSample
from hornbeam.backends.memory_rows import MemoryRows
from hornbeam.backends.opencl.gradient_columns import GradientPair
from hornbeam.backends.opencl.histograms import DeviceHistograms
from hornbeam.backends.opencl.mirror import Mirror
from hornbeam.backends.opencl.partition import DevicePartition, PartitionScratch
from hornbeam.backends.opencl.queue import Buffer, DeviceQueue
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.backends.row_state import NO_ROWS
from hornbeam.binning.layout import (
    DenseBins,
    ExternalBins,
    HistogramLayout,
    PerTreeBins,
)
from hornbeam.kernels.team import Team

__all__ = ["ListedRows"]


class ListedRows(MemoryRows):
    """Rows that a device moves to nodes, adds to histograms and marks with leaves.

    Subclasses have the gradients and margins of the rows, on either side.

    Parameters
    ----------
    bins, targets, weights, margins, team
        As for `MemoryRows`; or bins in external memory.
    queue
        Of the device.
    numbers, multi_output_columns
        As for `MemoryRows`.

    Attributes
    ----------
    by_row
        The bins, row by row; see `pack_rows`.
    """

    by_row: Buffer
    #: The leaf of each row.
    _leaf_of: Mirror

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
        self._queue = queue
        state = targets, weights, margins, team
        super().__init__(bins, *state, numbers, multi_output_columns)  # type: ignore[arg-type]

    def _list_rows(
        self,
        layout: HistogramLayout,
        kind: np.dtype[Any],
        histograms: DeviceHistograms,
        scratch: PartitionScratch,
    ) -> None:
        """List the rows, whose bins are of this layout and type."""
        self._queue.bins = kind
        features = layout.feature_table, layout.n_set_words
        own = self.n_rows, scratch
        self._partition = DevicePartition(self._queue, *features, *own)
        self._histograms = histograms

    def set_by_feature(self, by_feature: Buffer) -> None:
        """Move and route rows by these bins from now on, (columns, rows)."""
        self._partition.by_feature = by_feature

    def _begin(
        self, features: NDArray[np.uint64], taken: NDArray[np.uint8] | None
    ) -> NDArray[np.uint32]:
        self._histograms.choose(features)
        self._partition.begin_tree(taken)
        return NO_ROWS

    def begin_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        scales: NDArray[np.float64],
        leaf_scales: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        self.start_tree(output, features, sample, scales, leaf_scales)
        return self.magnitudes()

    @abstractmethod
    def start_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        scales: NDArray[np.float64],
        leaf_scales: NDArray[np.float64],
    ) -> None:
        """Begin a tree as `begin_tree` does, without waiting for the device."""

    @abstractmethod
    def magnitudes(self) -> NDArray[np.int64]:
        """Wait, and return what `begin_tree` returns."""

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

    @abstractmethod
    def _quantised(self) -> list[tuple[Buffer, bool]]:
        """Return the columns that splits are searched by, on the device.

        They are quantised: packed pairs by row, or wide ones where it is true.
        """

    @abstractmethod
    def _leaf_pairs(self) -> list[tuple[GradientPair, NDArray[np.float64]]]:
        """Return the columns that leaves are summed of, on the device.

        With each is what g and h are multiplied by in wide sums, (2,).
        """

    def _words(self, row_words: int) -> Iterable[range]:
        """Return the words of a row, of so many, in the order in which they arrive."""
        return [range(row_words)]

    def build_histograms(
        self,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
    ) -> None:
        own, columns = self._histograms, len(self._state.columns)
        self.add_histograms(nodes, own.begin(nodes.size, histograms, columns))
        own.write(own.read(), slots, histograms)

    def add_histograms(self, nodes: NDArray[np.intp], counts_rows: bool) -> None:
        """Move rows to the nodes, and add them to the histograms that have begun."""
        histograms = self._histograms
        partition, columns = self._partition, self._quantised()
        partition.move()
        if counts_rows:
            columns = [*columns, (histograms.unit_hessians(self.n_rows), False)]
        for words in self._words(histograms.row_words):
            rows = self.by_row, words, partition, nodes
            for number, (pairs, is_wide) in enumerate(columns):
                histograms.add(number, *rows, pairs, is_wide)
        partition.learn_extents()

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
        return len(self._state.leaf_columns)

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
        for (pair, per_unit), own in zip(self._leaf_pairs(), sums, strict=True):
            given = nodes, leaves, n_leaves, pair, per_unit
            self._partition.mark_leaves(*given, leaf_of, own)

    def route_left_out(self) -> None:
        """Route the rows that are not in the sample to their leaves, once a tree."""
        if self._is_routed:
            return
        self._is_routed = True
        (leaf_of,) = self._leaf_of.on_device()
        self._leaf_of.to_write()
        self._partition.route_left_out(leaf_of)

    def leaf_of(self) -> NDArray[np.uint32]:
        leaf_of: NDArray[np.uint32] = self._leaf_of.on_host()[0]
        return leaf_of
