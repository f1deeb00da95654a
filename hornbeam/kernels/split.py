"""The best split of a node, from its histogram."""

from __future__ import annotations

from typing import Any, NamedTuple

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
from hornbeam.kernels.cut_scores import (
    MARGIN,
    TINY,
    WHOLE_BITS,
    least_units,
    may_screen,
    score_exactly,
    score_wide_cuts,
)
from hornbeam.kernels.histogram import take_from_parent
from hornbeam.kernels.jit import inline, inline_view, kernel, overload
from hornbeam.kernels.layout import CATEGORY_SETS, JOIN_BINS, ONE_CATEGORY
from hornbeam.kernels.leaves import gain_of, rules_of_sides
from hornbeam.kernels.node_constraints import score_limited, weigh_sides
from hornbeam.kernels.sync import barrier, next_task

__all__ = [
    "CandidateFeatures",
    "NodeHistograms",
    "NodeSums",
    "ScreenedCuts",
    "candidates_of",
    "find_splits",
    "keep_best_cut",
    "keep_candidate",
    "keep_groups",
    "screen_order",
    "search_cuts",
    "search_feature",
    "search_node",
    "search_one_way",
    "search_order",
    "settle_split",
    "subtract_sibling",
    "tasks_of_histogram",
    "write_leaf",
]


class NodeSums(NamedTuple):
    """Fixed-point sums over rows of a node: int64, or int64 arrays of one per bin.

    Rows are only summed under `NodeConstraints`.
    """

    gradients: Any
    hessians: Any
    rows: Any


class NodeHistograms(NamedTuple):
    """The histograms of the nodes whose splits are searched.

    Attributes
    ----------
    sums
        (slots, 2 or 3, bins) int64: all histograms, of gradients, hessians and
        perhaps rows. Trees with several gradient columns have an axis of these before
        that of the slots.
    slots
        (nodes,) int64: the slot of each node.
    built
        (some,) int64: the slots that were built from rows.
    parents
        (some,) int64: the slots of their parents, which become those of the siblings
        by subtraction; -1: none.
    features
        (features,) FEATURE_DTYPE.
    every_row
        (2,) int64: begin and end of histogram bins that count each row once.
    """

    sums: NDArray[np.int64]
    slots: NDArray[np.int64]
    built: NDArray[np.int64]
    parents: NDArray[np.int64]
    features: NDArray[Any]
    every_row: NDArray[np.int64]


class CandidateFeatures(NamedTuple):
    """The features that splits are searched among.

    Attributes
    ----------
    chosen
        (chosen,) uint64: the features of the tree, ascending.
    allowed
        (nodes, features) uint8: whether each node may be split by it; (0, 0): all may.
    block
        The number of features of one task.
    """

    chosen: NDArray[np.uint64]
    allowed: NDArray[np.uint8]
    block: int = 1


class ScreenedCuts(NamedTuple):
    """The cuts of a feature that have approximate scores.

    Attributes
    ----------
    gradients, hessians
        (cuts,) int64: the sums of the bins up to each cut, perhaps packed.
    none_gradient, none_hessian
        What they are where nothing is on the left; less than that of no bins, if
        missing values are on the left.
    shift, mask
        How to take the gradient and the hessian from packed sums; 0 and -1 if wide.
    """

    gradients: NDArray[np.int64]
    hessians: NDArray[np.int64]
    none_gradient: int
    none_hessian: int
    shift: int
    mask: int


