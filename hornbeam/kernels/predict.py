"""Sums of leaf values over trees, and the leaf indices of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.sync import next_task

__all__ = [
    "FEATURE",
    "FEATURE_BITS",
    "MOST_LEVELS",
    "PREDICT_ROWS",
    "ROWS_OF_LARGE",
    "TREES_AT_ONCE",
    "PackedNodes",
    "add_trees",
    "add_trees_to_few",
    "any_missing",
    "find_leaves",
    "goes_right",
    "goes_right_mixed",
    "next_place",
    "reach_leaves",
]

#: Rows that descend a tree together: their steps are independent of one another, and
#: the tree's nodes stay in the cache.
PREDICT_ROWS = 64
#: The same for large trees, whose nodes do not stay in the first cache between trees.
ROWS_OF_LARGE = 2048

#: Trees that a single row descends together, for the same reason.
TREES_AT_ONCE = 16

#: A node is one word: the position of its left child in the upper half, below it
#: whether missing values go right, and the feature in the lowest bits.
FEATURE_BITS = 31
#: The bits of the feature in a node.
FEATURE = np.uint64((1 << FEATURE_BITS) - 1)
_MISSING = np.uint64(FEATURE_BITS)
_LEFT = np.uint64(32)
_ONE = np.uint64(1)

#: Deeper trees are mostly unbalanced: a few rows at a time descend to their leaves.
MOST_LEVELS = 12
_SIDE_BY_SIDE = 8


class PackedNodes(NamedTuple):
    """The nodes of all trees, end to end.

    Attributes
    ----------
    nodes
        (nodes,) uint64, see FEATURE_BITS. A leaf is its own left child.
    thresholds
        (nodes,) of the type of the data; NaN at leaves.
    category_spans
        (nodes, 2) int64: the first word of the categories that go right, and the number
        of categories; -1 at splits by threshold. No rows without splits by category.
    category_bits
        (words,) uint64: bit sets of the categories that go right.
    """

    nodes: NDArray[np.uint64]
    thresholds: NDArray[Any]
    category_spans: NDArray[np.int64]
    category_bits: NDArray[np.uint64]


@inline
def _next_place(value, node, threshold):
    """Return the next position of a row without missing values."""
    return np.int32(node >> _LEFT) + np.int32(value >= threshold)


@inline
def goes_right(value, node, threshold):
    """Return 1 if a row goes right, whose value may be missing, else 0."""
    missing_right = np.int32((node >> _MISSING) & _ONE)
    return missing_right if value != value else np.int32(value >= threshold)


@inline
def _next_place_missing(value, node, threshold):
    """Return the next position of a row whose value may be missing."""
    return np.int32(node >> _LEFT) + goes_right(value, node, threshold)


@kernel
def _descend_whole(data, root, depth, packed, places):
    """Write the leaf positions of rows without missing values in one tree.

    A leaf is its own left child, and no row goes right of it: its threshold is NaN.
    """
    nodes, thresholds = packed.nodes, packed.thresholds
    node = nodes[np.uint64(root)]
    threshold = thresholds[np.uint64(root)]
    column = data[:, node & FEATURE]
    for i in range(column.size):
        places[i] = _next_place(column[i], node, threshold)
    for _ in range(depth - 1):
        for i in range(data.shape[0]):
            place = np.uint64(places[i])
            node = nodes[place]
            value = data[i, node & FEATURE]
            places[i] = _next_place(value, node, thresholds[place])


@inline
def _descend(data, root, depth, packed, places):
    """Write the leaf positions of any rows in any tree of numerical splits."""
    nodes, thresholds = packed.nodes, packed.thresholds
    if depth > MOST_LEVELS:
        for begin in range(0, data.shape[0], _SIDE_BY_SIDE):
            end = min(begin + _SIDE_BY_SIDE, data.shape[0])
            for i in range(begin, end):
                places[i] = root
            moved = np.uint64(1)
            while moved != 0:
                moved = np.uint64(0)
                for i in range(begin, end):
                    place = np.uint64(places[i])
                    node = nodes[place]
                    value = data[i, node & FEATURE]
                    after = _next_place_missing(value, node, thresholds[place])
                    moved |= np.uint64(after) ^ place
                    places[i] = after
        return
    for i in range(data.shape[0]):
        places[i] = root
    for _ in range(depth):
        for i in range(data.shape[0]):
            place = np.uint64(places[i])
            node = nodes[place]
            value = data[i, node & FEATURE]
            places[i] = _next_place_missing(value, node, thresholds[place])


@inline
def goes_right_mixed(value, place, node, threshold, packed):
    """Return 1 if a row goes right, where the split may be by category, else 0."""
    spans, rights = packed.category_spans, packed.category_bits
    first, count = spans[place, np.uint64(0)], spans[place, np.uint64(1)]
    if first < 0:
        return goes_right(value, node, threshold)
    right = np.int32(0)
    if value != value:
        right = np.int32((node >> _MISSING) & _ONE)
    elif value >= 0 and value < count:
        category = np.uint64(value)
        word = rights[np.uint64(first) + (category >> np.uint64(6))]
        right = np.int32((word >> (category & np.uint64(63))) & _ONE)
    return right


@inline
def _next_place_mixed(value, place, node, threshold, packed):
    """Return the next position of a row where the split may be by category."""
    right = goes_right_mixed(value, place, node, threshold, packed)
    return np.int32(node >> _LEFT) + right


@inline
def next_place(row, is_mixed, place, packed):
    """Return the next position of one row; that of a leaf is its own."""
    node, threshold = packed.nodes[place], packed.thresholds[place]
    value = row[node & FEATURE]
    if is_mixed:
        after = _next_place_mixed(value, place, node, threshold, packed)
        return np.uint64(after)
    return np.uint64(_next_place_missing(value, node, threshold))


@kernel
def _descend_mixed(data, root, depth, packed, places):
    """Write the leaf positions of any rows in a tree with splits by category."""
    nodes, thresholds = packed.nodes, packed.thresholds
    for i in range(data.shape[0]):
        places[i] = root
    moved = 1
    step = 0
    while moved != 0 and step < depth:
        moved = 0
        for i in range(data.shape[0]):
            place = np.uint64(places[i])
            node = nodes[place]
            value = data[i, node & FEATURE]
            after = _next_place_mixed(value, place, node, thresholds[place], packed)
            moved |= np.int64(after) ^ np.int64(place)
            places[i] = after
        step += 1


@inline
def any_missing(data):
    """Return whether any value is missing."""
    missing = 0
    for i in range(data.shape[0]):
        for f in range(data.shape[1]):
            missing |= data[i, f] != data[i, f]
    return missing != 0


@inline
def reach_leaves(data, has_missing, root, packed, places):
    """Write the leaf positions of rows in a tree, by the fastest loop that fits."""
    if root[3] > 0:
        _descend_mixed(data, root[0], root[1], packed, places)
    elif has_missing or root[1] > MOST_LEVELS:
        _descend(data, root[0], root[1], packed, places)
    else:
        _descend_whole(data, root[0], root[1], packed, places)


@kernel
def add_trees(
    thread_id,
    n_threads,
    sync,
    data,  # (rows, features) float32 or float64, row-major, NaN missing
    roots,  # (trees, 4) int32: root's position, depth, output, splits by category
    packed,  # PackedNodes
    values,  # (nodes,) float32
    places,  # (threads, rows that descend together) int32, scratch
    margins,  # (rows, outputs) float32 or float64, in and out
):
    """Add the leaf values of all trees to the margins of rows, in the trees' order."""
    rows = data.shape[0]
    own = places[thread_id]
    together = own.size
    task = next_task(sync, 0)
    while task * together < rows:
        begin = task * together
        block = data[begin : begin + together]
        own_margins = margins[begin : begin + together]
        has_missing = any_missing(block)
        for t in range(roots.shape[0]):
            reach_leaves(block, has_missing, roots[t], packed, own)
            sums = own_margins[:, np.uint64(roots[t, 2])]
            for i in range(sums.size):
                sums[i] += values[np.uint64(own[i])]
        task = next_task(sync, 0)


