"""Rows on disk for trees of all outputs: a block is counted for each column in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.external import BlockArrays, ExternalRows
from hornbeam.backends.interface import GradientSource, RowSample
from hornbeam.backends.memory_plan import MemoryPlan
from hornbeam.backends.row_partition import RowPartition
from hornbeam.backends.row_state import Drawn, RowState, gradient_type, run_rows
from hornbeam.binning.layout import BinBlock, ExternalBins
from hornbeam.kernels.layout import SIZE_CLASSES
from hornbeam.kernels.multi_output import mix_outputs
from hornbeam.kernels.team import Team

__all__ = ["ExternalMultiOutputRows"]


class ExternalMultiOutputRows(ExternalRows):
    """Codes on disk, for trees of all outputs.

    PartialSums are those of `hornbeam.backends.multi_output.MultiOutputRows`. Mixes of
    gradients, samples by their size and integers are made anew for each block at every
    sweep, one column after the other.

    Parameters
    ----------
    codes, targets, weights, margins, team, budget, spans
        As for `ExternalRows`; the budget keeps no integers and holds no rows.
    n_columns
        As for `MultiOutputRows`.
    """

    def __init__(
        self,
        codes: ExternalBins,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[np.float64],
        team: Team,
        budget: MemoryPlan,
        n_columns: int,
        spans: NDArray[np.int64] | None = None,
    ) -> None:
        super().__init__(codes, targets, weights, margins, team, budget, spans)
        self._n_columns = n_columns
        self._mix: NDArray[np.float64] | None = None
        #: Gradients and hessians that are set beside the outputs'.
        self._beside: tuple[BlockArrays, BlockArrays] | None = None
        self._usual_columns = n_columns

    def compute_gradients(self, objective: GradientSource) -> None:
        super().compute_gradients(objective)
        self._forget_columns()

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        super().set_gradients(gradients, hessians)
        self._forget_columns()

    def _forget_columns(self) -> None:
        self._beside, self._n_columns = None, self._usual_columns

    def set_split_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        if self._usual_columns < self.n_outputs:
            super().set_split_gradients(gradients, hessians)
        self._n_columns, kind = len(gradients), gradient_type(self._weights)
        self._beside = (
            self._columns_on_disk("column gradients", gradients.astype(kind)),
            self._columns_on_disk("column hessians", hessians.astype(kind)),
        )

    def _columns_on_disk(self, name: str, values: NDArray[Any]) -> BlockArrays:
        shape = (len(values),)
        return self._arrays(
            name, shape, values.dtype, values=values, kept_as="gradients"
        )

    def _every(self, block: int) -> RowState:
        """Return the state of a block's rows, with the columns that are set."""
        state = self._state(block, pairs=True)
        if self._beside is None:
            return state
        return state.beside(*(arrays.read(block) for arrays in self._beside))

    def sketch_outputs(self, mix: NDArray[np.float64]) -> None:
        self._mix = mix

    def gradient_ranges(self) -> NDArray[np.float64]:
        if self._beside is not None:
            every = np.stack(
                [
                    self._every(block).gradient_ranges()
                    for block in range(len(self._bounds))
                ]
            )
            return np.hstack([every[..., :2].max(axis=0), every[..., 2:].min(axis=0)])
        found = super().gradient_ranges()
        if self._mix is None:
            return found
        of_mixes = np.zeros((self._n_columns, 3))
        for block in range(len(self._bounds)):
            state = self._state(block, pairs=True)
            gradients, hessians = self._mixed(state.gradients, state.hessians)
            mixes = RowState(
                self._targets,
                None,
                np.empty(gradients.shape),
                self._team,
                gradients=gradients,
                hessians=hessians,
                scratch=self._scratch,
            )
            of_mixes = np.maximum(of_mixes, mixes.gradient_ranges())
        of_mixes[:, 2] = found[:, 2].min()  # no mean is below
        return np.concatenate([found, of_mixes])

    def count_size_classes(
        self, output: int, hessian_weight: float
    ) -> NDArray[np.int64]:
        counts = np.zeros(SIZE_CLASSES, np.int64)
        for block in range(len(self._bounds)):
            counts += self._every(block).count_size_classes(None, hessian_weight)
        return counts

    def begin_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        steps: NDArray[np.float64],
        fine_steps: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        self._put_in_root(features, sample, steps)
        self._fine_steps, self._wide = fine_steps, frozenset[int]()
        magnitudes = np.zeros((self._n_columns, 2), np.int64)
        for block in range(len(self._bounds)):
            for column, state in enumerate(self._columns_of(block)):
                magnitudes[column] += state.quantise(steps[column])
        return magnitudes

    def widen(self, columns: Sequence[int] = (0,)) -> None:
        self._wide = frozenset(columns)

    def _columns_of(self, block: int) -> Iterator[RowState]:
        """Yield the state of a block's rows for each column, one at a time."""
        state, taken, pairs = self._sampled(block)
        if self._mix is not None:
            pairs = self._mixed(*pairs)
        elif self._beside is not None:
            pairs = pairs[0][self.n_outputs :], pairs[1][self.n_outputs :]
        fine_steps = self._fine_steps[-self._n_columns :]
        yield from self._taken_up(state, taken, pairs, fine_steps)

    def _summed_of(self, block: int) -> Iterator[RowState]:
        """Yield the state of a block's rows for all that leaves are summed of."""
        state, taken, pairs = self._sampled(block)
        fine_steps = self._fine_steps[: len(pairs[0])]
        yield from self._taken_up(state, taken, pairs, fine_steps)

    def _taken_up(
        self,
        state: RowState,
        taken: NDArray[np.uint8] | None,
        pairs: tuple[NDArray[Any], NDArray[Any]],
        fine_steps: NDArray[np.float64],
    ) -> Iterator[RowState]:
        for gradients, hessians, steps in zip(*pairs, fine_steps, strict=True):
            drawn: Drawn = taken, (gradients, hessians)
            state.set_tree(0, self._sample, steps, drawn)
            yield state

    def _sampled(
        self, block: int
    ) -> tuple[RowState, NDArray[np.uint8] | None, tuple[NDArray[Any], NDArray[Any]]]:
        """Return a block's rows, and what a sample by gradients makes of these."""
        state, sample = self._every(block), self._sample
        if sample is None or not sample.by_gradient:
            return state, None, (state.gradients, state.hessians)
        scaled = np.empty((2, *state.gradients.shape))
        return state, *state.draw_by_size(None, sample, scaled)

    def _mixed(
        self, gradients: NDArray[Any], hessians: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return mixes of gradients, and mean hessians for each."""
        assert self._mix is not None
        shape = self._n_columns, gradients.shape[1]
        mixes, means = np.empty(shape), np.empty(shape[1])
        rows = self._mix.size * shape[1]
        run_rows(
            self._team, mix_outputs, rows, self._mix, gradients, hessians, mixes, means
        )
        return mixes, np.broadcast_to(means, shape)

    def _build_block(
        self,
        rows: RowPartition,
        block: BinBlock,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
        add: bool,
    ) -> None:
        asked = rows, nodes, slots
        for column, state in enumerate(self._columns_of(block.number)):
            if column in self._wide:
                state.widen()
            else:
                state.quantise(self._steps[column])
            pair, own = (state.packed, state.wide), histograms[column]
            self._builder.build(*asked, own, block.by_row, *pair, add=add)
        if len(histograms) > self._n_columns:
            pair = self._builder.one_each(rows.every_row.size)
            self._builder.build(*asked, histograms[-1], block.by_row, *pair, add=add)

    def _sum_block(self, block: int, n_leaves: int) -> NDArray[np.int64]:
        return np.stack([own.sum_leaves(n_leaves) for own in self._summed_of(block)])

    def _drawn(self, block: int) -> NDArray[np.uint8] | None:
        return next(self._summed_of(block)).draw()

    def _add_values(self, state: RowState, values: NDArray[np.float32]) -> None:
        for output, own in enumerate(values.T):
            state.output = output
            state.add_leaf_values(np.ascontiguousarray(own))
