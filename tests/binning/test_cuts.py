"""Cuts of columns, compared with plain definitions and with XGBoost."""

from __future__ import annotations

import naive
import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam.binning.cuts import integer_weights
from hornbeam.binning.value_counts import cut_column

TYPES = [np.float32, np.float64]


def inner_of(column):
    """Return the cuts between bins."""
    assert (np.diff(column.upper) > 0).all()
    return column.upper[:-1].tolist()


def rows_of_bins(values, column):
    """Return the number of rows of each bin."""
    bins = np.searchsorted(column.upper[:-1], values, side="right")
    return np.bincount(bins, minlength=column.upper.size)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("distinct", [1, 2, 7, 16])
@pytest.mark.parametrize("dtype", TYPES)
def test_few_values_have_one_bin_each(dtype, distinct, missing):
    rng = np.random.default_rng(distinct)
    values = rng.choice(rng.normal(size=distinct).astype(dtype), 60)
    values[:distinct] = np.unique(values).tolist() * (distinct // len(set(values)))
    values[rng.random(60) < missing] = np.nan
    column = cut_column(values, 16, None)
    assert inner_of(column) == naive.cuts_of_few(values)
    assert column.minimum < np.nanmin(values) <= np.nanmax(values) < column.upper[-1]
    assert column.has_missing == (missing > 0.0)


def test_cuts_of_few_values_equal_those_of_xgboost():
    rng = np.random.default_rng(0)
    data = np.column_stack(
        [
            rng.integers(-20, 20, 200),
            rng.choice(np.array([0.0, -0.0, 1e-42, -1e37, 1e30]), 200),
            rng.choice(rng.normal(size=30), 200),
            np.full(200, 5.0),
        ]
    ).astype(np.float32)
    data[rng.random(data.shape) < 0.1] = np.nan
    matrix = xgboost.QuantileDMatrix(data, max_bin=64)
    pointers, theirs = matrix.get_quantile_cut()
    for f in range(4):
        column = cut_column(np.ascontiguousarray(data[:, f]), 64, None)
        own = [column.minimum, *column.upper]
        other = theirs[int(pointers[f]) : int(pointers[f + 1])]
        np.testing.assert_array_equal(np.array(own, np.float32), other)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("max_bin", [2, 3, 16, 37])
@pytest.mark.parametrize("dtype", TYPES)
def test_many_values_are_cut_at_quantiles(dtype, max_bin, missing):
    rng = np.random.default_rng(max_bin)
    values = rng.normal(size=150).astype(dtype)
    values[rng.random(150) < missing] = np.nan
    column = cut_column(values, max_bin, None)
    assert inner_of(column) == naive.quantile_cuts(values, np.ones(150), max_bin)
    sizes = rows_of_bins(values[~np.isnan(values)], column)
    assert sizes.size == max_bin and sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("max_bin", [2, 5, 12])
@pytest.mark.parametrize("dtype", TYPES)
def test_weighted_quantiles(dtype, max_bin):
    rng = np.random.default_rng(0)
    values = rng.normal(size=150).astype(dtype)
    weights = rng.integers(0, 4, 150)
    exact = naive.quantile_cuts(values, weights, max_bin)
    assert len(exact) == max_bin - 1
    fixed = integer_weights(weights.astype(float))
    assert inner_of(cut_column(values, max_bin, fixed)) == exact
    # A row of weight 3 counts as three rows, a row of weight 0 as none.
    repeated = np.repeat(values, weights)
    assert inner_of(cut_column(repeated, max_bin, None)) == exact


def test_values_of_weight_zero_have_no_bin():
    values = np.array([1.0, 2.0, 3.0, 4.0, np.nan])
    column = cut_column(values, 8, integer_weights(np.array([1.0, 0, 2, 0, 0])))
    assert inner_of(column) == [3.0]
    assert column.minimum < 1.0 and column.upper[-1] > 3.0
    assert column.has_missing


@pytest.mark.parametrize("heavy", [0.0, -5.0, 5.0])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.97])
def test_a_column_of_mostly_one_value_still_uses_its_bins(share, heavy):
    rng = np.random.default_rng(0)
    values = rng.normal(size=1500)
    values[rng.random(1500) < share] = heavy
    column = cut_column(values, 16, None)
    sizes = rows_of_bins(values, column)
    assert 13 <= sizes.size <= 16
    # The other values use the remaining bins.
    others = rows_of_bins(values[values != heavy], column)
    assert others.max() <= 2.5 * others.sum() / 14
    assert set(inner_of(column)) <= set(values.tolist())


