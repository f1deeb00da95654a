"""The best cut of a node's rows by their keys, which are codes or ranks.

Where there are more keys than rows, the rows are sorted by them and gone through one by
one. Else the rows of each key are added up first.
"""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.impurity import (
    ENTROPY,
    GINI,
    SQUARED_ERROR,
    most_of,
    score_classes,
    score_numbers,
    times_log,
)
from hornbeam.kernels.jit import kernel

__all__ = ["search_keys"]

_ONE = np.uint64(1)

#: Rows that are sorted by insertion.
_FEW = 24
_DIGITS = 256


@kernel
def sort_keys(keys, count, low, high, order, spare, counts):
    """Write the places of keys from `low` to `high` in ascending order, stably.

    `spare` has room for as many places, and `counts` for 256 numbers and for two a key.
    """
    if count <= _FEW:
        for i in range(count):
            key = keys[i]
            j = i
            while j > 0 and keys[order[j - 1]] > key:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
        return
    width = np.int64(high) - np.int64(low) + 1
    if width <= max(_DIGITS, 2 * count):
        for d in range(width):
            counts[d] = 0
        for i in range(count):
            counts[keys[i] - low] += 1
        place = np.int32(0)
        for d in range(width):
            own = counts[d]
            counts[d] = place
            place += own
        for i in range(count):
            d = keys[i] - low
            order[counts[d]] = i
            counts[d] += 1
        return
    for shift in range(0, 16, 8):
        for d in range(_DIGITS):
            counts[d] = 0
        for i in range(count):
            counts[((keys[i] - low) >> shift) & 255] += 1
        place = np.int32(0)
        for d in range(_DIGITS):
            own = counts[d]
            counts[d] = place
            place += own
        for j in range(count):
            i = j if shift == 0 else spare[j]
            d = ((keys[i] - low) >> shift) & 255
            if shift == 0:
                spare[counts[d]] = i
            else:
                order[counts[d]] = i
            counts[d] += 1


@kernel
def _search_numbers(
    keys, order, count, weights, values, missing, totals, limits, missing_left, best
):
    """Find where the squared error falls most, with the missing on one side."""
    total_w = totals[0]
    left_w, left_v = 0.0, 0.0
    left_n = 0
    if missing_left:
        left_w, left_v = missing[0], missing[1]
        left_n = np.int64(missing[2])
    total_n = count + np.int64(missing[2])
    least_n, least_w = np.int64(limits[0]), limits[1]
    found = False
    for j in range(count):
        i = order[j]
        left_w += weights[i]
        left_v += values[i]
        left_n += 1
        key = keys[i]
        following = keys[order[j + 1]] if j + 1 < count else -1
        right_n = total_n - left_n
        if key == following or left_n < least_n or right_n < least_n:
            continue
        right_w = total_w - left_w
        if left_w < least_w or right_w < least_w or right_n == 0:
            continue
        score = score_numbers(left_w, left_v, right_w, totals)
        if score > best["score"]:
            best["score"] = score
            best["bin"] = key
            best["next_bin"] = following
            best["missing_left"] = missing_left
            found = True
    return found


@kernel
def _search_classes(
    criterion,
    keys,
    order,
    count,
    weights,
    labels,
    missing,
    totals,
    limits,
    missing_left,
    left,
    right,
    best,
):
    """Find where the classes come apart best, with the missing on one side.

    The sums over classes are kept up to date, row by row: of the squares, or of
    n log(n).
    """
    classes = totals.size
    left_w, right_w = 0.0, 0.0
    left_sum, right_sum = 0.0, 0.0
    left_n = np.int64(missing[classes]) if missing_left else 0
    total_n = count + np.int64(missing[classes])
    for k in range(classes):
        left[k] = missing[k] if missing_left else 0.0
        right[k] = totals[k] - left[k]
        left_w += left[k]
        right_w += right[k]
        if criterion == GINI:
            left_sum += left[k] * left[k]
            right_sum += right[k] * right[k]
        elif criterion == ENTROPY:
            left_sum += times_log(left[k])
            right_sum += times_log(right[k])
    most = most_of(left)
    least_n, least_w = np.int64(limits[0]), limits[1]
    found = False
    for j in range(count):
        i = order[j]
        k = labels[i]
        w = weights[i]
        here, there = left[k], right[k]
        left[k] = here + w
        right[k] = there - w
        left_w += w
        right_w -= w
        left_n += 1
        if criterion == GINI:
            left_sum += w * (2.0 * here + w)
            right_sum -= w * (2.0 * there - w)
        elif criterion == ENTROPY:
            left_sum += times_log(here + w) - times_log(here)
            right_sum += times_log(there - w) - times_log(there)
        else:
            most = max(most, here + w)
        key = keys[i]
        following = keys[order[j + 1]] if j + 1 < count else -1
        right_n = total_n - left_n
        if key == following or left_n < least_n or right_n < least_n:
            continue
        if left_w < least_w or right_w < least_w or right_n == 0:
            continue
        if criterion == GINI:
            score = left_sum / left_w + right_sum / right_w
        elif criterion == ENTROPY:
            score = left_sum - times_log(left_w) + right_sum - times_log(right_w)
        else:
            score = most + most_of(right)
        if score > best["score"]:
            best["score"] = score
            best["bin"] = key
            best["next_bin"] = following
            best["missing_left"] = missing_left
            found = True
    return found


