"""The best split of a node, from its histogram."""

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
from hornbeam.kernels.layout import JOIN_CELLS
from hornbeam.kernels.node_constraints import score_limited, weigh_sides
from hornbeam.kernels.sync import barrier, next_task

__all__ = [
    "TINY",
    "find_splits",
    "gain_of",
    "keep_candidate",
    "search_cuts",
    "search_one_way",
    "settle_split",
]

#: The least hessian of a child: above zero, also where min_child_weight is zero.
TINY = np.finfo(np.float64).tiny


@inline
def gain_of(gradient, hessian, rules):
    return maths.leaf_gain(gradient, hessian, rules[0], rules[1], rules[2])


@inline
def _score_cuts(
    sums_g, sums_h, count, extra_g, extra_h, total_g, total_h, steps, rules, scores
):
    """Score the cuts that leave ``sums[k] + extra`` on the left; return the highest.

    The score is the gain of both children. A cut that leaves too small a hessian on
    one side scores 0. The loop has no branches, so that the compiler can work in
    vectors; so does the maximum, taken over the bits: non-negative floats are ordered
    as their bits are.
    """
    gradient_step, hessian_step = steps[0], steps[1]
    least = max(rules[3], TINY)
    node_g = total_g * gradient_step
    node_h = total_h * hessian_step
    for k in range(count):
        g = (sums_g[k] + extra_g) * gradient_step
        h = (sums_h[k] + extra_h) * hessian_step
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
    sums_g,
    sums_h,
    sums_n,
    count,
    extra_g,
    extra_h,
    extra_n,
    total_g,
    total_h,
    total_n,
    node,
    feature,
    steps,
    rules,
    limits,
    scores,
):
    """Score the cuts in the way of trees that are held to limits, or of others."""
    # Only what `limits` asks for is compiled, here and elsewhere: it is a type of None.
    if limits is None:
        return _score_cuts(
            sums_g,
            sums_h,
            count,
            extra_g,
            extra_h,
            total_g,
            total_h,
            steps,
            rules,
            scores,
        )
    return score_limited(
        sums_g,
        sums_h,
        sums_n,
        count,
        extra_g,
        extra_h,
        extra_n,
        total_g,
        total_h,
        total_n,
        node,
        feature,
        steps,
        rules,
        limits,
        scores,
    )


@inline
def keep_candidate(
    split, score, feature, last_bin, missing_left, is_categorical, left_g, left_h
):
    """Enter the best candidate so far; its score stands where the gain will."""
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


@kernel
def settle_split(split, total_n, node, steps, rules, limits):
    """Take the node's own gain from the score of its best split.

    Under limits the score is the gain already, and the children weigh something.
    """
    if limits is not None:
        weigh_sides(split, total_n, node, steps, rules, limits)
    elif split["feature"] >= 0:
        node_g = split["total_gradient"] * steps[0]
        node_h = split["total_hessian"] * steps[1]
        split["gain"] -= gain_of(node_g, node_h, rules)


@kernel
def search_one_way(
    down,
    sums_g,
    sums_h,
    sums_n,
    count,
    total_g,
    total_h,
    total_n,
    node,
    feature,
    steps,
    rules,
    limits,
    scores,
    split,
):
    """Look at the cuts between `count` bins with the missing on one side.

    Upwards, bin k and those below go left. Downwards, it and those above go right, and
    the missing go left with the rest.
    """
    missing_g = (total_g - sums_g[count]) * down
    missing_h = (total_h - sums_h[count]) * down
    missing_n = (total_n - sums_n[count]) * down if limits is not None else np.int64(0)
    highest = _score(
        sums_g[1 - down :],
        sums_h[1 - down :],
        sums_n[1 - down :],
        count,
        missing_g,
        missing_h,
        missing_n,
        total_g,
        total_h,
        total_n,
        node,
        feature,
        steps,
        rules,
        limits,
        scores,
    )
    if highest > split["gain"]:
        k = count - 1 if down else 0
        while scores[k] != highest:
            k += 1 - 2 * down
        best_g = sums_g[k + 1 - down] + missing_g
        best_h = sums_h[k + 1 - down] + missing_h
        keep_candidate(split, highest, feature, k - down, down, 0, best_g, best_h)
        if limits is not None:
            split["left_rows"] = sums_n[k + 1 - down] + missing_n


@kernel
def search_cuts(
    sums_g,
    sums_h,
    sums_n,
    count,
    total_g,
    total_h,
    total_n,
    node,
    feature,
    steps,
    rules,
    limits,
    scores,
    split,
):
    """Look at the cuts between `count` bins; ``sums[k]`` is of those below bin k.

    Rows count only under limits.
    """
    missing_g = total_g - sums_g[count]
    missing_h = total_h - sums_h[count]
    missing_n = total_n - sums_n[count] if limits is not None else np.int64(0)
    for down in range(2 if (missing_g | missing_h | missing_n) != 0 else 1):
        search_one_way(
            down,
            sums_g,
            sums_h,
            sums_n,
            count,
            total_g,
            total_h,
            total_n,
            node,
            feature,
            steps,
            rules,
            limits,
            scores,
            split,
        )


