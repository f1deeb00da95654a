"""Path-dependent SHAP values and interaction values of trees.

A leaf whose path has `n` features is a game: features outside of a coalition are
unknown, and a row then takes each of their edges in part, by the cover. With ``o``,
whether the row takes all edges of a feature on the path, and ``z``, the product of
their cover ratios, the contribution of feature ``i`` is

    value * (o[i] - z[i]) * sum over coalitions S without i of
        |S|! (n - |S| - 1)! / n! * product of o over S * product of z over the others,

and since these weights are integrals of ``t ** |S| * (1 - t) ** (n - |S| - 1)``,

    value * (o[i] - z[i]) * integral of the product of all f[j], j other than i,
        f[j] = z[j] * (1 - t) + o[j] * t,

which is a polynomial of degree n - 1, so that Gauss-Legendre quadrature with ``n / 2``
points is exact. A row descends all edges of a tree, with one product for each point. On
the way back, the sum of values times products over all leaves below an edge, times
``(o - z) / f``, is the contribution of the edge's feature, minus the part that an edge
by the same feature above has already added.

The interaction of two features is the same with the factors of both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.predict import FEATURE, goes_right, goes_right_mixed, next_place
from hornbeam.kernels.sync import next_task

__all__ = ["ROWS_OF_PATH", "ShapScratch", "ShapValues", "explain_rows", "trace_rows"]

#: Rows that descend a tree together: enough to amortise the tables of a tree, and few
#: enough that their state at all levels stays in the cache of a core.
ROWS_OF_PATH = 128

#: The states of a row at an edge: it has not taken the edges by the same feature above;
#: it has taken those but not this one; it has taken all.
_STATES = 3


class ShapScratch(NamedTuple):
    """Scratch arrays of `explain_rows`; `rows` are those that descend together.

    Attributes
    ----------
    columns
        (threads, features, rows) float64.
    shares
        (threads, features, rows) float64: contributions.
    pairs
        (threads, features ** 2 or 0, rows) float64: interactions.
    weights
        (threads, edges of a tree, points, 2 * states) float64.
    open_edges
        (threads, levels + 1) int64.
    taken
        (threads, levels + 1, rows) int64.
    flows
        (threads, 3, levels + 1, points, rows) float64.
    """

    columns: NDArray[np.float64]
    shares: NDArray[np.float64]
    pairs: NDArray[np.float64]
    weights: NDArray[np.float64]
    open_edges: NDArray[np.int64]
    taken: NDArray[np.int64]
    flows: NDArray[np.float64]


class ShapValues(NamedTuple):
    """The output of `explain_rows`: one of the two arrays has rows.

    Attributes
    ----------
    names
        (features,) int64: the position of each feature in the output.
    single
        (rows, outputs, all features + 1) float64.
    pairs
        (rows, outputs, all + 1, all + 1) float64, or (0, 0, 0, 0).
    """

    names: NDArray[np.intp]
    single: NDArray[np.float64]
    pairs: NDArray[np.float64]


@inline
def _inverse(factor):
    """Return 1 / factor; 0 where the cover, and so the numerator, is 0."""
    return 1.0 / factor if factor > 0.0 else 0.0


@kernel
def _weigh_edges(edges, points, weights):
    """Write the product factor and the gain factor of each edge, point and state.

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
def _take_edge(column, edge, packed, before, taken):
    """Write which rows take an edge and those by the same feature above (`before`)."""
    place, side = np.uint64(edge["parent"]), edge["is_right"]
    node, threshold = packed.nodes[place], packed.thresholds[place]
    if packed.category_spans.shape[0] > 0 and packed.category_spans[place, 0] >= 0:
        for i in range(column.size):
            right = goes_right_mixed(column[i], place, node, threshold, packed)
            taken[i] = before[i] & np.int64(right == side)
    else:
        for i in range(column.size):
            right = goes_right(column[i], node, threshold)
            taken[i] = before[i] & np.int64(right == side)