def test_cuts_give_at_most_max_bin_bins():
    rng = np.random.default_rng(0)
    for seed in range(20):
        values = np.round(rng.standard_cauchy(300) * seed, 1)
        values[rng.random(300) < 0.5 * (seed % 2)] = np.nan
        for max_bin in (2, 3, 10, 64):
            column = cut_column(values, max_bin, None)
            assert column.upper.size <= max_bin
        column = cut_column(np.append(values, np.arange(300.0)), 256, None)
        assert column.upper.size + column.has_missing <= 256


columns = st.lists(
    st.tuples(
        st.one_of(st.integers(-3, 3).map(float), st.floats(width=32)),
        st.one_of(st.just(1.0), st.floats(2**-20, 100)),
    ),
    min_size=1,
    max_size=40,
).filter(lambda rows: all(abs(value) != float("inf") for value, _ in rows))


@examples(40)
@given(columns, st.randoms(), st.integers(2, 9), st.sampled_from(TYPES), st.booleans())
def test_cuts_do_not_depend_on_the_order_of_rows(
    rows, random, max_bin, dtype, weighted
):
    mixed = list(rows)
    random.shuffle(mixed)
    cuts = []
    for order in (rows, mixed):
        values, weights = (np.array(part) for part in zip(*order, strict=True))
        fixed = integer_weights(weights) if weighted else None
        cuts.append(cut_column(values.astype(dtype), max_bin, fixed))
    first, second = cuts
    assert first.upper.tobytes() == second.upper.tobytes()
    assert first.minimum == second.minimum
    assert first.has_missing == second.has_missing


def test_weights_in_fixed_point_do_not_depend_on_their_order():
    rng = np.random.default_rng(0)
    weights = rng.random(50)
    weights /= weights.sum()  # to one, or nearly: that depends on the order
    fixed = integer_weights(weights)
    sums = set()
    for _ in range(100):
        order = rng.permutation(50)
        np.testing.assert_array_equal(integer_weights(weights[order]), fixed[order])
        sums.add(float(weights[order].sum()))
    assert len(sums) > 1
    assert integer_weights(None) is None


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1.0, 1e30, 1e300])
def test_weights_in_fixed_point_keep_their_proportions(scale):
    fixed = integer_weights(np.array([3.0, 1.0, 0.0, 1e-6]) * scale)
    assert fixed[2] == 0 and fixed[0] / fixed[1] == pytest.approx(3, rel=1e-9)
    assert fixed[3] / fixed[1] == pytest.approx(1e-6, rel=1e-6)
    many = integer_weights(np.full(1000, scale))
    assert 0 < many.sum() < 2**63


def test_float64_values_are_not_merged():
    base = 16_777_216.0
    values = np.array([base, base + 1, base + 2, base + 3] * 5)
    column = cut_column(values, 8, None)
    assert inner_of(column) == [base + 1, base + 2, base + 3]


@pytest.mark.parametrize("dtype", TYPES)
def test_an_all_missing_column(dtype):
    column = cut_column(np.full(5, np.nan, dtype), 16, None)
    assert column.upper.size == 1 and column.has_missing
    assert column.minimum < column.upper[0]


@pytest.mark.parametrize("value", [0.0, -0.0, 1e-45, -7.0, 3.4e38, -3.4e38])
@pytest.mark.parametrize("dtype", TYPES)
def test_lower_and_upper_end_enclose_a_constant(dtype, value):
    value = dtype(value)
    column = cut_column(np.full(5, value), 16, None)
    assert column.upper.size == 1 and not column.has_missing
    assert column.minimum < float(value) < column.upper[0]
    assert np.isfinite([column.minimum, column.upper[0]]).all()


def test_lower_and_upper_end_of_values_beyond_float32():
    for value in (1e300, -1e300, 2.0**60 + 2**8):
        column = cut_column(np.full(5, value), 16, None)
        assert column.minimum < value < column.upper[0] < np.inf


def test_zeros_of_both_signs_are_equal():
    column = cut_column(np.array([-0.0, 0.0, 1.0, -1.0, 0.0, -0.0]), 16, None)
    assert inner_of(column) == [0.0, 1.0]
    assert not np.signbit(column.upper).any()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("known", [0, 1, 5, 60])
def test_absent_rows_count_as_missing(known, weighted):
    rng = np.random.default_rng(known)
    values = np.append(rng.normal(size=known), [np.nan] * 7)
    weights = integer_weights(rng.random(known + 7)) if weighted else None
    whole = cut_column(values, 8, weights)
    part = cut_column(
        values[:known], 8, None if weights is None else weights[:known], absent=7
    )
    assert part.upper.tobytes() == whole.upper.tobytes()
    assert (part.minimum, part.has_missing) == (whole.minimum, True)
