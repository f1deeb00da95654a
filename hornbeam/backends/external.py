"""Rows whose bins are on disk and are read block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.dense import HistogramBuilder
from hornbeam.backends.external_state import ExternalState
from hornbeam.backends.interface import GradientSource, RowSample
from hornbeam.backends.memory_plan import MemoryPlan
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.backends.row_partition import RowPartition
from hornbeam.backends.rows import Rows
from hornbeam.backends.sampled_rows import SampledRows
from hornbeam.binning.layout import BinBlock, ExternalBins
from hornbeam.kernels.bins import Bins
from hornbeam.kernels.team import Team

__all__ = ["ExternalRows"]

Splits = tuple[
    NDArray[np.intp], NDArray[Any], NDArray[np.uint64], NDArray[np.intp]
]  # nodes, splits, sets, left children

_NO_WIDE = np.empty((2, 0), np.int64)


class ExternalRows(Rows):
    """Bins on disk; gradients, margins and row lists in memory or on disk.

    A pass over the blocks moves rows to the children of split nodes and adds them to
    histograms at once, or marks them with their leaves: one pass for each level of a
    tree, and one at its end. Where the budget has space for a tree's sample, one pass
    gathers it, and histograms are built in memory.

    Parameters
    ----------
    bins
        Of all features and rows.
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    margins
        (outputs, rows) float64: the initial margins; copied.
    team
        The threads that work; its owner gives it back.
    budget
        What may be in memory. In multi-output trees it caches neither quantised
        gradients nor samples.
    numbers, multi_output_columns
        As for `DenseRows`.
    """

    lookahead = 16

    def __init__(
        self,
        bins: ExternalBins,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[np.float64],
        team: Team,
        budget: MemoryPlan,
        numbers: RowNumbers | None = None,
        multi_output_columns: int = 0,
    ) -> None:
        self.n_outputs, self.n_rows = margins.shape
        self.multi_output_columns = multi_output_columns
        self._team, self._blocks = team, bins.blocks
        self._ring_bytes = budget.ring_bytes
        self._sample_rows = budget.sample_rows
        if self._sample_rows > 0:
            self.lookahead = 1  # histograms of more nodes do not take more passes
        self._blocks.keep_in_memory(budget.kept_bytes)
        self._state = ExternalState(
            bins, targets, weights, margins, team, budget, numbers, multi_output_columns
        )
        layout = self.layout = bins.layout
        self._features = layout.feature_table
        self.n_features = self._features.size
        self._builder = HistogramBuilder(layout, bins.blocks.dtype, team)
        self._packed: list[NDArray[np.int64]] | None = None
        if budget.keeps_packed and multi_output_columns == 0:
            self._packed = [
                np.empty(end - begin, np.int64) for begin, end in self._state.bounds
            ]
        self._partitions = self._make_partitions(layout.n_set_words)

    def _make_partitions(self, words: int) -> list[RowPartition]:
        """Return the partition of each block; row lists on disk share a buffer."""
        state = self._state
        on_disk = state.row_lists is not None
        every_row = np.arange(state.max_rows, dtype=np.uint32)
        shared = np.empty(2 * state.max_rows if on_disk else 0, np.uint32)
        found = []
        for begin, end in state.bounds:
            count = end - begin
            sides = shared[: 2 * count] if on_disk else np.empty(2 * count, "u4")
            own = every_row[:count], sides.reshape(2, count)
            found.append(RowPartition(self._features, words, *own, self._team))
        return found

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
        return self._state.count_size_classes(output, hessian_weight)

    def begin_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        scales: NDArray[np.float64],
        leaf_scales: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        self._state.set_tree(output, sample, leaf_scales)
        self._sample, self._scales = sample, scales
        self._wide = frozenset[int]()
        self._builder.choose(features)
        self._is_fresh = np.ones(len(self._partitions), bool)
        self._pending: list[Splits] = []
        self._split_columns: set[int] = set()
        self._cached_sample: SampledRows | None = None
        taken: list[NDArray[np.uint32]] = []
        magnitudes = np.zeros((len(scales), 2), np.int64)
        for block in range(len(self._partitions)):
            state = self._state.of_tree(block)
            columns = zip(magnitudes, state.columns, scales, strict=True)
            for own, column, column_scales in columns:
                own += column.quantise(column_scales)
            if self._packed is not None:
                self._packed[block][:] = state.columns[0].packed
            drawn = state.draw_sample() if self._sample_rows > 0 else None
            if drawn is not None:
                taken.append(np.flatnonzero(drawn).astype(np.uint32))
        # A worker may have more rows of a sample by gradient than its share: then the
        # tree is grown from disk.
        if taken and sum(own.size for own in taken) <= self._sample_rows:
            assert self.layout is not None
            self._cached_sample = SampledRows(
                taken, self.layout, self._blocks.dtype, self._team
            )
        return magnitudes

    def widen(self, columns: Sequence[int] = (0,)) -> None:
        self._wide = frozenset(columns)

    def sizes(self, nodes: NDArray[np.intp]) -> None:
        return None

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        if self._cached_sample is not None:
            self._cached_sample.apply_splits(nodes, splits, sets, left)
        else:
            self._pending.append((nodes, splits, sets, left))

    def build_histograms(
        self,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
    ) -> None:
        if self._cached_sample is not None:
            self._fill(self._cached_sample)
            self._cached_sample.build_histograms(
                self._builder, nodes, slots, histograms[0]
            )
            return
        add = False
        for rows, block in self._pass(by_row=True):
            moved = rows.move(_bins_by_feature(block))
            columns = self._builder.columns(Bins.of(block.by_row))
            for column, pair in enumerate(self._quantised(block.number)):
                self._builder.build(
                    rows, nodes, slots, histograms[column], columns, *pair, add=add
                )
            if len(histograms) > len(self._scales):
                pair = self._builder.unit_hessians(rows.every_row.size)
                self._builder.build(
                    rows, nodes, slots, histograms[-1], columns, *pair, add=add
                )
            add = True
            if self._state.row_lists is not None and moved.size > 0:
                rows.bring_home(moved)
                self._store_list(block.number, rows.rows[0])

    def _fill(self, sample: SampledRows) -> None:
        """Gather the rows of the sample, unless that has been done."""
        if sample.is_filled:
            return
        sample.begin_filling(is_wide=0 in self._wide)
        with self._blocks.read_blocks([], True, self._ring_bytes) as blocks:
            for block in blocks:
                (pair,) = self._quantised(block.number)
                sample.fill(block, *pair)

    def _quantised(
        self, block: int
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield each column of a block's rows, packed and wide; one of both is empty.

        A column is valid until the next one is requested.
        """
        if self._packed is not None and not self._wide:
            yield self._packed[block], _NO_WIDE
            return
        for number, column in enumerate(self._state.of_tree(block).columns):
            if number in self._wide:
                column.widen()
            else:
                column.quantise(self._scales[number])
            yield column.packed, column.wide

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.int64]:
        if self._cached_sample is not None:
            return self._sum_from_root(self._cached_sample, nodes, leaves, n_leaves)
        sums: Any = 0
        for rows, block in self._pass(by_row=False):
            by_feature = _bins_by_feature(block)
            leaf_of = self._state.leaf_of(block.number)
            rows.mark_leaves(nodes, leaves, n_leaves, by_feature, leaf_of)
            sums = sums + self._state.of_tree(block.number).sum_leaves(n_leaves)
            rows.mark_left_out(by_feature, leaf_of)
            # The list of rows is no longer needed in this tree.
            if self._state.row_lists is None:
                rows.rows[0] = leaf_of
            else:
                self._store_list(block.number, leaf_of)
        return np.asarray(sums)

    def _sum_from_root(
        self,
        sample: SampledRows,
        nodes: NDArray[np.intp],
        leaves: NDArray[np.intp],
        n_leaves: int,
    ) -> NDArray[np.int64]:
        """Route all rows through the sample's tree, and sum the sample's leaves."""
        sums: Any = np.zeros((1, n_leaves, 2), np.int64)
        sample.name_leaves(nodes, leaves)
        columns = sorted(sample.split_columns)
        with self._blocks.read_blocks(columns, False, self._ring_bytes) as blocks:
            for block in blocks:
                rows, taken = self._partitions[block.number], sample.taken[block.number]
                leaf_of = rows.rows[0]
                by_feature = _bins_by_feature(block)
                sample.route(rows.every_row, by_feature, leaf_of)
                in_sample = self._state.leaf_of(block.number)
                in_sample[:] = n_leaves
                in_sample[taken] = leaf_of[taken]
                sums += self._state.of_tree(block.number).sum_leaves(n_leaves)
                self._store_list(block.number, leaf_of)
        self._cached_sample = None
        return np.asarray(sums)

    def _pass(self, *, by_row: bool) -> Iterator[tuple[RowPartition, BinBlock]]:
        """Yield the partition of each block, and the block.

        Pending splits are entered in the partition, and the columns of their features
        are in the block. For leaves these are all of the tree's if it has a sample.
        """
        pending = [np.concatenate(part) for part in zip(*self._pending, strict=True)]
        self._pending = []
        columns: set[int] = set()
        if pending:
            columns = {*self._features["column"][pending[1]["feature"]].tolist()}
            self._split_columns |= columns
        if not by_row and self._sample is not None:
            columns = self._split_columns
        wanted = sorted(columns)
        with self._blocks.read_blocks(wanted, by_row, self._ring_bytes) as blocks:
            for block in blocks:
                rows = self._partitions[block.number]
                self._load_list(block.number, rows)
                if pending:
                    rows.apply_splits(*pending)
                yield rows, block

    def _load_list(self, block: int, rows: RowPartition) -> None:
        """Load the row list of a block; in a new tree all rows are in the root."""
        if self._is_fresh[block]:
            rows.begin_tree(self._state.draw_sample(block))
            self._store_list(block, rows.rows[0])
        elif self._state.row_lists is not None:
            rows.rows[0] = self._state.row_lists.read(block)

    def _store_list(self, block: int, rows: NDArray[np.uint32]) -> None:
        self._is_fresh[block] = False
        if self._state.row_lists is not None:
            self._state.row_lists.write(block, rows)

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        for block, rows in enumerate(self._partitions):
            row_lists = self._state.row_lists
            # `sum_leaves` has replaced the row lists by the leaf of each row.
            leaf_of = rows.rows[0] if row_lists is None else row_lists.read(block)
            self._state.add_leaf_values(block, leaf_of, values)

    def margins(self) -> NDArray[np.float64]:
        return self._state.margins()

    def set_margins(self, margins: NDArray[np.float64]) -> None:
        self._state.set_margins(margins)

    def close(self) -> None:
        self._blocks.keep_in_memory(0)
        self._state.close()


def _bins_by_feature(block: BinBlock) -> Bins:
    """Return the columns of a block as kernels take them, also where there are none."""
    own = block.by_feature
    return Bins.of(own.reshape(0, 0) if own.ndim == 1 else own)
