"""Sums of leaf values over trees, and the leaf indices of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.margins import add_to_margins
from hornbeam.kernels.sync import next_task, prefetch

__all__ = [
    "FEATURE",
    "FEATURE_BITS",
    "MOST_LEVELS",
    "PREDICT_ROWS",
    "ROWS_OF_LARGE",
    "ROWS_OF_ONE",
    "TREES_AT_ONCE",
    "DescentScratch",
    "PackedNodes",
    "add_trees",
    "add_trees_to_few",
    "any_missing",
    "find_leaves",
    "goes_right",
    "goes_right_mixed",
    "mark_symmetric",
    "next_place",
    "pack_nodes",
    "reach_leaves",
]

#: Rows that descend a tree together: their steps are independent of one another, and
#: the tree's nodes stay in the cache.
PREDICT_ROWS = 64
#: The most for large trees, whose nodes do not stay in the first caches between trees.
ROWS_OF_LARGE = 1 << 14
#: The same for a single tree, whose nodes are in the caches: the rows are to stay there
#: from one loop over them to the next.
ROWS_OF_ONE = 1 << 12

#: Trees that a single row descends together, for the same reason.
TREES_AT_ONCE = 16

#: A node is one word: the position of its left child in the upper half, below it
#: whether missing values go right, and the feature in the lowest bits.
FEATURE_BITS = 31
#: The bits of the feature in a node.
FEATURE = np.uint64((1 << FEATURE_BITS) - 1)
_MISSING = np.uint64(FEATURE_BITS)
#: These and where missing values go: the split.
_SPLIT = np.uint64((1 << 32) - 1)
_LEFT = np.uint64(32)
_ONE = np.uint64(1)

#: Deeper trees are mostly unbalanced: a few rows at a time descend to their leaves.
#: After so many steps and one more, those that have reached one leave the loop.
MOST_LEVELS = 12
_SIDE_BY_SIDE = 64
_STEPS_BETWEEN = np.uint64(3)
#: In trees of so many nodes, so many rows are grouped by where they are after the first
#: levels: a group shares the part of the tree below, and its cache lines.
_LARGE_TREE = 1 << 13
_MANY_ROWS = 1 << 10
_GROUPS = 1 << 12
#: So many rows go through these levels together, and stay in the first caches.
_ROWS_OF_TOP = 1 << 8
#: Values of a cache line of float32.
_LINE = 16
#: Most values of a row that are prefetched.
_PREFETCHED = 64


class DescentScratch(NamedTuple):
    """Scratch arrays of rows that descend together, each with one part per thread.

    Attributes
    ----------
    places
        (threads, rows) int32: the position of each row.
    order
        (threads, rows) int32: the rows in the order of groups.
    ends
        (threads, groups + 1) int32: the ends of the groups.
    near, moving
        (threads, rows side by side) int32: the positions of a few rows that have not
        reached a leaf, and their numbers.
    """

    places: NDArray[np.int32]
    order: NDArray[np.int32]
    ends: NDArray[np.int32]
    near: NDArray[np.int32]
    moving: NDArray[np.int32]

    @classmethod
    def of(cls, threads: int, rows: int) -> DescentScratch:
        """Return scratch arrays for so many rows in each thread."""
        shapes = rows, rows, _GROUPS + 1, _SIDE_BY_SIDE, _SIDE_BY_SIDE
        return cls(*(np.empty((threads, size), np.int32) for size in shapes))


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


@kernel
def pack_nodes(
    starts,  # (trees + 1,) int64: the first node of each tree
    left,  # (nodes,) int32: left child in the tree; -1 at leaves
    feature,  # (nodes,) int32
    threshold,  # (nodes,) float64
    default_left,  # (nodes,) uint8
    columns,  # (features,) int32: the column of each feature; empty: the feature
    limit,  # float64: the largest threshold
    levels,  # (nodes of the largest tree,) int32, scratch
    nodes,  # (nodes,) uint64, out, see FEATURE_BITS
    thresholds,  # (nodes,) float32 or float64, out
    depths,  # (trees,) int64, out; -1 if a child precedes its parent
):
    """Write the nodes of trees as other kernels take them, and the trees' depths."""
    for t in range(depths.size):
        start = starts[t]
        levels[0] = 0
        depth = 0
        in_order = True
        for i in range(start, starts[t + 1]):
            if left[i] < 0:
                nodes[i] = np.uint64(i) << _LEFT
                thresholds[i] = np.nan
                continue
            number = feature[i] if columns.size == 0 else columns[feature[i]]
            child = np.uint64(start + left[i])
            missing_right = np.uint64(default_left[i] == 0)
            nodes[i] = (
                (child << _LEFT) | (missing_right << _MISSING) | np.uint64(number)
            )
            value = limit if threshold[i] > limit else threshold[i]
            thresholds[i] = -limit if value < -limit else value
            in_order &= left[i] > i - start
            level = levels[i - start] + 1
            levels[left[i]], levels[left[i] + 1] = level, level
            depth = max(depth, level)
        depths[t] = depth if in_order else -1


