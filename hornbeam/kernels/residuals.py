"""Gradients of losses that are scaled by the typical residual of all rows.

The scale is S = (sum(w sqrt(|r|)) / sum(w))**2 over the rows' residuals r and weights
w, for each output. Its sums are taken in fixed point, in units given by the largest
summand, so that they depend neither on the order of the rows nor on the threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels import maths
from hornbeam.kernels.gradients import weigh
from hornbeam.kernels.jit import inline, kernel_of
from hornbeam.kernels.layout import SUM_BITS, TASK_ROWS
from hornbeam.kernels.sync import barrier, next_task

__all__ = ["ResidualScratch", "absolute_error", "by_size", "quantile_error"]


class ResidualScratch(NamedTuple):
    """Scratch arrays; the columns are the outputs, and the weights if there are any.

    Attributes
    ----------
    summands
        (threads, TASK_ROWS) float64.
    largest
        (columns, tasks of a column) float64.
    sums
        (columns, tasks of a column) int64.
    """

    summands: NDArray[np.float64]
    largest: NDArray[np.float64]
    sums: NDArray[np.int64]


@inline
def _power_of_two(exponent):
    return np.int64((exponent + 1023) << 52).view(np.float64)


@inline
def _steps_of_one(largest, rows):
    """Return the power of two by which summands are scaled, so that sums fit 62 bits.

    `largest` has the largest summand of each block.
    """
    most = 0.0
    for value in largest:
        most = max(most, value)
    exponent = (np.float64(most).view(np.int64) >> 52) - 1022  # most < 2**exponent
    bits = 0
    while rows >> bits:
        bits += 1
    return _power_of_two(min(SUM_BITS - bits - exponent, 1000))


@inline
def _total(sums, largest, rows):
    total = 0
    for value in sums:
        total += value
    return total / _steps_of_one(largest, rows)


@inline
def _write_summands(scores, targets, weights, column, begin, end, summands):
    """Write the summands of rows: weighted roots, or weights in the last column."""
    count = end - begin
    own = weights[begin:end]
    if column == scores.shape[0]:
        for i in range(count):
            summands[i] = own[i]
        return
    margins = scores[column, begin:end]
    target = targets[min(column, targets.shape[0] - 1), begin:end]
    for i in range(count):
        summands[i] = np.sqrt(abs(margins[i] - target[i]))
    for i in range(own.size):
        summands[i] *= own[i]


def by_size(loss):
    """Return the kernel that writes g and h of a loss of residual and scale."""

    @kernel_of(loss)
    def write(
        thread_id,
        n_threads,
        sync,
        scores,  # (outputs, rows) float64
        targets,  # (outputs, rows) float64, or (1, rows) for all outputs
        weights,  # (rows,) float64, or empty for all ones
        numbers,  # (outputs,) float64: the parameter of the loss, if it has any
        gradients,  # (outputs, rows) float32 or float64, out
        hessians,  # (outputs, rows) the same, out
        scratch,  # ResidualScratch
    ):
        outputs, rows = scores.shape
        summands, largest, sums = scratch
        columns, blocks = largest.shape
        own_summands = summands[thread_id]
        task = next_task(sync, 0)
        while task < columns * blocks:
            column, block = task % columns, task // columns
            begin, end = block * TASK_ROWS, min((block + 1) * TASK_ROWS, rows)
            _write_summands(scores, targets, weights, column, begin, end, own_summands)
            bits = np.int64(0)
            for value in own_summands[: end - begin].view(np.int64):
                bits = max(bits, value)
            largest[column, block] = np.int64(bits).view(np.float64)
            task = next_task(sync, 0)
        barrier(sync, n_threads)
        task = next_task(sync, 1)
        while task < columns * blocks:
            column, block = task % columns, task // columns
            begin, end = block * TASK_ROWS, min((block + 1) * TASK_ROWS, rows)
            steps = _steps_of_one(largest[column], rows)
            _write_summands(scores, targets, weights, column, begin, end, own_summands)
            total = 0
            for value in own_summands[: end - begin]:
                total += np.int64(np.rint(value * steps))
            sums[column, block] = total
            task = next_task(sync, 1)
        barrier(sync, n_threads)
        task = next_task(sync, 2)
        while task < outputs * blocks:
            k, block = task % outputs, task // outputs
            begin, end = block * TASK_ROWS, min((block + 1) * TASK_ROWS, rows)
            weight = np.float64(rows)
            if columns > outputs:
                weight = _total(sums[outputs], largest[outputs], rows)
            root = _total(sums[k], largest[k], rows) / weight
            size = root * root if weight > 0.0 else 0.0
            number = numbers[k]
            margins = scores[k, begin:end]
            target = targets[min(k, targets.shape[0] - 1), begin:end]
            g = gradients[k, begin:end]
            h = hessians[k, begin:end]
            for i in range(margins.size):
                gradient, hessian = loss(margins[i] - target[i], size, number)
                g[i] = np.float32(gradient)
                h[i] = np.float32(hessian)
            weigh(target, weights[begin:end], 1.0, g, h)
            task = next_task(sync, 2)

    return write


absolute_error = by_size(maths.absolute_error)
quantile_error = by_size(maths.quantile_error)
