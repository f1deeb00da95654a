"""A whole tree in one call, for rows in memory.

All threads of the team enter `grow_tree` once. Thread 0 plans: it chooses the nodes to
split and lists the tasks of the next phase, which is to partition rows, to build
histograms or to search splits. It works on short phases alone, and shares long ones
with the other threads, which wait for them at a barrier. So a phase costs a barrier of
0.1 microseconds instead of a dispatch of 30 to 90. At the end `tree_end.finish_tree`
sums the leaves and weighs the nodes.

Each phase is compiled apart from the loop over them, which takes less time, since the
kinds of trees share most phases, and several processes can compile them. Numba compiles
a phase together with all kernels that it calls, so each of these is called in one
place, and short functions are inlined.

Multi-output trees have one histogram for each gradient column (see `multi_output`);
the phases that build and search histograms differ, the others are the same.

The tree is the one that `growth.grower` grows with the same functions, call by call.
"""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.histogram import (
    HistogramSlots,
    QuantisedGradients,
    build_histograms,
    by_feature_of,
    take_from_parent,
)
from hornbeam.kernels.jit import inline, kernel, phase
from hornbeam.kernels.layout import JOIN_BINS, PACK, REPLACE
from hornbeam.kernels.multi_output import search_columns, weigh_columns
from hornbeam.kernels.packed_split import (
    PackedSums,
    SplitBuffers,
    can_split,
    is_packed,
    node_size,
    pack,
    search_packed_node,
    subtract_histogram,
    subtract_rows,
    sum_few_rows,
)
from hornbeam.kernels.partition import partition_rows
from hornbeam.kernels.plan import (
    enter_split,
    plan_histograms,
    plan_partition,
    settle_children,
)
from hornbeam.kernels.split import (
    CandidateFeatures,
    keep_candidate,
    search_node,
)
from hornbeam.kernels.sync import (
    barrier,
    is_stopped,
    next_task_of_side,
    restart_tasks,
    sharers_for,
)
from hornbeam.kernels.tree_end import finish_tree
from hornbeam.kernels.tree_growth import (
    add_children,
    bound_new_nodes,
    choose_nodes,
    clear_leaves,
    is_worthwhile,
    mask_features,
    may_split,
    push,
    store_sides,
)
from hornbeam.kernels.tree_tables import (
    BEGIN,
    COMMAND,
    COMPLETE,
    END,
    FULL,
    HESSIAN,
    N_BUILDERS,
    N_BUILT,
    N_JOINS,
    N_LEAVES,
    N_NODES,
    N_PENDING,
    N_SEARCHED,
    N_SUBTRACTED,
    N_TASKS,
    NEXT,
    PARENT,
    SLOT,
    STATUS,
    limits_of_nodes,
)

__all__ = ["CELLS_PER_BIN", "FEW_ROWS", "grow_tree"]

#: Nodes of at most this many rows have no histogram (measured: 64 to 200 are best).
FEW_ROWS = 128
#: The cost of searching one bin, in units of adding one row to a histogram bin.
CELLS_PER_BIN = 4

# Commands of thread 0.
_STOP, _PARTITION, _COUNT, _BUILD, _SEARCH = range(5)


@inline
def _has_few_rows(tables, node, rules):
    return rules.packs and node_size(tables, node) <= FEW_ROWS


# What thread 0 plans


@inline
def _enter_nodes(batch, count, features, tables):
    """Enter the chosen splits and their children; these are the last nodes then."""
    state = tables.state
    state[BEGIN] = state[N_NODES]
    for i in range(count):
        node = batch[i]
        enter_split(
            tables.splits[node],
            tables.sets[node],
            state[N_NODES],
            features.table,
            node,
            tables.nodes,
            tables.lefts,
        )
        add_children(node, tables)
    state[N_LEAVES] += count
    state[END] = state[N_NODES]


@inline
def _free_slot(tables, pool, node):
    """Free the slot of a node, if it has any."""
    slot = tables.family[SLOT, node]
    if slot >= 0:
        height = pool.free.size - 1
        pool.free[pool.free[height]] = slot
        pool.free[height] += 1
        tables.family[SLOT, node] = -1


