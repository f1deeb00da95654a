"""Trees whose leaves hold a value for each output: splits, predictions, projections.

A column is what histograms are made of: an output's gradients, or a mix of all
outputs' (see `mix_outputs`). Each has histograms and steps of its own, and a split is
scored by the sum of what it gains in all of them.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from hornbeam.kernels import maths
from hornbeam.kernels.categories import (
    list_rights,
    order_key,
    select_least,
    sum_in_order,
    sum_single,
    toggle,
)
from hornbeam.kernels.histogram import take_from_parent
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import JOIN_CELLS, TASK_ROWS
from hornbeam.kernels.predict import PREDICT_ROWS, any_missing, reach_leaves
from hornbeam.kernels.split import TINY, gain_of, keep_candidate
from hornbeam.kernels.sync import barrier, next_task

__all__ = ["SHARE", "add_vector_trees", "find_vector_splits", "mix_outputs"]

#: Hessians of a split's sides are told in this part of the node's.
SHARE = 1 << 40
#: Steps towards the direction in which categories differ most.
_POWER_STEPS = 8


@inline
def _add_scores(
    sums_g, sums_h, count, extra_g, extra_h, total_g, total_h, step, rules, scores, left
):
    """Add what the cuts that leave ``sums[k] + extra`` on the left gain in a column.

    `left` adds the hessians there up.
    """
    node_g = total_g * step[0]
    node_h = total_h * step[1]
    for k in range(count):
        g = (sums_g[k] + extra_g) * step[0]
        h = (sums_h[k] + extra_h) * step[1]
        scores[k] += gain_of(g, h, rules) + gain_of(node_g - g, node_h - h, rules)
        left[k] += h


@inline
def _highest(scores, left, count, node_hessian, least):
    """Return the highest score; one of too small a hessian on a side becomes 0."""
    highest = 0.0
    for k in range(count):
        valid = (left[k] >= least) & (node_hessian - left[k] >= least)
        scores[k] = max(scores[k], 0.0) if valid else 0.0
        highest = max(highest, scores[k])
    return highest


@inline
def _clear(scores, left, count):
    for k in range(count):
        scores[k] = 0.0
        left[k] = 0.0


@inline
def _share(left, node_hessian):
    """Return which part of the node's hessians is on the left, in 1 / SHARE."""
    return np.int64(left / node_hessian * SHARE)


@inline
def _search_order(
    histograms,
    slot,
    start,
    stop,
    feature,
    totals,
    node_hessian,
    steps,
    rules,
    buffer,
    split,
):
    """Look at the cuts between the bins of an ordered feature."""
    count = stop - start
    sums_g = buffer[0].view(np.int64)
    sums_h = buffer[1].view(np.int64)
    scores = buffer[2]
    left = buffer[3]
    least = max(rules[3], TINY) * histograms.shape[0]
    missing = np.int64(0)
    # Upwards the missing go right; downwards, if there are any, left.
    for down in range(2):
        if down == 1 and missing == 0:
            break
        _clear(scores, left, count)
        for s in range(histograms.shape[0]):
            own_g = histograms[s, slot, 0, start:stop]
            own_h = histograms[s, slot, 1, start:stop]
            left_g = np.int64(0)
            left_h = np.int64(0)
            sums_g[0] = 0
            sums_h[0] = 0
            for b in range(count):
                left_g += own_g[b]
                left_h += own_h[b]
                sums_g[b + 1] = left_g
                sums_h[b + 1] = left_h
            missing_g = totals[s, 0] - left_g
            missing_h = totals[s, 1] - left_h
            missing |= missing_g | missing_h
            _add_scores(
                sums_g[1 - down :],
                sums_h[1 - down :],
                count,
                missing_g * down,
                missing_h * down,
                totals[s, 0],
                totals[s, 1],
                steps[s],
                rules,
                scores,
                left,
            )
        highest = _highest(scores, left, count, node_hessian, least)
        if highest > split["gain"]:
            k = count - 1 if down else 0
            while scores[k] != highest:
                k += 1 - 2 * down
            share = _share(left[k], node_hessian)
            keep_candidate(
                split, highest, feature, k - down, down, 0, np.int64(0), share
            )


