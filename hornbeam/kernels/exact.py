"""The phases of exact greedy search: every cut between two values, from sorted columns.

An entry is the rank of a value in its column and the row that has it, in one word. The
entries of a node are contiguous in each column, in ascending order. Each level of a
tree is one pass over all entries, which are partitioned among the children (Mehta,
Agrawal and Rissanen 1996; Chen and Guestrin 2016, section 4.1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import TASK_ROWS
from hornbeam.kernels.split import (
    NodeSums,
    keep_candidate,
    search_one_way,
    settle_split,
)
from hornbeam.kernels.sync import barrier, next_task, prefetch

__all__ = [
    "NodeEntries",
    "SentNodes",
    "begin_root",
    "find_exact_splits",
    "partition_entries",
    "send_rows",
]

_ROW = np.uint64(0xFFFFFFFF)
_RANK_SHIFT = np.uint64(32)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
#: How many entries ahead gradients are prefetched.
_AHEAD = 24


class NodeEntries(NamedTuple):
    """The sorted entries of nodes, with their gradients.

    Attributes
    ----------
    entries
        (entries,) uint64: rank of the value << 32 | row.
    segments
        (nodes, features, 2) int64: begin and end of a node's entries.
    gradients
        (2 * rows,) int64: gradient and hessian of each row, which share a cache line.
    totals
        (nodes, 3) int64: the sums of gradients, hessians and rows.
    directions
        (features, 2) int64: the first direction of the search, and the end.
    """

    entries: NDArray[np.uint64]
    segments: NDArray[np.int64]
    gradients: NDArray[np.int64]
    totals: NDArray[np.int64]
    directions: NDArray[np.int64]


class SentNodes(NamedTuple):
    """The nodes whose rows go to the children, (nodes,) int64 each.

    Attributes
    ----------
    feature
        That a node is split by; -1: its rows stay.
    last
        The rank of the last value that goes left.
    left
        The left child; the right one follows.
    missing
        The child that rows with a missing value go to.
    """

    feature: NDArray[np.int64]
    last: NDArray[np.int64]
    left: NDArray[np.int64]
    missing: NDArray[np.int64]


@kernel
def begin_root(
    thread_id,
    n_threads,
    sync,
    starts,  # (features + 1,) int64: the first entry of each column
    columns,  # (entries,) uint64: the entries of all rows
    chosen,  # (chosen,) uint64: the features of the tree
    wide,  # (2, rows) int64
    taken,  # (rows,) uint8: whether a row is in the sample; empty: all are
    gradients,  # (2 * rows,) int64, out: see `NodeEntries`
    node_of,  # (rows,) uint32, out
    sums,  # (threads, 3) int64, out: gradients, hessians and rows of the sample
    segments,  # (nodes, features, 2) int64, out: of the root
    entries,  # (entries,) uint64, out: of the rows in the sample; not if all are
):
    """Put all rows into the root, and the entries of those in the sample."""
    own = sums[thread_id]
    for part in range(3):
        own[part] = 0
    task = next_task(sync, 0)
    while task * TASK_ROWS < node_of.size:
        for row in range(task * TASK_ROWS, min((task + 1) * TASK_ROWS, node_of.size)):
            node_of[row] = 0
            gradients[2 * row] = wide[0, row]
            gradients[2 * row + 1] = wide[1, row]
            if taken.size == 0 or taken[row] != 0:
                own[0] += wide[0, row]
                own[1] += wide[1, row]
                own[2] += 1
        task = next_task(sync, 0)
    task = next_task(sync, 1)
    while task < chosen.size:
        feature = chosen[task]
        begin, end = starts[feature], starts[feature + _ONE]
        segments[0, feature, 0] = begin
        if taken.size > 0:
            first, end = begin, begin
            for entry in columns[first : starts[feature + _ONE]]:
                entries[end] = entry
                end += np.int64(taken[entry & _ROW] != 0)
        segments[0, feature, 1] = end
        task = next_task(sync, 1)


@inline
def _sum_up(entries, pairs, limits, sums_g, sums_h, sums_n, ranks):
    """Write the cumulative sums at each value; return the number of values."""
    count = 0
    g = np.int64(0)
    h = np.int64(0)
    last = entries.size - 1
    for i in range(entries.size):
        entry = entries[i]
        row = entry & _ROW
        prefetch(pairs, (entries[min(i + _AHEAD, last)] & _ROW) * _TWO)
        g += pairs[row * _TWO]
        h += pairs[row * _TWO + _ONE]
        sums_g[count + 1] = g
        sums_h[count + 1] = h
        if limits is not None:
            sums_n[count + 1] = i + 1
        rank = entry >> _RANK_SHIFT
        ranks[count] = rank
        # Overwritten as long as the value stays the same.
        count += entries[min(i + 1, last)] >> _RANK_SHIFT != rank
    return count + 1 if entries.size > 0 else 0


@inline
def _propose(sums_h, count, most, cuts):
    """Write weighted quantiles of `most` equal parts of the hessian; return how many.

    A cut lies before the value at which the cumulative sum exceeds a part's end.
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
    """Group the values between cuts; write the first and last value of each group."""
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
    first,  # the first of the nodes that are searched
    count,  # their number
    nodes,  # NodeEntries
    candidates,  # CandidateFeatures; row 0 of the masks is of the first node
    scales,  # (2,) float64: the value of one unit of gradient and hessian sums
    rules,  # SplitRules
    limits,  # NodeConstraints of all nodes, or None
    most,  # candidates of a node and feature; 0: all cuts between two values
    scratch,  # (threads, 7, most entries of a feature + 1) float64
    found,  # (threads, more than `count`) SPLIT_DTYPE, out: the first are the best
):
    """Write the best split of each node among the features that the thread searches.

    Candidates are all cuts between two values of the node; or, where these are more
    than `most`, the weighted quantiles of the node (Chen and Guestrin 2016, section
    3.2: the local variant of the approximate algorithm).

    XGBoost's order of candidates: direction 0 is from the lowest value upwards with
    missing values on the right, direction 1 from the highest value downwards with
    missing values on the left. The first of equal candidates wins, and of equal
    features the lowest.
    """
    entries, segments, pairs, totals, directions = nodes
    chosen, allowed, _ = candidates
    buffer = scratch[thread_id]
    sums_g = buffer[0].view(np.int64)
    sums_h = buffer[1].view(np.int64)
    sums_n = buffer[2].view(np.int64)
    lasts = buffer[3].view(np.int64)
    cuts = buffer[4].view(np.int64)
    sums_g[0] = 0
    sums_h[0] = 0
    sums_n[0] = 0
    own_splits = found[thread_id]
    for i in range(count):
        keep_candidate(own_splits[i], 0.0, -1, 0, 0, 0, np.int64(0), np.int64(0))
    split = own_splits[count]
    task = next_task(sync, 0)
    while task < count * chosen.size:
        number, feature = task // chosen.size, np.int64(chosen[task % chosen.size])
        node = first + number
        total = NodeSums(totals[node, 0], totals[node, 1], totals[node, 2])
        split["total_gradient"] = total.gradients
        split["total_hessian"] = total.hessians
        keep_candidate(split, 0.0, -1, 0, 0, 0, np.int64(0), np.int64(0))
        values = np.int64(0)
        if allowed.size == 0 or allowed[number, feature] != 0:
            begin, end = segments[node, feature, 0], segments[node, feature, 1]
            own = entries[begin:end]
            values = _sum_up(own, pairs, limits, sums_g, sums_h, sums_n, lasts)
        firsts = lasts
        if 0 < most < values:
            firsts = buffer[5].view(np.int64)
            proposed = _propose(sums_h, values, most, cuts)
            values = _join(
                cuts, proposed, values, limits, sums_g, sums_h, sums_n, lasts, firsts
            )
        for down in range(
            directions[feature, 0], directions[feature, 1] if values > 0 else 0
        ):
            search_one_way(
                down,
                NodeSums(sums_g, sums_h, sums_n),
                values,
                total,
                node,
                feature,
                scales,
                rules,
                limits,
                buffer[6],
                split,
            )
        if split["feature"] >= 0:
            last = split["bin"]
            split["next_bin"] = firsts[last + 1] if last + 1 < values else -1
            split["bin"] = lasts[last] if last >= 0 else -1
            settle_split(split, total.rows, node, scales, rules, limits)
            if split["gain"] > own_splits[number]["gain"]:
                own_splits[number] = split
        task = next_task(sync, 0)
    barrier(sync, n_threads)
    if thread_id > 0:
        return
    for i in range(count):
        best = own_splits[i]
        for other in range(1, n_threads):
            split = found[other, i]
            lower = split["feature"] < best["feature"]
            if split["gain"] > best["gain"] or (
                split["gain"] == best["gain"] and split["gain"] > 0.0 and lower
            ):
                own_splits[i] = split