@kernel
def _assign_slots(begin, end, tables, pool, rules, buffers):
    """Assign slots to the histograms of new nodes, and list what is to be done.

    Of two siblings the histogram of the smaller one is built; the larger one takes over
    the slot of the parent, from which the smaller one is subtracted. Nodes that cannot
    be split need no histogram. If slots run out, all histograms except those of the
    parents are dropped, and those of both siblings are built when they are needed.
    """
    state, family = tables.state, tables.family
    free, height = pool.free, pool.free.size - 1
    built, slots, searched = buffers.batch[1], buffers.batch[2], buffers.batch[3]
    n_built = n_searched = n_subtracted = np.int64(0)
    first = begin if begin > 0 else 1
    if free[height] < end - begin:
        # Children keep the parents' slots from being dropped.
        for left in range(first, end, 2):
            parent = family[PARENT, left]
            family[SLOT, left] = family[SLOT, parent]
            family[SLOT, parent] = -1
        for node in range(begin):
            _free_slot(tables, pool, node)
        for left in range(first, end, 2):
            family[SLOT, family[PARENT, left]] = family[SLOT, left]
            family[SLOT, left] = -1
    if begin == 0:
        searched[0] = built[0] = 0
        n_searched = np.int64(1)
        n_built = np.int64(not _has_few_rows(tables, 0, rules))
    for left in range(first, end, 2):
        parent = family[PARENT, left]
        swaps = node_size(tables, left) > node_size(tables, left + 1)
        smaller = left + 1 if swaps else left
        larger = left if swaps else left + 1
        slot = family[SLOT, parent]
        searches_smaller = node_size(tables, smaller) > 1 and can_split(
            family[HESSIAN, smaller], rules.scales, rules.split
        )
        searches_larger = node_size(tables, larger) > 1 and can_split(
            family[HESSIAN, larger], rules.scales, rules.split
        )
        builds_smaller = searches_smaller and not _has_few_rows(tables, smaller, rules)
        builds_larger = searches_larger and not _has_few_rows(tables, larger, rules)
        if builds_larger and slot >= 0:
            family[SLOT, larger] = slot
            family[SLOT, parent] = -1
            builds_larger = False
            buffers.subtracted[0, n_subtracted] = larger
            buffers.subtracted[1, n_subtracted] = smaller
            n_subtracted += 1
            builds_smaller = not _has_few_rows(tables, smaller, rules)
        else:
            _free_slot(tables, pool, parent)
        for side in range(2):
            node = left + side
            is_smaller = node == smaller
            if searches_smaller if is_smaller else searches_larger:
                searched[n_searched] = node
                n_searched += 1
            else:
                keep_candidate(
                    tables.splits[node], 0.0, -1, 0, 0, 0, np.int64(0), np.int64(0)
                )
            if builds_smaller if is_smaller else builds_larger:
                built[n_built] = node
                n_built += 1
    for i in range(n_built):
        free[height] -= 1
        slots[i] = free[free[height]]
        family[SLOT, built[i]] = slots[i]
    state[N_BUILT] = n_built
    state[N_SEARCHED] = n_searched
    state[N_SUBTRACTED] = n_subtracted


@inline
def _list_histograms(team, features, rules, pool, tables, buffers):
    """List the tasks that build histograms; return the number of threads."""
    state = tables.state
    count = state[N_BUILT]
    # Rows are counted in the third part first, with gradients of 0 in the second one.
    state[COMMAND] = _COUNT if pool.histograms.shape[1] > 2 else _BUILD
    state[N_BUILDERS] = plan_histograms(
        buffers.batch[1, :count],
        buffers.batch[2, :count],
        tables.nodes,
        team,
        True,
        features.blocks,
        pool.histograms.shape[2],
        pool.histograms.shape[0],
        PACK if rules.packs else REPLACE,
        buffers.tasks,
        buffers.joins,
        state[N_TASKS : N_JOINS + 1],
    )
    return state[N_BUILDERS]


@inline
def _begin_search(team, pool, rules, state):
    """Let the listed nodes be searched next; return the number of threads."""
    state[COMMAND] = _SEARCH
    bins = rules.columns * pool.histograms.shape[2]
    return sharers_for(team, CELLS_PER_BIN * bins * state[N_SEARCHED], True)


@inline
def _store_splits(rules, limits, pool, tables, buffers):
    """Store the best split of each node that has been searched."""
    for i in range(tables.state[N_SEARCHED]):
        node = buffers.batch[3, i]
        best = 0  # the first of equals: the lowest feature
        for part in range(1, buffers.found.shape[1]):
            if buffers.found[i, part]["gain"] > buffers.found[i, best]["gain"]:
                best = part
        tables.splits[node] = buffers.found[i, best]
        for word in range(tables.sets.shape[1]):
            tables.sets[node, word] = buffers.found_sets[i, best, word]
        if limits is not None:
            sides = buffers.found_sides[i, best]
            store_sides(tables.splits[node], node, sides, limits.tables)
        if not is_worthwhile(tables, node, rules):
            _free_slot(tables, pool, node)
        elif rules.lossguide:
            push(tables, node)


