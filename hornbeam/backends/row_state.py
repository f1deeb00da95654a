"""Margins, gradients and leaves of rows in memory, and the gradient columns of a tree.

A tree is grown on gradient columns: one output's gradients; in multi-output trees those
of all outputs, random projections of them (a sketch), or columns set by a custom
objective. Each column is quantised by itself and has its own histograms.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import (
    GradientSource,
    LeafFeatures,
    LeafSlopes,
    RowLoss,
    RowSample,
)
from hornbeam.backends.leaf_regression import regress_leaves
from hornbeam.backends.round_grower import (
    OutputOfRound,
    RoundBuffers,
    RoundCalls,
)
from hornbeam.backends.row_loop import run_rows
from hornbeam.backends.row_numbers import RowNumbers
from hornbeam.kernels.gradient_writer import GradientWriter
from hornbeam.kernels.gradients import LossRows, find_largest, quantise, widen
from hornbeam.kernels.histogram import QuantisedGradients
from hornbeam.kernels.layout import SIZE_CLASSES, TASK_ROWS
from hornbeam.kernels.linear_leaves import NodeTerms, add_linear_leaves
from hornbeam.kernels.margins import add_leaf_values
from hornbeam.kernels.multi_output import mix_outputs
from hornbeam.kernels.partition import sum_leaves
from hornbeam.kernels.plan import CELLS_PER_ROW
from hornbeam.kernels.sampling import GradientSampling, weigh_rows
from hornbeam.kernels.team import Call, Team
from hornbeam.kernels.tree_tables import GradientColumns, LeafGradients

__all__ = [
    "NO_ROWS",
    "GradientColumn",
    "RowScratch",
    "RowState",
    "gradient_type",
]

#: Gradients and hessians: two arrays (columns, rows), or lists of (rows,) arrays.
Pair = tuple[Any, Any]

Values = NDArray[np.float32]

#: A list of no rows.
NO_ROWS = np.empty(0, np.uint32)
_NO_PACKED, _NO_WIDE = np.empty(0, np.int64), np.empty((2, 0), np.int64)
_NO_SINGLES, _NO_DOUBLES = np.empty((0, 0), np.float32), np.empty((0, 0))


def gradient_type(weights: NDArray[np.float64] | None) -> np.dtype[Any]:
    """Return the type of gradients: float32 times a weight is not a float32."""
    return np.dtype(np.float32 if weights is None else np.float64)


class RowScratch:
    """Buffers for quantised gradients, scaled gradients and leaf numbers of rows.

    Parameters
    ----------
    rows
        The largest number of rows at a time.
    """

    def __init__(self, rows: int) -> None:
        self._most_rows = rows
        self._packed = np.empty((1, rows), np.int64)
        self._wide = np.empty((1, 2, 0), np.int64)
        self._scaled = np.empty(0)
        self._leaf_of = np.empty(rows, np.uint32)

    def packed(self, columns: int, rows: int) -> NDArray[np.int64]:
        """Return (columns, rows) int64 for packed pairs."""
        self._packed = self._shaped(self._packed, (columns, rows))
        return self._packed

    def wide(self, columns: int, rows: int) -> NDArray[np.int64]:
        """Return (columns, 2, rows) int64 for wide pairs, allocated on first use."""
        self._wide = self._shaped(self._wide, (columns, 2, rows))
        return self._wide

    def _shaped(
        self, memory: NDArray[np.int64], shape: tuple[int, ...]
    ) -> NDArray[np.int64]:
        """Return an array of this shape in the memory of another; that one if it fits.

        The last axis is that of rows, of which there may be most in new memory.
        """
        if memory.shape == shape:
            return memory
        whole = memory if memory.base is None else memory.base
        size = math.prod(shape)
        if whole.size < size:
            whole = np.empty(math.prod(shape[:-1]) * self._most_rows, np.int64)
        return whole.reshape(-1)[:size].reshape(shape)

    def scaled(self, columns: int, rows: int) -> NDArray[np.float64]:
        """Return (2, columns, rows) float64 for the gradients of a sample."""
        size = 2 * columns * rows
        if self._scaled.size < size:
            self._scaled = np.empty(2 * columns * self._most_rows)
        return self._scaled[:size].reshape(2, columns, rows)

    def leaf_of(self, rows: int) -> NDArray[np.uint32]:
        """Return (rows,) uint32 for the number of each row's leaf."""
        return self._leaf_of[:rows]


