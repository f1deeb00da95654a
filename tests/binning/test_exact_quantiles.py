"""Tables in batches have the cuts and bins of the same rows in memory."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam.binning import column_pass, exact_quantiles, table_passes
from hornbeam.binning.bin_table import bin_table, bin_with_cuts
from hornbeam.data.categories import Categories
from hornbeam.data.containers.dispatch import as_table
from hornbeam.data.table import Table
from hornbeam.errors import DataError, ParameterError
from hornbeam.kernels.jit import COMPILED

TYPES = [np.float32, np.float64]
ROWS = 3000 if COMPILED else 200


class Parts(Table):
    """A table that yields given parts as batches, and counts its passes."""

    is_stream: ClassVar[bool] = True

    def __init__(self, parts, n_rows=None):
        first = parts[0]
        rows = sum(part.n_rows for part in parts) if n_rows is None else n_rows
        dtype = np.result_type(*(part.dtype for part in parts))
        super().__init__(rows, first.n_features, None, first.types, dtype)
        self.parts = parts
        self.readings = 0

    def batches(self, features=None):
        self.readings += 1
        for part in self.parts:
            yield part if features is None else part.select(features)

    def _columns(self, start, stop, scratch=None):
        raise AssertionError("a stream is not held whole")

    def _rows(self, start, stop, features):
        raise AssertionError("a stream is not held whole")

    def take(self, rows):
        raise AssertionError("a stream is not held whole")


def in_parts(data, borders=(), types=None):
    """Return the rows as a stream of batches that end at these rows."""
    parts = np.split(data, sorted(min(border, len(data)) for border in borders))
    return Parts([as_table(part, types=types) for part in parts])


def check_same(one, other):
    """Assert that two binned matrices are bitwise equal."""
    for part in ("values", "minimums", "pointers"):
        mine, theirs = (getattr(binned.cuts, part) for binned in (one, other))
        np.testing.assert_array_equal(mine, theirs)
        assert mine.tobytes() == theirs.tobytes()
    assert one.by_feature.dtype == other.by_feature.dtype
    np.testing.assert_array_equal(one.by_feature, other.by_feature)
    np.testing.assert_array_equal(one.has_missing, other.has_missing)
    np.testing.assert_array_equal(one.is_categorical, other.is_categorical)
    assert one.is_float32 == other.is_float32


def shrink(monkeypatch, chunk_rows=16, points=8, max_bytes=0, ranges=16):
    """Reduce chunks, sketches and memory, so that few rows test many passes."""
    monkeypatch.setattr(table_passes, "CHUNK_ROWS", chunk_rows)
    monkeypatch.setattr(exact_quantiles, "CHUNK_ROWS", chunk_rows)
    monkeypatch.setattr(exact_quantiles, "POINTS", points)
    monkeypatch.setattr(exact_quantiles, "_CUT_POINTS_PER_BIN", 1)
    monkeypatch.setattr(exact_quantiles, "_RANGE_POINTS_PER_BIN", 1)
    monkeypatch.setattr(column_pass, "MAX_RANGES", ranges)
    monkeypatch.setattr(column_pass, "_MAX_SPLIT", ranges // 4)
    monkeypatch.setattr(exact_quantiles, "MAX_BYTES", max_bytes)


def many_kinds(rows=ROWS, seed=0):
    """Return columns of various distributions."""
    rng = np.random.default_rng(seed)
    mostly_zero = np.where(rng.random(rows) < 0.9, 0.0, rng.normal(size=rows))
    with_missing = np.where(rng.random(rows) < 0.2, np.nan, rng.normal(size=rows))
    return np.column_stack(
        [
            rng.normal(size=rows),
            np.exp(20 * rng.normal(size=rows)),
            mostly_zero,
            with_missing,
            rng.integers(0, 5, rows),
            np.round(rng.exponential(3, rows), 2),
            np.full(rows, np.nan),
            np.full(rows, -0.0),
            np.arange(rows),
        ]
    )


@pytest.mark.parametrize("max_bin", [2, 16, 256, 300])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_small_streams_take_one_pass_for_cuts_and_one_for_bins(
    dtype, weighted, max_bin
):
    data = many_kinds().astype(dtype)
    rng = np.random.default_rng(1)
    weights = rng.integers(0, 3, len(data)) / 3 if weighted else None
    stream = in_parts(data, [1, 50, 51, 150, 150, 1000])
    exact = bin_table(as_table(data), max_bin, weights)
    check_same(bin_table(stream, max_bin, weights), exact)
    assert stream.readings == 2


@pytest.mark.parametrize("max_bytes", [0, 20_000, 60_000])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_large_streams_have_the_cuts_of_the_rows_in_memory(
    dtype, weighted, max_bytes, monkeypatch
):
    shrink(
        monkeypatch, chunk_rows=ROWS // 8, points=64, max_bytes=max_bytes, ranges=256
    )
    data = many_kinds().astype(dtype)
    rng = np.random.default_rng(1)
    weights = rng.integers(0, 3, len(data)) / 3 if weighted else None
    stream = in_parts(data, range(0, len(data), 70))
    check_same(bin_table(stream, 16, weights), bin_table(as_table(data), 16, weights))


@pytest.mark.skipif(not COMPILED, reason="long for plain Python")
@pytest.mark.parametrize("dtype", TYPES)
def test_large_streams_mostly_take_two_passes_for_the_cuts(dtype, monkeypatch):
    monkeypatch.setattr(table_passes, "CHUNK_ROWS", 1 << 15)
    monkeypatch.setattr(exact_quantiles, "CHUNK_ROWS", 1 << 15)
    monkeypatch.setattr(exact_quantiles, "MAX_BYTES", 4 << 20)
    rng = np.random.default_rng(0)
    data = rng.normal(size=(300_000, 3)).astype(dtype)
    data[:, 1] = np.where(rng.random(300_000) < 0.7, 0, data[:, 1])
    data[:, 2] = np.round(100 * np.exp(data[:, 2]), 1)
    stream = in_parts(data, range(0, len(data), 9999))
    check_same(bin_table(stream, 256), bin_table(as_table(data), 256))
    assert stream.readings == 3


tricky = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 1.0, 1.0, 2.0, np.nan, 5e-324, -5e-324, 1e-45]),
    st.floats(allow_infinity=False),
    st.floats(width=32, allow_infinity=False),
    st.integers(-5, 5).map(float),
)
cells = st.lists(
    st.tuples(tricky, st.sampled_from([0.0, 1.0, 1.0, 0.3, 7.5])),
    min_size=1,
    max_size=60,
)


@examples(150 if COMPILED else 40)
@given(
    rows=cells,
    borders=st.lists(st.integers(0, 60), max_size=6),
    max_bin=st.integers(2, 9),
    weighted=st.booleans(),
    dtype=st.sampled_from(TYPES),
    limits=st.tuples(
        st.sampled_from([1, 2, 7, 64]),
        st.sampled_from([2, 5, 16]),
        st.sampled_from([0, 100, 700]),
        st.sampled_from([8, 32]),
    ),
)
def test_cuts_do_not_depend_on_batches(rows, borders, max_bin, weighted, dtype, limits):
    with np.errstate(over="ignore"):
        column = np.array([value for value, _ in rows]).astype(dtype)
    column[np.isinf(column)] = np.finfo(dtype).max
    weights = np.array([weight for _, weight in rows]) if weighted else None
    data = np.column_stack([column, -column])
    stream = in_parts(data, borders)
    exact = bin_table(as_table(data), max_bin, weights)
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch, *limits)
        check_same(bin_table(stream, max_bin, weights), exact)
    assert stream.readings <= 40


@pytest.mark.parametrize("sketch", ["exact", "approximate"])
@pytest.mark.parametrize("n_threads", [0, 2, 3, 7])
def test_streams_do_not_depend_on_the_number_of_threads(n_threads, sketch, monkeypatch):
    shrink(monkeypatch, chunk_rows=50, points=32, max_bytes=20_000, ranges=64)
    stream = in_parts(many_kinds(), range(0, ROWS, 100))
    one, more = (
        bin_table(stream, 16, None, threads, sketch) for threads in (1, n_threads)
    )
    check_same(one, more)


def test_columns_that_are_float64_in_some_batches():
    data = many_kinds()
    narrow = data.astype(np.float32)
    mixed = np.concatenate([narrow[:100], data[100:]])
    stream = Parts([as_table(narrow[:100]), as_table(data[100:])])
    check_same(bin_table(stream, 16), bin_table(as_table(mixed), 16))


@pytest.mark.parametrize("dtype", TYPES)
def test_a_stream_with_the_cuts_of_another_table(dtype):
    binned = bin_table(as_table(many_kinds()), 16)
    other = many_kinds(seed=1).astype(dtype)
    stream = in_parts(other, [7, 70])
    check_same(
        bin_with_cuts(stream, binned.cuts), bin_with_cuts(as_table(other), binned.cuts)
    )
    assert stream.readings == 1


def test_a_missing_value_in_a_later_batch_can_need_uint16():
    data = np.arange(256.0).reshape(-1, 1)
    cuts = bin_table(as_table(data), 256).cuts
    data = np.concatenate([data, [[np.nan]], data])
    for borders in ([100, 256, 300], [260]):
        stream = in_parts(data, borders)
        check_same(bin_with_cuts(stream, cuts), bin_with_cuts(as_table(data), cuts))
        check_same(bin_table(stream, 256), bin_table(as_table(data), 256))


@pytest.mark.parametrize("weighted", [False, True])
def test_categories_in_batches(weighted):
    rng = np.random.default_rng(0)
    bins = rng.integers(0, 300, (ROWS, 2)).astype(np.float32)
    bins[::7, 1] = np.nan
    bins[3, 0] = 400
    weights = np.where(bins[:, 0] == 400, 0.0, 1.0) if weighted else None
    data = np.column_stack([bins, rng.normal(size=ROWS)])
    types = ["c", "c", "float"]
    whole, stream = as_table(data, types=types), in_parts(data, [5, 90], types)
    check_same(bin_table(stream, 16, weights), bin_table(whole, 16, weights))
    stream.categories = Categories([None, np.arange(300.0), None])
    whole.categories = stream.categories
    check_same(bin_table(stream, 16, weights), bin_table(whole, 16, weights))


def test_streams_of_named_categories_take_one_pass():
    stream = in_parts(np.array([[0.0], [2.0], [1.0]]), [1], ["c"])
    stream.categories = Categories([["a", "b", "c"]])
    assert bin_table(stream, 16).by_feature.tolist() == [[0, 2, 1]]
    assert stream.readings == 1


@pytest.mark.parametrize("n_rows", [ROWS - 1, ROWS + 1])
def test_a_changed_number_of_rows_raises(n_rows):
    stream = Parts([as_table(many_kinds())], n_rows)
    with pytest.raises(
        DataError, match=f"{n_rows} rows in the first pass and {ROWS} in"
    ):
        bin_table(stream, 16)


@pytest.mark.parametrize("weighted", [False, True])
def test_approximate_cuts_do_not_depend_on_batches(weighted, monkeypatch):
    shrink(monkeypatch, chunk_rows=50, points=32, max_bytes=1 << 30)
    data = many_kinds()
    weights = np.random.default_rng(0).random(ROWS) if weighted else None
    whole = bin_table(as_table(data), 16, weights, 1, "approximate")
    for borders in ([], [1, 50, 99], range(0, ROWS, 31)):
        stream = in_parts(data, borders)
        check_same(bin_table(stream, 16, weights, 1, "approximate"), whole)
        assert stream.readings == 2


def test_approximate_cuts_of_few_values_are_exact():
    data = many_kinds()
    check_same(
        bin_table(as_table(data), 16, sketch="approximate"),
        bin_table(as_table(data), 16),
    )


def test_an_unknown_sketch_raises():
    with pytest.raises(ParameterError, match="'exact' or 'approximate', not 'rough'"):
        bin_table(as_table(many_kinds()), 16, sketch="rough")
