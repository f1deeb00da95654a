"""Multi-output trees: splits, sketches of gradients, predictions.

Histograms are made of gradient columns: an output's gradients, or a projection of all
outputs' (see `mix_outputs`). Each column has its own histograms and scales, and the
score of a split is the sum of its gains in all columns.
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
from hornbeam.kernels.layout import JOIN_BINS, TASK_ROWS
from hornbeam.kernels.leaves import gain_of
from hornbeam.kernels.node_constraints import child_weight, own_weight
from hornbeam.kernels.predict import any_missing, reach_leaves
from hornbeam.kernels.split import TINY, keep_candidate
from hornbeam.kernels.sync import barrier, next_task

__all__ = [
    "SHARE",
    "add_multi_output_trees",
    "find_multi_output_splits",
    "mix_outputs",
    "weigh_children",
]

#: The hessians of a split's sides are returned as shares of the node's, in 1 / SHARE.
SHARE = 1 << 40
#: Iterations of the power method for the first principal component.
_POWER_STEPS = 8


@inline
def _add_free(
    sums_g, sums_h, count, extra_g, extra_h, total_g, total_h, step, rules, scores, left
):
    """Add to `scores` the gains of cuts with ``sums[k] + extra`` on the left.

    Adds the hessians of the left side to `left`.
    """
    node_g = total_g * step[0]
    node_h = total_h * step[1]
    for k in range(count):
        g = (sums_g[k] + extra_g) * step[0]
        h = (sums_h[k] + extra_h) * step[1]
        scores[k] += gain_of(g, h, rules) + gain_of(node_g - g, node_h - h, rules)
        left[k] += h


@inline
def _pair(g, h, n, node_g, node_h, node_n, above, direction, bounds, rules):
    """Return the weights of both children in a column; `g`, `h`, `n` are of the left.

    If they violate the monotone constraint, both get the weight that is optimal for
    them together, with the regularisation of two leaves.
    """
    left = child_weight(g, h, n, above, bounds, rules)
    right = child_weight(node_g - g, node_h - h, node_n - n, above, bounds, rules)
    if direction * (right - left) < 0.0:
        both = maths.leaf_weight(
            node_g, node_h, 2.0 * rules[0], 2.0 * rules[1], rules[2]
        )
        if rules[7] > 0.0:
            both = maths.smoothed_weight(both, node_n, above, rules[7])
        left = right = min(max(both, bounds[0]), bounds[1])
    return left, right


@inline
def _add_limited(
    sums_g,
    sums_h,
    rows,
    count,
    extra_g,
    extra_h,
    total_g,
    total_h,
    total_n,
    above,
    step,
    rules,
    direction,
    bounds,
    scores,
    left,
):
    """As `_add_free`, with weights that satisfy bounds and the monotone constraint."""
    node_g = total_g * step[0]
    node_h = total_h * step[1]
    for k in range(count):
        g = (sums_g[k] + extra_g) * step[0]
        h = (sums_h[k] + extra_h) * step[1]
        on_left, on_right = _pair(
            g, h, rows[k], node_g, node_h, total_n, above, direction, bounds, rules
        )
        scores[k] += maths.gain_at(g, h, on_left, rules[0], rules[1])
        scores[k] += maths.gain_at(node_g - g, node_h - h, on_right, rules[0], rules[1])
        left[k] += h


@kernel
def _add_scores(
    sums_g,
    sums_h,
    rows,
    count,
    extra_g,
    extra_h,
    totals,
    column,
    node,
    feature,
    steps,
    rules,
    limits,
    above,
    scores,
    left,
):
    """Add the gains in a column, with constraints or without.

    `above` are the node's weights, followed by its number of rows.
    """
    if limits is None:
        _add_free(
            sums_g,
            sums_h,
            count,
            extra_g,
            extra_h,
            totals[column, 0],
            totals[column, 1],
            steps[column],
            rules,
            scores,
            left,
        )
    else:
        _add_limited(
            sums_g,
            sums_h,
            rows,
            count,
            extra_g,
            extra_h,
            totals[column, 0],
            totals[column, 1],
            above[above.size - 1],
            above[column],
            steps[column],
            rules,
            np.float64(limits.directions[feature]),
            limits.bounds[node, column],
            scores,
            left,
        )


@inline
def _highest(scores, left, count, node_hessian, least):
    """Return the highest score; scores become 0 where a side has too little hessian."""
    highest = 0.0
    for k in range(count):
        valid = (left[k] >= least) & (node_hessian - left[k] >= least)
        scores[k] = max(scores[k], 0.0) if valid else 0.0
        highest = max(highest, scores[k])
    return highest


@inline
def _drop_small(scores, rows, count, total_n, least):
    """Set the scores of cuts with too few rows on a side to 0."""
    for k in range(count):
        enough = (rows[k] >= least) & (total_n - rows[k] >= least)
        scores[k] = scores[k] if enough else 0.0


@inline
def _clear(scores, left, count, start):
    for k in range(count):
        scores[k] = start
        left[k] = 0.0


@inline
def _share(left, node_hessian):
    """Return the share of the node's hessians on the left, in 1 / SHARE."""
    return np.int64(left / node_hessian * SHARE)


