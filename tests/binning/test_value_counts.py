"""Quantiles from counts, compared with those of sorted values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam.binning import cuts
from hornbeam.binning.cuts import Summary, cut_column, cut_summary, integer_weights
from hornbeam.binning.value_counts import ValueCounts

TYPES = [np.float32, np.float64]
#: Fewer than `cut_column` counts by itself, which is slow as plain Python.
ROWS = 1 << 12


def sorted_rows(values, weights):
    """Return the values of some weight, ascending, and the cumulative weights."""
    kept = ~np.isnan(values)
    if weights is not None:
        kept &= weights > 0
    order = np.argsort(values[kept], kind="stable")
    each = np.ones(kept.sum(), np.int64) if weights is None else weights[kept][order]
    return values[kept][order], np.cumsum(each)


def check(values, weights):
    """Assert that the value at each rank is that of the sorted values."""
    before = values.tobytes()
    ordered, ends = sorted_rows(values, weights)
    counts = ValueCounts(values, weights, None)
    assert counts.has_missing == np.isnan(values).any()
    assert counts.total == (ends[-1] if ends.size else 0)
    assert counts.n_ranges <= len(set(ordered.tolist()))
    if counts.total:
        ranks = np.unique(np.linspace(0, counts.total - 1, 300).astype(np.int64))
        found = counts.at(ranks)
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(
            found, ordered[np.searchsorted(ends, ranks, side="right")]
        )
    assert values.tobytes() == before


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
@examples(60)
@given(data=st.data())
def test_values_at_ranks(dtype, weighted, data):
    width = np.dtype(dtype).itemsize * 8
    numbers = st.floats(allow_nan=True, allow_infinity=False, width=width)
    few = st.sampled_from([0.0, -0.0, 1.0, -1.0, np.nan])
    values = np.array(
        data.draw(st.lists(st.one_of(numbers, few), min_size=1, max_size=60)), dtype
    )
    weights = None
    if weighted:
        drawn = st.lists(st.integers(0, 3), min_size=values.size, max_size=values.size)
        weights = np.array(data.draw(drawn), np.int64)
    check(values, weights)


@pytest.mark.parametrize("dtype", TYPES)
def test_values_that_differ_in_their_last_bits(dtype):
    rng = np.random.default_rng(0)
    steps = rng.integers(0, 500, 2_000)
    near = 1e9 + steps * 64 if dtype == np.float32 else 1e9 + steps * 2.0**-20
    check(near.astype(dtype), None)
    check(np.append(near, [-3.0, np.nan]).astype(dtype), None)


def shapes(rng):
    """Return columns of many kinds, by name."""
    normal = rng.normal(size=ROWS)
    return {
        "normal": normal,
        "half of them zero": np.where(rng.random(ROWS) < 0.5, 0.0, normal),
        "missing": np.where(rng.random(ROWS) < 0.1, np.nan, normal),
        "wide": np.exp(10 * normal),
        "narrow": 1e9 + 1000 * rng.random(ROWS),
        "ranks": np.arange(ROWS) - 99.0,
        "few": rng.integers(0, 256, ROWS) / 8,
        "one": np.full(ROWS, 3.0),
        "none": np.full(ROWS, np.nan),
    }


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", shapes(np.random.default_rng(0)))
def test_cuts_of_a_column_are_those_of_its_sorted_values(
    kind, dtype, weighted, monkeypatch
):
    monkeypatch.setattr(cuts, "_COUNTED_ROWS", ROWS)
    rng = np.random.default_rng(1)
    values = shapes(rng)[kind].astype(dtype)
    weights = integer_weights(rng.integers(0, 4, ROWS) / 3) if weighted else None
    summary = Summary(*sorted_rows(values, weights))
    for max_bin in (2, 255, 256, 300):
        expected = cut_summary(summary, max_bin, bool(np.isnan(values).any()))
        column = cut_column(values, max_bin, weights)
        np.testing.assert_array_equal(column.upper, expected.upper)
        assert column.minimum == expected.minimum
        assert column.has_missing == expected.has_missing
