"""HornbeamClassifier: objectives and probabilities."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xgboost

from hornbeam import HornbeamClassifier
from hornbeam.errors import DataError, ErrorCode, ParameterError


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


def some_labels(values):
    """Return features, and two labels of which the one of row 5 may be another."""
    rows = np.random.default_rng(0).normal(size=(30, 2))
    labels = [values[int(row[0] > 0)] for row in rows]
    return rows, labels


def test_booleans_are_classes_in_any_container():
    rows, labels = some_labels([False, True])
    expected = HornbeamClassifier(n_estimators=2).fit(rows, np.array(labels))
    for own in (
        np.array(labels, object),
        pd.Series(labels, dtype=object),
        pd.Series(labels, dtype="boolean"),
    ):
        model = HornbeamClassifier(n_estimators=2).fit(rows, own)
        assert list(model.classes_) == [False, True]
        same = model.predict_proba(rows) == expected.predict_proba(rows)
        assert same.all()


@pytest.mark.parametrize("missing", [None, pd.NA, np.nan])
@pytest.mark.parametrize("values", ["no yes".split(), [False, True]])
def test_a_missing_label_is_an_error(values, missing):
    rows, labels = some_labels(values)
    labels[5] = missing
    with pytest.raises(DataError, match="in row 5") as caught:
        HornbeamClassifier().fit(rows, np.array(labels, object))
    assert caught.value.code is ErrorCode.LABEL_NOT_FINITE


def test_labels_without_an_order_are_an_error():
    rows, labels = some_labels(["no", "yes"])
    labels[5] = 1
    with pytest.raises(DataError, match="int, str; convert them") as caught:
        HornbeamClassifier().fit(rows, np.array(labels, object))
    assert caught.value.code is ErrorCode.LABEL_NOT_A_CLASS
