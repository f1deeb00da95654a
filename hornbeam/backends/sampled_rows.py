"""The sample of one tree in memory, while all rows are in external memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.dense import HistogramBuilder
from hornbeam.backends.row_partition import RowPartition
from hornbeam.binning.layout import BinBlock, HistogramLayout
from hornbeam.kernels.bins import Bins
from hornbeam.kernels.team import Team

__all__ = ["SampledRows"]


class SampledRows:
    """Bins, quantised gradients and nodes of the sampled rows of one tree.

    They are gathered in one pass over the blocks. Then the tree is grown in memory, and
    its table of nodes routes the rows of any block to their leaves.

    Parameters
    ----------
    taken
        The sampled rows of each block, uint32, ascending.
    layout
        Of the bins.
    bin_type
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
        Columns of the features that the tree splits on.
    """

    def __init__(
        self,
        taken: list[NDArray[np.uint32]],
        layout: HistogramLayout,
        bin_type: np.dtype[Any],
        team: Team,
    ) -> None:
        self.taken = taken
        self.is_filled = False
        self.split_columns: set[int] = set()
        self._layout, self._bin_type = layout, bin_type
        self._ends = np.cumsum([own.size for own in taken])
        rows = int(self._ends[-1]) if taken else 0
        every_row = np.arange(rows, dtype=np.uint32)
        both_sides = np.empty((2, rows), np.uint32)
        self._features = layout.feature_table
        self._partition = RowPartition(
            self._features, layout.n_set_words, every_row, both_sides, team
        )
        self._partition.begin_tree(None)

    def begin_filling(self, *, is_wide: bool) -> None:
        """Allocate bins, and gradients as wide or packed pairs."""
        rows, columns = self._partition.rows.shape[1], self._layout.n_columns
        self._by_row = np.empty((rows, columns), self._bin_type)
        self._by_feature = np.empty((columns, rows), self._bin_type)
        self._packed = np.empty(0 if is_wide else rows, np.int64)
        self._wide = np.empty((2, rows if is_wide else 0), np.int64)
        self.is_filled = True

    def fill(
        self, block: BinBlock, packed: NDArray[np.int64], wide: NDArray[np.int64]
    ) -> None:
        """Copy the sampled rows of a block.

        `packed` and `wide` are the gradients of all rows of the block, as in
        `GradientColumn`.
        """
        taken = self.taken[block.number]
        end = int(self._ends[block.number])
        own = slice(end - taken.size, end)
        by_row = block.by_row.reshape(-1, self._layout.n_columns)
        # The default mode "raise" would copy the result.
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
        by_feature = Bins.of(self._by_feature)
        self._partition.move(by_feature)
        columns = builder.columns(Bins.of(self._by_row.reshape(-1)), by_feature)
        builder.build(
            self._partition, nodes, slots, histograms, columns, self._packed, self._wide
        )

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        """Enter the splits; rows are moved before histograms are built."""
        self._partition.apply_splits(nodes, splits, sets, left)
        columns = self._features["column"][splits["feature"]]
        self.split_columns.update(columns.tolist())

    def name_leaves(self, nodes: NDArray[np.intp], leaves: NDArray[np.intp]) -> None:
        """Set the leaf number of each node without children."""
        self._partition.name_leaves(nodes, leaves)

    def route(
        self,
        rows: NDArray[np.uint32],
        by_feature: Bins,
        leaf_of: NDArray[np.uint32],
    ) -> None:
        """Write the leaf of each of these rows of a block, sampled or not."""
        self._partition.route(rows, by_feature, leaf_of)
