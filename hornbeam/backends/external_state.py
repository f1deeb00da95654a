"""Margins, gradients and row lists of rows in external memory, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import GradientSource, RowSample
from hornbeam.backends.memory_plan import MemoryPlan
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.backends.row_state import RowScratch, RowState, gradient_type
from hornbeam.binning.layout import ExternalBins, RowSpill
from hornbeam.kernels.layout import SIZE_CLASSES
from hornbeam.kernels.team import Team

__all__ = ["BlockArrays", "ExternalState"]

Floats = NDArray[np.float64]


class BlockArrays:
    """An array for the rows of each block, in memory or on disk.

    Parameters
    ----------
    name
        Of the files.
    blocks
        In memory: the arrays. On disk: one buffer, as large as the largest.
    rows
        (blocks,): number of rows of each.
    spill
        The files; None: the arrays are in memory.
    """

    def __init__(
        self,
        name: str,
        blocks: list[NDArray[Any]],
        rows: list[int],
        spill: RowSpill | None,
    ) -> None:
        self._name, self._blocks, self._rows, self._spill = name, blocks, rows, spill

    def buffer(self, block: int) -> NDArray[Any]:
        """Return the block's array; if it is on disk the content is undefined."""
        if self._spill is None:
            return self._blocks[block]
        (buffer,) = self._blocks
        shape = (*buffer.shape[:-1], self._rows[block])
        return buffer.reshape(-1)[: int(np.prod(shape))].reshape(shape)

    def read(self, block: int) -> NDArray[Any]:
        """Return the block's array, valid until the next one is read."""
        array = self.buffer(block)
        if self._spill is not None:
            self._spill.load(self._name, block, array)
        return array

    def write(self, block: int, array: NDArray[Any]) -> None:
        """Store what has been written to the block's array."""
        if self._spill is not None:
            self._spill.save(self._name, block, array)


