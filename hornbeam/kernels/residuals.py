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
from hornbeam.kernels.gradients import finish_lanes, lanes_of
from hornbeam.kernels.jit import inline, kernel, kernel_of
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
    sizes
        (threads, outputs) float64: the scale of the residuals.
    lanes
        (threads, 2, lane) float64, for `lanes_of`.
    """

    summands: NDArray[np.float64]
    largest: NDArray[np.float64]
    sums: NDArray[np.int64]
    sizes: NDArray[np.float64]
    lanes: NDArray[np.float64]

    @classmethod
    def of(
        cls, rows: int, outputs: int, columns: int, lane: int, n_threads: int
    ) -> ResidualScratch:
        """Return scratch arrays for so many rows."""
        shape = columns, -(-rows // TASK_ROWS)
        return cls(
            np.empty((n_threads, TASK_ROWS)),
            np.empty(shape),
            np.empty(shape, np.int64),
            np.empty((n_threads, outputs)),
            np.empty((n_threads, 2, lane)),
        )


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
def _write_summands(rows, column, begin, end, summands):
    """Write the summands of rows: weighted roots, or weights in the last column."""
    count = end - begin
    own = rows.weights[begin:end]
    if column == rows.margins.shape[0]:
        for i in range(count):
            summands[i] = own[i]
        return
    margins = rows.margins[column, begin:end]
    target = rows.targets[min(column, rows.targets.shape[0] - 1), begin:end]
    for i in range(count):
        summands[i] = np.sqrt(abs(margins[i] - target[i]))
    for i in range(own.size):
        summands[i] *= own[i]


@kernel
def _measure_sizes(thread_id, n_threads, sync, rows, scratch):
    """Write the scale of each output's residuals for this thread."""
    outputs, n_rows = rows.margins.shape
    largest, sums = scratch.largest, scratch.sums
    columns, blocks = largest.shape
    summands = scratch.summands[thread_id]
    for phase in range(2):
        task = next_task(sync, phase)
        while task < columns * blocks:
            column, block = task % columns, task // columns
            begin, end = block * TASK_ROWS, min((block + 1) * TASK_ROWS, n_rows)
            _write_summands(rows, column, begin, end, summands)
            if phase == 0:
                bits = np.int64(0)
                for value in summands[: end - begin].view(np.int64):
                    bits = max(bits, value)
                largest[column, block] = np.int64(bits).view(np.float64)
            else:
                steps = _steps_of_one(largest[column], n_rows)
                total = 0
                for value in summands[: end - begin]:
                    total += np.int64(np.rint(value * steps))
                sums[column, block] = total
            task = next_task(sync, phase)
        barrier(sync, n_threads)
    weight = np.float64(n_rows)
    if columns > outputs:
        weight = _total(sums[outputs], largest[outputs], n_rows)
    for k in range(outputs):
        root = _total(sums[k], largest[k], n_rows) / weight
        scratch.sizes[thread_id, k] = root * root if weight > 0.0 else 0.0


def by_size(loss):
    """Return the kernel that writes g and h of a loss of residual and scale."""

    @kernel_of(loss)
    def write(
        thread_id,
        n_threads,
        sync,
        rows,  # LossRows
        numbers,  # (outputs,) float64: the parameter of the loss, if it has any
        new,  # NewGradients, out
        scratch,  # ResidualScratch
    ):
        _measure_sizes(thread_id, n_threads, sync, rows, scratch)
        outputs, n_rows = rows.margins.shape
        lanes = scratch.lanes
        lane = lanes.shape[2]
        task = next_task(sync, 2)
        while task // outputs * lane < n_rows:
            k, begin = task % outputs, task // outputs * lane
            end = min(begin + lane, n_rows)
            size, number = scratch.sizes[thread_id, k], numbers[k]
            margins = rows.margins[k, begin:end]
            target = rows.targets[min(k, rows.targets.shape[0] - 1), begin:end]
            g, h = lanes_of(thread_id, k, begin, end, new, lanes)
            for i in range(margins.size):
                gradient, hessian = loss(margins[i] - target[i], size, number)
                g[i] = np.float32(gradient)
                h[i] = np.float32(hessian)
            finish_lanes(thread_id, k, begin, rows, 1.0, g, h, new)
            task = next_task(sync, 2)

    return write


absolute_error = by_size(maths.absolute_error)
quantile_error = by_size(maths.quantile_error)