@kernel
def mark_symmetric(
    starts,  # (trees + 1,) int64: the first node of each tree
    depths,  # (trees,) int64
    nodes,  # (nodes,) uint64, see FEATURE_BITS
    thresholds,  # (nodes,) of the type of the data; NaN at leaves
    symmetric,  # (trees,) uint8, out
):
    """Write which trees are complete, level by level, with one split a level.

    Their leaves are numbered by the answers at the levels as binary digits.
    """
    for t in range(depths.size):
        start, depth = starts[t], depths[t]
        symmetric[t] = 0
        if depth < 1 or starts[t + 1] - start != (np.int64(2) << depth) - 1:
            continue
        equal = True
        first = start
        for level in range(depth):
            end = first + (np.int64(1) << level)
            split, threshold = nodes[first] & _SPLIT, thresholds[first]
            place = first
            while equal and place < end:
                left = np.uint64(2 * place - start + 1)
                equal = nodes[place] == ((left << _LEFT) | split)
                equal &= thresholds[place] == threshold
                place += 1
            first = end
        symmetric[t] = equal


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


@kernel
def _descend(data, root, depth, packed, places):
    """Write the leaf positions of any rows in any tree of numerical splits."""
    nodes, thresholds = packed.nodes, packed.thresholds
    for i in range(data.shape[0]):
        places[i] = root
    for _ in range(depth):
        for i in range(data.shape[0]):
            place = np.uint64(places[i])
            node = nodes[place]
            value = data[i, node & FEATURE]
            places[i] = _next_place_missing(value, node, thresholds[place])


@inline
def _group_rows(places, root, size, ends, order):
    """List rows by the part of the tree that they are in, of equal numbers of nodes."""
    shift = np.uint32(0)
    while (size >> shift) >= ends.size - 1:
        shift += np.uint32(1)
    for group in range(ends.size):
        ends[group] = 0
    for i in range(places.size):
        ends[np.uint64(np.uint32(places[i] - root) >> shift) + np.uint64(1)] += 1
    for group in range(1, ends.size):
        ends[group] += ends[group - 1]
    for i in range(places.size):
        group = np.uint64(np.uint32(places[i] - root) >> shift)
        order[np.uint64(ends[group])] = i
        ends[group] += 1


@inline
def _prefetch_rows(data, rows):
    """Prefetch rows that are read next."""
    for k in range(rows.size):
        row = data[np.uint64(rows[k])]
        for f in range(0, min(row.size, _PREFETCHED), _LINE):
            prefetch(row, np.uint64(f))


@inline
def _step(row, has_missing, place, packed):
    """Return the next position of a row in a tree of numerical splits."""
    node, threshold = packed.nodes[place], packed.thresholds[place]
    value = row[node & FEATURE]
    if has_missing:
        return _next_place_missing(value, node, threshold)
    return _next_place(value, node, threshold)


