"""Tables are mapped to bins and decoded."""

from __future__ import annotations

import naive
import numpy as np
import pytest

from hornbeam.binning.bin_table import BinnedTable, bin_table, bin_with_cuts
from hornbeam.binning.dense import pack_features
from hornbeam.data.categories import Categories
from hornbeam.data.containers.dispatch import as_table
from hornbeam.errors import DataError
from hornbeam.kernels.jit import COMPILED

TYPES = [np.float32, np.float64]


def some_rows(rows=100, dtype=np.float64, missing=0.15, seed=0):
    """Return columns of a constant, few values, many values and missing values."""
    rng = np.random.default_rng(seed)
    data = np.column_stack(
        [
            np.full(rows, 3.0),
            rng.integers(0, 4, rows),
            rng.normal(size=rows),
            np.where(rng.random(rows) < 0.7, 0.0, rng.normal(size=rows)),
            np.full(rows, np.nan),
        ]
    ).astype(dtype)
    data[rng.random(data.shape) < missing] = np.nan
    return data


def check(binned, data):
    """Assert that each bin is the number of cuts not above the value."""
    for f in range(data.shape[1]):
        cuts = binned.cuts.of(f).astype(data.dtype)
        exact = [naive.code_of(value, cuts[:-1], cuts.size) for value in data[:, f]]
        np.testing.assert_array_equal(binned.by_feature[f], exact)
        assert binned.has_missing[f] == np.isnan(data[:, f]).any()


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("max_bin", [2, 9, 256, 300])
@pytest.mark.parametrize("dtype", TYPES)
def test_bins(dtype, max_bin, missing):
    data = some_rows(dtype=dtype, missing=missing)
    binned = bin_table(as_table(data), max_bin)
    check(binned, data)
    assert (binned.n_rows, binned.n_features) == data.shape
    assert binned.by_feature.dtype == (np.uint16 if max_bin > 256 else np.uint8)
    assert (binned.cuts.n_bins <= max_bin).all()
    cells = binned.cuts.n_bins + binned.has_missing
    np.testing.assert_array_equal(np.diff(binned.offsets), cells)
    columns, _ = pack_features(binned.by_feature, binned.offsets)
    np.testing.assert_array_equal(binned.by_row(), columns.T.ravel())
    assert binned.by_row() is binned.by_row()


@pytest.mark.parametrize(
    ("distinct", "missing", "code_type"),
    [
        (255, True, np.uint8),
        (256, False, np.uint8),
        (256, True, np.uint16),
        (257, True, np.uint8),
        (257, False, np.uint8),
    ],
)
def test_256_values_and_missing_need_uint16(distinct, missing, code_type):
    data = np.column_stack([np.arange(260) % distinct, np.arange(260) % 3.0])
    if missing:
        data = np.concatenate([data, [[np.nan, 1.0]]])
    binned = bin_table(as_table(data), 256)
    check(binned, data)
    assert binned.by_feature.dtype == binned.by_row().dtype == code_type
    if distinct <= 256:
        assert binned.cuts.n_bins[0] == distinct


@pytest.mark.parametrize("dtype", TYPES)
def test_other_rows_with_the_same_cuts(dtype):
    binned = bin_table(as_table(some_rows()), 9)
    other = 3 * some_rows(80, dtype, missing=0.5, seed=1)
    other[0], other[1] = np.finfo(dtype).max, np.finfo(dtype).min
    # Values equal to cuts, and their neighbours in the dtype of the rows.
    cuts = binned.cuts.of(2).astype(dtype)
    other[2 : 2 + cuts.size, 2] = cuts
    other[20 : 20 + cuts.size, 2] = np.nextafter(cuts, dtype(-np.inf))
    again = bin_with_cuts(as_table(other), binned.cuts)
    check(again, other)
    assert again.cuts.values.tobytes() == binned.cuts.values.tobytes()


def test_cuts_depend_on_weights():
    data = some_rows(missing=0.0)[:, 2:3]
    weights = np.where(data[:, 0] > 0, 5.0, 1.0)
    plain = bin_table(as_table(data), 8)
    weighted = bin_table(as_table(data), 8, weights)
    assert np.median(weighted.cuts.of(0)) > np.median(plain.cuts.of(0))
    check(weighted, data)


@pytest.mark.parametrize("n_threads", [0, 2, 7])
def test_bins_do_not_depend_on_the_number_of_threads(n_threads):
    data = np.tile(some_rows(), 4)
    one, more = (bin_table(as_table(data), 16, None, n) for n in (1, n_threads))
    assert one.by_feature.tobytes() == more.by_feature.tobytes()
    assert one.cuts.values.tobytes() == more.cuts.values.tobytes()
    assert one.by_row(1).tobytes() == more.by_row(n_threads).tobytes()


