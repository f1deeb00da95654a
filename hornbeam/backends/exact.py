"""Splits between any two values, from sorted columns (`tree_method="exact"`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.entry_backend import EntryBackend
from hornbeam.backends.exact_tree_grower import ExactTreeGrower
from hornbeam.backends.gradient_sampling import settle_sample
from hornbeam.backends.interface import RowSample, SplitParams
from hornbeam.backends.quantisation import choose_scales
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.binning.layout import SortedColumns
from hornbeam.kernels.team import Team

__all__ = ["ExactBackend"]


class ExactBackend(EntryBackend):
    """Sorted columns, in each of which the entries of a node are contiguous.

    Parameters
    ----------
    ordered
        The sorted columns; not changed.
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    margins
        (outputs, rows) float64: the initial margins; kept and updated in place.
    team
        The threads that work; given back by `close`.
    numbers
        Of the rows, which random draws depend on; None: they start at 0.
    """

    _grower: ExactTreeGrower

    def __init__(
        self,
        ordered: SortedColumns,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[np.float64],
        team: Team,
        numbers: RowNumbers | None = None,
    ) -> None:
        super().__init__(targets, weights, margins, team, numbers)
        self._grower = ExactTreeGrower(ordered, self.n_rows, team)
        absent = self.n_rows - np.diff(ordered.starts)
        self._density = np.float32(1) - absent / np.float32(self.n_rows)
        self._is_constant = _are_constant(ordered)

    @property
    def n_features(self) -> int:
        return self._density.size

    def _begin(
        self, output: int, params: SplitParams, sample: RowSample | None
    ) -> None:
        self._grower.directions = self._directions_of(params)
        state, ranges = self._state, self.gradient_ranges()
        largest, rows = ranges[output : output + 1, :2], self.n_rows
        if sample is not None and sample.by_gradient:
            count = state.count_size_classes
            sample, largest, _ = settle_sample(
                sample, params, lambda weight: count(output, weight), largest, rows
            )
        # All sums are wide: no histogram needs narrow ones.
        scales = choose_scales(largest, rows).wide
        state.set_tree(output, sample, scales)
        state.columns[0].widen()
        self._gradients = state.columns[0].quantised
        self._scales, self._leaf_scales = scales[0], scales

    def _directions_of(self, params: SplitParams) -> NDArray[np.int64]:
        """Return the default directions to search, (features, 2): from, and up to.

        Direction 0 has missing values on the right, direction 1 on the left. As in
        XGBoost, direction 0 is left out by default where hardly any row misses the
        feature, or all rows that have it have the same value.
        """
        directions = np.full((self.n_features, 2), (0, 2))
        if params.default_direction == "right":
            directions[:, 1] = 1
        else:
            left_only = params.default_direction == "left"
            is_dense = self._density >= np.float32(params.opt_dense_col)
            directions[:, 0] = left_only | is_dense | self._is_constant
        return directions

    def _send_left_out(self) -> None:
        self._grower.send_left_out()


def _are_constant(ordered: SortedColumns) -> NDArray[np.bool_]:
    """Return which columns have the same value in all entries."""
    begins, ends = ordered.starts[:-1], ordered.starts[1:]
    constant = np.zeros(begins.size, np.bool_)
    some = ends > begins
    # The upper half of an entry is the rank of its value.
    first, last = ordered.entries[begins[some]], ordered.entries[ends[some] - 1]
    constant[some] = first >> np.uint64(32) == last >> np.uint64(32)
    return constant