@kernel
def _begin_cut(own_n, total_n, node, feature, base, limits, down, rows):
    """Return the initial score, and the number of rows that miss the feature.

    Writes the number of rows left of each cut to `rows` if rows are counted.
    """
    if limits is None:
        return 0.0, np.int64(0)
    missing = total_n
    for b in range(own_n.size):
        missing -= own_n[b]
    below = missing * down
    for b in range(own_n.size):
        rows[b] = (below + own_n[b] * (1 - down)) / limits.one_row
        below += own_n[b]
    return -base - _cost(total_n, node, feature, limits), missing


@inline
def _cost(total_n, node, feature, limits):
    """Return the gain that a split by a feature needs in addition."""
    cost = 0.0
    if limits.costs.size > 0:
        rows = total_n / limits.one_row if limits.cost_of_rows else 1.0
        cost = limits.costs[node, feature] * rows
    return cost


@kernel
def _keep_rows(scores, rows, count, total_n, rules, limits):
    """Set scores of cuts with too few rows on a side to 0, if rows are counted."""
    if limits is not None:
        _drop_small(scores, rows, count, total_n / limits.one_row, rules[6])


@kernel
def _note_rows(split, rows, limits):
    """Write the number of rows on the left, if rows are counted."""
    if limits is not None:
        split["left_rows"] = np.int64(rows)


@inline
def _search_order(
    histograms,
    slot,
    start,
    stop,
    feature,
    node,
    totals,
    total_n,
    node_hessian,
    base,
    steps,
    rules,
    limits,
    above,
    buffer,
    split,
):
    """Search the cuts between the bins of a numeric feature."""
    count = stop - start
    sums_g = buffer[0].view(np.int64)
    sums_h = buffer[1].view(np.int64)
    scores = buffer[2]
    left = buffer[3]
    rows = buffer[6]
    own_n = histograms[histograms.shape[0] - 1, slot, 1, start:stop]
    columns = steps.shape[0]
    least = max(rules[3], TINY) * columns
    missing = np.int64(0)
    # Missing values go right in the pass upwards, left in the pass downwards, which is
    # only needed if there are any.
    for down in range(2):
        if down == 1 and missing == 0:
            break
        begin, missing_n = _begin_cut(
            own_n, total_n, node, feature, base, limits, down, rows
        )
        missing |= missing_n
        _clear(scores, left, count, begin)
        for s in range(columns):
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
                rows,
                count,
                missing_g * down,
                missing_h * down,
                totals,
                s,
                node,
                feature,
                steps,
                rules,
                limits,
                above,
                scores,
                left,
            )
        _keep_rows(scores, rows, count, total_n, rules, limits)
        highest = _highest(scores, left, count, node_hessian, least)
        if highest > split["gain"]:
            k = count - 1 if down else 0
            while scores[k] != highest:
                k += 1 - 2 * down
            share = _share(left[k], node_hessian)
            keep_candidate(
                split, highest, feature, k - down, down, 0, np.int64(0), share
            )
            _note_rows(split, rows[k], limits)


