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
from hornbeam.backends.row_numbers import RowNumbers
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
    """

    def __init__(
        self,
        bins: SparseBins | PerTreeBins,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[np.float64],
        team: Team,
        numbers: RowNumbers | None = None,
    ) -> None:
        super().__init__(targets, weights, margins, team, numbers)
        self._tree_bins: PerTreeBins | None = None
        if isinstance(bins, PerTreeBins):
            self._tree_bins, self._bin_weights = bins, np.empty(0)
            self._n_features = bins.n_features
        else:
            self._set_bins(bins)

    def _set_bins(self, bins: SparseBins) -> None:
        self._n_features = bins.n_bins.size
        self._grower = SparseTreeGrower(bins, self.n_rows, self._team)

    @property
    def n_features(self) -> int:
        return self._n_features

    def _bin_tree(self, output: int) -> None:
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
        if self._tree_bins is not None:
            self._bin_tree(output)
        column, self._scales, self._leaf_scales = self._quantise(output, params, sample)
        self._gradients = column.quantised

    def regress_leaves(
        self, features: LeafFeatures, linear_lambda: float
    ) -> LeafSlopes:
        return self._state.regress_leaves(features, linear_lambda)

    def add_linear_leaves(
        self, data: NDArray[Any], values: NDArray[np.float32], leaves: NodeTerms
    ) -> None:
        self._mark_left_out()
        self._state.add_linear_leaves(self._output, data, values, leaves)
