"""What is asked of rows, wherever they live: sums that are integers and add up.

Rows know gradients and which node each row is in; whoever asks knows histograms and
trees. Rows may be in memory, on disk or spread over machines: what they answer are
sums of integers and extremes, which do not depend on the parts they came from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import GradientSource, NoSplitGradients, RowSample
from hornbeam.binning.layout import DenseBins

__all__ = ["Rows"]


class Rows(NoSplitGradients, ABC):
    """Rows of codes, their gradients and margins, and the nodes that they are in.

    A round calls `compute_gradients` or `set_gradients`, and `gradient_ranges`; then
    for each tree `begin_tree`, `widen` if packed sums are too coarse, any number of
    `build_histograms` and `apply_splits`, `sum_leaves` and `add_leaf_values`. A call
    that returns nothing may be deferred until the next call that returns something.

    Attributes
    ----------
    n_rows
        Rows of this part.
    n_outputs
        Margins of a row.
    lookahead
        How many splits a grower that goes best first should ask for at once.
    """

    n_rows: int
    n_outputs: int
    lookahead: int = 1

    @abstractmethod
    def compute_gradients(self, objective: GradientSource) -> None:
        """Take new gradients from the objective at the present margins."""

    @abstractmethod
    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        """Take these gradients, both of shape (outputs, rows)."""

    def sketch_outputs(self, mix: NDArray[np.float64]) -> None:
        """Make columns of these mixes of the outputs, (columns, outputs)."""
        raise NotImplementedError  # only rows for trees of all outputs are asked

    def expect(
        self, output: int, features: NDArray[np.uint64], sample: RowSample | None
    ) -> None:
        """Announce the tree that begins next, before `gradient_ranges` is called."""

    @abstractmethod
    def gradient_ranges(self) -> NDArray[np.float64]:
        """Return of each output the largest |g|, largest |h| and least h.

        They are (outputs, 3), and no more than a bound in the last column where the
        gradients are an objective's: 0, since its hessians are never negative. Over
        parts they are put together by the maximum, the maximum and the minimum.
        Infinite or NaN where a gradient is. Columns that are no outputs come after
        these.
        """

    @abstractmethod
    def count_size_classes(
        self, output: int, hessian_weight: float
    ) -> NDArray[np.int64]:
        """Return how many rows are in each class of sizes, (SIZE_CLASSES,).

        For samples by gradients: the size is sqrt(g^2 + hessian_weight h^2).
        """

    @abstractmethod
    def begin_tree(
        self,
        output: int,
        features: NDArray[np.uint64],
        sample: RowSample | None,
        steps: NDArray[np.float64],
        fine_steps: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        """Put all rows, or a sample, into the root of a new tree for one output.

        `features` are the only ones that are counted, ascending; `steps` and
        `fine_steps`, (2,), those of g and h in histograms and in leaves. Returns the
        sums of |g| and h, (2,), in coarse steps, of all rows, sampled or not.
        """

    @abstractmethod
    def widen(self, columns: Sequence[int] = (0,)) -> None:
        """Use the fine steps in the histograms of this tree, too.

        In trees of all outputs in those of these columns.
        """

    @abstractmethod
    def sizes(self, nodes: NDArray[np.intp]) -> NDArray[np.int64] | None:
        """Return the rows of each node, or None where that is not known for free."""

    @abstractmethod
    def build_histograms(
        self,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
    ) -> None:
        """Write the sums of each node's rows into the histogram in its slot.

        `histograms` are (slots, 2, cells): gradients and hessians of each cell; or
        (slots, 3, cells): how many rows, too. Cells of columns that no feature of the
        tree is in stay as they are.
        """

    @abstractmethod
    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        """Send the rows of each node to its children ``left`` and ``left + 1``.

        The splits are (nodes,) `SPLIT_DTYPE`, the sets (nodes, words) of categories.
        """

    @abstractmethod
    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.int64]:
        """Return the sums of g and h, (leaves, 2), in whole fine steps.

        `nodes` are all those without children; rows of ``nodes[i]`` count for leaf
        ``leaves[i]``. Of trees of all outputs they are (outputs, leaves, 2), and those
        of columns that were set come after these.
        """

    def set_bins(self, codes: DenseBins) -> None:
        """Have other codes of the same cells from the next tree on.

        Only rows in memory are asked.
        """
        raise NotImplementedError

    def hessians(self, output: int) -> NDArray[np.float64]:
        """Return those of one output, (rows,).

        Only rows in memory are asked.
        """
        raise NotImplementedError

    def leaf_of(self) -> NDArray[np.uint32]:
        """Return the leaf of each row by the last `sum_leaves`, or how many there are.

        Only rows in memory are asked.
        """
        raise NotImplementedError

    @abstractmethod
    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        """Add to the score of every row, sampled or not, the value of its leaf.

        The leaves are those of the last `sum_leaves`.
        """

    @abstractmethod
    def margins(self) -> NDArray[np.float64]:
        """Return a copy of the margins, (outputs, rows)."""

    @abstractmethod
    def set_margins(self, margins: NDArray[np.float64]) -> None:
        """Take these margins, (outputs, rows)."""

    @abstractmethod
    def close(self) -> None:
        """Give back memory and what else is held."""
