"""Trees that grow on a device, level by level, while the host waits once for each."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.interface import GrownTree, GrowthLimits
from hornbeam.backends.opencl.gradient_columns import DeviceColumn
from hornbeam.backends.opencl.histograms import BUILT_BYTES, DeviceHistograms
from hornbeam.backends.opencl.partition import NODE_BYTES, DevicePartition
from hornbeam.backends.opencl.queue import Buffer, DeviceQueue, Recording, tiles_of
from hornbeam.backends.opencl.split_search import DeviceSplitSearch
from hornbeam.backends.rows import SplitSearch
from hornbeam.binning.layout import HistogramLayout
from hornbeam.kernels.layout import SPLIT_DTYPE

__all__ = ["LevelGrower"]

#: Deeper trees have few nodes of those for which there would be kernels.
_DEEPEST = 10
_EVERY_LEAF = np.uint32(0xFFFFFFFF)


class _Tables(NamedTuple):
    """The nodes of trees of some depth, which `kernels/growth.cl` writes.

    The host reads the last three, which are parts of the `result`.
    """

    counts: Buffer
    nodes: Buffer
    lefts: Buffer
    searched: Buffer
    built: Buffer
    result: Buffer
    splits: Buffer
    sums: Buffer
    tree: Buffer


class LevelGrower:
    """Grows trees of one output by level, without constraints of nodes.

    A node has its place in tables that are large enough for all nodes of the depth; so
    the kernels and their arguments are the same in each tree. They are recorded once.
    Kernels of a level have a work-group for each node that there may be. The device
    chooses the nodes that are split, as `hornbeam.growth.grower` does.

    Parameters
    ----------
    queue
        Of the device.
    layout
        Of the histograms.
    histograms, partition, search
        Of the rows.
    by_row
        Their bins; see `pack_rows`.
    """

    def __init__(
        self,
        queue: DeviceQueue,
        layout: HistogramLayout,
        histograms: DeviceHistograms,
        partition: DevicePartition,
        search: DeviceSplitSearch,
        by_row: Buffer,
    ) -> None:
        self._queue, self._histograms = queue, histograms
        self._partition, self._search, self._by_row = partition, search, by_row
        self._features = queue.buffer_of(layout.feature_table)
        self._set_words = layout.n_set_words
        self._recording = Recording(queue)
        #: What was recorded.
        self._known: tuple[object, ...] = ()

    def can_grow(self, limits: GrowthLimits, max_histograms: int) -> bool:
        """Return whether trees of this size grow here, of so many histograms."""
        depth = limits.max_depth
        by_level = not (limits.lossguide or limits.symmetric or limits.prunes)
        fits = 0 < depth <= _DEEPEST and 1 << (depth - 1) <= max_histograms
        return by_level and fits

    def grow(
        self,
        search: SplitSearch,
        limits: GrowthLimits,
        column: DeviceColumn,
        leaf_column: DeviceColumn,
        leaf_of: Buffer,
    ) -> tuple[GrownTree, NDArray[np.int64]]:
        """Wait, and return the tree whose root has all its rows, and sums of leaves.

        Parameters
        ----------
        search
            The features, rules and scales of the splits; its nodes mean nothing.
        limits
            Of the tree.
        column, leaf_column
            The gradients that splits are searched by, and those that leaves are summed
            of.
        leaf_of
            (rows,) uint32, out: the leaf of each row.
        """
        queue, partition, depth = self._queue, self._partition, limits.max_depth
        are_known = self._search.prepare(search)
        partition.reserve(2 << depth)
        sizes = depth, limits.least_gain, limits.max_leaves
        own = column.quantised, column.is_wide, partition.extents
        made_of = *sizes, *own, self._histograms.chosen
        if not are_known or not _are_same(made_of, self._known):
            self._known = ()  # in case that this fails
            self._record(search, limits, column)
            self._known = made_of
        self._recording.start()
        tables = self._tables
        tiles = tiles_of(partition.n_rows) + (1 << (depth - 1))
        of_nodes = tables.nodes, tables.lefts, (1 << depth) - 1, tiles
        of_leaves = leaf_column.pair, leaf_column.per_unit, leaf_of, tables.sums
        partition.mark_from(*of_nodes, *of_leaves)
        found = queue.read(tables.result, np.empty(1, self._result))[0]
        splits, sums = found["splits"], found["sums"]
        n_nodes, n_leaves = found["tree"][0].tolist()
        left, place = np.ascontiguousarray(found["tree"][1 : 1 + n_nodes].T)
        inner = (left >= 0).nonzero()[0]
        own_splits = np.zeros(n_nodes, SPLIT_DTYPE)
        own_sets = np.zeros((n_nodes, splits["set"].shape[1]), np.uint64)
        own_splits[inner] = splits["split"][place[inner]]
        own_sets[inner] = splits["set"][place[inner]]
        parent = np.full(n_nodes, -1, np.int32)
        parent[left[inner]] = parent[left[inner] + 1] = inner
        partition.enter_tree(left, own_splits, own_sets, leaf_of)
        return GrownTree(left, parent, own_splits, own_sets), sums[:n_leaves]

    def _record(
        self, search: SplitSearch, limits: GrowthLimits, column: DeviceColumn
    ) -> None:
        """Record the kernels of a tree."""
        depth, recording = limits.max_depth, self._recording
        histograms, partition, own = self._histograms, self._partition, self._search
        recording.clear()
        run, most = recording.run, 1 << (depth - 1)
        histograms.clear_first(run, most)
        own.reserve(most)
        tables = self._tables = self._allocate(depth)
        n_rows, extents = partition.n_rows, partition.extents
        task_rows = histograms.task_rows(n_rows)
        counts, searched, built = tables.counts, tables.searched, tables.built
        planned = np.uint32(task_rows), extents, counts, searched, built
        run("plan_root", 1, *planned)
        of_rows = (
            task_rows,
            self._by_row,
            range(histograms.row_words),
            partition,
            column.quantised,
            column.is_wide,
        )
        most_leaves = np.uint32(limits.max_leaves) or _EVERY_LEAF
        set_words = np.uint32(self._set_words)
        record_words = np.uint32(own.record["set"].shape[0])
        for level in range(depth):
            size, first = 1 << level, (1 << level) - 1
            n_built = max(1, size // 2)
            tasks = -(-n_rows // task_rows) + n_built
            histograms.add_from(run, built, n_built, tasks, *of_rows)
            if level == 0:
                own.sum_nodes(run, searched, 1, search.every_row)
            own.search_from(run, searched, first, size, search, tables.splits)
            run(
                "plan_level",
                1,
                np.uint32(level),
                np.uint32(level + 1 == depth),
                np.float64(limits.least_gain),
                most_leaves,
                np.uint32(task_rows),
                tables.splits,
                record_words,
                self._features,
                set_words,
                extents,
                counts,
                tables.nodes,
                tables.lefts,
                searched,
                own.totals,
                built,
            )
            if level + 1 < depth:
                of_level = tables.nodes, tables.lefts, first, size
                partition.move_from(run, *of_level, tiles_of(n_rows) + size)
        own_tables = counts, extents, tables.nodes, tables.sums, tables.tree
        run("plan_leaves", 1, np.uint32(depth), *own_tables)

    def _allocate(self, depth: int) -> _Tables:
        """Return tables for trees of this depth."""
        queue, size = self._queue, 1 << depth
        parts = {
            "splits": np.dtype((self._search.record, (size,))),
            "sums": np.dtype((np.int64, (size, 2))),
            "tree": np.dtype((np.int32, (2 * size, 2))),
        }
        # A part of a buffer begins where the device can align it.
        step = queue.alignment
        sizes = [-(-part.itemsize // step) * step for part in parts.values()]
        begins = [0, *accumulate(sizes)]
        self._result = np.dtype(
            {
                "names": [*parts],
                "formats": [*parts.values()],
                "offsets": begins[:-1],
                "itemsize": begins[-1],
            }
        )
        result = queue.empty(begins[-1])
        splits, sums, tree = map(result.get_sub_region, begins, sizes)
        return _Tables(
            counts=queue.empty(4 * (depth + 1)),
            nodes=queue.empty(NODE_BYTES * size),
            lefts=queue.empty(8 * self._set_words * size),
            searched=queue.empty(8 * size),
            built=queue.empty(BUILT_BYTES * size),
            result=result,
            splits=splits,
            sums=sums,
            tree=tree,
        )


def _are_same(ones: tuple[object, ...], others: tuple[object, ...]) -> bool:
    """Return whether two recordings are made of the same objects and numbers."""
    return len(ones) == len(others) and all(
        one is other or (isinstance(one, int | float) and one == other)
        for one, other in zip(ones, others, strict=True)
    )
