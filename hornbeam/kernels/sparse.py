"""Splits and row partition of sparse tables.

The stored entries of a feature are contiguous, in the order of their bins. A search
for splits passes over them once for all nodes of a batch: it distributes them by node,
as a radix sort does, which yields for each node its non-empty bins in order. Missing
entries cost nothing.

Nodes of many rows have histograms instead, which the larger of two children takes over
from the parent: only the entries of the smaller one are subtracted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.bins import bin_at, bins_between
from hornbeam.kernels.cut_scores import may_screen
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import COARSE_HESSIAN_BITS, TASK_ROWS
from hornbeam.kernels.split import (
    NodeSums,
    screen_order,
    search_cuts,
    search_order,
    settle_split,
)
from hornbeam.kernels.sync import barrier, next_task

__all__ = [
    "MOST_NODES",
    "NodeGradients",
    "SparseEntries",
    "SparseHistograms",
    "SparseScratch",
    "best_thread",
    "count_by_node",
    "find_sparse_splits",
    "gather_bins",
    "list_rows",
    "mark_rows",
    "number_of",
    "send_rows",
    "sort_by_bin",
    "transpose_entries",
]

#: A row in one word: its coarse gradient, then the number of its node in the batch
#: (after the distribution by node: its bin), then its coarse hessian.
_NUMBER_BITS = 18
_GRADIENT_SHIFT = _NUMBER_BITS + COARSE_HESSIAN_BITS
_NUMBER = (1 << _NUMBER_BITS) - 1
_HESSIAN = (1 << COARSE_HESSIAN_BITS) - 1

#: The most nodes of a batch; one number more is for rows that are in none of them.
MOST_NODES = _NUMBER


class SparseEntries(NamedTuple):
    """The stored entries of a sparse table, by feature and then by bin.

    Attributes
    ----------
    starts
        (features + 1,) int64: the first entry of each feature.
    rows
        (entries,) uint32.
    narrow, wide
        (entries,) uint8 and uint16: their bins; one of both is empty.
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]
    narrow: NDArray[np.uint8]
    wide: NDArray[np.uint16]


class NodeGradients(NamedTuple):
    """The gradients of rows, and the sums of nodes.

    Attributes
    ----------
    words
        (rows,) int64: node and coarse gradients, see `mark_rows`.
    wide
        (2, rows) int64: fine gradients; (2, 0) where the words hold coarse ones.
    totals
        (nodes, 3) int64: the sums of gradients and hessians, and the rows.
    """

    words: NDArray[np.int64]
    wide: NDArray[np.int64]
    totals: NDArray[np.int64]


class SparseHistograms(NamedTuple):
    """The histograms of nodes of many rows.

    Attributes
    ----------
    sums
        (slots, 2 or 3, bins) int64: of gradients, hessians and, under constraints,
        rows; missing values have no bin.
    bounds
        (features + 1,) int64: the first bin of each feature.
    entries
        Of all rows.
    slots
        (nodes,) int64: the histogram of each node; -1: it is searched by its entries.
    built
        (nodes + 1,) int64: the same if it is to be built from all entries, otherwise
        -1, as for the rows of no node.
    reduced
        (nodes,) int64: the histogram of the parent, from which the sums of the node are
        subtracted, which leaves the sibling's; -1: none.
    """

    sums: NDArray[np.int64]
    bounds: NDArray[np.int64]
    entries: SparseEntries
    slots: NDArray[np.int64]
    built: NDArray[np.int64]
    reduced: NDArray[np.int64]


class SparseScratch(NamedTuple):
    """Scratch arrays of `find_sparse_splits`.

    Attributes
    ----------
    entries
        (threads, 2, most entries of a feature) int64.
    wide
        (threads, 2, most entries of a feature, or 0) int64.
    nodes
        (threads, at least nodes + 1) int64.
    bins
        (threads, 8, most bins of a feature + 1) float64.
    """

    entries: NDArray[np.int64]
    wide: NDArray[np.int64]
    nodes: NDArray[np.int64]
    bins: NDArray[np.float64]


