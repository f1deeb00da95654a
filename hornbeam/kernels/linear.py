"""Coordinate descent on the weights of a linear model, and its margins."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels import maths
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.sync import barrier, next_task

__all__ = [
    "TASK_BINS",
    "LinearColumns",
    "LinearRules",
    "add_products",
    "descend",
    "size_steps",
]

#: Entries of one task: sums are taken task by task, in whichever thread.
TASK_BINS = 1 << 12
_TASK_ROWS = 1 << 10


class LinearColumns(NamedTuple):
    """The stored entries of columns, one column after the other.

    Attributes
    ----------
    starts
        (columns + 1,) int64: the first entry of each column.
    rows
        (entries,) uint32.
    values
        (entries,) float32 or float64.
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]
    values: NDArray[Any]


class LinearRules(NamedTuple):
    """The learning rate and the penalties of a linear model."""

    learning_rate: float
    reg_lambda: float
    reg_alpha: float


@inline
def _sums(rows, values, gradients, hessians, begin, end):
    """Return the sums of gradients times values, and of hessians times squares."""
    gradient, hessian = 0.0, 0.0
    for i in range(begin, end):
        row, value = np.uint64(rows[i]), np.float64(values[i])
        if hessians[row] >= 0.0:
            gradient += gradients[row] * value
            hessian += hessians[row] * value * value
    return gradient, hessian


@kernel
def size_steps(
    thread_id,
    n_threads,
    sync,
    columns,  # LinearColumns
    rules,  # LinearRules
    gradients,  # (rows,) float64
    hessians,  # (rows,) float64
    weights,  # (columns,) float32
    sizes,  # (columns,) float64, out
):
    """Write the size of the coordinate step of each column on its own."""
    starts, rows, values = columns
    column = next_task(sync, 0)
    while column < sizes.size:
        gradient, hessian = _sums(
            rows, values, gradients, hessians, starts[column], starts[column + 1]
        )
        step = maths.coordinate_step(
            gradient,
            hessian,
            np.float64(weights[column]),
            rules.reg_lambda,
            rules.reg_alpha,
        )
        sizes[column] = abs(step)
        column = next_task(sync, 0)


@kernel
def descend(
    thread_id,
    n_threads,
    sync,
    order,  # (steps,) int64: columns; the highest one is the bias
    columns,  # LinearColumns
    rules,  # LinearRules
    hessians,  # (rows,) float64
    parts,  # (tasks of the longest column, 2) float64, scratch
    gradients,  # (rows,) float64, in and out
    weights,  # (columns,) float32, in and out
):
    """Update the weight of one column after the other, and the gradients.

    Threads share the entries of a column by tasks.
    """
    starts, rows, values = columns
    for k in range(order.size):
        column = order[k]
        begin, end = starts[column], starts[column + 1]
        tasks = (end - begin + TASK_BINS - 1) // TASK_BINS
        weight = np.float64(weights[column])
        for task in range(thread_id, tasks, n_threads):
            first = begin + task * TASK_BINS
            last = min(first + TASK_BINS, end)
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
            0.0 if is_bias else rules.reg_lambda,
            0.0 if is_bias else rules.reg_alpha,
        )
        moved = np.float32(rules.learning_rate * step)
        if thread_id == 0:
            weights[column] = np.float32(weight) + moved
        for task in range(thread_id, tasks, n_threads):
            first = begin + task * TASK_BINS
            for i in range(first, min(first + TASK_BINS, end)):
                row = np.uint64(rows[i])
                value = np.float64(values[i])
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
    """Add the bias and the products of weights and features to each row's margins."""
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
