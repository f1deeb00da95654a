"""Exclusive feature bundling: features never stored in the same row share a column."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import hornbeam
from hornbeam.binning.bin_table import bin_table
from hornbeam.binning.layout import DenseBins, SparseBins
from hornbeam.data.containers.dispatch import as_table
from hornbeam.kernels.jit import COMPILED

N_ROWS = 3000 if COMPILED else 200


def one_of_each(rows=N_ROWS, groups=(4, 9, 2), seed=0, values=1):
    """Return a sparse table of groups of features, one of each stored per row."""
    rng = np.random.default_rng(seed)
    parts = []
    for size in groups:
        filled = rng.integers(values, size=rows) + 1.0
        where = np.arange(rows), rng.integers(size, size=rows)
        parts.append(sp.csc_array((filled, where), shape=(rows, size)))
    return sp.hstack(parts, format="csr")


def check(bins, sparse):
    """Assert that the bins of each feature can be read from its bundle."""
    binned = bin_table(as_table(sparse), 256)
    layout = bins.layout
    for f in range(sparse.shape[1]):
        column = bins.by_feature[layout.column_of[f]].astype(int) - layout.first_bin[f]
        inside = (column >= 0) & (column < layout.n_bins[f])
        expected = binned.decode_column(f, np.float64)
        np.testing.assert_array_equal(inside, ~np.isnan(expected))
        lower = np.concatenate([[binned.cuts.minimums[f]], binned.cuts.of(f)[:-1]])
        np.testing.assert_array_equal(lower[column[inside]], expected[inside])
    columns = len(bins.by_feature)
    by_row = bins.by_row.reshape(-1, columns)
    np.testing.assert_array_equal(by_row.T, bins.by_feature)
    cells = np.diff(layout.offsets)
    assert (bins.by_feature.max(axis=1) < cells).all()


@pytest.mark.parametrize("values", [1, 3])
def test_each_group_is_one_column(values):
    sparse = one_of_each(values=values)
    bins = bin_table(as_table(sparse), 256).as_bins()
    assert isinstance(bins, DenseBins)
    assert len(bins.by_feature) == 3 and bins.by_feature.dtype == np.uint8
    check(bins, sparse)


def test_overlapping_features_are_not_bundled():
    sparse = sp.random_array((3000, 7), density=0.4, rng=np.random.default_rng(0))
    bins = bin_table(as_table(sparse), 16).as_bins()
    assert isinstance(bins, DenseBins) and len(bins.by_feature) == 7
    assert not bins.layout.first_bin.any()


@pytest.mark.skipif(not COMPILED, reason="long for plain Python")
def test_bundles_are_uint8_if_few_columns_suffice():
    sparse = one_of_each(rows=90_000, groups=(5, 5), values=200)
    bins = bin_table(as_table(sparse), 256).as_bins()
    assert bins.by_feature.dtype == np.uint8 and len(bins.by_feature) == 10
    # So many features that only uint16 columns are few enough.
    sparse = one_of_each(rows=90_000, groups=(20,), values=200)
    bins = bin_table(as_table(sparse), 256).as_bins()
    assert bins.by_feature.dtype == np.uint16 and len(bins.by_feature) == 1
    check(bins, sparse)


def test_sparse_tables_with_overlapping_features_stay_sparse():
    sparse = sp.random_array((3000, 80), density=0.02, rng=np.random.default_rng(0))
    assert isinstance(bin_table(as_table(sparse), 16).as_bins(), SparseBins)


def test_a_table_without_entries():
    empty = sp.csr_array((50, 4))
    data = hornbeam.DMatrix(empty, np.arange(50.0))
    assert isinstance(data.binned(256).as_bins(), SparseBins)
    booster = hornbeam.train({}, data, 2, verbose_eval=False)
    dense = hornbeam.DMatrix(np.full((50, 4), np.nan), np.arange(50.0))
    expected = hornbeam.train({}, dense, 2, verbose_eval=False)
    np.testing.assert_array_equal(booster.predict(data), expected.predict(dense))
    assert booster.digest() == expected.digest()


@pytest.mark.parametrize("values", [1, 3, 200])
@pytest.mark.parametrize("grow_policy", ["depthwise", "lossguide"])
def test_bundles_give_the_model_of_unbundled_columns(grow_policy, values):
    sparse = one_of_each(values=values, rows=3 * N_ROWS)
    rng = np.random.default_rng(1)
    labels = sparse @ rng.normal(size=15) + rng.normal(size=3 * N_ROWS)
    coo = sparse.tocoo()
    dense = np.full(sparse.shape, np.nan)
    dense[coo.row, coo.col] = coo.data
    params = {
        "grow_policy": grow_policy,
        "max_leaves": 20,
        "colsample_bytree": 0.8,
        "colsample_bynode": 0.7,
        "subsample": 0.8,
    }
    digests = {
        hornbeam.train(
            {**params, "nthread": threads},
            hornbeam.DMatrix(source, labels),
            5,
            verbose_eval=False,
        ).digest()
        for source, threads in ((sparse, 1), (sparse, 3), (dense, 2))
    }
    assert len(digests) == 1
