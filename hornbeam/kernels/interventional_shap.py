"""What features contribute to the margins of rows, against rows of a background.

A coalition is a row with its own features inside, and those of a background row
outside; contributions are means over the background. A leaf is reached by a coalition
that has inside all features that only the row takes there, ``a`` of them, and outside
all that only the background row takes, ``b``; one that neither takes bars it. The
Shapley value of such a game is, times the value of the leaf,

    (a - 1)! b! / (a + b)!    for each of the first
    - a! (b - 1)! / (a + b)!  for each of the second.

So all that a leaf asks of a row is one bit for each feature on the way: whether it
takes it there. Where those are few, the background is counted by its bits, which gives
for each leaf a table of contributions by the bits of a row: however large the
background is, rows look them up. Where they are many, the bits of the background are
listed for each leaf, and which of its rows take each feature: those that a row meets
there take all that it lacks, and they are few where the way is long.
"""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.bits import count_bits, lowest_bit
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.predict import goes_right, goes_right_mixed
from hornbeam.kernels.sync import next_task

__all__ = [
    "BITS_OF_WORD",
    "ROWS_OF_WORD",
    "explain_by_lists",
    "explain_by_tables",
    "list_background",
    "weigh_background",
]

#: Features whose bits are in one word.
BITS_OF_WORD = 32
#: Rows of the background whose bits are in one word.
ROWS_OF_WORD = 64
_ALL = ~np.uint32(0)
_ONE = np.uint32(1)
_ONE_OF_MANY = np.uint64(1)


@inline
def _every(n, word):
    """Return the bits of a word that are of `n` features."""
    others = BITS_OF_WORD * (word + 1) - n
    return np.uint32(np.uint64(_ALL) >> np.uint64(min(max(0, others), 63)))


@kernel
def _send_along(edge, columns, size, nodes, thresholds, spans, rights, bits):
    """Write the bits of rows at the end of an edge; rows that do not take it lose its.

    Bits of features further down are all there. `bits` are (levels + 1, words, rows).
    """
    place, level = np.uint64(edge["parent"]), edge["level"]
    node, threshold = nodes[place], thresholds[place]
    column = columns[edge["feature"], :size]
    side = np.int32(edge["is_right"])
    own, bit = edge["bit"] // BITS_OF_WORD, np.uint32(edge["bit"] % BITS_OF_WORD)
    for word in range(bits.shape[1]):
        if word != own:
            for i in range(size):
                bits[level, word, i] = bits[level - 1, word, i]
    above, below = bits[level - 1, own], bits[level, own]
    if spans.shape[0] > 0 and spans[place, 0] >= 0:
        for i in range(size):
            right = goes_right_mixed(column[i], place, node, threshold, spans, rights)
            below[i] = above[i] & ~(np.uint32(right != side) << bit)
    else:
        for i in range(size):
            right = goes_right(column[i], node, threshold)
            below[i] = above[i] & ~(np.uint32(right != side) << bit)


@kernel
def _turn(data, begin, columns):
    """Write rows from `begin` on as columns; return how many there are."""
    size = min(columns.shape[1], data.shape[0] - begin)
    for i in range(size):
        for f in range(columns.shape[0]):
            columns[f, i] = data[begin + i, f]
    return size


@kernel
def _tabulate(counts, n, weights, table):
    """Write what a leaf of value 1 gives each of `n` features, by the bits of a row.

    `counts` is (2**n,): the share of the background with these bits.
    """
    table[:] = 0.0
    every = (1 << n) - 1
    for bits in range(1 << n):
        share = counts[bits]
        if share == 0.0:
            continue
        # What the background lacks a row must have; of the rest, any part.
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
    data,  # (background rows, features) float32 or float64, row-major, NaN missing
    shares,  # (background rows,) float64, of sum 1
    nodes,  # (nodes,) uint64, see hornbeam.kernels.predict
    thresholds,  # (nodes,) of the type of data
    spans,  # (nodes, 2) int64: first word and number of categories; -1 by threshold
    rights,  # (words,) uint64: the categories that go right
    trees,  # (trees,) WAYS_DTYPE
    edges,  # (edges,) EDGE_DTYPE
    starts,  # (edges + 1,) int64: where the tables of leaves begin
    weights,  # (features + 1, features + 1) float64: (a - 1)! b! / (a + b)!
    columns,  # (members, features, rows that go together) of the type of data, scratch
    bits,  # (members, levels + 1, 1, the same rows) uint32, scratch
    counts,  # (members, most patterns of a tree) float64, scratch
    tables,  # (starts[-1],) float64, out
):
    """Write the tables of contributions of the leaves of trees."""
    own_bits, own_columns = bits[thread_id], columns[thread_id]
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
                _send_along(
                    edge, own_columns, size, nodes, thresholds, spans, rights, own_bits
                )
                if edge["is_leaf"]:
                    every = _every(edge["features"], 0)
                    for i in range(size):
                        own_counts[counted + (reached[i] & every)] += shares[begin + i]
                    counted += 1 << edge["features"]
        counted = 0
        for e in range(first, last):
            if edges[e]["is_leaf"]:
                n = edges[e]["features"]
                table = tables[starts[e] : starts[e + 1]].reshape((n, 1 << n))
                _tabulate(own_counts[counted : counted + (1 << n)], n, weights, table)
                counted += 1 << n
        t = next_task(sync, 0)