@inline
def _weigh_categories(histograms, slot, start, stop, steps, rules, weights, masses):
    """Write each category's leaf weight minus the mean weight, and its hessians.

    The mean is weighted by hessians. Returns the category with the largest squared
    distance from it times its hessians.
    """
    for c in range(stop - start):
        masses[c] = 0.0
    for s in range(steps.shape[0]):
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
        for s in range(steps.shape[0]):
            size += weights[s, c] * weights[s, c]
        if masses[c] * size > largest:
            largest = masses[c] * size
            furthest = c
    return furthest


@inline
def _rank_categories(count, furthest, weights, masses, direction, following, keys):
    """Write sort keys of the categories: their weights along one direction.

    The direction is the first principal component of the weights (Coppersmith, Hong
    and Hosking 1999), found by the power method.
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
def _begin_sets(
    own_n,
    total_n,
    node,
    feature,
    base,
    limits,
    one_hot,
    order,
    flip,
    count,
    sums,
    rows,
):
    """As `_begin_cut`, for sets of categories."""
    if limits is None:
        return 0.0
    if one_hot:
        sum_single(own_n, total_n, sums)
    else:
        sum_in_order(own_n, order, flip, sums)
    for k in range(count):
        rows[k] = sums[k + 1] / limits.one_row
    return -base - _cost(total_n, node, feature, limits)


@kernel
def _note_set_rows(split, rows, total_n, backward, limits):
    """Write the number of rows on the left, if rows are counted."""
    if limits is not None:
        left = rows if backward else total_n / limits.one_row - rows
        split["left_rows"] = np.int64(left)


@kernel
def _search_categories(
    histograms,
    slot,
    start,
    stop,
    feature,
    node,
    totals,
    total_n,
    node_hessian,
    base,
    steps,
    rules,
    limits,
    above,
    buffer,
    weights,
    split,
    rights,
):
    """Search the partitions of the categories of a feature, see `find_splits`.

    Above `max_cat_to_onehot` categories are sorted by `_rank_categories`.
    """
    columns = steps.shape[0]
    bins = stop - start
    sums_g = buffer[0].view(np.int64)
    sums_h = buffer[1].view(np.int64)
    scores = buffer[2]
    left = buffer[3]
    rows = buffer[6]
    own_n = histograms[histograms.shape[0] - 1, slot, 1, start:stop]
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
        begin = _begin_sets(
            own_n,
            total_n,
            node,
            feature,
            base,
            limits,
            one_hot,
            heap,
            flip,
            count,
            sums_g,
            rows,
        )
        _clear(scores, left, count, begin)
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
            # The score does not depend on which side the sums are of.
            _add_scores(
                sums_g[1:],
                sums_h[1:],
                rows,
                count,
                np.int64(0),
                np.int64(0),
                totals,
                s,
                node,
                feature,
                steps,
                rules,
                limits,
                above,
                scores,
                left,
            )
        _keep_rows(scores, rows, count, total_n, rules, limits)
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
            _note_set_rows(split, rows[k], total_n, backward, limits)
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
    node,
    totals,
    total_n,
    node_hessian,
    base,
    steps,
    rules,
    limits,
    above,
    buffer,
    weights,
    split,
    rights,
):
    """Search the categories of a feature, if the table has categorical features."""
    _search_categories(
        histograms,
        slot,
        start,
        stop,
        feature,
        node,
        totals,
        total_n,
        node_hessian,
        base,
        steps,
        rules,
        limits,
        above,
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
    node,
    totals,
    total_n,
    node_hessian,
    base,
    steps,
    rules,
    limits,
    above,
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
    node,
    totals,
    total_n,
    node_hessian,
    base,
    steps,
    rules,
    limits,
    above,
    buffer,
    weights,
    split,
    rights,
):
    return _search_nothing if rights.dtype == types.uint8 else _search_if_there_are


@kernel
def _count_node(histograms, slot, whole, limits):
    """Return the number of rows of the node, from the last histogram of hessians."""
    rows = np.int64(0)
    if limits is not None:
        for c in range(whole[0], whole[1]):
            rows += histograms[histograms.shape[0] - 1, slot, 1, c]
    return rows


@kernel
def _weigh_node(totals, total_n, node, steps, rules, limits, above):
    """Return the gain of the node as a leaf; write its weights and number of rows."""
    gain = 0.0
    for s in range(steps.shape[0]):
        g = totals[s, 0] * steps[s, 0]
        h = totals[s, 1] * steps[s, 1]
        if limits is None:
            gain += gain_of(g, h, rules)
        else:
            bounds = limits.bounds[node, s]
            above[s] = own_weight(g, h, limits.weights[node, s], bounds, rules)
            gain += maths.gain_at(g, h, above[s], rules[0], rules[1])
    if limits is not None:
        above[above.size - 1] = total_n / limits.one_row
    return gain


@kernel
def _settle(split, node_gain, total_n, limits):
    """Subtract the node's gain from the best score; under limits that has been done."""
    if limits is not None:
        split["total_rows"] = np.int64(total_n / limits.one_row)
    elif split["feature"] >= 0:
        split["gain"] -= node_gain


