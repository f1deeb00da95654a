"""Rows of a block, whose bins are on a device during a pass over the blocks only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import RowSample
from hornbeam.backends.memory_rows import MemoryRows
from hornbeam.backends.opencl.block_stream import BlockStream
from hornbeam.backends.opencl.gradient_columns import GradientPair
from hornbeam.backends.opencl.listed_rows import ListedRows
from hornbeam.backends.opencl.mirror import Mirror
from hornbeam.backends.opencl.queue import Buffer
from hornbeam.backends.opencl.rows import OpenCLRows
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.binning.layout import ExternalBins, HistogramLayout
from hornbeam.kernels.team import Team

__all__ = ["BlockRows", "DeviceBlockRows", "HostedBlockRows"]


class BlockRows(ListedRows):
    """Rows of a block, whose bins and buffers are those of a stream of blocks.

    Parameters
    ----------
    bins
        Of all blocks.
    targets, weights, margins, team
        As for `OpenCLRows`, of the block.
    stream
        Of the device.
    numbers, multi_output_columns
        As for `OpenCLRows`.
    """

    def __init__(
        self,
        bins: ExternalBins,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[Any],
        team: Team,
        stream: BlockStream,
        numbers: RowNumbers,
        multi_output_columns: int,
    ) -> None:
        self._stream = stream
        state = targets, weights, margins, team, stream.queue
        super().__init__(bins, *state, numbers, multi_output_columns)

    def _use_bins(self, bins: ExternalBins) -> HistogramLayout:
        own = self._stream.histograms, self._stream.scratch
        self._list_rows(bins.layout, bins.blocks.dtype, *own)
        return bins.layout

    def leave_device(self) -> None:
        """Begin to copy what has to be on the host before the next block comes."""


class DeviceBlockRows(BlockRows, OpenCLRows):  # type: ignore[misc]
    """Rows of a block with gradients, margins and lists on the device."""


class HostedBlockRows(BlockRows):
    """Rows of a block of which the device has the lists only.

    The host computes and quantises gradients, and adds leaf values to margins. The
    quantised gradients are copied to the device for each pass, the others for the sums
    of the leaves, and the leaf of each row is copied back.

    The parameters are those of `BlockRows`.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        leaf_of = self._state.leaf_of[None]
        self._leaf_of = Mirror(self._queue, leaf_of, [self._stream.leaf_of])

    def start_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        scales: NDArray[np.float64],
        leaf_scales: NDArray[np.float64],
    ) -> None:
        self._leaf_per_unit = 1.0 / leaf_scales
        tree = output, features, sample, scales, leaf_scales
        # The host quantises, as it does for rows in its memory.
        self._magnitudes = MemoryRows.begin_tree(self, *tree)

    def magnitudes(self) -> NDArray[np.int64]:
        return self._magnitudes

    def _quantised(self) -> list[tuple[Buffer, bool]]:
        found = []
        for number, column in enumerate(self._state.columns):
            is_wide = column.packed.size == 0
            pairs = np.ascontiguousarray(column.wide.T) if is_wide else column.packed
            found.append((self._stream.send(("pairs", number), 16, pairs), is_wide))
        return found

    def _leaf_pairs(self) -> list[tuple[GradientPair, NDArray[np.float64]]]:
        found = []
        for number, column in enumerate(self._state.leaf_columns):
            gradients, hessians = (
                self._stream.send((name, number), 8, array)
                for name, array in zip(
                    ("gradients", "hessians"), column.pair, strict=True
                )
            )
            pair = GradientPair(gradients, hessians, column.pair[0].dtype)
            found.append((pair, self._leaf_per_unit[number]))
        return found

    def leave_device(self) -> None:
        self._leaf_of.start_reading()

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        self._state.add_leaf_values(self._tree_output, values)
