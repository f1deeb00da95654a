"""The interface of rows to the histogram backend: sums that are integers and add up.

Rows have gradients and know the node of each row; the backend has histograms and nodes.
Rows may be in memory, on disk or on workers: they return sums of integers, maxima and
minima, which do not depend on how rows are split into parts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import (
    GradientSource,
    GrownTree,
    GrowthLimits,
    LeafFeatures,
    LeafSlopes,
    NoSplitGradients,
    RowLoss,
    RowSample,
)
from hornbeam.backends.round_grower import RoundBuffers, RoundCalls
from hornbeam.backends.tree_grower import TreeRoot
from hornbeam.binning.layout import DenseBins, HistogramLayout
from hornbeam.kernels.layout import SplitRules
from hornbeam.kernels.linear_leaves import NodeTerms
from hornbeam.kernels.node_constraints import NodeConstraints

__all__ = ["Rows", "SplitSearch"]


class SplitSearch(NamedTuple):
    """A search of splits in histograms that stay with the rows.

    Attributes
    ----------
    built
        (3, some) int64: the nodes whose histograms are built from rows, their slots,
        and the slots of the parents, which become those of the siblings by
        subtraction; -1: none.
    slots
        (nodes,) int64: of the nodes whose splits are searched.
    allowed
        (nodes, features) uint8: whether each node may be split by it; (0, 0): all may.
    every_row
        (2,) int64: begin and end of histogram bins that count each row once.
    scales
        (2,) float64: the value of one unit of gradient and hessian sums.
    rules
        Of splits.
    counts_rows
        Whether histograms have a third part, the numbers of rows.
    limits
        The constraints of the nodes; None: none.
    """

    built: NDArray[np.int64]
    slots: NDArray[np.int64]
    allowed: NDArray[np.uint8]
    every_row: NDArray[np.int64]
    scales: NDArray[np.float64]
    rules: SplitRules
    counts_rows: bool = False
    limits: NodeConstraints | None = None


class Rows(NoSplitGradients, ABC):
    """Binned rows, their gradients and margins, and the node of each row.

    A round calls `compute_gradients` or `set_gradients`, and `gradient_ranges`; then
    for each tree `begin_tree`, `widen` if packed sums are too coarse, any number of
    `build_histograms` and `apply_splits`, `sum_leaves` and `add_leaf_values`. A call
    that returns nothing may be deferred until the next call that returns something.

    Trees of one output have one gradient column. Multi-output trees have those of all
    outputs, or projections or columns set by the caller, which follow the outputs where
    both are returned.

    Attributes
    ----------
    n_rows
        Number of rows.
    n_outputs
        Number of margins of a row.
    n_features
        Number of features.
    layout
        Of the histograms; None: the rows are binned when a tree begins.
    multi_output_columns
        Number of gradient columns of multi-output trees; 0: trees have one output.
    lookahead
        Number of nodes that a leaf-wise grower should split at a time.
    histogram_bytes
        The most memory for the histograms of a training, unless their number is given.
    """

    n_rows: int
    n_outputs: int
    n_features: int
    layout: HistogramLayout | None
    multi_output_columns: int = 0
    lookahead: int = 1
    histogram_bytes: int = 1 << 30

    @abstractmethod
    def compute_gradients(self, objective: GradientSource) -> None:
        """Compute gradients from the objective at the current margins."""

    @abstractmethod
    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Set these gradients, both of shape (outputs, rows)."""

    def sketch_outputs(self, projection: NDArray[np.float64]) -> None:
        """Search splits by projections of the outputs: (columns, outputs)."""
        raise NotImplementedError  # only rows of multi-output trees have projections

    def bin_tree(self, output: int) -> HistogramLayout | None:
        """Bin the rows by the hessians of the next tree (`tree_method="approx"`).

        Returns the layout of the new bins; None: the bins are those of the last tree.
        """

    def begin_rounds(self, loss: RowLoss, buffers: RoundBuffers) -> RoundCalls | None:
        """Return the calls of rounds like the last one before their trees.

        `end_rounds` follows. None: rounds need Python between them.
        """
        return None

    def end_rounds(
        self, calls: RoundCalls, leaf_values: NDArray[np.float32] | None
    ) -> None:
        """Let the margins lack these leaf values, (outputs, leaves); None: none."""

    def expect(
        self, output: int, features: NDArray[np.uint64], sample: RowSample | None
    ) -> None:
        """Announce the tree that begins next, before `gradient_ranges` is called."""

    @abstractmethod
    def gradient_ranges(self) -> NDArray[np.float64]:
        """Return the largest |g|, largest |h| and least h of each column.

        They are (columns, 3): those of the outputs, followed by those of gradient
        columns that are not the outputs. The last is only a lower bound where the
        gradients are an objective's: 0, as its hessians are never negative. Parts are
        combined by maximum, maximum and minimum. Infinite or NaN where a gradient is.
        """

    @abstractmethod
    def count_size_classes(
        self, output: int, hessian_weight: float
    ) -> NDArray[np.int64]:
        """Return the number of rows in each size class, (SIZE_CLASSES,).

        For samples by gradient: the size is sqrt(g^2 + hessian_weight h^2), in
        multi-output trees with sums over the columns.
        """

    @abstractmethod
    def begin_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        scales: NDArray[np.float64],
        leaf_scales: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        """Put all rows, or a sample, into the root of a new tree for one output.

        Parameters
        ----------
        output
            Of the tree; 0 in multi-output trees.
        features
            The only ones that histograms are needed of, ascending.
        sample
            Of the rows; None: all.
        scales, leaf_scales
            (columns, 2): of packed histograms, and of the sums of leaves.

        Returns
        -------
        (columns, 2): the sums of |g| and h of all rows, sampled or not, in packed
        units.
        """

    @abstractmethod
    def widen(self, columns: Sequence[int] = (0,)) -> None:
        """Use wide sums in the histograms of these columns of the tree, too."""

    @abstractmethod
    def sizes(self, nodes: NDArray[np.intp]) -> NDArray[np.int64] | None:
        """Return the number of rows of each node, or None where that takes a pass."""

    @abstractmethod
    def build_histograms(
        self,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
    ) -> None:
        """Write the sums of each node's rows into the histogram in its slot.

        `histograms` are (columns, slots, 2, bins): gradients and hessians. Rows are
        counted in a third part, (1, slots, 3, bins), or in the hessians of one more
        column. Bins of features that the tree does not use stay as they are.
        """

    def finds_splits(self, features: NDArray[np.uint64], rules: SplitRules) -> bool:
        """Return whether `find_splits` takes the place of `build_histograms`.

        In a tree of one output, of these features and by these rules.
        """
        return False

    def find_splits(
        self, search: SplitSearch
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        """Build histograms, and return the best split of each node searched.

        The splits are (nodes,) `SPLIT_DTYPE`, and (nodes, words) the sets of categories
        that go right. Histograms stay in their slots until the tree ends.
        """
        raise NotImplementedError  # only devices search where the histograms are

    def grow(
        self, search: SplitSearch, limits: GrowthLimits, max_histograms: int
    ) -> GrownTree | None:
        """Return the tree that grows from the root; None: the caller has to grow it.

        Its nodes have no constraints, and may be split by each feature of the tree. The
        search names no nodes. `sum_leaves` of its leaves follows.
        """
        return None

    def root(self, *, counts_rows: bool) -> TreeRoot | None:
        """Return the root of the tree that has begun; None: rows are not in memory.

        `counts_rows` is whether histograms have a third part, the numbers of rows.
        """
        return None

    @abstractmethod
    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        """Move the rows of each node to its children ``left`` and ``left + 1``.

        The splits are (nodes,) `SPLIT_DTYPE`, the sets (nodes, words) of categories.
        """

    @abstractmethod
    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.int64]:
        """Return the sums of g and h, (columns, leaves, 2), in wide units.

        `nodes` are all nodes without children; rows of ``nodes[i]`` belong to leaf
        ``leaves[i]``. The columns are the output, or all outputs followed by the
        columns that were set by `set_split_gradients`.
        """

    def set_bins(self, bins: DenseBins) -> None:
        """Use these bins from the next tree on; only of rows in memory."""
        raise NotImplementedError

    def bin_weights(self, output: int) -> NDArray[np.float64]:
        """Return the hessians that rows are binned by, (rows,); only of rows in memory.

        Negative hessians of a custom objective weigh nothing. Those that are not finite
        are an error when the tree begins.
        """
        raise NotImplementedError

    def leaf_of(self) -> NDArray[np.uint32]:
        """Return the leaf of each row by the last `sum_leaves`; only of rows in memory.

        Rows that are not in the sample have the number of leaves.
        """
        raise NotImplementedError

    @abstractmethod
    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        """Add to the margins of every row, sampled or not, the value of its leaf.

        The leaves are those of the last `sum_leaves`. `values` are (leaves,), or
        (leaves, outputs) in multi-output trees.
        """

    def regress_leaves(
        self, features: LeafFeatures, linear_lambda: float
    ) -> LeafSlopes:
        """Return the regressions of the leaves; see `Backend`."""
        raise NotImplementedError

    def add_linear_leaves(
        self, data: NDArray[Any], values: NDArray[np.float32], leaves: NodeTerms
    ) -> None:
        """Add to the margins of every row what its leaf predicts; see `Backend`."""
        raise NotImplementedError

    @abstractmethod
    def margins(self) -> NDArray[np.float64]:
        """Return a copy of the margins, (outputs, rows)."""

    @abstractmethod
    def set_margins(self, margins: NDArray[np.float64]) -> None:
        """Set these margins, (outputs, rows)."""

    @abstractmethod
    def close(self) -> None:
        """Release memory and files."""