@kernel
def _search_order(
    own_g,
    own_h,
    own_n,
    total_g,
    total_h,
    total_n,
    node,
    feature,
    steps,
    rules,
    limits,
    buffer,
    split,
):
    """Look at the cuts between the bins of an ordered feature."""
    sums_g = buffer[0].view(np.int64)
    sums_h = buffer[1].view(np.int64)
    sums_n = buffer[5].view(np.int64)
    left_g = np.int64(0)
    left_h = np.int64(0)
    for b in range(own_g.size):
        left_g += own_g[b]
        left_h += own_h[b]
        sums_g[b + 1] = left_g
        sums_h[b + 1] = left_h
    if limits is not None:
        for b in range(own_n.size):
            sums_n[b + 1] = sums_n[b] + own_n[b]
    search_cuts(
        sums_g,
        sums_h,
        sums_n,
        own_g.size,
        total_g,
        total_h,
        total_n,
        node,
        feature,
        steps,
        rules,
        limits,
        buffer[2],
        split,
    )


@inline
def _rank_categories(own_g, own_h, steps, rules, keys):
    """Write a key for each category that orders them by weight, then by number.

    A category of too small a hessian weighs nothing, as in XGBoost, whose weights
    are float32 too.
    """
    least = max(rules[3], TINY)
    for c in range(own_g.size):
        h = own_h[c] * steps[1]
        weight = maths.leaf_weight(own_g[c] * steps[0], h, rules[0], rules[1], rules[2])
        keys[c] = order_key(weight if h >= least else 0.0, c)


@kernel
def _search_categories(
    own_g,
    own_h,
    own_n,
    total_g,
    total_h,
    total_n,
    node,
    feature,
    steps,
    rules,
    limits,
    buffer,
    split,
    rights,
):
    """Look at the ways to part the categories of a feature, see `find_splits`."""
    sums_g = buffer[0].view(np.int64)
    sums_h = buffer[1].view(np.int64)
    sums_n = buffer[5].view(np.int64)
    scores = buffer[2]
    keys = buffer[3].view(np.int64)[: own_g.size]
    one_hot = own_g.size < rules[4]
    groups = min(own_g.size, np.int64(rules[5])) - 1
    heap = buffer[4].view(np.int64)[:groups]
    if not one_hot:
        if groups < 1:
            return
        _rank_categories(own_g, own_h, steps, rules, keys)
    for backward in range(1 if one_hot else 2):
        # All bits but those of the category's number are the weight's.
        flip = np.int64(-backward)
        count = groups
        if one_hot:
            count = 2 * own_g.size
            sum_single(own_g, total_g, sums_g)
            sum_single(own_h, total_h, sums_h)
            if limits is not None:
                sum_single(own_n, total_n, sums_n)
        else:
            select_least(keys, flip, heap)
            sum_in_order(own_g, heap, flip, sums_g)
            sum_in_order(own_h, heap, flip, sums_h)
            if limits is not None:
                sum_in_order(own_n, heap, flip, sums_n)
        # Which side the sums are of does not matter to the score.
        highest = _score(
            sums_g[1:],
            sums_h[1:],
            sums_n[1:],
            count,
            np.int64(0),
            np.int64(0),
            np.int64(0),
            total_g,
            total_h,
            total_n,
            node,
            feature,
            steps,
            rules,
            limits,
            scores,
        )
        if highest > split["gain"]:
            k = 0
            while scores[k] != highest:
                k += 1
            side_g, side_h = sums_g[k + 1], sums_h[k + 1]
            if not backward:
                side_g, side_h = total_g - side_g, total_h - side_h
            missing_left = 1 - (k & 1) if one_hot else 1 - backward
            keep_candidate(split, highest, feature, 0, missing_left, 1, side_g, side_h)
            if limits is not None:
                side_n = sums_n[k + 1]
                split["left_rows"] = side_n if backward else total_n - side_n
            list_rights(own_g.size, backward, rights)
            if one_hot:
                toggle(k >> 1, rights)
            else:
                for i in range(k + 1):
                    toggle((heap[i] ^ flip) & 0xFFFFFFFF, rights)


def _search_if_there_are(
    own_g,
    own_h,
    own_n,
    total_g,
    total_h,
    total_n,
    node,
    feature,
    steps,
    rules,
    limits,
    buffer,
    split,
    rights,
):
    """Search the categories of a feature, in a table that has any."""
    _search_categories(
        own_g,
        own_h,
        own_n,
        total_g,
        total_h,
        total_n,
        node,
        feature,
        steps,
        rules,
        limits,
        buffer,
        split,
        rights,
    )


