"""Rows on a device whose bins are in external memory, and are copied for each pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import RowSample
from hornbeam.backends.memory_plan import MemoryPlan
from hornbeam.backends.opencl.histograms import DeviceHistograms, pack_rows
from hornbeam.backends.opencl.parted_rows import PartedRows
from hornbeam.backends.opencl.queue import (
    Buffer,
    DeviceQueue,
    UploadBuffers,
    check_memory,
)
from hornbeam.backends.opencl.rows import OpenCLRows, state_bytes
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.binning.layout import ExternalBins, HistogramLayout
from hornbeam.kernels.team import Team

__all__ = ["StreamedRows"]


class BlockRows(OpenCLRows):
    """Rows of a block, whose bins are on the device during a pass only."""

    def _use_bins(self, bins: ExternalBins) -> HistogramLayout:  # type: ignore[override]
        self._partition_rows(bins.layout, bins.blocks.dtype)
        return bins.layout

    def _begin(
        self, features: NDArray[np.uint64], taken: NDArray[np.uint8] | None
    ) -> None:
        self._partition.begin_tree(taken)


class StreamedRows(PartedRows):
    """Blocks of bins on disk; gradients, margins and row lists on a device.

    A pass over the blocks moves rows to the children of split nodes and adds them to
    histograms at once, or marks them with their leaves. The bins of a block are copied
    to one of two buffers while kernels read the other, and while the next blocks are
    read from disk.

    Parameters
    ----------
    bins
        Of all features and rows.
    targets, weights, margins, team
        As for `OpenCLRows`.
    queue
        Of the device.
    budget
        What may be in memory of the host.
    numbers, multi_output_columns
        As for `OpenCLRows`.

    Raises
    ------
    DeviceError
        If the state of the rows, or a block, does not fit on the device; and from all
        methods, if it fails.
    """

    #: A pass over the blocks takes about the same for so many nodes.
    lookahead = 16

    def __init__(
        self,
        bins: ExternalBins,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[Any],
        team: Team,
        queue: DeviceQueue,
        budget: MemoryPlan,
        numbers: RowNumbers | None = None,
        multi_output_columns: int = 0,
    ) -> None:
        blocks, layout = bins.blocks, bins.layout
        self._queue, self._blocks = queue, blocks
        self._ring_bytes = budget.ring_bytes
        blocks.keep_in_memory(budget.kept_bytes)
        numbers = RowNumbers(margins.shape[1]) if numbers is None else numbers
        runs = [slice(*blocks.rows_of(number)) for number in range(blocks.n_blocks)]
        most_rows = max(run.stop - run.start for run in runs)
        self._columns_of_features = layout.column_of
        self._bins_of_row, kind = layout.n_columns, blocks.dtype
        #: Whether the bins of a row have to be packed in words.
        self._is_packed = self._bins_of_row * kind.itemsize % 4 != 0
        n_bytes = most_rows * self._bins_of_row * kind.itemsize
        packed = most_rows * -(-n_bytes // (4 * most_rows)) * 4 * self._is_packed
        state = state_bytes(margins, targets, weights)
        check_memory(queue.device, 4 * n_bytes + packed + state, n_bytes)
        parts = [
            BlockRows(
                bins,  # type: ignore[arg-type]
                np.ascontiguousarray(targets[:, run]),
                None if weights is None else weights[run],
                np.ascontiguousarray(margins[:, run]),
                team,
                queue,
                numbers.between(run.start, run.stop),
                multi_output_columns,
            )
            for run in runs
        ]
        super().__init__(runs, parts)
        self._by_feature = UploadBuffers(queue, n_bytes)
        self._by_row = UploadBuffers(queue, n_bytes)
        self._packed = queue.empty(packed)
        self._histograms = DeviceHistograms(queue, layout, kind)

    def begin_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        scales: NDArray[np.float64],
        leaf_scales: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        self._histograms.choose(features)
        self._is_sample = sample is not None
        self._n_columns = len(scales)
        self._waiting: set[int] = set()
        self._split_columns: set[int] = set()
        return super().begin_tree(output, features, sample, scales, leaf_scales)

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        super().apply_splits(nodes, splits, sets, left)
        self._waiting |= {*self._columns_of_features[splits["feature"]].tolist()}

    def build_histograms(
        self,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
    ) -> None:
        own = self._histograms
        counts_rows = own.begin(nodes.size, histograms, self._n_columns)
        for part in self._pass(by_row=True):
            part.add_histograms(own, nodes, counts_rows)
        own.read(slots, histograms)

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.int64]:
        sums = np.empty((self._parts[0].n_leaf_columns, n_leaves, 2), np.int64)
        on_device = [self._queue.zeros(own.nbytes) for own in sums]
        for part in self._pass(by_row=False):
            part.add_leaves(nodes, leaves, n_leaves, on_device)
            part.route_left_out()
        for buffer, own in zip(on_device, sums, strict=True):
            self._queue.read(buffer, own)
        return sums

    def _pass(self, *, by_row: bool) -> Iterator[OpenCLRows]:
        """Yield the rows of each block, with the columns of splits that wait.

        For leaves of a sample these are all that the tree splits on, since other rows
        come from the root. Kernels that are to read the bins have to be started before
        the next block is asked for.
        """
        self._split_columns |= self._waiting
        every = not by_row and self._is_sample
        wanted = sorted(self._split_columns if every else self._waiting)
        self._waiting = set()
        with self._blocks.read_blocks(wanted, by_row, self._ring_bytes) as blocks:
            for block in blocks:
                part = self._parts[block.number]
                step = part.n_rows * self._blocks.dtype.itemsize
                columns = [(step * own, block.by_feature[own]) for own in wanted]
                part.set_by_feature(self._by_feature.fill(*columns))
                if by_row:
                    part.by_row = self._in_words(block.by_row, part.n_rows)
                yield part
                self._by_feature.wait()
                self._by_row.wait()

    def _in_words(self, by_row: NDArray[Any], rows: int) -> Buffer:
        """Return a buffer with the bins of rows, each from a word on."""
        buffer = self._by_row.fill((0, by_row))
        if not self._is_packed:
            return buffer
        columns = self._bins_of_row
        pack_rows(self._queue, buffer, (1, columns), rows, columns, self._packed)
        return self._packed

    def close(self) -> None:
        self._blocks.keep_in_memory(0)
