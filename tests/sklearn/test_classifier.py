"""HornbeamClassifier: objectives and probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import xgboost

from hornbeam import HornbeamClassifier
from hornbeam.errors import ParameterError


@pytest.mark.parametrize("data", ["iris", "two"])
def test_probabilities_equal_those_of_xgboost(data, request):
    X, y = request.getfixturevalue(data)
    codes = np.unique(y, return_inverse=True)[1]
    params = {"n_estimators": 5, "max_depth": 3, "n_jobs": 1}
    ours = HornbeamClassifier(**params).fit(X, y).predict_proba(X)
    theirs = xgboost.XGBClassifier(**params).fit(X, codes).predict_proba(X)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(ours, theirs, atol=0.02)


@pytest.mark.parametrize("objective", ["multi:softmax", "multi:softprob"])
def test_predict_proba_of_multi_softmax(iris, objective):
    X, y = iris
    plain = HornbeamClassifier(n_estimators=3).fit(X, y)
    named = HornbeamClassifier(n_estimators=3, objective=objective).fit(X, y)
    np.testing.assert_array_equal(named.predict_proba(X), plain.predict_proba(X))
    np.testing.assert_array_equal(named.predict(X), plain.predict(X))


def test_predict_proba_of_logitraw(two):
    X, y = two
    model = HornbeamClassifier(n_estimators=9, objective="binary:logitraw").fit(X, y)
    probabilities = model.predict_proba(X)
    margins = model.predict(X, output_margin=True).astype(np.float64)
    np.testing.assert_allclose(probabilities[:, 1], 1 / (1 + np.exp(-margins)), 1e-5)
    assert list(model.predict(X)) == list(model.classes_[probabilities.argmax(axis=1)])


def test_focal_loss(two):
    X, y = two
    plain = HornbeamClassifier(n_estimators=9).fit(X, y).predict_proba(X)
    for gamma, rel in ((0, 1e-4), (2, 1.0)):
        model = HornbeamClassifier(
            n_estimators=9, objective="binary:focal", focal_gamma=gamma
        ).fit(X, y)
        shares = model.predict_proba(X)
        np.testing.assert_allclose(shares, plain, rtol=rel, atol=rel / 5)
        assert list(model.predict(X)) == list(model.classes_[shares.argmax(axis=1)])


def test_one_class_has_probability_one(two):
    X, _ = two
    model = HornbeamClassifier(n_estimators=2).fit(X, ["only"] * len(X))
    assert set(model.predict(X)) == {"only"}
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((len(X), 1)))


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ("reg:squarederror", "is not for classification"),
        ("binary:logistic", "is for two classes, and y has 3"),
    ],
)
def test_objectives_that_do_not_match_the_classes(objective, message, iris):
    with pytest.raises(ParameterError, match=message):
        HornbeamClassifier(objective=objective).fit(*iris)
