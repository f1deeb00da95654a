"""Sums of leaf values over trees, and the leaves that rows fall into."""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.sync import next_task

__all__ = ["PREDICT_ROWS", "add_trees", "find_leaves"]

#: Rows that go down a tree together: their steps do not wait for one another, and
#: the tree's nodes stay in the cache.
PREDICT_ROWS = 64


@inline
def _descend(data, begin, count, root, depth, nodes, thresholds, has_nan, places):
    """Send rows down one tree, level by level, and leave their leaves in `places`.

    A leaf's children are itself: its threshold is NaN, so nothing goes right.
    """
    for i in range(count):
        places[i] = root
    for _ in range(depth):
        moved = False
        for i in range(count):
            place = np.uint64(places[i])
            value = data[begin + np.uint64(i), np.uint64(nodes[place, 0])]
            right = np.int32(value >= thresholds[place])
            if has_nan and value != value:
                right = nodes[place, 2]
            after = nodes[place, 1] + right
            moved |= after != nodes[place, 1] or after != np.int32(place)
            places[i] = after
        if not moved:
            break


@inline
def _any_nan(data, begin, count):
    found = False
    for i in range(count):
        for f in range(data.shape[1]):
            value = data[begin + np.uint64(i), f]
            found |= value != value
    return found


@kernel
def add_trees(
    member,
    members,
    sync,
    data,  # (rows, features) float32 or float64, row-major, NaN missing
    roots,  # (trees, 3) int32: root's place, depth, output
    nodes,  # (nodes, 3) int32: feature, place of the left child, missing goes right
    thresholds,  # (nodes,) of the type of data; NaN at leaves
    values,  # (nodes,) float32
    places,  # (members, 64) int32, scratch
    margins,  # (rows, outputs) float32 or float64, in and out
):
    """Add to each row's margins the value of its leaf in every tree, in their order."""
    rows = data.shape[0]
    own = places[member]
    task = next_task(sync, 0)
    while task * PREDICT_ROWS < rows:
        begin = np.uint64(task * PREDICT_ROWS)
        count = min(PREDICT_ROWS, rows - task * PREDICT_ROWS)
        has_nan = _any_nan(data, begin, count)
        for t in range(roots.shape[0]):
            _descend(
                data, begin, count, roots[t, 0], roots[t, 1], nodes, thresholds,
                has_nan, own,
            )  # fmt: skip
            output = np.uint64(roots[t, 2])
            for i in range(count):
                margins[begin + np.uint64(i), output] += values[np.uint64(own[i])]
        task = next_task(sync, 0)


@kernel
def find_leaves(
    member,
    members,
    sync,
    data,  # (rows, features) float32 or float64, row-major, NaN missing
    roots,  # (trees, 3) int32: root's place, depth, output
    nodes,  # (nodes, 3) int32: feature, place of the left child, missing goes right
    thresholds,  # (nodes,) of the type of data; NaN at leaves
    numbers,  # (nodes,) int32: the node's number in its tree
    places,  # (members, 64) int32, scratch
    leaves,  # (rows, trees) float32, out
):
    """Write the number of the leaf that each row falls into, tree by tree."""
    rows = data.shape[0]
    own = places[member]
    task = next_task(sync, 0)
    while task * PREDICT_ROWS < rows:
        begin = np.uint64(task * PREDICT_ROWS)
        count = min(PREDICT_ROWS, rows - task * PREDICT_ROWS)
        for t in range(roots.shape[0]):
            _descend(
                data, begin, count, roots[t, 0], roots[t, 1], nodes, thresholds,
                True, own,
            )  # fmt: skip
            for i in range(count):
                leaves[begin + np.uint64(i), t] = numbers[np.uint64(own[i])]
        task = next_task(sync, 0)
