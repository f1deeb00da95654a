"""Addition of leaf values to the margins of rows."""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import TASK_ROWS
from hornbeam.kernels.sync import next_task

__all__ = ["add_leaf_values", "add_values"]


@inline
def add_values(leaf_of, values, margins):
    """Add the value of each row's leaf to its margin; (0,) leaves: add nothing."""
    for i in range(leaf_of.size):
        margins[i] += np.float64(values[np.uint64(leaf_of[i])])


@kernel
def add_leaf_values(
    thread_id,
    n_threads,
    sync,
    leaf_of,  # (rows,) uint32
    values,  # (leaves,) float32
    margins,  # (rows,) float64, in and out
):
    """Add the leaf value of each row to its margin."""
    task = next_task(sync, 0)
    while task * TASK_ROWS < leaf_of.size:
        begin, end = task * TASK_ROWS, min((task + 1) * TASK_ROWS, leaf_of.size)
        add_values(leaf_of[begin:end], values, margins[begin:end])
        task = next_task(sync, 0)
