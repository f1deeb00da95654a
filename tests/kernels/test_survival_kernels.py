"""Survival losses: gradients and metrics, against reference formulas."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest
from kernel_calls import N_THREADS, call, needs_compiler, new_gradients

from hornbeam.kernels import survival
from hornbeam.kernels.gradients import LossRows
from hornbeam.kernels.layout import TASK_ROWS

UNWEIGHTED = np.empty(0)
INF = math.inf


def hazard_gradients(scores, labels, weights=UNWEIGHTED, n_threads=1):
    """Return the gradients and hessians of Cox's likelihood."""
    rows = scores.size
    g, h = np.full((2, rows), np.nan)
    order, begins = survival.by_time(labels)
    events = survival.events_of(labels, weights)
    seen = np.empty(begins.size - 1)
    survival.sum_moments(events[order], begins, seen)
    moment_of = np.empty(rows, np.uint32)
    moment_of[order] = np.repeat(np.arange(seen.size), np.diff(begins))
    call(
        survival.proportional_hazards,
        scores,
        survival.EventTimes(
            weights, events, moment_of, order.astype(np.uint32), begins, seen
        ),
        survival.CoxScratch(np.empty((3, rows)), np.empty((seen.size, 2))),
        g,
        h,
        n_threads=n_threads,
    )
    return g, h


def times(rng, rows, most):
    """Return labels of `most` times, about half of them events."""
    return rng.integers(1, most + 1, rows) * rng.choice([-1.0, 1.0], rows)


def test_rows_by_time():
    order, begins = survival.by_time(np.array([3.0, -1.0, 2.0, -2.0, 3.0]))
    assert order.tolist() == [1, 2, 3, 0, 4]
    assert begins.tolist() == [0, 1, 3, 5]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("most", [4, 10**6])
def test_gradients_of_hazards_are_those_of_the_likelihood(most, weighted):
    rng = np.random.default_rng(0)
    labels, scores = times(rng, 40, most), rng.normal(size=40)
    weights = rng.uniform(0, 3, 40) if weighted else np.ones(40)
    g, h = hazard_gradients(scores, labels, weights if weighted else UNWEIGHTED)

    def loss_near(row, step):
        moved = scores.copy()
        moved[row] += step
        return naive.partial_likelihood(np.exp(moved), labels, weights)

    for row in range(40):
        before, after = loss_near(row, -1e-3), loss_near(row, 1e-3)
        slope = (after - before) / 2e-3
        assert g[row] == pytest.approx(slope, rel=1e-5, abs=1e-5)
        if not weighted:  # weighted, a hessian is that of as many rows
            curvature = (after - 2 * loss_near(row, 0) + before) / 1e-6
            assert h[row] == pytest.approx(curvature, rel=1e-4, abs=1e-4)