@inline
def _weigh_categories(histograms, slot, start, stop, steps, rules, weights, masses):
    """Write what each category would weigh less the mean, and its hessians.

    The mean counts each by its hessians. Returns the category that is furthest from
    it, by the square times its hessians.
    """
    for c in range(stop - start):
        masses[c] = 0.0
    for s in range(histograms.shape[0]):
        total = 0.0
        mass = 0.0
        for c in range(stop - start):
            h = histograms[s, slot, 1, start + c] * steps[s, 1]
            weights[s, c] = maths.leaf_weight(
                histograms[s, slot, 0, start + c] * steps[s, 0],
                h,
                rules[0],
                rules[1],
                rules[2],
            )
            masses[c] += h
            total += h * weights[s, c]
            mass += h
        mean = total / mass if mass > 0.0 else 0.0
        for c in range(stop - start):
            weights[s, c] -= mean
    furthest = 0
    largest = 0.0
    for c in range(stop - start):
        size = 0.0
        for s in range(histograms.shape[0]):
            size += weights[s, c] * weights[s, c]
        if masses[c] * size > largest:
            largest = masses[c] * size
            furthest = c
    return furthest


@inline
def _rank_categories(count, furthest, weights, masses, direction, following, keys):
    """Write a key for each category that orders them by where they are in a direction.

    It is the direction in which the weights differ most, their first principal
    component (Coppersmith, Hong and Hosking 1999), by the power method.
    """
    columns = direction.size
    for s in range(columns):
        direction[s] = weights[s, furthest]
    for _ in range(_POWER_STEPS):
        for s in range(columns):
            following[s] = 0.0
        for c in range(count):
            along = 0.0
            for s in range(columns):
                along += weights[s, c] * direction[s]
            for s in range(columns):
                following[s] += masses[c] * along * weights[s, c]
        largest = 0.0
        for s in range(columns):
            largest = max(largest, abs(following[s]))
        if largest == 0.0:
            break
        for s in range(columns):
            direction[s] = following[s] / largest
    for c in range(count):
        along = 0.0
        for s in range(columns):
            along += weights[s, c] * direction[s]
        keys[c] = order_key(along if masses[c] > 0.0 else 0.0, c)


@kernel
def _search_categories(
    histograms,
    slot,
    start,
    stop,
    feature,
    totals,
    node_hessian,
    steps,
    rules,
    buffer,
    weights,
    split,
    rights,
):
    """Look at the ways to part the categories of a feature, see `find_splits`.

    More of them than a few are put in order by `_rank_categories`.
    """
    columns = histograms.shape[0]
    bins = stop - start
    sums_g = buffer[0].view(np.int64)
    sums_h = buffer[1].view(np.int64)
    scores = buffer[2]
    left = buffer[3]
    keys = buffer[4].view(np.int64)[:bins]
    least = max(rules[3], TINY) * columns
    one_hot = bins < rules[4]
    groups = min(bins, np.int64(rules[5])) - 1
    heap = buffer[5].view(np.int64)[:groups]
    if not one_hot:
        if groups < 1:
            return
        masses = buffer[2]
        furthest = _weigh_categories(
            histograms, slot, start, stop, steps, rules, weights, masses
        )
        _rank_categories(
            bins,
            furthest,
            weights,
            masses,
            weights[:, bins],
            weights[:, bins + 1],
            keys,
        )
    for backward in range(1 if one_hot else 2):
        flip = np.int64(-backward)
        count = 2 * bins if one_hot else groups
        if not one_hot:
            select_least(keys, flip, heap)
        _clear(scores, left, count)
        for s in range(columns):
            own_g = histograms[s, slot, 0, start:stop]
            own_h = histograms[s, slot, 1, start:stop]
            total_g, total_h = totals[s, 0], totals[s, 1]
            if one_hot:
                sum_single(own_g, total_g, sums_g)
                sum_single(own_h, total_h, sums_h)
            else:
                sum_in_order(own_g, heap, flip, sums_g)
                sum_in_order(own_h, heap, flip, sums_h)
            # Which side the sums are of does not matter to the score.
            _add_scores(
                sums_g[1:],
                sums_h[1:],
                count,
                np.int64(0),
                np.int64(0),
                total_g,
                total_h,
                steps[s],
                rules,
                scores,
                left,
            )
        highest = _highest(scores, left, count, node_hessian, least)
        if highest > split["gain"]:
            k = 0
            while scores[k] != highest:
                k += 1
            share = _share(left[k], node_hessian)
            if not backward:
                share = SHARE - share
            missing_left = 1 - (k & 1) if one_hot else 1 - backward
            keep_candidate(
                split, highest, feature, 0, missing_left, 1, np.int64(0), share
            )
            list_rights(bins, backward, rights)
            if one_hot:
                toggle(k >> 1, rights)
            else:
                for i in range(k + 1):
                    toggle((heap[i] ^ flip) & 0xFFFFFFFF, rights)


