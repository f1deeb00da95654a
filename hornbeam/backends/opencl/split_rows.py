"""Rows that are split between several devices; their sums are added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import GradientSource, RowSample
from hornbeam.backends.opencl.devices import Device
from hornbeam.backends.opencl.rows import OpenCLRows
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.backends.rows import Rows
from hornbeam.binning.layout import DenseBins
from hornbeam.kernels.team import Team

__all__ = ["SplitRows"]


class SplitRows(Rows):
    """Consecutive runs of rows, one on each device.

    Parameters
    ----------
    bins, targets, weights, margins, team
        As for `OpenCLRows`, of all rows.
    devices
        That the rows are on, in the order of the rows.
    numbers
        As for `OpenCLRows`, of all rows.
    """

    lookahead = OpenCLRows.lookahead

    def __init__(
        self,
        bins: DenseBins,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[Any],
        team: Team,
        devices: Sequence[Device],
        numbers: RowNumbers | None = None,
    ) -> None:
        self.n_outputs, self.n_rows = margins.shape
        self.layout, self.n_features = bins.layout, bins.layout.n_features
        numbers = RowNumbers(self.n_rows) if numbers is None else numbers
        bounds = np.linspace(0, self.n_rows, len(devices) + 1).astype(np.int64)
        self._runs = [
            slice(begin, end)
            for begin, end in zip(
                bounds[:-1].tolist(), bounds[1:].tolist(), strict=True
            )
        ]
        self._parts = [
            OpenCLRows(
                DenseBins(bins.by_feature[:, run], bins.by_row[:0], bins.layout),
                np.ascontiguousarray(targets[:, run]),
                None if weights is None else weights[run],
                np.ascontiguousarray(margins[:, run]),
                team,
                device,
                numbers.between(run.start, run.stop),
            )
            for run, device in zip(self._runs, devices, strict=True)
        ]
        self._threads = ThreadPoolExecutor(len(devices))

    def _at_once(self, work: Callable[[OpenCLRows], Any]) -> list[Any]:
        """Let all devices work at a time; return the results."""
        return list(self._threads.map(work, self._parts))

    def compute_gradients(self, objective: GradientSource) -> None:
        for part in self._parts:
            part.compute_gradients(objective)

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        for part, run in zip(self._parts, self._runs, strict=True):
            part.set_gradients(gradients[:, run], hessians[:, run])

    def gradient_ranges(self) -> NDArray[np.float64]:
        ranges = np.stack([part.gradient_ranges() for part in self._parts])
        return np.hstack([ranges[..., :2].max(axis=0), ranges[..., 2:].min(axis=0)])

    def count_size_classes(
        self, output: int, hessian_weight: float
    ) -> NDArray[np.int64]:
        given = output, hessian_weight
        return np.add.reduce([part.count_size_classes(*given) for part in self._parts])

    def begin_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        scales: NDArray[np.float64],
        leaf_scales: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        given = output, features, sample, scales, leaf_scales
        return np.add.reduce([part.begin_tree(*given) for part in self._parts])

    def widen(self, columns: Sequence[int] = (0,)) -> None:
        for part in self._parts:
            part.widen(columns)

    def sizes(self, nodes: NDArray[np.intp]) -> None:
        return None

    def build_histograms(
        self,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
    ) -> None:
        shape = (1, nodes.size, *histograms.shape[2:])
        own_slots = np.arange(nodes.size)

        def build(part: OpenCLRows) -> NDArray[np.int64]:
            own = np.empty(shape, np.int64)
            part.build_histograms(nodes, own_slots, own)
            return own

        histograms[:, slots] = np.add.reduce(self._at_once(build))

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        for part in self._parts:
            part.apply_splits(nodes, splits, sets, left)

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.int64]:
        sums = self._at_once(lambda part: part.sum_leaves(nodes, leaves, n_leaves))
        return np.add.reduce(sums)

    def leaf_of(self) -> NDArray[np.uint32]:
        return np.concatenate([part.leaf_of() for part in self._parts])

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        for part in self._parts:
            part.add_leaf_values(values)

    def margins(self) -> NDArray[np.float64]:
        return np.concatenate([part.margins() for part in self._parts], axis=1)

    def set_margins(self, margins: NDArray[np.float64]) -> None:
        for part, run in zip(self._parts, self._runs, strict=True):
            part.set_margins(margins[:, run])

    def close(self) -> None:
        self._threads.shutdown(wait=False)
