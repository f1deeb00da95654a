"""Gradients and hessians of objectives, and their fixed-point forms.

Gradients and hessians are rounded to float32 and then multiplied by the row's weight:
they are float64 where rows have weights, so that a row of weight 3 equals three rows.

All kernels of objectives have the same arguments. They process a lane of rows at a
time, which stays in the first-level cache: the rows get the leaf values of the last
tree, then their gradients, and the largest of these are found.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels import maths
from hornbeam.kernels.jit import inline, inline_view, kernel, kernel_of
from hornbeam.kernels.lanes import exp_lane, sigmoid_lane
from hornbeam.kernels.layout import (
    COARSE_GRADIENT_BITS,
    COARSE_HESSIAN_BITS,
    TASK_ROWS,
)
from hornbeam.kernels.margins import add_values
from hornbeam.kernels.sync import next_task

__all__ = [
    "GradientRows",
    "LossRows",
    "NewGradients",
    "by_pair",
    "by_row",
    "deviation",
    "expectile_error",
    "find_largest",
    "finish_lanes",
    "focal",
    "gamma",
    "hinge",
    "lanes_of",
    "logistic",
    "lognormal",
    "margins_of",
    "negative_binomial",
    "normal",
    "ordinal",
    "pinball",
    "poisson",
    "pseudo_huber",
    "quantise",
    "softmax",
    "squared_error",
    "squared_log_error",
    "tweedie",
    "widen",
]


class LossRows(NamedTuple):
    """The rows that the kernel of an objective computes gradients of.

    Attributes
    ----------
    margins
        (outputs, rows) float64, in and out.
    targets
        (outputs, rows) float64, or (1, rows) for all outputs.
    weights
        (rows,) float64, or (0,) for all ones.
    leaf_of, leaf_values
        The leaf of each row, (rows,) uint32, and the values of leaves that are added to
        the margins first, (outputs, leaves) float32; (0,) and (outputs, 0) if none are.
    single
        Whether these sums are rounded to float32.
    """

    margins: NDArray[np.float64]
    targets: NDArray[np.float64]
    weights: NDArray[np.float64]
    leaf_of: NDArray[np.uint32]
    leaf_values: NDArray[np.float32]
    single: bool

    @classmethod
    def of(
        cls,
        margins: NDArray[np.float64],
        targets: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        single: bool = False,
    ) -> LossRows:
        """Return rows whose margins are complete; weights of None are all ones."""
        return cls(
            margins,
            targets,
            np.empty(0) if weights is None else weights,
            np.empty(0, np.uint32),
            np.empty((len(margins), 0), np.float32),
            single,
        )


class GradientRows(NamedTuple):
    """Gradients of one type, and their largest.

    Attributes
    ----------
    gradients, hessians
        (outputs, rows) float32 or float64.
    largest
        (threads, outputs, 2) int32 or int64, of the same size, zeros in: the bits of
        the largest |g| and |h|.
    """

    gradients: NDArray[np.floating]
    hessians: NDArray[np.floating]
    largest: NDArray[np.signedinteger]


_NO_SINGLE, _NO_DOUBLE = (
    GradientRows(*np.empty((2, 0, 0), dtype), np.empty((0, 0, 0), bits))
    for dtype, bits in ((np.float32, np.int32), (np.float64, np.int64))
)


class NewGradients(NamedTuple):
    """The gradients that the kernel of an objective writes, of one of two types.

    Attributes
    ----------
    single
        Of float32, for rows without weights.
    double
        Of float64, for rows with weights. One of both is empty.
    """

    single: GradientRows
    double: GradientRows

    @classmethod
    def of(
        cls,
        gradients: NDArray[np.floating],
        hessians: NDArray[np.floating],
        n_threads: int,
    ) -> NewGradients:
        """Return arrays to write, (outputs, rows) of one type."""
        shape = n_threads, len(gradients), 2
        if gradients.dtype == np.float32:
            largest = np.zeros(shape, np.int32)
            return cls(GradientRows(gradients, hessians, largest), _NO_DOUBLE)
        largest = np.zeros(shape, np.int64)
        return cls(_NO_SINGLE, GradientRows(gradients, hessians, largest))


@inline
def raise_largest(largest, values):
    """Raise `largest[0]` to the bits of the largest magnitude of the values.

    The bits of non-negative floats are ordered as the floats are, and the compiler
    vectorises the maximum of integers in a loop by index. Infinity and NaN are the
    largest.
    """
    bits = largest.dtype
    # All bits except the sign; `np.iinfo` is compiled into four functions.
    magnitude = bits.type((1 << (8 * largest.itemsize - 1)) - 1)
    own = values.view(bits)
    most = largest[0]
    for i in range(own.size):
        most = max(most, own[i] & magnitude)
    largest[0] = most


# The parts of each kernel that do not depend on the loss are kernels of their own: they
# are compiled once, and not with each loss.


@kernel
def _complete_margins(k, begin, end, rows):
    """Add the leaf values that the margins of a lane of rows lack."""
    margins = rows.margins[k, begin:end]
    add_values(rows.leaf_of[begin:end], rows.leaf_values[k], margins, rows.single)


@inline_view
def margins_of(k, begin, end, rows):
    """Return the margins of a lane of rows, with all leaf values."""
    _complete_margins(k, begin, end, rows)
    return rows.margins[k, begin:end]


@inline_view
def lanes_of(thread_id, k, begin, end, new, scratch):
    """Return where g and h of a lane of rows are written: float32, without weights.

    `scratch` has lanes for two outputs at a time.
    """
    if new.double.largest.size == 0:
        single = new.single
        g, h = single.gradients[k, begin:end], single.hessians[k, begin:end]
    else:
        both, lane = scratch[thread_id, k % 2].view(np.float32), scratch.shape[2]
        g, h = both[: end - begin], both[lane : lane + end - begin]
    return g, h


@inline
def _finish_lane(side, thread_id, k, begin, rows, positive_weight, lane, new):
    """Multiply a lane of g or h by the rows' weights, and find the largest."""
    end = begin + lane.size
    label = rows.targets[min(k, rows.targets.shape[0] - 1), begin:end]
    weights = rows.weights[begin:end]
    if weights.size == 0:
        if positive_weight != 1.0:
            for i in range(lane.size):
                lane[i] *= positive_weight if label[i] == 1.0 else 1.0
        raise_largest(new.single.largest[thread_id, k, side:], lane)
        return
    wide = (new.double.hessians if side else new.double.gradients)[k, begin:end]
    if positive_weight == 1.0:
        for i in range(lane.size):
            wide[i] = lane[i] * weights[i]
    else:
        for i in range(lane.size):
            factor = positive_weight if label[i] == 1.0 else 1.0
            wide[i] = lane[i] * factor * weights[i]
    raise_largest(new.double.largest[thread_id, k, side:], wide)


