"""Which rows go where: splitting nodes, summing leaves, adding leaf values."""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import kernel
from hornbeam.kernels.sync import atomic_add, barrier, next_task

__all__ = ["add_leaf_values", "add_routed_values", "partition_rows", "sum_leaves"]


@kernel
def partition_rows(
    member,
    members,
    sync,
    tasks,  # (tasks, 6) int64: node, side, begin, end, node's first and last task
    splits,  # (nodes, 3) int32: feature, last bin of the left, code of a left missing
    codes,  # (features, rows) uint8 or uint16, column-major
    rows,  # (2, rows) uint32, in and out
    counts,  # (tasks,) int64, out: rows of the task that go left
):
    """Bring the rows that go left to the front of their node's range.

    Each task reads its rows from one side and writes them to the other: the left ones
    upwards from its beginning, the right ones downwards from its end, both writes
    done and one pointer moved, so that there is no branch::

        side 0   l r l l r r l            one task: the node now lies on side 1
        side 1   l l l l | r r r

        side 0   l r l r | r l l l        two tasks: each part is split on side 1,
        side 1   l l | r r   l l l | r    then copied to its place on side 0
        side 0   l l l l l | r r r

    The order of rows inside a node may thus depend on the tasks; integer sums do not.
    """
    task = next_task(sync, 0)
    while task < tasks.shape[0]:
        node, side = tasks[task, 0], tasks[task, 1]
        begin, end = tasks[task, 2], tasks[task, 3]
        column = codes[splits[node, 0]]
        last_bin = splits[node, 1]
        missing = splits[node, 2]
        source = rows[side]
        target = rows[1 - side]
        left = np.uint64(begin)
        right = np.uint64(end - 1)
        for i in range(np.uint64(begin), np.uint64(end)):
            row = source[i]
            code = np.int32(column[np.uint64(row)])
            goes_left = np.uint64((code <= last_bin) | (code == missing))
            target[left] = row
            target[right] = row
            left += goes_left
            right -= np.uint64(1) - goes_left
        counts[task] = np.int64(left) - begin
        task = next_task(sync, 0)
    barrier(sync, members)
    task = next_task(sync, 1)
    while task < tasks.shape[0]:
        first, last = tasks[task, 4], tasks[task, 5]
        if last - first > 1:
            side = tasks[task, 1]
            begin, end = tasks[task, 2], tasks[task, 3]
            before = np.int64(0)
            total = np.int64(0)
            for other in range(first, last):
                if other < task:
                    before += counts[other]
                total += counts[other]
            node_begin = tasks[first, 2]
            left = node_begin + before
            right = node_begin + total + (begin - node_begin) - before
            middle = begin + counts[task]
            for i in range(middle - begin):
                rows[side, left + i] = rows[1 - side, begin + i]
            for i in range(end - middle):
                rows[side, right + i] = rows[1 - side, middle + i]
        task = next_task(sync, 1)


@kernel
def sum_leaves(
    member,
    members,
    sync,
    tasks,  # (tasks, 4) int64: leaf, side, begin, end
    rows,  # (2, rows) uint32
    gradients,  # (rows,) float32
    hessians,  # (rows,) float32
    gradient_scale,  # 1 / fine step, a power of two
    hessian_scale,
    sums,  # (leaves, 2) int64, in and out
):
    """Add each task's gradients and hessians, in fine fixed point, to its leaf."""
    flat = sums.reshape(-1)
    task = next_task(sync, 0)
    while task < tasks.shape[0]:
        own_rows = rows[tasks[task, 1]]
        gradient_sum = np.int64(0)
        hessian_sum = np.int64(0)
        for i in range(np.uint64(tasks[task, 2]), np.uint64(tasks[task, 3])):
            row = np.uint64(own_rows[i])
            gradient_sum += np.int64(np.rint(gradients[row] * gradient_scale))
            hessian_sum += np.int64(np.rint(hessians[row] * hessian_scale))
        atomic_add(flat, 2 * tasks[task, 0], gradient_sum)
        atomic_add(flat, 2 * tasks[task, 0] + 1, hessian_sum)
        task = next_task(sync, 0)


@kernel
def add_leaf_values(
    member,
    members,
    sync,
    tasks,  # (tasks, 4) int64: leaf, side, begin, end
    rows,  # (2, rows) uint32
    values,  # (leaves,) float32
    scores,  # (rows,) float64, in and out
):
    """Add the value of its leaf to the score of each row."""
    task = next_task(sync, 0)
    while task < tasks.shape[0]:
        own_rows = rows[tasks[task, 1]]
        value = np.float64(values[tasks[task, 0]])
        for i in range(np.uint64(tasks[task, 2]), np.uint64(tasks[task, 3])):
            scores[np.uint64(own_rows[i])] += value
        task = next_task(sync, 0)


@kernel
def add_routed_values(
    member,
    members,
    sync,
    task_rows,  # rows of one task
    rows,  # (some,) uint32: the rows to route
    codes,  # (features, rows) uint8 or uint16, column-major
    splits,  # (nodes, 3) int32: feature, last left bin, code of a left missing
    children,  # (nodes, 2) int32: left and right child; -1 at leaves
    values,  # (nodes,) float32
    scores,  # (all rows,) float64, in and out
):
    """Send rows that took no part in growing a tree down it; add their values."""
    task = next_task(sync, 0)
    while task * task_rows < rows.size:
        begin = task * task_rows
        for i in range(begin, min(begin + task_rows, rows.size)):
            row = np.uint64(rows[i])
            node = 0
            while children[node, 0] >= 0:
                code = np.int32(codes[splits[node, 0], row])
                goes_left = code <= splits[node, 1] or code == splits[node, 2]
                node = children[node, 0] if goes_left else children[node, 1]
            scores[row] += np.float64(values[node])
        task = next_task(sync, 0)
