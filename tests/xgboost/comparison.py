"""Runs the same code with hornbeam.xgboost and with XGBoost, and compares results."""

from __future__ import annotations

import numpy as np
import pytest

from hornbeam import xgboost as ours

theirs = pytest.importorskip("xgboost")

RNG = np.random.default_rng(0)
X = RNG.random((80, 4))
X[3, 1] = np.nan
Y = X[:, 0] * 3 + X[:, 2]
BINARY = (X[:, 0] > 0.5).astype(float)
THREE = (X[:, 0] * 2.999).astype(int)
NAMES = list("abcd")


def both(run):
    """Return the results of `run` with hornbeam.xgboost and with XGBoost."""
    return run(ours), run(theirs)


def train(xgb, params=None, label=Y, rounds=3, **options):
    """Return a booster of small trees."""
    params = {"max_depth": 3, **(params or {})}
    return xgb.train(params, xgb.DMatrix(X, label), rounds, **options)


def assert_close(mine, other):
    """Compare shapes and types of arrays, and their values to float32 precision."""
    assert (mine.shape, mine.dtype) == (other.shape, other.dtype)
    np.testing.assert_allclose(mine, other, 1e-4, 1e-5)
