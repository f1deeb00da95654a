"""What every estimator does with a table: kinds of data, and columns by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.base import clone

from hornbeam import HornbeamClassifier, HornbeamRegressor

FRAMES = {
    "pandas": pd.DataFrame,
    "polars": lambda columns: pl.DataFrame(columns),
    "arrow": pa.table,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_are_taken_as_they_are(kind, diabetes):
    X, y = diabetes
    frame = FRAMES[kind]({f"x{i}": X[:, i] for i in range(X.shape[1])})
    model = HornbeamRegressor(n_estimators=3).fit(frame, y)
    assert list(model.feature_names_in_) == [f"x{i}" for i in range(X.shape[1])]
    assert model.get_booster().feature_names == list(model.feature_names_in_)
    array_model = HornbeamRegressor(n_estimators=3).fit(X, y)
    np.testing.assert_array_equal(model.predict(frame), array_model.predict(X))


def test_other_columns_are_refused(diabetes):
    X, y = diabetes
    frame = pd.DataFrame(X).add_prefix("x")
    model = HornbeamRegressor(n_estimators=1).fit(frame, y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[frame.columns[::-1]])
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.iloc[:, 1:])
    with (
        pytest.warns(UserWarning, match="does not have valid feature names"),
        pytest.raises(ValueError, match="X has 9 features, but"),
    ):
        model.predict(X[:, 1:])
    model.predict(frame[frame.columns[::-1]], validate_features=False)


def test_sparse_and_dense_agree_where_zeros_are_missing(diabetes):
    X, y = np.round(diabetes[0], 2), diabetes[1]
    sparse = scipy.sparse.csr_array(X)
    dense = HornbeamRegressor(n_estimators=3, missing=0.0).fit(X, y)
    model = HornbeamRegressor(n_estimators=3).fit(sparse, y)
    np.testing.assert_array_equal(model.predict(sparse), dense.predict(X))


def test_no_rows_give_no_predictions(diabetes, iris):
    model = HornbeamRegressor(n_estimators=1).fit(*diabetes)
    assert model.predict(np.empty((0, 10))).shape == (0,)
    classifier = HornbeamClassifier(n_estimators=1).fit(*iris)
    assert classifier.predict(np.empty((0, 4))).shape == (0,)
    assert classifier.predict_proba(np.empty((0, 4))).shape == (0, 3)


@pytest.mark.parametrize(
    "random_state", [np.random.RandomState(1), np.random.default_rng(1), np.int64(1)]
)
def test_random_states_of_any_kind(diabetes, random_state):
    model = HornbeamRegressor(n_estimators=2, subsample=0.5, random_state=random_state)
    assert clone(model).fit(*diabetes).predict(diabetes[0]).shape == (442,)
