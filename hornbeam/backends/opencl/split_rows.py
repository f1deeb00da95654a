"""Rows that are split between several devices; their sums are added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import LeafFeatures, LeafSlopes, RowSample
from hornbeam.backends.leaf_regression import regress_leaves
from hornbeam.backends.opencl.devices import Device
from hornbeam.backends.opencl.parted_rows import PartedRows
from hornbeam.backends.opencl.queue import DeviceQueue
from hornbeam.backends.opencl.rows import OpenCLRows
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.backends.rows import SplitSearch
from hornbeam.binning.layout import DenseBins, HistogramLayout, PerTreeBins
from hornbeam.kernels.layout import SplitRules
from hornbeam.kernels.linear_leaves import NodeTerms
from hornbeam.kernels.team import Team

__all__ = ["SplitRows"]


class SplitRows(PartedRows):
    """Consecutive runs of rows, one on each device.

    The first one searches splits, in its histograms and those of the others, which go
    through the memory of the host.

    Parameters
    ----------
    bins, targets, weights, margins, team
        As for `OpenCLRows`, of all rows.
    devices
        That the rows are on, in the order of the rows.
    numbers, multi_output_columns
        As for `OpenCLRows`, of all rows.
    """

    lookahead = OpenCLRows.lookahead

    def __init__(
        self,
        bins: DenseBins | PerTreeBins,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[Any],
        team: Team,
        devices: Sequence[Device],
        numbers: RowNumbers | None = None,
        multi_output_columns: int = 0,
    ) -> None:
        n_rows = margins.shape[1]
        numbers = RowNumbers(n_rows) if numbers is None else numbers
        bounds = np.linspace(0, n_rows, len(devices) + 1).astype(np.int64).tolist()
        runs = [slice(*pair) for pair in pairwise(bounds)]
        parts = [
            OpenCLRows(
                bins if isinstance(bins, PerTreeBins) else _bins_of(bins, run),
                np.ascontiguousarray(targets[:, run]),
                None if weights is None else weights[run],
                np.ascontiguousarray(margins[:, run]),
                team,
                DeviceQueue(device),
                numbers.between(run.start, run.stop),
                multi_output_columns,
            )
            for run, device in zip(runs, devices, strict=True)
        ]
        super().__init__(runs, parts)
        self._device_rows = parts
        self._team = team
        self._tree_bins = bins if isinstance(bins, PerTreeBins) else None
        self._bin_weights = np.empty(0)
        self._threads = ThreadPoolExecutor(len(devices))

    def _at_once(self, work: Callable[[OpenCLRows], Any]) -> list[Any]:
        """Let all devices work at a time; return the results."""
        return list(self._threads.map(work, self._device_rows))

    def bin_tree(self, output: int) -> HistogramLayout | None:
        if self._tree_bins is None:
            return None
        weights = self.bin_weights(output)
        if np.array_equal(weights, self._bin_weights):
            return None
        self._bin_weights = weights
        bins = self._tree_bins.make_bins(weights)
        assert isinstance(bins, DenseBins)
        for part, run in zip(self._device_rows, self._runs, strict=True):
            part.set_bins(_bins_of(bins, run))
        self.layout = bins.layout
        return self.layout

    def begin_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        scales: NDArray[np.float64],
        leaf_scales: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        self._per_unit = 1.0 / leaf_scales[0]
        return super().begin_tree(output, features, sample, scales, leaf_scales)

    def build_histograms(
        self,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
    ) -> None:
        shape = (len(histograms), nodes.size, *histograms.shape[2:])
        own_slots = np.arange(nodes.size)

        def build(part: OpenCLRows) -> NDArray[np.int64]:
            own = np.empty(shape, np.int64)
            part.build_histograms(nodes, own_slots, own)
            return own

        histograms[:, slots] = np.add.reduce(self._at_once(build))

    def finds_splits(self, features: NDArray[np.uint64], rules: SplitRules) -> bool:
        return self._device_rows[0].finds_splits(features, rules)

    def find_splits(
        self, search: SplitSearch
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        first, *others = self._device_rows
        found = self._threads.map(lambda part: part.read_histograms(search), others)
        return first.find_splits(search, lambda: reduce(np.add, found))

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.int64]:
        sums = self._at_once(lambda part: part.sum_leaves(nodes, leaves, n_leaves))
        return np.add.reduce(sums)

    def regress_leaves(
        self, features: LeafFeatures, linear_lambda: float
    ) -> LeafSlopes:
        leaf_of = self.leaf_of()
        pairs = [part.leaf_gradients() for part in self._device_rows]
        gradients, hessians = map(np.concatenate, zip(*pairs, strict=True))
        rows = leaf_of, gradients, hessians, self._per_unit
        return regress_leaves(self._team, *rows, features, linear_lambda)

    def add_linear_leaves(
        self, data: NDArray[Any], values: NDArray[np.float32], leaves: NodeTerms
    ) -> None:
        for part, run in zip(self._device_rows, self._runs, strict=True):
            part.add_linear_leaves(data[run], values, leaves)

    def close(self) -> None:
        self._threads.shutdown(wait=False)


def _bins_of(bins: DenseBins, run: slice) -> DenseBins:
    """Return the bins of some rows, column by column."""
    return DenseBins(bins.by_feature[:, run], bins.by_row[:0], bins.layout)
