"""Exact greedy search: every cut between two values, from columns in order.

A cell is the number of a value among its column's and the row that has it, in one
word. The cells of a node lie together in each column, in ascending order.
"""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import TASK_ROWS
from hornbeam.kernels.split import keep_candidate, search_one_way, settle_split
from hornbeam.kernels.sync import next_task, prefetch

__all__ = ["find_exact_splits", "part_cells", "send_left_out", "send_rows"]

_ROW = np.uint64(0xFFFFFFFF)
_RANK_SHIFT = np.uint64(32)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
#: How many cells ahead gradients are asked for.
_AHEAD = 24


@inline
def _sum_up(cells, pairs, limits, sums_g, sums_h, sums_n, ranks):
    """Sum the gradients up to each value; return how many values there are."""
    count = 0
    g = np.int64(0)
    h = np.int64(0)
    last = cells.size - 1
    for i in range(cells.size):
        cell = cells[i]
        row = cell & _ROW
        prefetch(pairs, (cells[min(i + _AHEAD, last)] & _ROW) * _TWO)
        g += pairs[row * _TWO]
        h += pairs[row * _TWO + _ONE]
        sums_g[count + 1] = g
        sums_h[count + 1] = h
        if limits is not None:
            sums_n[count + 1] = i + 1
        rank = cell >> _RANK_SHIFT
        ranks[count] = rank
        # Written over as long as the value stays the same.
        count += cells[min(i + 1, last)] >> _RANK_SHIFT != rank
    return count + 1 if cells.size > 0 else 0


@inline
def _propose(sums_h, count, most, cuts):
    """Write before which values to cut, `most` equal steps of hessian apart.

    A cut lies before the value at which the sum passes a step. Returns how many.
    """
    step = sums_h[count] // most
    rest = sums_h[count] % most
    found = 0
    k = 1
    for number in range(1, most):
        point = number * step + number * rest // most
        while k < count and sums_h[k] <= point:
            k += 1
        if k > 1 and (found == 0 or cuts[found - 1] < k - 1):
            cuts[found] = k - 1
            found += 1
    return found


@inline
def _join(cuts, found, count, limits, sums_g, sums_h, sums_n, lasts, firsts):
    """Join the values between cuts to groups, each with its first and last value."""
    firsts[0] = lasts[0]
    for j in range(found + 1):
        end = count
        if j < found:
            end = cuts[j]
            firsts[j + 1] = lasts[end]
        sums_g[j + 1] = sums_g[end]
        sums_h[j + 1] = sums_h[end]
        if limits is not None:
            sums_n[j + 1] = sums_n[end]
        lasts[j] = lasts[end - 1]
    return found + 1


@kernel
def find_exact_splits(
    thread_id,
    n_threads,
    sync,
    cells,  # (cells,) uint64: number of the value << 32 | row
    segments,  # (nodes, features, 2) int64: where a node's cells begin and end
    totals,  # (nodes, 3) int64: sums of g, h and rows
    pairs,  # (2 * rows,) int64: g and h of each row
    chosen,  # (chosen,) uint64: the features to look at, ascending
    allowed,  # (nodes, features) uint8, or (0, 0): which of them at each node
    ways,  # (features, 2) int64: the first way to search, and the one after the last
    steps,  # (2,) float64: value of one step of gradients and of hessians
    rules,  # (8,) float64, see `backends.interface.SplitParams.rules`
    limits,  # `NodeConstraints` of the nodes, or None
    most,  # candidates of a node and feature; 0: all cuts between two values
    scratch,  # (members, 7, most cells of a feature + 1) float64
    splits,  # (nodes, chosen) SPLIT_DTYPE, out
):
    """Write the best split of each node by each feature.

    Candidates are all cuts between two values of the node; or, where these are more
    than `most`, the weighted quantiles of the node (Chen and Guestrin 2016, section
    3.2: the local variant of the approximate algorithm).

    XGBoost's order of candidates: way 0 is from the lowest value upwards with the
    missing on the right, way 1 from the highest one downwards with the missing on the
    left. The first of equal ones wins.
    """
    buffer = scratch[thread_id]
    sums_g = buffer[0].view(np.int64)
    sums_h = buffer[1].view(np.int64)
    sums_n = buffer[2].view(np.int64)
    lasts = buffer[3].view(np.int64)
    cuts = buffer[4].view(np.int64)
    sums_g[0] = 0
    sums_h[0] = 0
    sums_n[0] = 0
    task = next_task(sync, 0)
    while task < splits.size:
        node, place = task // chosen.size, task % chosen.size
        feature = np.int64(chosen[place])
        total_g, total_h = totals[node, 0], totals[node, 1]
        total_n = totals[node, 2]
        split = splits[node, place]
        split["total_gradient"] = total_g
        split["total_hessian"] = total_h
        keep_candidate(split, 0.0, -1, 0, 0, 0, np.int64(0), np.int64(0))
        count = 0
        if allowed.size == 0 or allowed[node, feature] != 0:
            begin, end = segments[node, feature, 0], segments[node, feature, 1]
            own = cells[begin:end]
            count = _sum_up(own, pairs, limits, sums_g, sums_h, sums_n, lasts)
        firsts = lasts
        if 0 < most < count:
            firsts = buffer[5].view(np.int64)
            found = _propose(sums_h, count, most, cuts)
            count = _join(
                cuts, found, count, limits, sums_g, sums_h, sums_n, lasts, firsts
            )
        for down in range(ways[feature, 0], ways[feature, 1] if count > 0 else 0):
            search_one_way(
                down,
                sums_g,
                sums_h,
                sums_n,
                count,
                total_g,
                total_h,
                total_n,
                node,
                feature,
                steps,
                rules,
                limits,
                buffer[6],
                split,
            )
        if split["feature"] >= 0:
            last = split["bin"]
            split["next_bin"] = firsts[last + 1] if last + 1 < count else -1
            split["bin"] = lasts[last] if last >= 0 else -1
        settle_split(split, total_n, node, steps, rules, limits)
        task = next_task(sync, 0)


