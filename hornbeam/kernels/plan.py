"""Task lists of kernels: which thread tasks process which rows of which nodes.

They are kernels because Python would take longer for these short lists than the other
kernels take for small data.
"""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import (
    ADD,
    BLOCK_ROWS,
    JOIN_BINS,
    PACK,
    REPLACE,
    TASK_ROWS,
)
from hornbeam.kernels.sync import sharers_for

__all__ = [
    "CELLS_PER_ROW",
    "assign_slots",
    "enter_children",
    "enter_split",
    "enter_splits",
    "free_slots",
    "plan_histograms",
    "plan_leaves",
    "plan_partition",
    "settle_children",
]

#: The cost of one iteration of a loop over rows, in histogram bins.
CELLS_PER_ROW = 8
#: Tasks per thread, for load balancing.
_TASKS_PER_THREAD = 4
#: The least rows of a task that partitions rows, and the least histogram bins of one
#: that builds histograms, where threads share a node.
_PARTITION_ROWS = 1 << 11
_HISTOGRAM_CELLS = 1 << 13
#: The least rows of a task that builds histograms where the columns are not enough for
#: all threads: the sums of each such task are added once more.
_HISTOGRAM_ROWS = 1 << 12
#: The least columns of a task where threads share those of a node: so many are turned
#: (see `histogram`), and so many if there would be fewer tasks than threads.
_TURNED_COLUMNS, _LEAST_COLUMNS = 12, 6