@kernel
def finish_lanes(thread_id, k, begin, rows, positive_weight, g, h, new):
    """Multiply lanes of g and h by the rows' weights, and find the largest."""
    for side in range(2):
        lane = h if side else g
        _finish_lane(side, thread_id, k, begin, rows, positive_weight, lane, new)


def by_row(loss, of_share=False):
    """Return the kernel that writes g and h of a loss from `maths`, row by row.

    The first argument of the loss is the margin, or with `of_share` its sigmoid.
    """

    @kernel_of(loss)
    def write(
        thread_id,
        n_threads,
        sync,
        rows,  # LossRows
        # float64: the factor of weights of rows whose target is 1; then the parameter
        # of the loss, if it has any, for all outputs or for each
        numbers,
        new,  # NewGradients, out
        scratch,  # (threads, 6 + outputs, lane) float64
    ):
        outputs, n_rows = rows.margins.shape
        lane = scratch.shape[2]
        task = next_task(sync, 0)
        while task // outputs * TASK_ROWS < n_rows:
            k, first = task % outputs, task // outputs * TASK_ROWS
            last = min(first + TASK_ROWS, n_rows)
            number = numbers[min(k + 1, numbers.size - 1)]
            for begin in range(first, last, lane):
                end = min(begin + lane, last)
                margins = margins_of(k, begin, end, rows)
                target = rows.targets[min(k, rows.targets.shape[0] - 1), begin:end]
                g, h = lanes_of(thread_id, k, begin, end, new, scratch)
                values = margins
                if of_share:
                    own = scratch[thread_id]
                    values = own[2, : margins.size]
                    sigmoid_lane(margins, values, own[3], own[4])
                for i in range(values.size):
                    gradient, hessian = loss(values[i], target[i], number)
                    g[i] = np.float32(gradient)
                    h[i] = np.float32(hessian)
                finish_lanes(thread_id, k, begin, rows, numbers[0], g, h, new)
            task = next_task(sync, 0)

    return write


