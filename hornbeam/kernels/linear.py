"""Coordinate descent on the weights of a linear model, and its sums for prediction."""

from __future__ import annotations

import numpy as np

from hornbeam.kernels import maths
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.sync import barrier, next_task

__all__ = ["TASK_CELLS", "add_products", "descend", "size_steps"]

#: Cells of one task: sums are taken task by task, whoever does them.
TASK_CELLS = 1 << 12
_TASK_ROWS = 1 << 10


@inline
def _sums(rows, values, gradients, hessians, begin, end):
    """Return the sums of gradients and hessians over cells, times their values."""
    gradient, hessian = 0.0, 0.0
    for cell in range(begin, end):
        row, value = np.uint64(rows[cell]), np.float64(values[cell])
        if hessians[row] >= 0.0:
            gradient += gradients[row] * value
            hessian += hessians[row] * value * value
    return gradient, hessian


@kernel
def size_steps(
    thread_id,
    n_threads,
    sync,
    starts,  # (columns + 1,) int64: the first cell of each column
    rows,  # (cells,) uint32
    values,  # (cells,) float32 or float64
    rules,  # (3,) float64: learning rate, lambda, alpha
    gradients,  # (rows,) float64
    hessians,  # (rows,) float64
    weights,  # (columns,) float32
    sizes,  # (columns,) float64, out
):
    """Write how large a step the weight of each column would take by itself."""
    column = next_task(sync, 0)
    while column < sizes.size:
        gradient, hessian = _sums(
            rows, values, gradients, hessians, starts[column], starts[column + 1]
        )
        step = maths.coordinate_step(
            gradient, hessian, np.float64(weights[column]), rules[1], rules[2]
        )
        sizes[column] = abs(step)
        column = next_task(sync, 0)


@kernel
def descend(
    thread_id,
    n_threads,
    sync,
    order,  # (steps,) int64: columns; the last of all is the bias
    starts,  # (columns + 1,) int64: the first cell of each column
    rows,  # (cells,) uint32
    values,  # (cells,) float32 or float64
    rules,  # (3,) float64: learning rate, lambda, alpha
    hessians,  # (rows,) float64
    parts,  # (tasks of the longest column, 2) float64, scratch
    gradients,  # (rows,) float64, in and out
    weights,  # (columns,) float32, in and out
):
    """Move the weight of one column after the other, and the gradients with it.

    The members share the cells of a column, each those of its own tasks.
    """
    for k in range(order.size):
        column = order[k]
        begin, end = starts[column], starts[column + 1]
        tasks = (end - begin + TASK_CELLS - 1) // TASK_CELLS
        weight = np.float64(weights[column])
        for task in range(thread_id, tasks, n_threads):
            first = begin + task * TASK_CELLS
            last = min(first + TASK_CELLS, end)
            parts[task, 0], parts[task, 1] = _sums(
                rows, values, gradients, hessians, first, last
            )
        barrier(sync, n_threads)
        gradient, hessian = 0.0, 0.0
        for task in range(tasks):
            gradient += parts[task, 0]
            hessian += parts[task, 1]
        is_bias = column == weights.size - 1
        step = maths.coordinate_step(
            gradient,
            hessian,
            weight,
            0.0 if is_bias else rules[1],
            0.0 if is_bias else rules[2],
        )
        moved = np.float32(rules[0] * step)
        if thread_id == 0:
            weights[column] = np.float32(weight) + moved
        for task in range(thread_id, tasks, n_threads):
            first = begin + task * TASK_CELLS
            for cell in range(first, min(first + TASK_CELLS, end)):
                row = np.uint64(rows[cell])
                value = np.float64(values[cell])
                gradients[row] += hessians[row] * value * np.float64(moved)
        barrier(sync, n_threads)


@kernel
def add_products(
    thread_id,
    n_threads,
    sync,
    data,  # (rows, features) float32 or float64, NaN missing
    weights,  # (features + 1, outputs) float32; the last are the biases
    margins,  # (rows, outputs) float64, in and out
):
    """Add to each row's margins the bias and the products of weights and features."""
    rows, features = data.shape
    task = next_task(sync, 0)
    while task * _TASK_ROWS < rows:
        for i in range(task * _TASK_ROWS, min((task + 1) * _TASK_ROWS, rows)):
            for k in range(margins.shape[1]):
                total = margins[i, k] + np.float64(weights[features, k])
                for f in range(features):
                    value = np.float64(data[i, f])
                    if value == value:
                        total += value * np.float64(weights[f, k])
                margins[i, k] = total
        task = next_task(sync, 0)