@inline
def _score_cuts(sums, count, extra, total, scales, rules, scores):
    """Score the cuts that leave ``sums[k] + extra`` on the left; return the highest.

    The score is the gain of both children. A cut that leaves too small a hessian on
    one side scores 0. The loop has no branches, so that the compiler can vectorise it;
    so has the maximum, taken over the bits: non-negative floats are ordered as their
    bits are.
    """
    sums_g, sums_h = sums.gradients, sums.hessians
    gradient_scale, hessian_scale = scales[0], scales[1]
    least = max(rules.min_child_weight, TINY)
    node_g = total.gradients * gradient_scale
    node_h = total.hessians * hessian_scale
    for k in range(count):
        g = (sums_g[k] + extra.gradients) * gradient_scale
        h = (sums_h[k] + extra.hessians) * hessian_scale
        score = gain_of(g, h, rules) + gain_of(node_g - g, node_h - h, rules)
        valid = (h >= least) & (node_h - h >= least)
        scores[k] = max(score, 0.0) if valid else 0.0
    bits = scores.view(np.int64)
    highest = np.int64(0)
    for k in range(count):
        highest = max(highest, bits[k])
    return np.int64(highest).view(np.float64)


@kernel
def _score(
    sums, count, extra, total, node, feature, scales, rules, of_sides, limits, scores
):
    """Score the cuts of a node, under constraints if there are any.

    The children have the rules `of_sides`.
    """
    # Numba drops the branch that the type of `limits` excludes, here and below; it
    # does so for arguments only, so that `limits` is in no group of arguments.
    if limits is None:
        return _score_cuts(sums, count, extra, total, scales, of_sides, scores)
    return score_limited(
        sums,
        count,
        extra,
        total,
        node,
        feature,
        scales,
        rules,
        of_sides,
        limits,
        scores,
    )


@inline
def keep_candidate(
    split, score, feature, last_bin, missing_left, is_categorical, left_g, left_h
):
    """Store the best candidate so far, with its score in place of the gain."""
    split["gain"] = score
    split["feature"] = feature
    split["bin"] = last_bin
    split["next_bin"] = 0
    split["missing_left"] = missing_left
    split["is_categorical"] = is_categorical
    split["left_gradient"] = left_g
    split["left_hessian"] = left_h
    split["left_weight"] = 0.0
    split["right_weight"] = 0.0
    split["left_rows"] = 0
    split["total_rows"] = 0


@inline
def write_leaf(split):
    """Write the record of a leaf in place of a split."""
    keep_candidate(split, 0.0, 0, 0, 0, 0, np.int64(0), np.int64(0))
    split["total_gradient"] = 0
    split["total_hessian"] = 0


@kernel
def settle_split(split, total_n, node, scales, rules, limits):
    """Turn the score of a node's best split into its gain.

    Under constraints the score is the gain already, and the weights of the children
    are written.
    """
    if limits is not None:
        weigh_sides(split, total_n, node, scales, rules, limits)
    elif split["feature"] >= 0:
        node_g = split["total_gradient"] * scales[0]
        node_h = split["total_hessian"] * scales[1]
        split["gain"] -= gain_of(node_g, node_h, rules)


@kernel
def search_one_way(
    down, sums, count, total, node, feature, scales, rules, limits, scores, split
):
    """Search the cuts between `count` bins, with missing values on one side.

    Upwards, bin k and those below go left. Downwards, it and those above go right, and
    missing values go left.
    """
    missing = NodeSums(
        (total.gradients - sums.gradients[count]) * down,
        (total.hessians - sums.hessians[count]) * down,
        (total.rows - sums.rows[count]) * down if limits is not None else np.int64(0),
    )
    up = 1 - down
    highest = _score(
        NodeSums(sums.gradients[up:], sums.hessians[up:], sums.rows[up:]),
        count,
        missing,
        total,
        node,
        feature,
        scales,
        rules,
        rules,
        limits,
        scores,
    )
    if highest > split["gain"]:
        k = count - 1 if down else 0
        while scores[k] != highest:
            k += 1 - 2 * down
        best_g = sums.gradients[k + up] + missing.gradients
        best_h = sums.hessians[k + up] + missing.hessians
        keep_candidate(split, highest, feature, k - down, down, 0, best_g, best_h)
        if limits is not None:
            split["left_rows"] = sums.rows[k + up] + missing.rows


