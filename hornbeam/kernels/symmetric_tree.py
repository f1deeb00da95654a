"""Symmetric trees: the best split of a level, and the weights of nodes of few rows.

All nodes of a level are split by the same feature, bin and direction of missing values
(Kohavi 1994; Prokhorenkova et al. 2018). The gain of a candidate is the sum of its
gains in the nodes, as float64, in the order of the nodes. A node of which one side
would have too small a hessian gains nothing by the candidate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.categories import list_rights, toggle
from hornbeam.kernels.cut_scores import TINY
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import ONE_CATEGORY
from hornbeam.kernels.leaves import gain_of
from hornbeam.kernels.split import keep_candidate, subtract_sibling, tasks_of_histogram
from hornbeam.kernels.sync import barrier, next_task

__all__ = [
    "CHOICE_DTYPE",
    "LevelGains",
    "add_level_gains",
    "add_node_gains",
    "choose_level_split",
    "inherit_weights",
    "write_level_split",
    "write_level_splits",
]

#: The split of a level.
CHOICE_DTYPE = np.dtype(
    [
        ("gain", np.float64),  # 0: there is none
        ("feature", np.int64),
        ("way", np.int64),  # see `LevelGains`
        ("place", np.int64),
    ]
)

_LOW_HALF = 0xFFFFFFFF


class LevelGains(NamedTuple):
    """The sums over nodes of the gains of all candidates.

    Attributes
    ----------
    sums
        (chosen, 2, places) float64. Of a numerical feature place k is the cut below
        bin k: with missing values on the right (way 0) or on the left (way 1). Of a
        categorical feature place k is category k against all others, alone (way 0) or
        with the missing values (way 1).
    has_ways
        (chosen,) uint8: whether any node has missing values of a numerical feature;
        else both ways are the same, and only way 0 is summed.
    """

    sums: NDArray[np.float64]
    has_ways: NDArray[np.uint8]


@inline
def _sum_node(histogram, is_packed, every_row):
    """Return the sums of gradients and hessians of a node."""
    total_g = np.int64(0)
    total_h = np.int64(0)
    for c in range(every_row[0], every_row[1]):
        total_g += histogram[0, c]
        total_h += 0 if is_packed else histogram[1, c]
    if is_packed:
        return total_g >> 32, total_g & _LOW_HALF
    return total_g, total_h


@inline
def _sum_below(histogram, is_packed, start, stop, below):
    """Write the sums of the bins below each bin from `start` to `stop`."""
    below[0, 0] = below[1, 0] = 0
    sum_g = np.int64(0)
    sum_h = np.int64(0)
    if is_packed:
        for b in range(stop - start):
            sum_g += histogram[0, start + b]
            below[0, b + 1] = sum_g >> 32
            below[1, b + 1] = sum_g & _LOW_HALF
    else:
        for b in range(stop - start):
            sum_g += histogram[0, start + b]
            sum_h += histogram[1, start + b]
            below[0, b + 1] = sum_g
            below[1, b + 1] = sum_h


@inline
def _node_gain(total, scales, rules):
    return gain_of(total[0] * scales[0], total[1] * scales[1], rules)


@inline
def _gain(side_g, side_h, total, node_gain, scales, rules):
    """Return the gain of a node by a candidate, of which one side has these sums."""
    least = max(rules.min_child_weight, TINY)
    g = side_g * scales[0]
    h = side_h * scales[1]
    node_g = total[0] * scales[0]
    node_h = total[1] * scales[1]
    children = gain_of(g, h, rules) + gain_of(node_g - g, node_h - h, rules)
    valid = (h >= least) & (node_h - h >= least)
    return children - node_gain if valid else 0.0


@kernel
def _add_numbers(bins, below, total, node_gain, scales, rules, sums, has_ways):
    """Add a node's gains by the cuts of a numerical feature.

    Returns whether both ways are summed from now on. The loops have no branches, so
    that the compiler can vectorise them.
    """
    below_g, below_h = below[0], below[1]
    missing_g, missing_h = total[0] - below_g[bins], total[1] - below_h[bins]
    if not has_ways and (missing_g | missing_h) != 0:
        # Of the nodes before, which have no missing values, both ways are the same.
        has_ways = True
        for k in range(bins + 1):
            sums[1, k] = sums[0, k]
    own = sums[0]
    for k in range(1, bins + 1):
        own[k] += _gain(below_g[k], below_h[k], total, node_gain, scales, rules)
    if has_ways:
        own = sums[1]
        for k in range(bins):
            g, h = below_g[k] + missing_g, below_h[k] + missing_h
            own[k] += _gain(g, h, total, node_gain, scales, rules)
    return has_ways


@kernel
def _add_categories(bins, below, total, node_gain, scales, rules, sums):
    """Add a node's gains by each category against all others."""
    missing_g, missing_h = total[0] - below[0, bins], total[1] - below[1, bins]
    for way in range(2):
        for c in range(bins):
            g = below[0, c + 1] - below[0, c] + way * missing_g
            h = below[1, c + 1] - below[1, c] + way * missing_h
            sums[way, c] += _gain(g, h, total, node_gain, scales, rules)


