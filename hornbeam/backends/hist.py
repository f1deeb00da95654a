"""Splits from gradient histograms of rows in memory, on disk or on workers."""

from __future__ import annotations

from functools import partial
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import (
    EVERY_FEATURE,
    Backend,
    Constraints,
    GradientSource,
    GrownRounds,
    GrownTree,
    GrowthLimits,
    LeafFeatures,
    LeafSlopes,
    RowLoss,
    RowSample,
    SplitParams,
)
from hornbeam.backends.level_search import LevelSearch
from hornbeam.backends.quantisation import quantise_tree, searched_columns
from hornbeam.backends.round_grower import RoundBuffers, most_rounds
from hornbeam.backends.rows import Rows, SplitSearch
from hornbeam.backends.symmetric_grower import SymmetricGrower
from hornbeam.backends.tree_grower import (
    TreeGrower,
    TreeRoot,
    TreeSearch,
    features_of_task,
)
from hornbeam.binning.layout import HistogramLayout
from hornbeam.kernels.layout import SPLIT_DTYPE
from hornbeam.kernels.linear_leaves import NodeTerms
from hornbeam.kernels.multi_output import (
    MultiOutputBuffers,
    find_multi_output_splits,
    weigh_children,
)
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.plan import assign_slots, enter_children, free_slots
from hornbeam.kernels.sampling import ColumnDraws
from hornbeam.kernels.split import CandidateFeatures, NodeHistograms, find_splits
from hornbeam.kernels.team import Team, give_back_team
from hornbeam.kernels.tree import CELLS_PER_BIN
from hornbeam.kernels.tree_tables import OutputColumns

__all__ = ["HistogramBackend"]

_NO_SLOTS = np.empty(0, np.int64)
#: The scales of sums of hessians that are shares, however small a side may be.
_ANY_SHARE = np.array([1.0, np.inf])


