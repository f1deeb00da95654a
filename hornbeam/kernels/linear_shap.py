"""SHAP values of the terms of linear leaves, which `tree_shap` leaves out.

A term of a leaf counts where a row reaches the leaf and the term's feature ``j`` is
known; otherwise it is at its mean in the leaf, which is 0. So the game of a term is
that of a leaf (see `tree_shap`) with the term as its value and ``z[j] = 0``: for the
features ``i`` of the path,

    term * o[j] * integral of t * (o[i] - z[i]) * product of all f[k], k not i or j,
    term * o[j] * integral of the product of all f[k], k not j, for i = j,

where ``f[k] = z[k] * (1 - t) + o[k] * t``. Gauss-Legendre quadrature is exact.

Against a background a feature that is absent takes the value of a background row, so
that a term has the value of that row or of the explained one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.linear_leaves import term_value
from hornbeam.kernels.predict import goes_right, goes_right_mixed, next_place
from hornbeam.kernels.sync import next_task

__all__ = [
    "LeafPaths",
    "TermScratch",
    "explain_terms",
    "explain_terms_against",
    "mark_takers",
    "trace_terms",
]

_TASK_ROWS = 32


class LeafPaths(NamedTuple):
    """The paths to the leaves that have terms.

    Attributes
    ----------
    outputs
        (leaves,) int64: the output that the tree adds to.
    sizes
        (leaves,) int64: the number of different features on the path, its slots.
    features
        (leaves, slots) int64: the column of each slot.
    shares
        (leaves, slots) float64: the product of the cover ratios of its edges.
    edges
        (leaves, edges, 3) int64: the upper node, whether it goes right, and its slot;
        -1 after the last.
    first_terms
        (leaves + 1,) int64.
    term_slots
        (terms,) int64: the slot of each term.
    terms
        (terms,) TERM_DTYPE, whose features are columns.
    """

    outputs: NDArray[np.int64]
    sizes: NDArray[np.int64]
    features: NDArray[np.int64]
    shares: NDArray[np.float64]
    edges: NDArray[np.int64]
    first_terms: NDArray[np.int64]
    term_slots: NDArray[np.int64]
    terms: NDArray[Any]


class TermScratch(NamedTuple):
    """Scratch arrays of a thread for the slots of one leaf.

    Attributes
    ----------
    taken
        (threads, slots) uint8: whether the row takes all edges of the slot.
    numbers
        (threads, 4, slots) float64.
    """

    taken: NDArray[np.uint8]
    numbers: NDArray[np.float64]


@inline
def _take_edges(row, leaf, paths, packed, taken):
    """Write for each slot of a leaf whether a row takes all of its edges."""
    for slot in range(paths.sizes[leaf]):
        taken[slot] = 1
    for e in range(paths.edges.shape[1]):
        place = paths.edges[leaf, e, 0]
        if place < 0:
            break
        node, threshold = packed.nodes[place], packed.thresholds[place]
        slot = paths.edges[leaf, e, 2]
        value = row[paths.features[leaf, slot]]
        if packed.category_spans.shape[0] > 0:
            right = goes_right_mixed(value, np.uint64(place), node, threshold, packed)
        else:
            right = goes_right(value, node, threshold)
        if right != paths.edges[leaf, e, 1]:
            taken[slot] = 0


@inline
def _set_values(row, leaf, paths, taken, values):
    """Write the terms of the slots that a row takes; return whether one is not 0.

    Return False as well if a slot that it does not take has no share: no coalition
    reaches the leaf then.
    """
    is_reached, has_value = True, False
    for slot in range(paths.sizes[leaf]):
        values[slot] = 0.0
        is_reached &= taken[slot] != 0 or paths.shares[leaf, slot] > 0.0
    for k in range(paths.first_terms[leaf], paths.first_terms[leaf + 1]):
        slot = paths.term_slots[k]
        if taken[slot] != 0:
            values[slot] = term_value(paths.terms[k], row[paths.features[leaf, slot]])
            has_value |= values[slot] != 0.0
    return is_reached and has_value


@kernel
def explain_terms(
    thread_id,
    n_threads,
    sync,
    data,  # (rows, columns) float64, NaN missing
    packed,  # PackedNodes with float64 thresholds
    paths,  # LeafPaths
    quadrature,  # (points + 1, 2, points) float64: by their number, points and weights
    scratch,  # TermScratch
    names,  # (columns,) int64: the position of each column in the output
    single,  # (rows, outputs, all features + 1) float64, or no rows; in and out
    pairs,  # (rows, outputs, all + 1, all + 1) float64, or no rows; in and out
):
    """Add the contributions of features, or of pairs, to the terms of leaves."""
    taken, numbers = scratch.taken[thread_id], scratch.numbers[thread_id]
    values, ratios, gains = numbers[0], numbers[1], numbers[2]
    rows, by_pairs = data.shape[0], pairs.shape[0] > 0
    task = next_task(sync, 0)
    while task * _TASK_ROWS < rows:
        for i in range(task * _TASK_ROWS, min((task + 1) * _TASK_ROWS, rows)):
            for leaf in range(paths.sizes.size):
                _take_edges(data[i], leaf, paths, packed, taken)
                if not _set_values(data[i], leaf, paths, taken, values):
                    continue
                size, output = paths.sizes[leaf], paths.outputs[leaf]
                n_points = (size + 1) // 2
                for q in range(n_points):
                    t = quadrature[n_points, 0, q]
                    product, total = quadrature[n_points, 1, q], 0.0
                    for slot in range(size):
                        share, took = paths.shares[leaf, slot], np.float64(taken[slot])
                        factor = share * (1.0 - t) + took * t
                        product *= factor
                        gains[slot] = (took - share) / factor
                        ratios[slot] = values[slot] / factor
                        total += ratios[slot]
                    for slot in range(size):
                        others = gains[slot] * t * (total - ratios[slot])
                        share = product * (others + ratios[slot])
                        name = names[paths.features[leaf, slot]]
                        if by_pairs:
                            pairs[i, output, name, name] += share
                        else:
                            single[i, output, name] += share
                    if by_pairs:
                        _add_pairs(
                            product,
                            t,
                            total,
                            leaf,
                            paths,
                            gains,
                            ratios,
                            names,
                            pairs[i, output],
                        )
        task = next_task(sync, 0)


@inline
def _add_pairs(product, t, total, leaf, paths, gains, ratios, names, pairs):
    """Add half of each interaction to either side, and take it from the diagonal."""
    for a in range(paths.sizes[leaf]):
        for b in range(a):
            others = gains[a] * gains[b] * t * (total - ratios[a] - ratios[b])
            both = others + ratios[a] * gains[b] + ratios[b] * gains[a]
            half = 0.5 * product * both
            one, other = names[paths.features[leaf, a]], names[paths.features[leaf, b]]
            pairs[one, other] += half
            pairs[other, one] += half
            pairs[one, one] -= half
            pairs[other, other] -= half


@kernel
def trace_terms(
    thread_id,
    n_threads,
    sync,
    data,  # (rows, columns) float64, NaN missing
    roots,  # (trees, 4) int32: root's position, depth, output, splits by category
    packed,  # PackedNodes with float64 thresholds
    nodes,  # NodeTerms
    names,  # (columns,) int64: the position of each column in the output
    found,  # (rows, outputs, all features + 1) float64, in and out
):
    """Add the terms of the leaves that rows reach to their features."""
    starts, terms = nodes
    rows = data.shape[0]
    task = next_task(sync, 0)
    while task * _TASK_ROWS < rows:
        for i in range(task * _TASK_ROWS, min((task + 1) * _TASK_ROWS, rows)):
            row = data[i]
            for t in range(roots.shape[0]):
                place = np.uint64(roots[t, 0])
                after = next_place(row, roots[t, 3] > 0, place, packed)
                while after != place:
                    place = after
                    after = next_place(row, roots[t, 3] > 0, place, packed)
                for k in range(starts[place], starts[place + np.uint64(1)]):
                    column = terms[k]["feature"]
                    value = term_value(terms[k], row[column])
                    found[i, roots[t, 2], names[column]] += value
        task = next_task(sync, 0)


@kernel
def mark_takers(
    thread_id,
    n_threads,
    sync,
    others,  # (background rows, columns) float64, NaN missing
    packed,  # PackedNodes with float64 thresholds
    paths,  # LeafPaths
    takers,  # (background rows, leaves, slots) uint8, out
):
    """Write which background rows take all edges of each slot."""
    rows = others.shape[0]
    task = next_task(sync, 0)
    while task * _TASK_ROWS < rows:
        for i in range(task * _TASK_ROWS, min((task + 1) * _TASK_ROWS, rows)):
            for leaf in range(paths.sizes.size):
                _take_edges(others[i], leaf, paths, packed, takers[i, leaf])
        task = next_task(sync, 0)


@kernel
def explain_terms_against(
    thread_id,
    n_threads,
    sync,
    data,  # (rows, columns) float64, NaN missing
    others,  # (background rows, columns) float64, NaN missing
    background_shares,  # (background rows,) float64
    packed,  # PackedNodes with float64 thresholds
    paths,  # LeafPaths
    takers,  # (background rows, leaves, slots) uint8
    weights,  # (slots + 2, slots + 2) float64: (a - 1)! b! / (a + b)!
    scratch,  # TermScratch
    found,  # (rows, outputs, columns) float64, in and out
):
    """Add the contributions to terms against all background rows.

    The row and a background row reach the leaf together where each slot is taken by one
    of them. The `a` slots that only the row takes have to be present, the `b` that only
    the other takes absent; a slot that both take changes its own term alone.
    """
    taken, changes = scratch.taken[thread_id], scratch.numbers[thread_id, 0]
    rows = data.shape[0]
    task = next_task(sync, 0)
    while task * _TASK_ROWS < rows:
        for i in range(task * _TASK_ROWS, min((task + 1) * _TASK_ROWS, rows)):
            for leaf in range(paths.sizes.size):
                _take_edges(data[i], leaf, paths, packed, taken)
                own = found[i, paths.outputs[leaf]]
                size = paths.sizes[leaf]
                for other in range(others.shape[0]):
                    takes = takers[other, leaf]
                    a = b = np.int64(0)
                    is_reached = True
                    for slot in range(size):
                        changes[slot] = 0.0
                        a += taken[slot] > takes[slot]
                        b += taken[slot] < takes[slot]
                        is_reached &= (taken[slot] | takes[slot]) != 0
                    if not is_reached:
                        continue
                    constant = changed = 0.0
                    for k in range(
                        paths.first_terms[leaf], paths.first_terms[leaf + 1]
                    ):
                        slot, term = paths.term_slots[k], paths.terms[k]
                        column = paths.features[leaf, slot]
                        value = term_value(term, data[i, column])
                        base = term_value(term, others[other, column])
                        if taken[slot] > takes[slot]:
                            constant += value
                        else:
                            constant += base
                        if taken[slot] == takes[slot]:
                            changes[slot] = value - base
                            changed += value - base
                    present = constant * weights[a, b] + changed * weights[a + 1, b]
                    absent = constant * weights[b, a] + changed * weights[b, a + 1]
                    part = background_shares[other]
                    for slot in range(size):
                        share = changes[slot] * weights[a + 1, b]
                        if taken[slot] > takes[slot]:
                            share = present
                        elif taken[slot] < takes[slot]:
                            share = -absent
                        own[paths.features[leaf, slot]] += part * share
        task = next_task(sync, 0)
