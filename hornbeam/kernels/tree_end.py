"""The end of a tree that a kernel has grown: leaves are summed, and nodes weighed."""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import inline, kernel, phase
from hornbeam.kernels.leaves import weigh_nodes, write_nodes
from hornbeam.kernels.partition import look_up_leaves, mark_leaves, sum_leaves
from hornbeam.kernels.plan import plan_leaves
from hornbeam.kernels.sync import barrier, restart_tasks
from hornbeam.kernels.tree_tables import BEYOND, N_NODES, N_PENDING, N_TASKS, PARENT

__all__ = ["finish_tree", "finish_tree_in_place"]


@inline
def _number_leaves(team, tables, leaves):
    """Number the leaves, and let their sums begin at 0; return how many there are."""
    state = tables.state
    count = np.int64(0)
    for node in range(state[N_NODES]):
        if tables.nodes[node]["left"] < 0:
            leaves.nodes[count] = node
            leaves.leaf_of_node[node] = count
            count += 1
    for column in range(leaves.sums.shape[0]):
        for thread_id in range(team):
            for leaf in range(count + 1):
                leaves.sums[column, thread_id, leaf, 0] = 0
                leaves.sums[column, thread_id, leaf, 1] = 0
    return count


@inline
def _weigh(team, rules, tables, leaves):
    """Weigh the nodes by the sums of the leaves, and write the columns of the tree."""
    state = tables.state
    left = leaves.left[: state[N_NODES]]
    for node in range(left.size):
        left[node] = tables.nodes[node]["left"]
        leaves.parent[node] = tables.family[PARENT, node]
    columns, outputs = leaves.sums.shape[0], leaves.columns.value.shape[0]
    for column in range(columns):
        sums, weights = leaves.node_sums[column], leaves.weights[column]
        for node in range(left.size):
            if left[node] < 0:
                leaf = leaves.leaf_of_node[node]
                for part in range(2):
                    total = np.int64(0)
                    for thread_id in range(team):
                        total += leaves.sums[column, thread_id, leaf, part]
                    sums[node, part] = total * leaves.scales[column, part]
        no_bounds, no_rows = sums[:0], weights[:0]
        weigh_nodes(
            left,
            tables.splits,
            rules,
            leaves.learning_rate,
            sums,
            no_bounds,
            no_rows,
            weights,
        )
    # The cover is that of the columns that splits were searched by.
    first = outputs if columns > outputs else 0
    state[BEYOND] = write_nodes(
        left,
        tables.splits,
        leaves.weights[:outputs],
        leaves.node_sums[first:],
        leaves.columns,
    )


@kernel
def sum_and_weigh(thread_id, n_threads, sync, rules, tables, leaves):
    """Sum the gradients of the leaves, and weigh the nodes."""
    pairs = leaves.gradients
    for column in range(leaves.sums.shape[0]):
        barrier(sync, n_threads)
        if thread_id == 0:
            restart_tasks(sync)
        barrier(sync, n_threads)
        scales = 1.0 / leaves.scales[column, 0], 1.0 / leaves.scales[column, 1]
        if pairs.double_gradients.size == 0:
            sum_leaves(
                thread_id,
                n_threads,
                sync,
                leaves.leaf_of,
                pairs.single_gradients[column],
                pairs.single_hessians[column],
                scales[0],
                scales[1],
                leaves.sums[column],
            )
        else:
            sum_leaves(
                thread_id,
                n_threads,
                sync,
                leaves.leaf_of,
                pairs.double_gradients[column],
                pairs.double_hessians[column],
                scales[0],
                scales[1],
                leaves.sums[column],
            )
    barrier(sync, n_threads)
    if thread_id == 0:
        _weigh(n_threads, rules, tables, leaves)


@phase
def finish_tree(thread_id, n_threads, sync, by_feature, rows, rules, tables, leaves):
    """Mark the leaf of each row, sum the leaves, and weigh the nodes."""
    state = tables.state
    if thread_id == 0:
        count = _number_leaves(n_threads, tables, leaves)
        state[N_TASKS] = plan_leaves(
            leaves.nodes[:count],
            tables.pending[: state[N_PENDING]],
            tables.nodes,
            rows.shape[1],
            count,
            n_threads,
            leaves.leaf_of_node,
            leaves.tasks,
        )
        restart_tasks(sync)
    barrier(sync, n_threads)
    mark_leaves(
        thread_id,
        n_threads,
        sync,
        leaves.tasks[: state[N_TASKS]],
        tables.nodes,
        tables.lefts,
        by_feature,
        rows,
        leaves.leaf_of_node,
        leaves.leaf_of,
    )
    sum_and_weigh(thread_id, n_threads, sync, rules, tables, leaves)


@inline
def finish_tree_in_place(
    thread_id, n_threads, sync, node_of, taken, rules, tables, leaves
):
    """Do the same where rows do not move: `node_of` is the node of each row.

    `taken` is whether a row is in the sample; if it is empty, all are.
    """
    state = tables.state
    if thread_id == 0:
        state[N_TASKS] = _number_leaves(n_threads, tables, leaves)
        restart_tasks(sync)
    barrier(sync, n_threads)
    look_up_leaves(
        thread_id,
        n_threads,
        sync,
        leaves.leaf_of_node,
        node_of,
        taken,
        state[N_TASKS],
        leaves.leaf_of,
    )
    sum_and_weigh(thread_id, n_threads, sync, rules, tables, leaves)
