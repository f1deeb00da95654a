"""Sparse matrices give the models of arrays with NaN, however few cells are filled."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

import hornbeam
from hornbeam import DMatrix, QuantileDMatrix
from hornbeam.binning import bundling
from hornbeam.binning.layout import SparseBins

RATES = st.sampled_from([1.0, 1.0, 0.8, 0.4])
PARAMS = st.fixed_dictionaries(
    {
        "objective": st.sampled_from(["reg:squarederror", "multi:softprob"]),
        "grow_policy": st.sampled_from(["depthwise", "lossguide"]),
        "max_depth": st.integers(0, 6),
        "max_leaves": st.integers(0, 12),
        "max_bin": st.sampled_from([2, 5, 256, 1000]),
        "lambda": st.sampled_from([0.0, 1.0]),
        "alpha": st.sampled_from([0.0, 0.5]),
        "gamma": st.sampled_from([0.0, 0.5]),
        "min_child_weight": st.sampled_from([0.0, 1.0, 5.0]),
        "max_delta_step": st.sampled_from([0.0, 0.3]),
        "subsample": RATES,
        "colsample_bytree": RATES,
        "colsample_bylevel": RATES,
        "colsample_bynode": RATES,
        "nthread": st.integers(1, 3),
        "seed": st.integers(0, 2**40),
    }
)


@st.composite
def tables(draw):
    """Draw an array with many missing cells, labels, perhaps weights."""
    n_rows, n_columns = draw(st.integers(1, 200)), draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = rng.normal(size=(n_rows, n_columns))
    rows = np.round(rows, draw(st.integers(0, 3)))
    rows = rows.astype(draw(st.sampled_from([np.float32, np.float64])))
    share = draw(st.sampled_from([0.01, 0.1, 0.5, 1.0]))
    rows[rng.random(rows.shape) > share] = np.nan
    labels = np.nansum(rows[:, :4], axis=1) + rng.normal(size=n_rows)
    if draw(st.sampled_from([False, False, True])):
        labels[0] = 1e9
    return rows, labels, {"weight": rng.random(n_rows)} if draw(st.booleans()) else {}


def as_sparse(rows, form):
    here = ~np.isnan(rows)
    return sp.coo_array((rows[here], here.nonzero()), shape=rows.shape).asformat(form)


def train(params, data):
    return hornbeam.train(params, data, 4, verbose_eval=False)


@examples(60)
@given(PARAMS, tables(), st.sampled_from(["csr", "csc", "coo"]), st.booleans())
def test_the_models_of_arrays(params, table, form, by_cells):
    rows, labels, info = table
    if params["objective"].startswith("multi"):
        params["num_class"], labels = 3, np.digitize(labels, [-1.0, 1.0])
    sparse = as_sparse(rows, form)
    expected = train(params, DMatrix(rows, labels, **info))
    with mock.patch.object(bundling, "_ENTRIES_PER_BIN", 10**9 if by_cells else 0):
        data = DMatrix(sparse, labels, **info)
        booster = train(params, data)
        codes = data.binned(params["max_bin"]).as_bins()
        assert isinstance(codes, SparseBins) or not by_cells
        assert booster.digest() == expected.digest()
        quantile = QuantileDMatrix(sparse, labels, max_bin=params["max_bin"], **info)
        assert train(params, quantile).digest() == expected.digest()
    predictions = expected.predict(DMatrix(rows))
    np.testing.assert_array_equal(booster.predict(data), predictions)
    np.testing.assert_array_equal(booster.inplace_predict(sparse), predictions)
    np.testing.assert_array_equal(booster.predict(quantile), predictions)


@pytest.mark.parametrize("grow_policy", ["depthwise", "lossguide"])
def test_any_number_of_threads(grow_policy, thread_counts):
    rng = np.random.default_rng(0)
    sparse = sp.random_array((100_000, 400), density=0.01, format="csr", rng=rng)
    labels = np.asarray(sparse[:, :40].sum(axis=1)).ravel() + rng.normal(size=100_000)
    params = {"grow_policy": grow_policy, "max_leaves": 40, "subsample": 0.7}
    digests = set()
    for threads in thread_counts:
        data = DMatrix(sparse, labels, nthread=threads)
        digests.add(train({**params, "nthread": threads}, data).digest())
        assert isinstance(data.binned(256).as_bins(), SparseBins)
    assert len(digests) == 1
