"""Classification and regression trees, each grown whole by one thread.

Boosting sums up all nodes of a level at once, for there are few. A tree that is grown
until its leaves are pure has about as many nodes as rows, and most of them hold a
handful. So here a node is done with before the next is begun: its rows are sorted by
the codes of a feature, and gone through once. As trees of a forest do not wait for one
another, no tree is shared out among threads.
"""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.cart_split import gather, search_node
from hornbeam.kernels.impurity import class_gain
from hornbeam.kernels.jit import inline, kernel

__all__ = ["grow_tree", "place_cuts", "reach"]

_ONE = np.uint64(1)


@kernel
def _send(keys, missing_code, is_categorical, goes_right, split):
    """Write over each key whether the row goes right; return how many go left.

    Where no row of the node misses the feature, the missing go with most rows.
    """
    n_missing = 0
    n_right = 0
    last = split["bin"]
    missing_right = 1 - split["missing_left"]
    for i in range(keys.size):
        key = keys[i]
        if key == missing_code:
            n_missing += 1
            right = missing_right
        elif is_categorical:
            right = np.int32(goes_right[key])
        else:
            right = np.int32(key > last)
        keys[i] = right
        n_right += right
    if n_missing == 0:
        split["missing_left"] = 2 * n_right <= keys.size
    return keys.size - n_right


@kernel
def _part(goes_right, items, rights):
    """Bring the items that go left before those that go right, in order.

    Both writes are done and one place moves on, so that there is no branch.
    """
    n_left = np.uint64(0)
    n_right = np.uint64(0)
    for i in range(items.size):
        right = np.uint64(goes_right[i])
        item = items[i]
        items[n_left] = item
        rights[n_right] = item
        n_right += right
        n_left += _ONE - right
    for i in range(n_right):
        items[n_left + i] = rights[i]


@kernel
def _add_up(n_classes, weights, values, labels, sums):
    """Add up weights and values, or the weights of each class."""
    if n_classes > 0:
        for i in range(weights.size):
            sums[labels[i]] += weights[i]
        return
    for i in range(weights.size):
        sums[0] += weights[i]
        sums[1] += values[i]


@inline
def _copy(source, target):
    for i in range(source.size):
        target[i] = source[i]


@kernel
def _is_pure(labels):
    """Return whether all rows have one target."""
    i = 1
    while i < labels.size and labels[i] == labels[0]:
        i += 1
    return i >= labels.size