def _search_nothing(
    own_g,
    own_h,
    own_n,
    total_g,
    total_h,
    total_n,
    node,
    feature,
    steps,
    rules,
    limits,
    buffer,
    split,
    rights,
):
    return


@overload(_search_if_there_are)
def _overload_search_if_there_are(
    own_g,
    own_h,
    own_n,
    total_g,
    total_h,
    total_n,
    node,
    feature,
    steps,
    rules,
    limits,
    buffer,
    split,
    rights,
):
    # Half of the time to compile is saved where there are no categories to search.
    return _search_nothing if rights.dtype == types.uint8 else _search_if_there_are


@kernel
def find_splits(
    thread_id,
    n_threads,
    sync,
    slots,  # (nodes,) int64: where each node's histogram is
    histograms,  # (slots, 2 or 3, cells) int64, in and out
    counted,  # (some,) int64: slots that were filled
    parents,  # (some,) int64: those of the parents, or -1
    totals,  # (2,) int64: from which to which cell each row is counted once
    chosen,  # (chosen,) uint64: the features to look at, ascending
    allowed,  # (nodes, features) uint8, or (0, 0): which of them at each node
    features,  # table of FEATURE_DTYPE
    steps,  # (2,) float64: value of one step of gradients and of hessians
    rules,  # (8,) float64, see `backends.interface.SplitParams.rules`
    limits,  # `NodeConstraints` of the nodes, or None
    scratch,  # (members, 6, most candidates of a feature + 1) float64
    block,  # features of one task
    splits,  # (nodes, tasks a node) SPLIT_DTYPE, out
    sets,  # (nodes, tasks a node, words) uint64, out: categories that go right;
    # (nodes, tasks a node, 0) uint8 where no feature is categorical
):
    """Write the best split of each node among the features of each task.

    Before that histograms that were counted are taken from those of the parents, where
    those of the siblings are left.

    Candidates come in XGBoost's order, and the first of equal ones wins. Features
    ascend. Of an ordered one the bins are taken upwards with the missing on the right;
    and, if rows of the node miss the feature, downwards with the missing on the left.
    An empty bin cuts the rows as the one before it in this order, and so never wins.

    Of a feature of few categories each goes right alone, then with the missing. More
    categories are put in order by the weight that each would have as a leaf (Fisher
    1958): first the lowest go right, one more each time, and all others left with the
    missing; then the highest go left, and all others right with the missing.
    """
    buffer = scratch[thread_id]
    buffer[0].view(np.int64)[0] = 0
    buffer[1].view(np.int64)[0] = 0
    buffer[5].view(np.int64)[0] = 0
    cells = histograms.shape[2]
    shares = (cells + JOIN_CELLS - 1) // JOIN_CELLS
    task = next_task(sync, 0)
    while task < counted.size * shares:
        child, parent = counted[task // shares], parents[task // shares]
        begin = task % shares * JOIN_CELLS
        if parent >= 0:
            end = min(begin + JOIN_CELLS, cells)
            take_from_parent(histograms, parent, child, begin, end)
        task = next_task(sync, 0)
    barrier(sync, n_threads)
    parts = splits.shape[1]
    task = next_task(sync, 1)
    while task < slots.size * parts:
        node, part = task // parts, task % parts
        gradients = histograms[slots[node], 0]
        hessians = histograms[slots[node], 1]
        # The last are rows where these are counted.
        rows = histograms[slots[node], histograms.shape[1] - 1]
        total_g = np.int64(0)
        total_h = np.int64(0)
        total_n = np.int64(0)
        for c in range(totals[0], totals[1]):
            total_g += gradients[c]
            total_h += hessians[c]
            total_n += rows[c]
        split = splits[node, part]
        split["total_gradient"] = total_g
        split["total_hessian"] = total_h
        keep_candidate(split, 0.0, -1, 0, 0, 0, np.int64(0), np.int64(0))
        for j in range(part * block, min((part + 1) * block, chosen.size)):
            feature = np.int64(chosen[j])
            if allowed.size > 0 and allowed[node, feature] == 0:
                continue
            start = features[feature]["cell"]
            stop = start + features[feature]["bins"]
            own_g = gradients[start:stop]
            own_h = hessians[start:stop]
            own_n = rows[start:stop]
            if features[feature]["is_categorical"]:
                _search_if_there_are(
                    own_g,
                    own_h,
                    own_n,
                    total_g,
                    total_h,
                    total_n,
                    node,
                    feature,
                    steps,
                    rules,
                    limits,
                    buffer,
                    split,
                    sets[node, part],
                )
            else:
                _search_order(
                    own_g,
                    own_h,
                    own_n,
                    total_g,
                    total_h,
                    total_n,
                    node,
                    feature,
                    steps,
                    rules,
                    limits,
                    buffer,
                    split,
                )
        settle_split(split, total_n, node, steps, rules, limits)
        task = next_task(sync, 1)