class GradientColumn:
    """One column of gradients that trees are grown on or whose leaves are summed.

    Parameters
    ----------
    gradients, hessians
        (rows,) float32 or float64; in a sample by gradient already divided by each
        row's probability.
    team
        The threads that work.
    scratch
        For the quantised values of `places` columns.
    place, places
        Of the column; columns may share a place if they are used in turn.

    Attributes
    ----------
    pair
        The gradients and hessians.
    wide_scales
        (2,) float64: scales of wide sums, set for each tree.
    magnitudes
        (tasks, 2) int64: sums of |g| and h in packed units.
    quantised
        The quantised values: (rows,) packed pairs and (2, 0), or (0,) and (2, rows)
        wide ones. The same object as long as they are in the same memory.
    """

    wide_scales: NDArray[np.float64]
    quantised: QuantisedGradients

    def __init__(
        self,
        gradients: NDArray[Any],
        hessians: NDArray[Any],
        team: Team,
        scratch: RowScratch,
        place: int = 0,
        places: int = 1,
    ) -> None:
        self.pair = gradients, hessians
        self._n_rows = gradients.size
        self._team, self._scratch = team, scratch
        self._threads = team.threads_for(CELLS_PER_ROW * self._n_rows)
        self._place, self._places = place, places
        self.magnitudes = np.empty((-(-self._n_rows // TASK_ROWS), 2), np.int64)
        #: What was quantised last, packed and wide, and the memory that it is in.
        self._packed = self._wide = QuantisedGradients(_NO_PACKED, _NO_WIDE)
        self._memory: list[NDArray[np.int64]] = [_NO_PACKED, _NO_WIDE]

    @property
    def packed(self) -> NDArray[np.int64]:
        """(rows,): the packed pairs; (0,) if the values are wide."""
        return self.quantised.packed

    @property
    def wide(self) -> NDArray[np.int64]:
        """(2, rows): the wide pairs; (2, 0) if the values are packed."""
        return self.quantised.wide

    @property
    def _per_unit(self) -> NDArray[np.float64]:
        return 1.0 / self.wide_scales

    def quantise(
        self, scales: NDArray[np.float64], numbers: NDArray[np.uint32] = NO_ROWS
    ) -> NDArray[np.int64]:
        """Quantise to packed pairs; return the sums of |g| and h in units, (2,).

        In the same pass 0, 1, 2, ... are written to the `numbers`, if there are any.
        """
        memory = self._scratch.packed(self._places, self._n_rows)
        if memory is not self._memory[0]:
            self._memory[0] = memory
            self._packed = QuantisedGradients(memory[self._place], _NO_WIDE)
        self.quantised = self._packed
        self._team.run(*self.call(scales, numbers))
        found = self.magnitudes
        return found[0] if len(found) == 1 else np.add.reduce(found)

    def call(self, units: NDArray[np.float64], numbers: NDArray[np.uint32]) -> Call:
        """Return the call that quantises to packed pairs as before; see `quantise`."""
        packed = self._packed.packed
        of_rows = *self.pair, units, packed, self.magnitudes, numbers
        return quantise, self._threads, *of_rows

    def widen(self) -> None:
        """Quantise to wide pairs."""
        memory = self._scratch.wide(self._places, self._n_rows)
        if memory is not self._memory[1]:
            self._memory[1] = memory
            self._wide = QuantisedGradients(_NO_PACKED, memory[self._place])
        self.quantised = self._wide
        arguments = *self.pair, *self._per_unit, self.quantised.wide
        self._team.run(widen, self._threads, *arguments)

    def sum_leaves(
        self, leaf_of: NDArray[np.uint32], n_leaves: int
    ) -> NDArray[np.int64]:
        """Return the sums of g and h of each leaf, (leaves, 2), in wide units.

        Rows with the leaf number `n_leaves` are left out.
        """
        sums = np.zeros((self._threads, n_leaves + 1, 2), np.int64)
        arguments = leaf_of, *self.pair, *self._per_unit, sums
        self._team.run(sum_leaves, self._threads, *arguments)
        return np.add.reduce(sums)[:-1]

    def regress_leaves(
        self, leaf_of: NDArray[np.uint32], features: LeafFeatures, linear_lambda: float
    ) -> LeafSlopes:
        """Return the slopes of each leaf; see `regress_leaves`."""
        g, h = self.pair
        units = self._per_unit
        return regress_leaves(self._team, leaf_of, g, h, units, features, linear_lambda)


class TreeGradients(NamedTuple):
    """The gradients of a tree, which stay the same arrays from round to round.

    Attributes
    ----------
    pair, columns
        Those that leaves are summed of.
    leaves
        The same for kernels, and the array for the leaf of each row.
    """

    pair: Pair
    columns: list[GradientColumn]
    leaves: tuple[LeafGradients, NDArray[np.uint32]]


def _leaf_gradients(pair: Pair) -> LeafGradients:
    gradients, hessians = pair
    if gradients.dtype == np.float32:
        return LeafGradients(gradients, hessians, _NO_DOUBLES, _NO_DOUBLES)
    return LeafGradients(_NO_SINGLES, _NO_SINGLES, gradients, hessians)


class RowState:
    """Targets, margins and gradients of rows.

    Parameters
    ----------
    targets, weights
        (columns, rows) and (rows,) float64; weights may be None.
    margins
        (outputs, rows): the initial margins; those of float64 are kept and updated in
        place. Of float32, sums of margins are rounded to float32.
    team
        The threads that work.
    numbers
        Of the rows, which random draws depend on; None: they start at 0.
    gradients, hessians
        (outputs, rows), float64 with weights and else float32, to be written; None:
        new arrays.
    scratch
        One in which all columns have one place, and that other states use in turn;
        None: a new one, in which each column has a place.
    single
        Whether sums of margins of float64, too, are rounded to float32.

    Attributes
    ----------
    gradients, hessians
        Of the outputs, (outputs, rows).
    columns
        Of the tree: those that splits are searched by.
    leaf_columns
        Of the tree: those that leaves are summed of. In multi-output trees these are
        the outputs, followed by the columns of `set_split_gradients`.
    leaf_of
        (rows,) uint32: number of each row's leaf in the tree.
    leaves
        The gradients that leaves are summed of, for kernels, and `leaf_of`.
    """

    columns: list[GradientColumn]
    leaf_columns: list[GradientColumn]
    leaves: tuple[LeafGradients, NDArray[np.uint32]]

    def __init__(
        self,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        margins: NDArray[Any],
        team: Team,
        numbers: RowNumbers | None = None,
        *,
        gradients: NDArray[Any] | None = None,
        hessians: NDArray[Any] | None = None,
        scratch: RowScratch | None = None,
        single: bool = False,
    ) -> None:
        self._team = team
        #: The last tree's leaf values may still have to be added to the margins.
        single = single or margins.dtype == np.float32
        margins = margins.astype(np.float64, copy=False)
        self._rows = LossRows.of(margins, targets, weights, single)
        self._complete = self._rows
        self.n_outputs, self.n_rows = margins.shape
        self._numbers = RowNumbers(self.n_rows) if numbers is None else numbers
        kind = gradient_type(weights)
        self.gradients, self.hessians = (
            np.empty(margins.shape, kind) if own is None else own
            for own in (gradients, hessians)
        )
        #: At least 0 for the gradients of an objective.
        self._least_hessians = np.zeros(self.n_outputs)
        self._shares_scratch = scratch is not None
        self._scratch = RowScratch(self.n_rows) if scratch is None else scratch
        self.leaf_of = self._scratch.leaf_of(self.n_rows)
        self._writer: GradientWriter | None = None
        self._every_output: Pair = self.gradients, self.hessians
        #: The gradients of each output; of None: of all outputs, followed by the
        #: columns of `set_split_gradients`.
        self._pairs: dict[int | None, Pair] = {
            k: (self.gradients[k : k + 1], self.hessians[k : k + 1])
            for k in range(self.n_outputs)
        }
        self._pairs[None] = self._every_output
        #: The gradients of the last tree of each output; of None: of all outputs.
        self._trees: dict[int | None, TreeGradients] = {}
        #: The largest |g| and |h| of each output; None: not known yet.
        self._largest: NDArray[np.float64] | None = None
        self._projection: NDArray[np.float64] | None = None
        #: The projected gradients, if they are those of all rows without sampling.
        self._sketch: Pair | None = None

    # The gradients of a round

    def compute_gradients(self, objective: GradientSource) -> None:
        """Compute gradients from the objective at the current margins."""
        if self._writer is None:
            self._writer = GradientWriter(self._team, self.gradients, self.hessians)
        self._largest = objective.write_gradients(self._rows, self._writer)
        self._rows = self._complete
        self._least_hessians[:] = 0.0
        self._pairs[None], self._sketch = self._every_output, None

    def begin_rounds(
        self, loss: RowLoss, buffers: RoundBuffers, numbers: NDArray[np.uint32]
    ) -> RoundCalls | None:
        """Return the calls of rounds like the last one, which `end_rounds` follows.

        They write 0, 1, 2, ... to the `numbers`. None: the last round was not one of a
        packed tree for each output.
        """
        trees = [self._trees[k] for k in range(self.n_outputs) if k in self._trees]
        are_packed = [tree.columns[0].packed.size > 0 for tree in trees]
        if self._writer is None or sum(are_packed) < self.n_outputs:
            return None
        rows, values, calls = self._rows, buffers.leaf_values, []
        if len(trees) == 1:
            # The kernel of the loss adds the leaf values that the margins lack.
            if rows is self._complete:
                return None
            leaf_of = self.leaf_of[None]
            values[:, : rows.leaf_values.shape[1]] = rows.leaf_values
            rows = rows._replace(leaf_values=values)
        else:
            leaf_of = np.zeros((len(trees), self.n_rows), np.uint32)
            threads = self._team.threads_for(CELLS_PER_ROW * self.n_rows)
            calls = [
                (add_leaf_values, threads, *own, rows.single)
                for own in zip(leaf_of, values, rows.margins, strict=True)
            ]
        calls.append(self._writer.call(loss.kernel, rows, loss.kernel_numbers))
        return RoundCalls(
            calls,
            self._writer.new,
            [
                OutputOfRound(
                    tree.columns[0].call(buffers.units[0], numbers),
                    tree.columns[0].magnitudes,
                    tree.columns[0].quantised,
                    tree.leaves[0],
                    own,
                )
                for tree, own in zip(trees, leaf_of, strict=True)
            ],
        )

    def end_rounds(self, calls: RoundCalls, leaf_values: Values | None) -> None:
        """Let the margins lack these leaf values, (outputs, leaves); None: none."""
        if leaf_values is None:
            self._rows = self._complete
        elif len(calls.outputs) == 1:
            self._rows = self._complete._replace(
                leaf_of=self.leaf_of, leaf_values=leaf_values
            )
        else:
            for output, own, margins in zip(
                calls.outputs, leaf_values, self._complete.margins, strict=True
            ):
                self._add(output.leaf_of, own, margins)

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Set these gradients, both of shape (outputs, rows)."""
        with np.errstate(over="ignore"):
            self.gradients[...] = gradients
            self.hessians[...] = hessians
        self._largest = None
        self._least_hessians = self.hessians.min(axis=1, initial=0.0).astype(float)
        self._pairs[None], self._sketch = self._every_output, None

    def set_split_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Search splits by these gradients, (columns, rows), instead of the outputs'.

        They apply until the outputs' gradients change.
        """
        kind = self.gradients.dtype
        with np.errstate(over="ignore"):
            self._pairs[None] = (
                np.concatenate([self.gradients, gradients.astype(kind)]),
                np.concatenate([self.hessians, hessians.astype(kind)]),
            )

    def sketch_outputs(self, projection: NDArray[np.float64]) -> None:
        """Search splits by projections of the outputs: (columns, outputs)."""
        self._projection, self._sketch = projection, None

    def _project(self, pair: Pair) -> Pair:
        """Return projected gradients, and the mean hessian for each of them."""
        assert self._projection is not None
        shape = len(self._projection), self.n_rows
        projected, means = np.empty(shape), np.empty(self.n_rows)
        run_rows(
            self._team,
            mix_outputs,
            self._projection.size * self.n_rows,
            self._projection,
            *pair,
            projected,
            means,
        )
        return projected, [means] * len(projected)

    def gradient_ranges(self) -> NDArray[np.float64]:
        """Return largest |g|, largest |h| and least h of each column, (columns, 3).

        The columns are the outputs and after them those that splits are searched by
        if these are others.
        """
        if self._largest is None:
            self._largest = self._find_largest((self.gradients, self.hessians))
        ranges = _ranges(self._largest, self._least_hessians)
        if self._projection is None and self._pairs[None][0] is self.gradients:
            return ranges
        split_ranges = self.split_ranges()
        if self._projection is not None:
            split_ranges[:, 2] = ranges[:, 2].min()  # no mean is below
        return np.concatenate([ranges, split_ranges])

    def split_ranges(self) -> NDArray[np.float64]:
        """Return the ranges of split columns other than the outputs, (columns, 3).

        The least hessians of projections are not computed.
        """
        if self._projection is not None:
            if self._sketch is None:
                self._sketch = self._project(self._pairs[None])
            return _ranges(self._find_largest(self._sketch), 0.0)
        gradients, hessians = (own[self.n_outputs :] for own in self._pairs[None])
        largest = self._find_largest((gradients, hessians))
        return _ranges(largest, hessians.min(axis=1, initial=0.0))

    def _find_largest(self, pair: Pair) -> NDArray[np.float64]:
        """Return the largest |g| and |h| of each column, (columns, 2)."""
        gradients, hessians = pair
        threads = self._team.threads_for(CELLS_PER_ROW * self.n_rows)
        bits = np.int32 if gradients.itemsize == 4 else np.int64
        largest = np.zeros((len(gradients), threads, 2), bits)
        for own, *columns in zip(largest, gradients, hessians, strict=True):
            self._team.run(find_largest, threads, *columns, own)
        return largest.max(axis=1).view(gradients.dtype).astype(np.float64)

    # The rows and gradients of a tree

    def count_size_classes(
        self, output: int | None, hessian_weight: float
    ) -> NDArray[np.int64]:
        """Return the number of rows in each size class, (SIZE_CLASSES,).

        The size of a row is that of the output's gradient; None: of all columns.
        """
        threads = self._team.threads_for(CELLS_PER_ROW * self.n_rows)
        counts = np.zeros((threads, SIZE_CLASSES), np.int64)
        pair = self._pairs[output]
        self._team.run(weigh_rows, threads, *pair, hessian_weight, counts)
        return counts.sum(axis=0)

    def bin_weights(self, output: int | None) -> NDArray[np.float64]:
        """Return the hessians that rows are binned by for a tree, (rows,) float64.

        In multi-output trees they are sums over the columns that splits are searched
        by. Those that are negative or not finite become 0.
        """
        hessians = self._pairs[output][1]
        if output is None and len(hessians) > self.n_outputs:
            hessians = hessians[self.n_outputs :]
        weights: NDArray[np.float64] = hessians.sum(axis=0, dtype=np.float64)
        weights[~(np.isfinite(weights) & (weights > 0.0))] = 0.0
        return weights

    def set_tree(
        self,
        output: int | None,
        sample: RowSample | None,
        wide_scales: NDArray[np.float64],
    ) -> None:
        """Set the gradient columns of a tree for one output; None: for all outputs.

        `wide_scales`, (columns, 2), are those of the columns that leaves are summed
        of, followed by those of projected gradients.
        """
        self._complete_margins()  # the tree has other leaves
        self._sample = sample
        self._taken: NDArray[np.uint8] | None = None
        pair = self._pairs[output]
        is_scaled = sample is not None and sample.by_gradient
        if is_scaled:
            assert sample is not None
            pair = self._draw_by_size(pair, sample)
        n_leaf = len(pair[0])
        first = self.n_outputs if n_leaf > self.n_outputs else 0
        tree = self._trees.get(output)
        if tree is None or tree.pair is not pair:
            columns = self._columns_of(pair, first)
            tree = TreeGradients(pair, columns, (_leaf_gradients(pair), self.leaf_of))
            self._trees[output] = tree
        self.leaf_columns, self.leaves = tree.columns, tree.leaves
        for column, scales in zip(tree.columns, wide_scales, strict=False):
            column.wide_scales = scales
        self.columns = self.leaf_columns[first:] if first > 0 else self.leaf_columns
        if self._projection is None or output is not None or first > 0:
            return
        sketch = None if is_scaled else self._sketch
        if sketch is None:
            sketch = self._project(pair)
        self.columns = self._columns_of(sketch, 0)
        for column, scales in zip(self.columns, wide_scales[n_leaf:], strict=True):
            column.wide_scales = scales

    def _columns_of(self, pair: Pair, first: int) -> list[GradientColumn]:
        """Return these columns; those from the `first` on may be quantised."""
        gradients, hessians = pair
        places = 1 if self._shares_scratch else len(gradients) - first
        parts = self._team, self._scratch
        return [
            GradientColumn(own, hessians[k], *parts, max(k - first, 0) % places, places)
            for k, own in enumerate(gradients)
        ]

    def quantised_columns(self) -> GradientColumns:
        """Return the quantised gradients that splits are searched by."""
        count, columns = len(self.columns), self.columns
        is_wide = np.array([own.packed.size == 0 for own in columns], np.uint8)
        rows = self.n_rows if is_wide.any() else 0
        packed = self._scratch.packed(count, self.n_rows)
        return GradientColumns(packed, self._scratch.wide(count, rows), is_wide)

    def draw_sample(self) -> NDArray[np.uint8] | None:
        """Return which rows are in the sample of the tree; None: all rows are."""
        sample = self._sample
        if sample is None or sample.by_gradient:
            return self._taken
        return self.draw_uniform(sample)

    def draw_uniform(self, sample: RowSample) -> NDArray[np.uint8]:
        """Return which rows are in this sample, which does not depend on gradients."""
        return self._numbers.draw(self._team, sample.limit, sample.key)

    def _draw_by_size(self, pair: Pair, sample: RowSample) -> Pair:
        """Draw rows by their gradients; return these divided by the probabilities."""
        scaled = self._scratch.scaled(len(pair[0]), self.n_rows)
        probability = GradientSampling(
            float(sample.hessian_weight), float(sample.threshold), float(sample.rest)
        )
        self._taken = self._numbers.draw_by_size(
            self._team, *pair, probability, sample.key, scaled
        )
        return scaled[0], scaled[1]

    # Leaves

    def sum_leaves(self, n_leaves: int) -> NDArray[np.int64]:
        """Return the sums of g and h of the leaves, (leaf columns, leaves, 2).

        They are in wide units. Rows with the leaf number `n_leaves` are left out.
        """
        found = [own.sum_leaves(self.leaf_of, n_leaves) for own in self.leaf_columns]
        return found[0][None] if len(found) == 1 else np.stack(found)

    def add_leaf_values(self, output: int, values: NDArray[np.float32]) -> None:
        """Add to each row's margin the value of its leaf.

        `values` are (leaves,) for this output, or (leaves, outputs) for all.

        If these are all outputs, the values are added in the pass that computes the
        next gradients, or when the margins are read before that.
        """
        self._complete_margins()
        if values.ndim == 2 or self.n_outputs == 1:
            values = np.ascontiguousarray(values.T).reshape(self.n_outputs, -1)
            margins, targets, weights, *_, single = self._complete
            rows = margins, targets, weights, self.leaf_of, values, single
            self._rows = LossRows(*rows)
        else:
            self._add(self.leaf_of, values, self._rows.margins[output])

    def regress_leaves(
        self, features: LeafFeatures, linear_lambda: float
    ) -> LeafSlopes:
        """Return the slopes of each leaf of the tree, which is of one output."""
        return self.leaf_columns[0].regress_leaves(
            self.leaf_of, features, linear_lambda
        )

    def add_linear_leaves(
        self,
        output: int,
        data: NDArray[Any],
        values: NDArray[np.float32],
        leaves: NodeTerms,
    ) -> None:
        """Add to each row's margin what its leaf predicts: its value and its terms."""
        margins, single = self.margins[output], self._complete.single
        rows = data, self.leaf_of, values, leaves, margins, single
        run_rows(self._team, add_linear_leaves, self.n_rows, *rows)

    @property
    def rows(self) -> LossRows:
        """The rows, with the leaf values of all trees."""
        self._complete_margins()
        return self._complete

    @property
    def margins(self) -> NDArray[np.float64]:
        """The margins, (outputs, rows), with the leaf values of all trees."""
        self._complete_margins()
        return self._rows.margins

    def _complete_margins(self) -> None:
        """Add the leaf values that the margins lack."""
        rows, self._rows = self._rows, self._complete
        if rows is not self._complete:
            for values, margins in zip(rows.leaf_values, rows.margins, strict=True):
                self._add(rows.leaf_of, values, margins)

    def _add(
        self,
        leaf_of: NDArray[np.uint32],
        values: NDArray[np.float32],
        margins: NDArray[np.float64],
    ) -> None:
        single = self._complete.single
        rows = leaf_of, values, margins, single
        run_rows(self._team, add_leaf_values, self.n_rows, *rows)


def _ranges(largest: NDArray[np.float64], least: Any) -> NDArray[np.float64]:
    """Return the largest |g| and |h| and the least h of each column, (columns, 3)."""
    ranges = np.empty((len(largest), 3))
    ranges[:, :2] = largest
    ranges[:, 2] = least
    return ranges
