"""Cuts weighted by hessians: the bound on ranks, and bins that match the cuts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

import hornbeam
from hornbeam.binning.per_tree_bins import PerTreeCuts
from hornbeam.binning.sorted_columns import sort_columns


def recut(rows, max_bin, n_threads=1):
    table = hornbeam.DMatrix(rows).table
    return PerTreeCuts(sort_columns(table, n_threads), table, max_bin, n_threads)


@examples(60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(1, 400),
    n_values=st.sampled_from([2, 9, 50, 10_000]),
    max_bin=st.sampled_from([2, 7, 32]),
    heavy=st.booleans(),
    missing=st.sampled_from([0.0, 0.3]),
)
def test_neighbouring_cuts_enclose_at_most_one_share_of_the_hessians(
    seed, n_rows, n_values, max_bin, heavy, missing
):
    """The condition of the paper: |r(s_k) - r(s_k+1)| < epsilon, but for one value.

    r(z) is the share of the hessians of the values below z.
    """
    rng = np.random.default_rng(seed)
    values = rng.integers(n_values, size=n_rows).astype(float)
    values[rng.random(n_rows) < missing] = np.nan
    hessians = rng.random(n_rows) ** (8 if heavy else 1)
    own = recut(values[:, np.newaxis], max_bin)
    own.make_bins(hessians)
    known = ~np.isnan(values)
    ends = [-np.inf, *own.cuts.of(0)]
    assert len(ends) - 1 <= max_bin
    if np.unique(values[known]).size <= max_bin:
        return  # each value has a bin of its own
    bins = max_bin - 1 if (~known).any() else max_bin
    total = hessians[known].sum()
    for low, high in itertools.pairwise(ends):
        between = known & (values > low) & (values < high)
        if not np.isinf(low):
            assert hessians[between].sum() <= total / bins * (1 + 1e-9)


@pytest.mark.parametrize("n_threads", [1, 2, 3, 7])
@pytest.mark.parametrize("max_bin", [5, 256, 300])
def test_bins_match_the_cuts(max_bin, n_threads):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(900, 3))
    rows[rng.random(rows.shape) < 0.2] = np.nan
    own = recut(rows, max_bin, n_threads)
    bins = own.make_bins(rng.random(900))
    for feature, column in enumerate(rows.T):
        cuts = own.cuts.of(feature)
        expected = np.searchsorted(cuts, column, side="right")
        expected[np.isnan(column)] = cuts.size
        np.testing.assert_array_equal(bins.by_feature[feature], expected)


def test_sparse_entries_have_the_bins_of_dense_values():
    rng = np.random.default_rng(2)
    dense = rng.normal(size=(500, 4))
    dense[rng.random(dense.shape) < 0.8] = np.nan
    filled = ~np.isnan(dense)
    at = np.nonzero(filled)
    sparse = scipy.sparse.csr_matrix((dense[filled], at), shape=dense.shape)
    hessians = rng.random(500)
    bins, cells = (
        recut(dense, 16).make_bins(hessians),
        recut(sparse, 16).make_bins(hessians),
    )
    for feature in range(4):
        own = slice(cells.starts[feature], cells.starts[feature + 1])
        expected = bins.by_feature[feature, cells.rows[own]]
        np.testing.assert_array_equal(cells.bins[own], expected)


def test_rows_of_hessian_zero_do_not_count():
    values = np.arange(100.0)
    own = recut(values[:, np.newaxis], 4)
    own.make_bins(np.where(values < 90, 0.0, 1.0))
    assert (own.cuts.of(0)[:-1] > 89).all()
    own.make_bins(np.zeros(100))
    assert own.cuts.of(0).size >= 1
