"""Counter-based random draws: each depends on its counter, not on threads or order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels import maths
from hornbeam.kernels.categories import select_least
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import TASK_ROWS
from hornbeam.kernels.sync import next_task

__all__ = [
    "ColumnDraws",
    "DrawKey",
    "GradientSampling",
    "draw_bag",
    "draw_bits",
    "draw_by_size",
    "draw_columns",
    "draw_keyed_by_size",
    "draw_keyed_rows",
    "draw_rows",
    "draw_share",
    "weigh_rows",
]


# The purpose of bootstrap draws (see `maths.philox`); callers pass that of others.
_BAG = np.uint64(0x50000000)
# Those of the columns of levels and nodes.
_OF_LEVEL = 0x20000000
_OF_NODE = 0x30000000
_HALF = np.uint64(32)


class DrawKey(NamedTuple):
    """The key of a sequence of random draws.

    Attributes
    ----------
    stream
        The number of the tree or the iteration.
    purpose
        A constant that separates sequences of different uses.
    seed
        The seed of the training.
    """

    stream: np.uint64
    purpose: np.uint64
    seed: np.uint64


class ColumnDraws(NamedTuple):
    """The draws of columns in a tree.

    Attributes
    ----------
    stream, seed
        Of their `DrawKey`; the purpose is that of a level or a node.
    weights
        (features,) float64: relative probabilities; (0,): all are equal.
    by_level, by_node
        The share of the tree's columns that is drawn for a level, and of these for a
        node; at least one column.
    """

    stream: np.uint64
    seed: np.uint64
    weights: NDArray[np.float64]
    by_level: float
    by_node: float


class GradientSampling(NamedTuple):
    """The probabilities of rows by gradient magnitude, sqrt(g^2 + weight h^2).

    Attributes
    ----------
    hessian_weight
        The weight of the squared hessian.
    threshold
        Rows of this magnitude or more are always taken.
    rest
        The probability of all other rows; 0: magnitude / threshold.
    """

    hessian_weight: float
    threshold: float
    rest: float


@kernel
def draw_rows(
    thread_id,
    n_threads,
    sync,
    number,  # of the first row among all rows
    threshold,  # a row is taken if its 32 random bits are below this
    key,  # DrawKey
    taken,  # (rows,) uint8, out
):
    """Write for each row whether it is in the sample."""
    stream, purpose, seed = key
    rows = taken.size
    each = TASK_ROWS // 4
    begin, end = number // 4, (number + rows + 3) // 4
    task = next_task(sync, 0)
    while begin + task * each < end:
        first = begin + task * each
        for quarter in range(first, min(first + each, end)):
            draw = maths.philox(np.uint64(quarter), stream, purpose, seed)
            for lane in range(4):
                row = 4 * quarter + lane - number
                if 0 <= row < rows:
                    taken[row] = draw[lane] < threshold
        task = next_task(sync, 0)


@inline
def _keyed_bits(number, key):
    """Return the 32 random bits of a row by its number, those of `draw_rows`."""
    stream, purpose, seed = key
    draw = maths.philox(number >> np.uint64(2), stream, purpose, seed)
    return draw[np.int64(number & np.uint64(3))]


@kernel
def draw_keyed_rows(
    thread_id,
    n_threads,
    sync,
    numbers,  # (rows,) uint64: of each row
    threshold,  # as for `draw_rows`
    key,  # DrawKey
    taken,  # (rows,) uint8, out
):
    """Write for each row whether it is in the sample, by numbers in any order."""
    rows = taken.size
    task = next_task(sync, 0)
    while task * TASK_ROWS < rows:
        for row in range(task * TASK_ROWS, min((task + 1) * TASK_ROWS, rows)):
            taken[row] = _keyed_bits(numbers[row], key) < threshold
        task = next_task(sync, 0)


@inline
def _size_class(gradients, hessians, row, weight):
    """Return the class of a row's magnitude, sqrt(g^2 + weight h^2) over outputs."""
    square = 0.0
    for k in range(gradients.shape[0]):
        g, h = np.float64(gradients[k, row]), np.float64(hessians[k, row])
        square += g * g + weight * (h * h)
    return np.float32(np.sqrt(square)).view(np.int32) >> 15


