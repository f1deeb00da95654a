"""Losses of censored survival times: gradients and metrics.

A time is observed, or censored on the right, on the left or in an interval. `low` and
`high` are the logarithms of its bounds, -inf and inf where there is none.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hornbeam.kernels import maths
from hornbeam.kernels.gradients import finish_lanes, lanes_of, margins_of
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import TASK_ROWS
from hornbeam.kernels.sort import sort_floats
from hornbeam.kernels.sync import barrier, next_task

__all__ = [
    "DISTRIBUTIONS",
    "CoxScratch",
    "EventTimes",
    "accelerated_failure",
    "by_time",
    "events_of",
    "extreme_slopes",
    "inside_bounds",
    "log_times",
    "logistic_slopes",
    "mean_failure_loss",
    "normal_slopes",
    "partial_likelihood",
    "proportional_hazards",
    "sum_moments",
]

_NORMAL, _LOGISTIC, _EXTREME = range(3)
#: The codes of the distributions of log time around the margin.
DISTRIBUTIONS = {"normal": _NORMAL, "logistic": _LOGISTIC, "extreme": _EXTREME}

# XGBoost's bounds of gradients, hessians and likelihoods.
_STEEPEST = 15.0
_LEAST_HESSIAN = 1e-16
_LEAST_LIKELIHOOD = 1e-12

_LOG_ROOT_TWO_PI = 0.9189385332046728
# An interval narrower than this is treated as one time between its bounds.
_NARROW = 1e-5
# The normal distribution function is 0 below this, to float64 precision.
_LOWEST = -37.0
# Beyond this, the curvature of a normal tail is lost to rounding.
_HIGHEST = 1e6
# x / e**x is 0 beyond the first; the second replaces 0 in logarithms.
_FAR = 700.0
_TINY = 1e-300
# The bound of log hazards, so that the squares of their sums are finite.
_MOST_HAZARD = 300.0


class EventTimes(NamedTuple):
    """The rows in the order of their times, for Cox regression.

    Attributes
    ----------
    weights
        (rows,) float64, or empty for all ones.
    events
        (rows,) float64: the weight of a row with an observed event, else 0.
    moment_of
        (rows,) uint32: the index of the row's time among all times, ascending.
    order
        (rows,) uint32: the rows by ascending time.
    begins
        (moments + 1,) int64: the first row of each time in `order`.
    seen
        (moments,) float64: the sum of the events of each time.
    """

    weights: npt.NDArray[np.float64]
    events: npt.NDArray[np.float64]
    moment_of: npt.NDArray[np.uint32]
    order: npt.NDArray[np.uint32]
    begins: npt.NDArray[np.int64]
    seen: npt.NDArray[np.float64]


class CoxScratch(NamedTuple):
    """Scratch arrays of `proportional_hazards`.

    Attributes
    ----------
    hazards
        (3, rows) float64: hazards, the same times weights, and by time.
    sums
        (moments, 2) float64: the two sums of each moment are adjacent.
    """

    hazards: npt.NDArray[np.float64]
    sums: npt.NDArray[np.float64]


# For each distribution there is the logarithm of its probability from `low` to `high`,
# and the derivative of that by a shift of both, with minus the second derivative: its
# slope and curvature. For an interval narrower than _NARROW these are of the density
# between the bounds instead.


@inline
def _is_one(low, high):
    return high - low < _NARROW


@inline
def _normal_density(low, high):
    """Return the slope and curvature of the density between the bounds."""
    return -0.5 * (low + high), 1.0


@inline
def _slopes_of_share(low, high, fall, share):
    """Return slope and curvature; `fall` is density(high) / density(low)."""
    slope = (fall - 1.0) / share
    return slope, slope * slope - (low - high * fall) / share


@inline
def _normal_tail(low, high):
    """Return slope and curvature where one bound is infinite."""
    mirrored = high < math.inf
    low = min(max(-high if mirrored else low, _LOWEST), _HIGHEST)
    slope, curvature = _slopes_of_share(low, 0.0, 0.0, maths.mills_ratio(low))
    return -slope if mirrored else slope, curvature


@inline
def _normal_share(low, high):
    """Return clipped bounds, density(high) / density(low), and probability / density.

    The probability divided by the density at the bound nearer to 0 is a difference of
    Mills ratios, which is accurate in both tails. The sum of the bounds is positive.
    """
    low = min(max(low, _LOWEST), _HIGHEST)
    high = min(high, low + 2.0 * (1.0 - _LOWEST))
    fall = maths.exp(-0.5 * (high - low) * (high + low))
    share = maths.mills_ratio(low) - fall * maths.mills_ratio_above(high)
    return low, high, fall, share


@inline
def normal_slopes(low, high):
    """Return slope and curvature."""
    if _is_one(low, high):
        return _normal_density(low, high)
    mirrored = low + high < 0.0
    if mirrored:
        low, high = -high, -low
    low, high, fall, share = _normal_share(low, high)
    slope, curvature = _slopes_of_share(low, high, fall, share)
    return -slope if mirrored else slope, curvature


@kernel
def _normal_log_share(low, high):
    if _is_one(low, high):
        z = 0.5 * (low + high)
        return -0.5 * z * z - _LOG_ROOT_TWO_PI
    if low + high < 0.0:
        low, high = -high, -low
    low, _, _, share = _normal_share(low, high)
    return maths.log(share) - 0.5 * low * low - _LOG_ROOT_TWO_PI


# The logistic probability is F(high) (1 - F(low)) (1 - e**-width), whose last factor
# does not depend on a shift.


@inline
def logistic_slopes(low, high):
    """Return slope and curvature."""
    below = maths.sigmoid(high)
    above = maths.sigmoid(-low)
    return above - below, below * (1.0 - below) + above * (1.0 - above)


@kernel
def _logistic_log_share(low, high):
    log_share = maths.log(maths.sigmoid(high)) + maths.log(maths.sigmoid(-low))
    if not _is_one(low, high):
        log_share += maths.log(1.0 - maths.exp(low - high))
    return log_share


# The extreme value distribution is 1 - exp(-e**z).


@inline
def _slopes_of_width(w, width, ratio):
    return ratio - w, w + ratio * (ratio + width - 1.0)


@inline
def _extreme_end(low, high):
    """Return slope and curvature for equal bounds or an infinite one."""
    endless = high == math.inf
    width = _FAR if endless else 0.0
    ratio = _FAR / (maths.exp(_FAR) - 1.0) if endless else 1.0
    return _slopes_of_width(maths.exp(low), width, ratio)


@inline
def _extreme_width(low, high):
    """Return e**low, the width from there to e**high, and width / (e**width - 1)."""
    w = maths.exp(low)
    width = min(maths.exp(high) - w, _FAR)
    square = width * width
    series = 1.0 - 0.5 * width + square / 12.0 - square * square / 720.0
    quotient = width / (maths.exp(width) - 1.0)
    return w, width, series if width < 0.05 else quotient


@inline
def extreme_slopes(low, high):
    """Return slope and curvature."""
    w, width, ratio = _extreme_width(low, high)
    return _slopes_of_width(w, width, ratio)


@kernel
def _extreme_log_share(low, high):
    w, width, ratio = _extreme_width(low, high)
    if _is_one(low, high):
        return low - w
    if width < 0.05:
        return maths.log(max(width, _TINY)) - width - maths.log(ratio) - w
    return maths.log(1.0 - maths.exp(-width)) - w


@inline
def log_time(time):
    """Return the logarithm of a bound of a time; -inf and inf where there is none."""
    if time <= 0.0:
        return -math.inf
    return time if time == math.inf else maths.log(time)


@kernel
def log_times(
    bounds,  # (2, rows) float64, in and out
):
    """Replace bounds of times by their logarithms."""
    for k in range(2):
        for i in range(bounds.shape[1]):
            bounds[k, i] = log_time(bounds[k, i])


@inline
def _held(gradient, hessian):
    """Return a gradient and a hessian, clipped to XGBoost's bounds, as float32."""
    gradient = min(max(gradient, -_STEEPEST), _STEEPEST)
    hessian = min(max(hessian, _LEAST_HESSIAN), _STEEPEST)
    return np.float32(gradient), np.float32(hessian)