class ExternalState:
    """The state of the rows of each block, of which one block is worked on at a time.

    Parameters
    ----------
    bins
        Of all features and rows, on disk.
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    margins
        (outputs, rows) float64: the initial margins; copied.
    team
        The threads that work.
    budget
        What may be in memory.
    numbers
        As for `RowState`.
    multi_output_columns
        As for `Rows`.

    Attributes
    ----------
    bounds
        First row and end of each block.
    row_lists
        For `RowPartition`: the list of rows of each block, if it is on disk.
    """

    def __init__(
        self,
        bins: ExternalBins,
        targets: Floats,
        weights: Floats | None,
        margins: Floats,
        team: Team,
        budget: MemoryPlan,
        numbers: RowNumbers | None,
        multi_output_columns: int,
    ) -> None:
        self.n_outputs, self.n_rows = margins.shape
        self._is_multi_output = multi_output_columns > 0
        self._team, self._targets, self._weights = team, targets, weights
        blocks = bins.blocks
        self.bounds = [blocks.rows_of(i) for i in range(blocks.n_blocks)]
        self.max_rows = max((end - begin for begin, end in self.bounds), default=0)
        self._scratch = RowScratch(self.max_rows)
        every = RowNumbers(self.n_rows) if numbers is None else numbers
        self._numbers = [every.between(*bounds) for bounds in self.bounds]
        self._spill = bins.open_spill() if budget.on_disk else None
        self._on_disk = budget.on_disk
        self._kind = gradient_type(weights)
        shape = (self.n_outputs,)
        self._single = margins.dtype == np.float32
        margins = margins.astype(np.float64, copy=False)
        self._margins = self._arrays("margins", shape, margins.dtype, values=margins)
        self._gradients = self._arrays("gradients", shape, self._kind)
        self._hessians = self._arrays(
            "hessians", shape, self._kind, kept_as="gradients"
        )
        self.row_lists: BlockArrays | None = None
        if "row_lists" in self._on_disk:
            self.row_lists = self._arrays("row_lists", (), np.dtype(np.uint32))
        self._gradient_ranges = np.zeros((self.n_outputs, 3))
        #: Gradients and hessians of `set_split_gradients`.
        self._split: tuple[BlockArrays, BlockArrays] | None = None
        self._projection: Floats | None = None

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

        They are in memory or on disk, as those with the name `kept_as` are.
        """
        rows = [end - begin for begin, end in self.bounds]
        spilled = (kept_as or name) in self._on_disk
        if spilled:
            blocks = [np.empty((*shape, self.max_rows), dtype)]
        elif values is None:
            blocks = [np.empty((*shape, count), dtype) for count in rows]
        else:
            blocks = [
                np.ascontiguousarray(values[..., begin:end])
                for begin, end in self.bounds
            ]
        arrays = BlockArrays(name, blocks, rows, self._spill if spilled else None)
        if spilled and values is not None:
            for block, (begin, end) in enumerate(self.bounds):
                arrays.write(block, values[..., begin:end])
        return arrays

    def of(
        self,
        block: int,
        *,
        margins: Floats | None = None,
        with_gradients: bool = False,
    ) -> RowState:
        """Return the state of a block's rows, valid until the next one is requested."""
        begin, end = self.bounds[block]
        gradients, hessians = (
            arrays.read(block) if with_gradients else arrays.buffer(block)
            for arrays in (self._gradients, self._hessians)
        )
        state = RowState(
            np.ascontiguousarray(self._targets[:, begin:end]),
            None if self._weights is None else self._weights[begin:end],
            self._margins.buffer(block) if margins is None else margins,
            self._team,
            self._numbers[block],
            gradients=gradients,
            hessians=hessians,
            scratch=self._scratch,
            single=self._single,
        )
        if with_gradients and self._split is not None:
            state.set_split_gradients(*(own.read(block) for own in self._split))
        if with_gradients and self._projection is not None:
            state.sketch_outputs(self._projection)
        return state

    def all(self) -> Iterator[RowState]:
        """Yield the state of each block's rows, with gradients."""
        for block in range(len(self.bounds)):
            yield self.of(block, with_gradients=True)

    # The gradients of a round

    @contextmanager
    def _new_gradients(self, block: int) -> Iterator[RowState]:
        """Store the gradients written to the block's state, and their ranges."""
        state = self.of(block, margins=self._margins.read(block))
        yield state
        self._gradients.write(block, state.gradients)
        self._hessians.write(block, state.hessians)
        ranges = state.gradient_ranges()
        if block > 0:
            ranges = _merge_ranges([self._gradient_ranges, ranges])
        self._gradient_ranges, self._split = ranges, None

    def compute_gradients(self, objective: GradientSource) -> None:
        """Compute gradients from the objective at the current margins."""
        for block in range(len(self.bounds)):
            with self._new_gradients(block) as state:
                state.compute_gradients(objective)

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Set these gradients, both of shape (outputs, rows)."""
        for block, (begin, end) in enumerate(self.bounds):
            with self._new_gradients(block) as state:
                state.set_gradients(gradients[:, begin:end], hessians[:, begin:end])

    def set_split_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Search splits by these gradients, (columns, rows), not by the outputs'."""
        self._n_split_columns = len(gradients)
        self._split = (
            self._split_arrays("split gradients", gradients),
            self._split_arrays("split hessians", hessians),
        )

    def _split_arrays(self, name: str, values: NDArray[Any]) -> BlockArrays:
        with np.errstate(over="ignore"):
            values = values.astype(self._kind)
        return self._arrays(
            name, (len(values),), self._kind, values=values, kept_as="gradients"
        )

    def sketch_outputs(self, projection: Floats) -> None:
        """Search splits by projections of the outputs: (columns, outputs)."""
        self._projection, self._n_split_columns = projection, len(projection)

    def gradient_ranges(self) -> Floats:
        """Return `RowState.gradient_ranges` of all rows."""
        ranges = self._gradient_ranges
        if self._split is None and self._projection is None:
            return ranges.copy()
        split_ranges = np.zeros((self._n_split_columns, 3))
        for state in self.all():
            split_ranges = _merge_ranges([split_ranges, state.split_ranges()])
        if self._projection is not None:
            split_ranges[:, 2] = ranges[:, 2].min()  # no mean is below
        return np.concatenate([ranges, split_ranges])

    # The gradients of a tree

    def _output(self, output: int) -> int | None:
        """Return the output of a tree; None: all of them."""
        return None if self._is_multi_output else output

    def count_size_classes(
        self, output: int, hessian_weight: float
    ) -> NDArray[np.int64]:
        """Return the number of rows in each size class, (SIZE_CLASSES,)."""
        counts = np.zeros(SIZE_CLASSES, np.int64)
        for state in self.all():
            counts += state.count_size_classes(self._output(output), hessian_weight)
        return counts

    def set_tree(
        self, output: int, sample: RowSample | None, leaf_scales: Floats
    ) -> None:
        """Begin a tree; `of_tree` then returns its gradient columns."""
        self._tree = self._output(output), sample, leaf_scales
        self._tree_output = output

    def of_tree(self, block: int) -> RowState:
        """Return the state of a block's rows with the gradient columns of the tree."""
        state = self.of(block, with_gradients=True)
        state.set_tree(*self._tree)
        return state

    def leaf_of(self, block: int) -> NDArray[np.uint32]:
        """Return the leaf numbers of `of_tree`, a buffer that all blocks share."""
        begin, end = self.bounds[block]
        return self._scratch.leaf_of(end - begin)

    def draw_sample(self, block: int) -> NDArray[np.uint8] | None:
        """Return which rows of a block are in the sample; None: all are."""
        sample = self._tree[1]
        if sample is None:
            return None
        if sample.by_gradient:
            return self.of_tree(block).draw_sample()
        return self.of(block).draw_uniform(sample)

    # Margins

    def add_leaf_values(
        self, block: int, leaf_of: NDArray[np.uint32], values: NDArray[np.float32]
    ) -> None:
        """Add to the margins of a block's rows the values of their leaves."""
        state = self.of(block, margins=self._margins.read(block))
        state.leaf_of = leaf_of
        state.add_leaf_values(self._tree_output, values)
        self._margins.write(block, state.margins)

    def margins(self) -> Floats:
        """Return a copy of the margins, (outputs, rows)."""
        margins = np.empty((self.n_outputs, self.n_rows))
        for block, (begin, end) in enumerate(self.bounds):
            margins[:, begin:end] = self._margins.read(block)
        return margins

    def set_margins(self, margins: Floats) -> None:
        """Set these margins, (outputs, rows)."""
        for block, (begin, end) in enumerate(self.bounds):
            buffer = self._margins.buffer(block)
            buffer[:] = margins[:, begin:end]
            self._margins.write(block, buffer)

    def close(self) -> None:
        """Delete the files."""
        if self._spill is not None:
            self._spill.close()


def _merge_ranges(parts: list[Floats]) -> Floats:
    """Return the ranges of all rows from those of some of them each."""
    ranges = np.stack(parts)
    return np.hstack([ranges[..., :2].max(axis=0), ranges[..., 2:].min(axis=0)])