@phase
def _plan(team, features, rules, limits, pool, tables, buffers):
    """Settle the phase that has ended, and list the tasks of the next one.

    Returns the number of threads that the next phase pays for.
    """
    state = tables.state
    ended = state[COMMAND]
    if ended == _PARTITION:
        tasks = buffers.partition_tasks[: state[N_TASKS]]
        settle_children(tasks, buffers.counts, tables.nodes)
    elif ended == _COUNT:
        state[COMMAND] = _BUILD
        return state[N_BUILDERS]
    elif ended == _BUILD and state[N_SEARCHED] > 0:
        return _begin_search(team, pool, rules, state)
    elif ended == _SEARCH:
        _store_splits(rules, limits, pool, tables, buffers)
    elif state[NEXT] == 0 and not may_split(0, rules, tables):
        state[NEXT] = 1
    # Search the last nodes, in batches for which there are slots.
    most = min(buffers.found.shape[0], (pool.free.size - 1) // 3) & ~1
    while state[NEXT] < state[END]:
        begin = state[NEXT]
        state[NEXT] = min(begin + most, state[END])
        _assign_slots(begin, state[NEXT], tables, pool, rules, buffers)
        if state[N_BUILT] > 0:
            return _list_histograms(team, features, rules, pool, tables, buffers)
        if state[N_SEARCHED] > 0:
            return _begin_search(team, pool, rules, state)
    # Split those that are worthwhile.
    batch = buffers.batch[0]
    count = choose_nodes(tables, rules, batch)
    while count > 0:
        _enter_nodes(batch, count, features, tables)
        if may_split(state[BEGIN], rules, tables):
            if limits is not None:
                bound_new_nodes(batch[:count], limits, tables)
            state[COMMAND] = _PARTITION
            state[NEXT] = state[BEGIN]
            n_tasks, threads = plan_partition(
                batch[:count], tables.nodes, team, True, buffers.partition_tasks
            )
            state[N_TASKS] = n_tasks
            return threads
        # The children stay leaves, so that the rows need not be moved.
        state[BEGIN] = state[NEXT] = state[END]
        for i in range(count):
            _free_slot(tables, pool, batch[i])
            tables.pending[state[N_PENDING] + i] = batch[i]
        state[N_PENDING] += count
        count = choose_nodes(tables, rules, batch)
    state[COMMAND] = _STOP
    state[STATUS] = FULL if count < 0 else COMPLETE
    if count == 0:
        clear_leaves(tables)
    return 1


# What all threads do


@inline
def _subtract(task, rows, gradients, pool, tables, rules, buffers):
    """Subtract a smaller sibling from its parent, which leaves the larger one."""
    histograms = pool.histograms
    n_bins = histograms.shape[2]
    shares = (n_bins + JOIN_BINS - 1) // JOIN_BINS
    larger = buffers.subtracted[0, task // shares]
    smaller = buffers.subtracted[1, task // shares]
    begin = task % shares * JOIN_BINS
    end = min(begin + JOIN_BINS, n_bins)
    slot = tables.family[SLOT, larger]
    child = tables.family[SLOT, smaller]
    was_packed = is_packed(tables, tables.family[PARENT, larger], rules)
    becomes_packed = is_packed(tables, larger, rules)
    if child < 0:
        # All of it in one task: rows have bins everywhere.
        if begin == 0:
            place = tables.nodes[smaller]
            subtract_rows(
                rows.columns,
                rows.rows[place["side"], place["begin"] : place["end"]],
                gradients.packed,
                was_packed,
                histograms[slot],
            )
            if becomes_packed and not was_packed:
                pack(histograms[slot])
    else:
        subtract_histogram(
            histograms,
            slot,
            child,
            is_packed(tables, smaller, rules),
            was_packed,
            becomes_packed,
            begin,
            end,
        )


@inline
def _search(
    task,
    thread_id,
    rows,
    gradients,
    pool,
    features,
    rules,
    limits,
    tables,
    buffers,
):
    """Search the best split of a node among the features of a task."""
    parts = buffers.found.shape[1]
    i, part = task // parts, task % parts
    node = buffers.batch[3, i]
    split, rights = buffers.found[i, part], buffers.found_sets[i, part]
    chosen = features.chosen[part * features.block : (part + 1) * features.block]
    masks = mask_features(
        node,
        features,
        tables,
        buffers.columns[thread_id],
        buffers.allowed[thread_id],
    )
    allowed = buffers.allowed[thread_id : thread_id + masks]
    if is_packed(tables, node, rules):
        own = SplitBuffers(
            buffers.values[thread_id],
            buffers.every_bin,
            buffers.sums[thread_id],
            buffers.touched[thread_id],
        )
        packed = gradients.packed
        few = _has_few_rows(tables, node, rules)
        sums = own.sums
        total = np.int64(0)
        if few:
            # One task searches all features.
            chosen = features.chosen[: features.chosen.size if part == 0 else 0]
            if part == 0:
                place = tables.nodes[node]
                own_rows = rows.rows[place["side"], place["begin"] : place["end"]]
                total = sum_few_rows(rows.columns, own_rows, packed, own)
        else:
            sums = pool.histograms[tables.family[SLOT, node], 0]
            for c in range(features.every_row[0], features.every_row[1]):
                total += sums[c]
        search_packed_node(
            PackedSums(sums, total, few),
            node,
            CandidateFeatures(chosen, allowed, chosen.size),
            features.table,
            rules.scales,
            rules.split,
            limits,
            own,
            split,
            rights,
        )
    else:
        search_node(
            pool.histograms[tables.family[SLOT, node]],
            rules.packs,
            node,
            CandidateFeatures(chosen, allowed, chosen.size),
            features.table,
            features.every_row,
            rules.scales,
            rules.split,
            limits,
            buffers.values[thread_id],
            split,
            rights,
        )


@phase
def _partition(thread_id, n_threads, sync, rows, tables, buffers):
    """Move the rows of the nodes that are split to those of their children."""
    partition_rows(
        thread_id,
        n_threads,
        sync,
        buffers.partition_tasks[: tables.state[N_TASKS]],
        tables.nodes,
        tables.lefts,
        by_feature_of(rows.columns),
        rows.rows,
        buffers.counts,
    )


@phase
def _build(thread_id, n_threads, sync, rows, gradients, slots, tables, buffers):
    """Build the histograms of the listed tasks."""
    state = tables.state
    build_histograms(
        thread_id,
        n_threads,
        sync,
        buffers.tasks[: state[N_TASKS]],
        buffers.joins[: state[N_JOINS]],
        rows.columns,
        rows.rows,
        gradients,
        buffers.histogram_buffers,
        slots,
    )


@phase
def _search_nodes(
    thread_id,
    n_threads,
    sync,
    rows,
    gradients,
    pool,
    features,
    rules,
    limits,
    tables,
    buffers,
):
    """Subtract smaller siblings from their parents, then search the best splits."""
    state = tables.state
    shares = (pool.histograms.shape[2] + JOIN_BINS - 1) // JOIN_BINS
    count = state[N_SUBTRACTED] * shares
    task = next_task_of_side(sync, 0, thread_id, count)
    while task < count:
        _subtract(task, rows, gradients, pool, tables, rules, buffers)
        task = next_task_of_side(sync, 0, thread_id, count)
    barrier(sync, n_threads)
    count = state[N_SEARCHED] * buffers.found.shape[1]
    task = next_task_of_side(sync, 1, thread_id, count)
    while task < count:
        _search(
            task,
            thread_id,
            rows,
            gradients,
            pool,
            features,
            rules,
            limits,
            tables,
            buffers,
        )
        task = next_task_of_side(sync, 1, thread_id, count)


@phase
def _search_columns(
    thread_id, n_threads, sync, columns, features, rules, limits, tables, buffers
):
    """Subtract and search as `_search_nodes`, in all columns of a multi-output tree."""
    state, histograms = tables.state, columns.histograms
    bins, parts = histograms.shape[3], buffers.found.shape[1]
    shares = (bins + JOIN_BINS - 1) // JOIN_BINS
    pairs = state[N_SUBTRACTED] * shares
    count = pairs * histograms.shape[0]
    task = next_task_of_side(sync, 0, thread_id, count)
    while task < count:
        column, pair, share = task // pairs, task % pairs // shares, task % shares
        larger, smaller = buffers.subtracted[0, pair], buffers.subtracted[1, pair]
        take_from_parent(
            histograms[column],
            tables.family[SLOT, larger],
            tables.family[SLOT, smaller],
            share * JOIN_BINS,
            min((share + 1) * JOIN_BINS, bins),
        )
        task = next_task_of_side(sync, 0, thread_id, count)
    barrier(sync, n_threads)
    count = state[N_SEARCHED] * parts
    task = next_task_of_side(sync, 1, thread_id, count)
    while task < count:
        i, part = task // parts, task % parts
        node, first = buffers.batch[3, i], part * features.block
        masks = mask_features(
            node,
            features,
            tables,
            buffers.columns[thread_id],
            buffers.allowed[thread_id],
        )
        search_columns(
            histograms,
            tables.family[SLOT, node],
            node,
            CandidateFeatures(
                features.chosen[first : first + features.block],
                buffers.allowed[thread_id : thread_id + masks],
                features.chosen.size,
            ),
            features.table,
            features.every_row,
            columns.scales,
            rules.split,
            limits,
            columns.buffers,
            thread_id,
            buffers.found[i, part],
            buffers.found_sets[i, part],
        )
        if limits is not None:
            weigh_columns(
                histograms,
                tables.family[SLOT, node],
                node,
                features.table,
                features.every_row,
                columns.scales,
                rules.split,
                limits,
                buffers.found[i, part],
                buffers.found_sets[i, part],
                buffers.found_sides[i, part],
            )
        task = next_task_of_side(sync, 1, thread_id, count)


@inline
def _build_columns(
    thread_id, n_threads, sync, rows, columns, pool, limits, tables, buffers
):
    """Build the histograms of the listed tasks in all columns, one after the other."""
    gradients = columns.gradients
    for column in range(columns.histograms.shape[0]):
        if column > 0:
            barrier(sync, n_threads)
            if thread_id == 0:
                restart_tasks(sync)
            barrier(sync, n_threads)
        place = min(column, gradients.is_wide.size - 1)
        n_rows = 0 if gradients.is_wide[place] else rows.rows.shape[1]
        own = QuantisedGradients(
            gradients.packed[place, :n_rows], gradients.wide[place]
        )
        if limits is not None and column > place:  # it counts rows
            own = limits.units
        slots = HistogramSlots(columns.histograms[column], pool.slabs, np.int64(0))
        _build(thread_id, n_threads, sync, rows, own, slots, tables, buffers)


@kernel
def grow_tree(
    thread_id,
    n_threads,
    sync,
    rows,
    gradients,
    columns,
    pool,
    features,
    rules,
    limits,
    tables,
    buffers,
    leaves,
):
    """Grow a tree, from the root or from where the tables were full.

    `rows` are `TreeRows`. A tree of one output has `gradients`, which are
    `QuantisedGradients`, and a multi-output tree `columns`, which are `OutputColumns`;
    the other one is None. `pool` is a `HistogramPool`, `features` are `TreeFeatures`,
    `rules` `GrowthRules`, `limits` `TreeLimits` or None, `tables` `TreeTables`,
    `buffers` `TreeBuffers` and `leaves` `TreeLeaves`.
    """
    state = tables.state
    while True:
        team = n_threads
        counters = sync
        if thread_id == 0:
            threads = _plan(n_threads, features, rules, limits, pool, tables, buffers)
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
        if command == _PARTITION:
            _partition(thread_id, team, counters, rows, tables, buffers)
        elif command == _BUILD or command == _COUNT:  # noqa: SIM109 (compiles less)
            # Numba leaves out what depends on the one that is None.
            if gradients is not None:
                added, first = gradients, np.int64(0)
                if limits is not None and command == _COUNT:
                    added, first = limits.units, np.int64(1)
                slots = HistogramSlots(pool.histograms, pool.slabs, first)
                _build(thread_id, team, counters, rows, added, slots, tables, buffers)
            if columns is not None:
                _build_columns(
                    thread_id,
                    team,
                    counters,
                    rows,
                    columns,
                    pool,
                    limits,
                    tables,
                    buffers,
                )
        else:
            if gradients is not None:
                _search_nodes(
                    thread_id,
                    team,
                    counters,
                    rows,
                    gradients,
                    pool,
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
                    columns,
                    features,
                    rules,
                    limits_of_nodes(limits),
                    tables,
                    buffers,
                )
        barrier(counters, team)
    if state[STATUS] == COMPLETE and leaves.weighs:
        finish_tree(
            thread_id,
            n_threads,
            sync,
            by_feature_of(rows.columns),
            rows.rows,
            rules.split,
            tables,
            leaves,
        )