# Most rows need only a part of the formula. The other rows are gathered, so that their
# loop is vectorised too.


@inline
def _find_others(distribution, low, high, found):
    """Write the tail rows to the front and the intervals to the end; return counts."""
    tails = spans = 0
    last = found.size - 1
    for i in range(low.size):
        found[np.uint64(tails)] = i
        found[np.uint64(last - spans)] = i
        is_one = np.int64(low[i] == high[i])
        is_right = np.int64(high[i] == math.inf)
        if distribution == _NORMAL:
            is_tail = is_right ^ np.int64(low[i] == -math.inf)
            tails += is_tail
            spans += 1 - (is_one | is_tail)
        else:
            spans += 1 - (is_one | is_right)
    return tails, spans


@inline
def _gather(found, low, high, margins, rate, lows, highs):
    """Write the scaled bounds of the found rows."""
    for j in range(found.size):
        i = np.uint64(found[j])
        lows[j] = (low[i] - margins[i]) * rate
        highs[j] = (high[i] - margins[i]) * rate


@inline
def _scatter(found, slopes, curvatures, rate, g, h):
    """Write the gradients and hessians of the found rows."""
    for j in range(found.size):
        i = np.uint64(found[j])
        g[i], h[i] = _held(slopes[j] * rate, curvatures[j] * rate * rate)