@kernel
def weigh_rows(
    thread_id,
    n_threads,
    sync,
    gradients,  # (outputs, rows) float32 or float64
    hessians,  # (outputs, rows) the same
    weight,  # float64: of the squared hessian
    counts,  # (threads, SIZE_CLASSES) int64, zeros in, out
):
    """Count the rows of each class of magnitudes, sqrt(g^2 + weight h^2)."""
    rows = gradients.shape[1]
    own = counts[thread_id]
    task = next_task(sync, 0)
    while task * TASK_ROWS < rows:
        for row in range(task * TASK_ROWS, min((task + 1) * TASK_ROWS, rows)):
            own[_size_class(gradients, hessians, row, weight)] += 1
        task = next_task(sync, 0)


@inline
def _take_by_size(
    bits,  # 32 random bits
    row,
    gradients,
    hessians,
    probability,
    taken,
    scaled_gradients,
    scaled_hessians,
):
    """Draw one row; the other arguments are those of `draw_by_size`."""
    weight, threshold, rest = probability
    size = _size_class(gradients, hessians, row, weight)
    lowest = np.int32(size << 15).view(np.float32)
    share = np.float64(lowest) / threshold
    if rest > 0.0 and share < 1.0:
        share = rest
    is_taken = share >= 1.0 or bits < share * 4294967296.0
    factor = max(1.0, 1.0 / share) if is_taken else 0.0
    taken[row] = is_taken
    for k in range(gradients.shape[0]):
        # NumPy multiplies a float32 by Python's floats in float32.
        g, h = gradients[k, row], hessians[k, row]
        scaled_gradients[k, row] = np.float64(g) * factor
        scaled_hessians[k, row] = np.float64(h) * factor


@kernel
def draw_by_size(
    thread_id,
    n_threads,
    sync,
    number,  # of the first row among all rows
    gradients,  # (outputs, rows) float32 or float64
    hessians,  # (outputs, rows) the same
    probability,  # GradientSampling
    key,  # DrawKey
    taken,  # (rows,) uint8, out
    scaled_gradients,  # (outputs, rows) float64, out: 0 where not taken
    scaled_hessians,  # (outputs, rows) float64, out
):
    """Take each row with the probability p = min(1, magnitude / threshold).

    With a `rest` above 0, rows below the threshold have p = rest. The gradients of
    taken rows are divided by p, which makes their sums unbiased. The magnitude is the
    lower bound of the row's class.
    """
    stream, purpose, seed = key
    rows = taken.size
    each = TASK_ROWS // 4
    begin, end = number // 4, (number + rows + 3) // 4
    task = next_task(sync, 0)
    while begin + task * each < end:
        first = begin + task * each
        for quarter in range(first, min(first + each, end)):
            draw = maths.philox(np.uint64(quarter), stream, purpose, seed)
            for lane in range(4):
                row = 4 * quarter + lane - number
                if 0 <= row < rows:
                    _take_by_size(
                        draw[lane],
                        row,
                        gradients,
                        hessians,
                        probability,
                        taken,
                        scaled_gradients,
                        scaled_hessians,
                    )
        task = next_task(sync, 0)


@kernel
def draw_keyed_by_size(
    thread_id,
    n_threads,
    sync,
    numbers,  # (rows,) uint64: of each row
    gradients,  # as for `draw_by_size`
    hessians,
    probability,
    key,
    taken,
    scaled_gradients,
    scaled_hessians,
):
    """Take rows as `draw_by_size` does, by numbers in any order."""
    rows = taken.size
    task = next_task(sync, 0)
    while task * TASK_ROWS < rows:
        for row in range(task * TASK_ROWS, min((task + 1) * TASK_ROWS, rows)):
            _take_by_size(
                _keyed_bits(numbers[row], key),
                row,
                gradients,
                hessians,
                probability,
                taken,
                scaled_gradients,
                scaled_hessians,
            )
        task = next_task(sync, 0)