@kernel
def _descend_deep(data, has_missing, root, size, packed, places, order, ends, few):
    """Write the leaf positions of any rows in a deep tree of numerical splits."""
    near, moving = few
    if size >= _LARGE_TREE and places.size >= _MANY_ROWS:
        for begin in range(0, places.size, _ROWS_OF_TOP):
            end = min(begin + _ROWS_OF_TOP, places.size)
            block, own = data[begin:end], places[begin:end]
            if has_missing:
                _descend(block, root, np.int32(MOST_LEVELS), packed, own)
            else:
                _descend_whole(block, root, np.int32(MOST_LEVELS), packed, own)
        _group_rows(places, root, size, ends, order)
    else:
        for i in range(places.size):
            places[i], order[i] = root, i
    for begin in range(0, places.size, _SIDE_BY_SIDE):
        end = min(begin + _SIDE_BY_SIDE, places.size)
        _prefetch_rows(data, order[end : min(end + _SIDE_BY_SIDE, places.size)])
        count = np.uint64(end - begin)
        for k in range(end - begin):
            moving[k] = order[begin + k]
            near[k] = places[np.uint64(moving[k])]
        while count > 0:
            # The number of steps is no constant, or the loop is compiled three times.
            for _ in range(min(_STEPS_BETWEEN, count)):
                for k in range(count):
                    row = data[np.uint64(moving[k])]
                    near[k] = _step(row, has_missing, np.uint64(near[k]), packed)
            left = np.uint64(0)
            for k in range(count):
                row, place = np.uint64(moving[k]), np.uint64(near[k])
                after = _step(data[row], has_missing, place, packed)
                places[row] = after
                moving[left], near[left] = np.int32(row), after
                left += np.uint64(np.uint64(after) != place)
            count = left


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
    """Return whether any value of contiguous rows is missing."""
    values = data.reshape(data.size)
    missing = False  # no integer, of which fewer fit a vector register
    for i in range(values.size):
        missing |= values[i] != values[i]
    return missing


@inline
def reach_leaves(data, has_missing, roots, t, packed, scratch, thread_id):
    """Write the positions of rows in tree `t` to the scratch, by the fastest loop."""
    places = scratch.places[thread_id, : data.shape[0]]
    root, depth = roots[t, 0], roots[t, 1]
    if roots[t, 3] > 0:
        _descend_mixed(data, root, depth, packed, places)
    elif depth > MOST_LEVELS:
        end = roots[t + 1, 0] if t + 1 < roots.shape[0] else packed.nodes.size
        order, ends = scratch.order[thread_id], scratch.ends[thread_id]
        few = scratch.near[thread_id], scratch.moving[thread_id]
        _descend_deep(
            data, has_missing, root, end - root, packed, places, order, ends, few
        )
    elif has_missing:
        _descend(data, root, depth, packed, places)
    else:
        _descend_whole(data, root, depth, packed, places)


@kernel
def add_trees(
    thread_id,
    n_threads,
    sync,
    data,  # (rows, features) float32 or float64, row-major, NaN missing
    roots,  # (trees, 5) int32, see `hornbeam.forest.layout.Layout`
    packed,  # PackedNodes
    values,  # (nodes,) float32
    scratch,  # DescentScratch
    margins,  # TypedMargins, in and out
):
    """Add the leaf values of all trees to the margins of rows, in the trees' order."""
    rows = data.shape[0]
    together = scratch.places.shape[1]
    task = next_task(sync, 0)
    while task * together < rows:
        begin = task * together
        block = data[begin : begin + together]
        has_missing = any_missing(block)
        own = scratch.places[thread_id, : block.shape[0]]
        for t in range(roots.shape[0]):
            reach_leaves(block, has_missing, roots, t, packed, scratch, thread_id)
            add_to_margins(values, own, begin, own.size, roots[t, 2], margins)
        task = next_task(sync, 0)


@kernel
def add_trees_to_few(
    data,  # (rows, features) float32 or float64, row-major, NaN missing
    roots,  # (trees, 5) int32, see `hornbeam.forest.layout.Layout`
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
    roots,  # (trees, 5) int32, see `hornbeam.forest.layout.Layout`
    packed,  # PackedNodes
    numbers,  # (nodes,) int32: the node's index in its tree
    scratch,  # DescentScratch
    leaves,  # (rows, trees) float32, out
):
    """Write the index of the leaf of each row in each tree."""
    rows = data.shape[0]
    together = scratch.places.shape[1]
    task = next_task(sync, 0)
    while task * together < rows:
        begin = task * together
        block = data[begin : begin + together]
        own = scratch.places[thread_id, : block.shape[0]]
        for t in range(roots.shape[0]):
            reach_leaves(block, True, roots, t, packed, scratch, thread_id)
            for i in range(block.shape[0]):
                leaves[begin + i, t] = numbers[np.uint64(own[i])]
        task = next_task(sync, 0)