@kernel
def mark_rows(
    thread_id,
    n_threads,
    sync,
    node_of,  # (rows,) uint32
    place,  # (nodes,) uint32: number of a node in the batch; `count` if not in it
    count,  # nodes of the batch
    taken,  # (rows,) uint8: whether a row is in the sample; empty: all are
    packed,  # (rows,) int64: coarse gradients; empty: the wide ones are used
    wide,  # (2, rows) int64
    words,  # (rows,) int64, out
    sums,  # (threads, at least count + 1, 3) int64, out: g, h, rows
):
    """Write the word of each row, and the sums of each node of the batch."""
    rows = node_of.size
    own = sums[thread_id]
    none = np.uint32(count)
    for number in range(count + 1):
        for part in range(3):
            own[number, part] = 0
    task = next_task(sync, 0)
    while task * TASK_ROWS < rows:
        for row in range(task * TASK_ROWS, min((task + 1) * TASK_ROWS, rows)):
            number = place[np.uint64(node_of[row])]
            if taken.size > 0:
                number = number if taken[row] else none
            word = np.int64(number) << COARSE_HESSIAN_BITS
            if packed.size > 0:
                g = packed[row] >> 32
                h = packed[row] & 0xFFFFFFFF
                word += (g << _GRADIENT_SHIFT) + h
            else:
                g = wide[0, row]
                h = wide[1, row]
            words[row] = word
            own[np.uint64(number), 0] += g
            own[np.uint64(number), 1] += h
            own[np.uint64(number), 2] += 1
        task = next_task(sync, 0)


@inline
def _begin_each(counts):
    """Turn counts into the begin of each part."""
    begin = np.int64(0)
    for i in range(counts.size):
        count = counts[i]
        counts[i] = begin
        begin += count


@inline
def number_of(word):
    """Return the number of the node of a row, from the row's word."""
    return (np.uint64(word) >> np.uint64(COARSE_HESSIAN_BITS)) & np.uint64(_NUMBER)


@inline
def count_by_node(rows, words, cursor, own_words):
    """Write the begin of each node's entries of a feature to `cursor`.

    The words of the entries' rows are written to `own_words`.
    """
    for n in range(cursor.size):
        cursor[n] = 0
    for i in range(rows.size):
        word = words[np.uint64(rows[i])]
        own_words[i] = word
        cursor[number_of(word)] += 1
    _begin_each(cursor)


@inline
def best_thread(splits, node, n_threads):
    """Return the thread that has found the best split of a node."""
    best = 0
    for other in range(1, n_threads):
        score, highest = splits[other, node]["gain"], splits[best, node]["gain"]
        lower = splits[other, node]["feature"] < splits[best, node]["feature"]
        if score > highest or (score == highest and score > 0.0 and lower):
            best = other
    return best


@inline
def _group_by_node(rows, bins, words, wide, cursor, own_words, grouped, grouped_wide):
    """Distribute the entries of a feature by node, stably.

    `cursor` then holds the end of each node's entries. In the words the bin replaces
    the node.
    """
    count_by_node(rows, words, cursor, own_words)
    rest = ~(_NUMBER << COARSE_HESSIAN_BITS)
    for i in range(rows.size):
        word = own_words[i]
        number = number_of(word)
        target = np.uint64(cursor[number])
        own_bin = np.int64(bin_at(bins, i))
        grouped[target] = (word & rest) | (own_bin << COARSE_HESSIAN_BITS)
        cursor[number] += 1
        if wide.size > 0:
            row = np.uint64(rows[i])
            grouped_wide[0, target] = wide[0, row]
            grouped_wide[1, target] = wide[1, row]


@inline
def _add_up(grouped, wide, begin, end, bins, sums_g, sums_h):
    """Write the bins of entries and the sums up to each; return the number of bins.

    Each entry overwrites the one before it if that has the same bin.
    """
    count = np.int64(0)
    g = np.int64(0)
    h = np.int64(0)
    last = np.int64(-1)
    for i in range(begin, end):
        word = grouped[i]
        if wide.size > 0:
            g += wide[0, i]
            h += wide[1, i]
        else:
            g += word >> _GRADIENT_SHIFT
            h += word & _HESSIAN
        own_bin = (word >> COARSE_HESSIAN_BITS) & _NUMBER
        count += np.int64(own_bin != last)
        last = own_bin
        bins[count] = own_bin
        sums_g[count] = g
        sums_h[count] = h
    return count


@inline
def _count_up(grouped, begin, end, sums_n):
    """Write the number of entries up to each bin, as `_add_up` writes sums."""
    count = np.int64(0)
    last = np.int64(-1)
    sums_n[0] = 0
    for i in range(begin, end):
        own_bin = (grouped[i] >> COARSE_HESSIAN_BITS) & _NUMBER
        count += np.int64(own_bin != last)
        last = own_bin
        sums_n[count] = i + 1 - begin