@kernel
def search_cuts(
    sums, count, total, node, feature, scales, rules, limits, scores, split
):
    """Search the cuts between `count` bins; ``sums[k]`` is of the bins below bin k.

    Rows are only summed under constraints.
    """
    missing_g = total.gradients - sums.gradients[count]
    missing_h = total.hessians - sums.hessians[count]
    missing_n = total.rows - sums.rows[count] if limits is not None else np.int64(0)
    for down in range(2 if (missing_g | missing_h | missing_n) != 0 else 1):
        search_one_way(
            down,
            sums,
            count,
            total,
            node,
            feature,
            scales,
            rules,
            limits,
            scores,
            split,
        )


@inline
def _sum_bins(own, sums_g, sums_h):
    """Write the sums of the bins up to each bin, after those of none."""
    left_g = sums_g[0]
    left_h = sums_h[0]
    for b in range(own.gradients.size):
        left_g += own.gradients[b]
        left_h += own.hessians[b]
        sums_g[b + 1] = left_g
        sums_h[b + 1] = left_h


@inline
def keep_best_cut(cuts, scores, highest, unit, down, total, scales, rules, split):
    """Score the cuts exactly that may be the best one; keep it if it beats the split.

    Approximate scores, of which the highest is given, are in units of `unit`. Of equal
    cuts the first one wins, downwards the last one. Returns its place, or -1 if the
    split stays. The caller writes the feature and the bin.
    """
    place = -1
    if highest * unit * (1.0 + MARGIN) <= split["gain"]:
        return place
    lowest = highest * (1.0 - MARGIN)
    count = cuts.gradients.size
    for i in range(count):
        k = count - 1 - i if down else i
        if scores[k] >= lowest:
            left_g = (cuts.gradients[k] - cuts.none_gradient) >> cuts.shift
            left_h = (cuts.hessians[k] - cuts.none_hessian) & cuts.mask
            score = score_exactly(
                left_g, left_h, total.gradients, total.hessians, scales, rules
            )
            if score > split["gain"]:
                place = k
                keep_candidate(split, score, -1, 0, down, 0, left_g, left_h)
    return place


@inline
def _float_of(bits):
    return np.int64(bits).view(np.float64)


@kernel
def screen_order(own, total, feature, scales, rules, buffer, split):
    """Search the cuts of a numerical feature, of which few are scored exactly.

    The buffer and when it may be called: see `search_node`.
    """
    scores, floats_g, floats_h = buffer[2], buffer[3], buffer[4]
    # Sums that begin at these bits are those of floats.
    sums_g, sums_h = floats_g.view(np.int64), floats_h.view(np.int64)
    sums_g[0] = sums_h[0] = WHOLE_BITS
    _sum_bins(own, sums_g, sums_h)
    count = own.gradients.size
    missing_g = total.gradients + WHOLE_BITS - sums_g[count]
    missing_h = total.hessians + WHOLE_BITS - sums_h[count]
    least = np.int64(min(least_units(scales, rules), 2.0**62))
    ridge = rules.reg_lambda / scales[1]
    unit = scales[0] * scales[0] / scales[1]
    for down in range(2 if (missing_g | missing_h) != 0 else 1):
        none_g, none_h = WHOLE_BITS - missing_g * down, WHOLE_BITS - missing_h * down
        every_g, every_h = none_g + total.gradients, none_h + total.hessians
        # No hessian is negative, so that the valid cuts are next to each other.
        first, end = 1 - down, count + 1 - down
        while first < end and sums_h[first] - none_h < least:
            first += 1
        while first < end and every_h - sums_h[end - 1] < least:
            end -= 1
        highest = score_wide_cuts(
            floats_g[first:end],
            floats_h[first:end],
            (_float_of(none_g), _float_of(none_h)),
            (_float_of(every_g), _float_of(every_h)),
            ridge,
            scores,
        )
        cuts = ScreenedCuts(sums_g[first:end], sums_h[first:end], none_g, none_h, 0, -1)
        place = keep_best_cut(
            cuts, scores, highest, unit, down, total, scales, rules, split
        )
        if place >= 0:
            split["feature"] = feature
            split["bin"] = first + place - 1


