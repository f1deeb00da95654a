"""Gradients and hessians of objectives, and their fixed-point forms.

`scores` are margins in float64. `gradients` and `hessians` are rounded to float32 and
then multiplied by the row's weight: they are float64 where rows have weights, so that a
row of weight 3 equals three rows. All kernels of objectives have the same arguments.
"""

from __future__ import annotations

import numpy as np

from hornbeam.kernels import maths
from hornbeam.kernels.jit import inline, kernel, kernel_of
from hornbeam.kernels.layout import (
    COARSE_GRADIENT_BITS,
    COARSE_HESSIAN_BITS,
    TASK_ROWS,
)
from hornbeam.kernels.sync import next_task

__all__ = [
    "by_pair",
    "by_row",
    "deviation",
    "expectile_error",
    "find_extent",
    "focal",
    "gamma",
    "hinge",
    "logistic",
    "lognormal",
    "negative_binomial",
    "normal",
    "pinball",
    "poisson",
    "pseudo_huber",
    "quantise",
    "softmax",
    "squared_error",
    "squared_log_error",
    "tweedie",
    "weigh",
    "widen",
]


@inline
def weigh(label, weights, positive_weight, gradients, hessians):
    """Multiply gradients and hessians by the weights of their rows."""
    if positive_weight != 1.0:
        for i in range(label.size):
            weight = positive_weight if label[i] == 1.0 else 1.0
            gradients[i] *= weight
            hessians[i] *= weight
    for i in range(weights.size):
        gradients[i] *= weights[i]
        hessians[i] *= weights[i]


def by_row(loss):
    """Return the kernel that writes g and h of a loss from `maths`, row by row."""

    @kernel_of(loss)
    def write(
        thread_id,
        n_threads,
        sync,
        scores,  # (outputs, rows) float64
        targets,  # (outputs, rows) float64, or (1, rows) for all outputs
        weights,  # (rows,) float64, or empty for all ones
        # float64: the factor of weights of rows whose target is 1; then the parameter
        # of the loss, if it has any, for all outputs or for each
        numbers,
        gradients,  # (outputs, rows) float32 or float64, out
        hessians,  # (outputs, rows) the same, out
        scratch,  # (threads, 3, lane) float64: not used
    ):
        outputs, rows = scores.shape
        task = next_task(sync, 0)
        while task // outputs * TASK_ROWS < rows:
            k = task % outputs
            begin = task // outputs * TASK_ROWS
            end = min(begin + TASK_ROWS, rows)
            margins = scores[k, begin:end]
            target = targets[min(k, targets.shape[0] - 1), begin:end]
            number = numbers[min(k + 1, numbers.size - 1)]
            g = gradients[k, begin:end]
            h = hessians[k, begin:end]
            for i in range(margins.size):
                gradient, hessian = loss(margins[i], target[i], number)
                g[i] = np.float32(gradient)
                h[i] = np.float32(hessian)
            weigh(target, weights[begin:end], numbers[0], g, h)
            task = next_task(sync, 0)

    return write


squared_error = by_row(maths.squared_error)
squared_log_error = by_row(maths.squared_log_error)
pseudo_huber = by_row(maths.pseudo_huber)
logistic = by_row(maths.logistic)
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
        scores,  # (2, rows) float64
        targets,  # (1, rows) float64
        weights,  # (rows,) float64, or empty for all ones
        numbers,  # (2,) float64: not used, and the parameter of the loss
        gradients,  # (2, rows) float32 or float64, out
        hessians,  # (2, rows) the same, out
        scratch,  # (threads, 2, lane) float64: not used
    ):
        rows = scores.shape[1]
        task = next_task(sync, 0)
        while task * TASK_ROWS < rows:
            begin = task * TASK_ROWS
            end = min(begin + TASK_ROWS, rows)
            first, second = scores[0, begin:end], scores[1, begin:end]
            label = targets[0, begin:end]
            g, h = gradients[:, begin:end], hessians[:, begin:end]
            for i in range(label.size):
                pairs = loss(first[i], second[i], label[i], numbers[1])
                g[0, i] = np.float32(pairs[0])
                h[0, i] = np.float32(pairs[1])
                g[1, i] = np.float32(pairs[2])
                h[1, i] = np.float32(pairs[3])
            for k in range(2):
                weigh(label, weights[begin:end], 1.0, g[k], h[k])
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
    scores,  # (levels, rows) float64: the lowest expectile, then inverse softplus steps
    targets,  # (1, rows) float64
    weights,  # (rows,) float64, or empty for all ones
    numbers,  # (1 + levels,) float64: not used, and the levels
    gradients,  # (levels, rows) float32 or float64, out
    hessians,  # (levels, rows) the same, out
    scratch,  # (threads, 3, lane) float64: expectile and pull of the level below
):
    """Write g and h of each expectile's error, minus the error of the level below.

    Margin k moves all expectiles from k on, at the rate of the slope of softplus. With
    the gradients of all of them, every tree of a round would correct the errors of the
    highest. So a tree fits the remaining error of its own expectile after the one below
    has moved it. The error below is converted to the unit of this level: rows of an
    expectile weigh about sqrt(level (1 - level)) on average. The hessian is the mean of
    this and the row's own weight, because rows change sides during training.
    """
    levels, rows = scores.shape
    lane = scratch.shape[2]
    expectiles = scratch[thread_id, 0]
    pulls = scratch[thread_id, 1]
    task = next_task(sync, 0)
    while task * lane < rows:
        begin = task * lane
        count = min(lane, rows - begin)
        end = begin + count
        label = targets[0, begin:end]
        pulls[:count] = 0.0
        unit_below = 1.0
        for k in range(levels):
            level = numbers[1 + k]
            unit = np.sqrt(level * (1.0 - level))
            ratio = unit / unit_below
            unit_below = unit
            margins = scores[k, begin:end]
            g = gradients[k, begin:end]
            h = hessians[k, begin:end]
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
            weigh(label, weights[begin:end], 1.0, g, h)
        task = next_task(sync, 0)


