"""A whole symmetric tree in one call, for rows in memory.

All threads of the team enter `grow_symmetric_tree` once. Thread 0 plans, and shares
long phases with the others, as in `tree.grow_tree`: rows are partitioned, histograms
built, and the gains of the level's nodes added up. The histograms of all nodes of a
level that may gain are kept.

The tree is the one that `growth.symmetric` grows with the same functions, call by call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.histogram import (
    HistogramBuffers,
    HistogramSlots,
    build_histograms,
    by_feature_of,
)
from hornbeam.kernels.interactions import allow_together, extend_path
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import JOIN_BINS, PACK, REPLACE
from hornbeam.kernels.packed_split import (
    can_split,
    is_packed,
    node_size,
    subtract_histogram,
)
from hornbeam.kernels.partition import partition_rows
from hornbeam.kernels.plan import (
    enter_split,
    plan_histograms,
    plan_partition,
    settle_children,
)
from hornbeam.kernels.sampling import draw_columns
from hornbeam.kernels.split import CandidateFeatures, keep_candidate, write_leaf
from hornbeam.kernels.symmetric_tree import (
    LevelGains,
    add_node_gains,
    choose_level_split,
    write_level_split,
)
from hornbeam.kernels.sync import (
    barrier,
    is_stopped,
    next_task,
    restart_tasks,
    sharers_for,
)
from hornbeam.kernels.tree import CELLS_PER_BIN

__all__ = [
    "BEGIN",
    "END",
    "STATE_SIZE",
    "LevelBuffers",
    "SymmetricNodes",
    "grow_symmetric_tree",
]

# Words of the state of a tree.
(
    BEGIN,  # the nodes of the last level
    END,
    _COMMAND,
    _N_TASKS,
    _N_JOINS,
    _N_BUILT,
    _N_SUBTRACTED,
    _N_SEARCHED,
    STATE_SIZE,
) = range(9)

# Commands of thread 0.
_STOP, _PARTITION, _BUILD, _SEARCH = range(4)

# Rows of the table of families.
_PARENT, _SLOT, _HESSIAN = range(3)


class SymmetricNodes(NamedTuple):
    """The nodes of a symmetric tree, level by level from the left to the right.

    Attributes
    ----------
    nodes
        (nodes,) NODE_DTYPE.
    lefts
        (nodes, words) uint64: bins that go left at splits by category.
    splits
        (nodes,) SPLIT_DTYPE; at the end zero at leaves.
    sets
        (nodes, words) uint64: the categories that go right in these.
    family
        (3, nodes) int64: the parent, the slot or -1, the sum of hessians.
    used
        (nodes, words) uint64: the features on the path to the first node of each level;
        (nodes, 0) where all may interact.
    state
        (STATE_SIZE,) int64.
    """

    nodes: NDArray[Any]
    lefts: NDArray[np.uint64]
    splits: NDArray[Any]
    sets: NDArray[np.uint64]
    family: NDArray[np.int64]
    used: NDArray[np.uint64]
    state: NDArray[np.int64]


class LevelBuffers(NamedTuple):
    """Task lists, and memory of the threads.

    Attributes
    ----------
    batch
        (3, nodes of a level) int64: nodes to build, their slots, and nodes to search.
    subtracted
        (2, nodes of a level) int64: larger siblings, and the smaller ones to subtract.
    partition_tasks, counts
        (tasks, 5) and (tasks,) int64: see `partition.partition_rows`.
    tasks, joins
        See `histogram.build_histograms`.
    histogram_buffers
        Memory of the threads that build histograms.
    columns, allowed
        (3, features) uint64 and (1, features) uint8: see `sampling.draw_columns`.
    below
        (threads, 2, places) int64.
    level
        Of the last level.
    choice
        (1,) CHOICE_DTYPE: its split.
    sync
        (SYNC_SIZE,) int64: for phases of one thread.
    """

    batch: NDArray[np.int64]
    subtracted: NDArray[np.int64]
    partition_tasks: NDArray[np.int64]
    counts: NDArray[np.int64]
    tasks: NDArray[np.int64]
    joins: NDArray[np.int64]
    histogram_buffers: HistogramBuffers
    columns: NDArray[np.uint64]
    allowed: NDArray[np.uint8]
    below: NDArray[np.int64]
    level: LevelGains
    choice: NDArray[Any]
    sync: NDArray[np.int64]


@inline
def _may_gain(tables, node, rules):
    """Return whether a node may gain by any split."""
    return can_split(tables.family[_HESSIAN, node], rules.scales, rules.split)


# What thread 0 plans


@inline
def _take_slot(free):
    """Return a free slot of the stack, which is not free any more."""
    height = free.size - 1
    free[height] -= 1
    return free[free[height]]


@inline
def _free_slot(slot, free):
    height = free.size - 1
    free[free[height]] = slot
    free[height] += 1


@inline
def _assign_slots(begin, end, tables, pool, rules, buffers):
    """Assign slots to the histograms of a level, and list what is to be done.

    Of two siblings the histogram of the smaller one is built; the larger one takes over
    the slot of the parent, from which the smaller one is subtracted. Nodes that cannot
    gain by any split need no histogram.
    """
    state, family, free = tables.state, tables.family, pool.free
    built, slots, searched = buffers.batch[0], buffers.batch[1], buffers.batch[2]
    n_built = n_searched = n_subtracted = np.int64(0)
    if begin == 0:
        slots[0] = family[_SLOT, 0] = _take_slot(free)
        built[0] = searched[0] = 0
        n_built = n_searched = np.int64(1)
    for i in range((end - begin) // 2):
        left = begin + 2 * i
        smaller = left + np.int64(node_size(tables, left) > node_size(tables, left + 1))
        larger = 2 * left + 1 - smaller
        slot = family[_SLOT, family[_PARENT, left]]
        family[_SLOT, left] = family[_SLOT, left + 1] = -1
        keeps_larger = _may_gain(tables, larger, rules)
        if keeps_larger:
            # A node that may gain has a parent that may, and so a histogram.
            family[_SLOT, larger] = slot
            buffers.subtracted[0, n_subtracted] = larger
            buffers.subtracted[1, n_subtracted] = smaller
            n_subtracted += 1
        elif slot >= 0:
            _free_slot(slot, free)
        if keeps_larger or _may_gain(tables, smaller, rules):
            slots[n_built] = family[_SLOT, smaller] = _take_slot(free)
            built[n_built] = smaller
            n_built += 1
        for node in range(left, left + 2):
            if _may_gain(tables, node, rules):
                searched[n_searched] = node
                n_searched += 1
    state[_N_BUILT] = n_built
    state[_N_SEARCHED] = n_searched
    state[_N_SUBTRACTED] = n_subtracted


@inline
def _list_histograms(team, features, rules, pool, tables, buffers):
    """List the tasks that build histograms; return the number of threads."""
    state = tables.state
    state[_COMMAND] = _BUILD
    return plan_histograms(
        buffers.batch[0, : state[_N_BUILT]],
        buffers.batch[1, : state[_N_BUILT]],
        tables.nodes,
        team,
        True,
        features.blocks,
        pool.histograms.shape[2],
        pool.histograms.shape[0],
        PACK if rules.packs else REPLACE,
        buffers.tasks,
        buffers.joins,
        state[_N_TASKS : _N_JOINS + 1],
    )


@inline
def _begin_search(team, depth, features, pool, tables, buffers):
    """Let the gains of the level be added next; return the number of threads."""
    state, level, draws = tables.state, buffers.level, features.draws
    state[_COMMAND] = _SEARCH
    level.sums[:] = 0.0
    level.has_ways[:] = 0
    own_features = buffers.allowed[0]
    own_features[:] = 1
    if draws.by_level < 1.0 or draws.by_node < 1.0:
        columns = buffers.columns
        first = state[BEGIN]
        draw_columns(features.chosen, draws, depth, first, columns, own_features)
    # The root may use any feature: one without a group does not interact.
    if features.groups.size > 0 and depth > 0:
        allow_together(tables.used[state[BEGIN]], features.groups, own_features)
    bins = pool.histograms.shape[2]
    return sharers_for(team, CELLS_PER_BIN * bins * state[_N_SEARCHED], True)


@inline
def _write_splits(features, rules, pool, tables, buffers):
    """Write the split of the level at all its nodes."""
    state, splits, sets = tables.state, tables.splits, tables.sets
    for i in range(state[_N_SEARCHED]):
        node = buffers.batch[2, i]
        write_level_split(
            pool.histograms[tables.family[_SLOT, node]],
            is_packed(tables, node, rules),
            features.table,
            features.every_row,
            buffers.choice[0],
            rules.scales,
            rules.split,
            buffers.below[0],
            splits[node],
            sets[node],
        )
    first = buffers.batch[2, 0]
    searched = np.int64(0)
    for node in range(state[BEGIN], state[END]):
        if searched < state[_N_SEARCHED] and buffers.batch[2, searched] == node:
            searched += 1
            continue
        # It gains nothing, and so do all nodes below: their sums are not needed.
        keep_candidate(
            splits[node],
            0.0,
            splits[first]["feature"],
            splits[first]["bin"],
            splits[first]["missing_left"],
            splits[first]["is_categorical"],
            np.int64(0),
            np.int64(0),
        )
        splits[node]["total_gradient"] = splits[node]["total_hessian"] = 0
        for word in range(sets.shape[1]):
            sets[node, word] = sets[first, word]


@inline
def _enter_nodes(features, tables):
    """Enter the children of the level; they are the last level then."""
    state, family = tables.state, tables.family
    begin, end = state[BEGIN], state[END]
    extend_path(begin, tables.splits[begin]["feature"], end, tables.used)
    for node in range(begin, end):
        left = end + 2 * (node - begin)
        split = tables.splits[node]
        enter_split(
            split,
            tables.sets[node],
            left,
            features.table,
            node,
            tables.nodes,
            tables.lefts,
        )
        family[_PARENT, left] = family[_PARENT, left + 1] = node
        family[_HESSIAN, left] = split["left_hessian"]
        family[_HESSIAN, left + 1] = split["total_hessian"] - split["left_hessian"]
    state[BEGIN] = end
    state[END] = end + 2 * (end - begin)


@kernel
def _plan(team, features, rules, pool, tables, buffers):
    """Settle the phase that has ended, and list the tasks of the next one.

    Returns the number of threads that the next phase pays for.
    """
    state = tables.state
    ended = state[_COMMAND]
    depth = np.int64(0)
    while (np.int64(1) << depth) < state[END] - state[BEGIN]:
        depth += 1
    if ended == _PARTITION:
        tasks = buffers.partition_tasks[: state[_N_TASKS]]
        settle_children(tasks, buffers.counts, tables.nodes)
    if ended in (_STOP, _PARTITION):
        _assign_slots(state[BEGIN], state[END], tables, pool, rules, buffers)
        if state[_N_SEARCHED] > 0:
            return _list_histograms(team, features, rules, pool, tables, buffers)
    elif ended == _BUILD:
        return _begin_search(team, depth, features, pool, tables, buffers)
    else:
        choose_level_split(
            buffers.level, features.chosen, features.table, buffers.choice
        )
        choice = buffers.choice[0]
        if choice["gain"] >= rules.gamma:
            _write_splits(features, rules, pool, tables, buffers)
            begin, end = state[BEGIN], state[END]
            _enter_nodes(features, tables)
            if depth + 1 < rules.max_depth:
                state[_COMMAND] = _PARTITION
                for i in range(end - begin):
                    buffers.batch[0, i] = begin + i
                n_tasks, threads = plan_partition(
                    buffers.batch[0, : end - begin],
                    tables.nodes,
                    team,
                    True,
                    buffers.partition_tasks,
                )
                state[_N_TASKS] = n_tasks
                return threads
    state[_COMMAND] = _STOP
    for node in range(state[BEGIN], state[END]):
        split = tables.splits[node]
        write_leaf(split)
    return 1


# What all threads do


@inline
def _subtract(task, pool, tables, rules, buffers):
    """Subtract a smaller sibling from its parent, which leaves the larger one."""
    histograms = pool.histograms
    bins = histograms.shape[2]
    shares = (bins + JOIN_BINS - 1) // JOIN_BINS
    larger = buffers.subtracted[0, task // shares]
    smaller = buffers.subtracted[1, task // shares]
    begin = task % shares * JOIN_BINS
    end = min(begin + JOIN_BINS, bins)
    subtract_histogram(
        histograms,
        tables.family[_SLOT, larger],
        tables.family[_SLOT, smaller],
        is_packed(tables, smaller, rules),
        is_packed(tables, tables.family[_PARENT, larger], rules),
        is_packed(tables, larger, rules),
        begin,
        end,
    )


@kernel
def _add_gains(thread_id, n_threads, sync, pool, features, rules, tables, buffers):
    """Subtract smaller siblings from their parents, then add the gains of the nodes."""
    state = tables.state
    shares = (pool.histograms.shape[2] + JOIN_BINS - 1) // JOIN_BINS
    task = next_task(sync, 0)
    while task < state[_N_SUBTRACTED] * shares:
        _subtract(task, pool, tables, rules, buffers)
        task = next_task(sync, 0)
    barrier(sync, n_threads)
    chosen, block = features.chosen, features.block
    candidates = CandidateFeatures(chosen, buffers.allowed, block)
    task = next_task(sync, 1)
    while task * block < chosen.size:
        for i in range(state[_N_SEARCHED]):
            node = buffers.batch[2, i]
            add_node_gains(
                pool.histograms[tables.family[_SLOT, node]],
                is_packed(tables, node, rules),
                candidates,
                task * block,
                min((task + 1) * block, chosen.size),
                features.table,
                features.every_row,
                rules.scales,
                rules.split,
                buffers.below[thread_id],
                buffers.level,
            )
        task = next_task(sync, 1)


@kernel
def grow_symmetric_tree(
    thread_id, n_threads, sync, rows, gradients, pool, features, rules, tables, buffers
):
    """Grow a symmetric tree.

    `rows` are `TreeRows`, `gradients` `QuantisedGradients`, `pool` a `HistogramPool`,
    `features` `TreeFeatures`, `rules` `GrowthRules`, `tables` `SymmetricNodes` of the
    root, with room for all nodes, and `buffers` `LevelBuffers`.
    """
    state = tables.state
    while True:
        team = n_threads
        counters = sync
        if thread_id == 0:
            threads = _plan(n_threads, features, rules, pool, tables, buffers)
            if threads == 1:
                team = 1
                counters = buffers.sync
            restart_tasks(counters)
            if threads > 1 or state[_COMMAND] == _STOP:
                barrier(sync, n_threads)
        else:
            barrier(sync, n_threads)
        command = state[_COMMAND]
        if command == _STOP or is_stopped(sync):
            return
        if command == _PARTITION:
            partition_rows(
                thread_id,
                team,
                counters,
                buffers.partition_tasks[: state[_N_TASKS]],
                tables.nodes,
                tables.lefts,
                by_feature_of(rows.columns),
                rows.rows,
                buffers.counts,
            )
        elif command == _BUILD:
            build_histograms(
                thread_id,
                team,
                counters,
                buffers.tasks[: state[_N_TASKS]],
                buffers.joins[: state[_N_JOINS]],
                rows.columns,
                rows.rows,
                gradients,
                buffers.histogram_buffers,
                HistogramSlots(pool.histograms, pool.slabs, np.int64(0)),
            )
        else:
            _add_gains(
                thread_id, team, counters, pool, features, rules, tables, buffers
            )
        barrier(counters, team)
