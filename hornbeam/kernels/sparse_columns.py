"""Splits of multi-output trees, from the stored entries of sparse features.

The entries of a feature are grouped by node once for all gradient columns. Those of a
node are summed column by column into a histogram of the bins that they have, which is
searched as one of dense rows. If the node has many rows, the sums also become its
histogram of all bins, or are subtracted from the parent's, which the sibling has then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.bins import bin_at, bins_between
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import TASK_ROWS
from hornbeam.kernels.multi_output import (
    SHARE,
    FeatureBins,
    SearchedNode,
    search_bins,
    settle_score,
    weigh_column,
)
from hornbeam.kernels.sparse import best_thread, count_by_node, number_of
from hornbeam.kernels.split import NodeSums, keep_candidate
from hornbeam.kernels.sync import barrier, next_task, prefetch
from hornbeam.kernels.tree_tables import GradientColumns

__all__ = ["SparseOutputs", "find_sparse_column_splits", "interleave_columns"]

#: An entry in one word: its row, then its bin.
_BIN_BITS = 16
_BIN = (1 << _BIN_BITS) - 1
#: Columns are summed in turn for this many entries, whose rows are in the cache then.
_BLOCK_ENTRIES = 256
#: Splits by category: there are none.
_NO_RIGHTS = np.empty(0, np.uint64)


class SparseOutputs(NamedTuple):
    """What the splits of a multi-output tree are searched by.

    Attributes
    ----------
    gradients
        Of the rows.
    pairs
        (rows, columns, 1 or 2) int64: the same, see `interleave_columns`.
    scales
        (columns, 2) float64: the value of one unit of gradient and hessian sums.
    totals
        (searched nodes, columns or one more, 2) int64: the sums of gradients and
        hessians; if rows are counted, they are the last hessians.
    gains
        (searched nodes, 2) float64: the sum of the hessians over all columns, and the
        gain as a leaf.
    weights
        (searched nodes, columns) float64: the weights as a leaf under constraints.
    histograms
        (columns or one more, slots, 2, bins) int64: of nodes of many rows; missing
        values have no bin.
    few
        (threads, columns or one more, 1, 2, most bins of a feature) int64: those of the
        bins that the entries of one node have; the gradients of a column that counts
        rows are 0.
    """

    gradients: GradientColumns
    pairs: NDArray[np.int64]
    scales: NDArray[np.float64]
    totals: NDArray[np.int64]
    gains: NDArray[np.float64]
    weights: NDArray[np.float64]
    histograms: NDArray[np.int64]
    few: NDArray[np.int64]


@inline
def _group_rows(rows, bins, words, cursor, own_words, grouped):
    """Distribute the rows and bins of a feature's entries by node, stably.

    `cursor` then holds the end of each node's entries.
    """
    count_by_node(rows, words, cursor, own_words)
    for i in range(rows.size):
        number = number_of(own_words[i])
        own_bin = np.int64(bin_at(bins, i))
        grouped[np.uint64(cursor[number])] = (np.int64(rows[i]) << _BIN_BITS) | own_bin
        cursor[number] += 1


@inline
def _number_bins(grouped, bin_of):
    """Replace the bins of a node's entries by their numbers among those that it has.

    Returns how many it has, and writes them.
    """
    count = np.int64(0)
    last = np.int64(-1)
    for i in range(grouped.size):
        own_bin = grouped[i] & _BIN
        count += np.int64(own_bin != last)
        last = own_bin
        bin_of[count - 1] = own_bin
        grouped[i] += count - 1 - own_bin
    return count


@kernel
def interleave_columns(
    thread_id,
    n_threads,
    sync,
    gradients,  # GradientColumns
    pairs,  # (rows, columns, 1 or 2) int64, out
):
    """Write the gradients of all columns row by row.

    They are packed pairs; if any column has wide ones, all gradients are followed by
    their hessians.
    """
    rows, columns, _ = pairs.shape
    task = next_task(sync, 0)
    while task * TASK_ROWS < rows:
        begin, end = task * TASK_ROWS, min((task + 1) * TASK_ROWS, rows)
        for s in range(columns):
            own = pairs[begin:end, s]
            packed = gradients.packed[s, begin:end]
            if pairs.shape[2] == 1:
                for i in range(packed.size):
                    own[i, 0] = packed[i]
            elif gradients.is_wide[s]:
                wide = gradients.wide[s, :, begin:end]
                for i in range(packed.size):
                    own[i, 0] = wide[0, i]
                    own[i, 1] = wide[1, i]
            else:
                for i in range(packed.size):
                    own[i, 0] = packed[i] >> 32
                    own[i, 1] = packed[i] & 0xFFFFFFFF
        task = next_task(sync, 0)


@inline
def _sum_columns(grouped, count, pairs, few):
    """Write the sums of a node's entries by bin, of each column."""
    columns = pairs.shape[1]
    for begin in range(0, grouped.size, _BLOCK_ENTRIES):
        block = grouped[begin : begin + _BLOCK_ENTRIES]
        # The rows of the next block are loaded while this one is summed.
        for word in grouped[begin + _BLOCK_ENTRIES : begin + 2 * _BLOCK_ENTRIES]:
            row = pairs[np.uint64(word >> _BIN_BITS), :, 0]
            prefetch(row, np.uint64(0))
            prefetch(row, np.uint64(columns - 1))
        for s in range(columns):
            sums_g, sums_h = few[s, 0]
            # The sums up to each bin: an entry overwrites the one before it in the
            # same.
            g = np.int64(0)
            h = np.int64(0)
            if begin > 0:
                last = np.uint64(grouped[begin - 1] & _BIN)
                g = sums_g[last]
                h = sums_h[last]
            if pairs.shape[2] == 1:
                for word in block:
                    pair = pairs[np.uint64(word >> _BIN_BITS), s, 0]
                    g += pair >> 32
                    h += pair & 0xFFFFFFFF
                    sums_g[np.uint64(word & _BIN)] = g
                    sums_h[np.uint64(word & _BIN)] = h
            else:
                for word in block:
                    g += pairs[np.uint64(word >> _BIN_BITS), s, 0]
                    h += pairs[np.uint64(word >> _BIN_BITS), s, 1]
                    sums_g[np.uint64(word & _BIN)] = g
                    sums_h[np.uint64(word & _BIN)] = h
    if few.shape[0] > columns:
        counts = few[columns, 0, 1]
        for i in range(grouped.size):
            counts[np.uint64(grouped[i] & _BIN)] = i + 1
    for s in range(few.shape[0]):
        sums_g, sums_h = few[s, 0]
        for k in range(count - 1, 0, -1):
            sums_g[k] -= sums_g[k - 1]
            sums_h[k] -= sums_h[k - 1]


