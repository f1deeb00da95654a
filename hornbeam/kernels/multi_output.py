"""Multi-output trees: split search, projections of gradients, predictions.

The histograms are of gradient columns: the gradients of one output, or a projection
of all outputs' gradients (see `mix_outputs`). Each column has its own histograms and
quantisation scales, and the score of a split is the sum of its gains in all columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels import maths
from hornbeam.kernels.categories import (
    list_rights,
    order_key,
    select_least,
    sum_in_order,
    sum_single,
    toggle,
)
from hornbeam.kernels.cut_scores import TINY
from hornbeam.kernels.jit import inline, kernel, overload
from hornbeam.kernels.layout import CATEGORY_SETS, ONE_CATEGORY, TASK_ROWS
from hornbeam.kernels.leaves import gain_of, rules_of_sides
from hornbeam.kernels.node_constraints import child_weight, cost_of, own_weight
from hornbeam.kernels.predict import any_missing, reach_leaves
from hornbeam.kernels.split import (
    NodeSums,
    candidates_of,
    keep_candidate,
    keep_groups,
    subtract_sibling,
    tasks_of_histogram,
)
from hornbeam.kernels.sync import barrier, next_task, prefetch

__all__ = [
    "SHARE",
    "FeatureBins",
    "MultiOutputBuffers",
    "SearchedNode",
    "add_multi_output_trees",
    "find_multi_output_splits",
    "mix_outputs",
    "search_bins",
    "search_columns",
    "settle_score",
    "weigh_children",
    "weigh_column",
    "weigh_columns",
    "weigh_node",
]

#: The hessians of a split's sides are returned as shares of the node's, in 1 / SHARE.
SHARE = 1 << 40
#: Iterations of the power method for the first principal component.
_POWER_STEPS = 8
#: Leaf values are prefetched for the row that is so many rows ahead.
_LEAVES_AHEAD = 16


class MultiOutputBuffers(NamedTuple):
    """Scratch memory of the split search; each array has a first axis of threads.

    Attributes
    ----------
    candidates
        (threads, 7, maximum candidates of a feature + 1) float64.
    category_weights
        (threads, columns, maximum categories + 2) float64.
    node_weights
        (threads, columns) float64.
    totals
        (threads, columns, 2) int64.
    """

    candidates: NDArray[np.float64]
    category_weights: NDArray[np.float64]
    node_weights: NDArray[np.float64]
    totals: NDArray[np.int64]


class SearchedNode(NamedTuple):
    """A node whose best split is searched.

    Attributes
    ----------
    index
        The position of the node in `NodeConstraints`.
    slot
        The slot of its histograms.
    totals
        (columns, 2) int64: the sums of its gradients and hessians.
    rows
        The sum of the histogram that counts rows; 0 without constraints.
    hessian
        The sum of its hessians over all columns.
    gain
        Its gain as a leaf.
    weights
        (columns,) float64: its weights as a leaf; only written under constraints.
    """

    index: int
    slot: int
    totals: NDArray[np.int64]
    rows: int
    hessian: float
    gain: float
    weights: NDArray[np.float64]


class FeatureBins(NamedTuple):
    """A feature, and the range of its histogram bins."""

    feature: int
    begin: int
    end: int


@inline
def _sum_bins(sums, every_row):
    """Return the sum over a range of bins that counts each row once."""
    total = np.int64(0)
    for b in range(every_row[0], every_row[1]):
        total += sums[b]
    return total


@inline
def _weigh_pair(left, total, parent_weight, direction, bounds, rules):
    """Return the weights of both children in a column, from the sums of the left one.

    If they violate the monotone constraint, both get the weight that is optimal for
    both together, with the regularisation of two leaves.
    """
    g, h, n = left.gradients, left.hessians, left.rows
    node_g, node_h, node_n = total.gradients, total.hessians, total.rows
    on_left = child_weight(g, h, n, parent_weight, bounds, rules)
    on_right = child_weight(
        node_g - g, node_h - h, node_n - n, parent_weight, bounds, rules
    )
    if direction * (on_right - on_left) < 0.0:
        both = maths.leaf_weight(
            node_g,
            node_h,
            2.0 * rules.reg_lambda,
            2.0 * rules.reg_alpha,
            rules.max_delta_step,
        )
        if rules.path_smooth > 0.0:
            both = maths.smoothed_weight(both, node_n, parent_weight, rules.path_smooth)
        on_left = on_right = min(max(both, bounds[0]), bounds[1])
    return on_left, on_right


@kernel
def _add_gains(
    sums, count, extra, node, column, feature, scales, rules, limits, scores, left
):
    """Add to `scores` the gains in a column of splits by ``sums[k] + extra``.

    These sums are those of the left side; their hessians are added to `left`. Under
    constraints the weights of both sides satisfy the bounds and the monotone
    constraint.
    """
    scale_g, scale_h = scales[column, 0], scales[column, 1]
    node_g = node.totals[column, 0] * scale_g
    node_h = node.totals[column, 1] * scale_h
    if limits is None:
        for k in range(count):
            g = (sums.gradients[k] + extra.gradients) * scale_g
            h = (sums.hessians[k] + extra.hessians) * scale_h
            scores[k] += gain_of(g, h, rules) + gain_of(node_g - g, node_h - h, rules)
            left[k] += h
    else:
        total = NodeSums(node_g, node_h, node.rows / limits.one_row)
        direction = np.float64(limits.directions[feature])
        bounds = limits.bounds[node.index, column]
        weight = node.weights[column]
        reg_lambda, reg_alpha = rules.reg_lambda, rules.reg_alpha
        for k in range(count):
            g = (sums.gradients[k] + extra.gradients) * scale_g
            h = (sums.hessians[k] + extra.hessians) * scale_h
            on_left, on_right = _weigh_pair(
                NodeSums(g, h, sums.rows[k]), total, weight, direction, bounds, rules
            )
            scores[k] += maths.gain_at(g, h, on_left, reg_lambda, reg_alpha)
            g, right_h = node_g - g, node_h - h
            scores[k] += maths.gain_at(g, right_h, on_right, reg_lambda, reg_alpha)
            left[k] += h


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
def _require_rows(scores, rows, count, node_rows, least):
    """Set the scores of splits with too few rows on a side to 0."""
    for k in range(count):
        enough = (rows[k] >= least) & (node_rows - rows[k] >= least)
        scores[k] = scores[k] if enough else 0.0


@inline
def _fill(scores, left, count, score):
    """Set all scores to `score`, and all hessians on the left to 0."""
    for k in range(count):
        scores[k] = score
        left[k] = 0.0


@inline
def _first_score(node, feature, limits):
    """Return minus the gain that a split by the feature must exceed."""
    rows = node.rows / limits.one_row
    return -node.gain - cost_of(feature, node.index, rows, limits)


@inline
def _share(left, node_hessian):
    """Return the share of the node's hessians on the left, in 1 / SHARE.

    A side has two units at least, so that none seems too small to be split.
    """
    return min(max(np.int64(left / node_hessian * SHARE), 2), SHARE - 2)


@inline
def _count_left(own_rows, missing, down, one_row, rows):
    """Write the number of rows on the left of each cut."""
    below = missing * down
    for b in range(own_rows.size):
        rows[b] = (below + own_rows[b] * (1 - down)) / one_row
        below += own_rows[b]


@kernel
def search_bins(histograms, node, bins, scales, rules, limits, buffer, split):
    """Search the cuts between the bins of a numerical feature."""
    feature, start, stop = bins
    count = stop - start
    sums_g = buffer[0].view(np.int64)
    sums_h = buffer[1].view(np.int64)
    scores = buffer[2]
    left = buffer[3]
    rows = buffer[6]
    columns = scales.shape[0]
    least = max(rules.min_child_weight, TINY) * columns
    score = 0.0
    missing_n = np.int64(0)
    own_rows = histograms[histograms.shape[0] - 1, node.slot, 1, start:stop]
    if limits is not None:
        score = _first_score(node, feature, limits)
        missing_n = node.rows
        for b in range(count):
            missing_n -= own_rows[b]
    missing = missing_n
    # Upwards missing values go right. Downwards they go left; this pass is only needed
    # if there are any.
    for down in range(2):
        if down == 1 and missing == 0:
            break
        if limits is not None:
            _count_left(own_rows, missing_n, down, limits.one_row, rows)
        _fill(scores, left, count, score)
        for s in range(columns):
            own_g = histograms[s, node.slot, 0, start:stop]
            own_h = histograms[s, node.slot, 1, start:stop]
            left_g = np.int64(0)
            left_h = np.int64(0)
            sums_g[0] = 0
            sums_h[0] = 0
            for b in range(count):
                left_g += own_g[b]
                left_h += own_h[b]
                sums_g[b + 1] = left_g
                sums_h[b + 1] = left_h
            missing_g = node.totals[s, 0] - left_g
            missing_h = node.totals[s, 1] - left_h
            missing |= missing_g | missing_h
            up = 1 - down
            _add_gains(
                NodeSums(sums_g[up:], sums_h[up:], rows),
                count,
                NodeSums(missing_g * down, missing_h * down, np.int64(0)),
                node,
                s,
                feature,
                scales,
                rules,
                limits,
                scores,
                left,
            )
        if limits is not None:
            node_rows = node.rows / limits.one_row
            _require_rows(scores, rows, count, node_rows, rules.min_samples_leaf)
        highest = _highest(scores, left, count, node.hessian, least)
        if highest > split["gain"]:
            k = count - 1 if down else 0
            while scores[k] != highest:
                k += 1 - 2 * down
            share = _share(left[k], node.hessian)
            keep_candidate(
                split, highest, feature, k - down, down, 0, np.int64(0), share
            )
            if limits is not None:
                split["left_rows"] = np.int64(rows[k])


# The steps of a search of categories are compiled once, for nodes with constraints and
# for those without.


@kernel
def _weigh_categories(histograms, slot, bins, scales, rules, weights, hessians):
    """Write each category's leaf weights minus the mean weights, and its hessian.

    The means are weighted by hessians. Returns the category with the largest squared
    distance from them times its hessian.
    """
    start, count = bins.begin, bins.end - bins.begin
    ridge = rules.reg_lambda + rules.cat_smooth
    for c in range(count):
        hessians[c] = 0.0
    for s in range(scales.shape[0]):
        total = 0.0
        total_h = 0.0
        for c in range(count):
            h = histograms[s, slot, 1, start + c] * scales[s, 1]
            g = histograms[s, slot, 0, start + c] * scales[s, 0]
            weights[s, c] = maths.leaf_weight(
                g, h, ridge, rules.reg_alpha, rules.max_delta_step
            )
            hessians[c] += h
            total += h * weights[s, c]
            total_h += h
        mean = total / total_h if total_h > 0.0 else 0.0
        for c in range(count):
            weights[s, c] -= mean
    furthest = 0
    largest = 0.0
    for c in range(count):
        size = 0.0
        for s in range(scales.shape[0]):
            size += weights[s, c] * weights[s, c]
        if hessians[c] * size > largest:
            largest = hessians[c] * size
            furthest = c
    return furthest


@kernel
def _rank_categories(count, furthest, weights, hessians, least, keys):
    """Write sort keys of categories: the projections of their weights; return how many.

    They are projected on their first principal component (Coppersmith, Hong and
    Hosking 1999), found by the power method. Those of a hessian below `least` are left
    out.
    """
    columns = weights.shape[0]
    component, following = weights[:, count], weights[:, count + 1]
    for s in range(columns):
        component[s] = weights[s, furthest]
    for _ in range(_POWER_STEPS):
        for s in range(columns):
            following[s] = 0.0
        for c in range(count):
            projection = 0.0
            for s in range(columns):
                projection += weights[s, c] * component[s]
            for s in range(columns):
                following[s] += hessians[c] * projection * weights[s, c]
        largest = 0.0
        for s in range(columns):
            largest = max(largest, abs(following[s]))
        if largest == 0.0:
            break
        for s in range(columns):
            component[s] = following[s] / largest
    ranked = 0
    for c in range(count):
        if hessians[c] >= least:
            projection = 0.0
            for s in range(columns):
                projection += weights[s, c] * component[s]
            keys[ranked] = order_key(projection if hessians[c] > 0.0 else 0.0, c)
            ranked += 1
    return ranked


@kernel
def _sum_sets(own, total, one_hot, order, flip, sums):
    """Write the sums of the sets of categories that are candidates."""
    if one_hot:
        sum_single(own, total, sums)
    else:
        sum_in_order(own, order, flip, sums)


@kernel
def _search_categories(
    histograms, node, bins, scales, rules, limits, buffer, weights, split, rights
):
    """Search the splits of a feature's categories into two sets, see `find_splits`.

    From `max_cat_to_onehot` categories on they are sorted by `_rank_categories`.
    """
    feature, start, stop = bins
    columns = scales.shape[0]
    n_categories = stop - start
    sums_g = buffer[0].view(np.int64)
    sums_h = buffer[1].view(np.int64)
    scores = buffer[2]
    left = buffer[3]
    keys = buffer[4].view(np.int64)[:n_categories]
    rows = buffer[6]
    least = max(rules.min_child_weight, TINY) * columns
    one_hot = n_categories < rules.max_cat_to_onehot
    kind = ONE_CATEGORY if one_hot else CATEGORY_SETS
    of_sides = rules_of_sides(kind, rules)
    groups = min(n_categories, np.int64(rules.max_cat_threshold)) - 1
    count = 2 * n_categories
    if not one_hot:
        if groups < 1:
            return
        # The scores are not written yet: their memory has the categories' hessians.
        furthest = _weigh_categories(
            histograms, node.slot, bins, scales, rules, weights, scores
        )
        least_sorted = rules.min_category_weight
        ranked = _rank_categories(
            n_categories, furthest, weights, scores, least_sorted, keys
        )
        keys = keys[:ranked]
        count = groups = min(groups, ranked)
        if groups < 1:
            return
    heap = buffer[5].view(np.int64)[:groups]
    for backward in range(1 if one_hot else 2):
        flip = np.int64(-backward)
        if not one_hot:
            select_least(keys, flip, heap)
        score = 0.0
        if limits is not None:
            score = _first_score(node, feature, limits)
            own_rows = histograms[histograms.shape[0] - 1, node.slot, 1, start:stop]
            _sum_sets(own_rows, node.rows, one_hot, heap, flip, sums_g)
            for k in range(count):
                rows[k] = sums_g[k + 1] / limits.one_row
        _fill(scores, left, count, score)
        for s in range(columns):
            own_g = histograms[s, node.slot, 0, start:stop]
            own_h = histograms[s, node.slot, 1, start:stop]
            _sum_sets(own_g, node.totals[s, 0], one_hot, heap, flip, sums_g)
            _sum_sets(own_h, node.totals[s, 1], one_hot, heap, flip, sums_h)
            # The score is the same whichever side the sums are of.
            _add_gains(
                NodeSums(sums_g[1:], sums_h[1:], rows),
                count,
                NodeSums(np.int64(0), np.int64(0), np.int64(0)),
                node,
                s,
                feature,
                scales,
                of_sides,
                limits,
                scores,
                left,
            )
        if limits is not None:
            node_rows = node.rows / limits.one_row
            _require_rows(scores, rows, count, node_rows, rules.min_samples_leaf)
        highest = _highest(scores, left, count, node.hessian, least)
        if not one_hot and rules.min_group_weight > 0.0:
            least_of_group = rules.min_group_weight
            highest = keep_groups(
                left, count, node.hessian, 1.0, least_of_group, scores
            )
        if highest > split["gain"]:
            k = 0
            while scores[k] != highest:
                k += 1
            share = _share(left[k], node.hessian)
            if not backward:
                share = SHARE - share
            missing_left = 1 - (k & 1) if one_hot else 1 - backward
            keep_candidate(
                split, highest, feature, 0, missing_left, kind, np.int64(0), share
            )
            if limits is not None:
                other = node.rows / limits.one_row - rows[k]
                split["left_rows"] = np.int64(rows[k] if backward else other)
            list_rights(n_categories, backward, rights)
            if one_hot:
                toggle(k >> 1, rights)
            else:
                for i in range(k + 1):
                    toggle((heap[i] ^ flip) & 0xFFFFFFFF, rights)


def _search_if_there_are(
    histograms, node, bins, scales, rules, limits, buffer, weights, split, rights
):
    """Search the categories of a feature, in a table that has categorical features."""
    _search_categories(
        histograms, node, bins, scales, rules, limits, buffer, weights, split, rights
    )


@inline
def _search_nothing(
    histograms, node, bins, scales, rules, limits, buffer, weights, split, rights
):
    return


@overload(_search_if_there_are)
def _overload_search_if_there_are(
    histograms, node, bins, scales, rules, limits, buffer, weights, split, rights
):
    # Without categorical features this saves time to compile.
    return _search_nothing if str(rights.dtype) == "uint8" else _search_categories


@kernel
def weigh_node(totals, index, scales, rules, limits, weights):
    """Return the hessian and gain of a node with these sums; write its weights."""
    hessian = 0.0
    gain = 0.0
    for s in range(scales.shape[0]):
        g = totals[s, 0] * scales[s, 0]
        h = totals[s, 1] * scales[s, 1]
        hessian += h
        if limits is None:
            gain += gain_of(g, h, rules)
        else:
            bounds = limits.bounds[index, s]
            weight = own_weight(g, h, limits.weights[index, s], bounds, rules)
            weights[s] = weight
            gain += maths.gain_at(g, h, weight, rules.reg_lambda, rules.reg_alpha)
    return hessian, gain


@kernel
def settle_score(split, node, limits):
    """Turn the best score into a gain; under constraints, write the node's rows."""
    if limits is not None:
        split["total_rows"] = np.int64(node.rows / limits.one_row)
    elif split["feature"] >= 0:
        split["gain"] -= node.gain


