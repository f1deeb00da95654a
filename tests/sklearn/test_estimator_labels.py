"""Labels of any kind, from `fit` to files."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from hornbeam import HornbeamClassifier, HornbeamRegressor
from hornbeam.errors import DataError, ModelFileError


def test_classes_may_have_any_name(iris):
    X, y = iris
    named = HornbeamClassifier(n_estimators=5).fit(X, y)
    codes = {"setosa": -1, "versicolor": 7, "virginica": 8}
    numbered = HornbeamClassifier(n_estimators=5).fit(X, [codes[name] for name in y])
    assert list(named.classes_) == ["setosa", "versicolor", "virginica"]
    assert list(numbered.classes_) == [-1, 7, 8]
    assert [codes[name] for name in named.predict(X)] == list(numbered.predict(X))
    assert named.get_booster().digest() == numbered.get_booster().digest()
    assert named.score(X, y) > 0.95


def test_classes_of_eval_set_are_those_of_training(iris):
    X, y = iris
    train, valid = (X[::2], y[::2]), (X[1::2], y[1::2])
    model = HornbeamClassifier(n_estimators=3, eval_metric=["merror", "mlogloss"])
    model.fit(*train, eval_set=[valid], verbose=False)
    scores = model.evals_result()["validation_0"]
    assert scores["merror"][-1] == pytest.approx(1 - model.score(*valid))
    with pytest.raises(DataError, match="holds the label 'tulip' in row 0"):
        model.fit(*train, eval_set=[(valid[0], ["tulip"] * len(valid[1]))])


@pytest.mark.parametrize("ending", ["json", "ubj"])
def test_a_file_keeps_the_names_of_classes(iris, tmp_path, ending):
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


def test_a_mark_that_was_edited_is_refused(iris, tmp_path):
    X, y = iris
    booster = HornbeamClassifier(n_estimators=1).fit(X, y).get_booster()
    path = tmp_path / "model.json"
    for mark in ("{", "3", json.dumps({"classes": [1, 2, 3, 4]})):
        booster.set_attr(scikit_learn=mark)
        booster.save_model(path)
        with pytest.raises(ModelFileError):
            HornbeamClassifier().load_model(path)
