"""Gradient histograms of nodes, built on the device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.opencl.column_groups import ColumnGroups, group_columns
from hornbeam.backends.opencl.devices import Device
from hornbeam.backends.opencl.partition import DevicePartition, Run
from hornbeam.backends.opencl.queue import Buffer, DeviceQueue, tiles_of
from hornbeam.binning.layout import HistogramLayout
from hornbeam.kernels.layout import BLOCK_ROWS

__all__ = [
    "BUILT_BYTES",
    "DeviceHistograms",
    "histogram_bytes",
    "pack_rows",
    "words_of_row",
]

#: A node whose histogram is built, as kernels take it; see `kernels/histogram.cl`.
_BUILT = np.dtype(
    [(name, np.int32) for name in ("first_task", "place", "side", "sums")]
)
BUILT_BYTES = _BUILT.itemsize

#: The most memory for histograms that stay on a device, and its share of all.
_MOST_BYTES, _SHARE = 1 << 30, 8

#: Work-groups for each compute unit that share the rows of the histograms of a level.
_GROUPS_PER_UNIT = 8
#: The least rows of such a group: it adds its sums to the node's histogram at the end.
_LEAST_ROWS = 1 << 11


def histogram_bytes(device: Device) -> int:
    """Return the most memory of a device for histograms that stay there."""
    return min(_MOST_BYTES, device.memory // _SHARE, device.largest_buffer)


def words_of_row(columns: int, kind: np.dtype[np.integer]) -> int:
    """Return the words of 32 bits that the bins of a row take, of this type."""
    return -(-columns * kind.itemsize // 4)


def pack_rows(
    queue: DeviceQueue,
    bins: Buffer,
    steps: tuple[int, int],
    rows: int,
    columns: int,
    words: range,
    row_words: int,
    by_row: Buffer,
) -> None:
    """Write the bins of each row side by side, and zeros in the rest of whole words.

    Parameters
    ----------
    queue
        Of the device.
    bins
        Of all columns.
    steps
        The places from a bin to that of the next column, and of the next row.
    rows, columns
        Number of rows, and of all columns.
    words, row_words
        The words of a row to write, and their number in a whole row.
    by_row
        (rows, row_words) uint32, out.
    """
    sizes = map(np.uint32, (rows, columns, words.start, words.stop, row_words))
    tiles = tiles_of(rows)
    queue.run("pack_rows", tiles, bins, *map(np.uint64, steps), *sizes, by_row)


class DeviceHistograms:
    """Histograms of the columns of a tree, summed on the device.

    A level calls `begin` or `begin_in`, and any number of `add`, of one block of rows
    or of several. Then the histograms are read, or searched where they are; on the
    first of several devices after those of the others have been added (`add_others`).

    Parameters
    ----------
    queue
        Of the device.
    layout
        Of the histograms.
    kind
        The type of bins.

    Attributes
    ----------
    row_words
        Words of 32 bits of a row.
    chosen
        The features of `choose`.
    sums
        The buffer of the histograms, (n_slots, parts, bins) int64.
    n_slots
        Number of histograms that there is memory for.
    parts
        Gradients and hessians of each column, then perhaps rows.
    """

    def __init__(
        self, queue: DeviceQueue, layout: HistogramLayout, kind: np.dtype[np.integer]
    ) -> None:
        self._queue, self._layout = queue, layout
        self._bins_per_word = 4 // kind.itemsize
        self.row_words = words_of_row(layout.n_columns, kind)
        self._columns_of_features = layout.column_of
        self.chosen = np.empty(0, np.uint64)
        self._groups: dict[bool, tuple[ColumnGroups, list[Buffer]]] = {}
        self.sums, self._n_sums = queue.empty(0), 0
        self.n_slots, self.parts = 0, 2
        self._ones, self._n_ones = queue.empty(0), 0
        self._others, self._other_bytes = queue.empty(0), 0

    def choose(self, features: NDArray[np.uint64]) -> None:
        """Build histograms of the columns of these features from now on."""
        if not np.array_equal(features, self.chosen):
            self.chosen, self._groups = features, {}

    def begin(self, nodes: int, out: NDArray[np.int64], columns: int) -> bool:
        """Begin with histograms of zeros, which will be written to `out`.

        Parameters
        ----------
        nodes
            Number of nodes.
        out
            As for `Rows.build_histograms`.
        columns
            Number of gradient columns.

        Returns
        -------
        Whether rows are counted, too.
        """
        counts_rows = out.shape[2] > 2 or len(out) > columns
        self.begin_in(np.arange(nodes), columns, counts_rows)
        return counts_rows

    def begin_in(
        self, slots: NDArray[np.integer], columns: int = 1, counts_rows: bool = False
    ) -> None:
        """Begin with histograms of zeros in these slots; those in others stay."""
        self._columns, self.parts = columns, 2 * columns + counts_rows
        self.reserve(int(slots.max()) + 1)
        self._slots = slots
        self._on_all("clear_histograms")

    def reserve(self, slots: int) -> None:
        """Make space for so many histograms."""
        queue, size = self._queue, self.parts * self._layout.n_histogram_bins
        if slots * size > self._n_sums:
            old, old_bytes = self.sums, 8 * self._n_sums
            self._n_sums = max(slots * size, self._n_sums * 5 // 4)
            self.sums = queue.empty(8 * self._n_sums)
            queue.copy(old, self.sums, old_bytes)
        self.n_slots = self._n_sums // size

    def clear_first(self, run: Run, slots: int) -> None:
        """Clear the histograms of one column in the first slots, of so many."""
        self._columns, self.parts = 1, 2
        self.reserve(slots)
        self._slots = np.arange(slots)
        self._on_all("clear_histograms", run=run)

    def add_others(self, found: NDArray[np.int64]) -> None:
        """Add what `read` returned on another device, or a sum of it."""
        queue = self._queue
        if found.nbytes > self._other_bytes:
            self._other_bytes = found.nbytes
            self._others = queue.empty(found.nbytes)
        queue.write(self._others, found)
        self._on_all("add_histograms", self._others)

    def _on_all(self, kernel: str, *before: Buffer, run: Run | None = None) -> None:
        """Run a kernel on the histograms that have begun, or record it."""
        queue, size = self._queue, self.parts * self._layout.n_histogram_bins
        slots, tiles = queue.copy_of(self._slots.astype(np.uint32)), tiles_of(size)
        own = slots, np.uint32(tiles), np.uint32(size), self.sums
        (run or queue.run)(kernel, tiles * self._slots.size, *before, *own)

    def add(
        self,
        kind: int,
        by_row: Buffer,
        words: range,
        partition: DevicePartition,
        nodes: NDArray[np.intp],
        pairs: Buffer,
        is_wide: bool,
    ) -> None:
        """Add pairs of numbers of each row to the histograms of one kind.

        Parameters
        ----------
        kind
            The number of the gradient column, or that of columns to count rows.
        by_row
            The bins of the rows; see `pack_rows`.
        words
            Of a row: build the groups of columns that end in one of these.
        partition
            In which the rows of `nodes` are.
        pairs, is_wide
            Packed or wide pairs, by row.
        """
        sizes, of_node = partition.most_rows(nodes), np.zeros(nodes.size + 1, _BUILT)
        task_rows = self.task_rows(int(sizes.sum()))
        np.cumsum(-(-sizes // task_rows), out=of_node["first_task"][1:])
        of_node["place"][:-1], of_node["side"][:-1] = 1 + nodes, partition.sides(nodes)
        part = min(2 * kind, self.parts - 2)
        of_node["sums"][:-1] = self._slots * self.parts + part
        self.add_from(
            self._queue.run,
            self._queue.copy_of(of_node),
            nodes.size,
            int(of_node["first_task"][-1]),
            task_rows,
            by_row,
            words,
            partition,
            pairs,
            is_wide,
        )

    def task_rows(self, rows: int) -> int:
        """Return how many rows a work-group adds, of so many in all nodes."""
        shared = rows // (_GROUPS_PER_UNIT * self._queue.device.units) + 1
        return min(max(shared, _LEAST_ROWS), BLOCK_ROWS)

    def add_from(
        self,
        run: Run,
        built: Buffer,
        count: int,
        tasks: int,
        task_rows: int,
        by_row: Buffer,
        words: range,
        partition: DevicePartition,
        pairs: Buffer,
        is_wide: bool,
    ) -> None:
        """Do the same for nodes on the device.

        Parameters
        ----------
        run
            Starts kernels, or records them.
        built
            The nodes as kernels take them.
        count, tasks
            Number of nodes, and the most tasks of all.
        task_rows
            Rows of a task.
        by_row, words, partition, pairs, is_wide
            As for `add`.
        """
        groups, lists = self._groups_for(is_wide)
        last_words = groups.words[groups.groups[:, 1] - 1, 0]
        own = np.searchsorted(last_words, (words.start, words.stop))
        run(
            "build_wide" if is_wide else "build_packed",
            (tasks, int(own[1] - own[0])),
            by_row,
            np.uint32(self.row_words),
            np.uint32(partition.n_rows),
            partition.rows,
            partition.extents,
            built,
            np.uint32(count),
            np.uint32(task_rows),
            *lists[:2],
            np.uint32(own[0]),
            lists[2],
            self.sums,
            np.uint32(self._layout.n_histogram_bins),
            pairs,
            groups.most_cells * (16 if is_wide else 8),
        )

    def unit_hessians(self, rows: int) -> Buffer:
        """Return packed pairs of gradient 0 and hessian 1 for each row."""
        if rows > self._n_ones:
            self._n_ones, self._ones = rows, self._queue.empty(8 * rows)
            self._queue.run("fill_ones", tiles_of(rows), np.uint32(rows), self._ones)
        return self._ones

    def read(self) -> NDArray[np.int64]:
        """Wait, and return the histograms, (nodes, parts, bins)."""
        shape = self._slots.size, self.parts, self._layout.n_histogram_bins
        return self._queue.read(self.sums, np.empty(shape, np.int64))

    def write(
        self,
        found: NDArray[np.int64],
        slots: NDArray[np.intp],
        out: NDArray[np.int64],
    ) -> None:
        """Write what `read` returned, or a sum of it, to the slots of the nodes."""
        columns = self._columns
        own = found[:, : 2 * columns].reshape(len(found), columns, 2, -1)
        out[:columns, slots, :2] = own.swapaxes(0, 1)
        if out.shape[2] > 2:
            out[0, slots, 2] = found[:, -1]
        elif len(out) > columns:
            out[-1, slots, 1] = found[:, -1]

    def _groups_for(self, is_wide: bool) -> tuple[ColumnGroups, list[Buffer]]:
        """Return the groups of the tree's columns, on the host and on the device."""
        if is_wide not in self._groups:
            groups = group_columns(
                self._layout,
                np.unique(self._columns_of_features[self.chosen]),
                self._bins_per_word,
                self._queue.device.options.local_bytes // (16 if is_wide else 8),
            )
            lists = groups.groups, groups.words, groups.bin_of_cell
            self._groups[is_wide] = groups, [self._queue.copy_of(own) for own in lists]
        return self._groups[is_wide]