@kernel
def softmax(
    thread_id,
    n_threads,
    sync,
    scores,  # (classes, rows) float64
    targets,  # (1, rows) float64, whole numbers below classes
    weights,  # (rows,) float64, or empty for all ones
    numbers,  # (1,) float64: not used
    gradients,  # (classes, rows) float32 or float64, out
    hessians,  # (classes, rows) the same, out
    scratch,  # (threads, 3, lane) float64: highest margin and sum of exponentials
):
    """Write g = p - [target = class] and h = 2 p (1 - p), times the row's weight."""
    classes, rows = scores.shape
    lane = scratch.shape[2]
    highest = scratch[thread_id, 0]
    total = scratch[thread_id, 1]
    task = next_task(sync, 0)
    while task * lane < rows:
        begin = task * lane
        count = min(lane, rows - begin)
        end = begin + count
        for i in range(count):
            highest[i] = -np.inf
            total[i] = 0.0
        for k in range(classes):
            margins = scores[k, begin:end]
            for i in range(count):
                highest[i] = max(highest[i], margins[i])
        for k in range(classes):
            margins = scores[k, begin:end]
            for i in range(count):
                total[i] += maths.exp(margins[i] - highest[i])
        label = targets[0, begin:end]
        for k in range(classes):
            margins = scores[k, begin:end]
            g = gradients[k, begin:end]
            h = hessians[k, begin:end]
            for i in range(count):
                p = maths.exp(margins[i] - highest[i]) / total[i]
                g[i] = np.float32(p - (1.0 if label[i] == k else 0.0))
                h[i] = np.float32(max(2.0 * p * (1.0 - p), maths.LEAST_HESSIAN))
            weigh(label, weights[begin:end], 1.0, g, h)
        task = next_task(sync, 0)


@kernel
def find_extent(
    thread_id,
    n_threads,
    sync,
    gradient_bits,  # (rows,) int32 or int64: the bits of the gradients
    hessian_bits,  # (rows,) the same
    magnitude,  # all bits except the sign, of the same type
    extent,  # (tasks, 2) of the same type, out: bits of the largest |g| and h
):
    """Write the largest |g| and h of each task.

    The bits of non-negative floats are ordered as the floats are, and the compiler
    vectorises the maximum of integers. Infinity and NaN are the largest.
    """
    rows = gradient_bits.size
    task = next_task(sync, 0)
    while task < extent.shape[0]:
        begin = task * TASK_ROWS
        largest_gradient = magnitude ^ magnitude
        largest_hessian = magnitude ^ magnitude
        end = min(begin + TASK_ROWS, rows)
        for bits in gradient_bits[begin:end]:
            largest_gradient = max(largest_gradient, bits & magnitude)
        for bits in hessian_bits[begin:end]:
            largest_hessian = max(largest_hessian, bits & magnitude)
        extent[task, 0] = largest_gradient
        extent[task, 1] = largest_hessian
        task = next_task(sync, 0)


@kernel
def quantise(
    thread_id,
    n_threads,
    sync,
    gradients,  # (rows,) float32 or float64
    hessians,  # (rows,) the same
    gradient_scale,  # 1 / unit, a power of two
    hessian_scale,
    packed,  # (rows,) int64, out: g in the high half, h in the low half
    magnitudes,  # (tasks, 2) int64, out: sums of |g| and h in units
):
    """Write each row's coarse gradient and hessian as one int64."""
    rows = gradients.size
    highest_gradient = (1 << COARSE_GRADIENT_BITS) - 1
    highest_hessian = (1 << COARSE_HESSIAN_BITS) - 1
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
            g = np.int64(np.rint(own_gradients[i] * gradient_scale))
            h = np.int64(np.rint(own_hessians[i] * hessian_scale))
            g = min(max(g, -highest_gradient), highest_gradient)
            h = min(h, highest_hessian)
            own_packed[i] = (g << 32) + h
            gradient_sum += abs(g)
            hessian_sum += h
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
