"""Binning of values, and conversion between column and row order."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from kernel_calls import needs_compiler

from hornbeam.kernels.binning import bin_column, decode_rows, find_ends, interleave

FLOATS = [np.float32, np.float64]
CODES = [np.uint8, np.uint16]


def codes_of(values, inner, code_type):
    """Return the bins of values, with `inner` as the cuts between bins."""
    depth = len(inner).bit_length()
    cuts = np.full(1 << depth, np.inf, values.dtype)
    cuts[1 : len(inner) + 1] = inner
    codes = np.full(values.size, 99, code_type)
    position = np.full(1024, 7, np.uint32)
    bin_column(values, cuts, depth, len(inner) + 1, position, codes)
    return codes


@pytest.mark.parametrize("n_cuts", [0, 1, 2, 3, 4, 7, 8, 20])
@pytest.mark.parametrize("code_type", CODES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_bin_is_the_number_of_cuts_below(dtype, code_type, n_cuts):
    rng = np.random.default_rng(n_cuts)
    inner = np.unique(rng.normal(size=n_cuts).astype(dtype))
    beside = [np.nextafter(inner, dtype(to)) for to in (-np.inf, np.inf)]
    most = np.finfo(dtype).max
    ends = np.array([most, -most, np.nan, -np.nan, 0.0, -0.0], dtype)
    values = np.concatenate([inner, *beside, ends, rng.normal(size=30).astype(dtype)])
    exact = [naive.code_of(value, inner, n_cuts + 1) for value in values]
    np.testing.assert_array_equal(codes_of(values, inner, code_type), exact)


def test_256_bins():
    inner = np.arange(1, 255, dtype=np.float32)
    values = np.append(np.arange(255, dtype=np.float32), np.nan)
    codes = codes_of(values, inner, np.uint8)
    np.testing.assert_array_equal(codes, np.arange(256))


@needs_compiler
def test_long_columns():
    rng = np.random.default_rng(0)
    inner = np.unique(rng.normal(size=600))
    values = rng.normal(size=5000)
    values[::9] = np.nan
    exact = np.searchsorted(inner, values, side="right")
    exact[::9] = inner.size + 1
    np.testing.assert_array_equal(codes_of(values, inner, np.uint16), exact)


@pytest.mark.parametrize("code_type", CODES)
@pytest.mark.parametrize(("begin", "end"), [(0, 600), (5, 9), (100, 600), (7, 7)])
def test_interleave(begin, end, code_type):
    columns = np.random.default_rng(0).integers(0, 200, (3, 600)).astype(code_type)
    by_row = np.zeros(columns.size, code_type)
    interleave(columns, begin, end, by_row)
    exact = np.zeros((600, 3), code_type)
    exact[begin:end] = columns.T[begin:end]
    np.testing.assert_array_equal(by_row, exact.ravel())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("code_type", CODES)
def test_decode_rows(code_type, dtype):
    rng = np.random.default_rng(0)
    sizes = [3, 300 if code_type == np.uint16 else 200, 1]
    starts = np.cumsum([0, *sizes[:-1]])
    ends = rng.normal(size=sum(sizes)).astype(dtype)
    ends[-1] = np.nan
    codes = np.array([rng.integers(0, size, 1100) for size in sizes]).astype(code_type)
    features = np.array([2, 1])
    values = np.empty((1030, 2), dtype)
    decode_rows(codes, 40, features, ends, starts, values)
    for place, f in enumerate(features):
        expected = ends[starts[f] + codes[f, 40:1070]]
        np.testing.assert_array_equal(values[:, place], expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_least_and_greatest_value_of_each_bin(dtype):
    rng = np.random.default_rng(0)
    values = rng.normal(size=40).astype(dtype)
    codes = rng.integers(5, size=40).astype(np.uint8)  # 4: missing
    lows, highs = np.full(4, np.inf), np.full(4, -np.inf)
    for rows in (slice(0, 15), slice(15, 40)):
        find_ends(codes[rows], values[rows], lows, highs)
    for code in range(4):
        assert lows[code] == values[codes == code].min()
        assert highs[code] == values[codes == code].max()
