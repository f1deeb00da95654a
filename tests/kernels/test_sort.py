"""Sorting with weights, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam.kernels.sort import sort_floats

TYPES = [np.float32, np.float64]


def edges(dtype):
    """Return edge cases of sorting by bits."""
    info = np.finfo(dtype)
    tiny = np.nextafter(dtype(0), dtype(1))
    ends = [0.0, tiny, info.tiny, 1.0, info.max, np.inf]
    values = np.array([*ends, *(-end for end in map(dtype, ends))], dtype)
    bits = f"u{dtype().itemsize}"
    sign = np.array(-0.0, dtype).view(bits)
    # NaN of both signs, quiet or not, with the least and the greatest payload.
    nans = np.array(np.inf, dtype).view(bits) | np.array([1, 2, sign - 1], bits)
    return np.concatenate([values, nans.view(dtype), (nans | sign).view(dtype)])


def check(values, weights=None):
    """Assert that values are sorted, and weights with them."""
    before = values.copy()
    ordered, carried = sort_floats(values, weights)
    assert values.tobytes() == before.tobytes()
    np.testing.assert_array_equal(ordered, np.sort(values))
    assert ordered.dtype == values.dtype
    if weights is None:
        assert carried is None
        return
    # The negative zero comes before the positive one.
    zeros = np.signbit(ordered[ordered == 0])
    assert (zeros[:-1] >= zeros[1:]).all()
    order = np.lexsort([~np.signbit(values) & (values == 0), values])
    known = ~np.isnan(values[order])
    np.testing.assert_array_equal(carried[: known.sum()], weights[order][known])
    assert sorted(carried) == sorted(weights)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_edges(dtype, weighted):
    values = edges(dtype)
    for seed in range(3):
        mixed = np.random.default_rng(seed).permutation(np.tile(values, 2))
        weights = np.arange(mixed.size) if weighted else None
        check(mixed, weights)


@pytest.mark.parametrize("rows", [0, 1, 2, 60])
@pytest.mark.parametrize("dtype", TYPES)
def test_sizes(dtype, rows):
    rng = np.random.default_rng(rows)
    values = rng.standard_cauchy(rows).astype(dtype)
    weights = rng.integers(0, 2**40, rows)
    kept = weights.copy()
    check(values)
    check(values, weights)
    np.testing.assert_array_equal(weights, kept)


@pytest.mark.parametrize("values", [[3.0] * 9, [1.0, 2.0] * 5, [np.nan] * 4])
@pytest.mark.parametrize("dtype", TYPES)
def test_digits_that_all_keys_share_are_skipped(dtype, values):
    check(np.array(values, dtype))
    check(np.array(values, dtype), np.arange(len(values)))


@examples(25)
@given(st.lists(st.floats(width=32), max_size=30), st.sampled_from(TYPES))
def test_any_floats(values, dtype):
    check(np.array(values, dtype), np.arange(len(values)))