@pytest.mark.skipif(not COMPILED, reason="long for plain Python")
def test_row_major_bins_of_many_blocks():
    data = np.random.default_rng(0).normal(size=(150_000, 3)).astype(np.float32)
    binned = bin_table(as_table(data), 64, None, 2)
    columns, _ = pack_features(binned.by_feature, binned.offsets)
    np.testing.assert_array_equal(binned.by_row(2), columns.T.ravel())


@pytest.mark.parametrize("max_bin", [3, 256])
@pytest.mark.parametrize("dtype", TYPES)
def test_decoded_values_are_in_the_same_bin(dtype, max_bin):
    data = some_rows(dtype=dtype)
    binned = bin_table(as_table(data), max_bin)
    decoded = binned.decode(0, 100)
    assert decoded.dtype == binned.dtype
    np.testing.assert_array_equal(np.isnan(decoded), np.isnan(data))
    for f in range(data.shape[1]):
        known = ~np.isnan(data[:, f])
        for cut in [*binned.cuts.of(f), binned.cuts.minimums[f]]:
            sides = (decoded[known, f] < cut) == (data[known, f] < cut)
            assert sides.all()
    np.testing.assert_array_equal(binned.decode(40, 60), decoded[40:60])
    again = bin_with_cuts(as_table(decoded), binned.cuts)
    assert again.by_feature.tobytes() == binned.by_feature.tobytes()


def test_decoded_values_are_float32_if_that_is_exact():
    assert bin_table(as_table(some_rows(dtype=np.float32)), 16).dtype == np.float32
    assert bin_table(as_table(some_rows()), 16).dtype == np.float64
    integers = np.arange(30.0).reshape(-1, 1)
    assert bin_table(as_table(integers), 16).dtype == np.float32


def coded(*columns):
    """Return a table whose last column holds category codes."""
    types = ["float"] * (len(columns) - 1) + ["c"]
    return as_table(np.column_stack(columns).astype(np.float32), types=types)


@pytest.mark.parametrize("last", [3, 255, 256, 65_534])
@pytest.mark.parametrize("missing", [False, True])
def test_the_bin_of_a_category_is_its_code(last, missing):
    bins = np.array([2, 0, np.nan if missing else 1, last, 2])
    binned = bin_table(coded(np.arange(5), bins), 4)
    assert binned.is_categorical.tolist() == [False, True]
    assert binned.cuts.of(1).tolist() == list(range(1, last + 2))
    assert binned.cuts.minimums[1] == 0
    expected = np.where(np.isnan(bins), last + 1, bins)
    np.testing.assert_array_equal(binned.by_feature[1], expected)
    assert binned.has_missing.tolist() == [False, missing]
    assert binned.by_feature.dtype == (np.uint8 if last < 255 else np.uint16) or (
        last == 255 and not missing
    )
    np.testing.assert_array_equal(binned.decode(0, 5)[:, 1], bins)


def test_categories_with_the_cuts_of_another_table():
    numbers = np.zeros(4)
    binned = bin_table(coded(numbers, [0, 4, np.nan, 1]), 4)
    again = bin_with_cuts(coded(numbers, [4, 3, 3, np.nan]), binned.cuts)
    assert again.by_feature[1].tolist() == [4, 3, 3, 5]
    assert again.is_categorical.tolist() == [False, True]
    with pytest.raises(DataError, match=r"row 1 of column 1 holds .* 7, .* up to 4"):
        bin_with_cuts(coded(numbers, [0, 7, 0, 0]), binned.cuts)
    with pytest.raises(DataError, match="codes up to 0"):
        nothing = bin_table(coded(numbers, [np.nan] * 4), 4)
        bin_with_cuts(coded(numbers, [0, 0, 1, 0]), nothing.cuts)


def test_a_binned_table_returns_decoded_rows():
    data = some_rows(dtype=np.float32)[:, 1:4]
    types = ["float", "float", "q"]
    table = as_table(data, names=["a", "b", "c"], types=types)
    binned = bin_table(table, 9)
    decoded = BinnedTable(binned, table.schema)
    assert decoded.schema == table.schema and decoded.dtype == np.float32
    rows = binned.decode(0, 100)
    np.testing.assert_array_equal(decoded.rows(10, 30), rows[10:30])
    np.testing.assert_array_equal(
        decoded.rows(10, 30, np.array([2, 0])), rows[10:30, [2, 0]]
    )
    np.testing.assert_array_equal(np.column_stack(decoded.columns(1, 3)), rows[:, 1:])
    some = np.array([5, 5, 99, 0])
    np.testing.assert_array_equal(decoded.take(some).rows(0, 4), rows[some])


def test_each_named_category_has_a_bin():
    table = coded([2, np.nan, 0])
    table.categories = Categories([["z", "y", "x"]])
    binned = bin_table(table, 256)
    assert binned.by_feature.tolist() == [[2, 3, 0]]
    assert binned.cuts.n_bins.tolist() == [3]
