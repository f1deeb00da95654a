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
    bins, is_categorical = table.n_bins, table.is_categorical
    criterion, n_classes = rules.criterion, rules.n_classes
    weights, values, labels = targets
    nodes, categories, sums = tree
    constants, open_nodes = scratch.constants, scratch.open_nodes
    goes_right, keys = scratch.goes_right, scratch.node.keys
    split = scratch.best[0]
    n_sums = sums.shape[1]
    n_categories = 0
    n_nodes = 1
    n_leaves = 1
    n_open = 0
    sums[0] = 0.0
    _add_up(n_classes, targets, 0, rows.size, sums[0])
    nodes[0]["parent"] = -1
    nodes[0]["depth"] = 0
    nodes[0]["begin"] = 0
    nodes[0]["end"] = rows.size
    inherited = constants[constants.shape[0] - 1]
    inherited[:] = np.uint64(0)
    first = 0  # of the new nodes
    while True:
        # Search the splits of new nodes: the root, or two children.
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
            if count < rules.min_samples_split:
                continue
            if nodes[node]["depth"] >= rules.max_depth:
                continue
            if _is_pure(labels[begin:end]):
                continue
            _copy(inherited, constants[n_open])
            search_node(
                draws,
                node,
                rows[begin:end],
                table,
                rules,
                NodeTargets(weights[begin:end], values[begin:end], labels[begin:end]),
                sums[node],
                constants[n_open],
                scratch.node,
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
            if gain < rules.min_gain:
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
        if n_open == 0 or n_leaves == rules.max_leaf_nodes:
            break
        slot = n_open - 1
        if rules.max_leaf_nodes > 0:
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
        f = np.int64(nodes[node]["feature"])
        if is_categorical[f]:
            goes_right[: bins[f]] = 0
            for i in range(nodes[node]["n_categories"]):
                goes_right[categories[nodes[node]["first_category"] + i]] = 1
        gather(table, f, rows[begin:end], keys)
        middle = begin + _send(
            keys[: end - begin], bins[f], is_categorical[f], goes_right, nodes[node]
        )
        _partition(keys, rows[begin:end], scratch.node.bins)
        _partition(keys, labels[begin:end], scratch.node.bins)
        _partition(keys, weights[begin:end], scratch.node.seen.weights)
        if n_classes == 0:
            _partition(keys, values[begin:end], scratch.node.seen.weights)
        first = n_nodes
        for side in range(2):
            child = n_nodes
            nodes[child]["parent"] = node
            nodes[child]["depth"] = nodes[node]["depth"] + 1
            nodes[child]["begin"] = begin if side == 0 else middle
            nodes[child]["end"] = middle if side == 0 else end
            n_nodes += 1
        sums[first] = 0.0
        _add_up(n_classes, targets, begin, middle, sums[first])
        for k in range(n_sums):
            sums[first + 1, k] = sums[node, k] - sums[first, k]
        nodes[node]["left"] = first
        n_leaves += 1
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