@kernel
def add_node_gains(
    histogram,  # (2, bins) int64, or (1, bins) if it is packed
    is_packed,
    candidates,  # CandidateFeatures, with one row of features for the level
    first,  # of the chosen features, those of this number and above
    end,
    features,  # table of FEATURE_DTYPE
    every_row,  # (2,) int64: begin and end of histogram bins that count each row once
    scales,  # (2,) float64: the value of one unit of gradient and hessian sums
    rules,  # SplitRules
    below,  # (2, places) int64, scratch
    level,  # LevelGains, in and out
):
    """Add the gains of one node by the candidates of some features."""
    total = _sum_node(histogram, is_packed, every_row)
    node_gain = _node_gain(total, scales, rules)
    for j in range(first, end):
        feature = np.int64(candidates.chosen[j])
        if candidates.allowed.size > 0 and candidates.allowed[0, feature] == 0:
            continue
        start = features[feature]["cell"]
        bins = features[feature]["bins"]
        _sum_below(histogram, is_packed, start, start + bins, below)
        sums = level.sums[j]
        if features[feature]["is_categorical"]:
            _add_categories(bins, below, total, node_gain, scales, rules, sums)
        else:
            has_ways = level.has_ways[j] != 0
            level.has_ways[j] = _add_numbers(
                bins, below, total, node_gain, scales, rules, sums, has_ways
            )


@kernel
def add_level_gains(
    thread_id,
    n_threads,
    sync,
    histograms,  # NodeHistograms; the siblings' are computed in them
    candidates,  # CandidateFeatures, with one row of features for the level
    scales,  # those of `add_node_gains`, here and below
    rules,
    below,  # (threads, 2, places) int64, scratch
    level,
):
    """Add the gains of nodes by all candidates, in the order of the nodes.

    Before that, built histograms are subtracted from those of the parents, which leaves
    the siblings'.
    """
    sums, slots, built, parents, features, every_row = histograms
    count, block = candidates.chosen.size, candidates.block
    tasks = built.size * tasks_of_histogram(sums.shape[2])
    task = next_task(sync, 0)
    while task < tasks:
        subtract_sibling(sums, built, parents, task)
        task = next_task(sync, 0)
    barrier(sync, n_threads)
    task = next_task(sync, 1)
    while task * block < count:
        for i in range(slots.size):
            add_node_gains(
                sums[slots[i]],
                False,
                candidates,
                task * block,
                min((task + 1) * block, count),
                features,
                every_row,
                scales,
                rules,
                below[thread_id],
                level,
            )
        task = next_task(sync, 1)


@inline
def _highest(sums):
    """Return the highest of these sums, or 0 if none is positive.

    By their bits, of which the compiler can vectorise the maximum: positive floats are
    ordered as their bits are, and those of negative ones are negative.
    """
    bits = sums.view(np.int64)
    highest = np.int64(0)
    for k in range(bits.size):
        highest = max(highest, bits[k])
    return np.int64(highest).view(np.float64)


