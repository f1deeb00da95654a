"""Consecutive runs of rows, each of which is on a device; their sums are added."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import GradientSource, RowSample
from hornbeam.backends.opencl.listed_rows import ListedRows
from hornbeam.backends.rows import Rows

__all__ = ["PartedRows"]


class PartedRows(Rows):
    """Rows in parts; subclasses build histograms and sum leaves.

    Parameters
    ----------
    runs
        The rows of each part, one after the other.
    parts
        Their rows.
    """

    def __init__(self, runs: Sequence[slice], parts: Sequence[ListedRows]) -> None:
        self._runs, self._parts = runs, parts
        first = parts[0]
        self.n_outputs, self.n_rows = first.n_outputs, runs[-1].stop
        self.layout, self.n_features = first.layout, first.n_features
        self.multi_output_columns = first.multi_output_columns

    def compute_gradients(self, objective: GradientSource) -> None:
        for part in self._parts:
            part.compute_gradients(objective)

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        for part, run in zip(self._parts, self._runs, strict=True):
            part.set_gradients(gradients[:, run], hessians[:, run])

    def set_split_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        for part, run in zip(self._parts, self._runs, strict=True):
            part.set_split_gradients(gradients[:, run], hessians[:, run])

    def sketch_outputs(self, projection: NDArray[np.float64]) -> None:
        for part in self._parts:
            part.sketch_outputs(projection)

    def gradient_ranges(self) -> NDArray[np.float64]:
        ranges = np.stack([part.gradient_ranges() for part in self._parts])
        return np.hstack([ranges[..., :2].max(axis=0), ranges[..., 2:].min(axis=0)])

    def count_size_classes(
        self, output: int, hessian_weight: float
    ) -> NDArray[np.int64]:
        given = output, hessian_weight
        return np.add.reduce([part.count_size_classes(*given) for part in self._parts])

    def bin_weights(self, output: int) -> NDArray[np.float64]:
        return np.concatenate([part.bin_weights(output) for part in self._parts])

    def begin_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        scales: NDArray[np.float64],
        leaf_scales: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        for part in self._parts:
            part.start_tree(output, features, sample, scales, leaf_scales)
        return np.add.reduce([part.magnitudes() for part in self._parts])

    def widen(self, columns: Sequence[int] = (0,)) -> None:
        for part in self._parts:
            part.widen(columns)

    def sizes(self, nodes: NDArray[np.intp]) -> None:
        return None

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        for part in self._parts:
            part.apply_splits(nodes, splits, sets, left)

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

    @abstractmethod
    def close(self) -> None:
        """Release threads and memory."""
