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
background is, rows look them up. In deep trees, each row goes down with each row of the
background, and both ways only where they part.
"""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.predict import FEATURE, goes_right, goes_right_mixed, next_place
from hornbeam.kernels.sync import next_task

__all__ = ["explain_by_tables", "explain_pairs", "weigh_background"]

_ONE = np.uint32(1)


@kernel
def _keep_bits(column, edge, nodes, thresholds, spans, rights, above, bits):
    """Write the bits of rows at the end of an edge; rows that do not take it lose its.

    Bits of features further down are all there.
    """
    place = np.uint64(edge["parent"])
    node, threshold = nodes[place], thresholds[place]
    side = np.int32(edge["is_right"])
    bit = np.uint32(edge["bit"])
    if spans.shape[0] > 0 and spans[place, 0] >= 0:
        for i in range(column.size):
            right = goes_right_mixed(column[i], place, node, threshold, spans, rights)
            bits[i] = above[i] & ~(np.uint32(right != side) << bit)
    else:
        for i in range(column.size):
            right = goes_right(column[i], node, threshold)
            bits[i] = above[i] & ~(np.uint32(right != side) << bit)


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
    member,
    members,
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
    bits,  # (members, levels + 1, the same rows) uint32, scratch
    counts,  # (members, most patterns of a tree) float64, scratch
    tables,  # (starts[-1],) float64, out
):
    """Write the tables of contributions of the leaves of trees."""
    own_bits, own_columns = bits[member], columns[member]
    for i in range(own_bits.shape[1]):
        own_bits[0, i] = ~np.uint32(0)
    t = next_task(sync, 0)
    while t < trees.size:
        first, last = trees[t]["begin"], trees[t]["end"]
        own_counts = counts[member]
        own_counts[:] = 0.0
        for begin in range(0, data.shape[0], own_columns.shape[1]):
            size = _turn(data, begin, own_columns)
            counted = 0
            for e in range(first, last):
                edge = edges[e]
                level = edge["level"]
                reached = own_bits[level, :size]
                _keep_bits(
                    own_columns[edge["feature"], :size], edge, nodes, thresholds,
                    spans, rights, own_bits[level - 1, :size], reached,
                )  # fmt: skip
                if edge["is_leaf"]:
                    every = (_ONE << np.uint32(edge["features"])) - _ONE
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
    member,
    members,
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
    bits,  # (members, levels + 1, the same rows) uint32, scratch
    named,  # (members, levels + 1) int64, scratch: the features of bits
    found,  # (outputs, features, rows) float64, in and out
):
    """Add what the features of rows contribute by trees that have tables."""
    own_bits, own_columns, own_named = bits[member], columns[member], named[member]
    together = own_columns.shape[1]
    for i in range(together):
        own_bits[0, i] = ~np.uint32(0)
    task = next_task(sync, 0)
    while task * together < data.shape[0]:
        begin = task * together
        size = _turn(data, begin, own_columns)
        for t in range(trees.size):
            output = trees[t]["output"]
            for e in range(trees[t]["begin"], trees[t]["end"]):
                edge = edges[e]
                level = edge["level"]
                reached = own_bits[level, :size]
                _keep_bits(
                    own_columns[edge["feature"], :size], edge, nodes, thresholds,
                    spans, rights, own_bits[level - 1, :size], reached,
                )  # fmt: skip
                own_named[edge["bit"]] = edge["feature"]
                if edge["is_leaf"]:
                    n = edge["features"]
                    every = (_ONE << np.uint32(n)) - _ONE
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


@inline
def _go_with(
    row,
    other,  # a row of the background
    share,
    root,
    nodes,
    thresholds,
    spans,
    rights,
    values,  # (outputs, nodes) float32, or (1, nodes)
    weights,
    stack,  # (levels + 1, 3) int64, scratch: ways still to go
    parted,  # (levels + 1,) int64, scratch: features in which the rows part
    sides,  # (features,) int64: 1 inside, -1 outside, 0 where they have not parted
    i,
    found,  # (outputs, features, rows)
):
    """Add what a row contributes against one row, in one tree."""
    mixed = root[3] > 0
    place = np.uint64(root[0])
    open_ways, n, inside = 0, 0, 0
    while True:
        own = next_place(row, mixed, place, nodes, thresholds, spans, rights)
        if own != place:
            feature = np.int64(nodes[place] & FEATURE)
            others = next_place(other, mixed, place, nodes, thresholds, spans, rights)
            if sides[feature] < 0:
                own = others
            elif sides[feature] == 0 and own != others:
                stack[open_ways, 0] = np.int64(others)
                stack[open_ways, 1], stack[open_ways, 2] = n, inside
                open_ways += 1
                parted[n], sides[feature] = feature, 1
                n += 1
                inside += 1
            place = own
            continue
        gain = share * weights[inside, n - inside]
        loss = share * weights[n - inside, inside]
        for k in range(values.shape[0]):
            value = np.float64(values[k, place])
            sums = found[max(root[2], k)]
            for j in range(n):
                part = gain if sides[parted[j]] > 0 else -loss
                sums[parted[j], i] += value * part
        kept = stack[open_ways - 1, 1] if open_ways > 0 else 0
        for j in range(kept, n):
            sides[parted[j]] = 0
        if open_ways == 0:
            return
        open_ways -= 1
        place = np.uint64(stack[open_ways, 0])
        n, inside = kept + 1, stack[open_ways, 2]
        sides[parted[kept]] = -1


@kernel
def explain_pairs(
    member,
    members,
    sync,
    data,  # (rows, features) float32 or float64, row-major, NaN missing
    background,  # (background rows, features) of the same type
    shares,  # (background rows,) float64, of sum 1
    roots,  # (trees, 4) int32: root's place, depth, output, splits by category
    nodes,  # (nodes,) uint64, see hornbeam.kernels.predict
    thresholds,  # (nodes,) of the type of data
    spans,  # (nodes, 2) int64: first word and number of categories; -1 by threshold
    rights,  # (words,) uint64: the categories that go right
    values,  # (outputs, nodes) float32, or (1, nodes) of trees of one output each
    weights,  # (levels + 1, levels + 1) float64: (a - 1)! b! / (a + b)!
    stack,  # (members, levels + 1, 3) int64, scratch
    parted,  # (members, levels + 1) int64, scratch
    sides,  # (members, features) int64, scratch
    found,  # (outputs, features, rows) float64, in and out
):
    """Add what the features of rows contribute by any trees, row against row."""
    sides[member, :] = 0
    i = next_task(sync, 0)
    while i < data.shape[0]:
        for t in range(roots.shape[0]):
            for z in range(background.shape[0]):
                _go_with(
                    data[i], background[z], shares[z], roots[t], nodes, thresholds,
                    spans, rights, values, weights, stack[member], parted[member],
                    sides[member], i, found,
                )  # fmt: skip
        i = next_task(sync, 0)
