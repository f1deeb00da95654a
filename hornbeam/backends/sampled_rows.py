"""The rows of a tree's sample, together in memory while their blocks are on disk."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.histogram_builder import HistogramBuilder
from hornbeam.backends.row_partition import RowPartition
from hornbeam.binning.layout import BinBlock, HistogramLayout
from hornbeam.kernels.team import Team

__all__ = ["SampledRows"]


class SampledRows:
    """Codes and gradients of the rows that grow one tree, and their nodes.

    They are gathered in one sweep over the blocks. From then on the tree grows as in
    memory, and its table of nodes sends the rows of any block to their leaves.

    Parameters
    ----------
    taken
        For each block the rows that are in the sample, uint32, ascending.
    layout
        What is in the columns.
    code_type
        uint8 or uint16.
    team
        The threads that work.

    Attributes
    ----------
    taken
        As given.
    is_filled
        Whether the rows have been gathered.
    split_columns
        Those that the splits of the tree look at.
    """

    def __init__(
        self,
        taken: list[NDArray[np.uint32]],
        layout: HistogramLayout,
        code_type: np.dtype[Any],
        team: Team,
    ) -> None:
        self.taken = taken
        self.is_filled = False
        self.split_columns: set[int] = set()
        self._layout, self._code_type = layout, code_type
        self._ends = np.cumsum([own.size for own in taken])
        rows = int(self._ends[-1]) if taken else 0
        every_row = np.arange(rows, dtype=np.uint32)
        both_sides = np.empty((2, rows), np.uint32)
        self._features = layout.feature_table
        self._nodes = RowPartition(
            self._features, layout.n_set_words, every_row, both_sides, team
        )
        self._nodes.begin_tree(None)

    def begin_filling(self, *, is_wide: bool) -> None:
        """Make room for the codes, and for gradients as fine or coarse integers."""
        rows, columns = self._nodes.rows.shape[1], self._layout.n_columns
        self._by_row = np.empty((rows, columns), self._code_type)
        self._by_feature = np.empty((columns, rows), self._code_type)
        self._packed = np.empty(0 if is_wide else rows, np.int64)
        self._wide = np.empty((2, rows if is_wide else 0), np.int64)
        self.is_filled = True

    def fill(
        self, block: BinBlock, packed: NDArray[np.int64], wide: NDArray[np.int64]
    ) -> None:
        """Take the block's rows that are in the sample.

        `packed` and `wide` are the gradients of all of its rows, as in `RowState`.
        """
        taken = self.taken[block.number]
        end = int(self._ends[block.number])
        own = slice(end - taken.size, end)
        by_row = block.by_row.reshape(-1, self._layout.n_columns)
        # Of the ways to say what becomes of bad places, "raise" makes a copy.
        np.take(by_row, taken, axis=0, out=self._by_row[own], mode="clip")
        self._by_feature[:, own] = self._by_row[own].T
        if packed.size > 0:
            self._packed[own] = packed[taken]
        else:
            self._wide[:, own] = wide[:, taken]

    def build_histograms(
        self,
        builder: HistogramBuilder,
        nodes: NDArray[np.intp],
        slots: NDArray[np.intp],
        histograms: NDArray[np.int64],
    ) -> None:
        """Write the sums of each node's rows into the histogram in its slot."""
        self._nodes.move(self._by_feature)
        by_row = self._by_row.reshape(-1)
        builder.build(
            self._nodes, nodes, slots, histograms, by_row, self._packed, self._wide
        )

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        """Enter the splits; the rows are sent to the children when they are counted."""
        self._nodes.apply_splits(nodes, splits, sets, left)
        columns = self._features["column"][splits["feature"]]
        self.split_columns.update(columns.tolist())

    def name_leaves(self, nodes: NDArray[np.intp], leaves: NDArray[np.intp]) -> None:
        """Give the nodes without children the numbers of their leaves."""
        self._nodes.name_leaves(nodes, leaves)

    def route(
        self,
        rows: NDArray[np.uint32],
        by_feature: NDArray[Any],
        leaf_of: NDArray[np.uint32],
    ) -> None:
        """Write the leaves of these rows of a block, sampled or not, to `leaf_of`."""
        self._nodes.route(rows, by_feature, leaf_of)
