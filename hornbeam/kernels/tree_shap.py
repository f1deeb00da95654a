"""What each feature contributes to the margins of rows: Shapley values of trees.

A leaf that `n` features lead to is a game: features outside of a coalition count as
not known, and a row then takes each of their edges in part, by the cover. With ``o``,
whether the row takes all of a feature's edges to the leaf, and ``z``, the product of
their shares of cover, feature ``i`` contributes

    value * (o[i] - z[i]) * sum over coalitions S without i of
        |S|! (n - |S| - 1)! / n! * product of o over S * product of z over the others,

and since those weights are integrals of ``t ** |S| * (1 - t) ** (n - |S| - 1)``,

    value * (o[i] - z[i]) * integral of the product of all f[j], j other than i,
        f[j] = z[j] * (1 - t) + o[j] * t,

which is a polynomial of degree n - 1: ``n / 2`` points of Gauss and Legendre are exact.
So a row goes down all edges of a tree, with one product for each point; and on the way
back, sums of values times products, from all leaves below an edge, are what its feature
contributes, by the factor ``(o - z) / f``. Nothing is subtracted but the part that an
edge by the same feature above has counted.

Of two features the same holds with both factors: their interaction.
"""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.predict import FEATURE, goes_right, goes_right_mixed, next_place
from hornbeam.kernels.sync import next_task

__all__ = ["ROWS_OF_WAY", "explain_rows", "trace_rows"]

#: Rows that go down and up a tree side by side: so many that what is made for a tree is
#: soon made, and what they hold at all levels stays in the cache of a core.
ROWS_OF_WAY = 128

#: What a row has taken of a feature's edges to the end of one: not those above, those
#: above but not this one, or all.
_STATES = 3


@inline
def _inverse(factor):
    """Return 1 / factor; 0 where there are no rows, and nothing to divide."""
    return 1.0 / factor if factor > 0.0 else 0.0


@kernel
def _weigh_edges(edges, points, weights):
    """Write, for each edge, point and state, the factor of the products and the gain.

    `weights` is (edges, points, 2 * states) float64.
    """
    for e in range(edges.size):
        share, above = edges[e]["share"], edges[e]["share_above"]
        for q in range(points.size):
            t = points[q]
            for state in range(_STATES):
                took = 1.0 if state == 2 else 0.0
                took_above = 0.0 if state == 0 else 1.0
                factor = share * (1.0 - t) + took * t
                inverse_above = _inverse(above * (1.0 - t) + took_above * t)
                weights[e, q, state] = factor * inverse_above
                weights[e, q, _STATES + state] = (took - share) * _inverse(factor) - (
                    took_above - above
                ) * inverse_above


@kernel
def _take_edge(column, edge, nodes, thresholds, spans, rights, before, taken):
    """Write which rows take an edge, and those by the same feature above: `before`."""
    place = np.uint64(edge["parent"])
    node, threshold, side = nodes[place], thresholds[place], edge["is_right"]
    if spans.shape[0] > 0 and spans[place, 0] >= 0:
        for i in range(column.size):
            right = goes_right_mixed(column[i], place, node, threshold, spans, rights)
            taken[i] = before[i] & np.int64(right == side)
    else:
        for i in range(column.size):
            right = goes_right(column[i], node, threshold)
            taken[i] = before[i] & np.int64(right == side)


@kernel
def _go_down(before, taken, weight, above, products, gains):
    """Multiply the products by the factors of an edge, and note its gains."""
    m0, m1, m2 = weight[0], weight[1], weight[2]
    g0, g1, g2 = weight[3], weight[4], weight[5]
    for i in range(products.size):
        took, took_above = taken[i] != 0, before[i] != 0
        products[i] = above[i] * (m2 if took else (m1 if took_above else m0))
        gains[i] = g2 if took else (g1 if took_above else g0)


