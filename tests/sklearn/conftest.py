"""Data sets of the tests of estimators."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris


@pytest.fixture(scope="session")
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="session")
def iris():
    """Three classes with string labels."""
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="session")
def two(iris):
    X, y = iris
    hard = y != "setosa"
    return X[hard], y[hard]


@pytest.fixture(scope="session")
def lists():
    """Return a frame, relevance grades and query ids."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc"))
    y = np.clip(np.round(X["a"] + X["b"] + rng.normal(size=400)), 0, 3)
    return X, y, np.sort(rng.integers(30, size=400))
