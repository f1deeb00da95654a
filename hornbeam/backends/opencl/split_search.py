"""The best splits of nodes, searched on the device in histograms that stay there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.opencl.histograms import DeviceHistograms
from hornbeam.backends.opencl.queue import DeviceQueue
from hornbeam.backends.rows import SplitSearch
from hornbeam.binning.layout import HistogramLayout
from hornbeam.kernels.layout import SPLIT_DTYPE

__all__ = ["DeviceSplitSearch"]

#: The least histogram bins of a work-group on a processor: starting it takes about as
#: long as searching a hundred. On a GPU each feature has a group.
_LEAST_BINS = 1 << 12
#: Penalties and scales below this, and scales above its inverse, overflow nothing where
#: scores are compared without division.
_SCREENED = 2.0**100
#: By how much such a comparison may err, relative to the score.
_MARGIN = 2.0**-40
#: Bytes of a candidate, and of the sums of a node; see `kernels/split_search.cl`.
_CANDIDATE_BYTES, _TOTAL_BYTES = 40, 16


class DeviceSplitSearch:
    """Searches splits by numerical features, of one output and without constraints.

    Splits are those of `hornbeam.kernels.split.find_splits`, to the bit.

    Parameters
    ----------
    queue
        Of the device.
    histograms
        That are searched.
    layout
        Of the histograms.
    """

    def __init__(
        self, queue: DeviceQueue, histograms: DeviceHistograms, layout: HistogramLayout
    ) -> None:
        self._queue, self._histograms = queue, histograms
        self._table, self._n_bins = layout.feature_table, layout.n_histogram_bins
        self._chosen, self._block = np.empty(0, np.uint64), 1
        self._features = queue.empty(0)
        #: As kernels take them; other trees may have others.
        self._rules, self._known_rules = queue.empty(0), b""
        #: The sums of the rows of the node in each slot.
        self._totals, self._n_slots = queue.empty(0), 0
        self._found, self._n_found = queue.empty(0), 0
        self._splits, self._n_splits = queue.empty(0), 0

    def find_splits(self, search: SplitSearch) -> NDArray[Any]:
        """Wait, and return the best split of each node, (nodes,) `SPLIT_DTYPE`.

        The histograms of ``search.built`` have been built in their slots.
        """
        queue, sums = self._queue, self._histograms.sums
        self._choose(self._histograms.chosen)
        n_nodes, n_features = search.slots.size, self._chosen.size
        blocks = -(-n_features // self._block)
        self._reserve(n_nodes, n_nodes * blocks)
        totals, bins = self._totals, np.uint32(self._n_bins)
        nodes, every_row = queue.copy_of(_searched(search)), search.every_row
        own = bins, nodes, *every_row.astype(np.uint32), totals
        queue.run("sum_nodes", n_nodes, sums, *own)
        rules, table = _rules(search), search.allowed.shape[1]
        if rules.tobytes() != self._known_rules:
            self._known_rules, self._rules = rules.tobytes(), queue.copy_of(rules)
        queue.run(
            "search_splits",
            n_nodes * blocks,
            sums,
            bins,
            nodes,
            totals,
            self._features,
            *map(np.uint32, (n_features, self._block, blocks)),
            queue.copy_of(search.allowed) if table > 0 else self._found,  # or none
            np.uint32(table),
            self._rules,
            self._found,
        )
        own = self._found, np.uint32(blocks), nodes, totals, self._rules
        queue.run("choose_splits", n_nodes, *own, self._splits)
        return queue.read(self._splits, np.empty(n_nodes, SPLIT_DTYPE))

    def _choose(self, features: NDArray[np.uint64]) -> None:
        """Search these features from now on."""
        if np.array_equal(features, self._chosen):
            return
        own = self._table[features]
        numbers = np.zeros((features.size, 4), np.int32)
        numbers[:, 0] = features
        numbers[:, 1], numbers[:, 2] = own["cell"], own["bins"]
        self._chosen, self._features = features, self._queue.copy_of(numbers)
        is_core = self._queue.device.options.group_size == 1
        self._block = max(1, _LEAST_BINS // int(own["bins"].max())) if is_core else 1

    def _reserve(self, nodes: int, candidates: int) -> None:
        """Make space for so many nodes, for their candidates, and for all slots."""
        queue, slots = self._queue, self._histograms.n_slots
        if slots > self._n_slots:
            old, old_bytes = self._totals, _TOTAL_BYTES * self._n_slots
            self._totals, self._n_slots = queue.empty(_TOTAL_BYTES * slots), slots
            queue.copy(old, self._totals, old_bytes)
        if candidates > self._n_found:
            self._n_found = candidates
            self._found = queue.empty(_CANDIDATE_BYTES * candidates)
        if nodes > self._n_splits:
            self._n_splits = nodes
            self._splits = queue.empty(SPLIT_DTYPE.itemsize * nodes)


def _rules(search: SplitSearch) -> NDArray[np.float64]:
    """Return the rules of a search as kernels take them."""
    scales, rules = search.scales, search.rules
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
            rules.max_delta_step if rules.max_delta_step > 0.0 else np.inf,
            rules.min_child_weight,
            *scales,
            1.0 - _MARGIN if screens else 0.0,
        ]
    )


def _searched(search: SplitSearch) -> NDArray[np.int32]:
    """Return for each node its slot, and that of the sibling to subtract or -1."""
    _, slots, parents = search.built
    taken = parents >= 0
    sibling_of = dict(zip(parents[taken].tolist(), slots[taken].tolist(), strict=True))
    nodes = [(slot, sibling_of.get(slot, -1)) for slot in search.slots.tolist()]
    return np.array(nodes, np.int32)
