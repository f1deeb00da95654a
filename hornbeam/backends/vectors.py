"""Trees of all outputs: a histogram for each column of gradients, one split for all.

The columns are the outputs' gradients, or a few mixes of them. To the rows they are
what outputs are to trees of one output: each has integers, steps and histograms of its
own. They share the nodes; only the search for splits and the leaves know that they
belong together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.base import (
    DenseCodes,
    Growth,
    HistogramLayout,
    RowSample,
)
from hornbeam.backends.dense import DenseRows
from hornbeam.backends.histograms import HistogramBackend
from hornbeam.backends.memory import RowState, run_rows
from hornbeam.backends.steps import choose_steps, coarse_is_enough
from hornbeam.kernels.limits import Limits
from hornbeam.kernels.team import Team
from hornbeam.kernels.vectors import find_vector_splits, mix_outputs

__all__ = ["VectorBackend", "VectorRows"]


class VectorRows(DenseRows):
    """Rows in memory, for trees of all outputs.

    What `DenseRows` have of one output they have here of every column: histograms are
    (columns, slots, 2, cells), coarse steps and magnitudes (columns, 2), sums of leaves
    (outputs, leaves, 2). Where columns are mixes, the extents and the fine steps are
    those of the outputs, followed by those of the columns.

    Parameters
    ----------
    codes, targets, weights, scores, team
        As for `DenseRows`.
    n_columns
        By which splits are searched: as many as outputs, or fewer, which are mixes.
    """

    def __init__(
        self,
        codes: DenseCodes,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        scores: NDArray[np.float64],
        team: Team,
        n_columns: int,
    ) -> None:
        super().__init__(codes, targets, weights, scores, team)
        self._team = team
        self._is_mixed = n_columns < self.n_outputs
        self._outputs = self._columns = [
            self._state.of_output(k) for k in range(self.n_outputs)
        ]
        if self._is_mixed:
            #: What is searched: mixes of the outputs' gradients, and mean hessians.
            self._mixes = np.empty((n_columns, self.n_rows))
            self._means = np.empty((1, self.n_rows))
            self._columns = [
                RowState(
                    targets,
                    weights,
                    scores[:1],
                    team,
                    gradients=own[None],
                    hessians=self._means,
                )
                for own in self._mixes
            ]

    def mix_outputs(self, mix: NDArray[np.float64]) -> None:
        """Make columns of these mixes of the outputs, (columns, outputs)."""
        state = self._state
        run_rows(
            self._team,
            mix_outputs,
            mix.size * self.n_rows,
            mix,
            state.gradients,
            state.hessians,
            self._mixes,
            self._means[0],
        )

    def extents(self) -> NDArray[np.float64]:
        found = self._state.extents()
        if not self._is_mixed:
            return found
        of_mixes = np.concatenate([column.extents() for column in self._columns])
        of_mixes[:, 2] = found[:, 2].min()  # no mean is below
        return np.concatenate([found, of_mixes])

    def weigh(self, output: int, hessian_weight: float) -> NDArray[np.int64]:
        raise NotImplementedError  # samples by gradients are for trees of one output

    def begin_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        steps: NDArray[np.float64],
        fine_steps: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        self._counter.choose(features)
        states = self._outputs + (self._columns if self._is_mixed else [])
        for state, own in zip(states, fine_steps, strict=True):
            state.take_up(0, sample, own)
        self._nodes.begin_tree(self._columns[0].draw())
        pairs = zip(self._columns, steps, strict=True)
        return np.stack([column.quantise(own) for column, own in pairs])

    def widen(self, columns: NDArray[np.intp] | None = None) -> None:
        """Use the fine steps in the histograms of these columns, or of all."""
        every = range(len(self._columns))
        for column in every if columns is None else columns:
            self._columns[column].widen()

    def count(
        self,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
    ) -> None:
        self._nodes.move(self._by_feature)
        for column, own in zip(self._columns, histograms, strict=True):
            self._counter.count(
                self._nodes,
                nodes,
                slots,
                own,
                self._by_row,
                column.packed,
                column.wide,
            )

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.int64]:
        leaf_of = self._state.leaf_of
        self._nodes.mark_leaves(nodes, leaves, n_leaves, self._by_feature, leaf_of)
        return np.stack([output.sum_leaves(n_leaves) for output in self._outputs])

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        self._nodes.mark_left_out(self._by_feature, self._state.leaf_of)
        for output, own in zip(self._outputs, values.T, strict=True):
            output.add_leaf_values(np.ascontiguousarray(own))


class VectorBackend(HistogramBackend):
    """A pool of histograms of each column, searched together.

    Parameters
    ----------
    rows, layout, team, max_histograms
        As for `HistogramBackend`.
    n_columns
        That the rows have.
    """

    _search: Callable[..., None] = staticmethod(find_vector_splits)
    _rows: VectorRows

    def __init__(
        self,
        rows: VectorRows,
        layout: HistogramLayout,
        team: Team,
        n_columns: int,
        max_histograms: int | None = None,
    ) -> None:
        self._n_columns = n_columns
        super().__init__(rows, layout, rows.n_rows, team, max_histograms)

    def _make_scratch(self, candidates: int) -> tuple[NDArray[Any], ...]:
        members, columns = self._team.size, self._n_columns
        return (
            np.empty((members, 6, candidates + 1)),
            np.empty((members, columns, self._layout.most_categories + 2)),
            np.empty((members, columns, 2), np.int64),
        )

    def _beside(self, limits: Limits | None) -> tuple[Any, ...]:
        assert limits is None  # parameters that ask for some have been refused
        return self._split_scratch

    def _shape_of(self, n_slots: int, parts: int, cells: int) -> tuple[int, ...]:
        return self._n_columns, n_slots, parts, cells

    def mix_outputs(self, mix: NDArray[np.float64]) -> None:
        self._rows.mix_outputs(mix)
        self._extents = None

    def _begin_gradients(
        self,
        output: int,
        growth: Growth,
        sample: RowSample | None,
        extents: NDArray[np.float64],
    ) -> None:
        steps = choose_steps(extents[:, :2], self._n_rows)
        own, coarse = extents[-self._n_columns :], steps.coarse[-self._n_columns :]
        magnitudes = self._rows.begin_tree(
            output, self._chosen, sample, coarse, steps.fine
        )
        is_coarse = [
            coarse_is_enough(largest[:2], float(largest[2]), sums, self._n_rows)
            for largest, sums in zip(own, magnitudes, strict=True)
        ]
        self._rows.widen(np.flatnonzero(np.logical_not(is_coarse)))
        fine = steps.fine[-self._n_columns :]
        self._steps = np.where(np.array(is_coarse)[:, None], coarse, fine)
        # Of outputs, and of an axis of leaves.
        self._fine_steps = steps.fine[: self.n_outputs, None]
