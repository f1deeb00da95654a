"""Gradients and metrics of learning to rank, query group by query group.

The list of a group is sorted by descending score, stably. A pair is two positions of a
list, the first above the second, whose labels differ. Each group is one task that sums
in its own order, so that results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels import maths
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import AVERAGE_PRECISION, GAIN, PRECISION
from hornbeam.kernels.sync import next_task

__all__ = [
    "LISTS",
    "PLACES",
    "GroupMetric",
    "LambdaRules",
    "QueryGroups",
    "RankScratch",
    "cross_entropy",
    "discount_places",
    "find_scales",
    "lambda_gradients",
    "measure_groups",
]

#: Arrays of floats and of integers that a thread needs, each as long as a list.
LISTS = 9
PLACES = 4
_SCORES, _LABELS, _GAINS, _HITS, _PRECISIONS, _PULLS, _HESSIANS, _STEPS, _CURVES = (
    range(LISTS)
)

#: Runs sorted by insertion before they are merged.
_RUN = 8
_LN2 = 6.93147180559945286227e-01
_LEAST_HESSIAN = 1e-16
#: The least position bias that is divided by.
_LEAST_BIAS = 1e-16
#: The lower bound of 1 - softmax where it is a divisor.
_LEAST_SHARE = 1e-9
_LANES_OF_DRAW = 4


class GroupMetric(NamedTuple):
    """A ranking metric.

    Attributes
    ----------
    kind
        GAIN, AVERAGE_PRECISION or PRECISION.
    depth
        The positions that count, at least 1.
    nothing
        The value of a group without a gain.
    """

    kind: int
    depth: int
    nothing: float


class QueryGroups(NamedTuple):
    """The query groups, with all that does not depend on scores.

    Attributes
    ----------
    targets
        (2, rows) float64: labels and gains.
    pointers
        (groups + 1,) int64: the first row of each group.
    factors
        (2, groups) float64: multiplied with changes of the metric, and with gradients.
    discounts
        (longest list,) float64.
    """

    targets: NDArray[np.float64]
    pointers: NDArray[np.int64]
    factors: NDArray[np.float64]
    discounts: NDArray[np.float64]


class LambdaRules(NamedTuple):
    """Which pairs LambdaMART uses, and how it weights them.

    Attributes
    ----------
    kind
        GAIN, AVERAGE_PRECISION or PRECISION: the metric whose change weights a pair.
    at_random
        Whether `count` pairs are drawn for each row; else pairs have a position among
        the first `count`.
    count
        See `at_random`.
    normalised
        Whether the gradients of a group are divided by the logarithm of their sum, or
        by the number of draws.
    by_distance
        Whether pairs are divided by the difference of their scores.
    """

    kind: int
    at_random: bool
    count: int
    normalised: bool
    by_distance: bool


class RankScratch(NamedTuple):
    """Scratch arrays, each as long as the longest list.

    Attributes
    ----------
    lists
        (threads, LISTS, longest list) float64.
    places
        (threads, PLACES, longest list) int64.
    """

    lists: NDArray[np.float64]
    places: NDArray[np.int64]


@kernel
def sort_falling(
    values,  # (n,) float64
    order,  # (n,) int64, out
    spare,  # (n,) int64
):
    """Write the stable order of the values, descending."""
    n = values.size
    for begin in range(0, n, _RUN):
        for i in range(begin, min(begin + _RUN, n)):
            place = i
            while place > begin and values[order[place - 1]] < values[i]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = i
    width = _RUN
    while width < n:
        for begin in range(0, n, 2 * width):
            middle, end = min(begin + width, n), min(begin + 2 * width, n)
            i, j = begin, middle
            for place in range(begin, end):
                second = j < end and (
                    i == middle or values[order[i]] < values[order[j]]
                )
                spare[place] = order[j] if second else order[i]
                i, j = (i, j + 1) if second else (i + 1, j)
        for place in range(n):
            order[place] = spare[place]
        width *= 2


@kernel
def discount_places(
    discounts,  # (longest list,) float64, out
):
    """Write the discount of each position, 1 / log2(position + 2)."""
    for place in range(discounts.size):
        discounts[place] = _LN2 / maths.log(place + 2.0)


@inline
def _discounted(gains, order, discounts, depth):
    """Return the discounted cumulative gain of this order, down to a depth."""
    total = 0.0
    for place in range(min(depth, order.size)):
        total += gains[order[place]] * discounts[place]
    return total


@kernel
def find_scales(
    thread_id,
    n_threads,
    sync,
    kind,
    depth,  # positions that count
    gains,  # (rows,) float64
    pointers,  # (groups + 1,) int64
    discounts,  # (longest list,) float64
    scales,  # (groups,) float64, out
    places,  # (threads, PLACES, longest list) int64
):
    """Write the factor of metric changes of each group; 0 without any gain.

    It is 1 / ideal DCG, or 1 / number of relevant rows.
    """
    task = next_task(sync, 0)
    while task < scales.size:
        own = gains[pointers[task] : pointers[task + 1]]
        total = 0.0
        if kind == GAIN:
            order = places[thread_id, 0, : own.size]
            sort_falling(own, order, places[thread_id, 1])
            total = _discounted(own, order, discounts, depth)
        else:
            for gain in own:
                total += gain
        scales[task] = 1.0 / total if total > 0.0 else 0.0
        task = next_task(sync, 0)


@kernel
def measure_groups(
    thread_id,
    n_threads,
    sync,
    metric,  # GroupMetric
    predictions,  # (rows,) float64
    gains,  # (rows,) float64
    pointers,  # (groups + 1,) int64
    discounts,  # (longest list,) float64
    values,  # (groups,) float64, out
    places,  # (threads, PLACES, longest list) int64
):
    """Write the metric of each group, 1 at best."""
    kind, depth, nothing = metric
    task = next_task(sync, 0)
    while task < values.size:
        begin, end = pointers[task], pointers[task + 1]
        own = gains[begin:end]
        order = places[thread_id, 0, : own.size]
        sort_falling(predictions[begin:end], order, places[thread_id, 1])
        shown = min(depth, own.size)
        if kind == GAIN:
            best = places[thread_id, 2, : own.size]
            sort_falling(own, best, places[thread_id, 1])
            total = _discounted(own, best, discounts, depth)
            found = _discounted(own, order, discounts, depth)
            values[task] = found / total if total > 0.0 else nothing
        else:
            hits = summed = 0.0
            for place in range(shown):
                hits += own[order[place]]
                summed += own[order[place]] * hits / (place + 1.0)
            if kind == PRECISION:
                values[task] = hits / shown
            else:
                for place in range(shown, own.size):
                    hits += own[order[place]]
                values[task] = summed / min(hits, depth) if hits > 0.0 else nothing
        task = next_task(sync, 0)


@inline
def _pair(distance, change):
    """Return the gradient of the better row of a pair, and the hessian of both.

    The loss is log(1 + e**-distance) times the change of the metric by a swap; the
    distance is the score of the better row minus that of the other.
    """
    wrong = maths.sigmoid(-distance)
    return -wrong * change, max(wrong * (1.0 - wrong), _LEAST_HESSIAN) * change * 2.0


@inline
def _change_of_gain(gain, other_gain, discount, other_discount):
    """Return the absolute change of DCG when two rows swap positions."""
    return abs((gain - other_gain) * (discount - other_discount))


@inline
def _change_of_precision(i, j, label, other_label, hits, other_hits, between):
    """Return the change of the sum of precisions when positions i < j swap rows.

    The hits are those down to each position; `between` is the sum of label / position
    from i + 1 to j - 1.
    """
    first, last = hits / (i + 1.0), other_hits / (j + 1.0)
    rises = last - first - 1.0 / (i + 1.0) - between
    falls = first - last + between
    return abs(rises if label < other_label else falls)


@kernel
def _begin_list(
    kind,
    scores,  # (n,) float64
    labels,  # (n,) float64
    gains,  # (n,) float64
    lists,  # (LISTS, longest list) float64, out
    places,  # (PLACES, longest list) int64, out: the first is the order
):
    """Sort a group and set its gradients to zero."""
    n = scores.size
    order = places[0, :n]
    sort_falling(scores, order, places[1])
    hits = precisions = 0.0
    for place in range(n):
        row = order[place]
        lists[_SCORES, place] = scores[row]
        lists[_LABELS, place] = labels[row]
        lists[_GAINS, place] = gains[row]
        lists[_PULLS, place] = 0.0
        lists[_HESSIANS, place] = 0.0
        if kind == AVERAGE_PRECISION:
            hits += labels[row]
            precisions += labels[row] / (place + 1.0)
            lists[_HITS, place] = hits
            lists[_PRECISIONS, place] = precisions


@inline
def _change_of_swap(i, j, kind, lists, discounts):
    """Return the change of the metric when the rows at positions i < j swap."""
    if kind == GAIN:
        return _change_of_gain(
            lists[_GAINS, i], lists[_GAINS, j], discounts[i], discounts[j]
        )
    if kind == AVERAGE_PRECISION:
        return _change_of_precision(
            i, j, lists[_LABELS, i], lists[_LABELS, j], lists[_HITS, i],
            lists[_HITS, j], lists[_PRECISIONS, j - 1] - lists[_PRECISIONS, i],
        )  # fmt: skip
    return 1.0


@kernel
def _add_pair(
    better, worse, rules, by_distance, scale, lists, order, discounts, bias, costs
):
    """Add the gradients of a pair of positions; return their magnitude."""
    i, j = min(better, worse), max(better, worse)
    distance = lists[_SCORES, better] - lists[_SCORES, worse]
    change = _change_of_swap(i, j, rules.kind, lists, discounts) * scale
    if by_distance:
        change /= abs(distance) + 0.01
    pull, hessian = _pair(distance, change)
    clicked, skipped = order[better], order[worse]
    if max(clicked, skipped) < bias.shape[1]:
        plus, minus = bias[0, clicked], bias[1, skipped]
        if min(plus, minus) >= _LEAST_BIAS:
            pull /= plus * minus
            hessian /= plus * minus
        cost = max(distance, 0.0) + maths.log(1.0 + maths.exp(-abs(distance)))
        if minus >= _LEAST_BIAS:
            costs[0, clicked] += cost * change / minus
        if plus >= _LEAST_BIAS:
            costs[1, skipped] += cost * change / plus
    lists[_PULLS, better] += pull
    lists[_PULLS, worse] -= pull
    lists[_HESSIANS, better] += hessian
    lists[_HESSIANS, worse] += hessian
    return abs(pull)


@kernel
def _write_changes(
    kind,
    i,
    scale,
    lists,  # (LISTS, longest list) float64
    discounts,  # (longest list,) float64
    changes,  # (n - i - 1,) float64, out
):
    """Write the metric change of a swap of position i with each later one."""
    first, end = i + 1, i + 1 + changes.size
    if kind == GAIN:
        gain, discount = lists[_GAINS, i], discounts[i]
        gains, others = lists[_GAINS, first:end], discounts[first:end]
        for k in range(changes.size):
            change = _change_of_gain(gain, gains[k], discount, others[k])
            changes[k] = change * scale
    elif kind == AVERAGE_PRECISION:
        label, hits, start = lists[_LABELS, i], lists[_HITS, i], lists[_PRECISIONS, i]
        labels, counts = lists[_LABELS, first:end], lists[_HITS, first:end]
        before = lists[_PRECISIONS, i : end - 1]
        for k in range(changes.size):
            change = _change_of_precision(
                i, first + k, label, labels[k], hits, counts[k], before[k] - start
            )
            changes[k] = change * scale
    else:
        for k in range(changes.size):
            changes[k] = scale


@kernel
def _add_top_pairs(
    n, rules, by_distance, scale, lists, order, discounts, bias, costs
) -> float:
    """Add all pairs with a position among the first; return the sum of magnitudes.

    The result is that of `_add_pair`, in loops without branches, which the compiler
    vectorises.
    """
    total = 0.0
    spread, offset = (1.0, 0.01) if by_distance else (0.0, 1.0)
    for i in range(min(rules.count, n)):
        score, label = lists[_SCORES, i], lists[_LABELS, i]
        if bias.shape[1] > 0:
            for j in range(i + 1, n):
                other = lists[_LABELS, j]
                if label != other:
                    better, worse = (i, j) if label > other else (j, i)
                    total += _add_pair(
                        better, worse, rules, by_distance, scale, lists, order,
                        discounts, bias, costs,
                    )  # fmt: skip
            continue
        steps, curves = lists[_STEPS, i + 1 : n], lists[_CURVES, i + 1 : n]
        _write_changes(rules.kind, i, scale, lists, discounts, steps)
        scores, labels = lists[_SCORES, i + 1 : n], lists[_LABELS, i + 1 : n]
        for k in range(steps.size):
            sign = (1.0 if label > labels[k] else 0.0) - (
                1.0 if label < labels[k] else 0.0
            )
            distance = sign * (score - scores[k])
            change = abs(sign) * steps[k] / (abs(distance) * spread + offset)
            pull, hessian = _pair(distance, change)
            steps[k] = sign * pull
            curves[k] = hessian
        pulls, hessians = lists[_PULLS, i + 1 : n], lists[_HESSIANS, i + 1 : n]
        for k in range(steps.size):
            pulls[k] -= steps[k]
        for k in range(steps.size):
            hessians[k] += curves[k]
        pull = hessian = 0.0
        for k in range(steps.size):
            pull += steps[k]
            hessian += curves[k]
            total += abs(steps[k])
        lists[_PULLS, i] += pull
        lists[_HESSIANS, i] += hessian
    return total


@kernel
def _add_pairs(count, rules, by_distance, scale, lists, places, discounts, bias, costs):
    """Add `count` pairs of positions in their order.

    The result is that of `_add_pair`. The part without table lookups is a separate
    loop, which the compiler vectorises.
    """
    order = places[0]
    better, worse = places[2, :count], places[3, :count]
    if bias.shape[1] > 0:
        for k in range(count):
            _add_pair(
                better[k], worse[k], rules, by_distance, scale, lists, order,
                discounts, bias, costs,
            )  # fmt: skip
        return
    spread, offset = (1.0, 0.01) if by_distance else (0.0, 1.0)
    scores = lists[_SCORES]
    steps, curves = lists[_STEPS, :count], lists[_CURVES, :count]
    for k in range(better.size):
        i, j = min(better[k], worse[k]), max(better[k], worse[k])
        steps[k] = scores[better[k]] - scores[worse[k]]
        curves[k] = _change_of_swap(i, j, rules.kind, lists, discounts)
    for k in range(steps.size):
        change = curves[k] * scale / (abs(steps[k]) * spread + offset)
        steps[k], curves[k] = _pair(steps[k], change)
    pulls, hessians = lists[_PULLS], lists[_HESSIANS]
    for k in range(better.size):
        pulls[better[k]] += steps[k]
        pulls[worse[k]] -= steps[k]
        hessians[better[k]] += curves[k]
        hessians[worse[k]] += curves[k]


@kernel
def _add_random_pairs(
    n,
    first,
    draws,
    rules,
    by_distance,
    scale,
    lists,
    places,
    discounts,
    bias,
    costs,
):
    """Add for each row pairs with randomly drawn rows of other labels."""
    order, by_label = places[0, :n], places[1, :n]
    labels = lists[_LABELS, :n]
    sort_falling(labels, by_label, places[2])
    draws_of_row = -(-rules.count // _LANES_OF_DRAW)
    count = np.int64(0)  # as a literal it would be another type
    begin = 0
    while begin < n:
        end = begin + 1
        while end < n and labels[by_label[end]] == labels[by_label[begin]]:
            end += 1
        others = n - (end - begin)
        for place in by_label[begin:end] if others > 0 else by_label[:0]:
            row = first + order[place]
            for draw in range(draws_of_row):
                counter = row * draws_of_row + draw
                drawn = maths.philox(np.uint64(counter), draws[0], draws[1], draws[2])
                rest = rules.count - draw * _LANES_OF_DRAW
                for number in range(min(rest, _LANES_OF_DRAW)):
                    lane = drawn[number]
                    other = np.int64((lane * np.uint64(others)) >> np.uint64(32))
                    is_better = other < begin
                    mate = by_label[other if is_better else other + end - begin]
                    places[2, count] = mate if is_better else place
                    places[3, count] = place if is_better else mate
                    count += 1
                    if count == places.shape[1]:
                        _add_pairs(
                            count, rules, by_distance, scale, lists, places, discounts,
                            bias, costs,
                        )  # fmt: skip
                        count = 0
        begin = end
    _add_pairs(count, rules, by_distance, scale, lists, places, discounts, bias, costs)


@kernel
def lambda_gradients(
    thread_id,
    n_threads,
    sync,
    scores,  # (rows,) float64
    queries,  # QueryGroups
    rules,  # LambdaRules
    draws,  # `sampling.DrawKey`
    bias,  # (2, positions) float64 of the better and the worse row; no positions: none
    gradients,  # (2, rows) float64, out: gradients and hessians
    costs,  # (groups, 2, positions) float64, out
    scratch,  # RankScratch
):
    """Write gradients and hessians of pairs (LambdaMART; Burges 2010).

    `costs` are the losses of the better and the worse rows by their position in the
    input, from which the position bias is learned (Hu et al. 2019).
    """
    targets, pointers, groups, discounts = queries
    lists, places = scratch
    task = next_task(sync, 0)
    while task < pointers.size - 1:
        begin, end = pointers[task], pointers[task + 1]
        n = end - begin
        own, order = lists[thread_id], places[thread_id, 0, :n]
        _begin_list(
            rules.kind, scores[begin:end], targets[0, begin:end],
            targets[1, begin:end], own, places[thread_id],
        )  # fmt: skip
        for position in range(costs.shape[2]):
            costs[task, 0, position] = 0.0
            costs[task, 1, position] = 0.0
        by_distance = rules.by_distance and own[_SCORES, 0] != own[_SCORES, n - 1]
        factor = 1.0
        if rules.at_random:
            _add_random_pairs(
                n, begin, draws, rules, by_distance, groups[0, task], own,
                places[thread_id], discounts, bias, costs[task],
            )  # fmt: skip
            factor = 1.0 / rules.count
        else:
            total = 2.0 * _add_top_pairs(
                n, rules, by_distance, groups[0, task], own, order, discounts, bias,
                costs[task],
            )  # fmt: skip
            # log2(1 + total) / total, accurate for small totals too.
            more = 1.0 + total
            factor = maths.log(more) / (more - 1.0) if more > 1.0 else 1.0
            factor /= _LN2
        if not rules.normalised:
            factor = 1.0
        factor *= groups[1, task]
        for place in range(n):
            gradients[0, begin + order[place]] = own[_PULLS, place] * factor
            gradients[1, begin + order[place]] = own[_HESSIANS, place] * factor
        task = next_task(sync, 0)


@kernel
def cross_entropy(
    thread_id,
    n_threads,
    sync,
    scores,  # (rows,) float64
    gains,  # (rows,) float64: 2**label - 1
    pointers,  # (groups + 1,) int64
    weights,  # (groups,) float64
    draws,  # `sampling.DrawKey`
    gradients,  # (2, rows) float64, out: gradients and hessians
    lists,  # (threads, LISTS, longest list) float64
):
    """Write gradients and hessians of XE-NDCG (Bruch 2021).

    The gradient of the cross-entropy between the softmax of the scores and a
    distribution drawn from the labels is extended, as in the paper, by the next two
    terms of a series.
    """
    task = next_task(sync, 0)
    while task < weights.size:
        begin, end = pointers[task], pointers[task + 1]
        n = end - begin
        shares, terms = lists[thread_id, 0, :n], lists[thread_id, 1, :n]
        pulls = lists[thread_id, 2, :n]
        highest = -math.inf
        for score in scores[begin:end]:
            highest = max(highest, score)
        total = drawn_total = 0.0
        for i in range(n):
            shares[i] = maths.exp(scores[begin + i] - highest)
            total += shares[i]
            row = begin + i
            drawn = maths.philox(
                np.uint64(row // _LANES_OF_DRAW), draws[0], draws[1], draws[2]
            )
            terms[i] = gains[row] + 1.0 - drawn[row % _LANES_OF_DRAW] * 2.0**-32
            drawn_total += terms[i]
        passed = 0.0
        for i in range(n):
            shares[i] /= total
            pulls[i] = shares[i] - terms[i] / drawn_total
            terms[i] = pulls[i] / max(1.0 - shares[i], _LEAST_SHARE)
            passed += terms[i]
        for _ in range(2):
            passing = 0.0
            for i in range(n):
                term = shares[i] * (passed - terms[i])
                pulls[i] += term
                terms[i] = term / max(1.0 - shares[i], _LEAST_SHARE)
                passing += terms[i]
            passed = passing
        for i in range(n):
            hessian = max(shares[i] * (1.0 - shares[i]), _LEAST_HESSIAN)
            alone = n == 1
            gradients[0, begin + i] = 0.0 if alone else pulls[i] * weights[task]
            gradients[1, begin + i] = 0.0 if alone else hessian * weights[task]
        task = next_task(sync, 0)