@kernel
def search_order(own, total, node, feature, scales, rules, limits, buffer, split):
    """Search the cuts between the bins of a numerical feature."""
    sums_g = buffer[0].view(np.int64)
    sums_h = buffer[1].view(np.int64)
    sums_n = buffer[5].view(np.int64)
    sums_g[0] = sums_h[0] = sums_n[0] = 0
    _sum_bins(own, sums_g, sums_h)
    if limits is not None:
        for b in range(own.rows.size):
            sums_n[b + 1] = sums_n[b] + own.rows[b]
    search_cuts(
        NodeSums(sums_g, sums_h, sums_n),
        own.gradients.size,
        total,
        node,
        feature,
        scales,
        rules,
        limits,
        buffer[2],
        split,
    )


@inline
def _rank_categories(own, scales, rules, keys):
    """Write keys that order the categories by weight, then by number; return how many.

    A category of too small a hessian has weight 0, as in XGBoost, whose weights are
    float32 too. With `cat_smooth` weights are smoothed instead, as in LightGBM, and
    categories of too few rows are left out.
    """
    least = TINY if rules.cat_smooth > 0.0 else max(rules.min_child_weight, TINY)
    ridge = rules.reg_lambda + rules.cat_smooth
    count = 0
    for c in range(own.gradients.size):
        h = own.hessians[c] * scales[1]
        if h >= rules.min_category_weight:
            weight = maths.leaf_weight(
                own.gradients[c] * scales[0],
                h,
                ridge,
                rules.reg_alpha,
                rules.max_delta_step,
            )
            keys[count] = order_key(weight if h >= least else 0.0, c)
            count += 1
    return count


@inline
def keep_groups(hessians, count, node_h, scale, least, scores):
    """Set the scores of cuts that end no group to 0; return the highest score.

    A group is the categories since the last cut that is kept. Its hessian is `least`
    or more, and so is that beyond the cut.
    """
    highest = 0.0
    before = 0.0
    for k in range(count):
        h = hessians[k] * scale
        if (scores[k] > 0.0) & (h - before >= least) & (node_h - h >= least):
            highest = max(highest, scores[k])
            before = h
        else:
            scores[k] = 0.0
    return highest


