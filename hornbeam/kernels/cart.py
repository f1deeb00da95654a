"""Classification and regression trees (CART), each grown by one thread.

Boosting builds the histograms of a whole level at once, because levels have few nodes.
A tree that grows until its leaves are pure has about as many nodes as rows, and most of
them have a handful of rows. So a node is finished before the next one is begun: its
rows are sorted by the bins of a feature and scanned once. The trees of a forest are
independent, so that one tree is not divided among threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.cart_cut_search import NodeTargets
from hornbeam.kernels.cart_split import NodeScratch, gather, search_node
from hornbeam.kernels.impurity import class_gain
from hornbeam.kernels.jit import inline, kernel

__all__ = ["CartNodes", "CartScratch", "grow_tree", "place_cuts", "reach"]

_ONE = np.uint64(1)


class CartScratch(NamedTuple):
    """Scratch arrays of `grow_tree`.

    Attributes
    ----------
    node
        Of `search_node`.
    constants
        (open nodes, words) uint64: the features known to be constant in each node.
    open_nodes
        (open nodes,) int64.
    best
        (1,) BEST_DTYPE.
    goes_right
        (most categories,) uint8.
    """

    node: NodeScratch
    constants: NDArray[np.uint64]
    open_nodes: NDArray[np.int64]
    best: NDArray[Any]
    goes_right: NDArray[np.uint8]


class CartNodes(NamedTuple):
    """A tree.

    Attributes
    ----------
    nodes
        (nodes,) CART_DTYPE.
    categories
        (categories,) int32: the categories that go right, node after node.
    sums
        (nodes, sums) float64: weight and values, or the weight of each class.
    """

    nodes: NDArray[Any]
    categories: NDArray[np.int32]
    sums: NDArray[np.float64]


@kernel
def _send(keys, missing_code, is_categorical, goes_right, split):
    """Replace each key by whether the row goes right; return the rows that go left.

    If the node has no missing values of the feature, they will go with the majority.
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
def _partition(goes_right, items, rights):
    """Partition items stably: left ones first, then right ones.

    Each item is written to both outputs and one of the positions advances, so that
    there is no branch.
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


@inline
def _targets_of(targets, begin, end):
    """Return the targets of the rows from `begin` to `end`."""
    return NodeTargets(
        targets.weights[begin:end],
        targets.values[begin:end],
        targets.labels[begin:end],
    )


@kernel
def _add_up(n_classes, targets, begin, end, sums):
    """Sum weights and values, or the weights of each class."""
    weights = targets.weights[begin:end]
    values = targets.values[begin:end]
    labels = targets.labels[begin:end]
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
    """Return whether all rows have the same target."""
    i = 1
    while i < labels.size and labels[i] == labels[0]:
        i += 1
    return i >= labels.size


@inline
def _write_leaf(node, parent, depth, begin, end):
    """Write a node without a split, of the rows from `begin` to `end`."""
    node["parent"] = parent
    node["depth"] = depth
    node["begin"] = begin
    node["end"] = end
    node["left"] = -1
    node["feature"] = -1
    node["bin"] = 0
    node["next_bin"] = -1
    node["missing_left"] = 0
    node["n_categories"] = 0
    node["first_category"] = 0
    node["threshold"] = np.nan
    node["gain"] = 0.0


@kernel
def _may_split(depth, labels, rules):
    """Return whether the rules allow to split a node, and its targets differ."""
    return (
        labels.size >= rules.min_samples_split
        and depth < rules.max_depth
        and not _is_pure(labels)
    )


@kernel
def _gain_of(score, sums, rules):
    """Return the gain of the best split of a node."""
    if rules.n_classes == 0:
        return score / sums[0]
    weight = 0.0
    for k in range(rules.n_classes):
        weight += sums[k]
    return class_gain(rules.criterion, score, weight, sums)


@kernel
def _write_split(node, split, gain, table, goes_right, categories, n_categories):
    """Write the split of a node, and the categories that go right after the others.

    Return the number of categories, or -1 if they are too many.
    """
    f = split["feature"]
    node["feature"] = f
    node["gain"] = gain
    node["bin"] = split["bin"]
    node["next_bin"] = split["next_bin"]
    node["threshold"] = split["threshold"]
    node["missing_left"] = split["missing_left"]
    if not table.is_categorical[f]:
        return n_categories
    if n_categories + table.n_bins[f] > categories.size:
        return -1
    end = n_categories
    for code in range(table.n_bins[f]):
        categories[end] = code
        end += goes_right[code]
    node["first_category"] = n_categories
    node["n_categories"] = end - n_categories
    return end


@kernel
def _next_open(nodes, open_nodes, best_first):
    """Return the place of the node to divide next: the last, or that of most gain."""
    last = open_nodes.size - 1
    if not best_first:
        return last
    slot = last
    for i in range(open_nodes.size):
        gain = nodes[open_nodes[i]]["gain"]
        most = nodes[open_nodes[slot]]["gain"]
        if gain > most or (gain == most and open_nodes[i] < open_nodes[slot]):
            slot = i
    return slot


@kernel
def _divide(node, table, rules, rows, targets, categories, goes_right, scratch):
    """Sort the rows of a node and their targets by side; return how many go left."""
    f = np.int64(node["feature"])
    is_categorical = table.is_categorical[f]
    if is_categorical:
        goes_right[: table.n_bins[f]] = 0
        for i in range(node["n_categories"]):
            goes_right[categories[node["first_category"] + i]] = 1
    keys = scratch.keys[: rows.size]
    gather(table, f, rows, keys)
    n_left = _send(keys, table.n_bins[f], is_categorical, goes_right, node)
    _partition(keys, rows, scratch.bins)
    _partition(keys, targets.labels, scratch.bins)
    _partition(keys, targets.weights, scratch.seen.weights)
    if rules.n_classes == 0:
        _partition(keys, targets.values, scratch.seen.weights)
    return n_left


@kernel
def grow_tree(
    draws,  # `cart_split.TreeDraws`
    rows,  # (own rows,) int32: the sampled rows; in, and sorted by leaf out
    table,  # `cart_split.CartTable`
    rules,  # `cart_cut_search.CartRules`
    targets,  # `cart_cut_search.NodeTargets` of the rows; in, and sorted by leaf out
    scratch,  # CartScratch
    tree,  # CartNodes, out
):
    """Grow a tree; return its number of nodes, or -1 if it has too many categories."""
    nodes, categories, sums = tree
    constants, open_nodes = scratch.constants, scratch.open_nodes
    goes_right, split = scratch.goes_right, scratch.best[0]
    n_categories = 0
    n_nodes = 1
    n_leaves = 1
    n_open = 0
    _write_leaf(nodes[0], -1, 0, 0, rows.size)
    sums[0] = 0.0
    _add_up(rules.n_classes, targets, 0, rows.size, sums[0])
    inherited = constants[constants.shape[0] - 1]
    inherited[:] = np.uint64(0)
    first = 0  # of the new nodes
    while True:
        # Search the splits of new nodes: the root, or two children.
        for number in range(first, n_nodes):
            begin, end = nodes[number]["begin"], nodes[number]["end"]
            own = _targets_of(targets, begin, end)
            if not _may_split(nodes[number]["depth"], own.labels, rules):
                continue
            _copy(inherited, constants[n_open])
            search_node(
                draws,
                number,
                rows[begin:end],
                table,
                rules,
                own,
                sums[number],
                constants[n_open],
                scratch.node,
                split,
                goes_right,
            )
            if split["feature"] < 0:
                continue
            gain = _gain_of(split["score"], sums[number], rules)
            if gain < rules.min_gain:
                continue
            n_categories = _write_split(
                nodes[number], split, gain, table, goes_right, categories, n_categories
            )
            if n_categories < 0:
                return -1
            open_nodes[n_open] = number
            n_open += 1
        if n_open == 0 or n_leaves == rules.max_leaf_nodes:
            break
        slot = _next_open(nodes, open_nodes[:n_open], rules.max_leaf_nodes > 0)
        number = open_nodes[slot]
        n_open -= 1
        _copy(constants[slot], inherited)
        _copy(constants[n_open], constants[slot])
        open_nodes[slot] = open_nodes[n_open]
        node = nodes[number]
        begin, end = node["begin"], node["end"]
        own = _targets_of(targets, begin, end)
        n_left = _divide(
            node,
            table,
            rules,
            rows[begin:end],
            own,
            categories,
            goes_right,
            scratch.node,
        )
        middle = begin + n_left
        first = n_nodes
        node["left"] = first
        n_nodes += 2
        n_leaves += 1
        _write_leaf(nodes[first], number, node["depth"] + 1, begin, middle)
        _write_leaf(nodes[first + 1], number, node["depth"] + 1, middle, end)
        sums[first] = 0.0
        _add_up(rules.n_classes, targets, begin, middle, sums[first])
        for k in range(sums.shape[1]):
            sums[first + 1, k] = sums[number, k] - sums[first, k]
    for i in range(n_open):  # these stay leaves
        nodes[open_nodes[i]]["feature"] = -1
        nodes[open_nodes[i]]["gain"] = 0.0
        nodes[open_nodes[i]]["n_categories"] = 0
    return n_nodes


@kernel
def place_cuts(
    nodes,  # (nodes,) CART_DTYPE, in and out
    thresholds,  # (nodes,) float64: rows below go left; or NaN
    values,  # (bins,) float64: the least value of each bin, feature after feature
    starts,  # (features + 1,) int64: the first bin of each feature
):
    """Set the last left bin of each split by its threshold.

    It stays between the bins of the node that enclose the threshold.
    """
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
    table,  # `cart_split.CartTable`
    rows,  # (some,) int32
    nodes,  # (nodes,) CART_DTYPE
    categories,  # (categories,) int32
    swapped,  # a feature to permute, or -1
    others,  # (some,) int32: the rows that give the values of that feature
    leaves,  # (some,) int32, out
):
    """Write the leaf of each row."""
    by_row, bins, is_categorical = table.by_row, table.n_bins, table.is_categorical
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
