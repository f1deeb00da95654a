"""Trees of all outputs: a histogram for each column of gradients, one split for all.

The columns are the outputs' gradients, a few mixes of them, or what a caller has set
beside them. To the rows they are what outputs are to trees of one output: each has
integers, steps and histograms of its own. They share the nodes; only the search for
splits and the leaves know that they belong together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.dense import DenseRows
from hornbeam.backends.gradient_sampling import settle_sample
from hornbeam.backends.hist import HistogramBackend
from hornbeam.backends.interface import GradientSource, RowSample, SplitParams
from hornbeam.backends.quantisation import (
    QuantisationScales,
    choose_scales,
    packed_is_enough,
)
from hornbeam.backends.row_state import Drawn, RowState, run_rows
from hornbeam.backends.rows import Rows
from hornbeam.binning.layout import DenseBins, HistogramLayout
from hornbeam.kernels.multi_output import (
    find_multi_output_splits,
    mix_outputs,
    weigh_children,
)
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.team import Team

__all__ = ["MultiOutputBackend", "MultiOutputRows"]


class MultiOutputRows(DenseRows):
    """Rows in memory, for trees of all outputs.

    What `DenseRows` have of one output they have here of every column: histograms are
    (columns, slots, 2, cells), coarse steps and magnitudes (columns, 2), sums of leaves
    (outputs, leaves, 2). Histograms of one more column have the rows as its hessians.
    Where columns are not the outputs themselves, gradient ranges and fine steps are
    those of the outputs, followed by those of the columns; and where they are set, the
    sums of leaves, too.

    Parameters
    ----------
    codes, targets, weights, margins, team
        As for `DenseRows`.
    n_columns
        By which splits are searched: as many as outputs, or fewer, which are mixes.
    spans
        As for `DenseRows`.
    """

    def __init__(
        self,
        codes: DenseBins,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[np.float64],
        team: Team,
        n_columns: int,
        spans: NDArray[np.int64] | None = None,
    ) -> None:
        super().__init__(codes, targets, weights, margins, team, spans)
        self._team = team
        self._is_mixed = n_columns < self.n_outputs
        self._outputs = [self._state.of_output(k) for k in range(self.n_outputs)]
        if self._is_mixed:
            #: What is searched: mixes of the outputs' gradients, and mean hessians.
            self._mixes = np.empty((n_columns, self.n_rows))
            self._means = np.empty((1, self.n_rows))
            self._mixed = [
                RowState(
                    targets,
                    weights,
                    margins[:1],
                    team,
                    gradients=own[None],
                    hessians=self._means,
                )
                for own in self._mixes
            ]
        self._forget_columns()

    def _forget_columns(self) -> None:
        """Search splits by the outputs again, or by their mixes."""
        self._columns = self._mixed if self._is_mixed else self._outputs
        #: The outputs, and the columns that are set beside them.
        self._every, self._summed = self._state, self._outputs

    def compute_gradients(self, objective: GradientSource) -> None:
        super().compute_gradients(objective)
        self._forget_columns()

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        super().set_gradients(gradients, hessians)
        self._forget_columns()

    def set_split_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        if self._is_mixed:
            super().set_split_gradients(gradients, hessians)
        self._every = self._state.beside(gradients, hessians)
        numbers = range(self.n_outputs, self._every.n_outputs)
        self._columns = [self._every.of_output(k) for k in numbers]
        self._summed = self._outputs + self._columns

    def sketch_outputs(self, mix: NDArray[np.float64]) -> None:
        self._mix = mix
        self._mix_pairs(self._state.gradients, self._state.hessians)

    def _mix_pairs(self, gradients: NDArray[Any], hessians: NDArray[Any]) -> None:
        run_rows(
            self._team,
            mix_outputs,
            self._mix.size * self.n_rows,
            self._mix,
            gradients,
            hessians,
            self._mixes,
            self._means[0],
        )

    def gradient_ranges(self) -> NDArray[np.float64]:
        found = self._every.gradient_ranges()
        if not self._is_mixed:
            return found
        of_mixes = np.concatenate(
            [column.gradient_ranges() for column in self._columns]
        )
        of_mixes[:, 2] = found[:, 2].min()  # no mean is below
        return np.concatenate([found, of_mixes])

    def count_size_classes(
        self, output: int, hessian_weight: float
    ) -> NDArray[np.int64]:
        return self._every.count_size_classes(None, hessian_weight)

    def begin_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        steps: NDArray[np.float64],
        fine_steps: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        self._builder.choose(features)
        drawn: list[Drawn | None] = [None] * len(fine_steps)
        if sample is not None and sample.by_gradient:
            drawn = self._draw_by_size(sample)
        states = self._summed + (self._columns if self._is_mixed else [])
        for state, own, pair in zip(states, fine_steps, drawn, strict=True):
            state.set_tree(0, sample, own, pair)
        self._nodes.begin_tree(self._outputs[0].draw())
        pairs = zip(self._columns, steps, strict=True)
        return np.stack([column.quantise(own) for column, own in pairs])

    def _draw_by_size(self, sample: RowSample) -> list[Drawn | None]:
        """Draw rows by the gradients of all outputs; return what they then have.

        For each output, and for each column that is none.
        """
        scaled = np.empty((2, self._every.n_outputs, self.n_rows))
        taken, (gradients, hessians) = self._every.draw_by_size(None, sample, scaled)
        pairs = list(zip(gradients, hessians, strict=True))
        if self._is_mixed:
            self._mix_pairs(gradients, hessians)
            pairs += [(own, self._means[0]) for own in self._mixes]
        return [(taken, pair) for pair in pairs]

    def widen(self, columns: Sequence[int] = (0,)) -> None:
        for column in columns:
            self._columns[column].widen()

    def build_histograms(
        self,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
    ) -> None:
        self._nodes.move(self._by_feature)
        pairs = [(column.packed, column.wide) for column in self._columns]
        if len(histograms) > len(pairs):
            pairs.append(self._builder.one_each(self.n_rows))
        for pair, own in zip(pairs, histograms, strict=True):
            self._builder.build(self._nodes, nodes, slots, own, self._by_row, *pair)

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.int64]:
        leaf_of = self._state.leaf_of
        self._nodes.mark_leaves(nodes, leaves, n_leaves, self._by_feature, leaf_of)
        return np.stack([state.sum_leaves(n_leaves) for state in self._summed])

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        self._nodes.mark_left_out(self._by_feature, self._state.leaf_of)
        for output, own in zip(self._outputs, values.T, strict=True):
            output.add_leaf_values(np.ascontiguousarray(own))


class MultiOutputBackend(HistogramBackend):
    """A pool of histograms of each column, searched together.

    Parameters
    ----------
    rows, layout, n_rows, team, max_histograms
        As for `HistogramBackend`; the rows answer as `MultiOutputRows` do.
    n_columns
        That the rows have.
    """

    _search: Callable[..., None] = staticmethod(find_multi_output_splits)

    def __init__(
        self,
        rows: Rows,
        layout: HistogramLayout,
        n_rows: int,
        team: Team,
        n_columns: int,
        max_histograms: int | None = None,
    ) -> None:
        self._n_columns = self._n_histograms = self.multi_output_columns = n_columns
        super().__init__(rows, layout, n_rows, team, max_histograms)

    def _make_scratch(self) -> tuple[NDArray[Any], ...]:
        members, columns = self._team.size, self._n_columns
        return (
            np.empty((members, 7, self._candidates + 1)),
            np.empty((members, columns, self._layout.max_categories + 2)),
            np.empty((members, columns + 1)),
            np.empty((members, columns, 2), np.int64),
        )

    def _shape_of(self, n_slots: int, parts: int, cells: int) -> tuple[int, ...]:
        return self._n_histograms, n_slots, parts, cells

    def _find_splits(
        self,
        nodes: NDArray[np.intp],
        allowed: NDArray[np.uint8] | None,
        limits: NodeConstraints | None,
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        splits, sets = super()._find_splits(nodes, allowed, limits)
        if limits is not None:
            weigh_children(
                self._family[1][nodes],
                self._histograms,
                self._totals,
                self._features,
                self._steps,
                self._rules,
                limits,
                splits,
                sets,
            )
        return splits, sets

    def sketch_outputs(self, mix: NDArray[np.float64]) -> None:
        self._rows.sketch_outputs(mix)
        self._gradient_ranges = None

    def set_split_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        self._rows.set_split_gradients(gradients, hessians)
        self._gradient_ranges = None

    def _search_by(self, n_columns: int) -> None:
        """Search the histograms of so many columns from now on."""
        if n_columns != self._n_columns:
            self._n_columns = self._n_histograms = self.multi_output_columns = n_columns
            self._split_scratch = self._make_scratch()
            self._init_histograms(2)

    def _begin_gradients(
        self,
        output: int,
        growth: SplitParams,
        sample: RowSample | None,
        gradient_ranges: NDArray[np.float64],
    ) -> None:
        sample, largest, n_counted = settle_sample(
            sample,
            growth,
            partial(self._rows.count_size_classes, output),
            gradient_ranges[:, :2],
            self._n_rows,
        )
        # Those of columns that are no outputs come after those of the outputs.
        columns = len(gradient_ranges) - self.n_outputs or self.n_outputs
        self._search_by(columns)
        if sample is not None and sample.by_gradient:
            # A mix is larger than all its outputs' gradients together.
            largest = largest.copy()
            largest[-columns:, 0] *= np.sqrt(self.n_outputs / columns)
        steps = choose_scales(largest, self._n_rows)
        own, coarse = largest[-columns:], steps.coarse[-columns:]
        magnitudes = self._rows.begin_tree(
            output, self._chosen, sample, coarse, steps.fine
        )
        least = gradient_ranges[-columns:, 2].tolist()
        is_coarse = [
            packed_is_enough(*facts, n_counted)
            for facts in zip(own, least, magnitudes, strict=True)
        ]
        wide = [column for column in range(columns) if not is_coarse[column]]
        if wide:
            self._rows.widen(wide)
        fine = steps.fine[-columns:]
        self._steps = np.where(np.array(is_coarse)[:, None], coarse, fine)
        self._fine_steps = steps.fine[:, None]  # with an axis of leaves
        last = QuantisationScales(coarse[-1], fine[-1])
        one_row = last.one_row(own[-1], int(magnitudes[-1, 1]), self._n_rows)
        self._one_row = one_row if is_coarse[-1] and one_row > 0 else 1
        counts = columns + (growth.counts_rows and self._one_row == 1)
        if counts != self._n_histograms:
            self._n_histograms = counts
            self._init_histograms(2)

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.float64]:
        sums = self._rows.sum_leaves(nodes, leaves, n_leaves)
        return sums * self._fine_steps[: len(sums)]