@kernel
def _search_categories(
    own, total, node, feature, scales, rules, limits, buffer, split, rights
):
    """Search the splits of a feature's categories into two sets, see `find_splits`."""
    sums_g = buffer[0].view(np.int64)
    sums_h = buffer[1].view(np.int64)
    sums_n = buffer[5].view(np.int64)
    sums_g[0] = sums_h[0] = sums_n[0] = 0
    scores = buffer[2]
    n_categories = own.gradients.size
    keys = buffer[3].view(np.int64)[:n_categories]
    one_hot = n_categories < rules.max_cat_to_onehot
    kind = ONE_CATEGORY if one_hot else CATEGORY_SETS
    groups = min(n_categories, np.int64(rules.max_cat_threshold)) - 1
    if not one_hot:
        # Those that are left out are on the side of the missing values.
        keys = keys[: _rank_categories(own, scales, rules, keys)]
        groups = min(groups, keys.size)
        if groups < 1:
            return
    heap = buffer[4].view(np.int64)[:groups]
    for backward in range(1 if one_hot else 2):
        # All bits of a key, except those of the category's number, are the weight's.
        flip = np.int64(-backward)
        count = groups
        if one_hot:
            count = 2 * n_categories
            sum_single(own.gradients, total.gradients, sums_g)
            sum_single(own.hessians, total.hessians, sums_h)
            if limits is not None:
                sum_single(own.rows, total.rows, sums_n)
        else:
            select_least(keys, flip, heap)
            sum_in_order(own.gradients, heap, flip, sums_g)
            sum_in_order(own.hessians, heap, flip, sums_h)
            if limits is not None:
                sum_in_order(own.rows, heap, flip, sums_n)
        # The score is the same whichever side the sums are of.
        highest = _score(
            NodeSums(sums_g[1:], sums_h[1:], sums_n[1:]),
            count,
            NodeSums(np.int64(0), np.int64(0), np.int64(0)),
            total,
            node,
            feature,
            scales,
            rules,
            rules_of_sides(kind, rules),
            limits,
            scores,
        )
        if not one_hot and rules.min_group_weight > 0.0:
            highest = keep_groups(
                sums_h[1:],
                count,
                total.hessians * scales[1],
                scales[1],
                rules.min_group_weight,
                scores,
            )
        if highest > split["gain"]:
            k = 0
            while scores[k] != highest:
                k += 1
            side_g, side_h = sums_g[k + 1], sums_h[k + 1]
            if not backward:
                side_g, side_h = total.gradients - side_g, total.hessians - side_h
            missing_left = 1 - (k & 1) if one_hot else 1 - backward
            keep_candidate(
                split, highest, feature, 0, missing_left, kind, side_g, side_h
            )
            if limits is not None:
                side_n = sums_n[k + 1]
                split["left_rows"] = side_n if backward else total.rows - side_n
            list_rights(n_categories, backward, rights)
            if one_hot:
                toggle(k >> 1, rights)
            else:
                for i in range(k + 1):
                    toggle((heap[i] ^ flip) & 0xFFFFFFFF, rights)


def _search_if_there_are(
    own, total, node, feature, scales, rules, limits, buffer, split, rights
):
    """Search the categories of a feature, in a table that has categorical features."""
    _search_categories(
        own, total, node, feature, scales, rules, limits, buffer, split, rights
    )


@inline
def _search_nothing(
    own, total, node, feature, scales, rules, limits, buffer, split, rights
):
    return


@overload(_search_if_there_are)
def _overload_search_if_there_are(
    own, total, node, feature, scales, rules, limits, buffer, split, rights
):
    # Without categorical features this halves the time to compile.
    return _search_nothing if str(rights.dtype) == "uint8" else _search_categories


@kernel
def search_feature(
    own,
    total,
    node,
    feature,
    is_categorical,
    scales,
    rules,
    limits,
    buffer,
    split,
    rights,
):
    """Search the splits of a node by one feature, whose sums by bin are `own`."""
    if is_categorical:
        _search_if_there_are(
            own, total, node, feature, scales, rules, limits, buffer, split, rights
        )
    else:
        search_order(own, total, node, feature, scales, rules, limits, buffer, split)


@kernel
def search_node(
    sums,  # (2 or 3, bins) int64: the histogram of the node
    is_coarse,  # whether it sums coarse gradients
    node,  # its number in `limits`
    candidates,  # CandidateFeatures of this node: all of them are searched
    features,  # table of FEATURE_DTYPE
    every_row,  # (2,) int64: begin and end of histogram bins that count each row once
    scales,  # those of `find_splits`, here and below
    rules,
    limits,
    # (6, most candidates of a feature + 1) float64; (8, ...) of coarse gradients
    buffer,
    split,  # SPLIT_DTYPE, out
    rights,  # (words,) uint64, out: categories that go right, or (0,) uint8
):
    """Write the best split of one node among the features of one task."""
    gradients = sums[0]
    hessians = sums[1]
    # The third histogram where rows are counted, else that of the hessians.
    rows = sums[sums.shape[0] - 1]
    total_g = np.int64(0)
    total_h = np.int64(0)
    total_n = np.int64(0)
    for c in range(every_row[0], every_row[1]):
        total_g += gradients[c]
        total_h += hessians[c]
        total_n += rows[c]
    total = NodeSums(total_g, total_h, total_n)
    split["total_gradient"] = total_g
    split["total_hessian"] = total_h
    keep_candidate(split, 0.0, -1, 0, 0, 0, np.int64(0), np.int64(0))
    screens = limits is None and is_coarse and may_screen(scales, rules)
    for j in range(candidates.chosen.size):
        feature = np.int64(candidates.chosen[j])
        if candidates.allowed.size > 0 and candidates.allowed[0, feature] == 0:
            continue
        start = features[feature]["cell"]
        stop = start + features[feature]["bins"]
        own = NodeSums(gradients[start:stop], hessians[start:stop], rows[start:stop])
        if screens and not features[feature]["is_categorical"]:
            screen_order(own, total, feature, scales, rules, buffer, split)
        else:
            search_feature(
                own,
                total,
                node,
                feature,
                features[feature]["is_categorical"],
                scales,
                rules,
                limits,
                buffer,
                split,
                rights,
            )
    settle_split(split, total_n, node, scales, rules, limits)


