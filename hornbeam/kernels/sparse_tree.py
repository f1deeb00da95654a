"""A whole tree in one call, for the stored entries of rows in memory.

The loop is that of `tree.grow_tree`: thread 0 plans, and all threads work on the phases
that are long enough. A phase is a kernel of `sparse`: it marks each row with its node,
searches the splits of the last nodes in one pass over their entries, or sends the rows
of split nodes to the children. Only nodes of many rows have histograms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.histogram import QuantisedGradients
from hornbeam.kernels.jit import inline, kernel
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
    bins
        (entries,) uint8 or uint16.
    """

    pointers: NDArray[np.int64]
    features: NDArray[np.uint32]
    bins: NDArray[Any]


class SparseTreeRows(NamedTuple):
    """The rows that a tree is grown on.

    Attributes
    ----------
    entries
        Of all rows.
    by_row
        The same.
    gradients
        In fixed point.
    taken
        (rows,) uint8: whether a row is in the sample; empty: all are.
    node_of
        (rows,) uint32: the node of each row.
    """

    entries: SparseEntries
    by_row: RowEntries
    gradients: QuantisedGradients
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
    sums, totals
        (threads, searched nodes + 1, 3) and (searched nodes, 3) int64: the sums of
        gradients, hessians and rows of the nodes that are searched together.
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
    bin_starts, by_bin, bins_by_bin
        (bins,) int64, (2, entries) uint32 and (entries,): see `sparse.gather_bins`.
    scratch
        Of the split search.
    found
        (threads, searched nodes) SPLIT_DTYPE.
    no_sides
        (0, 2) float64.
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
    bins_by_bin: NDArray[Any]
    scratch: SparseScratch
    found: NDArray[Any]
    no_sides: NDArray[np.float64]
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
def _sum_nodes(tables, buffers):
    """Write the sums of the listed nodes."""
    state = tables.state
    for node in range(state[N_SEARCHED]):
        for part in range(3):
            total = np.int64(0)
            for thread_id in range(state[N_BUILDERS]):
                total += buffers.sums[thread_id, node, part]
            buffers.totals[node, part] = total


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
def _gather(rows, gather_one_in, tables, buffers):
    """Assign histograms; gather the entries of nodes without them if these are few.

    Returns the work of the search in histogram bins.
    """
    state, own = tables.state, buffers.histograms
    count = state[N_SEARCHED]
    _sum_nodes(tables, buffers)
    listed = _assign_histograms(rows.node_of.size, tables, buffers)
    cells = np.int64(0)
    for number in range(count):
        if own.slots[number] >= 0:
            cells += CELLS_PER_BIN * own.sums.shape[2]
        if own.built[number] >= 0:
            cells += CELLS_PER_ENTRY * rows.entries.rows.size
    if gather_one_in * listed > rows.node_of.size:
        state[N_GATHERED] = -1
        return cells + CELLS_PER_ENTRY * rows.entries.rows.size
    state[N_GATHERED] = 0
    if listed > 0:
        by_row, gathered = rows.by_row, buffers.gathered
        own_rows = buffers.rows[:listed]
        entries = list_rows(buffers.words, own.slots, by_row.pointers, own_rows)
        gather_bins(
            own_rows,
            by_row.pointers,
            by_row.features,
            by_row.bins,
            buffers.bin_starts,
            buffers.by_bin,
            buffers.bins_by_bin,
            gathered.starts,
            gathered.rows[:entries],
            gathered.bins[:entries],
        )
        state[N_GATHERED] = entries
    return cells + CELLS_PER_ENTRY * state[N_GATHERED]


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
        store_splits(buffers.found[0], buffers.no_sides, rules, limits, tables)
    elif state[NEXT] == 0 and not may_split(0, rules, tables):
        state[NEXT] = 1
    if state[NEXT] < state[END]:
        _list_nodes(buffers.totals.shape[0], features, tables, buffers)
        state[COMMAND] = _MARK
        threads = sharers_for(team, CELLS_PER_ROW * n_rows, True)
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
def _search(thread_id, n_threads, sync, rows, features, rules, limits, tables, buffers):
    """Search the best splits of the listed nodes."""
    state = tables.state
    end, count, gathered = state[NEXT], state[N_SEARCHED], state[N_GATHERED]
    entries, own = rows.entries, buffers.histograms
    if gathered >= 0:
        few = buffers.gathered
        starts = few.starts[: few.starts.size if gathered > 0 else 0]
        entries = SparseEntries(starts, few.rows[:gathered], few.bins[:gathered])
    masks = count if state[N_TASKS] > 0 else np.int64(0)
    tasks = _TASKS_PER_THREAD * n_threads
    find_sparse_splits(
        thread_id,
        n_threads,
        sync,
        entries,
        NodeGradients(buffers.words, rows.gradients.wide, buffers.totals[:count]),
        SparseHistograms(
            own.sums,
            own.bounds,
            rows.entries,
            own.slots[:count],
            own.built[: count + 1],
            own.reduced[:count],
        ),
        CandidateFeatures(
            features.chosen,
            buffers.allowed[:masks],
            max(np.int64(1), features.chosen.size // tasks),
        ),
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
    features,
    rules,
    limits,
    gather_one_in,
    tables,
    buffers,
    leaves,
):
    """Grow a tree, from the root or from where it has stopped.

    It stops where the tables are full. `rows` are `SparseTreeRows`, `features`
    `TreeFeatures`, `rules` `GrowthRules`, `limits` `TreeLimits` or None, `tables`
    `TreeTables`, `buffers` `SparseTreeBuffers` and `leaves` `TreeLeaves`. If the nodes
    without histograms have fewer rows than one in `gather_one_in`, their entries are
    gathered before the search.
    """
    state = tables.state
    while True:
        team = n_threads
        counters = sync
        if thread_id == 0:
            cells = np.int64(0)
            if state[COMMAND] == _MARK:
                cells = _gather(rows, gather_one_in, tables, buffers)
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
            mark_rows(
                thread_id,
                team,
                counters,
                rows.node_of,
                buffers.place,
                state[N_SEARCHED],
                rows.taken,
                rows.gradients.packed,
                rows.gradients.wide,
                buffers.words,
                buffers.sums,
            )
        elif command == _SEARCH:
            _search(
                thread_id,
                team,
                counters,
                rows,
                features,
                rules,
                None if limits is None else limits.of_nodes,
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