squared_error = by_row(maths.squared_error)
squared_log_error = by_row(maths.squared_log_error)
pseudo_huber = by_row(maths.pseudo_huber)
logistic = by_row(maths.logistic, of_share=True)
focal = by_row(maths.focal)
hinge = by_row(maths.hinge)
poisson = by_row(maths.poisson)
gamma = by_row(maths.gamma)
tweedie = by_row(maths.tweedie)
deviation = by_row(maths.deviation)
pinball = by_row(maths.pinball)


def by_pair(loss):
    """Return the kernel that writes g and h of a loss of two margins of a row."""

    @kernel_of(loss)
    def write(
        thread_id,
        n_threads,
        sync,
        rows,  # LossRows of two outputs and one target
        numbers,  # (2,) float64: not used, and the parameter of the loss
        new,  # NewGradients, out
        scratch,  # (threads, 6 + outputs, lane) float64
    ):
        n_rows = rows.margins.shape[1]
        lane = scratch.shape[2]
        task = next_task(sync, 0)
        while task * lane < n_rows:
            begin = task * lane
            end = min(begin + lane, n_rows)
            first = margins_of(0, begin, end, rows)
            second = margins_of(1, begin, end, rows)
            label = rows.targets[0, begin:end]
            first_g, first_h = lanes_of(thread_id, 0, begin, end, new, scratch)
            second_g, second_h = lanes_of(thread_id, 1, begin, end, new, scratch)
            for i in range(label.size):
                pairs = loss(first[i], second[i], label[i], numbers[1])
                first_g[i] = np.float32(pairs[0])
                first_h[i] = np.float32(pairs[1])
                second_g[i] = np.float32(pairs[2])
                second_h[i] = np.float32(pairs[3])
            for k in range(2):
                g, h = (second_g, second_h) if k else (first_g, first_h)
                finish_lanes(thread_id, k, begin, rows, 1.0, g, h, new)
            task = next_task(sync, 0)

    return write


normal = by_pair(maths.normal)
lognormal = by_pair(maths.lognormal)
negative_binomial = by_pair(maths.negative_binomial)


@kernel
def expectile_error(
    thread_id,
    n_threads,
    sync,
    # LossRows of one target; margins: the lowest expectile, then inverse softplus steps
    rows,
    numbers,  # (1 + levels,) float64: not used, and the levels
    new,  # NewGradients, out
    # (threads, 6 + outputs, lane) float64: from row 2 on, expectile and pull of the
    # level below
    scratch,
):
    """Write g and h of each expectile's error, minus the error of the level below.

    Margin k moves all expectiles from k on, at the rate of the slope of softplus. With
    the gradients of all of them, every tree of a round would correct the errors of the
    highest. So a tree fits the remaining error of its own expectile after the one below
    has moved it. The error below is converted to the unit of this level: rows of an
    expectile weigh about sqrt(level (1 - level)) on average. The hessian is the mean of
    this and the row's own weight, because rows change sides during training.
    """
    levels, n_rows = rows.margins.shape
    lane = scratch.shape[2]
    expectiles = scratch[thread_id, 2]
    pulls = scratch[thread_id, 3]
    task = next_task(sync, 0)
    while task * lane < n_rows:
        begin = task * lane
        count = min(lane, n_rows - begin)
        end = begin + count
        label = rows.targets[0, begin:end]
        pulls[:count] = 0.0
        unit_below = 1.0
        for k in range(levels):
            level = numbers[1 + k]
            unit = np.sqrt(level * (1.0 - level))
            ratio = unit / unit_below
            unit_below = unit
            margins = margins_of(k, begin, end, rows)
            g, h = lanes_of(thread_id, k, begin, end, new, scratch)
            for i in range(count):
                expectile, slope = margins[i], 1.0
                if k > 0:
                    expectile = maths.climb(expectiles[i], margins[i])
                    slope = maths.sigmoid(margins[i])
                error = expectile - label[i]
                weight = maths.side_weight(error, level)
                pull = weight * error
                g[i] = np.float32(slope * (pull - ratio * pulls[i]))
                curvature = slope * slope * 0.5 * (weight + unit)
                h[i] = np.float32(max(curvature, maths.LEAST_HESSIAN))
                expectiles[i] = expectile
                pulls[i] = pull
            finish_lanes(thread_id, k, begin, rows, 1.0, g, h, new)
        task = next_task(sync, 0)


