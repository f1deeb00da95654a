"""Addition of leaf values to the margins of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import TASK_ROWS
from hornbeam.kernels.sync import next_task

__all__ = ["TypedMargins", "add_leaf_values", "add_to_margins", "add_values"]


class TypedMargins(NamedTuple):
    """Margins of one of two types, so that kernels are compiled once for both.

    Attributes
    ----------
    single, double
        (rows, outputs) float32 and float64; one of both has no rows.
    """

    single: NDArray[np.float32]
    double: NDArray[np.float64]

    @classmethod
    def of(cls, margins: NDArray[Any]) -> TypedMargins:
        """Return these margins, (rows, outputs) float32 or float64."""
        if margins.dtype == np.float32:
            return cls(margins, _NO_DOUBLE)
        return cls(_NO_SINGLE, margins)


_NO_SINGLE = np.empty((0, 1), np.float32)
_NO_DOUBLE = np.empty((0, 1), np.float64)


@inline
def add_values(leaf_of, values, margins, single):
    """Add the value of each row's leaf to its margin; (0,) leaves: add nothing.

    Sums are rounded to float32 if `single`.
    """
    if single:
        for i in range(leaf_of.size):
            total = margins[i] + np.float64(values[np.uint64(leaf_of[i])])
            margins[i] = np.float64(np.float32(total))
    else:
        for i in range(leaf_of.size):
            margins[i] += np.float64(values[np.uint64(leaf_of[i])])


@inline
def add_to_margins(values, places, begin, count, output, margins):
    """Add the value of each row's place to `TypedMargins` of rows from `begin` on."""
    end = begin + count
    if margins.double.shape[0] == 0:
        single = margins.single[begin:end, np.uint64(output)]
        for i in range(single.size):
            single[i] += values[np.uint64(places[i])]
    else:
        double = margins.double[begin:end, np.uint64(output)]
        for i in range(double.size):
            double[i] += values[np.uint64(places[i])]


@kernel
def add_leaf_values(
    thread_id,
    n_threads,
    sync,
    leaf_of,  # (rows,) uint32
    values,  # (leaves,) float32
    margins,  # (rows,) float64, in and out
    single,  # whether sums are rounded to float32
):
    """Add the leaf value of each row to its margin."""
    task = next_task(sync, 0)
    while task * TASK_ROWS < leaf_of.size:
        begin, end = task * TASK_ROWS, min((task + 1) * TASK_ROWS, leaf_of.size)
        add_values(leaf_of[begin:end], values, margins[begin:end], single)
        task = next_task(sync, 0)