@kernel
def _follow(
    columns,  # (features, rows)
    count,  # of the rows
    nodes,
    thresholds,
    spans,
    rights,
    values,  # (nodes,) of one output
    edges,  # of one tree
    weights,  # (edges, points, 2 * states)
    open_edges,  # (levels + 1,) the edges from the root to where the rows are
    taken,  # (levels + 1, rows) int64; 1 in the first
    flows,  # (3, levels + 1, points, rows): products, sums and gains
    shares,  # (features, rows) in and out
    pairs,  # (features * features, rows) in and out; no rows at all if not asked for
):
    """Add what each feature, and each pair of them, contributes by one tree."""
    products, sums, gains = flows[0], flows[1], flows[2]
    n_points = weights.shape[1]
    n_features = columns.shape[0]
    top = 0
    for e in range(edges.size + 1):
        level = edges[e]["level"] if e < edges.size else 1
        while top >= level:
            # All leaves below the edge have been reached.
            feature = edges[open_edges[top]]["feature"]
            for q in range(n_points):
                below, gain = sums[top, q, :count], gains[top, q, :count]
                rest = sums[top - 1, q, :count]
                share = shares[feature, :count]
                for i in range(count):
                    share[i] += below[i] * gain[i]
                    rest[i] += below[i]
            if pairs.shape[0] > 0:
                for other in range(1, top):
                    above = edges[open_edges[other]]["feature"]
                    if above == feature:
                        continue
                    cell = min(above, feature) * n_features + max(above, feature)
                    pair = pairs[cell, :count]
                    for q in range(n_points):
                        below, gain = sums[top, q, :count], gains[top, q, :count]
                        gain_above = gains[other, q, :count]
                        for i in range(count):
                            pair[i] += below[i] * gain[i] * gain_above[i]
            top -= 1
        if e == edges.size:
            return
        edge = edges[e]
        before, own = taken[edge["above"], :count], taken[level, :count]
        column = columns[edge["feature"], :count]
        _take_edge(column, edge, nodes, thresholds, spans, rights, before, own)
        value = np.float64(values[edge["child"]]) if edge["is_leaf"] else 0.0
        for q in range(n_points):
            product = products[level, q, :count]
            _go_down(
                before,
                own,
                weights[e, q],
                products[level - 1, q, :count],
                product,
                gains[level, q, :count],
            )
            below = sums[level, q, :count]
            for i in range(count):
                below[i] = value * product[i]
        open_edges[level] = e
        top = level


@kernel
def explain_rows(
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
    quadrature,  # (points + 1, 2, points) float64: for each number, points and weights
    names,  # (features,) int64: where each feature is in the result
    columns,  # (members, features, rows that go together) of the type of data, scratch
    shares,  # (members, features, rows that go together) float64, scratch
    pairs,  # (members, features ** 2 or 0, the same rows) float64, scratch
    weights,  # (members, edges of a tree, points, 2 * states) float64, scratch
    open_edges,  # (members, levels + 1) int64, scratch
    taken,  # (members, levels + 1, the same rows) int64, scratch
    flows,  # (members, 3, levels + 1, points, the same rows) float64, scratch
    found,  # (rows, outputs, all features + 1) float32 or float64, out
    found_pairs,  # (rows, outputs, all + 1, all + 1) the same, or (0, 0, 0, 0), out
):
    """Write what the features contribute to the margins of rows, and pairs of them."""
    rows, n_features = data.shape
    own_columns, own_shares, own_pairs = (
        columns[thread_id],
        shares[thread_id],
        pairs[thread_id],
    )
    own_taken, own_flows = taken[thread_id], flows[thread_id]
    together = own_columns.shape[1]
    own_taken[0] = 1
    task = next_task(sync, 0)
    while task * together < rows:
        begin = task * together
        size = min(together, rows - begin)
        for i in range(size):
            for f in range(n_features):
                own_columns[f, i] = data[begin + i, f]
        for k in range(found.shape[1]):
            own_shares[:] = 0.0
            own_pairs[:] = 0.0
            for t in range(trees.size):
                tree = trees[t]
                if tree["output"] >= 0 and tree["output"] != k:
                    continue
                n_points = tree["points"]
                own_edges = edges[tree["begin"] : tree["end"]]
                own_weights = weights[thread_id, : own_edges.size, :n_points]
                _weigh_edges(own_edges, quadrature[n_points, 0, :n_points], own_weights)
                for q in range(n_points):
                    own_flows[0, 0, q] = quadrature[n_points, 1, q]
                _follow(
                    own_columns,
                    size,
                    nodes,
                    thresholds,
                    spans,
                    rights,
                    values[min(k, values.shape[0] - 1)],
                    own_edges,
                    own_weights,
                    open_edges[thread_id],
                    own_taken,
                    own_flows,
                    own_shares,
                    own_pairs,
                )
            if found_pairs.shape[0] == 0:
                for i in range(size):
                    for f in range(n_features):
                        found[begin + i, k, names[f]] = own_shares[f, i]
            else:
                for i in range(size):
                    _write_pairs(
                        own_shares[:, i],
                        own_pairs[:, i],
                        names,
                        found_pairs[begin + i, k],
                    )
        task = next_task(sync, 0)


