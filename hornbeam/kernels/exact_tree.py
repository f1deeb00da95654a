"""A whole tree in one call, for the sorted columns of rows in memory.

The loop is that of `tree.grow_tree`: thread 0 plans, and all threads work on the phases
that are long enough. A phase is a kernel of `exact`: it puts the rows into the root,
searches the splits of the last nodes, sends the rows of split nodes to the children, or
partitions their entries among these.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.exact import (
    NodeEntries,
    SentNodes,
    begin_root,
    find_exact_splits,
    partition_entries,
    send_rows,
)
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import TASK_ROWS
from hornbeam.kernels.plan import CELLS_PER_ROW
from hornbeam.kernels.split import CandidateFeatures
from hornbeam.kernels.sync import barrier, is_stopped, restart_tasks, sharers_for
from hornbeam.kernels.tree_end import finish_tree_in_place
from hornbeam.kernels.tree_growth import (
    clear_leaves,
    list_nodes,
    may_split,
    split_next,
    store_splits,
)
from hornbeam.kernels.tree_tables import (
    BEGIN,
    COMMAND,
    COMPLETE,
    END,
    FULL,
    N_BUILDERS,
    N_SEARCHED,
    N_SENT,
    N_TASKS,
    NEXT,
    PARENT,
    SENDS_MISSING,
    STATUS,
    limits_of_nodes,
)

__all__ = [
    "CELLS_PER_ENTRY",
    "ExactTreeBuffers",
    "ExactTreeRows",
    "grow_exact_tree",
    "send_left_out",
]

#: The cost of one entry in the split search, in histogram bins.
CELLS_PER_ENTRY = 8

# Commands of thread 0.
_STOP, _BEGIN, _SEARCH, _SEND, _PARTITION = range(5)


class ExactTreeRows(NamedTuple):
    """The rows that a tree is grown on.

    Attributes
    ----------
    starts
        (features + 1,) int64: the first entry of each column.
    columns
        (entries,) uint64: the sorted entries of all rows; see `exact`.
    directions
        (features, 2) int64: see `exact.NodeEntries`.
    most
        Candidates of a node and feature; 0: all cuts between two values.
    wide
        (2, rows) int64: the gradients in fixed point.
    taken
        (rows,) uint8: whether a row is in the sample; empty: all are.
    node_of
        (rows,) uint32: the node of each row.
    """

    starts: NDArray[np.int64]
    columns: NDArray[np.uint64]
    directions: NDArray[np.int64]
    most: int
    wide: NDArray[np.int64]
    taken: NDArray[np.uint8]
    node_of: NDArray[np.uint32]


class ExactTreeBuffers(NamedTuple):
    """Lists of nodes, their entries, and memory of the threads.

    Attributes
    ----------
    batch
        (nodes,) int64: the nodes that are split.
    sent
        Those whose rows are sent to the children.
    tasks
        (tasks, 3) int64: see `exact.send_rows`.
    entries
        (entries,) uint64: those of the nodes; the root of all rows has the columns.
    segments, totals
        (nodes, features, 2) and (nodes, 3) int64: see `exact.NodeEntries`.
    gradients
        (2 * rows,) int64: see there.
    sums
        (threads, 3) int64: parts of the root's total.
    allowed
        (searched nodes, features) uint8: the features that each may be split by;
        (1, features) where all may.
    columns
        (3, features) uint64: see `sampling.draw_columns`.
    scratch
        (threads, 7, most entries of a feature + 1) float64.
    found
        (threads, searched nodes + 1) SPLIT_DTYPE.
    found_sides
        (searched nodes, 0, 2) float64: see `TreeBuffers`.
    sync
        (SYNC_SIZE,) int64: for phases of one thread.
    """

    batch: NDArray[np.int64]
    sent: SentNodes
    tasks: NDArray[np.int64]
    entries: NDArray[np.uint64]
    segments: NDArray[np.int64]
    totals: NDArray[np.int64]
    gradients: NDArray[np.int64]
    sums: NDArray[np.int64]
    allowed: NDArray[np.uint8]
    columns: NDArray[np.uint64]
    scratch: NDArray[np.float64]
    found: NDArray[Any]
    found_sides: NDArray[np.float64]
    sync: NDArray[np.int64]


@inline
def _count_entries(begin, end, chosen, segments):
    """Return the number of entries of some nodes in the features of the tree."""
    count = np.int64(0)
    for node in range(begin, end):
        for feature in chosen:
            count += segments[node, feature, 1] - segments[node, feature, 0]
    return count


@inline
def _list_parts(feature, begin, end, count, tasks):
    """List entries of a feature as tasks; return the number of all tasks then."""
    for first in range(begin, end, TASK_ROWS):
        tasks[count, 0] = feature
        tasks[count, 1] = first
        tasks[count, 2] = min(first + TASK_ROWS, end)
        count += 1
    return count


@inline
def _begin_children(tables, totals):
    """Write the sums of the new nodes."""
    state = tables.state
    for left in range(state[BEGIN], state[END], 2):
        split, right = tables.splits[tables.family[PARENT, left]], left + 1
        totals[left, 0] = split["left_gradient"]
        totals[left, 1] = split["left_hessian"]
        totals[left, 2] = split["left_rows"]
        totals[right, 0] = split["total_gradient"] - split["left_gradient"]
        totals[right, 1] = split["total_hessian"] - split["left_hessian"]
        totals[right, 2] = split["total_rows"] - split["left_rows"]


@inline
def _send(count, team, rows, tables, buffers):
    """Let the rows of the batch go to the children next; return the threads."""
    state, sent, n_rows = tables.state, buffers.sent, rows.node_of.size
    cells = tasks = misses = np.int64(0)
    for i in range(count):
        node = buffers.batch[i]
        split, left = tables.splits[node], tables.nodes[node]["left"]
        feature = np.int64(split["feature"])
        begin = buffers.segments[node, feature, 0]
        end = buffers.segments[node, feature, 1]
        sent.feature[node] = feature
        sent.last[node] = split["bin"]
        sent.left[node] = left
        sent.missing[node] = left + 1 - split["missing_left"]
        tasks = _list_parts(feature, begin, end, tasks, buffers.tasks)
        cells += end - begin
        if rows.starts[feature + 1] - rows.starts[feature] < n_rows:
            misses = np.int64(1)
    cells += misses * n_rows
    state[COMMAND], state[N_TASKS] = _SEND, tasks
    state[N_SENT], state[SENDS_MISSING] = count, misses
    return sharers_for(team, CELLS_PER_ROW * cells, True)


@kernel
def _plan(team, rows, features, rules, limits, tables, buffers):
    """Settle the phase that has ended, and begin the next one.

    Returns the number of threads that the next phase pays for.
    """
    state, chosen = tables.state, features.chosen
    n_rows, segments = rows.node_of.size, buffers.segments
    ended = state[COMMAND]
    if ended == _STOP and state[NEXT] == 0:
        state[COMMAND] = _BEGIN
        entries = rows.columns.size if rows.taken.size > 0 else 0
        threads = sharers_for(team, CELLS_PER_ROW * (n_rows + entries), True)
        state[N_BUILDERS] = 1 if threads == 1 else team
        return threads
    if ended == _BEGIN:
        for part in range(3):
            total = np.int64(0)
            for thread_id in range(state[N_BUILDERS]):
                total += buffers.sums[thread_id, part]
            buffers.totals[0, part] = total
        if not may_split(0, rules, tables):
            state[NEXT] = 1
    elif ended == _SEARCH:
        store_splits(buffers.found[0], buffers.found_sides, rules, limits, tables)
    elif ended == _SEND:
        for i in range(state[N_SENT]):
            buffers.sent.feature[buffers.batch[i]] = -1
        if state[NEXT] < state[END]:
            state[COMMAND] = _PARTITION
            entries = np.int64(0)
            for i in range(state[N_SENT]):
                node = buffers.batch[i]
                entries += _count_entries(node, node + 1, chosen, segments)
            return sharers_for(team, CELLS_PER_ENTRY * entries, True)
    if state[NEXT] < state[END]:
        begin = state[NEXT]
        list_nodes(buffers.found.shape[1] - 1, features, tables, buffers)
        state[COMMAND] = _SEARCH
        entries = _count_entries(begin, state[NEXT], chosen, segments)
        return sharers_for(team, CELLS_PER_ENTRY * entries, True)
    count = split_next(buffers.batch, rules, limits, tables)
    if count > 0:
        _begin_children(tables, buffers.totals)
        return _send(count, team, rows, tables, buffers)
    state[COMMAND] = _STOP
    state[STATUS] = FULL if count < 0 else COMPLETE
    if count == 0:
        clear_leaves(tables)
    return 1


@kernel
def grow_exact_tree(
    thread_id,
    n_threads,
    sync,
    rows,
    features,
    rules,
    limits,
    tables,
    buffers,
    leaves,
):
    """Grow a tree, from the root or from where the tables were full.

    `rows` are `ExactTreeRows`, `features` `TreeFeatures`, `rules` `GrowthRules`,
    `limits` `TreeLimits` or None, `tables` `TreeTables`, `buffers` `ExactTreeBuffers`
    and `leaves` `TreeLeaves`.
    """
    state = tables.state
    while True:
        team = n_threads
        counters = sync
        if thread_id == 0:
            threads = _plan(n_threads, rows, features, rules, limits, tables, buffers)
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
        first = state[NEXT] - state[N_SEARCHED]
        # The root of all rows has the columns themselves.
        is_whole = rows.taken.size == 0
        source = buffers.entries
        if command == _BEGIN:
            begin_root(
                thread_id,
                team,
                counters,
                rows.starts,
                rows.columns,
                features.chosen,
                rows.wide,
                rows.taken,
                buffers.gradients,
                rows.node_of,
                buffers.sums,
                buffers.segments,
                buffers.entries,
            )
        elif command == _SEARCH:
            if is_whole and first == 0:
                source = rows.columns
            masks = state[N_SEARCHED] if state[N_TASKS] > 0 else np.int64(0)
            find_exact_splits(
                thread_id,
                team,
                counters,
                first,
                state[N_SEARCHED],
                NodeEntries(
                    source,
                    buffers.segments,
                    buffers.gradients,
                    buffers.totals,
                    rows.directions,
                ),
                CandidateFeatures(features.chosen, buffers.allowed[:masks], 1),
                rules.scales,
                rules.split,
                limits_of_nodes(limits),
                rows.most,
                buffers.scratch,
                buffers.found,
            )
        elif command == _SEND:
            if is_whole and buffers.batch[0] == 0:
                source = rows.columns
            send_rows(
                thread_id,
                team,
                counters,
                buffers.tasks[: state[N_TASKS]],
                source,
                buffers.sent,
                state[SENDS_MISSING] != 0,
                rows.taken,
                rows.node_of,
            )
        else:
            if is_whole and state[BEGIN] == 1:
                source = rows.columns
            partition_entries(
                thread_id,
                team,
                counters,
                state[BEGIN],
                tables.family[PARENT, : state[END]],
                features.chosen,
                rows.node_of,
                buffers.scratch,
                source,
                buffers.segments,
                buffers.entries,
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


@kernel
def send_left_out(
    thread_id,
    n_threads,
    sync,
    rows,  # ExactTreeRows
    order,  # (splits,) int64: the split nodes, by depth
    ends,  # (levels,) int64: the end of each level in them
    every,  # SentNodes: what is known of all split nodes
    sent,  # SentNodes: the same, but of no feature; -1 in and out
    seen,  # (features,) int64: -1
    tasks,  # (tasks, 3) int64, scratch for all entries
    count,  # (1,) int64, scratch
):
    """Send the rows outside of the sample, which are at the root, to the leaves.

    Their values may lie between those of the sample. The other rows are at leaves.
    """
    begin = np.int64(0)
    for level in range(ends.size):
        own = order[begin : ends[level]]
        begin = ends[level]
        if thread_id == 0:
            count[0] = 0
            for node in own:
                feature = every.feature[node]
                sent.feature[node] = feature
                if seen[feature] < level:
                    seen[feature] = level
                    first, end = rows.starts[feature], rows.starts[feature + 1]
                    count[0] = _list_parts(feature, first, end, count[0], tasks)
            restart_tasks(sync)
        barrier(sync, n_threads)
        if is_stopped(sync):
            return
        send_rows(
            thread_id,
            n_threads,
            sync,
            tasks[: count[0]],
            rows.columns,
            sent,
            True,
            rows.taken[:0],
            rows.node_of,
        )
        barrier(sync, n_threads)
        if thread_id == 0:
            for node in own:
                sent.feature[node] = -1