@kernel
def _count_numbers(keys, low, weights, values, cells):
    """Add up the rows, weights and values of each key."""
    for i in range(keys.size):
        cell = cells[np.uint64(keys[i] - low)]
        cell[0] += 1.0
        cell[1] += weights[i]
        cell[2] += values[i]


@kernel
def _count_classes(keys, low, weights, labels, cells):
    """Add up the rows of each key, and the weights of its classes."""
    for i in range(keys.size):
        cell = cells[np.uint64(keys[i] - low)]
        cell[0] += 1.0
        cell[np.uint64(labels[i]) + _ONE] += weights[i]


@kernel
def _search_cells(
    criterion, cells, low, missing, totals, limits, missing_left, left, right, best
):
    """Find the best cut between keys, of which each has its sums in a cell."""
    sums = totals.size
    left_n = missing[sums] if missing_left else 0.0
    total_n = missing[sums]
    for d in range(cells.shape[0]):
        total_n += cells[d, 0]
    for k in range(sums):
        left[k] = missing[k] if missing_left else 0.0
    least_n, least_w = limits[0], limits[1]
    found = False
    d = 0
    while d < cells.shape[0]:
        left_n += cells[d, 0]
        for k in range(sums):
            left[k] += cells[d, np.uint64(k) + _ONE]
        following = d + 1
        while following < cells.shape[0] and cells[following, 0] == 0.0:
            following += 1
        right_n = total_n - left_n
        if left_n >= least_n and right_n >= least_n and right_n > 0.0:
            for k in range(sums):
                right[k] = totals[k] - left[k]
            left_w, right_w = left[0], right[0]
            if criterion != SQUARED_ERROR:
                for k in range(1, sums):
                    left_w += left[k]
                    right_w += right[k]
            if left_w >= least_w and right_w >= least_w:
                if criterion == SQUARED_ERROR:
                    score = score_numbers(left_w, left[1], right_w, totals)
                else:
                    score = score_classes(criterion, left_w, left)
                    score += score_classes(criterion, right_w, right)
                if score > best["score"]:
                    is_last = following == cells.shape[0]
                    best["score"] = score
                    best["bin"] = low + d
                    best["next_bin"] = -1 if is_last else low + following
                    best["missing_left"] = missing_left
                    found = True
        d = following
    return found


@kernel
def search_keys(
    criterion, keys, low, high, count, seen, missing, totals, limits, work, best
):
    """Look at all cuts of keys from `low` to `high`; say if one is the best so far."""
    order, spare, counts, left, right, room = work
    weights, values, labels = seen
    ways = 2 if missing[missing.size - 1] > 0.0 else 1
    found = False
    width = np.int64(high) - np.int64(low) + 1
    if width <= count >> 1:
        used = width * (totals.size + 1)
        for i in range(used):
            room[i] = 0.0
        cells = room[:used].reshape(width, totals.size + 1)
        if criterion == SQUARED_ERROR:
            _count_numbers(keys[:count], low, weights, values, cells)
        else:
            _count_classes(keys[:count], low, weights, labels, cells)
        for missing_left in range(ways):
            better = _search_cells(
                criterion,
                cells,
                low,
                missing,
                totals,
                limits,
                missing_left,
                left,
                right,
                best,
            )
            found = found or better
        return found
    sort_keys(keys, count, low, high, order, spare, counts)
    for missing_left in range(ways):
        if criterion == SQUARED_ERROR:
            better = _search_numbers(
                keys,
                order,
                count,
                weights,
                values,
                missing,
                totals,
                limits,
                missing_left,
                best,
            )
        else:
            better = _search_classes(
                criterion,
                keys,
                order,
                count,
                weights,
                labels,
                missing,
                totals,
                limits,
                missing_left,
                left,
                right,
                best,
            )
        found = found or better
    return found