@kernel
def find_multi_output_splits(
    thread_id,
    n_threads,
    sync,
    node_histograms,  # NodeHistograms of (columns or one more, slots, 2, bins) int64
    candidates,  # CandidateFeatures
    steps,  # (columns, 2) float64: quantisation scales of gradients and of hessians
    rules,  # SplitRules
    limits,  # `NodeConstraints` of the nodes, or None
    scratch,  # (threads, 7, maximum candidates of a feature + 1) float64
    weights,  # (threads, columns, maximum categories + 2) float64
    above,  # (threads, columns + 1) float64
    totals,  # (threads, columns, 2) int64
    splits,  # (nodes, tasks a node) SPLIT_DTYPE, out
    sets,  # (nodes, tasks a node, words) uint64, out: categories that go right;
    # (nodes, tasks a node, 0) uint8 where no feature is categorical
):
    """Write the best split of each node for all columns together.

    As `hornbeam.kernels.split.find_splits`, except that a score is a sum over columns,
    and the hessian of a side a mean over them. The sums in the splits are shares.
    Under limits the last hessians count the rows: they are those of a column with equal
    hessians, or of one more that only counts.
    """
    histograms, slots, counted, parents, features, whole = node_histograms
    chosen, allowed, block = candidates
    columns = steps.shape[0]
    cells = histograms.shape[3]
    shares = (cells + JOIN_BINS - 1) // JOIN_BINS
    task = next_task(sync, 0)
    while task < counted.size * histograms.shape[0] * shares:
        pair = task // (histograms.shape[0] * shares)
        s = task // shares % histograms.shape[0]
        child, parent = counted[pair], parents[pair]
        begin = task % shares * JOIN_BINS
        if parent >= 0:
            end = min(begin + JOIN_BINS, cells)
            take_from_parent(histograms[s], parent, child, begin, end)
        task = next_task(sync, 0)
    barrier(sync, n_threads)
    own_totals = totals[thread_id]
    own_above = above[thread_id]
    parts = splits.shape[1]
    task = next_task(sync, 1)
    while task < slots.size * parts:
        number, part = task // parts, task % parts
        slot = slots[number]
        node_hessian = 0.0
        for s in range(columns):
            total_g = np.int64(0)
            total_h = np.int64(0)
            for c in range(whole[0], whole[1]):
                total_g += histograms[s, slot, 0, c]
                total_h += histograms[s, slot, 1, c]
            own_totals[s, 0] = total_g
            own_totals[s, 1] = total_h
            node_hessian += total_h * steps[s, 1]
        total_n = _count_node(histograms, slot, whole, limits)
        node_gain = _weigh_node(
            own_totals, total_n, number, steps, rules, limits, own_above
        )
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
                    number,
                    own_totals,
                    total_n,
                    node_hessian,
                    node_gain,
                    steps,
                    rules,
                    limits,
                    own_above,
                    scratch[thread_id],
                    weights[thread_id],
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
                    number,
                    own_totals,
                    total_n,
                    node_hessian,
                    node_gain,
                    steps,
                    rules,
                    limits,
                    own_above,
                    scratch[thread_id],
                    split,
                )
        _settle(split, node_gain, total_n, limits)
        task = next_task(sync, 1)