@kernel
def grow_tree(
    tree,  # uint64: its number
    key,  # uint64: the seed
    rows,  # (own rows,) int32: those of the bag; in, and sorted by leaf out
    table,  # codes (features, rows); bins (features,) int64: the missing have this
    # code; is_categorical (features,) uint8; values (codes,) float64: the least of
    # each code, feature after feature, and (features + 1,) int64: where each begins
    rules,  # criterion, classes (0: numbers), features to draw, whether to draw cuts
    targets,  # (own rows,) weights and values, float64, and labels, int32: of classes,
    # or numbers that are the same where the targets are; in, and sorted by leaf out
    limits,  # (4,) float64: least rows and weight of a leaf, least rows and gain of
    # what is split
    most_depth,
    most_leaves,  # 0: any number, and the last node first; else the best one first
    room,
    seen,
    lists,
    work,
    tails,  # missing, features, swaps
    constants,  # (open nodes, words) uint64, scratch
    open_nodes,  # (open nodes,) int64, scratch
    best,  # (1,) BEST_DTYPE, scratch
    goes_right,  # (most categories,) uint8, scratch
    sums,  # (nodes, sums) float64, out: weight and values, or the weight of each class
    categories,  # (categories,) int32, out: that go right, node after node
    nodes,  # (nodes,) CART_DTYPE, out
):
    """Grow a tree; return how many nodes it has, or -1 if it has more categories."""
    codes, by_row, bins, is_categorical, _, _ = table
    criterion, n_classes, _, _ = rules
    weights, values, labels = targets
    missing, features, swaps = tails
    split = best[0]
    n_sums = sums.shape[1]
    n_categories = 0
    n_nodes = 1
    n_leaves = 1
    n_open = 0
    sums[0] = 0.0
    _add_up(n_classes, weights, values, labels, sums[0])
    nodes[0]["parent"] = -1
    nodes[0]["depth"] = 0
    nodes[0]["begin"] = 0
    nodes[0]["end"] = rows.size
    inherited = constants[constants.shape[0] - 1]
    inherited[:] = np.uint64(0)
    first = 0  # of the nodes that are new
    while True:
        # Find out how to split what is new: the root, or two children.
        for node in range(first, n_nodes):
            begin, end = nodes[node]["begin"], nodes[node]["end"]
            nodes[node]["left"] = -1
            nodes[node]["feature"] = -1
            nodes[node]["bin"] = 0
            nodes[node]["next_bin"] = -1
            nodes[node]["missing_left"] = 0
            nodes[node]["n_categories"] = 0
            nodes[node]["first_category"] = 0
            nodes[node]["threshold"] = np.nan
            nodes[node]["gain"] = 0.0
            count = end - begin
            if count < limits[2] or nodes[node]["depth"] >= most_depth:
                continue
            if _is_pure(labels[begin:end]):
                continue
            _copy(inherited, constants[n_open])
            search_node(
                tree,
                key,
                node,
                rows[begin:end],
                table,
                rules,
                (weights[begin:end], values[begin:end], labels[begin:end]),
                sums[node],
                limits,
                constants[n_open],
                room,
                seen,
                lists,
                work,
                missing,
                features,
                swaps,
                split,
                goes_right,
            )
            f = split["feature"]
            if f < 0:
                continue
            if n_classes == 0:
                gain = split["score"] / sums[node, 0]
            else:
                weight = 0.0
                for k in range(n_classes):
                    weight += sums[node, k]
                gain = class_gain(criterion, split["score"], weight, sums[node])
            if gain < limits[3]:
                continue
            nodes[node]["feature"] = f
            nodes[node]["gain"] = gain
            nodes[node]["bin"] = split["bin"]
            nodes[node]["next_bin"] = split["next_bin"]
            nodes[node]["threshold"] = split["threshold"]
            nodes[node]["missing_left"] = split["missing_left"]
            if is_categorical[f]:
                if n_categories + bins[f] > categories.size:
                    return -1
                nodes[node]["first_category"] = n_categories
                for code in range(bins[f]):
                    categories[n_categories] = code
                    n_categories += goes_right[code]
                count = n_categories - nodes[node]["first_category"]
                nodes[node]["n_categories"] = count
            open_nodes[n_open] = node
            n_open += 1
        if n_open == 0 or n_leaves == most_leaves:
            break
        slot = n_open - 1
        if most_leaves > 0:
            for i in range(n_open):
                gain = nodes[open_nodes[i]]["gain"]
                most = nodes[open_nodes[slot]]["gain"]
                if gain > most or (gain == most and open_nodes[i] < open_nodes[slot]):
                    slot = i
        node = open_nodes[slot]
        n_open -= 1
        _copy(constants[slot], inherited)
        _copy(constants[n_open], constants[slot])
        open_nodes[slot] = open_nodes[n_open]
        begin, end = nodes[node]["begin"], nodes[node]["end"]
        f = nodes[node]["feature"]
        if is_categorical[f]:
            goes_right[: bins[f]] = 0
            for i in range(nodes[node]["n_categories"]):
                goes_right[categories[nodes[node]["first_category"] + i]] = 1
        keys = room[0]
        gather(codes, by_row, f, rows[begin:end], keys)
        middle = begin + _send(
            keys[: end - begin], bins[f], is_categorical[f], goes_right, nodes[node]
        )
        _part(keys, rows[begin:end], room[1])
        _part(keys, labels[begin:end], room[1])
        _part(keys, weights[begin:end], seen[0])
        if n_classes == 0:
            _part(keys, values[begin:end], seen[0])
        first = n_nodes
        for side in range(2):
            child = n_nodes
            nodes[child]["parent"] = node
            nodes[child]["depth"] = nodes[node]["depth"] + 1
            nodes[child]["begin"] = begin if side == 0 else middle
            nodes[child]["end"] = middle if side == 0 else end
            n_nodes += 1
        sums[first] = 0.0
        _add_up(
            n_classes,
            weights[begin:middle],
            values[begin:middle],
            labels[begin:middle],
            sums[first],
        )
        for k in range(n_sums):
            sums[first + 1, k] = sums[node, k] - sums[first, k]
        nodes[node]["left"] = first
        n_leaves += 1
    for i in range(n_open):  # no leaf was left for these
        nodes[open_nodes[i]]["feature"] = -1
        nodes[open_nodes[i]]["gain"] = 0.0
        nodes[open_nodes[i]]["n_categories"] = 0
    return n_nodes


@kernel
def place_cuts(
    nodes,  # (nodes,) CART_DTYPE, in and out
    thresholds,  # (nodes,) float64: what goes left is below; or NaN
    values,  # (codes,) float64: the least of each code, feature after feature
    starts,  # (features + 1,) int64: where those of each begin
):
    """Have codes go left whose values are below the threshold, between the two ends."""
    for i in range(nodes.size):
        if thresholds[i] == thresholds[i] and nodes[i]["next_bin"] >= 0:
            first = starts[nodes[i]["feature"]]
            last, beyond = nodes[i]["bin"], nodes[i]["next_bin"]
            while beyond - last > 1:
                middle = (last + beyond) >> 1
                if values[first + middle] < thresholds[i]:
                    last = middle
                else:
                    beyond = middle
            nodes[i]["bin"] = last


@kernel
def reach(
    table,  # see `grow_tree`
    rows,  # (some,) int32
    nodes,  # (nodes,) CART_DTYPE
    categories,  # (categories,) int32
    swapped,  # a feature, or -1
    others,  # (some,) int32: the rows whose values of that feature are taken instead
    leaves,  # (some,) int32, out
):
    """Write the leaf that each row comes to."""
    _, by_row, bins, is_categorical, _, _ = table
    for i in range(rows.size):
        node = 0
        while nodes[node]["left"] >= 0:
            f = nodes[node]["feature"]
            code = by_row[others[i] if f == swapped else rows[i], f]
            if code == bins[f]:
                right = 1 - nodes[node]["missing_left"]
            elif is_categorical[f]:
                right = 0
                begin = nodes[node]["first_category"]
                for j in range(begin, begin + nodes[node]["n_categories"]):
                    right |= categories[j] == code
            else:
                right = np.int32(code > nodes[node]["bin"])
            node = nodes[node]["left"] + right
        leaves[i] = node
