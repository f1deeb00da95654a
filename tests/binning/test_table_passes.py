"""Passes over cached columns find the cuts of the rows."""

from __future__ import annotations

import numpy as np
import pytest

from hornbeam import DataError
from hornbeam.binning import exact_quantiles
from hornbeam.binning.bin_table import bin_batches, bin_table
from hornbeam.binning.cuts import Cuts, integer_weights
from hornbeam.binning.exact_quantiles import cut_finders, find_cuts
from hornbeam.binning.table_passes import ColumnCache, run_passes
from hornbeam.data.containers.dispatch import as_table
from hornbeam.data.table import Table
from hornbeam.distributed.joined_table import JoinedTable
from hornbeam.distributed.partitions import PartitionTable

ROWS = 3000


class Counted(Table):
    """A table in batches, some of float32, that records which columns are read."""

    is_stream = True

    def __init__(self, parts):
        super().__init__(
            sum(part.n_rows for part in parts),
            parts[0].n_features,
            None,
            parts[0].types,
            np.result_type(*(part.dtype for part in parts)),
        )
        self.parts = parts
        self.read = []

    def batches(self, features=None):
        self.read.append(list(features))
        for part in self.parts:
            yield part.select(features)

    def _columns(self, start, stop, scratch=None):
        raise AssertionError("read in batches")

    def _rows(self, start, stop, features):
        raise AssertionError("read in batches")

    def take(self, rows):
        raise AssertionError("read in batches")


def samples():
    """Return columns of numbers, few values, one frequent value, and categories."""
    rng = np.random.default_rng(0)
    columns = [
        rng.normal(size=ROWS).astype(np.float32),
        np.where(rng.random(ROWS) < 0.2, np.nan, rng.integers(0, 9, ROWS)),
        np.where(rng.random(ROWS) < 0.8, -0.0, rng.normal(size=ROWS)),
        rng.integers(0, 5, ROWS),
    ]
    weights = rng.integers(0, 3, ROWS) / 3
    return np.column_stack(columns), weights


TYPES = ["float", "float", "float", "c"]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kept", [0, 1, 3, 4])
@pytest.mark.parametrize("counts", [False, True])
def test_cached_columns_give_the_cuts_of_the_rows(
    counts, kept, weighted, threads, monkeypatch
):
    monkeypatch.setattr(exact_quantiles, "COUNTED_ROWS", 1)
    # With small sketches further passes are needed.
    monkeypatch.setattr(exact_quantiles, "POINTS", 64)
    monkeypatch.setattr(exact_quantiles, "_RANGE_POINTS_PER_BIN", 1)
    data, weights = samples()
    parts = [
        as_table(data[:1000].astype(np.float32), types=TYPES),
        as_table(data[1000:], types=TYPES),
    ]
    data[:1000] = data[:1000].astype(np.float32)
    table = Counted(parts)
    fixed = integer_weights(weights) if weighted else None
    max_bytes = kept * ROWS * (16 if weighted else 8)
    cache = ColumnCache(table, fixed, max_bytes)
    done = []

    def read(places, passes):
        done.append(cache.run_passes(places, passes, threads))
        rest = slice(done[-1], None)
        if places[rest]:
            run_passes(table, places[rest], passes[rest], fixed, threads)
        return passes

    columns = cut_finders(
        table.schema, 16, ROWS, exact=True, max_bytes=4000, counts=counts
    )
    found = Cuts.join(find_cuts(columns, read))
    whole = as_table(data, types=TYPES)
    exact = bin_table(whole, 16, weights if weighted else None).cuts
    for part in ("values", "minimums", "pointers"):
        assert getattr(found, part).tobytes() == getattr(exact, part).tobytes()
    assert done[0] == kept
    if kept == 4:
        assert len(done) > 1
        assert table.read == [
            [0, 1, 2, 3]
        ]  # all passes use the sorted columns of one read


def test_unused_columns_are_dropped_from_the_cache():
    data, _ = samples()
    table = Counted([as_table(data)])
    cache = ColumnCache(table, None, 2 * ROWS * 8)

    def read(*features):
        columns = cut_finders(table.schema, 16, ROWS, exact=True, max_bytes=4000)
        passes = [columns[feature].new_pass() for feature in features]
        return cache.run_passes(features, passes, 1)

    assert read(0, 1, 2) == 2
    assert read(1, 2, 3) == 2
    assert read(2) == 1
    assert read(1, 2) == 2
    assert table.read == [[0, 1], [2], [1]]


def read_all(cache, n_features):
    """Find the cuts of all columns, each counted."""
    columns = cut_finders(
        cache.rows().schema, 16, ROWS, exact=True, max_bytes=1 << 20, counts=True
    )

    def read(places, passes):
        assert cache.run_passes(places, passes, 1) == len(places)
        return passes

    assert len(find_cuts(columns, read)) == n_features


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_counted_columns_are_read_once_for_cuts_and_bins(dtype, monkeypatch):
    monkeypatch.setattr(exact_quantiles, "COUNTED_ROWS", 1)
    data = np.random.default_rng(1).normal(size=(ROWS, 3)).astype(dtype)
    table = Counted([as_table(data[:1700]), as_table(data[1700:])])
    cache = ColumnCache(table, None, 3 * ROWS * 8)
    read_all(cache, 3)
    binned = bin_batches(
        cache.rows(), bin_table(as_table(data), 16).cuts.columns(), 16, 1, own_cuts=True
    )
    assert table.read == [[0, 1, 2]]
    expected = bin_table(as_table(data), 16)
    np.testing.assert_array_equal(binned.by_feature, expected.by_feature)
    assert binned.is_float32 == expected.is_float32


def test_rows_are_read_again_unless_all_columns_were_counted():
    data, _ = samples()
    table = Counted([as_table(data)])
    cache = ColumnCache(table, None, 4 * ROWS * 8)
    assert cache.rows() is table
    read_all(cache, 4)
    assert cache.rows() is table  # they are sorted


@pytest.mark.parametrize("chosen", [[0, 1, 2], [1]])
@pytest.mark.parametrize("rows", [ROWS, 20_000])
def test_an_infinite_value_is_found_where_it_is(chosen, rows):
    data = np.random.default_rng(2).normal(size=(rows, 3)).astype(np.float32)
    data[rows - 7, 1] = -np.inf
    half = rows // 2
    parts = [
        PartitionTable(as_table(data[:half]), 4),
        PartitionTable(as_table(data[half:]), 5),
    ]
    cache = ColumnCache(JoinedTable(parts), None, 3 * rows * 4)
    finders = cut_finders(parts[0].schema, 16, rows, exact=True, max_bytes=1 << 20)
    passes = [finders[feature].new_pass() for feature in chosen]
    where = f"partition 5: column '?f?1'?.* holds -inf in row {half - 7};"
    with pytest.raises(DataError, match=where):
        cache.run_passes(chosen, passes, 1)
