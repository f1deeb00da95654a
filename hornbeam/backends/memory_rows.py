"""Rows whose gradients and margins are in memory; subclasses have their bins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import GradientSource, RowSample
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.backends.row_state import GradientColumn, RowState
from hornbeam.backends.rows import Rows
from hornbeam.binning.layout import (
    DenseBins,
    HistogramLayout,
    PerTreeBins,
    SparseBins,
)
from hornbeam.kernels.team import Team

__all__ = ["MemoryRows"]


class MemoryRows(Rows):
    """Gradients and margins in memory, of bins that may be made for each tree.

    Parameters
    ----------
    bins
        Of all features and rows, or what makes them for each tree.
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    margins
        (outputs, rows) float64: the initial margins; kept and updated in place.
    team
        The threads that work; its owner gives it back.
    numbers
        Of the rows, which random draws depend on; None: they start at 0.
    multi_output_columns
        Number of gradient columns of multi-output trees: as many as outputs, or fewer,
        which are projections; 0: trees have one output.
    """

    def __init__(
        self,
        bins: DenseBins | SparseBins | PerTreeBins,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[np.float64],
        team: Team,
        numbers: RowNumbers | None = None,
        multi_output_columns: int = 0,
    ) -> None:
        self.n_outputs, self.n_rows = margins.shape
        self.multi_output_columns = multi_output_columns
        self._team = team
        self._state = RowState(targets, weights, margins, team, numbers)
        self._tree_bins: PerTreeBins | None = None
        if isinstance(bins, PerTreeBins):
            self._tree_bins, self.layout = bins, None
            self.n_features = bins.n_features
            self._bin_weights = np.empty(0)
        else:
            self.layout = self._use_bins(bins)
            self.n_features = self.layout.n_features

    @abstractmethod
    def _use_bins(self, bins: Any) -> HistogramLayout:
        """Use these bins from the next tree on; return the layout of histograms."""

    def set_bins(self, bins: DenseBins) -> None:
        self.layout = self._use_bins(bins)

    def bin_tree(self, output: int) -> HistogramLayout | None:
        if self._tree_bins is None:
            return None
        weights = self.bin_weights(output)
        if np.array_equal(weights, self._bin_weights):
            return None
        self._bin_weights = weights
        self.layout = self._use_bins(self._tree_bins.make_bins(weights))
        return self.layout

    def bin_weights(self, output: int) -> NDArray[np.float64]:
        return self._state.bin_weights(self._output(output))

    def _output(self, output: int) -> int | None:
        """Return the output of a tree; None: all of them."""
        return output if self.multi_output_columns == 0 else None

    def compute_gradients(self, objective: GradientSource) -> None:
        self._state.compute_gradients(objective)

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        self._state.set_gradients(gradients, hessians)

    def set_split_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        if self.multi_output_columns < self.n_outputs:
            super().set_split_gradients(gradients, hessians)
        self._state.set_split_gradients(gradients, hessians)

    def sketch_outputs(self, projection: NDArray[np.float64]) -> None:
        self._state.sketch_outputs(projection)

    def gradient_ranges(self) -> NDArray[np.float64]:
        return self._state.gradient_ranges()

    def count_size_classes(
        self, output: int, hessian_weight: float
    ) -> NDArray[np.int64]:
        return self._state.count_size_classes(self._output(output), hessian_weight)

    def begin_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        scales: NDArray[np.float64],
        leaf_scales: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        self._tree_output = output
        state = self._state
        state.set_tree(self._output(output), sample, leaf_scales)
        taken = None if sample is None else state.draw_sample()
        numbers = self._begin(features, taken)
        first, *others = state.columns
        # One pass over the rows lists them, too.
        found = first.quantise(scales[0], numbers)[None]
        if others:
            more = map(GradientColumn.quantise, others, scales[1:])
            found = np.concatenate([found, np.stack(list(more))])
        return found

    @abstractmethod
    def _begin(
        self, features: NDArray[np.uint64], taken: NDArray[np.uint8] | None
    ) -> NDArray[np.uint32]:
        """Put all rows, or those taken, into the root of a tree of these features.

        Returns where the caller has to write the numbers of all rows, in order; no
        rows: nowhere.
        """

    def widen(self, columns: Sequence[int] = (0,)) -> None:
        for column in columns:
            self._state.columns[column].widen()

    def leaf_of(self) -> NDArray[np.uint32]:
        return self._state.leaf_of

    def margins(self) -> NDArray[np.float64]:
        return self._state.margins.copy()

    def set_margins(self, margins: NDArray[np.float64]) -> None:
        self._state.margins[...] = margins

    def close(self) -> None:
        return
