"""Sparse matrices compared with the real XGBoost: absent entries are missing."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import xgboost

import hornbeam


def few_cells(share, seed=0):
    """Return a sparse matrix of few distinct values with stored zeros, and labels."""
    rng = np.random.default_rng(seed)
    here = np.nonzero(rng.random((4000, 40)) < share)
    values = rng.integers(-3, 4, here[0].size).astype(np.float32)
    sparse = sp.coo_matrix((values, here), shape=(4000, 40)).tocsr()
    weights = rng.normal(size=(2, 40))
    score = sparse @ weights[0] + (sparse != 0) @ weights[1] + rng.normal(size=4000)
    return sparse, (score > 0).astype(np.float32)


@pytest.mark.parametrize("grow_policy", ["depthwise", "lossguide"])
@pytest.mark.parametrize("share", [0.02, 0.3])
def test_predictions_of_sparse_rows_equal_xgboosts(share, grow_policy):
    sparse, labels = few_cells(share)
    params = {
        "objective": "binary:logistic",
        "tree_method": "hist",
        "grow_policy": grow_policy,
        "max_depth": 4,
        "eta": 0.5,
        "nthread": 1,
    }
    predictions = []
    for library in (hornbeam, xgboost):
        data = library.DMatrix(sparse, labels)
        booster = library.train(params, data, 8, verbose_eval=False)
        predictions.append(booster.predict(data))
    np.testing.assert_allclose(*predictions, rtol=1e-3, atol=1e-4)
