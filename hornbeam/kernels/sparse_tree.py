"""A whole tree in one call, for the stored entries of rows in memory.

The loop is that of `tree.grow_tree`: thread 0 plans, and all threads work on the phases
that are long enough. A phase is a kernel of `sparse`: it marks each row with its node,
searches the splits of the last nodes in one pass over their entries, or sends the rows
of split nodes to the children. Only nodes of many rows have histograms.

Multi-output trees sum and search several gradient columns (see `sparse_columns`); the
other phases are the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.bins import Bins, bins_between
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.multi_output import weigh_node
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.plan import CELLS_PER_ROW
from hornbeam.kernels.sparse import (
    NodeGradients,
    SparseEntries,
    SparseHistograms,
    SparseScratch,
    find_sparse_splits,
    gather_bins,
    list_rows,
    mark_rows,
    send_rows,
)
from hornbeam.kernels.sparse_columns import (
    find_sparse_column_splits,
    interleave_columns,
)
from hornbeam.kernels.split import CandidateFeatures
from hornbeam.kernels.sync import barrier, is_stopped, restart_tasks, sharers_for
from hornbeam.kernels.tree import CELLS_PER_BIN
from hornbeam.kernels.tree_end import finish_tree_in_place
from hornbeam.kernels.tree_growth import (
    clear_leaves,
    list_nodes,
    may_split,
    split_next,
    store_splits,
)
from hornbeam.kernels.tree_tables import (
    COMMAND,
    COMPLETE,
    END,
    FULL,
    N_BUILDERS,
    N_GATHERED,
    N_NODES,
    N_SEARCHED,
    N_TASKS,
    NEXT,
    PARENT,
    SLOT,
    STATUS,
    limits_of_nodes,
)

__all__ = [
    "CELLS_PER_ENTRY",
    "RowEntries",
    "SparseTreeBuffers",
    "SparseTreeRows",
    "grow_sparse_tree",
]

#: The cost of one stored entry in the split search, in histogram bins.
CELLS_PER_ENTRY = 20
#: Tasks per thread, so that threads that finish early take more of them.
_TASKS_PER_THREAD = 16

# Commands of thread 0.
_STOP, _MARK, _SEARCH, _SEND = range(4)


class RowEntries(NamedTuple):
    """The stored entries row by row.

    Attributes
    ----------
    pointers
        (rows + 1,) int64: the first entry of each row; (0,): no node but the root is
        searched.
    features
        (entries,) uint32.
    narrow, wide
        (entries,) uint8 and uint16: their bins; one of both is empty.
    """

    pointers: NDArray[np.int64]
    features: NDArray[np.uint32]
    narrow: NDArray[np.uint8]
    wide: NDArray[np.uint16]


class SparseTreeRows(NamedTuple):
    """The rows that a tree is grown on.

    Attributes
    ----------
    entries
        Of all rows.
    by_row
        The same.
    taken
        (rows,) uint8: whether a row is in the sample; empty: all are.
    node_of
        (rows,) uint32: the node of each row.
    """

    entries: SparseEntries
    by_row: RowEntries
    taken: NDArray[np.uint8]
    node_of: NDArray[np.uint32]


class SparseTreeBuffers(NamedTuple):
    """Lists of nodes, and memory of the threads.

    Attributes
    ----------
    batch, left
        (nodes,) int64: nodes to split, and the left children of those whose rows are
        sent there.
    sent
        (nodes,) SPLIT_DTYPE: the splits of the latter.
    after, place
        (nodes,) uint32: see `sparse.send_rows` and `sparse.mark_rows`.
    sums
        (columns, threads, searched nodes + 1, 3) int64: of the nodes that are searched
        together, see `sparse.mark_rows`.
    totals
        (searched nodes, 3) int64: their sums of gradients, hessians and rows; in
        multi-output trees those of the last column.
    allowed
        (searched nodes, features) uint8: those that each may be split by; (1, features)
        where all may.
    columns
        (3, features) uint64: see `sampling.draw_columns`.
    words
        (rows,) int64: see `sparse.mark_rows`.
    histograms
        Of large nodes, the entries are empty, and the arrays of nodes longer.
    free
        (slots,) uint8: whether no node has the histogram.
    rows
        (rows,) uint32: those of the searched nodes without histograms.
    gathered
        The entries of these rows; the rows and bins are longer.
    bin_starts, by_bin, narrow_by_bin, wide_by_bin
        (bins,) int64, (2, entries) uint32 and (entries,) uint8 and uint16, one of which
        is empty: see `sparse.gather_bins`.
    scratch
        Of the split search.
    found
        (threads, searched nodes) SPLIT_DTYPE.
    found_sides
        (threads, searched nodes, columns, 2) float64: the weights of the children of
        these splits; (threads, searched nodes, 0, 2) in trees of one output, or without
        constraints.
    sync
        (SYNC_SIZE,) int64: for phases of one thread.
    """

    batch: NDArray[np.int64]
    left: NDArray[np.int64]
    sent: NDArray[Any]
    after: NDArray[np.uint32]
    place: NDArray[np.uint32]
    sums: NDArray[np.int64]
    totals: NDArray[np.int64]
    allowed: NDArray[np.uint8]
    columns: NDArray[np.uint64]
    words: NDArray[np.int64]
    histograms: SparseHistograms
    free: NDArray[np.uint8]
    rows: NDArray[np.uint32]
    gathered: SparseEntries
    bin_starts: NDArray[np.int64]
    by_bin: NDArray[np.uint32]
    narrow_by_bin: NDArray[np.uint8]
    wide_by_bin: NDArray[np.uint16]
    scratch: SparseScratch
    found: NDArray[Any]
    found_sides: NDArray[np.float64]
    sync: NDArray[np.int64]


@inline
def _list_nodes(most, features, tables, buffers):
    """List the next nodes whose splits are searched, and the place of each node."""
    state = tables.state
    list_nodes(most, features, tables, buffers)
    count = state[N_SEARCHED]
    for node in range(state[N_NODES]):
        buffers.place[node] = count
    for i in range(count):
        buffers.place[state[NEXT] - count + i] = i


@inline
def _sum_nodes(column, tables, buffers):
    """Write the sums of the listed nodes in a column."""
    state = tables.state
    for node in range(state[N_SEARCHED]):
        for part in range(3):
            total = np.int64(0)
            for thread_id in range(state[N_BUILDERS]):
                total += buffers.sums[column, thread_id, node, part]
            buffers.totals[node, part] = total


@inline
def _weigh_nodes(columns, rules, limits, tables, buffers):
    """Write the sums, hessians and gains of the listed nodes of a multi-output tree."""
    state, totals = tables.state, columns.totals
    count = columns.scales.shape[0]
    for column in range(count):
        _sum_nodes(column, tables, buffers)
        for node in range(state[N_SEARCHED]):
            totals[node, column, 0] = buffers.totals[node, 0]
            totals[node, column, 1] = buffers.totals[node, 1]
    for node in range(state[N_SEARCHED]):
        if totals.shape[1] > count:
            totals[node, count, 0] = 0
            totals[node, count, 1] = buffers.totals[node, 2]
        hessian, gain = weigh_node(
            totals[node],
            state[NEXT] - state[N_SEARCHED] + node,
            columns.scales,
            rules.split,
            limits,
            columns.weights[node],
        )
        columns.gains[node, 0] = hessian
        columns.gains[node, 1] = gain


@inline
def _take_slot(node, tables, buffers):
    """Give the node the first free slot, and return it."""
    slot = np.int64(0)
    while buffers.free[slot] == 0:
        slot += 1
    buffers.free[slot] = 0
    tables.family[SLOT, node] = slot
    return slot


@inline
def _assign_histograms(n_rows, tables, buffers):
    """Assign histograms to the listed nodes of many rows, among which is any parent.

    No two nodes that are not split have the same rows, and as many large ones as there
    are slots leave too few for another one. Returns the rows of all other nodes.
    """
    state, family, free = tables.state, tables.family, buffers.free
    slots, built = buffers.histograms.slots, buffers.histograms.built
    reduced = buffers.histograms.reduced
    rows = buffers.totals[: state[N_SEARCHED], 2]
    least = n_rows // (free.size + 1) + 1
    first = state[NEXT] - state[N_SEARCHED]
    for number in range(rows.size):
        slots[number] = built[number] = reduced[number] = -1
    slots[rows.size], built[rows.size] = 0, -1  # of the rows of no listed node
    begin = np.int64(0)
    if first == 0:
        begin += 1
        free[:] = 1
        if rows[0] >= least:
            slots[0] = built[0] = _take_slot(first, tables, buffers)
    for left in range(begin, rows.size, 2):
        larger = left + np.int64(rows[left + 1] > rows[left])
        smaller = 2 * left + 1 - larger
        slot = family[SLOT, family[PARENT, first + left]]
        if rows[larger] >= least:
            slots[larger] = reduced[smaller] = family[SLOT, first + larger] = slot
        elif slot >= 0:
            free[slot] = 1
        if rows[smaller] >= least:
            slot = _take_slot(first + smaller, tables, buffers)
            slots[smaller] = built[smaller] = slot
    others = np.int64(0)
    for number in range(rows.size):
        others += rows[number] * np.int64(slots[number] < 0)
    return others


@inline
def _gather(rows, columns, gather_one_in, rules, limits, tables, buffers):
    """Assign histograms; gather the entries of nodes without them if these are few.

    Returns the work of the search in histogram bins.
    """
    state, own = tables.state, buffers.histograms
    count = state[N_SEARCHED]
    if columns is None:
        _sum_nodes(0, tables, buffers)
    if columns is not None:
        _weigh_nodes(columns, rules, limits, tables, buffers)
    listed = _assign_histograms(rows.node_of.size, tables, buffers)
    cells = np.int64(0)
    for number in range(count):
        if columns is not None and own.built[number] >= 0:
            # Its histogram has the sums of the entries that it is searched by.
            own.slots[number] = -1
            listed += buffers.totals[number, 2]
        if own.slots[number] >= 0:
            cells += CELLS_PER_BIN * own.bounds[own.bounds.size - 1]
        if columns is None and own.built[number] >= 0:
            cells += CELLS_PER_ENTRY * rows.entries.rows.size
    if gather_one_in * listed > rows.node_of.size:
        state[N_GATHERED] = -1
        return rules.columns * (cells + CELLS_PER_ENTRY * rows.entries.rows.size)
    state[N_GATHERED] = 0
    if listed > 0:
        by_row, gathered = rows.by_row, buffers.gathered
        own_rows = buffers.rows[:listed]
        entries = list_rows(buffers.words, own.slots, by_row.pointers, own_rows)
        gather_bins(
            own_rows,
            by_row.pointers,
            by_row.features,
            Bins(by_row.narrow, by_row.wide),
            buffers.bin_starts,
            buffers.by_bin,
            Bins(buffers.narrow_by_bin, buffers.wide_by_bin),
            gathered.starts,
            gathered.rows[:entries],
            bins_between(gathered, 0, entries),
        )
        state[N_GATHERED] = entries
    return rules.columns * (cells + CELLS_PER_ENTRY * state[N_GATHERED])


@inline
def _send(count, team, n_rows, tables, buffers):
    """Let the rows of the batch go to the children next; return the threads."""
    state, batch = tables.state, buffers.batch
    for node in range(state[N_NODES]):
        buffers.after[node] = node
    for i in range(count):
        split, left = tables.splits[batch[i]], tables.nodes[batch[i]]["left"]
        buffers.sent[i] = split
        buffers.left[i] = left
        buffers.after[batch[i]] = left + 1 - split["missing_left"]
    state[COMMAND], state[N_TASKS] = _SEND, count
    return sharers_for(team, CELLS_PER_ROW * n_rows, True)


@kernel
def _plan(team, n_rows, cells, features, rules, limits, tables, buffers):
    """Settle the phase that has ended, and begin the next one.

    `cells` is what `_gather` returns. Returns the number of threads that the next phase
    pays for.
    """
    state = tables.state
    ended = state[COMMAND]
    if ended == _MARK:
        state[COMMAND] = _SEARCH
        return sharers_for(team, cells, True)
    if ended == _SEARCH:
        store_splits(buffers.found[0], buffers.found_sides[0], rules, limits, tables)
    elif state[NEXT] == 0 and not may_split(0, rules, tables):
        state[NEXT] = 1
    if state[NEXT] < state[END]:
        _list_nodes(buffers.totals.shape[0], features, tables, buffers)
        state[COMMAND] = _MARK
        threads = sharers_for(team, CELLS_PER_ROW * rules.columns * n_rows, True)
        state[N_BUILDERS] = 1 if threads == 1 else team
        return threads
    count = split_next(buffers.batch, rules, limits, tables)
    if count > 0:
        return _send(count, team, n_rows, tables, buffers)
    state[COMMAND] = _STOP
    state[STATUS] = FULL if count < 0 else COMPLETE
    if count == 0:
        clear_leaves(tables)
    return 1


@inline
def _mark(thread_id, n_threads, sync, rows, packed, wide, column, tables, buffers):
    """Mark the rows with their nodes, and sum these in a column."""
    mark_rows(
        thread_id,
        n_threads,
        sync,
        rows.node_of,
        buffers.place,
        tables.state[N_SEARCHED],
        rows.taken,
        packed,
        wide,
        buffers.words,
        buffers.sums[column],
    )


@inline
def _mark_columns(thread_id, n_threads, sync, rows, gradients, tables, buffers):
    """Mark the rows with their nodes, and sum these in all columns."""
    for column in range(gradients.is_wide.size):
        if column > 0:
            barrier(sync, n_threads)
            if thread_id == 0:
                restart_tasks(sync)
            barrier(sync, n_threads)
        n_rows = 0 if gradients.is_wide[column] else rows.node_of.size
        packed, wide = gradients.packed[column, :n_rows], gradients.wide[column]
        _mark(thread_id, n_threads, sync, rows, packed, wide, column, tables, buffers)


@inline
def _entries_to_search(rows, tables, buffers):
    """Return the entries that nodes without histograms are searched by."""
    gathered = tables.state[N_GATHERED]
    if gathered < 0:
        return rows.entries
    few = buffers.gathered
    starts = few.starts[: few.starts.size if gathered > 0 else 0]
    own = bins_between(few, 0, gathered)
    return SparseEntries(starts, few.rows[:gathered], own.narrow, own.wide)


@inline
def _candidates(n_threads, features, tables, buffers):
    """Return the features that the listed nodes may be split by."""
    state = tables.state
    masks = state[N_SEARCHED] if state[N_TASKS] > 0 else np.int64(0)
    tasks = _TASKS_PER_THREAD * n_threads
    return CandidateFeatures(
        features.chosen,
        buffers.allowed[:masks],
        max(np.int64(1), features.chosen.size // tasks),
    )


@inline
def _listed_histograms(count, rows, buffers):
    """Return the histograms of the listed nodes."""
    own = buffers.histograms
    return SparseHistograms(
        own.sums,
        own.bounds,
        rows.entries,
        own.slots[:count],
        own.built[: count + 1],
        own.reduced[:count],
    )


@inline
def _search_columns(
    thread_id,
    n_threads,
    sync,
    rows,
    columns,
    features,
    rules,
    limits,
    tables,
    buffers,
):
    """Search the best splits of the listed nodes of a multi-output tree."""
    state = tables.state
    find_sparse_column_splits(
        thread_id,
        n_threads,
        sync,
        _entries_to_search(rows, tables, buffers),
        buffers.words,
        state[NEXT] - state[N_SEARCHED],
        _listed_histograms(state[N_SEARCHED], rows, buffers),
        columns,
        _candidates(n_threads, features, tables, buffers),
        rules.split,
        limits,
        buffers.scratch,
        buffers.found,
        buffers.found_sides,
    )


@inline
def _search(
    thread_id,
    n_threads,
    sync,
    rows,
    gradients,
    features,
    rules,
    limits,
    tables,
    buffers,
):
    """Search the best splits of the listed nodes."""
    state = tables.state
    end, count = state[NEXT], state[N_SEARCHED]
    find_sparse_splits(
        thread_id,
        n_threads,
        sync,
        _entries_to_search(rows, tables, buffers),
        NodeGradients(buffers.words, gradients.wide, buffers.totals[:count]),
        _listed_histograms(count, rows, buffers),
        _candidates(n_threads, features, tables, buffers),
        rules.scales,
        rules.split,
        None
        if limits is None
        else NodeConstraints(
            limits.bounds[end - count : end],
            limits.weights[end - count : end],
            limits.directions,
            limits.costs,
            limits.used[end - count : end],
            limits.cost_of_rows,
            limits.one_row,
            limits.sides,
        ),
        buffers.scratch,
        buffers.found,
    )


@kernel
def grow_sparse_tree(
    thread_id,
    n_threads,
    sync,
    rows,
    gradients,
    columns,
    features,
    rules,
    limits,
    gather_one_in,
    tables,
    buffers,
    leaves,
):
    """Grow a tree, from the root or from where it has stopped.

    It stops where the tables are full. `rows` are `SparseTreeRows`. A tree of one
    output has `gradients`, which are `QuantisedGradients`, and a multi-output tree
    `columns`, which are `SparseOutputs`; the other one is None. `features` are
    `TreeFeatures`, `rules` `GrowthRules`, `limits` `TreeLimits` or None, `tables`
    `TreeTables`, `buffers` `SparseTreeBuffers` and `leaves` `TreeLeaves`. If the nodes
    without histograms have fewer rows than one in `gather_one_in`, their entries are
    gathered before the search.
    """
    state = tables.state
    if columns is not None and state[NEXT] == 0:
        pairs = columns.pairs
        interleave_columns(thread_id, n_threads, sync, columns.gradients, pairs)
        barrier(sync, n_threads)
    while True:
        team = n_threads
        counters = sync
        if thread_id == 0:
            cells = np.int64(0)
            if state[COMMAND] == _MARK:
                cells = _gather(
                    rows,
                    columns,
                    gather_one_in,
                    rules,
                    limits_of_nodes(limits),
                    tables,
                    buffers,
                )
            n_rows = rows.node_of.size
            threads = _plan(
                n_threads, n_rows, cells, features, rules, limits, tables, buffers
            )
            if threads == 1:
                team = 1
                counters = buffers.sync
            restart_tasks(counters)
            if threads > 1 or state[COMMAND] == _STOP:
                barrier(sync, n_threads)
        else:
            barrier(sync, n_threads)
        command = state[COMMAND]
        if is_stopped(sync):
            return
        if command == _STOP:
            break
        if command == _MARK:
            if gradients is not None:
                packed, wide = gradients
                _mark(thread_id, team, counters, rows, packed, wide, 0, tables, buffers)
            if columns is not None:
                pairs = columns.gradients
                _mark_columns(thread_id, team, counters, rows, pairs, tables, buffers)
        elif command == _SEARCH:
            if gradients is not None:
                _search(
                    thread_id,
                    team,
                    counters,
                    rows,
                    gradients,
                    features,
                    rules,
                    limits_of_nodes(limits),
                    tables,
                    buffers,
                )
            if columns is not None:
                _search_columns(
                    thread_id,
                    team,
                    counters,
                    rows,
                    columns,
                    features,
                    rules,
                    limits_of_nodes(limits),
                    tables,
                    buffers,
                )
        else:
            send_rows(
                thread_id,
                team,
                counters,
                rows.entries,
                buffers.sent[: state[N_TASKS]],
                buffers.left,
                buffers.after,
                rows.node_of,
            )
        barrier(counters, team)
    if state[STATUS] == COMPLETE and leaves.weighs:
        finish_tree_in_place(
            thread_id,
            n_threads,
            sync,
            rows.node_of,
            rows.taken,
            rules.split,
            tables,
            leaves,
        )