@kernel
def send_rows(
    thread_id,
    n_threads,
    sync,
    tasks,  # (tasks, 3) int64: feature, begin and end of entries of this feature
    entries,  # (entries,) uint64
    sent,  # SentNodes
    sends_missing,  # whether rows can miss one of the features
    taken,  # (rows,) uint8: whether a row is in the sample; empty: all are
    node_of,  # (rows,) uint32, in and out
):
    """Send rows from nodes to their children.

    First go those of entries of the splits' features; entries of rows at other nodes
    are ignored. Rows that are still at the nodes then miss the feature.
    """
    feature, last, left, missing = sent
    task = next_task(sync, 0)
    while task < tasks.shape[0]:
        wanted = tasks[task, 0]
        for entry in entries[tasks[task, 1] : tasks[task, 2]]:
            row = entry & _ROW
            node = node_of[row]
            if feature[node] == wanted:
                rank = np.int64(entry >> _RANK_SHIFT)
                node_of[row] = np.uint32(left[node] + (rank > last[node]))
        task = next_task(sync, 0)
    barrier(sync, n_threads)
    task = next_task(sync, 1)
    while sends_missing and task * TASK_ROWS < node_of.size:
        for row in range(task * TASK_ROWS, min((task + 1) * TASK_ROWS, node_of.size)):
            node = node_of[row]
            if feature[node] >= 0 and (taken.size == 0 or taken[row] != 0):
                node_of[row] = np.uint32(missing[node])
        task = next_task(sync, 1)