@inline
def _write_pairs(shares, pairs, names, found):
    """Write half of what a pair contributes to either side, and the rest to itself."""
    n_features = shares.size
    for f in range(n_features):
        rest = shares[f]
        for g in range(n_features):
            if g != f:
                half = 0.5 * pairs[min(f, g) * n_features + max(f, g)]
                found[names[f], names[g]] = half
                rest -= half
        found[names[f], names[f]] = rest


@kernel
def trace_rows(
    thread_id,
    n_threads,
    sync,
    data,  # (rows, features) float32 or float64, row-major, NaN missing
    roots,  # (trees, 4) int32: root's place, depth, output, splits by category
    nodes,  # (nodes,) uint64, see hornbeam.kernels.predict
    thresholds,  # (nodes,) of the type of data; NaN at leaves
    spans,  # (nodes, 2) int64: first word and number of categories; -1 by threshold
    rights,  # (words,) uint64: the categories that go right
    means,  # (outputs, nodes) float64, or (1, nodes) of trees of one output each
    names,  # (features,) int64: where each feature is in the result
    shares,  # (members, features, rows that go together) float64, scratch
    found,  # (rows, outputs, all features + 1) float32 or float64, out
):
    """Write what each feature changes by the steps down the trees that ask for it."""
    rows, n_features = data.shape
    own_shares = shares[thread_id]
    together = own_shares.shape[1]
    task = next_task(sync, 0)
    while task * together < rows:
        begin = task * together
        block = data[begin : begin + together]
        for k in range(found.shape[1]):
            own_shares[:] = 0.0
            own_means = means[min(k, means.shape[0] - 1)]
            for t in range(roots.shape[0]):
                if means.shape[0] > 1 or roots[t, 2] == k:
                    for i in range(block.shape[0]):
                        _trace(
                            block[i],
                            roots[t],
                            nodes,
                            thresholds,
                            spans,
                            rights,
                            own_means,
                            own_shares[:, i],
                        )
            for i in range(block.shape[0]):
                for f in range(n_features):
                    found[begin + i, k, names[f]] = own_shares[f, i]
        task = next_task(sync, 0)


@inline
def _trace(row, root, nodes, thresholds, spans, rights, means, shares):
    """Add what each step of a row down one tree changes."""
    place = np.uint64(root[0])
    after = next_place(row, root[3] > 0, place, nodes, thresholds, spans, rights)
    while after != place:
        shares[nodes[place] & FEATURE] += means[after] - means[place]
        place = after
        after = next_place(row, root[3] > 0, place, nodes, thresholds, spans, rights)
