"""Linear leaves: ridge regressions in the leaves of a tree, and their predictions.

A leaf predicts its constant plus a term for some of the numerical features on its path
(Shi, Li and Li 2019, "Gradient boosting with piece-wise linear regression trees").

All sums are fixed-point integers, so that they do not depend on the order of rows. The
systems of equations are solved in float64 with additions, multiplications, divisions
and square roots in a fixed order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.binned_trees import bin_rows, reach_nodes, reach_slots
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import TASK_ROWS
from hornbeam.kernels.predict import any_missing, reach_leaves
from hornbeam.kernels.row_sets import SET_ROWS
from hornbeam.kernels.sync import barrier, next_task

__all__ = [
    "NodeTerms",
    "RegressedRows",
    "RegressionTables",
    "add_binned_linear_trees",
    "add_linear_leaves",
    "add_linear_trees",
    "centre_features",
    "list_path_features",
    "regress_leaves",
    "term_value",
    "write_terms",
]

#: A pivot below this share of its diagonal element is rounding error.
_LEAST_PIVOT = 2.0**-40
_LARGEST = float(np.finfo(np.float32).max)


class NodeTerms(NamedTuple):
    """The terms of linear leaves, node after node.

    Attributes
    ----------
    starts
        (nodes + 1,) int64: the first term of each node.
    terms
        (terms,) TERM_DTYPE; the features are columns of the rows.
    """

    starts: NDArray[np.int64]
    terms: NDArray[Any]


class RegressedRows(NamedTuple):
    """The rows whose gradients are regressed on features.

    Attributes
    ----------
    data
        (rows, columns) float32 or float64; NaN is missing.
    leaf_of
        (rows,) uint32: rows that are in no leaf have the number of leaves, or a higher
        one.
    gradients, hessians
        (rows,) float32 or float64.
    gradients_per_unit, hessians_per_unit
        1 / the units of fixed-point sums.
    """

    data: NDArray[Any]
    leaf_of: NDArray[np.uint32]
    gradients: NDArray[Any]
    hessians: NDArray[Any]
    gradients_per_unit: float
    hessians_per_unit: float


class RegressionTables(NamedTuple):
    """Memory of the regressions of all leaves.

    Attributes
    ----------
    values
        (threads, leaves, features, 2) int64, zeros before: sums of the hessians, and of
        their products with the features.
    ranges
        (threads, leaves, features, 2) float64, infinity and -infinity before.
    centred
        (6, leaves, features) float64: see `centre_features`.
    products
        (threads, leaves, cells) int64, zeros before: see `_sum_products`.
    distances
        (threads, features) float64.
    factor
        (features, features) float64.
    """

    values: NDArray[np.int64]
    ranges: NDArray[np.float64]
    centred: NDArray[np.float64]
    products: NDArray[np.int64]
    distances: NDArray[np.float64]
    factor: NDArray[np.float64]


@inline
def term_value(term, value):
    """Return the value of a term for a value of its feature."""
    inside = term["low"] if value < term["low"] else value
    inside = term["high"] if inside > term["high"] else inside
    part = term["slope"] * (inside - term["centre"])
    return part if value == value else 0.0


@inline
def leaf_value(row, constant, terms, begin, end):
    """Return what a leaf with these terms predicts of a row, as float32."""
    total = np.float64(constant)
    for k in range(np.uint64(begin), np.uint64(end)):
        term = terms[np.uint64(k)]
        total += term_value(term, np.float64(row[np.uint64(term["feature"])]))
    return np.float32(total)


@inline
def _add_leaves(block, places, begin, output, values, nodes, margins):
    """Add what the leaves predict of a block of rows from `begin` on to the margins."""
    starts, terms = nodes
    end = begin + places.size
    if margins.double.shape[0] == 0:
        single = margins.single[begin:end, np.uint64(output)]
        for i in range(single.size):
            place = np.uint64(places[i])
            first, last = starts[place], starts[place + np.uint64(1)]
            row = block[np.uint64(i)]
            single[i] += leaf_value(row, values[place], terms, first, last)
    else:
        double = margins.double[begin:end, np.uint64(output)]
        for i in range(double.size):
            place = np.uint64(places[i])
            first, last = starts[place], starts[place + np.uint64(1)]
            row = block[np.uint64(i)]
            double[i] += leaf_value(row, values[place], terms, first, last)


# Features and sums of leaves


@kernel
def list_path_features(
    feature,  # (nodes,) int64: the numerical feature of a node's split, or -1
    parent,  # (nodes,) int32; -1: none
    leaves,  # (leaves,) int64: nodes
    features,  # (leaves, most) int64, out: those nearest to the leaf first, then -1
):
    """Write the features on the paths to leaves; return how many a leaf has at most."""
    largest = 0
    for i in range(leaves.size):
        own, count = features[i], 0
        node = np.int64(parent[leaves[i]])
        while node >= 0 and count < own.size:
            found = feature[node]
            is_new = found >= 0
            for k in range(count):
                is_new &= own[k] != found
            if is_new:
                own[count] = found
                count += 1
            node = np.int64(parent[node])
        for k in range(count, own.size):
            own[k] = -1
        largest = max(largest, count)
    return largest


@inline
def _sum_values(thread_id, sync, rows, columns, spans, tables):
    """Sum the hessians, and the products with the features, of the rows of each leaf.

    And find the ranges of the features, which are between 0 and 1 in the products.
    """
    n_leaves = columns.shape[0]
    own_sums, own_ranges = tables.values[thread_id], tables.ranges[thread_id]
    task = next_task(sync, 0)
    while task * TASK_ROWS < rows.leaf_of.size:
        for i in range(
            task * TASK_ROWS, min((task + 1) * TASK_ROWS, rows.leaf_of.size)
        ):
            leaf = np.int64(rows.leaf_of[i])
            hessian = np.float64(rows.hessians[i])
            if leaf >= n_leaves or hessian == 0.0:
                continue
            units = np.int64(np.rint(hessian * rows.hessians_per_unit))
            row, own = rows.data[i], columns[leaf]
            sums, ranges = own_sums[leaf], own_ranges[leaf]
            for k in range(np.uint64(own.size)):
                if own[k] < 0:
                    break
                column = np.uint64(own[k])
                value = np.float64(row[column])
                if value == value:
                    share = (value - spans[column, 0]) * spans[column, 2]
                    weighted = hessian * share * rows.hessians_per_unit
                    sums[k, 0] += units
                    sums[k, 1] += np.int64(np.rint(weighted))
                    ranges[k, 0] = min(ranges[k, 0], value)
                    ranges[k, 1] = max(ranges[k, 1], value)
        task = next_task(sync, 0)


@kernel
def centre_features(
    sums,  # (threads, leaves, features, 2) int64: `RegressionTables.values`
    ranges,  # (threads, leaves, features, 2) float64
    hessians_per_unit,
    columns,  # (leaves, features) int64
    spans,  # (columns, 3) float64: the least value, the range, and 1 / the range
    centred,  # (6, leaves, features) float64, out
):
    """Write where the values of the features of each leaf are.

    The rows of `centred` are the sum of the hessians, the mean by hessians, the largest
    distance from there and its inverse, and the ends of the range. All but the first
    are 0 if the feature is missing or constant in the leaf.
    """
    for leaf in range(columns.shape[0]):
        for k in range(columns.shape[1]):
            total, product = np.int64(0), np.int64(0)
            low, high = np.inf, -np.inf
            for t in range(sums.shape[0]):
                total += sums[t, leaf, k, 0]
                product += sums[t, leaf, k, 1]
                low = min(low, ranges[t, leaf, k, 0])
                high = max(high, ranges[t, leaf, k, 1])
            for row in range(centred.shape[0]):
                centred[row, leaf, k] = 0.0
            weight = np.float64(total) / hessians_per_unit
            centred[0, leaf, k] = weight
            if not weight > 0.0:
                continue
            column = columns[leaf, k]
            share = np.float64(product) / hessians_per_unit / weight
            centre = spans[column, 0] + spans[column, 1] * share
            centre = min(max(centre, low), high)
            radius = max(high - centre, centre - low)
            inverse = 1.0 / radius
            if 0.0 < inverse < np.inf:
                centred[1, leaf, k], centred[2, leaf, k] = centre, radius
                centred[3, leaf, k] = inverse
                centred[4, leaf, k], centred[5, leaf, k] = low, high


@inline
def _sum_products(thread_id, sync, rows, columns, tables):
    """Sum the products of scaled features with gradients and with each other.

    The cells of a leaf are the products with gradients, followed by the lower triangle
    of those of two features and the hessian, row by row.
    """
    n_leaves, n_features = columns.shape
    own_sums, scaled = tables.products[thread_id], tables.distances[thread_id]
    task = next_task(sync, 1)
    while task * TASK_ROWS < rows.leaf_of.size:
        for i in range(
            task * TASK_ROWS, min((task + 1) * TASK_ROWS, rows.leaf_of.size)
        ):
            leaf = np.int64(rows.leaf_of[i])
            if leaf >= n_leaves:
                continue
            gradient = np.float64(rows.gradients[i]) * rows.gradients_per_unit
            hessian = np.float64(rows.hessians[i]) * rows.hessians_per_unit
            row, own, cells = rows.data[i], columns[leaf], own_sums[leaf]
            centres, inverses = tables.centred[1, leaf], tables.centred[3, leaf]
            place = np.uint64(n_features)
            for k in range(np.uint64(n_features)):
                if own[k] < 0:
                    break
                value = np.float64(row[np.uint64(own[k])])
                distance = (value - centres[k]) * inverses[k]
                scaled[k] = distance if value == value else 0.0
                cells[k] += np.int64(np.rint(gradient * scaled[k]))
                weighted = hessian * scaled[k]
                for other in range(k + np.uint64(1)):
                    product = np.int64(np.rint(weighted * scaled[other]))
                    cells[place + other] += product
                place += k + np.uint64(1)
        task = next_task(sync, 1)


@inline
def _solve_leaves(sums, units, hessians, linear_lambda, factor, slopes):
    """Write the slopes of the scaled features that ridge regressions find.

    The penalty is on standardised features, which adds a share to the diagonal. A
    feature that is constant, or a combination of those before it, has the slope 0.

    Parameters
    ----------
    sums
        (leaves, cells) int64: see `_sum_products`.
    units
        Of gradients and hessians.
    hessians
        (leaves, features): sums over the rows with the feature.
    factor
        (features, features), scratch.
    slopes
        (leaves, features), out.
    """
    n_features = hessians.shape[1]
    for leaf in range(sums.shape[0]):
        cells, own = sums[leaf], slopes[leaf]
        place = n_features
        for j in range(n_features):
            for k in range(j):
                total = cells[place] * units[1]
                for m in range(k):
                    total -= factor[j, m] * factor[k, m]
                factor[j, k] = total / factor[k, k] if factor[k, k] > 0.0 else 0.0
                place += 1
            weight = hessians[leaf, j]
            diagonal = 0.0
            if weight > 0.0:
                diagonal = cells[place] * units[1] * (1.0 + linear_lambda / weight)
            place += 1
            pivot = diagonal
            for k in range(j):
                pivot -= factor[j, k] * factor[j, k]
            factor[j, j] = np.sqrt(pivot) if pivot > _LEAST_PIVOT * diagonal else 0.0
            total = -(cells[j] * units[0])
            for k in range(j):
                total -= factor[j, k] * own[k]
            own[j] = total / factor[j, j] if factor[j, j] > 0.0 else 0.0
        for j in range(n_features - 1, -1, -1):
            total = own[j]
            for k in range(j + 1, n_features):
                total -= factor[k, j] * own[k]
            own[j] = total / factor[j, j] if factor[j, j] > 0.0 else 0.0


@kernel
def regress_leaves(
    thread_id,
    n_threads,
    sync,
    rows,  # RegressedRows
    columns,  # (leaves, features) int64: of the features of each leaf; then -1
    spans,  # (columns, 3) float64: the least value, the range, and 1 / the range
    linear_lambda,  # float64
    tables,  # RegressionTables
    slopes,  # (leaves, features) float64, out: of the scaled features
):
    """Regress the gradients of the rows of each leaf on its features."""
    _sum_values(thread_id, sync, rows, columns, spans, tables)
    barrier(sync, n_threads)
    if thread_id == 0:
        per_unit = rows.hessians_per_unit
        sums, ranges, centred = tables.values, tables.ranges, tables.centred
        centre_features(sums, ranges, per_unit, columns, spans, centred)
    barrier(sync, n_threads)
    _sum_products(thread_id, sync, rows, columns, tables)
    barrier(sync, n_threads)
    if thread_id == 0:
        products = tables.products
        for t in range(1, products.shape[0]):
            for leaf in range(products.shape[1]):
                for cell in range(products.shape[2]):
                    products[0, leaf, cell] += products[t, leaf, cell]
        units = 1.0 / rows.gradients_per_unit, 1.0 / rows.hessians_per_unit
        hessians = tables.centred[0]
        own = products[0]
        _solve_leaves(own, units, hessians, linear_lambda, tables.factor, slopes)


@kernel
def write_terms(
    steps,  # (leaves, features) float64: the change of a weight over a radius
    centred,  # (6, leaves, features) float64: see `centre_features`
    features,  # (leaves, features) int64
    values,  # (leaves,) float32
    learning_rate,
    starts,  # (leaves + 1,) int64, out
    terms,  # (leaves * features,) TERM_DTYPE, out
):
    """Write the terms of the leaves; return whether a leaf may be beyond float32."""
    count, is_beyond = 0, False
    starts[0] = 0
    for leaf in range(steps.shape[0]):
        reach = np.abs(np.float64(values[leaf]))
        for k in range(steps.shape[1]):
            step = learning_rate * steps[leaf, k]
            reach += np.abs(step)
            slope = step / centred[2, leaf, k]
            if np.isfinite(slope) and slope != 0.0:
                term = terms[count]
                term["feature"] = features[leaf, k]
                term["slope"] = slope
                term["centre"] = centred[1, leaf, k]
                term["low"], term["high"] = centred[4, leaf, k], centred[5, leaf, k]
                count += 1
        starts[leaf + 1] = count
        is_beyond |= not reach <= _LARGEST
    return is_beyond


# Predictions


@kernel
def add_linear_leaves(
    thread_id,
    n_threads,
    sync,
    data,  # (rows, columns) float32 or float64, NaN missing
    leaf_of,  # (rows,) uint32
    values,  # (leaves,) float32
    leaves,  # NodeTerms of the leaves
    margins,  # (rows,) float64, in and out
    single,  # whether sums are rounded to float32
):
    """Add to the margin of each row what its leaf predicts."""
    starts, terms = leaves
    rows = leaf_of.size
    task = next_task(sync, 0)
    while task * TASK_ROWS < rows:
        for i in range(task * TASK_ROWS, min((task + 1) * TASK_ROWS, rows)):
            leaf = np.int64(leaf_of[i])
            begin, end = starts[leaf], starts[leaf + 1]
            value = leaf_value(data[i], values[leaf], terms, begin, end)
            total = margins[i] + np.float64(value)
            margins[i] = np.float64(np.float32(total)) if single else total
        task = next_task(sync, 0)


@kernel
def add_linear_trees(
    thread_id,
    n_threads,
    sync,
    data,  # (rows, columns) float32 or float64, row-major, NaN missing
    roots,  # (trees, 4) int32: root's position, depth, output, splits by category
    packed,  # PackedNodes
    values,  # (nodes,) float32
    nodes,  # NodeTerms of the nodes
    scratch,  # DescentScratch
    margins,  # TypedMargins, in and out
):
    """Add what the leaves of all trees predict to the margins, in the trees' order."""
    rows = data.shape[0]
    together = scratch.places.shape[1]
    task = next_task(sync, 0)
    while task * together < rows:
        begin = task * together
        block = data[begin : begin + together]
        has_missing = any_missing(block)
        own = scratch.places[thread_id, : block.shape[0]]
        for t in range(roots.shape[0]):
            reach_leaves(block, has_missing, roots, t, packed, scratch, thread_id)
            _add_leaves(block, own, begin, roots[t, 2], values, nodes, margins)
        task = next_task(sync, 0)


@kernel
def add_binned_linear_trees(
    thread_id,
    n_threads,
    sync,
    data,  # (rows, columns) float32 or float64, row-major, NaN missing
    roots,  # (trees, 4) int32: as in `hornbeam.kernels.predict`
    binned,  # `hornbeam.forest.layout.BinnedLayout`
    values,  # (nodes,) float32
    nodes,  # NodeTerms of the nodes
    scratch,  # BinnedScratch
    margins,  # TypedMargins, in and out
):
    """Do the same as `add_linear_trees`, with rows that find their leaves by bins."""
    rows = data.shape[0]
    task = next_task(sync, 0)
    while task * SET_ROWS < rows:
        begin = task * SET_ROWS
        block = data[begin : begin + SET_ROWS]
        count = block.shape[0]
        for r in range(binned.runs.size):
            bin_rows(thread_id, r, block, binned, scratch)
            for t in range(binned.runs[r]["begin"], binned.runs[r]["end"]):
                reach_slots(thread_id, t, binned, scratch)
                reach_nodes(thread_id, t, count, binned, scratch)
                places = scratch.places[thread_id, :count]
                _add_leaves(block, places, begin, roots[t, 2], values, nodes, margins)
        task = next_task(sync, 0)