def _search_if_there_are(
    histograms,
    slot,
    start,
    stop,
    feature,
    totals,
    node_hessian,
    steps,
    rules,
    buffer,
    weights,
    split,
    rights,
):
    """Search the categories of a feature, in a table that has any."""
    _search_categories(
        histograms,
        slot,
        start,
        stop,
        feature,
        totals,
        node_hessian,
        steps,
        rules,
        buffer,
        weights,
        split,
        rights,
    )


def _search_nothing(
    histograms,
    slot,
    start,
    stop,
    feature,
    totals,
    node_hessian,
    steps,
    rules,
    buffer,
    weights,
    split,
    rights,
):
    return


@overload(_search_if_there_are)
def _overload_search_if_there_are(
    histograms,
    slot,
    start,
    stop,
    feature,
    totals,
    node_hessian,
    steps,
    rules,
    buffer,
    weights,
    split,
    rights,
):
    return _search_nothing if rights.dtype == types.uint8 else _search_if_there_are


@kernel
def find_vector_splits(
    member,
    members,
    sync,
    slots,  # (nodes,) int64: where each node's histograms are
    histograms,  # (columns, slots, 2, cells) int64, in and out
    counted,  # (some,) int64: slots that were filled
    parents,  # (some,) int64: those of the parents, or -1
    whole,  # (2,) int64: from which to which cell each row is counted once
    chosen,  # (chosen,) uint64: the features to look at, ascending
    allowed,  # (nodes, features) uint8, or (0, 0): which of them at each node
    features,  # table of FEATURE_DTYPE
    steps,  # (columns, 2) float64: value of one step of gradients and of hessians
    rules,  # (8,) float64, see `backends.base.Growth.rules`
    scratch,  # (members, 6, most candidates of a feature + 1) float64
    weights,  # (members, columns, most categories + 2) float64
    totals,  # (members, columns, 2) int64
    block,  # features of one task
    splits,  # (nodes, tasks a node) SPLIT_DTYPE, out
    sets,  # (nodes, tasks a node, words) uint64, out: categories that go right;
    # (nodes, tasks a node, 0) uint8 where no feature is categorical
):
    """Write the best split of each node for all columns together.

    As `hornbeam.kernels.split.find_splits`, but that a score is a sum over columns,
    and the hessian of a side a mean over them. The sums in the splits are shares.
    """
    columns = histograms.shape[0]
    cells = histograms.shape[3]
    shares = (cells + JOIN_CELLS - 1) // JOIN_CELLS
    task = next_task(sync, 0)
    while task < counted.size * columns * shares:
        pair, s = task // (columns * shares), task // shares % columns
        child, parent = counted[pair], parents[pair]
        begin = task % shares * JOIN_CELLS
        if parent >= 0:
            end = min(begin + JOIN_CELLS, cells)
            take_from_parent(histograms[s], parent, child, begin, end)
        task = next_task(sync, 0)
    barrier(sync, members)
    own_totals = totals[member]
    parts = splits.shape[1]
    task = next_task(sync, 1)
    while task < slots.size * parts:
        number, part = task // parts, task % parts
        slot = slots[number]
        node_hessian = 0.0
        node_gain = 0.0
        for s in range(columns):
            total_g = np.int64(0)
            total_h = np.int64(0)
            for c in range(whole[0], whole[1]):
                total_g += histograms[s, slot, 0, c]
                total_h += histograms[s, slot, 1, c]
            own_totals[s, 0] = total_g
            own_totals[s, 1] = total_h
            node_hessian += total_h * steps[s, 1]
            node_gain += gain_of(total_g * steps[s, 0], total_h * steps[s, 1], rules)
        split = splits[number, part]
        split["total_gradient"] = 0
        split["total_hessian"] = SHARE
        keep_candidate(split, 0.0, -1, 0, 0, 0, np.int64(0), np.int64(0))
        for j in range(part * block, min((part + 1) * block, chosen.size)):
            feature = np.int64(chosen[j])
            if allowed.size > 0 and allowed[number, feature] == 0:
                continue
            start = features[feature]["cell"]
            stop = start + features[feature]["bins"]
            if features[feature]["is_categorical"]:
                _search_if_there_are(
                    histograms,
                    slot,
                    start,
                    stop,
                    feature,
                    own_totals,
                    node_hessian,
                    steps,
                    rules,
                    scratch[member],
                    weights[member],
                    split,
                    sets[number, part],
                )
            else:
                _search_order(
                    histograms,
                    slot,
                    start,
                    stop,
                    feature,
                    own_totals,
                    node_hessian,
                    steps,
                    rules,
                    scratch[member],
                    split,
                )
        if split["feature"] >= 0:
            split["gain"] -= node_gain
        task = next_task(sync, 1)