@kernel
def explain_by_tables(
    thread_id,
    n_threads,
    sync,
    data,  # (rows, features) float32 or float64, row-major, NaN missing
    nodes,  # (nodes,) uint64, see hornbeam.kernels.predict
    thresholds,  # (nodes,) of the type of data
    spans,  # (nodes, 2) int64: first word and number of categories; -1 by threshold
    rights,  # (words,) uint64: the categories that go right
    values,  # (outputs, nodes) float32, or (1, nodes) of trees of one output each
    trees,  # (trees,) WAYS_DTYPE
    edges,  # (edges,) EDGE_DTYPE
    starts,  # (edges + 1,) int64: where the tables of leaves begin
    tables,  # (starts[-1],) float64, by `weigh_background`
    columns,  # (members, features, rows that go together) of the type of data, scratch
    bits,  # (members, levels + 1, 1, the same rows) uint32, scratch
    named,  # (members, levels + 1) int64, scratch: the features of bits
    found,  # (outputs, features, rows) float64, in and out
):
    """Add what the features of rows contribute by trees that have tables."""
    own_bits, own_columns, own_named = (
        bits[thread_id],
        columns[thread_id],
        named[thread_id],
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
                _send_along(
                    edge, own_columns, size, nodes, thresholds, spans, rights, own_bits
                )
                own_named[edge["bit"]] = edge["feature"]
                if edge["is_leaf"]:
                    n = edge["features"]
                    every = _every(n, 0)
                    table = tables[starts[e] : starts[e + 1]].reshape((n, 1 << n))
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
    data,  # (background rows, features) float32 or float64, row-major, NaN missing
    nodes,  # (nodes,) uint64, see hornbeam.kernels.predict
    thresholds,  # (nodes,) of the type of data
    spans,  # (nodes, 2) int64: first word and number of categories; -1 by threshold
    rights,  # (words,) uint64: the categories that go right
    trees,  # (trees,) WAYS_DTYPE
    edges,  # (edges,) EDGE_DTYPE
    firsts,  # (trees, 2) int64: the first leaf of a tree, and the first of its features
    columns,  # (members, features, rows that go together) of the type of data, scratch
    bits,  # (members, levels + 1, words, the same rows) uint32, scratch
    lacks,  # (leaves, words, background rows) uint32, out: the features not taken
    takers,  # (features of leaves, words of rows) uint64, out: who takes each feature
):
    """Write which features of each leaf's way each row of the background takes."""
    own_bits, own_columns = bits[thread_id], columns[thread_id]
    own_bits[0] = _ALL
    t = next_task(sync, 0)
    while t < trees.size:
        for begin in range(0, data.shape[0], own_columns.shape[1]):
            size = _turn(data, begin, own_columns)
            leaf, start = firsts[t, 0], firsts[t, 1]
            for e in range(trees[t]["begin"], trees[t]["end"]):
                edge = edges[e]
                _send_along(
                    edge, own_columns, size, nodes, thresholds, spans, rights, own_bits
                )
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
    """Write what a leaf of value 1 gives the `n` features of a row; return whether.

    It gives nothing where no row of the background takes all that the row lacks.
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
    data,  # (rows, features) float32 or float64, row-major, NaN missing
    shares,  # (background rows,) float64, of the whole background's sum 1
    nodes,  # (nodes,) uint64, see hornbeam.kernels.predict
    thresholds,  # (nodes,) of the type of data
    spans,  # (nodes, 2) int64: first word and number of categories; -1 by threshold
    rights,  # (words,) uint64: the categories that go right
    values,  # (outputs, nodes) float32, or (1, nodes) of trees of one output each
    trees,  # (trees,) WAYS_DTYPE
    edges,  # (edges,) EDGE_DTYPE
    lacks,  # (leaves, words, background rows) uint32, by `list_background`
    takers,  # (features of leaves, words of rows) uint64, by the same
    weights,  # (features + 1, features + 1) float64: (a - 1)! b! / (a + b)!
    columns,  # (members, features, rows that go together) of the type of data, scratch
    bits,  # (members, levels + 1, words, the same rows) uint32, scratch
    named,  # (members, levels + 1) int64, scratch: the features of bits
    met,  # (members, words of rows) uint64, scratch
    gains,  # (members, levels + 1) float64, scratch
    found,  # (outputs, rows, features) float64, in and out
):
    """Add what the features of rows contribute by trees whose background is listed."""
    own_bits, own_columns, own_named = (
        bits[thread_id],
        columns[thread_id],
        named[thread_id],
    )
    own_gains = gains[thread_id]
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
                _send_along(
                    edge, own_columns, size, nodes, thresholds, spans, rights, own_bits
                )
                own_named[edge["bit"]] = edge["feature"]
                if edge["is_leaf"]:
                    n, reached = edge["features"], own_bits[edge["level"]]
                    takers_here = takers[start : start + n]
                    for i in range(size):
                        if _meet(
                            reached, i, n, lacks[leaf], takers_here, shares, weights,
                            met[thread_id], own_gains,
                        ):  # fmt: skip
                            for k in range(values.shape[0]):
                                value = np.float64(values[k, edge["child"]])
                                sums = found[max(output, k), begin + i]
                                for j in range(n):
                                    sums[own_named[j]] += value * own_gains[j]
                    leaf += 1
                    start += n
        task = next_task(sync, 0)