@kernel
def search_columns(
    histograms,  # (columns or one more, slots, 2, bins) int64
    slot,  # of the node
    index,  # its number in `limits`
    candidates,  # CandidateFeatures of this node: all of them are searched
    features,  # table of FEATURE_DTYPE
    every_row,  # (2,) int64: begin and end of histogram bins that count each row once
    scales,  # those of `find_multi_output_splits`, here and below
    rules,
    limits,
    buffers,
    thread_id,
    split,  # SPLIT_DTYPE, out
    rights,  # (words,) uint64, out: categories that go right, or (0,) uint8
):
    """Write the best split of one node among the features of one task."""
    buffer = buffers.candidates[thread_id]
    category_weights = buffers.category_weights[thread_id]
    weights, totals = buffers.node_weights[thread_id], buffers.totals[thread_id]
    for s in range(scales.shape[0]):
        totals[s, 0] = _sum_bins(histograms[s, slot, 0], every_row)
        totals[s, 1] = _sum_bins(histograms[s, slot, 1], every_row)
    rows = np.int64(0)
    if limits is not None:
        rows = _sum_bins(histograms[histograms.shape[0] - 1, slot, 1], every_row)
    hessian, gain = weigh_node(totals, index, scales, rules, limits, weights)
    node = SearchedNode(index, slot, totals, rows, hessian, gain, weights)
    split["total_gradient"] = 0
    split["total_hessian"] = SHARE
    keep_candidate(split, 0.0, -1, 0, 0, 0, np.int64(0), np.int64(0))
    for j in range(candidates.chosen.size):
        feature = np.int64(candidates.chosen[j])
        if candidates.allowed.size > 0 and candidates.allowed[0, feature] == 0:
            continue
        start = features[feature]["cell"]
        own_bins = FeatureBins(feature, start, start + features[feature]["bins"])
        if features[feature]["is_categorical"]:
            _search_if_there_are(
                histograms,
                node,
                own_bins,
                scales,
                rules,
                limits,
                buffer,
                category_weights,
                split,
                rights,
            )
        else:
            search_bins(
                histograms, node, own_bins, scales, rules, limits, buffer, split
            )
    settle_score(split, node, limits)


