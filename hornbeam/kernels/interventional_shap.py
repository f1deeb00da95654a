"""Interventional SHAP values: contributions to margins relative to a background.

A coalition is a row whose features outside of it have the values of a background row;
contributions are means over the background. A coalition reaches a leaf if it contains
all features by which only the row follows the path, ``a`` of them, and none of those by
which only the background row does, ``b``; and if at each feature of the path one of the
two rows follows it. The Shapley value of such a game is, times the value of the leaf,

    (a - 1)! b! / (a + b)!    for each of the first
    - a! (b - 1)! / (a + b)!  for each of the second.

So a row is described at a leaf by one bit for each feature on the path: whether it
follows the path at that feature. If the features are few, background rows are counted
by their bits, and each leaf has a table of contributions by the bits of a row: a lookup
whose cost does not depend on the size of the background. If they are many, each leaf
lists the bits of the background rows, and for each feature the background rows that
follow it: only background rows that follow all features which the row does not follow
contribute, and they are few on a long path.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.bits import count_bits, lowest_bit
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.predict import goes_right, goes_right_mixed
from hornbeam.kernels.sync import next_task

__all__ = [
    "BITS_OF_WORD",
    "ROWS_OF_WORD",
    "BackgroundLists",
    "LeafTables",
    "ListScratch",
    "PathScratch",
    "explain_by_lists",
    "explain_by_tables",
    "list_background",
    "weigh_background",
]

#: Features per word of bits.
BITS_OF_WORD = 32
#: Background rows per word of bits.
ROWS_OF_WORD = 64
_ALL = ~np.uint32(0)
_ONE = np.uint32(1)
_ONE_OF_MANY = np.uint64(1)


class LeafTables(NamedTuple):
    """Contributions of leaves of value 1, by feature and by the bits of a row.

    Attributes
    ----------
    starts
        (edges + 1,) int64: the first entry of the leaf at the end of each edge.
    values
        (starts[-1],) float64: (features, 2 ** features) for each leaf.
    """

    starts: NDArray[np.int64]
    values: NDArray[np.float64]


class BackgroundLists(NamedTuple):
    """Which features of each leaf's path the background rows follow.

    Attributes
    ----------
    shares
        (background rows,) float64: the weights of the rows; those of the whole
        background have the sum 1.
    lacks
        (leaves, words, background rows) uint32: the features that are not followed.
    takers
        (features of leaves, words of rows) uint64: the rows that follow each feature.
    """

    shares: NDArray[np.float64]
    lacks: NDArray[np.uint32]
    takers: NDArray[np.uint64]


class PathScratch(NamedTuple):
    """Scratch arrays of rows that descend a tree together.

    Attributes
    ----------
    columns
        (threads, features, rows) float64.
    bits
        (threads, levels + 1, words, rows) uint32.
    named
        (threads, levels + 1) int64: the features of the bits.
    """

    columns: NDArray[np.float64]
    bits: NDArray[np.uint32]
    named: NDArray[np.int64]


class ListScratch(NamedTuple):
    """Scratch arrays of `explain_by_lists`.

    Attributes
    ----------
    rows
        Of rows that descend a tree together.
    met
        (threads, words of rows) uint64: background rows that contribute.
    gains
        (threads, levels + 1) float64: the contributions of one leaf.
    """

    rows: PathScratch
    met: NDArray[np.uint64]
    gains: NDArray[np.float64]


@inline
def _every(n, word):
    """Return the bits of a word that belong to `n` features."""
    others = BITS_OF_WORD * (word + 1) - n
    return np.uint32(np.uint64(_ALL) >> np.uint64(min(max(0, others), 63)))


@kernel
def _send_along(edge, columns, size, packed, bits):
    """Write the bits of rows at the end of an edge; rows that do not take it lose one.

    The bits of features further down are all set. `bits` are (levels + 1, words, rows).
    """
    place, level = np.uint64(edge["parent"]), edge["level"]
    node, threshold = packed.nodes[place], packed.thresholds[place]
    column = columns[edge["feature"], :size]
    side = np.int32(edge["is_right"])
    own, bit = edge["bit"] // BITS_OF_WORD, np.uint32(edge["bit"] % BITS_OF_WORD)
    for word in range(bits.shape[1]):
        if word != own:
            for i in range(size):
                bits[level, word, i] = bits[level - 1, word, i]
    above, below = bits[level - 1, own], bits[level, own]
    if packed.category_spans.shape[0] > 0 and packed.category_spans[place, 0] >= 0:
        for i in range(size):
            right = goes_right_mixed(column[i], place, node, threshold, packed)
            below[i] = above[i] & ~(np.uint32(right != side) << bit)
    else:
        for i in range(size):
            right = goes_right(column[i], node, threshold)
            below[i] = above[i] & ~(np.uint32(right != side) << bit)


@kernel
def _turn(data, begin, columns):
    """Write rows from `begin` on as columns; return their number."""
    size = min(columns.shape[1], data.shape[0] - begin)
    for i in range(size):
        for f in range(columns.shape[0]):
            columns[f, i] = data[begin + i, f]
    return size


@kernel
def _tabulate(counts, n, weights, table):
    """Write the contributions of `n` features at a leaf of value 1, by a row's bits.

    `counts` is (2**n,): the share of the background with each pattern of bits.
    """
    table[:] = 0.0
    every = (1 << n) - 1
    for bits in range(1 << n):
        share = counts[bits]
        if share == 0.0:
            continue
        # A row must follow what the background does not; of the rest, any subset.
        lacking = every & ~bits
        a = 0
        for j in range(n):
            a += (lacking >> j) & 1
        part = bits
        while True:
            lost = bits & ~part
            b = 0
            for j in range(n):
                b += (lost >> j) & 1
            for j in range(n):
                if (lacking >> j) & 1:
                    table[j, lacking | part] += share * weights[a, b]
                elif (lost >> j) & 1:
                    table[j, lacking | part] -= share * weights[b, a]
            if part == 0:
                break
            part = (part - 1) & bits


@kernel
def weigh_background(
    thread_id,
    n_threads,
    sync,
    data,  # (background rows, features) float64, row-major, NaN missing
    shares,  # (background rows,) float64, of sum 1
    packed,  # PackedNodes with float64 thresholds
    paths,  # `hornbeam.forest.tree_paths.TreePaths`
    weights,  # (features + 1, features + 1) float64: (a - 1)! b! / (a + b)!
    scratch,  # PathScratch
    counts,  # (threads, most patterns of a tree) float64, scratch
    tables,  # LeafTables, out
):
    """Write the tables of contributions of the leaves of trees."""
    trees, edges = paths.trees, paths.edges
    starts = tables.starts
    own_bits, own_columns = scratch.bits[thread_id], scratch.columns[thread_id]
    own_bits[0] = _ALL
    t = next_task(sync, 0)
    while t < trees.size:
        first, last = trees[t]["begin"], trees[t]["end"]
        own_counts = counts[thread_id]
        own_counts[:] = 0.0
        for begin in range(0, data.shape[0], own_columns.shape[1]):
            size = _turn(data, begin, own_columns)
            counted = 0
            for e in range(first, last):
                edge = edges[e]
                reached = own_bits[edge["level"], 0]
                _send_along(edge, own_columns, size, packed, own_bits)
                if edge["is_leaf"]:
                    every = _every(edge["features"], 0)
                    for i in range(size):
                        own_counts[counted + (reached[i] & every)] += shares[begin + i]
                    counted += 1 << edge["features"]
        counted = 0
        for e in range(first, last):
            if edges[e]["is_leaf"]:
                n = edges[e]["features"]
                table = tables.values[starts[e] : starts[e + 1]].reshape((n, 1 << n))
                _tabulate(own_counts[counted : counted + (1 << n)], n, weights, table)
                counted += 1 << n
        t = next_task(sync, 0)


@kernel
def explain_by_tables(
    thread_id,
    n_threads,
    sync,
    data,  # (rows, features) float64, row-major, NaN missing
    packed,  # PackedNodes with float64 thresholds
    values,  # (outputs, nodes) float32, or (1, nodes) of trees of one output each
    paths,  # `hornbeam.forest.tree_paths.TreePaths`
    tables,  # LeafTables, from `weigh_background`
    scratch,  # PathScratch
    found,  # (outputs, features, rows) float64, in and out
):
    """Add the contributions of features in trees that have tables."""
    trees, edges = paths.trees, paths.edges
    starts = tables.starts
    own_columns, own_bits, own_named = (
        scratch.columns[thread_id],
        scratch.bits[thread_id],
        scratch.named[thread_id],
    )
    together = own_columns.shape[1]
    own_bits[0] = _ALL
    task = next_task(sync, 0)
    while task * together < data.shape[0]:
        begin = task * together
        size = _turn(data, begin, own_columns)
        for t in range(trees.size):
            output = trees[t]["output"]
            for e in range(trees[t]["begin"], trees[t]["end"]):
                edge = edges[e]
                reached = own_bits[edge["level"], 0]
                _send_along(edge, own_columns, size, packed, own_bits)
                own_named[edge["bit"]] = edge["feature"]
                if edge["is_leaf"]:
                    n = edge["features"]
                    every = _every(n, 0)
                    table = tables.values[starts[e] : starts[e + 1]].reshape(
                        (n, 1 << n)
                    )
                    for k in range(values.shape[0]):
                        value = np.float64(values[k, edge["child"]])
                        sums = found[max(output, k)]
                        for j in range(n):
                            given = table[j]
                            own = sums[own_named[j], begin : begin + size]
                            for i in range(size):
                                own[i] += value * given[np.uint64(reached[i] & every)]
        task = next_task(sync, 0)


@kernel
def list_background(
    thread_id,
    n_threads,
    sync,
    data,  # (background rows, features) float64, row-major, NaN missing
    packed,  # PackedNodes with float64 thresholds
    paths,  # `hornbeam.forest.tree_paths.TreePaths`
    firsts,  # (trees, 2) int64: the first leaf of a tree, and its first feature
    scratch,  # PathScratch
    lists,  # BackgroundLists, out
):
    """Write which features of each leaf's path the background rows follow."""
    trees, edges = paths.trees, paths.edges
    lacks, takers = lists.lacks, lists.takers
    own_bits, own_columns = scratch.bits[thread_id], scratch.columns[thread_id]
    own_bits[0] = _ALL
    t = next_task(sync, 0)
    while t < trees.size:
        for begin in range(0, data.shape[0], own_columns.shape[1]):
            size = _turn(data, begin, own_columns)
            leaf, start = firsts[t, 0], firsts[t, 1]
            for e in range(trees[t]["begin"], trees[t]["end"]):
                edge = edges[e]
                _send_along(edge, own_columns, size, packed, own_bits)
                if edge["is_leaf"]:
                    n, reached = edge["features"], own_bits[edge["level"]]
                    for word in range(reached.shape[0]):
                        every = _every(n, word)
                        for i in range(size):
                            lacks[leaf, word, begin + i] = ~reached[word, i] & every
                    own_takers = takers[start : start + n]
                    for w in range(begin // ROWS_OF_WORD, own_takers.shape[1]):
                        own_takers[:, w] = ~np.uint64(0)
                    for z in range(begin, begin + size):
                        w, bit = z // ROWS_OF_WORD, np.uint64(z % ROWS_OF_WORD)
                        for word in range(reached.shape[0]):
                            lacking = np.uint64(lacks[leaf, word, z])
                            while lacking != 0:
                                j = word * BITS_OF_WORD + lowest_bit(lacking)
                                lacking &= lacking - _ONE_OF_MANY
                                own_takers[j, w] ^= _ONE_OF_MANY << bit
                    leaf += 1
                    start += n
        t = next_task(sync, 0)


@inline
def _meet(bits, i, n, lacks, takers, shares, weights, met, gains):
    """Write the contributions of `n` features of a row at a leaf of value 1.

    Returns False where they are all 0, because no background row follows all features
    that the row does not follow.
    """
    last = met.size - 1
    met[:] = ~np.uint64(0)
    met[last] >>= np.uint64((last + 1) * ROWS_OF_WORD - shares.size)
    b = 0
    for word in range(lacks.shape[0]):
        own = np.uint64(~bits[word, i] & _every(n, word))
        while own != 0:
            j = word * BITS_OF_WORD + lowest_bit(own)
            own &= own - _ONE_OF_MANY
            for w in range(met.size):
                met[w] &= takers[j, w]
            b += 1
    any_met = np.uint64(0)
    for w in range(met.size):
        any_met |= met[w]
    if any_met == 0:
        return False
    gains[:n] = 0.0
    loss = 0.0
    for w in range(met.size):
        these = met[w]
        while these != 0:
            z = w * ROWS_OF_WORD + lowest_bit(these)
            these &= these - _ONE_OF_MANY
            a = 0
            for word in range(lacks.shape[0]):
                a += count_bits(lacks[word, z])
            gain = shares[z] * weights[a, b]
            loss += shares[z] * weights[b, a]
            for word in range(lacks.shape[0]):
                others = np.uint64(lacks[word, z])
                while others != 0:
                    gains[word * BITS_OF_WORD + lowest_bit(others)] += gain
                    others &= others - _ONE_OF_MANY
    for word in range(lacks.shape[0]):
        own = np.uint64(~bits[word, i] & _every(n, word))
        while own != 0:
            gains[word * BITS_OF_WORD + lowest_bit(own)] = -loss
            own &= own - _ONE_OF_MANY
    return True


@kernel
def explain_by_lists(
    thread_id,
    n_threads,
    sync,
    data,  # (rows, features) float64, row-major, NaN missing
    packed,  # PackedNodes with float64 thresholds
    values,  # (outputs, nodes) float32, or (1, nodes) of trees of one output each
    paths,  # `hornbeam.forest.tree_paths.TreePaths`
    lists,  # BackgroundLists, from `list_background`
    weights,  # (features + 1, features + 1) float64: (a - 1)! b! / (a + b)!
    scratch,  # ListScratch
    found,  # (outputs, rows, features) float64, in and out
):
    """Add the contributions of features in trees whose background is listed."""
    trees, edges = paths.trees, paths.edges
    shares, lacks, takers = lists
    own_columns, own_bits, own_named = (
        scratch.rows.columns[thread_id],
        scratch.rows.bits[thread_id],
        scratch.rows.named[thread_id],
    )
    own_met, own_gains = scratch.met[thread_id], scratch.gains[thread_id]
    together = own_columns.shape[1]
    own_bits[0] = _ALL
    task = next_task(sync, 0)
    while task * together < data.shape[0]:
        begin = task * together
        size = _turn(data, begin, own_columns)
        leaf, start = 0, 0
        for t in range(trees.size):
            output = trees[t]["output"]
            for e in range(trees[t]["begin"], trees[t]["end"]):
                edge = edges[e]
                _send_along(edge, own_columns, size, packed, own_bits)
                own_named[edge["bit"]] = edge["feature"]
                if edge["is_leaf"]:
                    n, reached = edge["features"], own_bits[edge["level"]]
                    takers_here = takers[start : start + n]
                    for i in range(size):
                        if _meet(
                            reached, i, n, lacks[leaf], takers_here, shares, weights,
                            own_met, own_gains,
                        ):  # fmt: skip
                            for k in range(values.shape[0]):
                                value = np.float64(values[k, edge["child"]])
                                sums = found[max(output, k), begin + i]
                                for j in range(n):
                                    sums[own_named[j]] += value * own_gains[j]
                    leaf += 1
                    start += n
        task = next_task(sync, 0)
