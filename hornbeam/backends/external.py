"""Rows whose codes are on disk, and come block after block through the same kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.histogram_builder import HistogramBuilder
from hornbeam.backends.interface import GradientSource, RowSample
from hornbeam.backends.memory_plan import MemoryPlan
from hornbeam.backends.row_partition import RowPartition
from hornbeam.backends.row_state import RowScratch, RowState, gradient_type
from hornbeam.backends.rows import Rows
from hornbeam.backends.sampled_rows import SampledRows
from hornbeam.binning.layout import BinBlock, ExternalBins, RowSpill
from hornbeam.kernels.layout import SIZE_CLASSES
from hornbeam.kernels.team import Team

__all__ = ["BlockArrays", "ExternalRows"]

Splits = tuple[
    NDArray[np.intp], NDArray[Any], NDArray[np.uint64], NDArray[np.intp]
]  # nodes, splits, sets, left children


class BlockArrays:
    """An array of each block's rows, in memory or set aside on disk.

    Parameters
    ----------
    name
        By which it is set aside.
    blocks
        In memory: the arrays. On disk: one, as large as the largest, to work in.
    rows
        (blocks,): rows of each.
    spill
        Where it is set aside; None: it is in memory.
    """

    def __init__(
        self,
        name: str,
        blocks: list[NDArray[Any]],
        rows: list[int],
        spill: RowSpill | None,
    ) -> None:
        self._name, self._blocks, self._rows, self._spill = name, blocks, rows, spill

    def room(self, block: int) -> NDArray[Any]:
        """Return the block's array, which may hold anything if it is on disk."""
        if self._spill is None:
            return self._blocks[block]
        (buffer,) = self._blocks
        shape = (*buffer.shape[:-1], self._rows[block])
        return buffer.reshape(-1)[: int(np.prod(shape))].reshape(shape)

    def read(self, block: int) -> NDArray[Any]:
        """Return the block's array, until the next is asked for."""
        array = self.room(block)
        if self._spill is not None:
            self._spill.load(self._name, block, array)
        return array

    def write(self, block: int, array: NDArray[Any]) -> None:
        """Keep what has been written to the block's array."""
        if self._spill is not None:
            self._spill.save(self._name, block, array)