@kernel
def find_multi_output_splits(
    thread_id,
    n_threads,
    sync,
    node_histograms,  # NodeHistograms of (columns or one more, slots, 2, bins) int64
    candidates,  # CandidateFeatures
    scales,  # (columns, 2) float64: quantisation scales of gradients and of hessians
    rules,  # SplitRules
    limits,  # NodeConstraints of the nodes, or None
    buffers,  # MultiOutputBuffers
    splits,  # (nodes, tasks a node) SPLIT_DTYPE, out
    sets,  # (nodes, tasks a node, words) uint64, out: categories that go right;
    # (nodes, tasks a node, 0) uint8 where no feature is categorical
):
    """Write the best split of each node for all columns together.

    As `hornbeam.kernels.split.find_splits`, except that a score is a sum over columns,
    and the hessian of a side a mean over them. The sums in the splits are shares.
    Under constraints the last hessians count the rows: they are those of a column with
    equal hessians, or of one more that only counts.
    """
    histograms, slots, built, parents, features, every_row = node_histograms
    tasks = built.size * tasks_of_histogram(histograms.shape[3])
    task = next_task(sync, 0)
    while task < histograms.shape[0] * tasks:
        subtract_sibling(histograms[task // tasks], built, parents, task % tasks)
        task = next_task(sync, 0)
    barrier(sync, n_threads)
    parts = splits.shape[1]
    task = next_task(sync, 1)
    while task < slots.size * parts:
        index, part = task // parts, task % parts
        search_columns(
            histograms,
            slots[index],
            index,
            candidates_of(candidates, index, part),
            features,
            every_row,
            scales,
            rules,
            limits,
            buffers,
            thread_id,
            splits[index, part],
            sets[index, part],
        )
        task = next_task(sync, 1)


@inline
def weigh_column(
    sums, column, total, index, bins, scales, rules, limits, split, rights, sides
):
    """Write the weights of the children of a split in one column to `sides`, (2,).

    `sums` are the (2, bins) of the node's histogram in this column, `total` are the
    `NodeSums` of the node, which is number `index` in `limits`, and `bins` those of the
    feature.
    """
    _, start, stop = bins
    # The sums of missing values are the node's minus those of all bins.
    missing_g, missing_h = total.gradients, total.hessians
    left_g = np.int64(0)
    left_h = np.int64(0)
    for b in range(stop - start):
        g, h = sums[0, start + b], sums[1, start + b]
        missing_g -= g
        missing_h -= h
        goes_left = b <= split["bin"]
        if split["is_categorical"]:
            goes_left = (rights[b >> 6] >> np.uint64(b & 63)) & 1 == 0
        if goes_left:
            left_g += g
            left_h += h
    if split["missing_left"]:
        left_g += missing_g
        left_h += missing_h
    scale_g, scale_h = scales[column, 0], scales[column, 1]
    of_node = NodeSums(
        total.gradients * scale_g, total.hessians * scale_h, np.float64(total.rows)
    )
    left = NodeSums(left_g * scale_g, left_h * scale_h, np.float64(split["left_rows"]))
    bounds = limits.bounds[index, column]
    weight = own_weight(
        of_node.gradients,
        of_node.hessians,
        limits.weights[index, column],
        bounds,
        rules,
    )
    direction = np.float64(limits.directions[split["feature"]])
    of_sides = rules_of_sides(split["is_categorical"], rules)
    on_left, on_right = _weigh_pair(left, of_node, weight, direction, bounds, of_sides)
    sides[0] = on_left
    sides[1] = on_right


@kernel
def weigh_columns(
    histograms,  # (columns or one more, slots, 2, bins) int64
    slot,  # of the node
    index,  # its number in `limits`
    features,  # table of FEATURE_DTYPE
    every_row,  # (2,) int64: begin and end of histogram bins that count each row once
    scales,  # (columns, 2) float64
    rules,  # SplitRules
    limits,  # NodeConstraints
    split,  # SPLIT_DTYPE: the best one of the node
    rights,  # (words,) uint64: categories that go right
    sides,  # (columns, 2) float64, out: the weights of its children
):
    """Write the weights of the children of a split in each column, if there is any."""
    if split["feature"] < 0:
        return
    feature = features[split["feature"]]
    start = feature["cell"]
    bins = FeatureBins(split["feature"], start, start + feature["bins"])
    for s in range(scales.shape[0]):
        own = histograms[s, slot]
        total = NodeSums(
            _sum_bins(own[0], every_row),
            _sum_bins(own[1], every_row),
            np.int64(split["total_rows"]),
        )
        weigh_column(
            own, s, total, index, bins, scales, rules, limits, split, rights, sides[s]
        )


@kernel
def weigh_children(
    node_histograms,  # NodeHistograms, as those of `find_multi_output_splits`
    scales,  # (columns, 2) float64
    rules,  # SplitRules
    limits,  # NodeConstraints of the nodes; `sides` are written
    splits,  # (nodes,) SPLIT_DTYPE: the best ones
    sets,  # (nodes, words) uint64: categories that go right
):
    """Write the weights of the children of the best splits in each column."""
    for node in range(node_histograms.slots.size):
        weigh_columns(
            node_histograms.sums,
            node_histograms.slots[node],
            node,
            node_histograms.features,
            node_histograms.every_row,
            scales,
            rules,
            limits,
            splits[node],
            sets[node],
            limits.sides[node],
        )


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
    scratch,  # DescentScratch
    margins,  # (rows, outputs) float32 or float64, in and out
):
    """Add to the margins of each row the values of its leaf in each tree, in order.

    As `hornbeam.kernels.predict.add_trees`.
    """
    rows = data.shape[0]
    together = scratch.places.shape[1]
    task = next_task(sync, 0)
    while task * together < rows:
        begin = task * together
        block = data[begin : begin + together]
        own_margins = margins[begin : begin + together]
        has_missing = any_missing(block)
        own = scratch.places[thread_id, : block.shape[0]]
        for t in range(roots.shape[0]):
            reach_leaves(block, has_missing, roots, t, packed, scratch, thread_id)
            last = own.size - 1
            for i in range(own.size):
                later = values[np.uint64(own[min(i + _LEAVES_AHEAD, last)])]
                # The values of a leaf may begin in one cache line and end in the next.
                prefetch(later, np.uint64(0))
                prefetch(later, np.uint64(later.size - 1))
                leaf = np.uint64(own[i])
                for k in range(values.shape[1]):
                    own_margins[i, k] += values[leaf, k]
        task = next_task(sync, 0)