@kernel
def choose_level_split(
    level,  # LevelGains
    chosen,  # (chosen,) uint64: the features, ascending
    features,  # table of FEATURE_DTYPE
    choices,  # (1,) CHOICE_DTYPE, out
):
    """Write the candidate of the highest gain above 0.

    Of equal ones it is the one of the lowest feature; then the first in XGBoost's
    order: cuts upwards with missing values on the right, then downwards with missing
    values on the left; each category alone, then with the missing values.
    """
    choice = choices[0]
    choice["gain"] = 0.0
    choice["feature"] = -1
    for j in range(chosen.size):
        feature = np.int64(chosen[j])
        places = features[feature]["bins"] + 1
        is_categorical = features[feature]["is_categorical"]
        for way in range(2 if is_categorical or level.has_ways[j] else 1):
            sums = level.sums[j, way, :places]
            highest = _highest(sums)
            # A category alone comes after a lower one with the missing values.
            is_equal = is_categorical and way == 1 and highest == choice["gain"]
            if highest > choice["gain"] or (is_equal and choice["feature"] == feature):
                down = way == 1 and not is_categorical
                place = places - 1 if down else 0
                while sums[place] != highest:
                    place += -1 if down else 1
                if is_equal and place >= choice["place"]:
                    continue
                choice["gain"] = highest
                choice["feature"] = feature
                choice["way"] = way
                choice["place"] = place


@kernel
def write_level_split(
    histogram,  # of a node; see `add_node_gains`
    is_packed,
    features,
    every_row,
    choice,  # CHOICE_DTYPE
    scales,
    rules,
    below,
    split,  # SPLIT_DTYPE, out; the gain is that of the node
    rights,  # (words,) uint64, out: categories that go right
):
    """Write the split of a level as that of one of its nodes."""
    feature, way, place = choice["feature"], choice["way"], choice["place"]
    is_categorical = features[feature]["is_categorical"]
    start = features[feature]["cell"]
    bins = features[feature]["bins"]
    total = _sum_node(histogram, is_packed, every_row)
    _sum_below(histogram, is_packed, start, start + bins, below)
    left_g = way * (total[0] - below[0, bins])
    left_h = way * (total[1] - below[1, bins])
    if is_categorical:
        left_g = total[0] - (left_g + below[0, place + 1] - below[0, place])
        left_h = total[1] - (left_h + below[1, place + 1] - below[1, place])
        list_rights(bins, 0, rights)
        toggle(place, rights)
    else:
        left_g += below[0, place]
        left_h += below[1, place]
    node_gain = _node_gain(total, scales, rules)
    keep_candidate(
        split,
        _gain(left_g, left_h, total, node_gain, scales, rules),
        feature,
        0 if is_categorical else place - 1,
        1 - way if is_categorical else way,
        ONE_CATEGORY if is_categorical else 0,
        left_g,
        left_h,
    )
    split["total_gradient"], split["total_hessian"] = total


@kernel
def write_level_splits(
    sums,  # (slots, parts, bins) int64: histograms
    slots,  # (nodes,) int64: the slot of each node
    features,
    every_row,
    choices,  # (1,) CHOICE_DTYPE
    scales,
    rules,
    below,
    splits,  # (nodes,) SPLIT_DTYPE, out
    sets,  # (nodes, words) uint64, out
):
    """Call `write_level_split` for each of these nodes."""
    for i in range(slots.size):
        write_level_split(
            sums[slots[i]],
            False,
            features,
            every_row,
            choices[0],
            scales,
            rules,
            below,
            splits[i],
            sets[i],
        )


@kernel
def inherit_weights(
    left,  # (nodes,) int32: left child, or -1; children come after their parents
    rules,  # SplitRules
    learning_rate,
    sums,  # (nodes, 2) float64: gradients and hessians
    weights,  # (nodes,) float64: those of `leaves.weigh_nodes`, in and out
):
    """Give each node of too small a hessian the weight of its parent.

    A node is split like all others of its level, even if that leaves few rows or none
    on one side.
    """
    least = max(rules.min_child_weight, TINY)
    for node in range(left.size):
        child = left[node]
        if child >= 0:
            for own in range(child, child + 2):
                if sums[own, 1] < least:
                    rate = learning_rate if left[own] < 0 else 1.0
                    weights[own] = weights[node] * rate
