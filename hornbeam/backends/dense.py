"""Rows whose codes are all in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.histogram_builder import HistogramBuilder
from hornbeam.backends.interface import GradientSource, RowSample
from hornbeam.backends.row_partition import RowPartition
from hornbeam.backends.row_state import RowState
from hornbeam.backends.rows import Rows
from hornbeam.binning.layout import DenseBins
from hornbeam.kernels.team import Team

__all__ = ["DenseRows"]


class DenseRows(Rows):
    """Codes of all cells, gradients and margins in memory.

    Parameters
    ----------
    codes
        Of all cells.
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    margins
        (outputs, rows) float64: the margins to begin with; kept and changed.
    team
        The threads that work; whoever took it gives it back.
    spans
        (spans, 2) int64: the first row of each run of rows here, and its number among
        all rows, by which samples are drawn. None: they begin at 0.
    """

    def __init__(
        self,
        codes: DenseBins,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[np.float64],
        team: Team,
        spans: NDArray[np.int64] | None = None,
    ) -> None:
        self.n_outputs, self.n_rows = margins.shape
        self._team = team
        self._state = RowState(targets, weights, margins, team, spans)
        self.set_bins(codes)

    def set_bins(self, codes: DenseBins) -> None:
        """Have other codes of the same cells from the next tree on."""
        self._by_feature, self._by_row = codes.by_feature, codes.by_row
        every_row = np.arange(self.n_rows, dtype=np.uint32)
        both_sides = np.empty((2, self.n_rows), np.uint32)
        layout = codes.layout
        self._nodes = RowPartition(
            layout.feature_table, layout.n_set_words, every_row, both_sides, self._team
        )
        kind = codes.by_row.dtype
        self._builder = HistogramBuilder(layout, kind, self._team, codes.row_columns)

    def hessians(self, output: int) -> NDArray[np.float64]:
        """Return those of one output, (rows,)."""
        return self._state.hessians[output].astype(np.float64)

    def compute_gradients(self, objective: GradientSource) -> None:
        self._state.compute_gradients(objective)

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        self._state.set_gradients(gradients, hessians)

    def gradient_ranges(self) -> NDArray[np.float64]:
        return self._state.gradient_ranges()

    def count_size_classes(
        self, output: int, hessian_weight: float
    ) -> NDArray[np.int64]:
        return self._state.count_size_classes(output, hessian_weight)

    def begin_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        steps: NDArray[np.float64],
        fine_steps: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        self._builder.choose(features)
        self._state.set_tree(output, sample, fine_steps)
        self._nodes.begin_tree(self._state.draw())
        return self._state.quantise(steps)

    def widen(self, columns: Sequence[int] = (0,)) -> None:
        self._state.widen()

    def sizes(self, nodes: NDArray[np.intp]) -> NDArray[np.int64]:
        self._nodes.move(self._by_feature)
        return self._nodes.sizes(nodes)

    def build_histograms(
        self,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
    ) -> None:
        self._nodes.move(self._by_feature)
        self._builder.build(
            self._nodes,
            nodes,
            slots,
            histograms,
            self._by_row,
            self._state.packed,
            self._state.wide,
        )

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        self._nodes.apply_splits(nodes, splits, sets, left)

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.int64]:
        leaf_of = self._state.leaf_of
        self._nodes.mark_leaves(nodes, leaves, n_leaves, self._by_feature, leaf_of)
        return self._state.sum_leaves(n_leaves)

    def leaf_of(self) -> NDArray[np.uint32]:
        return self._state.leaf_of

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        self._nodes.mark_left_out(self._by_feature, self._state.leaf_of)
        self._state.add_leaf_values(values)

    def margins(self) -> NDArray[np.float64]:
        return self._state.margins.copy()

    def set_margins(self, margins: NDArray[np.float64]) -> None:
        self._state.margins[...] = margins

    def close(self) -> None:
        return
