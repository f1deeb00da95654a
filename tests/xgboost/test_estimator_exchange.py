"""Model files of estimators, exchanged between XGBoost and hornbeam.xgboost."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from hornbeam import DataError
from hornbeam import xgboost as ours
from hornbeam.sklearn import HornbeamClassifier

theirs = pytest.importorskip("xgboost")

RNG = np.random.default_rng(11)
X = RNG.normal(size=(90, 4)).astype(np.float32)
Y = 2 * X[:, 0] + X[:, 1] ** 2
THREE = np.digitize(Y, [0, 2])
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(
    kind=pd.Categorical(RNG.choice(["one", "two", "three"], 90))
)
QID = np.repeat(np.arange(9), 10)
WAYS = [(ours, theirs), (theirs, ours)]

FITTED = {
    "regressor": lambda xgb: xgb.XGBRegressor(n_estimators=3).fit(X, Y),
    "two targets": lambda xgb: xgb.XGBRegressor(n_estimators=2).fit(
        X, np.stack([Y, -Y], axis=1)
    ),
    "two classes": lambda xgb: xgb.XGBClassifier(n_estimators=3).fit(X, THREE > 0),
    "three classes": lambda xgb: xgb.XGBClassifier(n_estimators=3).fit(X, THREE),
    "ranker": lambda xgb: xgb.XGBRanker(n_estimators=3).fit(X, THREE, qid=QID),
    "forest": lambda xgb: xgb.XGBRFClassifier(n_estimators=4).fit(X, THREE),
    "dart": lambda xgb: xgb.XGBRegressor(n_estimators=3, booster="dart").fit(X, Y),
    "linear": lambda xgb: xgb.XGBRegressor(n_estimators=3, booster="gblinear").fit(
        X, Y
    ),
    "stopped early": lambda xgb: xgb.XGBRegressor(
        n_estimators=40, learning_rate=1.0, early_stopping_rounds=2
    ).fit(X[:45], Y[:45], eval_set=[(X[45:], Y[45:])], verbose=False),
}


def told_by(model):
    """Return the attributes that a loaded estimator has from its model."""
    return {
        name: getattr(model, name, None)
        for name in ("objective", "booster", "feature_types", "enable_categorical")
    } | {"n_classes_": getattr(model, "n_classes_", None)}


@pytest.mark.parametrize("ending", ["json", "ubj"])
@pytest.mark.parametrize("kind", FITTED)
@pytest.mark.parametrize(("writer", "reader"), WAYS, ids=["ours", "theirs"])
def test_estimator_files_are_exchanged(kind, ending, writer, reader, tmp_path):
    path = tmp_path / f"model.{ending}"
    model = FITTED[kind](writer)
    model.save_model(path)
    assert model.get_booster().attr("scikit_learn") is None
    read = getattr(reader, type(model).__name__)()
    read.load_model(path)
    np.testing.assert_allclose(read.predict(X), model.predict(X), rtol=1e-5, atol=1e-5)
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(
            read.predict_proba(X), model.predict_proba(X), rtol=1e-5, atol=1e-6
        )
    again = getattr(writer, type(model).__name__)()
    again.load_model(path)
    assert told_by(read) == told_by(again)
    np.testing.assert_allclose(read.base_score, again.base_score, rtol=1e-5)
    if kind == "stopped early":
        assert read.best_iteration == model.best_iteration


def test_files_store_the_estimator_type(tmp_path):
    path = tmp_path / "model.json"
    marks = {}
    for xgb in (ours, theirs):
        for kind in ("regressor", "three classes", "ranker"):
            FITTED[kind](xgb).save_model(path)
            attributes = json.loads(path.read_text())["learner"]["attributes"]
            marks[xgb.__name__, kind] = json.loads(attributes["scikit_learn"])
    for kind in ("regressor", "three classes", "ranker"):
        assert marks[ours.__name__, kind] == marks["xgboost", kind]


@pytest.mark.parametrize("writer", [ours, theirs])
def test_loading_another_estimator_type_is_an_error(writer, tmp_path):
    path = tmp_path / "model.json"
    FITTED["regressor"](writer).save_model(path)
    model = ours.XGBClassifier()
    with pytest.raises(TypeError, match="Expecting: classifier, got: regressor"):
        model.load_model(path)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_booster_files_are_loaded(tmp_path):
    path = tmp_path / "model.json"
    booster = ours.train({"max_depth": 2}, ours.DMatrix(X, Y), 3)
    booster.save_model(path)
    model = ours.XGBRegressor()
    model.load_model(path)
    np.testing.assert_array_equal(model.predict(X), booster.predict(ours.DMatrix(X)))
    model.load_model(booster.save_raw("json"))
    np.testing.assert_array_equal(model.predict(X), booster.predict(ours.DMatrix(X)))


def test_files_of_hornbeam_classifier_are_loaded(tmp_path):
    path = tmp_path / "model.json"
    other = HornbeamClassifier(n_estimators=2).fit(X, THREE)
    other.save_model(path)
    model = ours.XGBClassifier()
    model.load_model(path)
    np.testing.assert_array_equal(model.predict(X), other.predict(X))


@pytest.mark.parametrize(("writer", "reader"), WAYS, ids=["ours", "theirs"])
def test_categories_are_exchanged(writer, reader, tmp_path):
    path = tmp_path / "model.json"
    model = writer.XGBRegressor(n_estimators=3, enable_categorical=True).fit(FRAME, Y)
    model.save_model(path)
    read = reader.XGBRegressor()
    read.load_model(path)
    assert read.enable_categorical
    assert read.feature_types == ["float"] * 4 + ["c"]
    assert read.feature_names_in_.tolist() == [*"abcd", "kind"]
    fewer = FRAME[FRAME["kind"] != "one"].assign(
        kind=lambda frame: frame["kind"].cat.remove_unused_categories()
    )
    np.testing.assert_allclose(read.predict(fewer), model.predict(fewer), rtol=1e-5)


def test_continued_training_uses_the_categories_of_the_model():
    first = ours.XGBRegressor(n_estimators=2, enable_categorical=True).fit(FRAME, Y)
    other_order = FRAME.assign(
        kind=FRAME["kind"].cat.reorder_categories(["two", "three", "one"])
    )
    again = ours.XGBRegressor(n_estimators=2, enable_categorical=True)
    again.fit(other_order, Y, xgb_model=first, eval_set=[(FRAME, Y)], verbose=False)
    np.testing.assert_allclose(again.predict(FRAME), again.predict(other_order))
    assert again.get_booster().num_boosted_rounds() == 4
    score = again.evals_result()["validation_0"]["rmse"][-1]
    assert score == pytest.approx(
        np.sqrt(np.mean((again.predict(FRAME) - Y) ** 2)), 1e-5
    )


WRONG = {
    "Invalid classes inferred from unique values of `y`.  Expected: [0 1 2], got": (
        lambda: ours.XGBClassifier().fit(X, THREE + 1)
    ),
    "`eval_set` is not set": lambda: ours.XGBRegressor().fit(
        X, Y, base_margin_eval_set=[Y]
    ),
    "base_margin_eval_set's length does not equal `eval_set`'s length, expecting 1, "
    "got 2": lambda: ours.XGBRegressor().fit(
        X, Y, eval_set=[(X, Y)], base_margin_eval_set=[Y, Y]
    ),
    "Either `group` or `qid` is required": lambda: ours.XGBRanker().fit(X, THREE),
    "No evaluation result, `eval_set` is not used": lambda: (
        ours.XGBRegressor(n_estimators=1).fit(X, Y).evals_result()
    ),
    "`sample_weight`": lambda: ours.XGBRegressor(
        objective=lambda y_true, y_pred: (y_pred - y_true, y_true * 0 + 1)
    ).fit(X, Y, sample_weight=Y**2),
}


@pytest.mark.parametrize("words", WRONG)
def test_errors_contain_xgboosts_messages(words):
    with pytest.raises(ours.core.XGBoostError) as raised:
        WRONG[words]()
    assert words in str(raised.value)
    assert isinstance(raised.value, DataError | ValueError)


def test_an_unfitted_estimator_raises_not_fitted_error():
    with pytest.raises(NotFittedError, match="need to call fit or load_model"):
        ours.XGBClassifier().predict_proba(X)