@kernel
def _build(rows, bins, words, wide, built, sums, begin, end):
    for slot in built:
        if slot >= 0:
            sums[slot, :, begin:end] = 0
    for i in range(rows.size):
        row = np.uint64(rows[i])
        word = words[row]
        slot = built[np.uint64((word >> COARSE_HESSIAN_BITS) & _NUMBER)]
        if slot < 0:
            continue
        own_bin = np.uint64(begin) + np.uint64(bins[i])
        g = word >> _GRADIENT_SHIFT
        h = word & _HESSIAN
        if wide.size > 0:
            g = wide[0, row]
            h = wide[1, row]
        sums[slot, 0, own_bin] += g
        sums[slot, 1, own_bin] += h
        if sums.shape[1] > 2:
            sums[slot, 2, own_bin] += 1


@inline
def _build_feature(entries, first, last, words, wide, built, sums, begin, end):
    """Write the histograms that are built from all entries of a feature.

    The entries begin at `first`, and its bins of `sums` at `begin`.
    """
    rows = entries.rows[first:last]
    if entries.wide.size > 0:
        wide_bins = entries.wide[first:last]
        _build(rows, wide_bins, words, wide, built, sums, begin, end)
    else:
        bins = entries.narrow[first:last]
        _build(rows, bins, words, wide, built, sums, begin, end)


@inline
def _subtract(grouped, wide, begin, end, sums, first_bin):
    """Subtract the entries of a node from a feature's bins of a histogram."""
    for i in range(begin, end):
        word = grouped[i]
        own_bin = first_bin + ((word >> COARSE_HESSIAN_BITS) & _NUMBER)
        g = word >> _GRADIENT_SHIFT
        h = word & _HESSIAN
        if wide.size > 0:
            g = wide[0, i]
            h = wide[1, i]
        sums[0, own_bin] -= g
        sums[1, own_bin] -= h
        if sums.shape[0] > 2:
            sums[2, own_bin] -= 1


@inline
def _subtract_built(slots, reduced, sums, begin, end):
    """Subtract built histograms from those of the parents, in a feature's bins."""
    for n in range(reduced.size):
        if slots[n] >= 0 and reduced[n] >= 0:
            for part in range(sums.shape[1]):
                own, parent = sums[slots[n], part], sums[reduced[n], part]
                for b in range(begin, end):
                    parent[b] -= own[b]


@kernel
def find_sparse_splits(
    thread_id,
    n_threads,
    sync,
    entries,  # SparseEntries of the nodes without histograms; of no features: none
    gradients,  # NodeGradients
    histograms,  # SparseHistograms
    candidates,  # CandidateFeatures
    scales,  # (2,) float64: the value of one unit of gradient and hessian sums
    rules,  # SplitRules
    limits,  # NodeConstraints of the nodes, or None
    scratch,  # SparseScratch
    splits,  # (threads, at least the nodes) SPLIT_DTYPE, out: the first are the best
):
    """Write the best split of each node.

    Candidates and their order are those of `split.find_splits`: there an empty bin
    never wins, among the entries of a node it is skipped.
    """
    starts, rows = entries.starts, entries.rows
    words, wide, totals = gradients
    sums, bounds, all_entries, slots, built, reduced = histograms
    builds = has_histograms = False
    for n in range(totals.shape[0]):
        builds |= built[n] >= 0
        has_histograms |= slots[n] >= 0
    screens = limits is None and wide.size == 0 and may_screen(scales, rules)
    columns, allowed, block = candidates
    nodes = totals.shape[0]
    own_words, grouped = scratch.entries[thread_id]
    grouped_wide = scratch.wide[thread_id]
    cursor = scratch.nodes[thread_id, : nodes + 1]
    buffer = scratch.bins[thread_id]
    sums_g = buffer[0].view(np.int64)
    sums_h = buffer[1].view(np.int64)
    bin_of = buffer[2].view(np.int64)
    scores = buffer[3]
    sums_n = buffer[5].view(np.int64)
    sums_g[0] = 0
    sums_h[0] = 0
    own_splits = splits[thread_id]
    for n in range(nodes):
        own_splits[n]["gain"] = 0.0
        own_splits[n]["feature"] = -1
        own_splits[n]["bin"] = 0
        own_splits[n]["missing_left"] = 0
        own_splits[n]["is_categorical"] = 0
        own_splits[n]["left_gradient"] = 0
        own_splits[n]["left_hessian"] = 0
        own_splits[n]["left_rows"] = 0
        own_splits[n]["total_gradient"] = totals[n, 0]
        own_splits[n]["total_hessian"] = totals[n, 1]
    task = next_task(sync, 0)
    while task * block < columns.size:
        for j in range(task * block, min((task + 1) * block, columns.size)):
            feature = np.int64(columns[j])
            low, high = bounds[feature], bounds[feature + 1]
            if builds:
                first, last = all_entries.starts[feature : feature + 2]
                _build_feature(
                    all_entries,
                    first,
                    last,
                    words,
                    wide,
                    built,
                    sums,
                    low,
                    high,
                )
                _subtract_built(slots, reduced, sums, low, high)
            begin = first = last = np.int64(0)
            if starts.size > 0:
                first, last = starts[feature], starts[feature + 1]
            if first < last:
                _group_by_node(
                    rows[first:last],
                    bins_between(entries, first, last),
                    words,
                    wide,
                    cursor,
                    own_words,
                    grouped,
                    grouped_wide,
                )
            for n in range(nodes if first < last else 0):
                end = cursor[n]
                if begin == end:
                    continue
                own_begin = begin
                begin = end
                if slots[n] >= 0:
                    continue
                if reduced[n] >= 0:
                    _subtract(
                        grouped, grouped_wide, own_begin, end, sums[reduced[n]], low
                    )
                if allowed.size > 0 and allowed[n, feature] == 0:
                    continue
                count = _add_up(
                    grouped, grouped_wide, own_begin, end, bin_of, sums_g, sums_h
                )
                if limits is not None:
                    _count_up(grouped, own_begin, end, sums_n)
                split = own_splits[n]
                search_cuts(
                    NodeSums(sums_g, sums_h, sums_n),
                    count,
                    NodeSums(totals[n, 0], totals[n, 1], totals[n, 2]),
                    n,
                    feature,
                    scales,
                    rules,
                    limits,
                    scores,
                    split,
                )
                if split["feature"] == feature:  # its bin is a number among those found
                    down = split["missing_left"]
                    split["bin"] = bin_of[split["bin"] + down + 1] - down
            for n in range(nodes if has_histograms else 0):
                if slots[n] < 0 or (allowed.size > 0 and allowed[n, feature] == 0):
                    continue
                own = sums[slots[n]]
                by_bin = NodeSums(own[0, low:high], own[1, low:high], own[-1, low:high])
                total = NodeSums(totals[n, 0], totals[n, 1], totals[n, 2])
                split = own_splits[n]
                if screens:
                    screen_order(by_bin, total, feature, scales, rules, buffer, split)
                else:
                    search_order(
                        by_bin, total, n, feature, scales, rules, limits, buffer, split
                    )
        task = next_task(sync, 0)
    barrier(sync, n_threads)
    if thread_id > 0:
        return
    for n in range(nodes):
        best = best_thread(splits, n, n_threads)
        if best > 0:
            own_splits[n] = splits[best, n]
        settle_split(own_splits[n], totals[n, 2], n, scales, rules, limits)


