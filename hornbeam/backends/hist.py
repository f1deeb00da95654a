"""Splits from histograms, over rows wherever they live."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gradient_sampling import quantise_tree
from hornbeam.backends.interface import Backend, GradientSource, RowSample, SplitParams
from hornbeam.backends.rows import Rows
from hornbeam.binning.layout import HistogramLayout
from hornbeam.kernels.layout import SPLIT_DTYPE
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.plan import assign_slots, enter_children
from hornbeam.kernels.split import CandidateFeatures, NodeHistograms, find_splits
from hornbeam.kernels.team import Team, give_back_team

__all__ = ["HistogramBackend"]

#: Memory for the histograms of one training.
_HISTOGRAM_BYTES = 1 << 30
#: Cells of one split task.
_SPLIT_CELLS = 1 << 15
#: The cost of one bin in the search for splits, in cells of a histogram.
_CELLS_PER_BIN = 4
_NO_MASK = np.empty((0, 0), np.uint8)


class HistogramBackend(Backend):
    """A pool of histograms, filled by rows and searched for splits.

    Of two siblings the smaller one is counted, and what is left of the parent's
    histogram is that of the larger one.

    Parameters
    ----------
    rows
        What fills the histograms; closed with the backend.
    layout
        What is in a histogram.
    n_rows
        Of all parts together.
    team
        The threads that search; given back when the backend is closed.
    max_histograms
        The most histograms kept at once; None: what fits in one GiB.
    """

    #: Columns of gradients that have histograms of their own.
    _n_columns = 1
    #: The kernel that searches the histograms.
    _search: Callable[..., None] = staticmethod(find_splits)

    def __init__(
        self,
        rows: Rows,
        layout: HistogramLayout,
        n_rows: int,
        team: Team,
        max_histograms: int | None = None,
    ) -> None:
        self._team, self._closed = team, False
        self._rows, self._n_rows = rows, n_rows
        self.lookahead = rows.lookahead
        self._max_histograms = max_histograms
        #: The parent, the slot (-1: none) and the sum of hessians of each node.
        self._family = np.full((3, 64), -1, np.int64)
        self._gradient_ranges: NDArray[np.float64] | None = None
        self._take_layout(layout)

    def _take_layout(self, layout: HistogramLayout) -> None:
        """Make room for histograms of these codes, which the rows have."""
        self._layout, self._features = layout, layout.feature_table
        self._init_histograms(2)
        self._widest = int(layout.n_bins.max())
        self._split_scratch = self._make_scratch()
        self._set_words = -(-layout.max_categories // 64)
        #: The features of the tree, none before the first.
        self._chosen = np.empty(0, np.uint64)

    def _init_histograms(self, parts: int) -> None:
        """Make room for histograms of gradients and hessians, and perhaps of rows."""
        cells = self._layout.n_histogram_bins
        most = self._max_histograms
        if most is None:
            most = _HISTOGRAM_BYTES // (16 * cells * self._n_columns)
        most = 2 * most // parts
        # Six is what splitting one node takes: see `find_splits`.
        n_slots = max(6, min(most, 2 * self._n_rows + 1))
        # Pages of memory are only taken when a histogram is written to them. Zeros,
        # because all of a parent's cells are gone through, also those of columns that
        # a tree does not use.
        self._histograms = np.zeros(self._shape_of(n_slots, parts, cells), np.int64)
        self._slots_in_order = np.arange(n_slots)[::-1]
        self._free = np.empty(n_slots, np.int64)
        self._n_free = np.zeros(1, np.int64)

    @property
    def _candidates(self) -> int:
        """The most that a feature has; each category may go with the missing or not."""
        return max(self._widest, 2 * self._layout.max_categories)

    def _make_scratch(self) -> tuple[NDArray[Any], ...]:
        """Return where `_search` works."""
        return (np.empty((self._team.size, 6, self._candidates + 1)),)

    def _beside(self, limits: NodeConstraints | None) -> tuple[Any, ...]:
        """Return what `_search` takes after the rules."""
        return limits, *self._split_scratch

    def _shape_of(self, n_slots: int, parts: int, cells: int) -> tuple[int, ...]:
        """Return the shape of all histograms."""
        return n_slots, parts, cells

    @property
    def n_rows(self) -> int:
        return self._n_rows

    @property
    def n_outputs(self) -> int:
        return self._rows.n_outputs

    @property
    def n_features(self) -> int:
        return self._features.size

    def margins(self) -> NDArray[np.float64]:
        return self._rows.margins()

    def set_margins(self, margins: NDArray[np.float64]) -> None:
        self._rows.set_margins(margins)

    def compute_gradients(self, objective: GradientSource) -> None:
        self._rows.compute_gradients(objective)
        self._gradient_ranges = None

    def set_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        self._rows.set_gradients(gradients, hessians)
        self._gradient_ranges = None

    def begin_tree(
        self,
        output: int,
        growth: SplitParams,
        features: NDArray[np.uint64],
        sample: RowSample | None,
    ) -> None:
        self._rules = growth.rules
        if not np.array_equal(features, self._chosen):
            self._chosen = features
            # Any column counts each row once; the narrowest is added up soonest.
            columns = np.unique(self._features["column"][features])
            offsets = self._layout.offsets
            narrow = columns[np.diff(offsets)[columns].argmin()]
            self._totals = offsets[narrow : narrow + 2]
        if self._gradient_ranges is None:
            self._rows.expect(output, features, sample)
            self._gradient_ranges = self._rows.gradient_ranges()
        self._begin_gradients(output, growth, sample, self._gradient_ranges)
        self._family[:2] = -1
        self._free[:] = self._slots_in_order
        self._n_free[0] = self._free.size

    def _begin_gradients(
        self,
        output: int,
        growth: SplitParams,
        sample: RowSample | None,
        gradient_ranges: NDArray[np.float64],
    ) -> None:
        """Have the rows begin a tree, and choose its steps."""
        steps, is_coarse, one_row = quantise_tree(
            output,
            growth,
            sample,
            gradient_ranges,
            self._n_rows,
            self._rows.count_size_classes,
            lambda settled, steps: self._rows.begin_tree(
                output, self._chosen, settled, steps.coarse, steps.fine
            ),
        )
        self._steps = steps.coarse if is_coarse else steps.fine
        self._fine_steps = steps.fine
        if not is_coarse:
            self._rows.widen()
        # Where hessians are all the same, they say how many rows there are.
        self._one_row = one_row if is_coarse and one_row > 0 else 1
        parts = 3 if growth.counts_rows and self._one_row == 1 else 2
        if parts != self._histograms.shape[-2]:
            self._init_histograms(parts)

    def find_splits(
        self,
        nodes: NDArray[np.intp],
        allowed: NDArray[np.uint8] | None,
        limits: NodeConstraints | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        # A batch may need a slot for each node beside those of the nodes' parents.
        batch = self._free.size // 3 & ~1
        if limits is not None:
            limits = limits._replace(one_row=float(self._one_row))
        if nodes.size <= batch:
            return self._find_splits(nodes, allowed, limits)
        parts = []
        for i in range(0, nodes.size, batch):
            mask = None if allowed is None else allowed[i : i + batch]
            own = None if limits is None else limits.part(i, i + batch)
            parts.append(self._find_splits(nodes[i : i + batch], mask, own))
        splits, sets = zip(*parts, strict=True)
        return np.concatenate(splits), np.concatenate(sets)

    def _find_splits(
        self,
        nodes: NDArray[np.intp],
        allowed: NDArray[np.uint8] | None,
        limits: NodeConstraints | None,
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        counted = self._build_histograms(nodes)
        features = self._chosen.size
        bins = self._widest * self._n_columns
        members = self._team.members_for(_CELLS_PER_BIN * features * bins * nodes.size)
        block = features
        if members > 1:
            block = max(1, min(features, _SPLIT_CELLS // bins))
        parts = -(-features // block)
        splits = np.empty((nodes.size, parts), SPLIT_DTYPE)
        words = self._set_words
        sets = np.empty((nodes.size, parts, words), np.uint64 if words else np.uint8)
        self._team.run(
            self._search,
            members,
            NodeHistograms(
                self._histograms,
                self._family[1][nodes],
                *counted,
                self._features,
                self._totals,
            ),
            CandidateFeatures(
                self._chosen, _NO_MASK if allowed is None else allowed, block
            ),
            self._steps,
            self._rules,
            *self._beside(limits),
            splits,
            sets,
        )
        sets = sets.view(np.uint64)
        if parts == 1:
            return splits[:, 0], sets[:, 0]
        best = splits["gain"].argmax(axis=1)  # the first of equals: lowest feature
        every = np.arange(nodes.size)
        return splits[every, best], sets[every, best]

    def _build_histograms(
        self, nodes: NDArray[np.intp]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count the rows of the smaller siblings, or of the root.

        Returns the slots of their histograms, and of those of the parents or -1.
        """
        parents, slots, hessians = self._family
        sizes = self._rows.sizes(nodes)
        if sizes is None:
            sizes = hessians[nodes]
        counted = np.empty((3, nodes.size), np.int64)
        count = assign_slots(
            nodes, sizes, parents, slots, self._free, self._n_free, counted
        )
        counted_slots = counted[1, :count]
        self._rows.build_histograms(counted[0, :count], counted_slots, self._histograms)
        return counted_slots, counted[2, :count]

    def apply_splits(
        self,
        nodes: NDArray[np.intp],
        splits: NDArray[Any],
        sets: NDArray[np.uint64],
        left: NDArray[np.intp],
    ) -> None:
        last = int(left[-1]) + 2
        if last > self._family.shape[1]:
            more = np.full((3, max(last, 2 * self._family.shape[1])), -1, np.int64)
            more[:, : self._family.shape[1]] = self._family
            self._family = more
        enter_children(nodes, splits, left, self._family)
        self._rows.apply_splits(nodes, splits, sets, left)

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.float64]:
        return self._rows.sum_leaves(nodes, leaves, n_leaves) * self._fine_steps

    def leaf_of(self) -> NDArray[np.uint32]:
        return self._rows.leaf_of()

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        self._rows.add_leaf_values(values)

    def close(self) -> None:
        # A backend that is never closed lets go of its team. A lease would give the
        # team back from the garbage collector, when its pool has lost its threads.
        if not self._closed:
            self._closed = True
            self._rows.close()
            give_back_team(self._team)
