"""Multi-output trees of tables of which only the stored entries have bins."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import hornbeam
from hornbeam.binning.layout import SparseBins
from hornbeam.kernels.jit import COMPILED

N_ROWS, N_FEATURES = (400, 300) if COMPILED else (80, 60)
RNG = np.random.default_rng(0)
VALUES = RNG.integers(1, 99, (N_ROWS, N_FEATURES))
CELLS = np.where(RNG.random(VALUES.shape) < 0.02, VALUES, 0)
CELLS[:, 3] = RNG.integers(1, 99, N_ROWS)  # no value is missing
STORED = sp.csr_matrix(CELLS.astype(np.float32))
DENSE = np.where(CELLS == 0, np.nan, CELLS).astype(np.float32)
Y = (
    CELLS[:, :40] @ RNG.normal(size=(40, 3))
    + CELLS[:, 3:4]
    + RNG.normal(size=(N_ROWS, 3))
)
HEAVY = Y * np.where(np.arange(N_ROWS) % 50 == 0, 1e6, 1)[:, None]
VECTOR = {"multi_strategy": "multi_output_tree", "max_depth": 4}
KINDS = {
    "plain": {},
    "sampled": {"subsample": 0.5, "colsample_bynode": 0.5, "num_parallel_tree": 2},
    "by gradients": {"subsample": 0.6, "sampling_method": "gradient_based"},
    "sketched": {"sketch_outputs": 2},
    "best first": {"grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0},
    "row counts": {"min_samples_leaf": 5, "path_smooth": 2.0},
    "monotone": {"monotone_constraints": [1] * 20 + [0] * (N_FEATURES - 20)},
    "per tree": {"tree_method": "approx", "max_bin": 16},
    "dropout": {"booster": "dart", "rate_drop": 0.5},
}


def digest(rows, params, labels=Y, nthread=1):
    data = hornbeam.DMatrix(rows, labels, nthread=nthread)
    assert isinstance(data.binned(256, 1).as_bins(), SparseBins) == (rows is STORED)
    booster = hornbeam.train(VECTOR | params | {"nthread": nthread}, data, 3)
    assert booster.get_score()
    return booster.digest()


@pytest.mark.parametrize("kind", KINDS)
def test_models_are_those_of_a_dense_table(kind, thread_counts):
    expected = digest(DENSE, KINDS[kind])
    for nthread in thread_counts:
        assert digest(STORED, KINDS[kind], nthread=nthread) == expected


def test_wide_sums():
    assert digest(STORED, {}, HEAVY, 2) == digest(DENSE, {}, HEAVY)


def test_a_custom_objective_with_separate_gradients_for_splits():
    import hornbeam.xgboost as xgb

    class Reduced(xgb.objective.TreeObjective):
        def __call__(self, iteration, y_pred, dtrain):
            label = dtrain.get_label().reshape(y_pred.shape)
            return y_pred - label, np.ones_like(y_pred)

        def split_grad(self, iteration, grad, hess):
            return grad[:, :1].copy(), hess[:, :1].copy()

    found = [
        xgb.train(VECTOR | {"nthread": 1}, xgb.DMatrix(rows, Y), 3, obj=Reduced())
        for rows in (DENSE, STORED)
    ]
    assert found[0].digest() == found[1].digest()
