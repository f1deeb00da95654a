"""Rows on devices whose bins are in external memory, and are copied for each pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import RowSample
from hornbeam.backends.memory_plan import MemoryPlan
from hornbeam.backends.opencl.block_rows import (
    BlockRows,
    DeviceBlockRows,
    HostedBlockRows,
)
from hornbeam.backends.opencl.block_stream import BlockStream, stream_bytes
from hornbeam.backends.opencl.devices import Device
from hornbeam.backends.opencl.parted_rows import PartedRows
from hornbeam.backends.opencl.partition import LIST_BYTES
from hornbeam.backends.opencl.queue import DeviceQueue, check_memory
from hornbeam.backends.opencl.rows import state_row_bytes
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.backends.rows import SplitSearch
from hornbeam.binning.layout import ExternalBins
from hornbeam.kernels.layout import SplitRules
from hornbeam.kernels.team import Team

__all__ = ["StreamedRows"]

#: Bytes of a row's wide gradients, of each column of a tree whose packed ones are too
#: coarse.
_WIDE_BYTES = 16


class StreamedRows(PartedRows):
    """Blocks of bins on disk, each of which goes to one of the devices.

    A pass over the blocks moves rows to the children of split nodes and adds them to
    histograms at once, or marks them with their leaves. Consecutive blocks go to
    different devices, so that all of them work while blocks are read from disk. The
    bins of a block are copied to one of two buffers while kernels read the other.

    The lists of rows by node stay on the devices. So do gradients and margins if the
    memory of each device is enough for those of all its blocks, wide gradients
    included; otherwise they are on the host (`HostedBlockRows`).

    Parameters
    ----------
    bins
        Of all features and rows.
    targets, weights, margins, team
        As for `OpenCLRows`.
    devices
        Where the rows are.
    budget
        What may be in memory of the host.
    numbers, multi_output_columns
        As for `OpenCLRows`.

    Raises
    ------
    DeviceError
        If the lists of rows and two blocks do not fit on a device; and from all
        methods, if it fails.
    DataError
        If gradients have to be on the host, and the memory limit is too small for that.
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
        devices: Sequence[Device],
        budget: MemoryPlan,
        numbers: RowNumbers | None = None,
        multi_output_columns: int = 0,
    ) -> None:
        blocks, layout = bins.blocks, bins.layout
        numbers = RowNumbers(margins.shape[1]) if numbers is None else numbers
        runs = [slice(*blocks.rows_of(number)) for number in range(blocks.n_blocks)]
        rows = [run.stop - run.start for run in runs]
        devices = devices[: len(runs)]
        row_bytes = state_row_bytes(margins, targets, weights, multi_output_columns)
        columns = max(1, multi_output_columns)
        row_bytes += _WIDE_BYTES * columns
        shares = [sum(rows[number :: len(devices)]) for number in range(len(devices))]
        block = max(rows), layout.n_columns, blocks.dtype
        of_stream, largest = stream_bytes(*block, 0)
        is_hosted = any(
            of_stream + row_bytes * share > device.memory
            for device, share in zip(devices, shares, strict=True)
        )
        if is_hosted:
            row_bytes = LIST_BYTES
            of_stream, largest = stream_bytes(*block, max(columns, len(margins)))
            packed_bytes = 8 * columns * margins.shape[1]
            budget = budget.with_packed_in_memory(packed_bytes, bins.memory_limit)
        for device, share in zip(devices, shares, strict=True):
            check_memory(device, of_stream + row_bytes * share, largest)
        self._blocks, self._ring_bytes = blocks, budget.ring_bytes
        blocks.keep_in_memory(budget.kept_bytes)
        self._columns_of_features = layout.column_of
        self._streams = [
            BlockStream(DeviceQueue(device), layout, blocks.dtype, max(rows))
            for device in devices
        ]
        kind = HostedBlockRows if is_hosted else DeviceBlockRows
        parts: list[BlockRows] = [
            kind(
                bins,
                np.ascontiguousarray(targets[:, run]),
                None if weights is None else weights[run],
                np.ascontiguousarray(margins[:, run]),
                team,
                self._streams[number % len(devices)],
                numbers.between(run.start, run.stop),
                multi_output_columns,
            )
            for number, run in enumerate(runs)
        ]
        super().__init__(runs, parts)
        self._block_rows = parts

    def begin_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        scales: NDArray[np.float64],
        leaf_scales: NDArray[np.float64],
    ) -> NDArray[np.int64]:
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
        own = [stream.histograms for stream in self._streams]
        size = nodes.size, histograms, self._n_columns
        (counts_rows,) = {device.begin(*size) for device in own}
        for _, part in self._pass(by_row=True):
            part.add_histograms(nodes, counts_rows)
        found = reduce(np.add, [device.read() for device in own])
        own[0].write(found, slots, histograms)

    def finds_splits(self, features: NDArray[np.uint64], rules: SplitRules) -> bool:
        return self._streams[0].split_search.can_search(features, rules)

    def find_splits(
        self, search: SplitSearch
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        nodes, slots, _ = search.built
        first, *others = (stream.histograms for stream in self._streams)
        first.begin_in(slots, counts_rows=search.counts_rows)
        for own in others:
            own.begin_in(np.arange(nodes.size), counts_rows=search.counts_rows)
        for _, part in self._pass(by_row=True):
            part.add_histograms(nodes, search.counts_rows)
        if others:
            first.add_others(reduce(np.add, [own.read() for own in others]))
        return self._streams[0].split_search.find_splits(search)

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.int64]:
        columns = self._block_rows[0].n_leaf_columns
        sums = np.empty((len(self._streams), columns, n_leaves, 2), np.int64)
        queues = [stream.queue for stream in self._streams]
        buffers = [
            [queue.zeros(column.nbytes) for column in own]
            for queue, own in zip(queues, sums, strict=True)
        ]
        for device, part in self._pass(by_row=False):
            part.add_leaves(nodes, leaves, n_leaves, buffers[device])
            part.route_left_out()
            part.leave_device()
        for queue, *both in zip(queues, buffers, sums, strict=True):
            for buffer, own in zip(*both, strict=True):
                queue.read(buffer, own)
        return np.add.reduce(sums)

    def _pass(self, *, by_row: bool) -> Iterator[tuple[int, BlockRows]]:
        """Yield the rows of each block, with the columns of splits that wait.

        Before them comes the number of their device.

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
                device = block.number % len(self._streams)
                part, stream = self._block_rows[block.number], self._streams[device]
                part.set_by_feature(stream.send_columns(block.by_feature, wanted))
                if by_row:
                    part.by_row = stream.send_rows(block.by_row)
                yield device, part
                stream.release()

    def close(self) -> None:
        self._blocks.keep_in_memory(0)
