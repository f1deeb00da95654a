"""Behaviour of all estimators: input, prediction, importances and model files."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import xgboost
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from hornbeam import HornbeamClassifier, HornbeamRegressor
from hornbeam.errors import DataError, ModelFileError

FRAMES = {
    "pandas": pd.DataFrame,
    "polars": lambda columns: pl.DataFrame(columns),
    "arrow": pa.table,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_data_frames_are_accepted(kind, diabetes):
    X, y = diabetes
    frame = FRAMES[kind]({f"x{i}": X[:, i] for i in range(X.shape[1])})
    model = HornbeamRegressor(n_estimators=3).fit(frame, y)
    assert list(model.feature_names_in_) == [f"x{i}" for i in range(X.shape[1])]
    assert model.get_booster().feature_names == list(model.feature_names_in_)
    array_model = HornbeamRegressor(n_estimators=3).fit(X, y)
    np.testing.assert_array_equal(model.predict(frame), array_model.predict(X))


def test_columns_of_the_same_name_are_rejected(diabetes):
    X, y = diabetes
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "a"])
    with pytest.raises(DataError, match="more than once: 'a'; rename") as caught:
        HornbeamRegressor(n_estimators=1).fit(frame, y)
    assert caught.value.code == "duplicate_feature_names"
    model = HornbeamRegressor(n_estimators=1).fit(frame.set_axis([*"abc"], axis=1), y)
    with pytest.raises(DataError, match="more than once"):
        model.predict(frame)


def test_names_of_columns_that_are_strings_and_numbers_are_rejected(diabetes):
    X, y = diabetes
    frame = pd.DataFrame(X[:, :3], columns=["a", 1, "c"])
    with pytest.raises(DataError, match=r"'a', and some are not, like 1") as caught:
        HornbeamRegressor(n_estimators=1).fit(frame, y)
    assert caught.value.code == "invalid_feature_name"
    numbered = frame.set_axis(range(3), axis=1)
    model = HornbeamRegressor(n_estimators=1).fit(numbered, y)
    assert not hasattr(model, "feature_names_in_")


def test_columns_other_than_those_of_training_are_rejected(diabetes):
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


def test_predicting_no_rows_returns_an_empty_array(diabetes, iris):
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


@pytest.mark.parametrize("kind", ["gain", "weight", "total_cover", None])
def test_importances_sum_to_one_and_find_the_feature(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    model = HornbeamRegressor(n_estimators=5, importance_type=kind).fit(X, X[:, 2])
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.feature_importances_.argmax() == 2


def test_a_model_without_splits_has_no_importance():
    model = HornbeamRegressor(n_estimators=1).fit(np.ones((5, 2)), np.arange(5))
    np.testing.assert_array_equal(model.feature_importances_, [0, 0])


def test_a_pickled_estimator_predicts_the_same(iris):
    X, y = iris
    model = HornbeamClassifier(n_estimators=3).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))
    assert list(again.predict(X)) == list(model.predict(X))


def test_model_files_are_exchanged_with_xgboost(iris, tmp_path):
    X, y = iris[0].astype(np.float32), iris[1]
    codes = np.unique(y, return_inverse=True)[1]
    ours = HornbeamClassifier(n_estimators=3).fit(X, y)
    ours.save_model(tmp_path / "ours.json")
    theirs = xgboost.XGBClassifier()
    theirs.load_model(tmp_path / "ours.json")
    np.testing.assert_allclose(
        theirs.predict_proba(X), ours.predict_proba(X), rtol=1e-6
    )
    theirs = xgboost.XGBClassifier(n_estimators=3).fit(X, codes)
    theirs.save_model(tmp_path / "theirs.json")
    ours.load_model(tmp_path / "theirs.json")
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("estimator", [HornbeamRegressor, HornbeamClassifier])
def test_an_unfitted_estimator_raises_not_fitted_error(estimator):
    with pytest.raises(NotFittedError, match="call fit first"):
        estimator().predict([[1.0]])


def test_labels_may_be_strings_or_any_numbers(iris):
    X, y = iris
    named = HornbeamClassifier(n_estimators=5).fit(X, y)
    codes = {"setosa": -1, "versicolor": 7, "virginica": 8}
    numbered = HornbeamClassifier(n_estimators=5).fit(X, [codes[name] for name in y])
    assert list(named.classes_) == ["setosa", "versicolor", "virginica"]
    assert list(numbered.classes_) == [-1, 7, 8]
    assert [codes[name] for name in named.predict(X)] == list(numbered.predict(X))
    assert named.get_booster().digest() == numbered.get_booster().digest()
    assert named.score(X, y) > 0.95


def test_labels_of_eval_set_must_be_training_labels(iris):
    X, y = iris
    train, valid = (X[::2], y[::2]), (X[1::2], y[1::2])
    model = HornbeamClassifier(n_estimators=3, eval_metric=["merror", "mlogloss"])
    model.fit(*train, eval_set=[valid], verbose=False)
    scores = model.evals_result()["validation_0"]
    assert scores["merror"][-1] == pytest.approx(1 - model.score(*valid))
    with pytest.raises(DataError, match="holds the label 'tulip' in row 0"):
        model.fit(*train, eval_set=[(valid[0], ["tulip"] * len(valid[1]))])


@pytest.mark.parametrize("ending", ["json", "ubj"])
def test_a_model_file_keeps_the_class_labels(iris, tmp_path, ending):
    X, y = iris
    path = tmp_path / f"model.{ending}"
    model = HornbeamClassifier(n_estimators=3).fit(pd.DataFrame(X).add_prefix("x"), y)
    digest = model.get_booster().digest()
    model.save_model(path)
    again = HornbeamClassifier()
    again.load_model(path)
    frame = pd.DataFrame(X).add_prefix("x")
    assert list(again.predict(frame)) == list(model.predict(frame))
    assert again.get_booster().digest() == digest == model.get_booster().digest()
    assert list(again.feature_names_in_) == list(frame.columns)
    with pytest.raises(ModelFileError, match="holds a classifier, not a regressor"):
        HornbeamRegressor().load_model(path)


def test_edited_estimator_metadata_is_rejected(iris, tmp_path):
    X, y = iris
    booster = HornbeamClassifier(n_estimators=1).fit(X, y).get_booster()
    path = tmp_path / "model.json"
    for metadata in ("{", "3", json.dumps({"classes": [1, 2, 3, 4]})):
        booster.set_attr(scikit_learn=metadata)
        booster.save_model(path)
        with pytest.raises(ModelFileError):
            HornbeamClassifier().load_model(path)