@kernel
def _go_down(before, taken, weight, above, products, gains):
    """Multiply the products by the factors of an edge, and write its gain factors."""
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
    packed,  # PackedNodes with float64 thresholds
    values,  # (nodes,) of one output
    edges,  # of one tree
    weights,  # (edges, points, 2 * states)
    open_edges,  # (levels + 1,) the edges from the root to the current one
    taken,  # (levels + 1, rows) int64; 1 in the first
    flows,  # (3, levels + 1, points, rows): products, sums and gains
    shares,  # (features, rows) in and out
    pairs,  # (features * features, rows) in and out; (0, rows): no interactions
):
    """Add the contributions of features, and perhaps of pairs, in one tree."""
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
        _take_edge(column, edge, packed, before, own)
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
    data,  # (rows, features) float64, row-major, NaN missing
    packed,  # PackedNodes with float64 thresholds
    values,  # (outputs, nodes) float32, or (1, nodes) of trees of one output each
    paths,  # `hornbeam.forest.tree_paths.TreePaths`
    quadrature,  # (points + 1, 2, points) float64: by their number, points and weights
    scratch,  # ShapScratch
    found,  # ShapValues, out
):
    """Write the contributions of features, or of pairs, to the margins of rows."""
    rows, n_features = data.shape
    trees, edges = paths.trees, paths.edges
    names, single, pairs = found
    own_columns = scratch.columns[thread_id]
    own_shares = scratch.shares[thread_id]
    own_pairs = scratch.pairs[thread_id]
    own_taken = scratch.taken[thread_id]
    own_flows = scratch.flows[thread_id]
    together = own_columns.shape[1]
    own_taken[0] = 1
    task = next_task(sync, 0)
    while task * together < rows:
        begin = task * together
        size = min(together, rows - begin)
        for i in range(size):
            for f in range(n_features):
                own_columns[f, i] = data[begin + i, f]
        for k in range(single.shape[1]):
            own_shares[:] = 0.0
            own_pairs[:] = 0.0
            for t in range(trees.size):
                tree = trees[t]
                if tree["output"] >= 0 and tree["output"] != k:
                    continue
                n_points = tree["points"]
                own_edges = edges[tree["begin"] : tree["end"]]
                own_weights = scratch.weights[thread_id, : own_edges.size, :n_points]
                _weigh_edges(own_edges, quadrature[n_points, 0, :n_points], own_weights)
                for q in range(n_points):
                    own_flows[0, 0, q] = quadrature[n_points, 1, q]
                _follow(
                    own_columns,
                    size,
                    packed,
                    values[min(k, values.shape[0] - 1)],
                    own_edges,
                    own_weights,
                    scratch.open_edges[thread_id],
                    own_taken,
                    own_flows,
                    own_shares,
                    own_pairs,
                )
            if pairs.shape[0] == 0:
                for i in range(size):
                    for f in range(n_features):
                        single[begin + i, k, names[f]] = own_shares[f, i]
            else:
                for i in range(size):
                    _write_pairs(
                        own_shares[:, i], own_pairs[:, i], names, pairs[begin + i, k]
                    )
        task = next_task(sync, 0)


@inline
def _write_pairs(shares, pairs, names, found):
    """Write half of each interaction to either side, and the rest to the diagonal."""
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
    data,  # (rows, features) float64, row-major, NaN missing
    roots,  # (trees, 4) int32: root's position, depth, output, splits by category
    packed,  # PackedNodes with float64 thresholds
    means,  # (outputs, nodes) float64, or (1, nodes) of trees of one output each
    names,  # (features,) int64: the position of each feature in the output
    shares,  # (threads, features, rows that descend together) float64, scratch
    found,  # (rows, outputs, all features + 1) float64, out
):
    """Write approximate contributions: changes of the mean along the row's path."""
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
                            packed,
                            own_means,
                            own_shares[:, i],
                        )
            for i in range(block.shape[0]):
                for f in range(n_features):
                    found[begin + i, k, names[f]] = own_shares[f, i]
        task = next_task(sync, 0)


@inline
def _trace(row, root, packed, means, shares):
    """Add the change of the mean at each step of a row down one tree."""
    place = np.uint64(root[0])
    after = next_place(row, root[3] > 0, place, packed)
    while after != place:
        shares[packed.nodes[place] & FEATURE] += means[after] - means[place]
        place = after
        after = next_place(row, root[3] > 0, place, packed)
