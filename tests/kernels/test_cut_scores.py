"""Approximate scores of cuts: compiled and in Python, and how near the exact ones."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_calls import split_rules

from hornbeam.kernels.cut_scores import (
    LANES,
    MARGIN,
    WHOLE_BITS,
    score_exactly,
    score_packed_cuts,
    score_wide_cuts,
)
from hornbeam.kernels.jit import kernel
from hornbeam.kernels.layout import (
    BLOCK_ROWS,
    COARSE_GRADIENT_BITS,
    COARSE_HESSIAN_BITS,
)

COUNTS = [1, 2, 7, 8, 9, 16, 255]
LEAST, SCALES = 40, np.array([2.0**-17, 2.0**-18])


@kernel
def _score_packed(sums, count, extra, total, least, ridge, scores):
    return score_packed_cuts(sums, count, extra, total, least, ridge, scores)


@kernel
def _score_wide(sums_g, sums_h, none, every, ridge, scores):
    return score_wide_cuts(sums_g, sums_h, none, every, ridge, scores)


def sums_of(count, rows, seed):
    """Return sums of bins up to each cut, then of missing values and of the node."""
    rng = np.random.default_rng(seed)
    own = rng.multinomial(rows, np.full(count + 2, 1 / (count + 2)))
    g = own * rng.integers(-(1 << COARSE_GRADIENT_BITS) + 1, 1 << COARSE_GRADIENT_BITS)
    g = g * rng.choice([-1, 1], g.size)
    h = own * rng.integers(1, 1 << COARSE_HESSIAN_BITS)
    return (
        (np.cumsum(part[:count]), int(part[count]), int(part.sum())) for part in (g, h)
    )


def exact_scores(g, h, total_g, total_h):
    """Return the exact scores in units, without L2 penalty."""
    rules = split_rules(0.0, 0.0, 0.0, 0.0)
    unit = SCALES[0] ** 2 / SCALES[1]
    with np.errstate(invalid="ignore"):  # of children without hessians
        scores = [
            score_exactly(int(a), int(b), total_g, total_h, SCALES, rules) / unit
            for a, b in zip(g, h, strict=True)
        ]
    return np.where((h >= LEAST) & (total_h - h >= LEAST), scores, 0.0)


def check(scores, highest, expected, expected_highest, exact):
    count = exact.size
    np.testing.assert_array_equal(scores[:count], expected[:count])
    assert highest == expected_highest == expected[:count].max(initial=0.0)
    np.testing.assert_allclose(scores[:count], exact, rtol=MARGIN / 2)


@pytest.mark.parametrize("goes_left", [False, True])
@pytest.mark.parametrize("count", COUNTS)
def test_packed_sums(count, goes_left):
    for seed, rows in enumerate((5, 300, BLOCK_ROWS)):
        (g, missing_g, total_g), (h, missing_h, total_h) = sums_of(count, rows, seed)
        extra_g, extra_h = missing_g * goes_left, missing_h * goes_left
        sums = np.append((g << 32) + h, np.full(LANES - 1, -1))
        own = count, (extra_g << 32) + extra_h, (total_g << 32) + total_h
        numbers = np.uint32(LEAST), np.float32(0.0)
        scores, expected = np.full((2, count + LANES - 1), np.nan, np.float32)
        highest = _score_packed(sums, *own, *numbers, scores)
        in_python = score_packed_cuts(sums, *own, *numbers, expected)
        exact = exact_scores(g + extra_g, h + extra_h, total_g, total_h)
        check(scores, highest, expected, in_python, exact)


@pytest.mark.parametrize("begins_at", [0, WHOLE_BITS])
@pytest.mark.parametrize("count", COUNTS)
def test_wide_sums(count, begins_at):
    for seed, rows in enumerate((300, BLOCK_ROWS, 1 << 32)):
        (g, missing_g, total_g), (h, missing_h, total_h) = sums_of(count, rows, seed)
        valid = (h + missing_h >= LEAST) & (total_h - missing_h - h >= LEAST)
        g, h = g[valid], h[valid]
        none, sums = np.array([-missing_g, -missing_h]), np.stack([g, h])
        every = np.add(none, [total_g, total_h])
        if begins_at:
            own = [(part + begins_at).view(np.float64) for part in (sums, none, every)]
        else:
            own = [part.astype(np.float64) for part in (sums, none, every)]
        own = *own[0], tuple(own[1]), tuple(own[2]), 0.0
        scores, expected = np.full((2, g.size), np.nan)
        highest = _score_wide(*own, scores)
        in_python = score_wide_cuts(*own, expected)
        exact = exact_scores(g + missing_g, h + missing_h, total_g, total_h)
        check(scores, highest, expected, in_python, exact)
