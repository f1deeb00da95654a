"""What every estimator does with its model: importances and files."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import xgboost
from sklearn.exceptions import NotFittedError

from hornbeam import HornbeamClassifier, HornbeamRegressor


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


def test_files_go_to_xgboost_and_back(iris, tmp_path):
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
def test_what_is_not_fitted_says_so(estimator):
    with pytest.raises(NotFittedError, match="call fit first"):
        estimator().predict([[1.0]])
