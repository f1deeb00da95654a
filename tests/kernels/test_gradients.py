"""Gradients of objectives, and their fixed-point forms."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest
from kernel_calls import BITS, LANE, N_THREADS, call, needs_compiler, new_gradients

from hornbeam.kernels.gradients import (
    LossRows,
    deviation,
    find_largest,
    logistic,
    negative_binomial,
    pinball,
    pseudo_huber,
    quantise,
    softmax,
    squared_error,
    widen,
)
from hornbeam.kernels.layout import (
    COARSE_GRADIENT_BITS,
    COARSE_HESSIAN_BITS,
    TASK_ROWS,
)

UNWEIGHTED = np.empty(0)
TYPES = [np.float32, np.float64]


def gradients_of(
    kernel, scores, targets, weights=UNWEIGHTED, positive_weight=1.0, n_threads=1
):
    """Return the gradients and hessians, (outputs, rows); float64 under weights."""
    rows = LossRows.of(scores, np.atleast_2d(targets), weights)
    g, h, largest = new_gradients(kernel, rows, [positive_weight, 0.5], n_threads)
    np.testing.assert_array_equal(largest[:, 0], np.abs(g).max(axis=1))
    np.testing.assert_array_equal(largest[:, 1], h.max(axis=1))
    return g, h


def weights_of(weighting, labels):
    """Return weights, the weight of positives, and both together for each row."""
    rng = np.random.default_rng(1)
    weights = rng.uniform(0, 3, labels.size) if "rows" in weighting else UNWEIGHTED
    positive_weight = 2.5 if "positive" in weighting else 1.0
    together = np.where(labels == 1, positive_weight, 1.0)
    return weights, positive_weight, together * (weights if weights.size else 1.0)


WEIGHTINGS = ["none", "rows", "positive", "rows and positive"]


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_squared_error(weighting):
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(0, 9, (1, 40)), rng.integers(0, 3, 40).astype(float)
    weights, positive_weight, together = weights_of(weighting, labels)
    g, h = gradients_of(squared_error, scores, labels, weights, positive_weight)
    np.testing.assert_allclose(g[0], (scores[0] - labels) * together, rtol=3e-7)
    np.testing.assert_allclose(h[0], together, rtol=2e-7)


@pytest.mark.parametrize("kernel", [squared_error, logistic])
def test_each_output_has_its_target(kernel):
    rng = np.random.default_rng(0)
    rows = TASK_ROWS + 5
    scores, targets = rng.normal(size=(3, rows)), rng.uniform(size=(3, rows))
    together = gradients_of(kernel, scores, targets, np.arange(rows) / rows, 2.0)
    for k in range(3):
        alone = gradients_of(
            kernel, scores[k : k + 1], targets[k], np.arange(rows) / rows, 2.0
        )
        for own, all_of in zip(alone, together, strict=True):
            np.testing.assert_array_equal(own[0], all_of[k])


@pytest.mark.parametrize(
    ("kernel", "below", "above"),
    [(deviation, [-1, -1], [1, 1]), (pinball, [-0.2, -0.7], [0.8, 0.3])],
)
def test_gradients_of_absolute_errors_are_signs(kernel, below, above):
    scores = np.array([[-3.0, 2.0, 2.5], [1.0, 2.0, 9.0]])
    targets, weights = np.full((1, 3), 2.0), np.array([1.0, 2.0, 3.0])
    rows = LossRows.of(scores, targets, weights)
    g, h, _ = new_gradients(kernel, rows, [1.0, 0.2, 0.7])
    expected = [[low, 0.0, 3 * high] for low, high in zip(below, above, strict=True)]
    np.testing.assert_allclose(g, expected, rtol=1e-7)
    np.testing.assert_array_equal(h, [weights, weights])


def test_a_parameter_for_each_output():
    scores, targets = np.array([[3.0], [3.0]]), np.zeros((2, 1))
    for slopes in ([4.0], [4.0, 1e6]):
        rows = LossRows.of(scores, targets, None)
        g, h, _ = new_gradients(pseudo_huber, rows, [1.0, *slopes])
        np.testing.assert_allclose(h[:, 0], [0.8, 0.8 if len(slopes) == 1 else 1.0])
        np.testing.assert_allclose(g, 3.0 * h)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_logistic(weighting):
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(0, 9, (1, 40)), rng.integers(0, 2, 40).astype(float)
    labels[::7] = 0.3
    weights, positive_weight, together = weights_of(weighting, labels)
    g, h = gradients_of(logistic, scores, labels, weights, positive_weight)
    p = [1 / (1 + math.exp(-margin)) for margin in scores[0]]
    np.testing.assert_allclose(g[0], (p - labels) * together, rtol=3e-7)
    exact = [max(value * (1 - value), 1e-16) for value in p]
    np.testing.assert_allclose(h[0], exact * together, rtol=3e-7)


def test_logistic_at_extreme_scores():
    scores = np.array([[-1e9, -800.0, 40.0, 1e9]])
    g, h = gradients_of(logistic, scores, np.array([0.0, 1.0, 0.0, 1.0]))
    np.testing.assert_array_equal(g[0], [0.0, -1.0, 1.0, 0.0])
    np.testing.assert_array_equal(h[0], np.full(4, 1e-16, np.float32))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shift", [0.0, -600.0, 1e6])
def test_softmax(shift, weighted):
    rng = np.random.default_rng(0)
    rows = 2 * LANE + 5
    scores = rng.normal(0, 3, (3, rows)) + shift
    labels = rng.integers(0, 3, rows).astype(float)
    weights = rng.uniform(0, 3, rows) if weighted else UNWEIGHTED
    g, h = gradients_of(softmax, scores, labels, weights)
    for i in range(rows):
        powers = [math.exp(margin - scores[:, i].max()) for margin in scores[:, i]]
        weight = weights[i] if weighted else 1.0
        for k in range(3):
            p = powers[k] / sum(powers)
            exact = (p - (labels[i] == k)) * weight
            assert g[k, i] == pytest.approx(exact, rel=3e-7, abs=1e-15)
            exact = max(2 * p * (1 - p), 1e-16) * weight
            assert h[k, i] == pytest.approx(exact, rel=3e-7)


@needs_compiler
@pytest.mark.parametrize("kernel", [squared_error, logistic, softmax])
def test_gradients_do_not_depend_on_the_threads(kernel):
    rng = np.random.default_rng(0)
    outputs, rows = (3 if kernel is softmax else 1), 2 * TASK_ROWS + 77
    scores = rng.normal(size=(outputs, rows))
    labels = rng.integers(0, 2, rows).astype(float)
    weights = rng.uniform(size=rows)
    alone = gradients_of(kernel, scores, labels, weights, 2.0)
    for n_threads in N_THREADS[1:]:
        shared = gradients_of(kernel, scores, labels, weights, 2.0, n_threads)
        np.testing.assert_array_equal(shared, alone)


@pytest.mark.parametrize("kernel", [squared_error, logistic, softmax])
def test_a_row_of_weight_three_equals_three_rows(kernel):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3 if kernel is softmax else 1, 40))
    labels = rng.integers(0, 2, 40).astype(float)
    once = gradients_of(kernel, scores, labels)
    thrice = gradients_of(kernel, scores, labels, np.full(40, 3.0))
    np.testing.assert_array_equal(thrice, 3 * np.array(once, np.float64))


KERNELS = [squared_error, logistic, negative_binomial, softmax]


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("single", [False, True])
def test_leaf_values_are_added_before_gradients(kernel, n_threads, single):
    rng = np.random.default_rng(0)
    rows = 2 * TASK_ROWS + 77 if n_threads > 1 else 2 * LANE + 5
    outputs = {negative_binomial: 2, softmax: 3}.get(kernel, 1)
    labels = rng.integers(0, 2, rows).astype(float)[np.newaxis]
    before = rng.normal(size=(outputs, rows))
    leaf_of = rng.integers(0, 4, rows).astype(np.uint32)
    values = rng.normal(size=(outputs, 4)).astype(np.float32)
    if single:
        before = before.astype(np.float32).astype(np.float64)
    after = before + values[:, leaf_of].astype(np.float64)
    if single:
        after = after.astype(np.float32).astype(np.float64)
    parts = before, labels, UNWEIGHTED, leaf_of, values, single
    fused = new_gradients(kernel, LossRows(*parts), [1.0, 0.5], n_threads)
    alone = new_gradients(kernel, LossRows.of(after, labels, None), [1.0, 0.5])
    np.testing.assert_array_equal(before, after)
    for own, same in zip(fused, alone, strict=True):
        np.testing.assert_array_equal(own, same)


def largest_of(g, h, n_threads=1):
    """Return the largest |g| and h as floats."""
    largest = np.zeros((n_threads, 2), BITS[g.itemsize])
    call(find_largest, g, h, largest, n_threads=n_threads)
    return largest.max(axis=0).view(g.dtype)


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("dtype", TYPES)
def test_largest_gradients(dtype, n_threads):
    rng = np.random.default_rng(0)
    rows = 3 * TASK_ROWS + 5 if n_threads > 1 else 300
    g = rng.normal(size=rows).astype(dtype)
    h = rng.uniform(size=rows).astype(dtype)
    np.testing.assert_array_equal(
        largest_of(g, h, n_threads), [np.abs(g).max(), h.max()]
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_infinity_and_nan_are_the_largest(dtype):
    for value in (np.inf, -np.inf, np.nan, -np.nan):
        g = np.array([1.0, value, -2.0], dtype)
        h = np.array([1.0, 0.5, 2.0], dtype)
        largest = largest_of(g, h)
        assert not np.isfinite(largest[0]) and largest[1] == 2.0
    zeros = np.array([0.0, -0.0], dtype)
    np.testing.assert_array_equal(largest_of(zeros, zeros), [0.0, 0.0])


def steps_of(g, h, gradient_bits, hessian_bits):
    """Return the units in which the largest values have so many bits."""
    return np.array(
        [
            2.0 ** (naive.exponent_above(np.abs(g).max()) - gradient_bits),
            2.0 ** (naive.exponent_above(h.max()) - hessian_bits),
        ]
    )


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("scale", [1.0, 2.0**-126, 2.0**100])
@pytest.mark.parametrize("dtype", TYPES)
def test_coarse_pairs_are_the_nearest_integers(dtype, scale, n_threads):
    rng = np.random.default_rng(0)
    rows = TASK_ROWS + 99 if n_threads > 1 else 300
    most_g, most_h = 2**COARSE_GRADIENT_BITS - 1, 2**COARSE_HESSIAN_BITS - 1
    g = (rng.uniform(-1, 1, rows) * scale).astype(dtype)
    h = (rng.uniform(0, 1, rows) * scale).astype(dtype)
    # The largest values round up, out of 17 or 18 bits.
    g[:2] = h[:2] = np.nextafter(dtype(scale), dtype(0))
    g[1] *= -1
    steps = steps_of(g, h, COARSE_GRADIENT_BITS, COARSE_HESSIAN_BITS)
    halves = np.array([0.5, 1.5, 2.5, 3.5, 0.0])
    g[2:7], g[7:12], h[2:7] = steps[0] * halves, -steps[0] * halves, steps[1] * halves
    packed = np.empty(rows, np.int64)
    magnitudes = np.empty((-(-rows // TASK_ROWS), 2), np.int64)
    given = g, h, steps, packed, magnitudes
    numbers = np.empty(rows, np.uint32)
    call(quantise, *given, numbers, n_threads=n_threads)
    np.testing.assert_array_equal(numbers, np.arange(rows))
    call(quantise, *given, numbers[:0], n_threads=n_threads)
    coarse_g, coarse_h = packed >> 32, packed & 0xFFFFFFFF
    for i in range(300):
        exact = naive.fixed_point(g[i], steps[0])
        assert coarse_g[i] == max(-most_g, min(exact, most_g))
        assert coarse_h[i] == min(naive.fixed_point(h[i], steps[1]), most_h)
    assert coarse_g[:2].tolist() == [most_g, -most_g] and coarse_h[0] == most_h
    sums = magnitudes.sum(axis=0)
    np.testing.assert_array_equal(sums, [np.abs(coarse_g).sum(), coarse_h.sum()])


@pytest.mark.parametrize("n_threads", N_THREADS)
@pytest.mark.parametrize("dtype", TYPES)
def test_fine_pairs_are_the_nearest_integers(dtype, n_threads):
    rng = np.random.default_rng(0)
    rows = TASK_ROWS + 99 if n_threads > 1 else 300
    g = rng.standard_cauchy(rows).astype(dtype)
    h = rng.uniform(size=rows).astype(dtype)
    steps = steps_of(g, h, 51, 51)
    wide = np.empty((2, rows), np.int64)
    call(widen, g, h, *(1 / steps), wide, n_threads=n_threads)
    for values, step, out in zip((g, h), steps, wide, strict=True):
        exact = [naive.fixed_point(value, step) for value in values[:300]]
        np.testing.assert_array_equal(out[:300], exact)