@kernel
def _write_normal(low, high, margins, rate, own, g, h):
    for i in range(margins.size):
        slope, curvature = _normal_density(
            (low[i] - margins[i]) * rate, (high[i] - margins[i]) * rate
        )
        g[i], h[i] = _held(slope * rate, curvature * rate * rate)
    found = own[2].view(np.int64)
    tails, spans = _find_others(_NORMAL, low, high, found)
    lows, highs = own[0, :tails], own[1, :tails]
    _gather(found[:tails], low, high, margins, rate, lows, highs)
    for j in range(tails):
        lows[j], highs[j] = _normal_tail(lows[j], highs[j])
    _scatter(found[:tails], lows, highs, rate, g, h)
    these = found[found.size - spans :]
    lows, highs = own[0, :spans], own[1, :spans]
    _gather(these, low, high, margins, rate, lows, highs)
    for j in range(spans):
        lows[j], highs[j] = normal_slopes(lows[j], highs[j])
    _scatter(these, lows, highs, rate, g, h)


@kernel
def _write_logistic(low, high, margins, rate, own, g, h):
    for i in range(margins.size):
        slope, curvature = logistic_slopes(
            (low[i] - margins[i]) * rate, (high[i] - margins[i]) * rate
        )
        g[i], h[i] = _held(slope * rate, curvature * rate * rate)


@kernel
def _write_extreme(low, high, margins, rate, own, g, h):
    for i in range(margins.size):
        slope, curvature = _extreme_end(
            (low[i] - margins[i]) * rate, (high[i] - margins[i]) * rate
        )
        g[i], h[i] = _held(slope * rate, curvature * rate * rate)
    found = own[2].view(np.int64)
    _, spans = _find_others(_EXTREME, low, high, found)
    these = found[found.size - spans :]
    lows, highs = own[0, :spans], own[1, :spans]
    _gather(these, low, high, margins, rate, lows, highs)
    for j in range(spans):
        lows[j], highs[j] = extreme_slopes(lows[j], highs[j])
    _scatter(these, lows, highs, rate, g, h)