@inline
def _share(total, n_threads, least):
    """Return the size of a task; one thread needs no small tasks."""
    if n_threads == 1:
        return max(total, 1)
    return max(least, total // (_TASKS_PER_THREAD * n_threads) + 1)


@inline
def _divide_up(total, size):
    """Return how many parts of `size` make up `total`, at least one."""
    return max((total + size - 1) // size, 1)


@inline
def _evict(slots, free, free_count):
    """Free the slots of all nodes; return the number of free slots."""
    for i in range(slots.size):
        if slots[i] >= 0:
            free[free_count] = slots[i]
            free_count += 1
            slots[i] = -1
    return free_count


@kernel
def free_slots(free, n_nodes):
    """Make all slots free again, of which a tree of `n_nodes` can have used some.

    `free` is (slots + 1,) int64, a stack of free slots with its height at the end.
    """
    n_slots = free.size - 1
    for place in range(max(0, n_slots - n_nodes), n_slots):
        free[place] = n_slots - 1 - place
    free[n_slots] = n_slots


@kernel
def assign_slots(
    batch,  # (nodes,) int64: the root, or pairs of siblings
    sizes,  # (nodes,) int64: of these nodes, to find the smaller sibling
    parents,  # (all nodes,) int64
    slots,  # (all nodes,) int64: of the histogram or -1, in and out
    free,  # (slots,) int64: stack of free slots, in and out
    free_count,  # (1,) int64: its height, in and out
    counted,  # (3, nodes) int64, out: node to build, its slot, its parent's slot or -1
):
    """Assign a slot to each node of the batch; return the histograms to build.

    If the parent's histogram is available, that of the smaller sibling is built, and
    the larger one takes over the parent's slot. If slots run out, all histograms except
    those of the batch's parents are dropped, and rebuilt when they are needed.
    """
    pairs = batch.size // 2
    for i in range(pairs):  # exempt from eviction
        parent = parents[batch[2 * i]]
        counted[2, i] = slots[parent]
        slots[parent] = -1
    if free_count[0] < batch.size:
        free_count[0] = _evict(slots, free, free_count[0])
    if pairs == 0:
        count = batch.size
        for i in range(count):
            counted[0, i] = batch[i]
            counted[2, i] = -1
    else:
        count = pairs
        for i in range(pairs):
            left = batch[2 * i]
            right = left + 1
            smaller = left if sizes[2 * i] <= sizes[2 * i + 1] else right
            larger = left + right - smaller
            counted[0, i] = smaller
            if counted[2, i] >= 0:
                slots[larger] = counted[2, i]
            else:
                counted[0, count] = larger
                counted[2, count] = -1
                count += 1
    for i in range(count):
        free_count[0] -= 1
        counted[1, i] = free[free_count[0]]
        slots[counted[0, i]] = counted[1, i]
    return count


@kernel
def enter_children(
    batch,  # (nodes,) int64: the nodes to split
    splits,  # (nodes,) SPLIT_DTYPE
    left,  # (nodes,) int64: their left children
    family,  # (3, all nodes) int64: parent, slot and sum of hessians, in and out
):
    """Write the family of the children of split nodes, without histograms yet."""
    for i in range(batch.size):
        for child in range(left[i], left[i] + 2):
            family[0, child] = batch[i]
            family[1, child] = -1
        family[2, left[i]] = splits[i]["left_hessian"]
        family[2, left[i] + 1] = splits[i]["total_hessian"] - splits[i]["left_hessian"]


@kernel
def plan_histograms(
    batch,  # (nodes,) int64
    slots,  # (nodes,) int64: the slot of each histogram
    nodes,  # table of NODE_DTYPE
    team_size,
    waiting,  # whether the team waits, see `sync.sharers_for`
    blocks,  # (blocks + 1,) int64: the first columns of tasks, and the end
    cells,  # bins of a histogram
    first_slab,  # slots from here on hold partial sums of nodes with several tasks
    mode,  # REPLACE; ADD to the slots; PACK: pack histograms of at most BLOCK_ROWS rows
    tasks,  # see `histogram.build_histograms`, out
    joins,  # the same
    lengths,  # (2,) int64, out: tasks and joins
):
    """Write the tasks that build histograms; return the number of threads.

    Threads share the rows of large nodes and the columns of small ones.
    """
    rows = 0
    for i in range(batch.size):
        rows += nodes[batch[i]]["end"] - nodes[batch[i]]["begin"]

    all_cells = rows * blocks[blocks.size - 1]
    n_threads = sharers_for(team_size, all_cells, waiting)
    chunk = _share(rows, n_threads, BLOCK_ROWS)
    turned = 0
    for block in range(blocks.size - 1):
        turned += max((blocks[block + 1] - blocks[block]) // _TURNED_COLUMNS, 1)
    if n_threads > turned and rows * turned < n_threads * BLOCK_ROWS:
        chunk = _share(rows * turned, n_threads, _HISTOGRAM_ROWS)
    task_cells = _share(all_cells, n_threads, _HISTOGRAM_CELLS)
    join_bins = cells if n_threads == 1 else JOIN_BINS
    n_parts = 0
    for i in range(batch.size):
        n_parts += _divide_up(nodes[batch[i]]["end"] - nodes[batch[i]]["begin"], chunk)
    slab = first_slab
    n_tasks = 0
    n_joins = 0
    for i in range(batch.size):
        node = nodes[batch[i]]
        own_slab = slab
        begin, end = node["begin"], node["end"]
        packs = mode == PACK and end - begin <= BLOCK_ROWS
        # Parts of equal size, not one of few rows at the end.
        part_rows = _divide_up(end - begin, _divide_up(end - begin, chunk))
        part = begin
        while part < end or part == begin:
            target = slots[i]
            if part > begin:
                target = slab
                slab += 1
            stop = min(part + part_rows, end)
            for block in range(blocks.size - 1):
                columns = blocks[block + 1] - blocks[block]
                most = columns // _TURNED_COLUMNS
                if n_parts * most < n_threads:
                    most = columns // _LEAST_COLUMNS
                pieces = max(1, min((stop - part) * columns // task_cells, most))
                for piece in range(pieces):
                    tasks[n_tasks, 0] = target
                    tasks[n_tasks, 1] = node["side"]
                    tasks[n_tasks, 2] = part
                    tasks[n_tasks, 3] = stop
                    tasks[n_tasks, 4] = blocks[block] + columns * piece // pieces
                    tasks[n_tasks, 5] = blocks[block] + columns * (piece + 1) // pieces
                    tasks[n_tasks, 6] = REPLACE
                    if packs:
                        tasks[n_tasks, 6] = PACK
                    elif mode == ADD and part == begin:
                        tasks[n_tasks, 6] = ADD
                    n_tasks += 1
            part += part_rows
        if slab > own_slab:
            for cell in range(0, cells, join_bins):
                joins[n_joins, 0] = slots[i]
                joins[n_joins, 1] = own_slab
                joins[n_joins, 2] = slab
                joins[n_joins, 3] = cell
                joins[n_joins, 4] = min(cell + join_bins, cells)
                joins[n_joins, 5] = 1 if packs else 2
                n_joins += 1
    lengths[0] = n_tasks
    lengths[1] = n_joins
    return n_threads


@inline
def _list_lefts(rights, feature, missing_left, lefts):
    """Write the column values that go left: all but `rights`, and perhaps missing."""
    one = np.uint64(1)
    for word in range(lefts.size):
        lefts[word] = ~np.uint64(0) if missing_left else np.uint64(0)
    for category in range(feature["bins"]):
        code = category + feature["low"]
        right = (rights[category >> 6] >> np.uint64(category & 63)) & one
        bit = one << np.uint64(code & 63)
        if right:
            lefts[code >> 6] &= ~bit
        else:
            lefts[code >> 6] |= bit


@kernel
def enter_split(
    split,  # SPLIT_DTYPE
    rights,  # (words,) uint64: the categories that go right
    left,  # the left child
    features,  # table of FEATURE_DTYPE
    number,  # of the node to split
    nodes,  # table of NODE_DTYPE, in and out
    lefts,  # (table's nodes, words) uint64, out: column values that go left
):
    """Write a split and its children to the table; the rows stay with the parent."""
    node = nodes[number]
    feature = features[split["feature"]]
    missing_left = split["missing_left"]
    bins_left = split["bin"] + 1
    node["column"] = feature["column"]
    node["is_categorical"] = split["is_categorical"]
    node["inside_right"] = missing_left
    # Values outside of the range go where missing values go.
    node["low"] = feature["low"] + (bins_left if missing_left else 0)
    node["count"] = feature["bins"] - bins_left if missing_left else bins_left
    node["left"] = left
    if split["is_categorical"]:
        _list_lefts(rights, feature, missing_left, lefts[number])
    for child in range(left, left + 2):
        nodes[child]["left"] = -1
        nodes[child]["end"] = -1  # until the rows are partitioned


@kernel
def enter_splits(
    batch,  # (nodes,) int64: the nodes to split
    splits,  # (nodes,) SPLIT_DTYPE
    sets,  # (nodes, words) uint64: the categories that go right
    left,  # (nodes,) int64: their left children
    features,  # table of FEATURE_DTYPE
    nodes,  # table of NODE_DTYPE, in and out
    lefts,  # (table's nodes, words) uint64, out: column values that go left
):
    """Write splits and children to the table; the rows stay with the parents."""
    for i in range(batch.size):
        enter_split(splits[i], sets[i], left[i], features, batch[i], nodes, lefts)


@kernel
def plan_partition(
    batch,  # (nodes,) int64: nodes with splits in the table
    nodes,  # table of NODE_DTYPE
    team_size,
    waiting,  # whether the team waits, see `sync.sharers_for`
    tasks,  # see `partition.partition_rows`, out
):
    """Write the tasks that partition rows; return the numbers of tasks and threads."""
    rows = 0
    for i in range(batch.size):
        rows += nodes[batch[i]]["end"] - nodes[batch[i]]["begin"]
    n_threads = sharers_for(team_size, CELLS_PER_ROW * rows, waiting)
    chunk = _share(rows, n_threads, _PARTITION_ROWS)
    n_tasks = 0
    for i in range(batch.size):
        node = nodes[batch[i]]
        first = n_tasks
        begin = node["begin"]
        size = node["end"] - begin
        # The rows of a node with several tasks are moved twice.
        own_chunk = chunk if 2 * n_threads * size > 3 * rows else max(size, 1)
        while begin < node["end"] or n_tasks == first:
            tasks[n_tasks, 0] = batch[i]
            tasks[n_tasks, 1] = begin
            tasks[n_tasks, 2] = min(begin + own_chunk, node["end"])
            tasks[n_tasks, 3] = first
            begin += own_chunk
            n_tasks += 1
        for task in range(first, n_tasks):
            tasks[task, 4] = n_tasks
    return n_tasks, n_threads


@kernel
def settle_children(
    tasks,  # (tasks, 5) int64, as partitioned
    counts,  # (tasks,) int64: rows of each that went left
    nodes,  # table of NODE_DTYPE, in and out
):
    """Write the row ranges of the children to the table."""
    task = 0
    while task < tasks.shape[0]:
        number = tasks[task, 0]
        last = tasks[task, 4]
        shared = last - task > 1
        went_left = 0
        while task < last:
            went_left += counts[task]
            task += 1
        node = nodes[number]
        middle = node["begin"] + went_left
        for child in range(2):
            own = nodes[node["left"] + child]
            own["side"] = node["side"] if shared else 1 - node["side"]
            own["begin"] = middle if child == 1 else node["begin"]
            own["end"] = node["end"] if child == 1 else middle


@kernel
def plan_leaves(
    leaves,  # (nodes,) int64: nodes without children
    waiting,  # (some,) int64: split nodes whose rows have not been partitioned
    nodes,  # table of NODE_DTYPE
    n_rows,  # those outside of the root follow its own on side 0
    n_leaves,  # the leaf of these rows
    n_threads,
    leaf_of_node,  # (nodes,) uint32: the leaf of a node's rows
    tasks,  # (tasks, 5) int64, out: node, its leaf or -1 if it is split, side, rows
):
    """Write the tasks that mark the leaf of each row; return their number.

    Rows that have not been partitioned are processed at the parent, once for both
    children.
    """
    n_tasks = 0
    in_tree = nodes[0]["end"]
    chunk = max(1, n_rows - in_tree) if n_threads == 1 else TASK_ROWS
    for begin in range(in_tree, n_rows, chunk):
        tasks[n_tasks, 0] = 0
        tasks[n_tasks, 1] = n_leaves
        tasks[n_tasks, 2] = 0
        tasks[n_tasks, 3] = begin
        tasks[n_tasks, 4] = min(begin + chunk, n_rows)
        n_tasks += 1
    for i in range(leaves.size + waiting.size):
        number = leaves[i] if i < leaves.size else waiting[i - leaves.size]
        node = nodes[number]
        if node["end"] < 0:  # a child whose rows are at the parent
            continue
        chunk = max(1, node["end"] - node["begin"]) if n_threads == 1 else TASK_ROWS
        for begin in range(node["begin"], node["end"], chunk):
            tasks[n_tasks, 0] = number
            tasks[n_tasks, 1] = leaf_of_node[number] if i < leaves.size else -1
            tasks[n_tasks, 2] = node["side"]
            tasks[n_tasks, 3] = begin
            tasks[n_tasks, 4] = min(begin + chunk, node["end"])
            n_tasks += 1
    return n_tasks