@inline
def _keep_sums(few, bin_of, count, first_bin, built, reduced, histograms):
    """Add the sums to the node's own histogram, and subtract them from the parent's."""
    for s in range(few.shape[0]):
        for part in range(2):
            own = few[s, 0, part]
            for k in range(count if built >= 0 else 0):
                histograms[s, built, part, first_bin + bin_of[k]] = own[k]
            for k in range(count if reduced >= 0 else 0):
                histograms[s, reduced, part, first_bin + bin_of[k]] -= own[k]


@inline
def _searched(number, first, slot, columns):
    """Return a listed node, of which `first` is the first one."""
    totals = columns.totals[number]
    hessian, gain = columns.gains[number]
    rows = totals[totals.shape[0] - 1, 1]
    weights = columns.weights[number]
    return SearchedNode(first + number, slot, totals, rows, hessian, gain, weights)


@kernel
def find_sparse_column_splits(
    thread_id,
    n_threads,
    sync,
    entries,  # SparseEntries of the nodes that are searched by them; no features: none
    words,  # (rows,) int64, see `sparse.mark_rows`
    first,  # the first of the nodes, which are consecutive
    histograms,  # SparseHistograms of them without sums; nodes that are built have none
    columns,  # SparseOutputs
    candidates,  # CandidateFeatures
    rules,  # SplitRules
    limits,  # NodeConstraints of all nodes of the tree, or None
    scratch,  # SparseScratch
    splits,  # (threads, at least the nodes) SPLIT_DTYPE, out: the first are the best
    sides,  # (threads, nodes, columns, 2) float64, out: the weights of their children
):
    """Write the best split of each node for all columns together.

    Candidates and their order are those of `multi_output.find_multi_output_splits`:
    there an empty bin never wins, among the entries of a node it is skipped.
    """
    slots, built, reduced = histograms.slots, histograms.built, histograms.reduced
    chosen, allowed, block = candidates
    nodes = slots.size
    own_words, grouped = scratch.entries[thread_id]
    cursor = scratch.nodes[thread_id, : nodes + 1]
    buffer = scratch.bins[thread_id]
    bin_of = buffer[4].view(np.int64)  # which the search does not use
    few = columns.few[thread_id]
    own_splits, own_sides = splits[thread_id], sides[thread_id]
    turns = np.int64(1)
    for n in range(nodes):
        turns = max(turns, 1 + np.int64(slots[n] >= 0))
        own_splits[n]["total_gradient"] = 0
        own_splits[n]["total_hessian"] = SHARE
        own_splits[n]["left_rows"] = 0
        keep_candidate(own_splits[n], 0.0, -1, 0, 0, 0, np.int64(0), np.int64(0))
    task = next_task(sync, 0)
    while task * block < chosen.size:
        for j in range(task * block, min((task + 1) * block, chosen.size)):
            feature = np.int64(chosen[j])
            low, high = histograms.bounds[feature], histograms.bounds[feature + 1]
            for n in range(nodes):
                if built[n] >= 0:
                    columns.histograms[:, built[n], :, low:high] = 0
            begin = end = np.int64(0)
            if entries.starts.size > 0:
                begin, end = entries.starts[feature], entries.starts[feature + 1]
            if begin < end:
                _group_rows(
                    entries.rows[begin:end],
                    bins_between(entries, begin, end),
                    words,
                    cursor,
                    own_words,
                    grouped,
                )
            # Nodes with histograms come last: their siblings have been subtracted then.
            for turn in range(np.int64(begin == end), turns):
                stop = np.int64(0)
                for n in range(nodes):
                    has_histogram = slots[n] >= 0
                    searches = allowed.size == 0 or allowed[n, feature] != 0
                    own, slot, count = columns.histograms, slots[n], high - low
                    own_bins = FeatureBins(feature, low, high)
                    if turn == 0:
                        start = stop
                        stop = cursor[n]
                        if start == stop or has_histogram:
                            continue
                        own_entries = grouped[start:stop]
                        count = _number_bins(own_entries, bin_of)
                        _sum_columns(own_entries, count, columns.pairs, few)
                        _keep_sums(
                            few,
                            bin_of,
                            count,
                            low,
                            built[n],
                            reduced[n],
                            columns.histograms,
                        )
                        own, slot = few, np.int64(0)
                        own_bins = FeatureBins(feature, np.int64(0), count)
                    elif not has_histogram:
                        continue
                    if not searches:
                        continue
                    node = _searched(n, first, slot, columns)
                    split = own_splits[n]
                    search_bins(
                        own,
                        node,
                        own_bins,
                        columns.scales,
                        rules,
                        limits,
                        buffer,
                        split,
                    )
                    if split["feature"] != feature:
                        continue
                    if limits is not None:
                        node_rows = np.int64(node.rows / limits.one_row)
                        for s in range(columns.scales.shape[0]):
                            weigh_column(
                                own[s, slot],
                                s,
                                NodeSums(
                                    node.totals[s, 0], node.totals[s, 1], node_rows
                                ),
                                node.index,
                                own_bins,
                                columns.scales,
                                rules,
                                limits,
                                split,
                                _NO_RIGHTS,
                                own_sides[n, s],
                            )
                    if turn == 0:  # its bin is a number among those found
                        down = split["missing_left"]
                        split["bin"] = bin_of[split["bin"] + down] - down
        task = next_task(sync, 0)
    barrier(sync, n_threads)
    if thread_id > 0:
        return
    for n in range(nodes):
        best = best_thread(splits, n, n_threads)
        if best > 0:
            own_splits[n] = splits[best, n]
            for s in range(own_sides.shape[1]):
                for side in range(2):
                    own_sides[n, s, side] = sides[best, n, s, side]
        settle_score(own_splits[n], _searched(n, first, slots[n], columns), limits)
