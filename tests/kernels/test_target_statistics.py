"""Ordered means of labels by level."""

from __future__ import annotations

import numpy as np
import pytest

from hornbeam.kernels.target_statistics import add_ordered_means


def reference(order, levels, targets, weights, prior, strength):
    """Return the means, each from all rows before the row."""
    means = np.zeros(len(order))
    for place, row in enumerate(order):
        before = [other for other in order[:place] if levels[other] == levels[row]]
        total = sum(weights[other] * targets[other] for other in before)
        count = sum(weights[other] for other in before)
        means[row] = (total + strength * prior) / (count + strength)
    return means


@pytest.mark.parametrize("levels", [1, 5, 60])
def test_ordered_means_are_those_of_the_rows_before(levels):
    rng = np.random.default_rng(levels)
    order = rng.permutation(60)
    codes = rng.integers(levels, size=60)
    targets, weights = rng.normal(size=60), rng.uniform(0.5, 2.0, 60)
    means = np.full(60, 10.0)
    sums, counts = np.zeros((2, levels))
    add_ordered_means(order, codes, targets, weights, 0.3, 1.5, sums, counts, means)
    expected = reference(order, codes, targets, weights, 0.3, 1.5)
    np.testing.assert_allclose(means, 10.0 + expected, rtol=1e-12)
    by_level = np.bincount(codes, weights * targets, levels)
    np.testing.assert_allclose(sums, by_level, atol=1e-12)
    np.testing.assert_allclose(counts, np.bincount(codes, weights, levels))