@inline
def tasks_of_histogram(bins):
    """Return into how many tasks the subtraction of a histogram is divided."""
    return (bins + JOIN_BINS - 1) // JOIN_BINS


@inline
def subtract_sibling(sums, built, parents, task):
    """Subtract a built histogram from its parent's, in the bins of one task."""
    tasks = tasks_of_histogram(sums.shape[2])
    child, parent = built[task // tasks], parents[task // tasks]
    begin = task % tasks * JOIN_BINS
    if parent >= 0:
        end = min(begin + JOIN_BINS, sums.shape[2])
        take_from_parent(sums, parent, child, begin, end)


@inline_view
def candidates_of(candidates, node, part):
    """Return the features of one task of a node."""
    chosen, allowed, block = candidates
    own = chosen[part * block : (part + 1) * block]
    return CandidateFeatures(own, allowed[node : node + 1], chosen.size)


@kernel
def find_splits(
    thread_id,
    n_threads,
    sync,
    histograms,  # NodeHistograms; the siblings' are computed in them
    candidates,  # CandidateFeatures
    scales,  # (2,) float64: the value of one unit of gradient and hessian sums
    rules,  # SplitRules
    limits,  # NodeConstraints of the nodes, or None
    scratch,  # (threads, 6, most candidates of a feature + 1) float64
    splits,  # (nodes, tasks a node) SPLIT_DTYPE, out
    sets,  # (nodes, tasks a node, words) uint64, out: categories that go right;
    # (nodes, tasks a node, 0) uint8 where no feature is categorical
):
    """Write the best split of each node among the features of each task.

    Before the search, built histograms are subtracted from those of the parents, which
    leaves the siblings'.

    Candidates come in XGBoost's order, and the first of equal ones wins. Features
    ascend. The bins of a numerical feature are searched upwards with missing values on
    the right; and, if the node has missing values of the feature, downwards with
    missing values on the left. An empty bin ties with the bin before it in this order,
    so it never wins.

    Of a feature of few categories each goes right alone, then with the missing values.
    More categories are sorted by the weight of each as a leaf (Fisher 1958): first the
    lowest go right, one more each time, and all others left with the missing values;
    then the highest go left, and all others right with the missing values. The rules
    may leave categories out of the order, which are then among all others, and cuts.
    """
    buffer = scratch[thread_id]
    sums, slots, built, parents, features, every_row = histograms
    tasks = built.size * tasks_of_histogram(sums.shape[2])
    task = next_task(sync, 0)
    while task < tasks:
        subtract_sibling(sums, built, parents, task)
        task = next_task(sync, 0)
    barrier(sync, n_threads)
    parts = splits.shape[1]
    task = next_task(sync, 1)
    while task < slots.size * parts:
        node, part = task // parts, task % parts
        search_node(
            sums[slots[node]],
            False,
            node,
            candidates_of(candidates, node, part),
            features,
            every_row,
            scales,
            rules,
            limits,
            buffer,
            splits[node, part],
            sets[node, part],
        )
        task = next_task(sync, 1)