@kernel
def send_rows(
    thread_id,
    n_threads,
    sync,
    entries,  # SparseEntries
    splits,  # (splits,) SPLIT_DTYPE
    left,  # (splits,) int64: the left children
    after,  # (nodes,) uint32: where a node's rows with a missing value go
    node_of,  # (all rows,) uint32, in and out
):
    """Send the rows of split nodes to the children.

    First all go to the side of missing values. Then those of the few rows with a value
    that belong on the other side are sent there. As other threads send the rows of
    other nodes meanwhile, a task writes only the rows of its own node.
    """
    starts, rows = entries.starts, entries.rows
    task = next_task(sync, 0)
    while task * TASK_ROWS < node_of.size:
        own = node_of[task * TASK_ROWS : (task + 1) * TASK_ROWS]
        for i in range(own.size):
            own[i] = after[np.uint64(own[i])]
        task = next_task(sync, 0)
    barrier(sync, n_threads)
    task = next_task(sync, 1)
    while task < splits.size:
        feature = np.int64(splits[task]["feature"])
        last_bin = splits[task]["bin"]
        begin, end = starts[feature], starts[feature + 1]
        low, high = begin, end
        while low < high:  # the first entry that goes right
            middle = (low + high) // 2
            if np.int64(bin_at(entries, middle)) <= last_bin:
                low = middle + 1
            else:
                high = middle
        here = there = np.uint32(left[task])
        if splits[task]["missing_left"] != 0:
            begin = low
            there += np.uint32(1)
        else:
            end = low
            here += np.uint32(1)
        for i in range(begin, end):
            row = np.uint64(rows[i])
            if node_of[row] == here:
                node_of[row] = there
        task = next_task(sync, 1)


