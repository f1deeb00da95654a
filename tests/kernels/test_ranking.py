"""Sorted lists, and the gradients of pairs, against reference implementations."""

from __future__ import annotations

import itertools
import math

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_calls import N_THREADS, call, needs_compiler

from hornbeam.kernels import ranking
from hornbeam.kernels.layout import AVERAGE_PRECISION, GAIN, PRECISION
from hornbeam.kernels.sampling import DrawKey

SIZES = [5, 1, 40, 2, 9]
POINTERS = np.cumsum([0, *SIZES])
ROWS = int(POINTERS[-1])
SPANS = [slice(*ends) for ends in itertools.pairwise(POINTERS)]
KINDS = {
    "gain": GAIN,
    "average precision": AVERAGE_PRECISION,
    "pairs": PRECISION,
}
DISCOUNTS = np.empty(max(SIZES))
ranking.discount_places(DISCOUNTS)


def drawn(kind, seed=0):
    rng = np.random.default_rng(seed)
    scores = np.round(rng.normal(size=ROWS), 1)  # with ties
    labels = rng.integers(0, 2 if kind == "average precision" else 4, ROWS) * 1.0
    return scores, labels, 2**labels - 1


def memory(n_threads):
    lists = np.full((n_threads, ranking.LISTS, max(SIZES)), np.nan)
    return lists, np.full((n_threads, ranking.PLACES, max(SIZES)), -1)


@given(st.lists(st.integers(-3, 3), max_size=70))
def test_a_list_is_sorted_and_ties_keep_their_order(values):
    values = np.array(values, float)
    order, spare = np.empty((2, values.size), np.int64)
    ranking.sort_falling(values, order, spare)
    np.testing.assert_array_equal(order, np.argsort(-values, kind="stable"))


def test_discounts():
    expected = 1 / np.log2(np.arange(max(SIZES)) + 2)
    np.testing.assert_allclose(DISCOUNTS, expected, rtol=1e-15)


def scales_of(kind, depth, gains, n_threads=1):
    scales = np.full(len(SIZES), np.nan)
    arguments = kind, depth, gains, POINTERS, DISCOUNTS, scales, memory(n_threads)[1]
    call(ranking.find_scales, *arguments, n_threads=n_threads)
    return scales


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("depth", [1, 3, 1000])
def test_scales(depth, n_threads):
    _, labels, gains = drawn("gain")
    labels[SPANS[3]] = gains[SPANS[3]] = 0
    found = scales_of(GAIN, depth, gains, n_threads)
    best = [naive.discounted_gain(np.sort(gains[s])[::-1], depth) for s in SPANS]
    np.testing.assert_allclose(found, [1 / b if b else 0 for b in best], rtol=1e-14)
    found = scales_of(AVERAGE_PRECISION, depth, labels, n_threads)
    np.testing.assert_allclose(
        found, [1 / labels[s].sum() if labels[s].any() else 0 for s in SPANS]
    )


def gradients_of(
    kind,
    scores,
    labels,
    gains,
    method="topk",
    count=6,
    n_threads=1,
    bias=None,
    groups=None,
    **rules,
):
    """Return gradients, hessians and costs."""
    code = KINDS[kind]
    if groups is None:
        groups = np.array([np.ones(len(SIZES)), np.arange(1.0, len(SIZES) + 1)])
        depth = count if method == "topk" else 1000
        if kind != "pairs":
            groups[0] = scales_of(code, depth, gains if kind == "gain" else labels)
    bias = np.empty((2, 0)) if bias is None else bias
    gradients = np.full((2, ROWS), np.nan)
    costs = np.full((len(SIZES), *bias.shape), np.nan)
    flags = ranking.LambdaRules(
        code,
        method == "mean",
        count,
        bool(rules.get("normalised", 1)),
        bool(rules.get("by_distance", 1)),
    )
    call(
        ranking.lambda_gradients,
        scores,
        ranking.QueryGroups(np.array([labels, gains]), POINTERS, groups, DISCOUNTS),
        flags,
        DrawKey(np.uint64(7), np.uint64(4 << 28), np.uint64(11)),
        bias,
        gradients,
        costs,
        ranking.RankScratch(*memory(n_threads)),
        n_threads=n_threads,
    )
    return gradients, costs


def top_pairs(order, count):
    """Return the positions of all pairs with one among the first."""
    places = range(len(order))
    return [(i, j) for i, j in itertools.combinations(places, 2) if i < count]


