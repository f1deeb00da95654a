"""Splits from the stored entries of sparse features, in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.entry_backend import EntryBackend
from hornbeam.backends.interface import (
    LeafFeatures,
    LeafSlopes,
    RowSample,
    SplitParams,
)
from hornbeam.backends.quantisation import quantise_tree
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.backends.row_state import GradientColumn
from hornbeam.backends.sparse_tree_grower import SparseTreeGrower
from hornbeam.binning.layout import PerTreeBins, SparseBins
from hornbeam.kernels.linear_leaves import NodeTerms
from hornbeam.kernels.team import Team

__all__ = ["SparseBackend"]


class SparseBackend(EntryBackend):
    """Stored entries feature by feature, and the node of each row.

    Parameters
    ----------
    bins
        Of the stored entries, or what makes them for each tree.
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    margins
        (outputs, rows) float64: the initial margins; kept and updated in place.
    team
        The threads that work; given back by `close`.
    numbers
        Of the rows, which random draws depend on; None: they start at 0.
    multi_output_columns
        Number of gradient columns of multi-output trees: as many as outputs, or fewer,
        which are projections; 0: trees have one output.
    max_histograms
        Maximum number of histograms at a time; None: as many as are of use.
    """

    def __init__(
        self,
        bins: SparseBins | PerTreeBins,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[np.float64],
        team: Team,
        numbers: RowNumbers | None = None,
        multi_output_columns: int = 0,
        max_histograms: int | None = None,
    ) -> None:
        super().__init__(targets, weights, margins, team, numbers)
        self.multi_output_columns = multi_output_columns
        self._max_histograms = max_histograms
        self._tree_bins: PerTreeBins | None = None
        if isinstance(bins, PerTreeBins):
            self._tree_bins, self._bin_weights = bins, np.empty(0)
            self._n_features = bins.n_features
        else:
            self._set_bins(bins)

    def _set_bins(self, bins: SparseBins) -> None:
        self._n_features = bins.n_bins.size
        self._grower = SparseTreeGrower(
            bins, self.n_rows, self._team, self._max_histograms
        )

    @property
    def n_features(self) -> int:
        return self._n_features

    def set_split_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        if self.multi_output_columns < self.n_outputs:
            super().set_split_gradients(gradients, hessians)
        self._state.set_split_gradients(gradients, hessians)
        self._gradient_ranges = None

    def sketch_outputs(self, projection: NDArray[np.float64]) -> None:
        self._state.sketch_outputs(projection)
        self._gradient_ranges = None

    def _bin_tree(self, output: int | None) -> None:
        """Bin the rows by the hessians of this output, unless they already are."""
        assert self._tree_bins is not None
        weights = self._state.bin_weights(output)
        if not np.array_equal(weights, self._bin_weights):
            self._bin_weights = weights
            bins = self._tree_bins.make_bins(weights)
            assert isinstance(bins, SparseBins)
            self._set_bins(bins)

    def _begin(
        self, output: int, params: SplitParams, sample: RowSample | None
    ) -> None:
        state, is_single = self._state, self.multi_output_columns == 0
        own = output if is_single else None
        if self._tree_bins is not None:
            self._bin_tree(own)

        def quantise(
            settled: RowSample | None,
            packed: NDArray[np.float64],
            wide: NDArray[np.float64],
        ) -> NDArray[np.int64]:
            state.set_tree(own, settled, wide)
            found = map(GradientColumn.quantise, state.columns, packed)
            return np.stack(list(found))

        def widen(places: list[int]) -> None:
            for place in places:
                state.columns[place].widen()

        scales = quantise_tree(
            params,
            sample,
            self.gradient_ranges(),
            own,
            self.n_outputs,
            self.n_rows,
            lambda weight: state.count_size_classes(own, weight),
            quantise,
            widen,
        )
        self._leaf_scales = scales.leaf[: len(state.leaf_columns)]
        if is_single:
            self._scales = scales.histogram[0]
            self._gradients = state.columns[0].quantised
        else:
            self._scales = scales.histogram
            self._gradients = state.quantised_columns()

    def regress_leaves(
        self, features: LeafFeatures, linear_lambda: float
    ) -> LeafSlopes:
        return self._state.regress_leaves(features, linear_lambda)

    def add_linear_leaves(
        self, data: NDArray[Any], values: NDArray[np.float32], leaves: NodeTerms
    ) -> None:
        self._mark_left_out()
        self._state.add_linear_leaves(self._output, data, values, leaves)
