"""Splits from the stored entries of sparse features, in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import (
    Backend,
    Constraints,
    GrownTree,
    GrowthLimits,
    LeafFeatures,
    LeafSlopes,
    RowSample,
    SplitParams,
)
from hornbeam.backends.margin_rows import MarginRows
from hornbeam.backends.row_loop import run_rows
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.backends.sparse_tree_grower import SparseTreeGrower, SparseTreeSearch
from hornbeam.binning.layout import PerTreeBins, SparseBins
from hornbeam.kernels.linear_leaves import NodeTerms
from hornbeam.kernels.sampling import ColumnDraws
from hornbeam.kernels.sparse import look_up_leaves
from hornbeam.kernels.team import Team

__all__ = ["SparseBackend"]

_EVERY_ROW = np.empty(0, np.uint8)


class SparseBackend(MarginRows, Backend):
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

    def begin_tree(
        self,
        output: int,
        params: SplitParams,
        features: NDArray[np.uint64],
        sample: RowSample | None,
    ) -> None:
        if self._tree_bins is not None:
            self._bin_tree(output)
        self._output, self._params, self._chosen = output, params, features
        self._column, self._scales, self._leaf_scales = self._quantise(
            output, params, sample
        )
        taken = self._state.draw_sample()
        self._taken = _EVERY_ROW if taken is None else taken

    def grow(
        self,
        limits: GrowthLimits,
        draws: ColumnDraws,
        learning_rate: float | None,
        constraints: Constraints | None = None,
    ) -> GrownTree | None:
        if limits.symmetric:
            return None  # there are no histograms, see `find_level_split`
        own = constraints or Constraints()
        of_nodes = own.limits(self._params, self.n_features)
        search = SparseTreeSearch(
            self._column.quantised,
            self._taken,
            self._state.leaves,
            self._chosen,
            self._scales,
            self._leaf_scales[None],
            self._params.rules,
            of_nodes,
            constraints,
        )
        return self._grower.grow(search, limits, draws, learning_rate)

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.float64]:
        self._grower.leaf_of_node[nodes] = leaves
        self._mark_leaves(self._taken, n_leaves)
        return self._state.sum_leaves(n_leaves)[0] * self._leaf_scales

    def _mark_leaves(self, taken: NDArray[np.uint8], none: int) -> None:
        """Write the leaf of each row, or `none` if it is not taken."""
        grower = self._grower
        found = grower.leaf_of_node, grower.node_of, taken, none, self._state.leaf_of
        run_rows(self._team, look_up_leaves, self.n_rows, *found)

    def _mark_left_out(self) -> None:
        if self._taken.size > 0:
            self._mark_leaves(_EVERY_ROW, 0)

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        self._mark_left_out()
        self._state.add_leaf_values(self._output, values)

    def regress_leaves(
        self, features: LeafFeatures, linear_lambda: float
    ) -> LeafSlopes:
        return self._state.regress_leaves(features, linear_lambda)

    def add_linear_leaves(
        self, data: NDArray[Any], values: NDArray[np.float32], leaves: NodeTerms
    ) -> None:
        self._mark_left_out()
        self._state.add_linear_leaves(self._output, data, values, leaves)
