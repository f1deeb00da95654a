"""Sums of leaf values for many rows: values become codes once, and trees compare codes.

What a forest asks of a feature is only which of its thresholds lie above a value: a
number of one byte. The first levels of a tree are then compared as a whole, node after
node with a column of codes of all rows: loops over bytes, of which vectors hold 32 or
64. The rows go on from there one by one.
"""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.binning import bin_column
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.sync import next_task

__all__ = ["CODED_ROWS", "CODE_BITS", "MOST_CUTS", "TOP_LEVELS", "add_coded_trees"]

#: Rows that go down a tree together: the loop over each node is long enough to begin.
CODED_ROWS = 1024
#: Levels that are compared as a whole: of the next, twice as many nodes would cost more
#: than a step of each row.
TOP_LEVELS = 6
#: Thresholds of one feature: codes are one more, in one byte.
MOST_CUTS = 255
#: A split is the number of its column of codes, and in so many bits below it the least
#: code that goes right. At a leaf that is more than any code.
CODE_BITS = 9

_CODE = np.uint64((1 << CODE_BITS) - 1)
_COLUMN = np.uint64((1 << (32 - CODE_BITS)) - 1)
_SHIFT = np.uint64(CODE_BITS)
_LEFT = np.uint64(32)


@inline
def _encode(data, run, columns, cuts, lane, position, codes):
    """Write the columns of codes that a run of trees compares."""
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
            codes[number - run["first_column"]],
        )


@kernel
def _descend_top(codes, splits, levels, rights, places):
    """Send rows down the first levels of a tree, which has all nodes there."""
    for i in range(places.size):
        places[i] = 0
    first = 0
    for level in range(levels):
        for i in range(places.size):
            rights[i] = 0
        for place in range(1 << level):
            split = np.uint64(splits[first + place])
            code, here = np.uint8(split & _CODE), np.uint8(place)
            column = codes[split >> _SHIFT]
            for i in range(places.size):
                rights[i] |= np.uint8((places[i] == here) & (column[i] >= code))
        for i in range(places.size):
            places[i] = np.uint8(np.uint8(places[i] << np.uint8(1)) | rights[i])
        first += 1 << level


@kernel
def _descend(codes, nodes, steps, places):
    """Send rows on, step by step."""
    for _ in range(steps):
        for i in range(places.size):
            node = nodes[np.uint64(places[i])]
            code = np.uint64(codes[(node >> _SHIFT) & _COLUMN, i])
            places[i] = np.uint32(node >> _LEFT) + np.uint32(code >= (node & _CODE))


@kernel
def add_coded_trees(
    thread_id,
    n_threads,
    sync,
    data,  # (rows, features) float32 or float64, row-major, NaN missing
    roots,  # (trees, 4) int32: as in `hornbeam.kernels.predict`
    runs,  # (runs,) RUN_DTYPE
    columns,  # (columns of all runs,) CODED_DTYPE
    cuts,  # (cuts of all columns,) of the type of data; NaN where there are no more
    tops,  # (trees, top nodes) uint32: the splits of the first levels of each tree
    entries,  # (trees, top nodes + 1) uint32: the places where they lead
    nodes,  # (nodes,) uint64: the place of the left child above, the split below
    values,  # (nodes,) float32
    lanes,  # (members, rows that go together) of the type of data, scratch
    places,  # (members, rows that go together) uint32, scratch
    tracks,  # (members, 2, rows that go together) uint8, scratch
    codes,  # (members, most columns of a run, rows that go together) uint8, scratch
    margins,  # (rows, outputs) float32 or float64, in and out
):
    """Add to each row's margins the value of its leaf in every tree, in their order.

    As `hornbeam.kernels.predict.add_trees`.
    """
    rows = data.shape[0]
    together = lanes.shape[1]
    task = next_task(sync, 0)
    while task * together < rows:
        begin = task * together
        block = data[begin : begin + together]
        own_margins = margins[begin : begin + together]
        size = block.shape[0]
        rights, top_places = tracks[thread_id, 0, :size], tracks[thread_id, 1, :size]
        own_codes, own_places = codes[thread_id], places[thread_id, :size]
        for r in range(runs.size):
            run = runs[r]
            _encode(
                block,
                run,
                columns,
                cuts,
                lanes[thread_id],
                places[thread_id],
                own_codes,
            )
            for t in range(run["begin"], run["end"]):
                depth = roots[t, 1]
                levels = min(depth, TOP_LEVELS)
                _descend_top(own_codes, tops[t], levels, rights, top_places)
                for i in range(size):
                    own_places[i] = entries[t, np.uint64(top_places[i])]
                _descend(own_codes, nodes, depth - levels, own_places)
                sums = own_margins[:, np.uint64(roots[t, 2])]
                for i in range(size):
                    sums[i] += values[np.uint64(own_places[i])]
        task = next_task(sync, 0)