@kernel
def weigh_children(
    slots,  # (nodes,) int64: where each node's histograms are
    histograms,  # (columns or one more, slots, 2, bins) int64
    whole,  # (2,) int64: the range of bins that contains each row once
    features,  # table of FEATURE_DTYPE
    steps,  # (columns, 2) float64
    rules,  # SplitRules
    limits,  # `NodeConstraints` of the nodes; `sides` are written
    splits,  # (nodes,) SPLIT_DTYPE: the best ones
    sets,  # (nodes, words) uint64: categories that go right
):
    """Write the weights of the children of the best splits in each column."""
    for node in range(slots.size):
        split = splits[node]
        if split["feature"] < 0:
            continue
        feature = features[split["feature"]]
        direction = np.float64(limits.directions[split["feature"]])
        start = feature["cell"]
        for s in range(steps.shape[0]):
            own = histograms[s, slots[node]]
            node_g = np.int64(0)
            node_h = np.int64(0)
            for c in range(whole[0], whole[1]):
                node_g += own[0, c]
                node_h += own[1, c]
            # Rows that miss the feature: the node's minus those in bins.
            missing_g, missing_h = node_g, node_h
            left_g = np.int64(0)
            left_h = np.int64(0)
            for b in range(feature["bins"]):
                g, h = own[0, start + b], own[1, start + b]
                missing_g -= g
                missing_h -= h
                goes_left = b <= split["bin"]
                if split["is_categorical"]:
                    goes_left = (sets[node, b >> 6] >> np.uint64(b & 63)) & 1 == 0
                if goes_left:
                    left_g += g
                    left_h += h
            if split["missing_left"]:
                left_g += missing_g
                left_h += missing_h
            g, h = node_g * steps[s, 0], node_h * steps[s, 1]
            bounds = limits.bounds[node, s]
            above = own_weight(g, h, limits.weights[node, s], bounds, rules)
            left, right = _pair(
                left_g * steps[s, 0],
                left_h * steps[s, 1],
                np.float64(split["left_rows"]),
                g,
                h,
                np.float64(split["total_rows"]),
                above,
                direction,
                bounds,
                rules,
            )
            limits.sides[node, s, 0] = left
            limits.sides[node, s, 1] = right


@kernel
def mix_outputs(
    thread_id,
    n_threads,
    sync,
    mix,  # (columns, outputs) float64
    gradients,  # (outputs, rows) float32 or float64
    hessians,  # (outputs, rows) the same
    mixed,  # (columns, rows) float64, out
    means,  # (rows,) float64, out
):
    """Write projections of each row's gradients, and the mean of its hessians."""
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
def add_multi_output_trees(
    thread_id,
    n_threads,
    sync,
    data,  # (rows, features) float32 or float64, row-major, NaN missing
    roots,  # (trees, 4) int32: root's position, depth, not used, splits by category
    packed,  # PackedNodes
    values,  # (nodes, outputs) float32
    places,  # (threads, rows that are routed together) int32, scratch
    margins,  # (rows, outputs) float32 or float64, in and out
):
    """Add to the margins of each row the values of its leaf in each tree, in order.

    As `hornbeam.kernels.predict.add_trees`.
    """
    rows = data.shape[0]
    own = places[thread_id]
    together = own.size
    task = next_task(sync, 0)
    while task * together < rows:
        begin = task * together
        block = data[begin : begin + together]
        own_margins = margins[begin : begin + together]
        has_missing = any_missing(block)
        for t in range(roots.shape[0]):
            reach_leaves(block, has_missing, roots[t], packed, own)
            for i in range(own_margins.shape[0]):
                value = values[own[i]]
                sums = own_margins[i]
                for k in range(sums.size):
                    sums[k] += value[k]
        task = next_task(sync, 0)
