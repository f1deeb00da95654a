"""The best cut of a CART node's rows by their keys: bins, or ranks of categories.

If there are many keys for the number of rows, the rows are sorted by key and scanned.
Else the rows of each key are summed first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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

__all__ = ["CartRules", "CutScratch", "NodeTargets", "search_keys"]

_ONE = np.uint64(1)

#: At most so many rows are sorted by insertion.
_FEW = 24
_DIGITS = 256


class CartRules(NamedTuple):
    """The criterion and the stopping rules of a CART tree.

    Attributes
    ----------
    criterion
        See `impurity`.
    n_classes
        The number of classes; 0: regression.
    max_features
        Features drawn as candidates of each split.
    random_cuts
        Whether the thresholds of candidates are drawn at random (extra-trees).
    min_samples_leaf, min_weight_leaf
        The least rows and the least weight of a leaf.
    min_samples_split, min_gain
        The least rows of a node that is split, and the least gain.
    max_depth
        The maximum depth.
    max_leaf_nodes
        The maximum number of leaves of a tree that grows best-first; 0: unlimited, and
        the tree grows depth-first.
    """

    criterion: int
    n_classes: int
    max_features: int
    random_cuts: bool
    min_samples_leaf: float
    min_weight_leaf: float
    min_samples_split: float
    min_gain: float
    max_depth: int
    max_leaf_nodes: int


class NodeTargets(NamedTuple):
    """The targets of rows.

    Attributes
    ----------
    weights
        (rows,) float64.
    values
        (rows,) float64: weighted targets of a regression.
    labels
        (rows,) int32: classes; or numbers that are equal where the targets are.
    """

    weights: NDArray[np.float64]
    values: NDArray[np.float64]
    labels: NDArray[np.int32]


class CutScratch(NamedTuple):
    """Scratch arrays of `search_keys`.

    Attributes
    ----------
    order, spare
        (rows,) int32.
    counts
        (256, or twice the rows if that is more,) int32.
    left, right
        (sums,) float64.
    key_sums
        (rows * (sums + 1),) float64.
    """

    order: NDArray[np.int32]
    spare: NDArray[np.int32]
    counts: NDArray[np.int32]
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    key_sums: NDArray[np.float64]


@kernel
def sort_keys(keys, count, low, high, order, spare, counts):
    """Write the stable order of keys from `low` to `high`, ascending."""
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
    rules, keys, count, seen, missing, totals, missing_left, scratch, best
):
    """Find the cut with the least squared error; missing values go to one side."""
    weights, values, order = seen.weights, seen.values, scratch.order
    total_w = totals[0]
    left_w, left_v = 0.0, 0.0
    left_n = 0
    if missing_left:
        left_w, left_v = missing[0], missing[1]
        left_n = np.int64(missing[2])
    total_n = count + np.int64(missing[2])
    least_n, least_w = np.int64(rules.min_samples_leaf), rules.min_weight_leaf
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
    rules, keys, count, seen, missing, totals, missing_left, scratch, best
):
    """Find the cut with the least impurity; missing values go to one side.

    The sums over classes of the squares, or of n log(n), are updated row by row.
    """
    criterion = rules.criterion
    weights, labels, order = seen.weights, seen.labels, scratch.order
    left, right = scratch.left, scratch.right
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
    least_n, least_w = np.int64(rules.min_samples_leaf), rules.min_weight_leaf
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
def _count_numbers(keys, low, weights, values, sums):
    """Sum the rows, weights and values of each key."""
    for i in range(keys.size):
        own = sums[np.uint64(keys[i] - low)]
        own[0] += 1.0
        own[1] += weights[i]
        own[2] += values[i]


@kernel
def _count_classes(keys, low, weights, labels, sums):
    """Sum the rows of each key, and the weights of its classes."""
    for i in range(keys.size):
        own = sums[np.uint64(keys[i] - low)]
        own[0] += 1.0
        own[np.uint64(labels[i]) + _ONE] += weights[i]


@kernel
def _search_sums(rules, key_sums, low, missing, totals, missing_left, scratch, best):
    """Find the best cut between keys from the sums of each key."""
    criterion = rules.criterion
    left, right = scratch.left, scratch.right
    sums = totals.size
    left_n = missing[sums] if missing_left else 0.0
    total_n = missing[sums]
    for d in range(key_sums.shape[0]):
        total_n += key_sums[d, 0]
    for k in range(sums):
        left[k] = missing[k] if missing_left else 0.0
    least_n, least_w = rules.min_samples_leaf, rules.min_weight_leaf
    found = False
    d = 0
    while d < key_sums.shape[0]:
        left_n += key_sums[d, 0]
        for k in range(sums):
            left[k] += key_sums[d, np.uint64(k) + _ONE]
        following = d + 1
        while following < key_sums.shape[0] and key_sums[following, 0] == 0.0:
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
                    is_last = following == key_sums.shape[0]
                    best["score"] = score
                    best["bin"] = low + d
                    best["next_bin"] = -1 if is_last else low + following
                    best["missing_left"] = missing_left
                    found = True
        d = following
    return found


@kernel
def search_keys(rules, keys, low, high, count, seen, missing, totals, scratch, best):
    """Search all cuts of keys from `low` to `high`; return whether one is the best."""
    ways = 2 if missing[missing.size - 1] > 0.0 else 1
    found = False
    width = np.int64(high) - np.int64(low) + 1
    if width <= count >> 1:
        used = width * (totals.size + 1)
        for i in range(used):
            scratch.key_sums[i] = 0.0
        key_sums = scratch.key_sums[:used].reshape(width, totals.size + 1)
        if rules.criterion == SQUARED_ERROR:
            _count_numbers(keys[:count], low, seen.weights, seen.values, key_sums)
        else:
            _count_classes(keys[:count], low, seen.weights, seen.labels, key_sums)
        for missing_left in range(ways):
            better = _search_sums(
                rules, key_sums, low, missing, totals, missing_left, scratch, best
            )
            found = found or better
        return found
    sort_keys(keys, count, low, high, scratch.order, scratch.spare, scratch.counts)
    for missing_left in range(ways):
        if rules.criterion == SQUARED_ERROR:
            better = _search_numbers(
                rules, keys, count, seen, missing, totals, missing_left, scratch, best
            )
        else:
            better = _search_classes(
                rules, keys, count, seen, missing, totals, missing_left, scratch, best
            )
        found = found or better
    return found
