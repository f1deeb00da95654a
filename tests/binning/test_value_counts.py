"""Quantiles from counts, compared with those of sorted values."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam.binning import value_counts
from hornbeam.binning.cuts import Summary, cut_summary, integer_weights
from hornbeam.binning.value_counts import (
    ExtremesPass,
    NumberedColumn,
    counted_cuts,
    cut_column,
)

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


def run_over(parts, new):
    """Return a pass that has counted each of the parts in its own copy."""
    passes = [pickle.loads(pickle.dumps(new)) for _ in parts]
    for own, part in zip(passes, parts, strict=True):
        own.count(part)
    for other in passes[1:]:
        passes[0].merge(pickle.loads(pickle.dumps(other)))
    return passes[0]


def check(values, weights):
    """Assert that the value at each rank is that of the sorted values."""
    before = values.tobytes()
    ordered, ends = sorted_rows(values, weights)
    third = -(-values.size // 3)
    parts = [
        NumberedColumn(
            values[i : i + third], None if weights is None else weights[i : i + third]
        )
        for i in range(0, values.size, third)
    ]
    extremes = run_over(parts, ExtremesPass())
    assert extremes.has_missing == np.isnan(values).any()
    prefixes = run_over(parts, extremes.prefixes())
    assert prefixes.n_ranges <= len(set(ordered.tolist()))
    totals = []

    def ranks_of(total):
        totals.append(total)
        return np.unique(np.linspace(0, max(total, 1) - 1, 300).astype(np.int64))

    if ordered.size:
        digits = run_over(parts, prefixes.digits(ranks_of))
        assert totals == [ends[-1]]
        found = run_over(parts, digits.values(None)).found()
        assert found.dtype == values.dtype
        ranks = ranks_of(totals[0])
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
    monkeypatch.setattr(value_counts, "COUNTED_ROWS", ROWS)
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


def cuts_of_parts(parts, max_bin, **options):
    """Return the cuts that counts of the parts lead to, None if they do not."""
    steps = counted_cuts(max_bin, **options)
    step = next(steps)
    while True:
        step = run_over(parts, step)
        try:
            step = steps.send(step)
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize("weighted", [False, True])
def test_parts_of_different_types_have_the_cuts_of_the_column(weighted):
    rng = np.random.default_rng(2)
    values = rng.normal(size=ROWS)
    values[:1000] = values[:1000].astype(np.float32)
    values[1000:1500] = np.nan
    weights = integer_weights(rng.integers(0, 4, ROWS) / 3) if weighted else None
    kinds = (0, 1000, np.float32), (1000, 1500, np.float32), (1500, ROWS, np.float64)
    parts = [
        NumberedColumn(
            values[begin:end].astype(kind),
            None if weights is None else weights[begin:end],
        )
        for begin, end, kind in kinds
    ]
    expected = cut_summary(Summary(*sorted_rows(values, weights)), 64, True)
    found = cuts_of_parts(parts, 64)
    assert found is not None
    assert found.upper.tobytes() == expected.upper.tobytes()
    assert (found.minimum, found.has_missing) == (expected.minimum, True)


def test_more_values_near_quantiles_than_allowed_are_not_kept():
    values = NumberedColumn(np.random.default_rng(3).normal(size=ROWS), None)
    assert cuts_of_parts([values], 64) is not None
    assert cuts_of_parts([values], 64, max_rows=63) is None