def drawn_pairs(order, labels, first, count):
    """Return the positions of the pairs drawn for each row."""
    pairs = []
    shown = labels[order]
    for place, row in enumerate(order):
        others = np.argsort(-shown, kind="stable")
        others = others[shown[others] != shown[place]]
        for number in range(count if len(others) else 0):
            item = 4 * int(first + row) * -(-count // 4) + number
            word = naive.draw(item, 7, 4 << 28, 11)
            mate = others[word * len(others) >> 32]
            pairs.append((min(place, mate), max(place, mate)))
    return pairs


@pytest.mark.parametrize("by_distance", [0, 1])
@pytest.mark.parametrize("normalised", [0, 1])
@pytest.mark.parametrize("method", ["topk", "mean"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_pairs(kind, biased, method, normalised, by_distance):
    scores, labels, gains = drawn(kind)
    bias = np.random.default_rng(5).uniform(0.3, 2, (2, 7)) if biased else None
    if biased:
        bias[:, 3] = 0.0
    count = 6
    found, costs = gradients_of(
        kind, scores, labels, gains, method, count, bias=bias,
        normalised=normalised, by_distance=by_distance,
    )  # fmt: skip
    for group, span in enumerate(SPANS):
        order = np.argsort(-scores[span], kind="stable")
        pairs = (
            top_pairs(order, count)
            if method == "topk"
            else drawn_pairs(order, labels[span], span.start, count)
        )
        depth = count if method == "topk" else 1000
        g, h, cost, total = naive.pull_pairs(
            kind, scores[span], labels[span], gains[span], order, pairs, depth,
            by_distance, bias,
        )  # fmt: skip
        factor = 1.0
        if normalised and method == "mean":
            factor = 1 / count
        elif normalised and total > 0:
            factor = math.log2(1 + total) / total
        factor *= group + 1
        np.testing.assert_allclose(found[0, span], g * factor, rtol=1e-11, atol=1e-14)
        np.testing.assert_allclose(found[1, span], h * factor, rtol=1e-11, atol=1e-14)
        if biased:
            np.testing.assert_allclose(costs[group], cost, rtol=1e-11, atol=1e-14)


@needs_compiler
@pytest.mark.parametrize("method", ["topk", "mean"])
def test_gradients_do_not_depend_on_the_threads(method):
    drawn_rows = drawn("gain")
    bias = np.ones((2, 7))
    alone = gradients_of("gain", *drawn_rows, method, bias=bias)
    for n_threads in N_THREADS[1:]:
        shared = gradients_of(
            "gain", *drawn_rows, method, n_threads=n_threads, bias=bias
        )
        for one, other in zip(alone, shared, strict=True):
            np.testing.assert_array_equal(one, other)


def test_gradients_stay_finite_at_extreme_scores():
    _, labels, gains = drawn("gain")
    scores = np.linspace(-1e9, 1e9, ROWS)
    for method in ("topk", "mean"):
        (g, h), _ = gradients_of("gain", scores, labels, gains, method)
        assert np.isfinite(g).all() and (h >= 0).all()


def test_small_gradients_are_normalised_accurately():
    tiny = np.array([np.full(len(SIZES), 1e-20), np.ones(len(SIZES))])
    rows = drawn("gain")
    (found, _), _ = gradients_of("gain", *rows, groups=tiny)
    (plain, _), _ = gradients_of("gain", *rows, groups=tiny, normalised=0)
    np.testing.assert_allclose(found, plain / math.log(2), rtol=1e-12)


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_cross_entropy(spread, n_threads):
    scores, _, gains = drawn("gain")
    scores *= spread
    found, weights = np.full((2, ROWS), np.nan), np.arange(1.0, len(SIZES) + 1)
    draws = DrawKey(np.uint64(3), np.uint64(5 << 28), np.uint64(11))
    call(
        ranking.cross_entropy, scores, gains, POINTERS, weights, draws, found,
        memory(n_threads)[0], n_threads=n_threads,
    )  # fmt: skip
    noise = [naive.draw(row, 3, 5 << 28, 11) / 2**32 for row in range(ROWS)]
    for group, span in enumerate(SPANS):
        g, h = naive.cross_entropy(scores[span], gains[span] + 1 - noise[span])
        np.testing.assert_allclose(
            found[0, span], g * (group + 1), rtol=1e-6, atol=1e-7
        )
        np.testing.assert_allclose(
            found[1, span], h * (group + 1), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("depth", [1, 3, 1000])
def test_metrics_of_groups(depth, n_threads):
    scores, labels, gains = drawn("average precision", seed=2)
    labels[SPANS[3]] = gains[SPANS[3]] = 0
    for kind, twin in (
        (GAIN, naive.normalised_gain),
        (AVERAGE_PRECISION, naive.average_precision),
        (PRECISION, naive.precision),
    ):
        found = np.full(len(SIZES), np.nan)
        call(
            ranking.measure_groups,
            ranking.GroupMetric(kind, depth, 0.25),
            scores,
            labels,
            POINTERS,
            DISCOUNTS,
            found,
            memory(n_threads)[1],
            n_threads=n_threads,
        )
        expected = [
            twin(labels[s][np.argsort(-scores[s], kind="stable")], depth, 0.25)
            for s in SPANS
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-13)