class HistogramBackend(Backend):
    """A pool of histograms, built from rows and searched for splits.

    Of two siblings the histogram of the smaller one is built; that of the larger one
    is the parent's minus the sibling's.

    There is one histogram per node and gradient column. Trees of one output have one
    column, which its own kernel searches faster; in multi-output trees a split is
    scored by the sum of its gains in all columns.

    Parameters
    ----------
    rows
        That histograms are built from; closed with the backend.
    team
        The threads of the split search; given back by `close`.
    max_histograms
        Maximum number of nodes with histograms at a time; None: what fits in
        ``rows.histogram_bytes``.
    """

    def __init__(
        self, rows: Rows, team: Team, max_histograms: int | None = None
    ) -> None:
        self._team, self._closed = team, False
        self._rows, self._n_rows = rows, rows.n_rows
        self.lookahead = rows.lookahead
        self.multi_output_columns = rows.multi_output_columns
        self._max_histograms, self._row_unit = max_histograms, 1
        #: The parent, the slot (-1: none) and the sum of hessians of each node.
        self._family = np.full((3, 64), -1, np.int64)
        self._gradient_ranges: NDArray[np.float64] | None = None
        if rows.layout is not None:
            self._set_layout(rows.layout)

    def _set_layout(self, layout: HistogramLayout) -> None:
        """Allocate histograms and buffers for the bins that the rows now have."""
        self._layout, self._features = layout, layout.feature_table
        self._widest = int(layout.n_bins.max())
        self._set_words = -(-layout.max_categories // 64)
        self._grower = TreeGrower(layout.n_histogram_bins, self._set_words, self._team)
        self._symmetric_grower = SymmetricGrower(self._set_words, self._team)
        #: The features of the tree, none before the first.
        self._chosen = np.empty(0, np.uint64)
        #: The last search of the trees of each output, and what it was made of.
        self._searches: dict[int, tuple[tuple[Any, ...], TreeSearch | None]] = {}
        self._init_columns()

    def _init_columns(self) -> None:
        """Allocate for the present number of gradient columns."""
        columns = self._n_columns = max(1, self.multi_output_columns)
        threads, layout = self._team.size, self._layout
        # A category may be split off with the missing values or without.
        candidates = max(self._widest, 2 * layout.max_categories) + 1
        self._candidates = candidates
        self._split_scratch: NDArray[np.float64] | MultiOutputBuffers
        if self.multi_output_columns == 0:
            self._split_scratch = np.empty((threads, 6, candidates))
        else:
            self._split_scratch = MultiOutputBuffers(
                np.empty((threads, 7, candidates)),
                np.empty((threads, columns, layout.max_categories + 2)),
                np.empty((threads, columns)),
                np.empty((threads, columns, 2), np.int64),
            )
        self._init_histograms(counts_rows=False)

    def _init_histograms(self, *, counts_rows: bool) -> None:
        """Allocate histograms of gradients and hessians, and perhaps of row counts.

        Row counts are a third part of the only column's histograms, or the hessians of
        one more column.
        """
        self._counts_rows = counts_rows
        bins, parts, columns = self._layout.n_histogram_bins, 2, self._n_columns
        most = self._max_histograms
        if most is None:
            most = self._rows.histogram_bytes // (16 * bins * columns)
        if self.multi_output_columns > 0:
            columns += counts_rows
        elif counts_rows:
            parts, most = 3, 2 * most // 3
        # Splitting one node takes six: see `find_splits`.
        n_slots = max(6, min(most, 2 * self._n_rows + 1))
        # The operating system allocates pages on first write. Zeros, because parent
        # minus sibling is computed for all bins, also those of columns that a tree
        # does not use.
        self._histograms = np.zeros((columns, n_slots, parts, bins), np.int64)
        #: A stack of free slots, with its height at the end.
        self._free = np.empty(n_slots + 1, np.int64)
        free_slots(self._free, n_slots)
        #: Nodes of the tree, each of which has one slot at most.
        self._n_nodes = 1

    @property
    def n_rows(self) -> int:
        return self._n_rows

    @property
    def n_outputs(self) -> int:
        return self._rows.n_outputs

    @property
    def n_features(self) -> int:
        return self._rows.n_features

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

    def set_split_gradients(
        self, gradients: NDArray[np.floating[Any]], hessians: NDArray[np.floating[Any]]
    ) -> None:
        self._rows.set_split_gradients(gradients, hessians)
        self._gradient_ranges = None

    def sketch_outputs(self, projection: NDArray[np.float64]) -> None:
        self._rows.sketch_outputs(projection)
        self._gradient_ranges = None

    def begin_tree(
        self,
        output: int,
        params: SplitParams,
        features: NDArray[np.uint64],
        sample: RowSample | None,
    ) -> None:
        layout = self._rows.bin_tree(output)
        if layout is not None:
            self._set_layout(layout)
        self._params = params
        if features is not self._chosen and not np.array_equal(features, self._chosen):
            self._chosen = features
            # Each column has each row in one bin; the narrowest is summed fastest.
            columns = np.flatnonzero(np.bincount(self._features["column"][features]))
            offsets = self._layout.offsets
            narrow = columns[np.diff(offsets)[columns].argmin()]
            self._totals = offsets[narrow : narrow + 2]
        if self._gradient_ranges is None:
            self._rows.expect(output, features, sample)
            self._gradient_ranges = self._rows.gradient_ranges()
        self._quantise(output, params, sample, self._gradient_ranges)
        self._family[:2] = -1
        free_slots(self._free, self._n_nodes)
        self._n_nodes = 1

    def _quantise(
        self,
        output: int,
        params: SplitParams,
        sample: RowSample | None,
        ranges: NDArray[np.float64],
    ) -> None:
        """Begin a tree of the rows, and choose the scales of its histograms."""
        own: int | None = output
        n_outputs = 1
        if self.multi_output_columns > 0:
            own, n_outputs = None, self.n_outputs
            columns = searched_columns(ranges, n_outputs)
            if columns != self.multi_output_columns:
                self.multi_output_columns = columns
                self._init_columns()
        scales = quantise_tree(
            params,
            sample,
            ranges,
            own,
            n_outputs,
            self._n_rows,
            partial(self._rows.count_size_classes, output),
            partial(self._rows.begin_tree, output, self._chosen),
            self._rows.widen,
        )
        self._output, self._scales = output, scales.histogram
        self._leaf_scales = scales.leaf
        self._rules = params.rules_for(scales.mean_hessian)
        # Where all hessians are the same, they count the rows.
        if self._row_unit != max(1, scales.row_unit):
            self._row_unit = max(1, scales.row_unit)
        counts_rows = params.counts_rows and scales.row_unit == 0
        if counts_rows != self._counts_rows:
            self._init_histograms(counts_rows=counts_rows)

    def grow(
        self,
        limits: GrowthLimits,
        draws: ColumnDraws,
        learning_rate: float | None,
        constraints: Constraints | None = None,
    ) -> GrownTree | None:
        root = self._rows.root(counts_rows=self._counts_rows)
        if root is None:
            return self._grow_with_rows(limits, draws, constraints)
        search = self._tree_search(root, constraints)
        self._n_nodes = self._free.size  # until they are known
        grown: GrownTree | None
        if limits.symmetric:
            grown = self._symmetric_grower.grow(root, search, limits, draws)
        else:
            grown = self._grower.grow(root, search, limits, draws, learning_rate)
        if grown is not None:
            self._n_nodes = grown.left.size
        return grown

    def _grow_with_rows(
        self,
        limits: GrowthLimits,
        draws: ColumnDraws,
        constraints: Constraints | None,
    ) -> GrownTree | None:
        """Return the tree if the rows grow it."""
        is_limited = constraints is not None or self._params.counts_rows
        draws_columns = min(draws.by_level, draws.by_node) < 1.0
        if is_limited or draws_columns or self.multi_output_columns > 0:
            return None
        if not self._rows.finds_splits(self._chosen, self._rules):
            return None
        of_nodes = np.empty((3, 0), np.int64), _NO_SLOTS, EVERY_FEATURE
        search = SplitSearch(*of_nodes, self._totals, self._scales[0], self._rules)
        return self._rows.grow(search, limits, self._free.size - 1)

    def grow_rounds(self, loss: RowLoss, wanted: int) -> GrownRounds | None:
        nodes = self._grower.n_nodes
        if nodes == 0 or self._rules is not self._params.rules:
            return None
        n_outputs = self.n_outputs
        cells = n_outputs * self._n_rows * self._chosen.size
        count = most_rounds(cells, n_outputs * nodes, wanted)
        buffers = RoundBuffers(n_outputs, nodes)
        calls = self._rows.begin_rounds(loss, buffers) if count > 1 else None
        if calls is None:
            return None
        grown = self._grower.grow_rounds(calls, buffers, self._n_rows, count)
        self._rows.end_rounds(calls, None if buffers.ended[0] else buffers.leaf_values)
        self._gradient_ranges = None
        self._n_nodes = self._free.size  # of the last tree, which may not be complete
        return grown

    def _tree_search(
        self, root: TreeRoot, constraints: Constraints | None
    ) -> TreeSearch:
        """Return how the tree is searched; the last search if it was made of the same.

        Each output has its own, because scales differ.
        """
        buffers, scales, leaf_scales = self._histograms, self._scales, self._leaf_scales
        of_tree = self._chosen, self._rules, self._params, self._row_unit
        made_of = (buffers, root.columns, scales, leaf_scales, *of_tree, constraints)
        before, search = self._searches.get(self._output, ((), None))
        if search is not None and all(map(is_, made_of, before)):
            return search
        of_nodes = None
        if constraints is not None or self._params.counts_rows:
            own = constraints or Constraints()
            of_nodes = own.limits(self._params, self.n_features, self._row_unit)
        columns, scales = None, self._scales[0]
        if root.columns is not None:
            assert isinstance(self._split_scratch, MultiOutputBuffers)
            own_buffers = self._split_scratch
            columns = OutputColumns(
                root.columns, self._histograms, self._scales, own_buffers
            )
            scales = _ANY_SHARE
        search = TreeSearch(
            self._histograms[0],
            self._free,
            self._candidates,
            self._features,
            self._chosen,
            self._totals,
            scales,
            self._leaf_scales[: root.leaves[0].n_columns],
            columns,
            self._rules,
            of_nodes,
            constraints,
        )
        self._searches[self._output] = made_of, search
        return search

    @property
    def _most_at_once(self) -> int:
        """The most nodes that are searched at a time.

        They may need a slot for each node in addition to those of the parents.
        """
        return (self._free.size - 1) // 3 & ~1

    def find_splits(
        self,
        nodes: NDArray[np.intp],
        allowed: NDArray[np.uint8] | None,
        limits: NodeConstraints | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        batch = self._most_at_once
        if limits is not None:
            limits = limits._replace(one_row=float(self._row_unit))
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
        words, mask = self._set_words, EVERY_FEATURE if allowed is None else allowed
        is_single = self.multi_output_columns == 0
        if is_single and self._rows.finds_splits(self._chosen, self._rules):
            search = SplitSearch(
                self._assign_slots(nodes),
                self._family[1][nodes],
                mask,
                self._totals,
                self._scales[0],
                self._rules,
                self._counts_rows,
                limits,
            )
            return self._rows.find_splits(search)
        built = self._build_histograms(nodes)
        features = self._chosen.size
        bins = self._widest * self._n_columns
        threads = self._team.threads_for(CELLS_PER_BIN * features * bins * nodes.size)
        block = features_of_task(features, bins, threads)
        parts = -(-features // block)
        splits = np.empty((nodes.size, parts), SPLIT_DTYPE)
        sets = np.empty((nodes.size, parts, words), np.uint64 if words else np.uint8)
        kernel: Any = find_multi_output_splits
        histograms, scales = self._histograms, self._scales
        if is_single:
            kernel, histograms, scales = find_splits, histograms[0], scales[0]
        slots = self._family[1][nodes]
        searched = NodeHistograms(
            histograms, slots, *built, self._features, self._totals
        )
        self._team.run(
            kernel,
            threads,
            searched,
            CandidateFeatures(self._chosen, mask, block),
            scales,
            self._rules,
            limits,
            self._split_scratch,
            splits,
            sets,
        )
        sets = sets.view(np.uint64)
        if parts == 1:
            splits, sets = splits[:, 0], sets[:, 0]
        else:
            best = splits["gain"].argmax(axis=1)  # the first of equals: lowest feature
            every = np.arange(nodes.size)
            splits, sets = splits[every, best], sets[every, best]
        if limits is not None and not is_single:
            weigh_children(searched, scales, self._rules, limits, splits, sets)
        return splits, sets

    def find_level_split(
        self, nodes: NDArray[np.intp], allowed: NDArray[np.uint8] | None
    ) -> tuple[NDArray[Any], NDArray[np.uint64], float]:
        places = 1 + max(self._widest, self._layout.max_categories)
        team, words = self._team, self._set_words
        search = LevelSearch(
            self._chosen, allowed, places, self._scales[0], self._rules, team
        )
        batch = self._most_at_once
        batches = [nodes[i : i + batch] for i in range(0, nodes.size, batch)]
        for own in batches:
            search.add(self._histograms_of(own, *self._build_histograms(own)))
        gain = search.choose(self._features)
        if gain == 0.0:
            return np.zeros(0, SPLIT_DTYPE), np.zeros((0, words), np.uint64), gain
        parts = []
        for own in batches:
            if len(batches) > 1:
                self._rebuild_histograms(own)
            parts.append(search.splits(self._histograms_of(own), words))
        splits, sets = zip(*parts, strict=True)
        return np.concatenate(splits), np.concatenate(sets), gain

    def _histograms_of(
        self,
        nodes: NDArray[np.intp],
        built: NDArray[np.int64] = _NO_SLOTS,
        parents: NDArray[np.int64] = _NO_SLOTS,
    ) -> NodeHistograms:
        """Return the histograms of these nodes, of which some were `built` just now."""
        slots, features = self._family[1][nodes], self._features
        return NodeHistograms(
            self._histograms[0], slots, built, parents, features, self._totals
        )

    def _rebuild_histograms(self, nodes: NDArray[np.intp]) -> None:
        """Drop all histograms, and build those of these nodes from their rows."""
        slots = np.arange(nodes.size)
        self._family[1] = -1
        self._family[1][nodes] = slots
        self._n_nodes = self._free.size
        self._free[: -1 - nodes.size] = np.arange(nodes.size, self._free.size - 1)
        self._free[-1] = self._free.size - 1 - nodes.size
        self._rows.build_histograms(nodes, slots, self._histograms)

    def _build_histograms(
        self, nodes: NDArray[np.intp]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Build the histograms of the smaller siblings, or of the root.

        Returns their slots, and those of the parents or -1.
        """
        own, slots, parents = self._assign_slots(nodes)
        self._rows.build_histograms(own, slots, self._histograms)
        return slots, parents

    def _assign_slots(self, nodes: NDArray[np.intp]) -> NDArray[np.int64]:
        """Give each node a slot; return the histograms to build.

        They are (3, some): the smaller siblings or the root, their slots, and the slots
        of the parents or -1.
        """
        parents, slots, hessians = self._family
        sizes = self._rows.sizes(nodes)
        if sizes is None:
            sizes = hessians[nodes]
        built = np.empty((3, nodes.size), np.int64)
        count = assign_slots(
            nodes, sizes, parents, slots, self._free, self._free[-1:], built
        )
        return built[:, :count]

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
        self._n_nodes = max(self._n_nodes, last)
        enter_children(nodes, splits, left, self._family)
        self._rows.apply_splits(nodes, splits, sets, left)

    def sum_leaves(
        self, nodes: NDArray[np.intp], leaves: NDArray[np.intp], n_leaves: int
    ) -> NDArray[np.float64]:
        sums = self._rows.sum_leaves(nodes, leaves, n_leaves)
        if self.multi_output_columns == 0:
            return sums[0] * self._leaf_scales[0]
        return sums * self._leaf_scales[: len(sums), None]

    def leaf_of(self) -> NDArray[np.uint32]:
        return self._rows.leaf_of()

    def add_leaf_values(self, values: NDArray[np.float32]) -> None:
        self._rows.add_leaf_values(values)

    def regress_leaves(
        self, features: LeafFeatures, linear_lambda: float
    ) -> LeafSlopes:
        return self._rows.regress_leaves(features, linear_lambda)

    def add_linear_leaves(
        self, data: NDArray[Any], values: NDArray[np.float32], leaves: NodeTerms
    ) -> None:
        self._rows.add_linear_leaves(data, values, leaves)

    def close(self) -> None:
        # Without `close` the team is not given back: a lease would do that from the
        # garbage collector, when the pool may have lost its threads.
        if not self._closed:
            self._closed = True
            self._rows.close()
            give_back_team(self._team)
