"""Sums of leaf values for many rows, by trees that compare bin indices.

Each value is binned once by the thresholds of the trees: a number of one byte. The
first levels of a tree are then evaluated as a whole, node by node with a column of bin
indices of all rows: loops over bytes, of which SIMD vectors hold 32 or 64. From there
on, rows descend one by one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.binning import bin_column
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.sync import next_task

__all__ = [
    "BINNED_ROWS",
    "BIN_BITS",
    "MOST_CUTS",
    "TOP_LEVELS",
    "BinnedScratch",
    "add_binned_trees",
]

#: Rows that descend a tree together: enough to amortise the start of a vector loop.
BINNED_ROWS = 1024
#: Levels that are evaluated as a whole: the twice as many nodes of the next level would
#: cost more than one step of each row.
TOP_LEVELS = 6
#: The most thresholds of one feature; there is one more bin, and a bin is one byte.
MOST_CUTS = 255
#: A split is the number of its bin column, and in so many bits below it the least bin
#: that goes right. At a leaf that is larger than any bin.
BIN_BITS = 9

_BIN = np.uint64((1 << BIN_BITS) - 1)
_COLUMN = np.uint64((1 << (32 - BIN_BITS)) - 1)
_SHIFT = np.uint64(BIN_BITS)
_LEFT = np.uint64(32)


class BinnedScratch(NamedTuple):
    """Scratch arrays; `rows` are those that descend together.

    Attributes
    ----------
    values
        (threads, rows) of the type of the data.
    places
        (threads, rows) uint32.
    tracks
        (threads, 2, rows) uint8.
    bins
        (threads, most columns of a run, rows) uint8.
    """

    values: NDArray[Any]
    places: NDArray[np.uint32]
    tracks: NDArray[np.uint8]
    bins: NDArray[np.uint8]


@inline
def _bin_columns(data, run, columns, cuts, lane, position, bins):
    """Write the columns of bin indices that a run of trees compares."""
    for number in range(run["first_column"], run["end_column"]):
        column = columns[number]
        values = lane[: data.shape[0]]
        for i in range(values.size):
            values[i] = data[i, column["feature"]]
        first, steps = column["first_cut"], column["steps"]
        bin_column(
            values,
            cuts[first : first + (1 << steps)],
            steps,
            column["missing_code"],
            position,
            bins[number - run["first_column"]],
        )


@kernel
def _descend_top(bins, splits, levels, rights, places):
    """Move rows down the first levels of a tree, where all nodes are present."""
    for i in range(places.size):
        places[i] = 0
    first = 0
    for level in range(levels):
        for i in range(places.size):
            rights[i] = 0
        for place in range(1 << level):
            split = np.uint64(splits[first + place])
            bin, here = np.uint8(split & _BIN), np.uint8(place)
            column = bins[split >> _SHIFT]
            for i in range(places.size):
                rights[i] |= np.uint8((places[i] == here) & (column[i] >= bin))
        for i in range(places.size):
            places[i] = np.uint8(np.uint8(places[i] << np.uint8(1)) | rights[i])
        first += 1 << level


@kernel
def _descend(bins, nodes, steps, places):
    """Move rows further down, step by step."""
    for _ in range(steps):
        for i in range(places.size):
            node = nodes[np.uint64(places[i])]
            bin = np.uint64(bins[(node >> _SHIFT) & _COLUMN, i])
            places[i] = np.uint32(node >> _LEFT) + np.uint32(bin >= (node & _BIN))


@kernel
def add_binned_trees(
    thread_id,
    n_threads,
    sync,
    data,  # (rows, features) float32 or float64, row-major, NaN missing
    roots,  # (trees, 4) int32: as in `hornbeam.kernels.predict`
    coded,  # `hornbeam.forest.layout.BinnedLayout`
    values,  # (nodes,) float32
    scratch,  # BinnedScratch
    margins,  # (rows, outputs) float32 or float64, in and out
):
    """Add the leaf values of all trees to the margins of rows, in the trees' order.

    The result is that of `hornbeam.kernels.predict.add_trees`.
    """
    runs, columns, cuts, tops, entries, nodes = coded
    lanes, places, tracks, bins = scratch
    rows = data.shape[0]
    together = lanes.shape[1]
    task = next_task(sync, 0)
    while task * together < rows:
        begin = task * together
        block = data[begin : begin + together]
        own_margins = margins[begin : begin + together]
        size = block.shape[0]
        rights, top_places = tracks[thread_id, 0, :size], tracks[thread_id, 1, :size]
        own_bins, own_places = bins[thread_id], places[thread_id, :size]
        for r in range(runs.size):
            run = runs[r]
            _bin_columns(
                block,
                run,
                columns,
                cuts,
                lanes[thread_id],
                places[thread_id],
                own_bins,
            )
            for t in range(run["begin"], run["end"]):
                depth = roots[t, 1]
                levels = min(depth, TOP_LEVELS)
                _descend_top(own_bins, tops[t], levels, rights, top_places)
                for i in range(size):
                    own_places[i] = entries[t, np.uint64(top_places[i])]
                _descend(own_bins, nodes, depth - levels, own_places)
                sums = own_margins[:, np.uint64(roots[t, 2])]
                for i in range(size):
                    sums[i] += values[np.uint64(own_places[i])]
        task = next_task(sync, 0)