@kernel
def softmax(
    thread_id,
    n_threads,
    sync,
    rows,  # LossRows of one target, a whole number below classes
    numbers,  # (1,) float64: not used
    new,  # NewGradients, out
    # (threads, 6 + outputs, lane) float64: from row 2 on, highest margin, sum of
    # exponentials, two rows for `exp_lane`, the exponentials
    scratch,
):
    """Write g = p - [target = class] and h = 2 p (1 - p), times the row's weight."""
    classes, n_rows = rows.margins.shape
    lane = scratch.shape[2]
    highest = scratch[thread_id, 2]
    total = scratch[thread_id, 3]
    task = next_task(sync, 0)
    while task * lane < n_rows:
        begin = task * lane
        count = min(lane, n_rows - begin)
        end = begin + count
        for i in range(count):
            highest[i] = -np.inf
            total[i] = 0.0
        for k in range(classes):
            margins = margins_of(k, begin, end, rows)
            for i in range(count):
                highest[i] = max(highest[i], margins[i])
        for k in range(classes):
            margins = rows.margins[k, begin:end]
            powers = scratch[thread_id, 6 + k, :count]
            for i in range(count):
                powers[i] = margins[i] - highest[i]
            exp_lane(powers, scratch[thread_id, 4], scratch[thread_id, 5])
            for i in range(count):
                total[i] += powers[i]
        label = rows.targets[0, begin:end]
        for k in range(classes):
            powers = scratch[thread_id, 6 + k]
            g, h = lanes_of(thread_id, k, begin, end, new, scratch)
            for i in range(count):
                p = powers[i] / total[i]
                g[i] = np.float32(p - (1.0 if label[i] == k else 0.0))
                h[i] = np.float32(max(2.0 * p * (1.0 - p), maths.LEAST_HESSIAN))
            finish_lanes(thread_id, k, begin, rows, 1.0, g, h, new)
        task = next_task(sync, 0)


@kernel
def ordinal(
    thread_id,
    n_threads,
    sync,
    # LossRows of one target, a whole number below classes; margins: the location, the
    # middle of the first and the last threshold, inverse softplus gaps between others
    rows,
    numbers,  # (1,) float64: not used
    new,  # NewGradients, out
    # (threads, 6 + outputs, lane) float64: from row 2 on, g and h of the location, and
    # of the gap around the row's class
    scratch,
):
    """Write g and h of cumulative logits, times the row's weight.

    A gap has its share of each row's derivatives: it moves all thresholds below it down
    by a half, and all above it up. So hessians of gaps are multiplied by their number,
    by which all together do not overshoot. The middle stays: g = 0 and h = 1.
    """
    classes, n_rows = rows.margins.shape
    lane = scratch.shape[2]
    gaps = classes - 2
    own = scratch[thread_id]
    task = next_task(sync, 0)
    while task * lane < n_rows:
        begin = task * lane
        count = min(lane, n_rows - begin)
        end = begin + count
        for k in range(classes):
            margins_of(k, begin, end, rows)
        label = rows.targets[0, begin:end]
        for i in range(count):
            target = int(label[i])
            low = rows.margins[1, begin + i] - rows.margins[0, begin + i]
            high, total = low, 0.0
            for k in range(1, gaps + 1):
                gap = maths.climb(0.0, rows.margins[1 + k, begin + i])
                total += gap
                low += gap if k < target else 0.0
                high += gap if k <= target else 0.0
            low -= 0.5 * total
            high -= 0.5 * total
            own[4, i] = 0.0
            own[5, i] = 0.0
            if target == 0:
                low = -np.inf
            elif target > gaps:
                high = np.inf
            else:
                own[4, i], own[5, i] = maths.class_gap(low, high)
            own[2, i], own[3, i] = maths.class_range(low, high)
        for k in range(classes):
            g, h = lanes_of(thread_id, k, begin, end, new, scratch)
            for i in range(count):
                gradient, hessian = own[2, i], own[3, i]
                if k == 1:
                    gradient, hessian = 0.0, 1.0
                elif k > 1:
                    target = int(label[i])
                    slope = maths.sigmoid(rows.margins[k, begin + i])
                    gradient *= -0.5 if k - 1 < target else 0.5
                    hessian *= 0.25
                    if k - 1 == target:
                        gradient, hessian = own[4, i], own[5, i]
                    gradient *= slope
                    hessian = max(gaps * hessian * slope * slope, maths.LEAST_HESSIAN)
                g[i] = np.float32(gradient)
                h[i] = np.float32(hessian)
            finish_lanes(thread_id, k, begin, rows, 1.0, g, h, new)
        task = next_task(sync, 0)


