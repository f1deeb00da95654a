"""Packed columns, and the histograms that rows of them add up to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

import hornbeam
from hornbeam.binning.dense import pack_features
from hornbeam.kernels.jit import COMPILED

N_ROWS = 3000 if COMPILED else 200


@examples(60)
@given(
    bins=st.lists(
        st.sampled_from([1, 2, 3, 5, 8, 16, 32, 33, 200, 256]), min_size=1, max_size=30
    ),
    seed=st.integers(0, 2**32 - 1),
)
def test_histograms_of_packed_columns_equal_those_of_features(bins, seed):
    rng = np.random.default_rng(seed)
    by_feature = np.array([rng.integers(n, size=50) for n in bins], np.uint8)
    offsets = np.cumsum([0, *bins])
    columns, joint = pack_features(by_feature, offsets)
    if joint is None:
        assert columns is by_feature
        return
    assert len(columns) < len(bins)
    found = np.zeros(len(bins), int)
    for column, (n_codes, width, cell, first) in zip(columns, joint.table, strict=True):
        assert n_codes <= 256
        assert column.max() < n_codes
        for row, code in enumerate(column.tolist()):
            begin = first + code * width
            cells = (
                joint.histogram_bins[begin : begin + width]
                if width > 1
                else [cell + code]
            )
            features = np.searchsorted(offsets, cells, side="right") - 1
            own = by_feature[features, row] + offsets[features]
            np.testing.assert_array_equal(own, cells)
            found[features] += 1
    assert (found == 50).all()
    assert joint.packed_in.max() < len(columns)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"colsample_bynode": 0.4, "subsample": 0.7},
        {"min_samples_leaf": 4},
        {"grow_policy": "lossguide", "max_leaves": 25},
    ],
)
def test_packed_indicators_grow_the_same_trees(params, weighted, tmp_path):
    """In external memory features are not packed."""
    rng = np.random.default_rng(0)
    rows = (rng.random((N_ROWS, 21)) < 0.3).astype(float)
    rows[rng.random(rows.shape) < 0.05] = np.nan
    rows[:, 20] = np.round(rng.normal(size=N_ROWS), 2)
    labels = np.nan_to_num(rows[:, 0] * rows[:, 3] + rows[:, 7]) + rows[:, 20]
    weights = rng.random(N_ROWS) if weighted else None
    data = hornbeam.DMatrix(rows, labels, weight=weights)
    paged = hornbeam.DMatrix(rows, labels, weight=weights, cache=tmp_path / "bins")
    digests = {hornbeam.train(params, each, 3).digest() for each in (data, paged)}
    assert len(digests) == 1
    joint = data.binned(256).as_bins()
    assert joint.row_columns is not None
    assert joint.by_row.size < rows.size / 2


def test_bins_for_a_device_have_no_copy_by_row():
    rows = np.random.default_rng(0).normal(size=(300, 5))
    binned = hornbeam.DMatrix(rows, rows[:, 0]).binned(256)
    columns, both = binned.as_columns(), binned.as_bins()
    assert columns.by_row.size == 0
    assert columns.by_feature is both.by_feature
    assert np.array_equal(both.by_row, both.by_feature.T.ravel())
    assert np.array_equal(columns.layout.offsets, both.layout.offsets)