class ExternalRows(Rows):
    """Codes on disk; the state of rows in memory, or there, too.

    A sweep over the blocks sends rows to the children of split nodes and counts them
    there at once, or marks them with their leaves: one for each level of a tree, and
    one at its end. Where the budget has room for a tree's sample, one sweep gathers it,
    and the levels are counted in memory.

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
    budget
        What may be in memory.
    spans
        As for `DenseRows`.
    """

    lookahead = 16

    def __init__(
        self,
        codes: ExternalBins,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[np.float64],
        team: Team,
        budget: MemoryPlan,
        spans: NDArray[np.int64] | None = None,
    ) -> None:
        self.n_outputs, self.n_rows = margins.shape
        self._team, self._pages = team, codes.blocks
        self._targets, self._weights = targets, weights
        self._ring_bytes = budget.ring_bytes
        self._keeps_packed = budget.keeps_packed
        self._held_rows = budget.held_rows
        if self._held_rows > 0:
            self.lookahead = 1  # counting a node more or less is no sweep
        self._pages.keep_in_memory(budget.kept_bytes)
        self._bounds = [codes.blocks.rows_of(i) for i in range(codes.blocks.n_blocks)]
        every = np.zeros((1, 2), np.int64) if spans is None else spans
        self._spans = [_spans_between(every, *bounds) for bounds in self._bounds]
        self._spill = codes.open_spill() if budget.on_disk else None
        self._on_disk = budget.on_disk
        self._init_arrays(margins)
        layout = self._layout = codes.layout
        self._features = layout.feature_table
        self._builder = HistogramBuilder(layout, codes.blocks.dtype, team)
        largest = max((end - begin for begin, end in self._bounds), default=0)
        self._scratch = RowScratch(largest)
        self._packed = [
            np.empty(end - begin if budget.keeps_packed else 0, np.int64)
            for begin, end in self._bounds
        ]
        self._nodes = self._node_rows(layout.n_set_words, largest)
        self._gradient_ranges = np.zeros((self.n_outputs, 3))

    def _init_arrays(self, margins: NDArray[np.float64]) -> None:
        kind = gradient_type(self._weights)
        shape = (self.n_outputs,)
        self._margins = self._arrays("margins", shape, margins.dtype, values=margins)
        self._gradients = self._arrays("gradients", shape, kind)
        self._hessians = self._arrays("hessians", shape, kind, kept_as="gradients")
        # In memory the nodes' rows have a list of their own for each block.
        self._places: BlockArrays | None = None
        if "places" in self._on_disk:
            self._places = self._arrays("places", (), np.dtype(np.uint32))

    def _node_rows(self, words: int, largest: int) -> list[RowPartition]:
        """Return where each block's rows are in nodes; they share room on disk."""
        every_row = np.arange(largest, dtype=np.uint32)
        shared = np.empty(2 * largest if self._places else 0, np.uint32)
        found = []
        for begin, end in self._bounds:
            count = end - begin
            sides = shared[: 2 * count] if self._places else np.empty(2 * count, "u4")
            own = every_row[:count], sides.reshape(2, count)
            found.append(RowPartition(self._features, words, *own, self._team))
        return found

    def _arrays(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        *,
        values: NDArray[Any] | None = None,
        kept_as: str | None = None,
    ) -> BlockArrays:
        """Return arrays of this shape for each row, with `values` if there are any.

        They are in memory or on disk, as those that are called `kept_as` are.
        """
        rows = [end - begin for begin, end in self._bounds]
        spilled = (kept_as or name) in self._on_disk
        if spilled:
            blocks = [np.empty((*shape, max(rows, default=0)), dtype)]
        elif values is None:
            blocks = [np.empty((*shape, count), dtype) for count in rows]
        else:
            blocks = [
                np.ascontiguousarray(values[..., begin:end])
                for begin, end in self._bounds
            ]
        arrays = BlockArrays(name, blocks, rows, self._spill if spilled else None)
        if spilled and values is not None:
            for block, (begin, end) in enumerate(self._bounds):
                arrays.write(block, values[..., begin:end])
        return arrays

    def _state(
        self,
        block: int,
        *,
        margins: NDArray[np.float64] | None = None,
        pairs: bool = False,
    ) -> RowState:
        """Return the state of a block's rows, with these margins and read gradients."""
        begin, end = self._bounds[block]
        gradients, hessians = self._gradients, self._hessians
        return RowState(
            np.ascontiguousarray(self._targets[:, begin:end]),
            None if self._weights is None else self._weights[begin:end],
            self._margins.room(block) if margins is None else margins,
            self._team,
            self._spans[block],
            gradients=gradients.read(block) if pairs else gradients.room(block),
            hessians=hessians.read(block) if pairs else hessians.room(block),
            scratch=self._scratch,
        )

    @contextmanager
    def _new_gradients(self, block: int) -> Iterator[RowState]:
        """Store the gradients written to the block's state, and their ranges."""
        state = self._state(block, margins=self._margins.read(block))
        yield state
        self._gradients.write(block, state.gradients)
        self._hessians.write(block, state.hessians)
        found = state.gradient_ranges()
        if block > 0:
            most = np.maximum(self._gradient_ranges, found)
            found[:, 2] = np.minimum(self._gradient_ranges[:, 2], found[:, 2])
            found[:, :2] = most[:, :2]
        self._gradient_ranges = found

    def compute_gradients(self, objective: GradientSource) -> None:
        for block in range(len(self._bounds)):
            with self._new_gradients(block) as state:
                state.compute_gradients(objective)

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        for block, (begin, end) in enumerate(self._bounds):
            with self._new_gradients(block) as state:
                state.set_gradients(gradients[:, begin:end], hessians[:, begin:end])

    def gradient_ranges(self) -> NDArray[np.float64]:
        return self._gradient_ranges.copy()

    def count_size_classes(
        self, output: int, hessian_weight: float
    ) -> NDArray[np.int64]:
        counts = np.zeros(SIZE_CLASSES, np.int64)
        for block in range(len(self._bounds)):
            counts += self._state(block, pairs=True).count_size_classes(
                output, hessian_weight
            )
        return counts

    def _put_in_root(
        self,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        steps: NDArray[np.float64],
    ) -> None:
        self._sample, self._steps, self._is_wide = sample, steps, False
        self._builder.choose(features)
        self._is_fresh = np.ones(len(self._bounds), bool)
        self._waiting: list[Splits] = []
        self._split_columns: set[int] = set()
        self._held: SampledRows | None = None

    def begin_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        steps: NDArray[np.float64],
        fine_steps: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        self._tree = output, sample, fine_steps
        self._put_in_root(features, sample, steps)
        taken: list[NDArray[np.uint32]] = []
        magnitudes = np.zeros(2, np.int64)
        for block in range(len(self._bounds)):
            state = self._state(block, pairs=True)
            state.set_tree(*self._tree)
            magnitudes += state.quantise(steps)
            if self._keeps_packed:
                self._packed[block][:] = state.packed
            drawn = state.draw() if self._held_rows > 0 else None
            if drawn is not None:
                taken.append(np.flatnonzero(drawn).astype(np.uint32))
        # A part of data spread over machines may have more of a sample by gradients
        # than its share: then the tree grows from the disk.
        if taken and sum(own.size for own in taken) <= self._held_rows:
            self._held = SampledRows(taken, self._layout, self._pages.dtype, self._team)
        return magnitudes

    def widen(self, columns: Sequence[int] = (0,)) -> None:
        self._is_wide = True

    def sizes(self, nodes: NDArray[np.intp]) -> None:
        return None

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        if self._held is not None:
            self._held.apply_splits(nodes, splits, sets, left)
        else:
            self._waiting.append((nodes, splits, sets, left))

    def build_histograms(
        self,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
    ) -> None:
        if self._held is not None:
            self._fill(self._held)
            self._held.build_histograms(self._builder, nodes, slots, histograms)
            return
        add = False
        for rows, block in self._sweep(by_row=True):
            moved = rows.move(_two_dimensional(block.by_feature))
            self._build_block(rows, block, nodes, slots, histograms, add)
            add = True
            if self._places is not None and moved.size > 0:
                rows.bring_home(moved)
                self._set_aside(block.number, rows.rows[0])

    def _build_block(
        self,
        rows: RowPartition,
        block: BinBlock,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
        add: bool,
    ) -> None:
        """Sum a block's rows into histograms, cleared first unless told to `add`."""
        integers = self._integers(block.number)
        self._builder.build(
            rows, nodes, slots, histograms, block.by_row, *integers, add=add
        )

    def _fill(self, held: SampledRows) -> None:
        """Gather the sample, unless that has been done."""
        if held.is_filled:
            return
        held.begin_filling(is_wide=self._is_wide)
        with self._pages.read_blocks([], True, self._ring_bytes) as blocks:
            for block in blocks:
                held.fill(block, *self._integers(block.number))

    def _integers(self, block: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the gradients of a block's rows, packed and wide; one is empty."""
        if self._keeps_packed and not self._is_wide:
            return self._packed[block], np.empty((2, 0), np.int64)
        state = self._state(block, pairs=True)
        state.set_tree(*self._tree)
        if self._is_wide:
            state.widen()
        else:
            state.quantise(self._steps)
        return state.packed, state.wide

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.int64]:
        if self._held is not None:
            return self._sum_from_root(self._held, nodes, leaves, n_leaves)
        sums: Any = 0
        for rows, block in self._sweep(by_row=False):
            by_feature = _two_dimensional(block.by_feature)
            leaf_of = self._scratch.leaf_of(rows.every_row.size)
            rows.mark_leaves(nodes, leaves, n_leaves, by_feature, leaf_of)
            sums = sums + self._sum_block(block.number, n_leaves)
            rows.mark_left_out(by_feature, leaf_of)
            # The list of rows is of no more use in this tree.
            if self._places is None:
                rows.rows[0] = leaf_of
            else:
                self._set_aside(block.number, leaf_of)
        return np.asarray(sums)

    def _sum_block(self, block: int, n_leaves: int) -> NDArray[np.int64]:
        """Return the sums of a block's rows over their leaves, which are marked."""
        state = self._state(block, pairs=True)
        state.set_tree(*self._tree)
        return state.sum_leaves(n_leaves)

    def _sum_from_root(
        self,
        held: SampledRows,
        nodes: NDArray[np.intp],
        leaves: NDArray[np.intp],
        n_leaves: int,
    ) -> NDArray[np.int64]:
        """Send all rows down the tree of the sample, and sum those in the sample."""
        sums = np.zeros((n_leaves, 2), np.int64)
        held.name_leaves(nodes, leaves)
        columns = sorted(held.split_columns)
        with self._pages.read_blocks(columns, False, self._ring_bytes) as blocks:
            for block in blocks:
                rows, taken = self._nodes[block.number], held.taken[block.number]
                leaf_of = rows.rows[0]
                by_feature = _two_dimensional(block.by_feature)
                held.route(rows.every_row, by_feature, leaf_of)
                state = self._state(block.number, pairs=True)
                state.set_tree(*self._tree)
                state.leaf_of[:] = n_leaves
                state.leaf_of[taken] = leaf_of[taken]
                sums += state.sum_leaves(n_leaves)
                self._set_aside(block.number, leaf_of)
        self._held = None
        return sums

    def _sweep(self, *, by_row: bool) -> Iterator[tuple[RowPartition, BinBlock]]:
        """Yield the rows of each block in their nodes, and the block.

        The splits that wait are entered there, and the columns by which they send rows
        are in the block. For leaves these are all of the tree's if it has a sample.
        """
        waiting = [np.concatenate(part) for part in zip(*self._waiting, strict=True)]
        self._waiting = []
        columns: set[int] = set()
        if waiting:
            columns = {*self._features["column"][waiting[1]["feature"]].tolist()}
            self._split_columns |= columns
        if not by_row and self._sample is not None:
            columns = self._split_columns
        asked = sorted(columns)
        with self._pages.read_blocks(asked, by_row, self._ring_bytes) as blocks:
            for block in blocks:
                rows = self._nodes[block.number]
                self._put_in_nodes(block.number, rows)
                if waiting:
                    rows.apply_splits(*waiting)
                yield rows, block

    def _put_in_nodes(self, block: int, rows: RowPartition) -> None:
        """Put the rows of a block in their nodes: in a new tree all into the root."""
        if self._is_fresh[block]:
            rows.begin_tree(self._drawn(block))
            self._set_aside(block, rows.rows[0])
        elif self._places is not None:
            rows.rows[0] = self._places.read(block)

    def _drawn(self, block: int) -> NDArray[np.uint8] | None:
        """Return which of a block's rows are in the sample; None: all are."""
        state = self._state(block, pairs=self._by_gradient())
        state.set_tree(*self._tree)
        return state.draw()

    def _by_gradient(self) -> bool:
        return self._sample is not None and self._sample.by_gradient

    def _set_aside(self, block: int, places: NDArray[np.uint32]) -> None:
        self._is_fresh[block] = False
        if self._places is not None:
            self._places.write(block, places)

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        for block in range(len(self._bounds)):
            state = self._state(block, margins=self._margins.read(block))
            places = self._places
            state.leaf_of = (
                self._nodes[block].rows[0] if places is None else places.read(block)
            )
            self._add_values(state, values)
            self._margins.write(block, state.margins)

    def _add_values(self, state: RowState, values: NDArray[np.float32]) -> None:
        state.output = self._tree[0]
        state.add_leaf_values(values)

    def margins(self) -> NDArray[np.float64]:
        margins = np.empty((self.n_outputs, self.n_rows))
        for block, (begin, end) in enumerate(self._bounds):
            margins[:, begin:end] = self._margins.read(block)
        return margins

    def set_margins(self, margins: NDArray[np.float64]) -> None:
        for block, (begin, end) in enumerate(self._bounds):
            room = self._margins.room(block)
            room[:] = margins[:, begin:end]
            self._margins.write(block, room)

    def close(self) -> None:
        self._pages.keep_in_memory(0)
        if self._spill is not None:
            self._spill.close()


def _two_dimensional(by_feature: NDArray[Any]) -> NDArray[Any]:
    """Return the columns of a block as kernels take them, also where there are none."""
    return by_feature.reshape(0, 0) if by_feature.ndim == 1 else by_feature


def _spans_between(spans: NDArray[np.int64], begin: int, end: int) -> NDArray[np.int64]:
    """Return the spans of the rows from `begin` to `end`, numbered from there."""
    first = max(int(np.searchsorted(spans[:, 0], begin, side="right")) - 1, 0)
    last = int(np.searchsorted(spans[:, 0], end))
    own = spans[first:last].copy()
    skipped = np.maximum(begin - own[:, 0], 0)
    own += skipped[:, None]
    own[:, 0] -= begin
    return own