@kernel
def sort_by_bin(
    bins,  # (entries,) uint8 or uint16: the bins of one feature's entries
    rows,  # (entries,) int32 or int64: the rows of the entries
    counts,  # (bins,) int64, scratch
    sorted_bins,  # (entries,) the type of bins, out
    sorted_rows,  # (entries,) uint32, out
):
    """Write the entries of one feature in the order of their bins."""
    for b in range(counts.size):
        counts[b] = 0
    for i in range(bins.size):
        counts[np.uint64(bins[i])] += 1
    _begin_each(counts)
    for i in range(bins.size):
        own_bin = np.uint64(bins[i])
        target = np.uint64(counts[own_bin])
        sorted_bins[target] = bins[i]
        sorted_rows[target] = rows[i]
        counts[own_bin] += 1


@kernel
def transpose_entries(
    starts,  # (features + 1,) int64: first entry of each feature
    rows,  # (entries,) uint32
    bins,  # (entries,) uint8 or uint16
    pointers,  # (rows + 1,) int64, zeros in; out: first entry of each row
    row_features,  # (entries,) uint32, out
    row_bins,  # (entries,) the type of bins, out
):
    """Write the entries in row-major order (CSR); the features of each row ascend."""
    n_rows = pointers.size - 1
    for i in range(rows.size):
        pointers[np.uint64(rows[i])] += 1
    end = np.int64(0)
    for row in range(n_rows):
        end += pointers[row]
        pointers[row] = end
    pointers[n_rows] = end
    for feature in range(starts.size - 2, -1, -1):
        for i in range(starts[feature], starts[feature + 1]):
            row = np.uint64(rows[i])
            pointers[row] -= 1
            target = np.uint64(pointers[row])
            row_features[target] = feature
            row_bins[target] = bins[i]


@kernel
def list_rows(
    words,  # (rows,) int64, see `mark_rows`
    slots,  # (nodes + 1,) int64: at least 0 for nodes whose rows are left out
    pointers,  # (rows + 1,) int64: first entry of each row
    listed,  # (listed rows,) uint32, out
):
    """Write the rows of some nodes; return the number of their entries."""
    count = np.int64(0)
    entries = np.int64(0)
    for row in range(words.size):
        if slots[np.uint64((words[row] >> COARSE_HESSIAN_BITS) & _NUMBER)] < 0:
            listed[count] = row
            count += 1
            entries += pointers[row + 1] - pointers[row]
    return entries


@kernel
def _sort_twice(
    listed,
    pointers,
    row_features,
    row_bins,
    bin_starts,
    scratch,
    scratch_bins,
    starts,
    rows,
    bins,
):
    for b in range(bin_starts.size):
        bin_starts[b] = 0
    for f in range(starts.size):
        starts[f] = 0
    for row in listed:
        first = pointers[np.uint64(row)]
        for i in range(first, pointers[np.uint64(row) + np.uint64(1)]):
            bin_starts[np.uint64(row_bins[i])] += 1
            starts[np.uint64(row_features[i])] += 1
    _begin_each(bin_starts)
    _begin_each(starts)
    for row in listed:
        first = pointers[np.uint64(row)]
        for i in range(first, pointers[np.uint64(row) + np.uint64(1)]):
            own_bin = np.uint64(row_bins[i])
            target = np.uint64(bin_starts[own_bin])
            bin_starts[own_bin] += 1
            scratch[0, target] = row
            scratch[1, target] = row_features[i]
            scratch_bins[target] = row_bins[i]
    for i in range(rows.size):
        feature = np.uint64(scratch[1, i])
        target = np.uint64(starts[feature])
        starts[feature] += 1
        rows[target] = scratch[0, i]
        bins[target] = scratch_bins[i]
    for f in range(starts.size - 1, 0, -1):  # each now holds the end of its feature
        starts[f] = starts[f - 1]
    starts[0] = 0


@kernel
def gather_bins(
    listed,  # (some,) uint32: the rows
    pointers,  # (all rows + 1,) int64: first entry of each row
    row_features,  # (all entries,) uint32
    row_bins,  # Bins (all entries,)
    bin_starts,  # (bins,) int64, scratch
    scratch,  # (2, entries) uint32: rows and features by bin
    scratch_bins,  # Bins (entries,)
    starts,  # (features + 1,) int64, out
    rows,  # (entries,) uint32, out
    bins,  # Bins (entries,), out
):
    """Write the entries of some rows by feature, and those of a feature by bin.

    Two counting sorts: the second, by feature, keeps the order of the first, by bin.
    """
    if row_bins.wide.size > 0:
        _sort_twice(
            listed,
            pointers,
            row_features,
            row_bins.wide,
            bin_starts,
            scratch,
            scratch_bins.wide,
            starts,
            rows,
            bins.wide,
        )
    else:
        _sort_twice(
            listed,
            pointers,
            row_features,
            row_bins.narrow,
            bin_starts,
            scratch,
            scratch_bins.narrow,
            starts,
            rows,
            bins.narrow,
        )