@kernel
def accelerated_failure(
    thread_id,
    n_threads,
    sync,
    # LossRows of one output and two targets; margins: logarithms of times; targets:
    # those of the bounds of times
    rows,
    numbers,  # (2,) float64: the distribution, and its scale
    new,  # NewGradients, out
    # (threads, 6 + outputs, lane) float64: from row 2 on bounds, then slopes; the
    # indices of rows
    scratch,
):
    """Write g and h of minus the log-likelihood of bounds, times the row's weight."""
    outputs, n_rows = rows.margins.shape
    distribution = numbers[0]
    rate = 1.0 / numbers[1]
    lane = scratch.shape[2]
    own = scratch[thread_id, 2:5]
    task = next_task(sync, 0)
    while task // outputs * lane < n_rows:
        k, begin = task % outputs, task // outputs * lane
        end = min(begin + lane, n_rows)
        margins = margins_of(k, begin, end, rows)
        low, high = rows.targets[0, begin:end], rows.targets[1, begin:end]
        g, h = lanes_of(thread_id, k, begin, end, new, scratch)
        if distribution == _NORMAL:
            _write_normal(low, high, margins, rate, own, g, h)
        elif distribution == _LOGISTIC:
            _write_logistic(low, high, margins, rate, own, g, h)
        else:
            _write_extreme(low, high, margins, rate, own, g, h)
        finish_lanes(thread_id, k, begin, rows, 1.0, g, h, new)
        task = next_task(sync, 0)