@kernel
def partition_entries(
    thread_id,
    n_threads,
    sync,
    first,  # the first child of the split nodes; the others follow
    parents,  # (nodes,) int64: the parent of each node
    chosen,  # (chosen,) uint64: features
    node_of,  # (rows,) uint32
    scratch,  # (threads, 7, most entries of a feature + 1) float64
    source,  # (entries,) uint64: the entries of the split nodes
    segments,  # (nodes, features, 2) int64, in and out
    entries,  # (entries,) uint64, out: those of the children; may be the source
):
    """Partition the entries of each node stably: left child first, then right child.

    Each entry is written to both outputs and one of the positions advances, so that
    there is no branch.
    """
    rights = scratch[thread_id, 0].view(np.uint64)
    task = next_task(sync, 0)
    while task < (parents.size - first) // 2 * chosen.size:
        child = first + 2 * (task // chosen.size)
        node, feature = parents[child], chosen[task % chosen.size]
        begin, end = segments[node, feature, 0], segments[node, feature, 1]
        given, own = source[begin:end], entries[begin:end]
        right = np.uint32(child + 1)
        n_left = np.uint64(0)
        n_right = np.uint64(0)
        for i in range(np.uint64(own.size)):
            entry = given[i]
            goes_right = np.uint64(node_of[entry & _ROW] == right)
            own[n_left] = entry
            rights[n_right] = entry
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
