"""Transformations of margins into predictions, and of labels into margins."""

from __future__ import annotations

import numpy as np

from hornbeam.kernels import maths
from hornbeam.kernels.jit import kernel, kernel_of
from hornbeam.kernels.sync import next_task

__all__ = [
    "climb_rows",
    "cumulative_rows",
    "exp_rows",
    "focal_rows",
    "log1p_rows",
    "log_rows",
    "positive_columns",
    "sigmoid_rows",
    "softmax_rows",
]

_TASK = 1 << 12


def by_cell(link):
    """Return the kernel that applies `link` to each margin."""

    @kernel_of(link)
    def replace(thread_id, n_threads, sync, values):  # (rows, outputs), in and out
        rows = values.shape[0]
        task = next_task(sync, 0)
        while task * _TASK < rows:
            cells = values[task * _TASK : min((task + 1) * _TASK, rows)].reshape(-1)
            for i in range(cells.size):
                cells[i] = link(np.float64(cells[i]))
            task = next_task(sync, 0)

    return replace


exp_rows = by_cell(maths.exp)
log1p_rows = by_cell(maths.log1p)
log_rows = by_cell(maths.log)
sigmoid_rows = by_cell(maths.sigmoid)


@kernel
def focal_rows(
    thread_id, n_threads, sync, values, focal_gamma
):  # (rows, outputs), in, out
    """Replace each margin of focal loss by the probability of class 1."""
    rows = values.shape[0]
    task = next_task(sync, 0)
    while task * _TASK < rows:
        part = values[task * _TASK : min((task + 1) * _TASK, rows)]
        for i in range(part.shape[0]):
            for k in range(part.shape[1]):
                part[i, k] = maths.focal_share(np.float64(part[i, k]), focal_gamma)
        task = next_task(sync, 0)


@kernel
def climb_rows(thread_id, n_threads, sync, values):  # (rows, levels), in and out
    """Replace each row of margins by its expectiles."""
    rows = values.shape[0]
    task = next_task(sync, 0)
    while task * _TASK < rows:
        part = values[task * _TASK : min((task + 1) * _TASK, rows)]
        for i in range(part.shape[0]):
            expectile = np.float64(part[i, 0])
            for k in range(1, part.shape[1]):
                expectile = maths.climb(expectile, np.float64(part[i, k]))
                part[i, k] = expectile
        task = next_task(sync, 0)


@kernel
def positive_columns(
    thread_id, n_threads, sync, values, first
):  # (rows, outputs), in, out
    """Replace the margins from the column `first` on by their exponentials."""
    rows = values.shape[0]
    task = next_task(sync, 0)
    while task * _TASK < rows:
        part = values[task * _TASK : min((task + 1) * _TASK, rows)]
        for i in range(part.shape[0]):
            for k in range(first, part.shape[1]):
                part[i, k] = maths.positive(np.float64(part[i, k]))
        task = next_task(sync, 0)


@kernel
def cumulative_rows(thread_id, n_threads, sync, values):  # (rows, classes), in and out
    """Replace the margins of ordered classes by their probabilities.

    A probability is the difference of two sigmoids, as a product, without cancellation.
    """
    rows = values.shape[0]
    task = next_task(sync, 0)
    while task * _TASK < rows:
        part = values[task * _TASK : min((task + 1) * _TASK, rows)]
        classes = part.shape[1]
        for i in range(part.shape[0]):
            high = np.float64(part[i, 1]) - np.float64(part[i, 0])
            for k in range(2, classes):
                high -= 0.5 * maths.climb(0.0, np.float64(part[i, k]))
            for k in range(classes):
                share = 1.0
                if k > 0:
                    low = high
                    share = maths.sigmoid(-low)
                    if k < classes - 1:
                        gap = maths.climb(0.0, np.float64(part[i, k + 1]))
                        high = low + gap
                        share *= 1.0 - maths.exp(-gap)
                if k < classes - 1:
                    share *= maths.sigmoid(high)
                part[i, k] = share
        task = next_task(sync, 0)


@kernel
def softmax_rows(thread_id, n_threads, sync, values):  # (rows, classes), in and out
    """Replace each row of margins by its softmax."""
    rows = values.shape[0]
    task = next_task(sync, 0)
    while task * _TASK < rows:
        part = values[task * _TASK : min((task + 1) * _TASK, rows)]
        for i in range(part.shape[0]):
            highest = np.float64(part[i, 0])
            for k in range(1, part.shape[1]):
                highest = max(highest, np.float64(part[i, k]))
            total = 0.0
            for k in range(part.shape[1]):
                total += maths.exp(part[i, k] - highest)
            for k in range(part.shape[1]):
                part[i, k] = maths.exp(part[i, k] - highest) / total
        task = next_task(sync, 0)