def by_time(
    labels: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the rows by ascending time, and the begin of each moment in this order.

    A time is the absolute value of a label. Rows of the same time are a moment; the
    last begin is the number of rows.
    """
    times, order = sort_floats(np.abs(labels), np.arange(labels.size))
    assert order is not None
    return order, np.flatnonzero(np.diff(times, prepend=np.nan, append=np.nan) != 0.0)


def events_of(
    labels: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the weight of each row with an observed event, 0 for censored rows.

    Empty weights count as 1.
    """
    return np.where(labels > 0.0, weights if weights.size else 1.0, 0.0)


@inline
def _sum_of(values, begin, end):
    """Return a sum that does not depend on the order, in fixed point."""
    if end - begin == 1:
        return values[np.uint64(begin)]
    own = values[begin:end]
    largest = 0.0
    for i in range(own.size):
        largest = max(largest, own[i])
    places = 62 - math.frexp(np.float64(own.size))[1]
    places -= max(math.frexp(largest)[1], -900)
    steps = math.ldexp(1.0, places)
    total = np.int64(0)
    for i in range(own.size):
        total += np.int64(np.rint(own[i] * steps))
    return total / steps


@kernel
def sum_moments(
    values,  # (rows,) float64, by ascending time, not negative
    begins,  # (moments + 1,) int64: the first row of each time
    sums,  # (moments,) float64, out
):
    """Write the sum of the values of each moment, independent of their order."""
    for m in range(sums.size):
        sums[m] = _sum_of(values, begins[m], begins[m + 1])


@kernel
def proportional_hazards(
    thread_id,
    n_threads,
    sync,
    scores,  # (rows,) float64: logarithms of hazards
    times,  # EventTimes
    scratch,  # CoxScratch
    gradients,  # (rows,) float64, out; without weights they are float32 numbers
    hessians,  # (rows,) the same, out
):
    """Write g and h of minus the partial log-likelihood, times the row's weight.

    A row is at risk until its time, and R is the sum of the hazards at risk at an
    event. A row of hazard e has g = e r - [event] and h = e r - e**2 s, where r and s
    are the sums of 1 / R and 1 / R**2 over the events up to and including its time
    (Breslow's method for ties). A weight counts as so many rows.
    """
    weights, events, moment_of, order, begins, seen = times
    hazards, sums = scratch
    rows = order.size
    hazard, weighted, by_time = hazards[0], hazards[1], hazards[2]
    if weights.size == 0:
        weighted = hazard
    task = next_task(sync, 0)
    while task * TASK_ROWS < rows:
        begin = task * TASK_ROWS
        margins = scores[begin : min(begin + TASK_ROWS, rows)]
        own = hazard[begin : begin + margins.size]
        for i in range(margins.size):
            own[i] = maths.exp(min(max(margins[i], -_MOST_HAZARD), _MOST_HAZARD))
        for i in range(begin, min(begin + TASK_ROWS, weights.size)):
            weighted[i] = hazard[i] * weights[i]
        task = next_task(sync, 0)
    barrier(sync, n_threads)
    task = next_task(sync, 1)
    while task * TASK_ROWS < rows:
        begin = task * TASK_ROWS
        row_at = order[begin : min(begin + TASK_ROWS, rows)]
        own = by_time[begin : begin + row_at.size]
        for p in range(row_at.size):
            own[p] = weighted[row_at[p]]
        task = next_task(sync, 1)
    barrier(sync, n_threads)
    if thread_id == 0:
        at_risk = 0.0
        for m in range(seen.size - 1, -1, -1):
            at_risk += _sum_of(by_time, begins[m], begins[m + 1])
            sums[m, 0] = 1.0 / at_risk
        total = squares = 0.0
        for m in range(seen.size):
            share = sums[m, 0]
            share = share if seen[m] > 0.0 else 0.0
            total += seen[m] * share
            squares += seen[m] * share * share
            sums[m, 0] = total
            sums[m, 1] = squares
    barrier(sync, n_threads)
    task = next_task(sync, 2)
    while task * TASK_ROWS < rows:
        begin = task * TASK_ROWS
        event = events[begin : min(begin + TASK_ROWS, rows)]
        moment = moment_of[begin : begin + event.size]
        own = hazard[begin : begin + event.size]
        g = gradients[begin : begin + event.size]
        h = hessians[begin : begin + event.size]
        for i in range(event.size):
            m = moment[i]
            expected = own[i] * sums[m, 0]
            spread = own[i] * own[i] * sums[m, 1]
            g[i] = np.float32(expected - (1.0 if event[i] > 0.0 else 0.0))
            h[i] = np.float32(max(expected - spread, 0.0))
        for i in range(weights[begin : begin + event.size].size):
            g[i] *= weights[begin + i]
            h[i] *= weights[begin + i]
        task = next_task(sync, 2)


@kernel
def partial_likelihood(
    hazards,  # (rows,) float64, all by ascending time
    weights,  # (rows,) float64, or empty: every row counts once
    events,  # (rows,) float64: the weight of a row with an observed event, or 0
    begins,  # (moments + 1,) int64: the first row of each time
) -> float:
    """Return minus the mean partial log-likelihood of events; NaN without events."""
    total = count = at_risk = 0.0
    for m in range(begins.size - 2, -1, -1):
        seen = 0.0
        for p in range(begins[m], begins[m + 1]):
            at_risk += hazards[p] * (weights[p] if weights.size else 1.0)
            if events[p] > 0.0:
                seen += events[p]
                total -= events[p] * maths.log(hazards[p])
        if seen > 0.0:
            total += seen * maths.log(at_risk)
            count += seen
    return total / count if count > 0.0 else math.nan


@kernel
def mean_failure_loss(
    times,  # (rows,) float64: predicted
    bounds,  # (rows, 2) float64
    weights,  # (rows,) float64, or empty: every row counts once
    distribution,
    scale,
) -> float:
    """Return minus the mean log-likelihood; equal bounds have a density."""
    total = weight_total = 0.0
    for i in range(times.size):
        weight = weights[i] if weights.size else 1.0
        margin = log_time(times[i])
        low = (log_time(bounds[i, 0]) - margin) / scale
        high = (log_time(bounds[i, 1]) - margin) / scale
        if distribution == _NORMAL:
            log_likelihood = _normal_log_share(low, high)
        elif distribution == _LOGISTIC:
            log_likelihood = _logistic_log_share(low, high)
        else:
            log_likelihood = _extreme_log_share(low, high)
        if bounds[i, 0] == bounds[i, 1]:
            log_likelihood -= maths.log(scale * bounds[i, 0])
        elif high - low < _NARROW:
            log_likelihood += maths.log(high - low)
        total -= weight * max(log_likelihood, maths.log(_LEAST_LIKELIHOOD))
        weight_total += weight
    return total / weight_total if weight_total > 0.0 else 0.0


@kernel
def inside_bounds(
    times,  # (rows,) float64: predicted
    bounds,  # (rows, 2) float64
    weights,  # (rows,) float64, or empty: every row counts once
) -> float:
    """Return the weighted share of predictions that are within their bounds."""
    total = weight_total = 0.0
    for i in range(times.size):
        weight = weights[i] if weights.size else 1.0
        if bounds[i, 0] <= times[i] <= bounds[i, 1]:
            total += weight
        weight_total += weight
    return total / weight_total if weight_total > 0.0 else 0.0