@kernel
def find_largest(
    thread_id,
    n_threads,
    sync,
    gradients,  # (rows,) float32 or float64
    hessians,  # (rows,) the same
    largest,  # (threads, 2) int32 or int64, of the same size, zeros in, out: bits
):
    """Find the largest |g| and |h| that each thread came across."""
    rows = gradients.size
    task = next_task(sync, 0)
    while task * TASK_ROWS < rows:
        begin = task * TASK_ROWS
        end = min(begin + TASK_ROWS, rows)
        raise_largest(largest[thread_id], gradients[begin:end])
        raise_largest(largest[thread_id, 1:], hessians[begin:end])
        task = next_task(sync, 0)


@kernel
def quantise(
    thread_id,
    n_threads,
    sync,
    gradients,  # (rows,) float32 or float64
    hessians,  # (rows,) the same
    units,  # (2,) float64: the value of one unit of g and of h, powers of two
    packed,  # (rows,) int64, out: g in the high half, h in the low half
    magnitudes,  # (tasks, 2) int64, out: sums of |g| and h in units
    numbers,  # (rows,) uint32, out: 0, 1, 2, ...; (0,): not written
):
    """Write each row's coarse gradient and hessian as one int64.

    The list of the rows that a tree begins with is written in the same pass.
    """
    rows = gradients.size
    gradient_scale, hessian_scale = 1.0 / units[0], 1.0 / units[1]
    highest_gradient = np.float64((1 << COARSE_GRADIENT_BITS) - 1)
    highest_hessian = np.float64((1 << COARSE_HESSIAN_BITS) - 1)
    task = next_task(sync, 0)
    while task < magnitudes.shape[0]:
        begin = task * TASK_ROWS
        gradient_sum = 0
        hessian_sum = 0
        end = min(begin + TASK_ROWS, rows)
        own_gradients = gradients[begin:end]
        own_hessians = hessians[begin:end]
        own_packed = packed[begin:end]
        for i in range(own_packed.size):
            value = max(own_gradients[i] * gradient_scale, -highest_gradient)
            # Only of 32 bits are there conversions of vectors on all processors.
            g = np.int64(np.int32(np.rint(min(value, highest_gradient))))
            value = min(own_hessians[i] * hessian_scale, highest_hessian)
            h = np.int64(np.int32(np.rint(value)))
            own_packed[i] = (g << 32) + h
            gradient_sum += abs(g)
            hessian_sum += h
        if numbers.size > 0:
            for i in range(begin, end):
                numbers[i] = i
        magnitudes[task, 0] = gradient_sum
        magnitudes[task, 1] = hessian_sum
        task = next_task(sync, 0)


@kernel
def widen(
    thread_id,
    n_threads,
    sync,
    gradients,  # (rows,) float32 or float64
    hessians,  # (rows,) the same
    gradient_scale,  # 1 / unit, a power of two
    hessian_scale,
    wide,  # (2, rows) int64, out
):
    """Write each row's fine gradient and hessian, where 18 bits are not enough."""
    rows = gradients.size
    task = next_task(sync, 0)
    while task * TASK_ROWS < rows:
        begin = task * TASK_ROWS
        end = min(begin + TASK_ROWS, rows)
        own_gradients = gradients[begin:end]
        own_hessians = hessians[begin:end]
        wide_gradients = wide[0, begin:end]
        wide_hessians = wide[1, begin:end]
        for i in range(own_gradients.size):
            wide_gradients[i] = np.int64(np.rint(own_gradients[i] * gradient_scale))
            wide_hessians[i] = np.int64(np.rint(own_hessians[i] * hessian_scale))
        task = next_task(sync, 0)