@kernel
def draw_bits(
    stream,  # uint64: the tree
    purpose,  # uint64
    key,  # uint64: the seed
    bits,  # (items,) uint32, out
):
    """Write 32 random bits for each item."""
    for i in range(bits.size):
        draw = maths.philox(np.uint64(i // 4), stream, purpose, key)
        bits[i] = draw[i % 4]


@inline
def _wait(bits, weight):
    """Return the bits of an exponential draw of mean ``1 / weight``.

    Non-negative floats are ordered as their bits are; weight 0 comes after all others.
    """
    never = weight == 0.0
    # -ln(u) for a u in (0, 1): lower bits give smaller values.
    wait = -maths.log((4294967295.5 - np.float64(bits)) / 4294967296.0)
    # A quotient of Python's floats may be infinite.
    wait = float(wait) / float(1.0 if never else weight)
    key = np.float64(wait).view(np.uint64)
    return key | (np.uint64(never) << np.uint64(63))


@kernel
def draw_share(
    columns,  # (columns,) uint64, ascending; out: first those that are drawn, ascending
    share,  # of the columns, at least one
    purpose,  # see `maths.philox`
    draws,  # ColumnDraws
    keys,  # (columns,) uint64, buffer
    least,  # the same
):
    """Draw a share of the columns; return the number of those.

    The lowest keys are drawn, and of equal ones the lower column. With weights the keys
    are exponential waiting times with the weights as rates, which is weighted sampling
    without replacement: the largest u**(1/w) of Efraimidis and Spirakis (2006). With
    equal weights it is the order of the draws without weights.
    """
    size = np.int64(columns.size)
    count = max(np.int64(1), np.int64(share * size))
    if count >= size:
        return size
    for j in range(size):
        column = columns[j]
        quarter = column >> np.uint64(2)
        draw = maths.philox(quarter, draws.stream, np.uint64(purpose), draws.seed)
        bits = np.uint32(draw[np.int64(column & np.uint64(3))])
        keys[j] = bits
        if draws.weights.size > 0:
            keys[j] = _wait(bits, draws.weights[np.int64(column)])
    select_least(keys[:size], np.uint64(0), least[:count])
    last = least[count - 1]
    ties = 0
    while ties < count and least[count - 1 - ties] == last:
        ties += 1
    taken = 0
    for j in range(size):
        if keys[j] < last or (keys[j] == last and ties > 0):
            ties -= keys[j] == last
            columns[taken] = columns[j]
            taken += 1
    return count


@kernel
def draw_columns(
    features,  # (features of the tree,) uint64, ascending
    draws,  # ColumnDraws
    depth,  # of the node
    node,  # its number in the tree
    scratch,  # (3, features of the tree) uint64
    allowed,  # (features,) uint8, out
):
    """Write which features a node may use: a share of those of its level."""
    columns, keys, least = scratch[0], scratch[1], scratch[2]
    size = np.int64(features.size)
    for j in range(size):
        columns[j] = features[j]
    for of_node in range(2):
        share = draws.by_node if of_node else draws.by_level
        purpose = _OF_NODE + node if of_node else _OF_LEVEL + depth
        size = draw_share(columns[:size], share, purpose, draws, keys, least)
    for f in range(allowed.size):
        allowed[f] = 0
    for j in range(size):
        allowed[np.int64(columns[j])] = 1


@kernel
def draw_bag(
    stream,  # uint64: the tree
    key,  # uint64: the seed
    draws,  # the number of draws, with replacement
    times,  # (rows,) int32: the number of draws of each row, zeros in, out
):
    """Draw a bootstrap sample."""
    rows = np.uint64(times.size)
    for quarter in range((draws + 3) // 4):
        draw = maths.philox(np.uint64(quarter), stream, _BAG, key)
        for lane in range(min(4, draws - 4 * quarter)):
            times[(draw[lane] * rows) >> _HALF] += 1
