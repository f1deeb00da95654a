"""The best split of a node, from its histogram."""

from __future__ import annotations

import numpy as np

from hornbeam.kernels import maths
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.sync import next_task

__all__ = ["find_splits"]

#: The least hessian of a child: above zero, also where min_child_weight is zero.
_TINY = np.finfo(np.float64).tiny


@inline
def _gain(gradient, hessian, rules):
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
    least = max(rules[3], _TINY)
    node_g = total_g * gradient_step
    node_h = total_h * hessian_step
    for k in range(count):
        g = (sums_g[k] + extra_g) * gradient_step
        h = (sums_h[k] + extra_h) * hessian_step
        score = _gain(g, h, rules) + _gain(node_g - g, node_h - h, rules)
        valid = (h >= least) & (node_h - h >= least)
        scores[k] = max(score, 0.0) if valid else 0.0
    bits = scores.view(np.int64)
    highest = np.int64(0)
    for k in range(count):
        highest = max(highest, bits[k])
    return np.int64(highest).view(np.float64)


@kernel
def find_splits(
    member,
    members,
    sync,
    slots,  # (nodes,) int64: where each node's histogram is
    histograms,  # (slots, 2, cells) int64
    totals,  # (2,) int64: from which to which cell each row is counted once
    chosen,  # (chosen,) uint64: the features to look at, ascending
    allowed,  # (nodes, features) uint8, or (0, 0): which of them at each node
    features,  # table of FEATURE_DTYPE
    steps,  # (2,) float64: value of one step of gradients and of hessians
    rules,  # (4,) float64: lambda, alpha, max_delta_step, min_child_weight
    scratch,  # (members, 3, most bins of a feature + 1) float64
    block,  # features of one task
    splits,  # (nodes, tasks a node) SPLIT_DTYPE, out
):
    """Write the best split of each node among the features of each task.

    Candidates come in XGBoost's order, and the first of equal ones wins: features
    ascending; for each the bins upwards with the missing on the right; and, if rows
    of the node miss the feature, downwards with the missing on the left. An empty bin
    cuts the rows as the one before it in this order, and so never wins.
    """
    buffer = scratch[member]
    sums_g = buffer[0].view(np.int64)
    sums_h = buffer[1].view(np.int64)
    scores = buffer[2]
    sums_g[0] = 0
    sums_h[0] = 0
    parts = splits.shape[1]
    task = next_task(sync, 0)
    while task < slots.size * parts:
        node, part = task // parts, task % parts
        gradients = histograms[slots[node], 0]
        hessians = histograms[slots[node], 1]
        total_g = np.int64(0)
        total_h = np.int64(0)
        for c in range(totals[0], totals[1]):
            total_g += gradients[c]
            total_h += hessians[c]
        best_score = 0.0
        best_feature = -1
        best_bin = 0
        best_missing_left = 0
        best_g = np.int64(0)
        best_h = np.int64(0)
        for j in range(part * block, min((part + 1) * block, chosen.size)):
            feature = np.int64(chosen[j])
            if allowed.size > 0 and allowed[node, feature] == 0:
                continue
            start = features[feature]["cell"]
            count = features[feature]["bins"]
            left_g = np.int64(0)
            left_h = np.int64(0)
            own_g = gradients[start : start + count]
            own_h = hessians[start : start + count]
            for b in range(count):
                left_g += own_g[b]
                left_h += own_h[b]
                sums_g[b + 1] = left_g
                sums_h[b + 1] = left_h
            missing_g = total_g - left_g
            missing_h = total_h - left_h
            # Upwards, bin k and those below go left. Downwards, it and those above go
            # right, and the missing go left with the rest.
            for down in range(2 if (missing_g | missing_h) != 0 else 1):
                highest = _score_cuts(
                    sums_g[1 - down :],
                    sums_h[1 - down :],
                    count,
                    missing_g * down,
                    missing_h * down,
                    total_g,
                    total_h,
                    steps,
                    rules,
                    scores,
                )
                if highest > best_score:
                    k = count - 1 if down else 0
                    while scores[k] != highest:
                        k += 1 - 2 * down
                    best_score = highest
                    best_feature = feature
                    best_bin = k - down
                    best_missing_left = down
                    best_g = sums_g[k + 1 - down] + missing_g * down
                    best_h = sums_h[k + 1 - down] + missing_h * down
        split = splits[node, part]
        split["total_gradient"] = total_g
        split["total_hessian"] = total_h
        split["feature"] = best_feature
        split["bin"] = best_bin
        split["missing_left"] = best_missing_left
        split["is_categorical"] = 0
        split["left_gradient"] = best_g
        split["left_hessian"] = best_h
        split["gain"] = 0.0
        if best_feature >= 0:
            node_gain = _gain(total_g * steps[0], total_h * steps[1], rules)
            split["gain"] = best_score - node_gain
        task = next_task(sync, 0)