def test_a_row_of_weight_three_equals_three_rows():
    rng = np.random.default_rng(0)
    labels, scores = times(rng, 60, 9), rng.normal(size=60)
    count = rng.integers(0, 4, 60)
    g, h = hazard_gradients(scores, labels, count.astype(float))
    rows = np.repeat(np.arange(60), count)
    copies = hazard_gradients(scores[rows], labels[rows])
    for own, copied in zip((g, h), copies, strict=True):
        summed = np.bincount(rows, copied, minlength=60)
        np.testing.assert_allclose(own, summed, rtol=2e-6, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_of_hazards_do_not_depend_on_the_order(weighted):
    rng = np.random.default_rng(0)
    labels, scores = times(rng, 3000, 50), rng.normal(0, 5, 3000)
    weights = rng.uniform(size=3000) if weighted else UNWEIGHTED
    found = hazard_gradients(scores, labels, weights)
    order = rng.permutation(3000)
    shuffled = hazard_gradients(
        scores[order], labels[order], weights[order] if weighted else UNWEIGHTED
    )
    for own, other in zip(found, shuffled, strict=True):
        np.testing.assert_array_equal(own[order], other)


@needs_compiler
def test_gradients_of_hazards_do_not_depend_on_the_threads():
    rng = np.random.default_rng(0)
    rows = 2 * TASK_ROWS + 77
    labels, scores = times(rng, rows, 500), rng.normal(size=rows)
    alone = hazard_gradients(scores, labels)
    for n_threads in N_THREADS[1:]:
        shared = hazard_gradients(scores, labels, n_threads=n_threads)
        np.testing.assert_array_equal(shared, alone)


@pytest.mark.parametrize("scale", [100.0, 1e4, 1e30])
def test_gradients_of_hazards_are_finite(scale):
    rng = np.random.default_rng(0)
    labels, scores = times(rng, 500, 40), scale * rng.normal(size=500)
    g, h = hazard_gradients(scores, labels, rng.uniform(0, 9, 500))
    assert np.isfinite(g).all() and np.isfinite(h).all() and (h >= 0).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_partial_likelihood(weighted):
    rng = np.random.default_rng(0)
    labels, hazards = times(rng, 50, 12), rng.exponential(size=50)
    weights = rng.uniform(size=50) if weighted else np.ones(50)
    order, begins = survival.by_time(labels)
    by_time = weights[order] if weighted else UNWEIGHTED
    events = survival.events_of(labels[order], by_time)
    found = survival.partial_likelihood(hazards[order], by_time, events, begins)
    exact = naive.partial_likelihood(hazards, labels, weights) / events.sum()
    assert found == pytest.approx(exact, rel=1e-12)


def test_no_events_have_no_likelihood():
    ones, begins = np.ones(2), np.arange(3)
    found = survival.partial_likelihood(ones, UNWEIGHTED, np.zeros(2), begins)
    assert math.isnan(found)


# --- Bounds ---------------------------------------------------------------------------

CENSORING = {
    "seen": lambda z: (z, z),
    "later": lambda z: (z, INF),
    "earlier": lambda z: (-INF, z),
    "between": lambda z: (z, z + 0.7),
    "anywhere": lambda z: (-INF, INF),
}


def bound_gradients(
    distribution, low, high, scale=1.0, weights=UNWEIGHTED, n_threads=1, margin=0.0
):
    """Return g and h of margins of 0 whose log times are times the scale."""
    scores = np.full((1, len(low)), margin)
    targets = scale * np.array([low, high])
    number = survival.DISTRIBUTIONS[distribution]
    rows = LossRows.of(scores, targets, weights)
    numbers = [number, scale]
    g, h, largest = new_gradients(
        survival.accelerated_failure, rows, numbers, n_threads
    )
    np.testing.assert_array_equal(largest, [[np.abs(g).max(), h.max()]])
    return g[0], h[0]


@pytest.mark.parametrize("scale", [1.0, 0.7])
@pytest.mark.parametrize("censoring", CENSORING)
@pytest.mark.parametrize("distribution", survival.DISTRIBUTIONS)
def test_gradients_of_bounds_are_those_of_the_likelihood(
    distribution, censoring, scale
):
    points = [-3.0, -1.5, -0.4, -0.1, 0.0, 0.3, 1.0, 1.7, 2.2]
    bounds = [CENSORING[censoring](z) for z in points]
    g, h = bound_gradients(distribution, *np.array(bounds).T, scale)
    step = 1e-3
    for i, (low, high) in enumerate(bounds):
        before, now, after = (
            naive.log_share(distribution, low - s, high - s) for s in (-step, 0, step)
        )
        slope = (before - after) / (2 * step) / scale
        curvature = -(before - 2 * now + after) / step**2 / scale**2
        assert g[i] == pytest.approx(slope, rel=1e-5, abs=1e-6)
        curvature = min(max(curvature, 1e-16), 15)
        assert h[i] == pytest.approx(curvature, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("censoring", CENSORING)
@pytest.mark.parametrize("distribution", survival.DISTRIBUTIONS)
def test_gradients_of_bounds_are_clipped(distribution, censoring):
    points = np.array([-1e30, -1e9, -5e4, -700, -40, -30, -9, 9, 30, 40, 1e5, 1e9])
    bounds = np.array([CENSORING[censoring](z) for z in points])
    g, h = bound_gradients(distribution, *bounds.T)
    assert (np.abs(g) <= 15).all() and (h > 0).all() and (h <= 15).all()
    if censoring in ("seen", "between"):
        assert (g[points < -9] > 0.99).all() and (g[points > 9] < -0.99).all()


def test_the_tails_of_the_normal_distribution_are_accurate():
    """The slope of a tail is 1 over the Mills ratio."""
    z = np.array([5.0, 8.0, 10.0, 14.0])
    right, h = bound_gradients("normal", z, np.full(4, INF))
    left, same = bound_gradients("normal", np.full(4, -INF), -z)
    # The first terms of the ratio's asymptotic series, and the remainder.
    series = z + 1 / z - 2 / z**3 + 10 / z**5 - 74 / z**7
    np.testing.assert_allclose(-right, series, rtol=3e-4)
    np.testing.assert_allclose(-right[1:], series[1:], rtol=5e-6)
    np.testing.assert_array_equal(left, -right)
    np.testing.assert_array_equal(same, h)
    assert (h < 1).all() and (np.diff(h) > 0).all()


@pytest.mark.parametrize("distribution", survival.DISTRIBUTIONS)
def test_a_narrow_interval_equals_one_time(distribution):
    z = np.array([-2.0, 0.0, 0.5, 2.0])
    exact = bound_gradients(distribution, z, z)
    for width in (1e-12, 1e-7, 0.9e-5, 1.1e-5, 1e-4):
        near = bound_gradients(distribution, z - width / 2, z + width / 2)
        np.testing.assert_allclose(near, exact, rtol=2e-4, atol=1e-5)


FULL_SLOPES = {
    "normal": survival.normal_slopes,
    "logistic": survival.logistic_slopes,
    "extreme": survival.extreme_slopes,
}


@pytest.mark.parametrize("distribution", survival.DISTRIBUTIONS)
def test_the_short_formulas_of_tails_and_times_equal_the_full_one(distribution):
    rng = np.random.default_rng(0)
    low = rng.normal(0, 1, 400) * rng.choice([0.1, 1.0, 10.0, 100.0], 400)
    high = low + rng.choice([0.0, 1e-7, 0.5, INF], 400)
    low[rng.random(400) < 0.3] = -INF
    g, h = bound_gradients(distribution, low, high)
    for row in range(400):
        with np.errstate(divide="ignore", invalid="ignore"):  # as in a kernel
            slope, curvature = FULL_SLOPES[distribution](low[row], high[row])
        assert g[row] == np.float32(min(max(slope, -15), 15))
        assert h[row] == np.float32(min(max(curvature, 1e-16), 15))


@needs_compiler
def test_gradients_of_bounds_do_not_depend_on_the_threads():
    rng = np.random.default_rng(0)
    low, weights = rng.normal(size=(2, 2 * TASK_ROWS + 77))
    weights = np.abs(weights)
    high = low + rng.choice([0.0, 1.0, INF], low.size)
    for distribution in survival.DISTRIBUTIONS:
        alone = bound_gradients(distribution, low, high, 0.7, weights)
        unweighted = bound_gradients(distribution, low, high, 0.7)
        for own, without in zip(alone, unweighted, strict=True):
            np.testing.assert_array_equal(own, without * weights)
        for n_threads in N_THREADS[1:]:
            shared = bound_gradients(distribution, low, high, 0.7, weights, n_threads)
            np.testing.assert_array_equal(shared, alone)


@pytest.mark.parametrize("censoring", CENSORING)
@pytest.mark.parametrize("distribution", survival.DISTRIBUTIONS)
def test_mean_loss_of_bounds(distribution, censoring):
    points = np.array([-3.0, -0.4, 0.0, 1.0, 2.2])
    bounds = np.exp(0.8 * np.array([CENSORING[censoring](z) for z in points]))
    number = survival.DISTRIBUTIONS[distribution]
    for row, z in zip(bounds, points, strict=True):
        low, high = CENSORING[censoring](z)
        exact = -naive.log_share(distribution, low, high)
        if censoring == "seen":
            exact += math.log(0.8 * row[0])
        found = survival.mean_failure_loss(
            np.ones(1), row[np.newaxis], UNWEIGHTED, number, 0.8
        )
        assert found == pytest.approx(exact, rel=1e-9, abs=1e-12)


def test_the_loss_of_a_row_is_limited_as_in_xgboost():
    bounds = np.array([[1e9, 1e9], [1e9, INF], [0.0, 1e-9], [5.0, 5.0 + 1e-13]])
    for number in survival.DISTRIBUTIONS.values():
        for row in bounds:
            found = survival.mean_failure_loss(
                np.ones(1), row[np.newaxis], UNWEIGHTED, number, 0.1
            )
            assert found == pytest.approx(-math.log(1e-12), rel=1e-12)


def test_proportion_inside_of_bounds():
    predicted = np.array([1.0, 2.0, 3.0, 4.0])
    bounds = np.array([[1.0, 1.0], [0.0, 1.9], [3.0, INF], [4.5, 5.0]])
    assert survival.inside_bounds(predicted, bounds, UNWEIGHTED) == 0.5
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    assert survival.inside_bounds(predicted, bounds, weights) == 0.4
    assert survival.inside_bounds(predicted, bounds, np.zeros(4)) == 0.0