@kernel
def add_trees_to_few(
    data,  # (rows, features) float32 or float64, row-major, NaN missing
    roots,  # (trees, 4) int32: root's position, depth, output, splits by category
    nodes,  # (nodes,) uint64, see FEATURE_BITS
    thresholds,  # (nodes,) of the type of data; NaN at leaves
    spans,  # (nodes, 2) int64: first word and number of categories; -1 by threshold
    rights,  # (words,) uint64: the categories that go right
    values,  # (nodes,) float32
    places,  # (TREES_AT_ONCE,) int32, scratch
    margins,  # (rows, outputs) float32 or float64, in and out
):
    """Do the same as `add_trees` for a few rows, each of which descends many trees.

    The arrays come one by one, because a tuple takes half a microsecond longer to pass,
    which counts for a single row.
    """
    packed = PackedNodes(nodes, thresholds, spans, rights)
    by_category = spans.shape[0] > 0
    for i in range(data.shape[0]):
        row, sums = data[i], margins[i]
        for begin in range(0, roots.shape[0], places.size):
            these = roots[begin : begin + places.size]
            levels = np.int32(0)
            for t in range(these.shape[0]):
                places[t] = these[t, 0]
                levels = max(levels, these[t, 1])
            moved = np.uint64(1)
            while moved != 0 and levels > 0:
                moved = np.uint64(0)
                levels -= 1
                for t in range(these.shape[0]):
                    place = np.uint64(places[t])
                    after = next_place(row, by_category, place, packed)
                    moved |= after ^ place
                    places[t] = np.int32(after)
            for t in range(these.shape[0]):
                sums[np.uint64(these[t, 2])] += values[np.uint64(places[t])]


@kernel
def find_leaves(
    thread_id,
    n_threads,
    sync,
    data,  # (rows, features) float32 or float64, row-major, NaN missing
    roots,  # (trees, 4) int32: root's position, depth, output, splits by category
    packed,  # PackedNodes
    numbers,  # (nodes,) int32: the node's index in its tree
    places,  # (threads, rows that descend together) int32, scratch
    leaves,  # (rows, trees) float32, out
):
    """Write the index of the leaf of each row in each tree."""
    rows = data.shape[0]
    own = places[thread_id]
    together = own.size
    task = next_task(sync, 0)
    while task * together < rows:
        begin = task * together
        block = data[begin : begin + together]
        for t in range(roots.shape[0]):
            reach_leaves(block, True, roots[t], packed, own)
            for i in range(block.shape[0]):
                leaves[begin + i, t] = numbers[np.uint64(own[i])]
        task = next_task(sync, 0)