@kernel
def mix_outputs(
    member,
    members,
    sync,
    mix,  # (columns, outputs) float64
    gradients,  # (outputs, rows) float32 or float64
    hessians,  # (outputs, rows) the same
    mixed,  # (columns, rows) float64, out
    means,  # (rows,) float64, out
):
    """Write mixes of each row's gradients, and the mean of its hessians."""
    outputs, rows = gradients.shape
    task = next_task(sync, 0)
    while task * TASK_ROWS < rows:
        begin, end = task * TASK_ROWS, min((task + 1) * TASK_ROWS, rows)
        mean = means[begin:end]
        for i in range(mean.size):
            mean[i] = 0.0
        for k in range(outputs):
            h = hessians[k, begin:end]
            for i in range(mean.size):
                mean[i] += np.float64(h[i]) / outputs
        for s in range(mix.shape[0]):
            own = mixed[s, begin:end]
            for i in range(own.size):
                own[i] = 0.0
            for k in range(outputs):
                factor = mix[s, k]
                g = gradients[k, begin:end]
                for i in range(own.size):
                    own[i] += factor * g[i]
        task = next_task(sync, 0)


@kernel
def add_vector_trees(
    member,
    members,
    sync,
    data,  # (rows, features) float32 or float64, row-major, NaN missing
    roots,  # (trees, 4) int32: root's place, depth, not used, splits by category
    nodes,  # (nodes,) uint64, see FEATURE_BITS
    thresholds,  # (nodes,) of the type of data; NaN at leaves
    spans,  # (nodes, 2) int64: first word and number of categories; -1 by threshold
    rights,  # (words,) uint64: the categories that go right
    values,  # (nodes, outputs) float32
    places,  # (members, 64) int32, scratch
    margins,  # (rows, outputs) float32 or float64, in and out
):
    """Add to each row's margins the values of its leaf in every tree, in their order.

    As `hornbeam.kernels.predict.add_trees`.
    """
    rows = data.shape[0]
    own = places[member]
    task = next_task(sync, 0)
    while task * PREDICT_ROWS < rows:
        begin = task * PREDICT_ROWS
        block = data[begin : begin + PREDICT_ROWS]
        own_margins = margins[begin : begin + PREDICT_ROWS]
        has_missing = any_missing(block)
        for t in range(roots.shape[0]):
            reach_leaves(
                block, has_missing, roots[t], nodes, thresholds, spans, rights, own
            )
            for i in range(own_margins.shape[0]):
                value = values[own[i]]
                sums = own_margins[i]
                for k in range(sums.size):
                    sums[k] += value[k]
        task = next_task(sync, 0)