@kernel
def send_rows(
    thread_id,
    n_threads,
    sync,
    tasks,  # (tasks, 3) int64: node, and which cells of its split's feature
    cells,  # (cells,) uint64
    last,  # (nodes,) int64: the last value that goes left
    left,  # (nodes,) int64: the left child, the right one follows
    feature,  # (nodes,) int64: that each node is split by, or -1
    node_of,  # (rows,) uint32, in and out
):
    """Send rows from nodes to their children by the cells of the split's feature.

    Cells may be those of other nodes' rows, too, which stay where they are.
    """
    task = next_task(sync, 0)
    while task < tasks.shape[0]:
        wanted = feature[tasks[task, 0]]
        for cell in cells[tasks[task, 1] : tasks[task, 2]]:
            row = cell & _ROW
            node = node_of[row]
            if node < feature.size and feature[node] == wanted:
                rank = np.int64(cell >> _RANK_SHIFT)
                node_of[row] = np.uint32(left[node] + (rank > last[node]))
        task = next_task(sync, 0)


@kernel
def send_left_out(
    thread_id,
    n_threads,
    sync,
    left,  # (nodes,) int64: the left child, the right one follows
    feature,  # (nodes,) int64: that each node is split by, or -1
    missing_left,  # (nodes,) uint8
    node_of,  # (rows,) uint32, in and out
):
    """Send rows that are still at a split node, for they miss the split's feature."""
    task = next_task(sync, 0)
    while task * TASK_ROWS < node_of.size:
        own = node_of[task * TASK_ROWS : (task + 1) * TASK_ROWS]
        for i in range(own.size):
            node = own[i]
            if node < feature.size and feature[node] >= 0:
                own[i] = np.uint32(left[node] + 1 - np.int64(missing_left[node]))
        task = next_task(sync, 0)


@kernel
def part_cells(
    thread_id,
    n_threads,
    sync,
    nodes,  # (nodes,) int64: that are split
    left,  # (nodes,) int64: the left child of each, the right one follows
    chosen,  # (chosen,) uint64: features
    node_of,  # (rows,) uint32
    scratch,  # (members, 7, most cells of a feature + 1) float64
    segments,  # (all nodes, features, 2) int64, in and out
    cells,  # (cells,) uint64, in and out
):
    """Bring the cells of each node's left child before those of its right one.

    The order within each is kept. Both writes are done and one place moves on, so that
    there is no branch.
    """
    rights = scratch[thread_id, 0].view(np.uint64)
    task = next_task(sync, 0)
    while task < nodes.size * chosen.size:
        node, child = nodes[task // chosen.size], left[task // chosen.size]
        feature = chosen[task % chosen.size]
        begin, end = segments[node, feature, 0], segments[node, feature, 1]
        own = cells[begin:end]
        right = np.uint32(child + 1)
        n_left = np.uint64(0)
        n_right = np.uint64(0)
        for i in range(np.uint64(own.size)):
            cell = own[i]
            goes_right = np.uint64(node_of[cell & _ROW] == right)
            own[n_left] = cell
            rights[n_right] = cell
            n_right += goes_right
            n_left += np.uint64(1) - goes_right
        middle = begin + np.int64(n_left)
        for i in range(n_right):
            own[n_left + i] = rights[i]
        segments[child, feature, 0] = begin
        segments[child, feature, 1] = middle
        segments[child + 1, feature, 0] = middle
        segments[child + 1, feature, 1] = end
        task = next_task(sync, 0)
