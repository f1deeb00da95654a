"""The best splits of nodes, searched on the device in histograms that stay there."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.opencl.histograms import DeviceHistograms
from hornbeam.backends.opencl.partition import Run
from hornbeam.backends.opencl.queue import Buffer, DeviceQueue
from hornbeam.backends.rows import SplitSearch
from hornbeam.binning.layout import HistogramLayout
from hornbeam.kernels.layout import SPLIT_DTYPE, SplitRules
from hornbeam.kernels.node_constraints import NodeConstraints

__all__ = ["DeviceSplitSearch"]

#: The least histogram bins of a work-group on a processor: starting it takes about as
#: long as searching a hundred. On a GPU each feature has a group.
_LEAST_BINS = 1 << 12
#: Of a feature: they are sorted in local memory, beside 22 KB of candidates and sums.
_MOST_CATEGORIES = 1 << 11
#: Penalties and scales below this, and scales above its inverse, overflow nothing where
#: scores are compared without division.
_SCREENED = 2.0**100
#: By how much such a comparison may err, relative to the score.
_MARGIN = 2.0**-40
#: Bytes of a candidate, and of the sums of a node; see `kernels/split_search.cl`.
_CANDIDATE_BYTES, _TOTAL_BYTES = 56, 32
#: Of the rules; see `kernels/split_scores.cl`.
_RULES_BYTES = 128
#: A feature as kernels take it; see `kernels/split_scores.cl`.
_FEATURE = np.dtype(
    [
        *((name, np.int32) for name in ("number", "first_bin", "n_bins", "direction")),
        ("cost", np.float64),
    ]
)


class _Features(NamedTuple):
    """Features of one kind that are searched: `block` of them by each work-group."""

    number: int
    on_device: Buffer
    block: int

    @property
    def blocks(self) -> int:
        return -(-self.number // self.block)


class DeviceSplitSearch:
    """Searches splits of trees of one output.

    Splits are those of `hornbeam.kernels.split.find_splits`, to the bit.

    Parameters
    ----------
    queue
        Of the device.
    histograms
        That are searched.
    layout
        Of the histograms.

    Attributes
    ----------
    record
        The type of a split with its set of categories.
    totals
        (slots, 4) int64: the sums of the rows of the node in each slot.
    """

    def __init__(
        self, queue: DeviceQueue, histograms: DeviceHistograms, layout: HistogramLayout
    ) -> None:
        self._queue, self._histograms = queue, histograms
        self._table, self._n_bins = layout.feature_table, layout.n_histogram_bins
        self._words = -(-layout.max_categories // 64)
        self._none = queue.empty(0)
        #: What the features below were made of.
        self._known: tuple[NDArray[Any], NDArray[Any], NDArray[Any]] | None = None
        self._numerical = self._categorical = _Features(0, self._none, 1)
        self._sort_bytes = 8
        #: As kernels take them; other trees may have others.
        self._rules, self._known_rules = queue.empty(_RULES_BYTES), b""
        self.totals, self._n_slots = self._none, 0
        self._found, self._n_found = self._none, 0
        self._sets, self._n_sets = self._none, 0
        self.record = np.dtype(
            [("split", SPLIT_DTYPE), ("set", np.uint64, (self._words,))]
        )
        self._splits, self._n_splits = self._none, 0

    def can_search(self, features: NDArray[np.uint64], rules: SplitRules) -> bool:
        """Return whether splits by these features and rules are searched here.

        Not those of very many categories, of least groups of them, which are formed one
        after the other, or of a device that takes the smallest float32 numbers as 0:
        categories are sorted by such numbers. The sets of candidates, each as long as
        the longest, must not take more memory than the histograms.
        """
        own = self._table[features]
        categories = own["bins"][own["is_categorical"] != 0]
        if categories.size == 0:
            return True
        return (
            rules.min_group_weight == 0.0
            and self._queue.device.keeps_denormals
            and int(categories.max()) <= _MOST_CATEGORIES
            and 8 * self._words * categories.size <= 16 * self._n_bins
        )

    def find_splits(
        self, search: SplitSearch
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        """Wait, and return the best split of each node and its set of categories.

        They are (nodes,) `SPLIT_DTYPE` and (nodes, words) uint64. The histograms of
        ``search.built`` have been built in their slots.
        """
        queue, n_nodes = self._queue, search.slots.size
        self.prepare(search)
        self.reserve(n_nodes)
        if n_nodes > self._n_splits:
            self._n_splits = n_nodes
            self._splits = queue.empty(self.record.itemsize * n_nodes)
        nodes = queue.copy_of(_searched(search))
        self.sum_nodes(queue.run, nodes, n_nodes, search.every_row)
        self.search_from(queue.run, nodes, 0, n_nodes, search, self._splits)
        found = queue.read(self._splits, np.empty(n_nodes, self.record))
        return np.ascontiguousarray(found["split"]), np.ascontiguousarray(found["set"])

    def prepare(self, search: SplitSearch) -> bool:
        """Use the features and rules of a search from now on.

        Returns whether the features are those of the search before.
        """
        rules = _rules(search)
        if rules.tobytes() != self._known_rules:
            self._known_rules = rules.tobytes()
            self._queue.send(self._rules, rules)
        return self._choose(self._histograms.chosen, search.limits)

    @property
    def _sums(self) -> tuple[Any, ...]:
        """The histograms and their shape."""
        histograms = self._histograms
        shape = map(np.uint32, (self._n_bins, histograms.parts))
        return histograms.sums, *shape

    def sum_nodes(
        self, run: Run, nodes: Buffer, n_nodes: int, every_row: NDArray[np.int64]
    ) -> None:
        """Sum the rows of nodes, before they are searched."""
        own = nodes, *every_row.astype(np.uint32), self.totals
        run("sum_nodes", n_nodes, *self._sums, *own)

    def search_from(
        self,
        run: Run,
        nodes: Buffer,
        first: int,
        n_nodes: int,
        search: SplitSearch,
        splits: Buffer,
    ) -> None:
        """Search the splits of nodes on the device.

        Parameters
        ----------
        run
            Starts kernels, or records them.
        nodes
            The slot of each node, and of its sibling.
        first, n_nodes
            The nodes that are searched.
        search
            Their features, rules and limits.
        splits
            (first + n_nodes,) `record`, out.
        """
        queue, limits = self._queue, search.limits
        numerical, categorical = self._numerical, self._categorical
        places, own_nodes = numerical.blocks + categorical.blocks, np.uint32(first)
        table = search.allowed.shape[1]
        allowed = queue.copy_of(search.allowed) if table > 0 else self._none
        bounds, used, used_words, name = self._none, self._none, 0, "search"
        if limits is not None:
            bounds = queue.copy_of(np.column_stack([limits.bounds, limits.weights]))
            used, used_words = queue.copy_of(limits.used), limits.used.shape[1]
            name = "search_limited"
        sets, first_place = (self._sets, np.uint32(self._words)), 0
        for kind, own, more in (
            ("splits", numerical, ()),
            ("categories", categorical, (*sets, self._sort_bytes)),
        ):
            run(
                f"{name}_{kind}",
                n_nodes * own.blocks,
                *self._sums,
                nodes,
                own_nodes,
                self.totals,
                own.on_device,
                *map(np.uint32, (own.number, own.block)),
                allowed,
                np.uint32(table),
                self._rules,
                bounds,
                used,
                np.uint32(used_words),
                self._found,
                *map(np.uint32, (places, first_place)),
                *more,
            )
            first_place += own.blocks
        run(
            "choose_splits",
            n_nodes,
            self._found,
            np.uint32(places),
            nodes,
            own_nodes,
            self.totals,
            self._rules,
            np.uint32(limits is not None),
            bounds,
            *sets,
            splits,
        )

    def _choose(
        self, features: NDArray[np.uint64], limits: NodeConstraints | None
    ) -> bool:
        """Search these features from now on, with directions and costs of limits.

        Returns whether they are those of the search before.
        """
        none = np.empty(0)
        given = (
            features,
            none if limits is None else limits.directions,
            none if limits is None else limits.costs,
        )
        if self._known is not None and all(map(np.array_equal, given, self._known)):
            return True
        self._known = given
        own = np.zeros(features.size, _FEATURE)
        table = self._table[features]
        own["number"] = features
        own["first_bin"], own["n_bins"] = table["cell"], table["bins"]
        for name, of_features in zip(("direction", "cost"), given[1:], strict=True):
            if of_features.size > 0:
                own[name] = of_features[features]
        is_core = self._queue.device.options.group_size == 1
        block = max(1, _LEAST_BINS // int(own["n_bins"].max())) if is_core else 1
        is_set = table["is_categorical"] != 0
        self._numerical, self._categorical = (
            _Features(len(kind), self._queue.copy_of(kind), of_group)
            for kind, of_group in ((own[~is_set], block), (own[is_set], 1))
        )
        most = int(own["n_bins"][is_set].max(initial=1))
        self._sort_bytes = 8 << (most - 1).bit_length()
        return False

    def reserve(self, nodes: int) -> None:
        """Make space for a search of so many nodes, and for all slots."""
        queue, slots = self._queue, self._histograms.n_slots
        candidates = nodes * (self._numerical.blocks + self._categorical.blocks)
        sets = nodes * self._categorical.number
        if slots > self._n_slots:
            old, old_bytes = self.totals, _TOTAL_BYTES * self._n_slots
            self.totals, self._n_slots = queue.empty(_TOTAL_BYTES * slots), slots
            queue.copy(old, self.totals, old_bytes)
        if candidates > self._n_found:
            self._n_found = candidates
            self._found = queue.empty(_CANDIDATE_BYTES * candidates)
        if sets > self._n_sets:
            self._n_sets = sets
            self._sets = queue.empty(8 * self._words * sets)


def _rules(search: SplitSearch) -> NDArray[np.float64]:
    """Return the rules of a search as kernels take them."""
    scales, rules, limits = search.scales, search.rules, search.limits
    screens = (
        rules.reg_alpha == 0.0
        and rules.max_delta_step == 0.0
        and max(rules.reg_lambda, *scales) < _SCREENED
        and min(scales) > 1.0 / _SCREENED
    )
    return np.array(
        [
            rules.reg_lambda,
            rules.reg_alpha,
            rules.max_delta_step if rules.max_delta_step > 0.0 else math.inf,
            rules.min_child_weight,
            *scales,
            1.0 - _MARGIN if screens else 0.0,
            rules.max_cat_to_onehot,
            rules.max_cat_threshold,
            rules.cat_smooth,
            rules.cat_l2,
            rules.min_category_weight,
            rules.min_samples_leaf,
            rules.path_smooth,
            1.0 if limits is None else limits.one_row,
            limits is not None and limits.cost_of_rows,
        ],
        np.float64,
    )


def _searched(search: SplitSearch) -> NDArray[np.int32]:
    """Return for each node its slot, and that of the sibling to subtract or -1."""
    _, slots, parents = search.built
    taken = parents >= 0
    sibling_of = dict(zip(parents[taken].tolist(), slots[taken].tolist(), strict=True))
    nodes = [(slot, sibling_of.get(slot, -1)) for slot in search.slots.tolist()]
    return np.array(nodes, np.int32)
