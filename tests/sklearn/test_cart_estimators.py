"""Behaviour common to single trees and forests: data, files and parameters."""

from __future__ import annotations

import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import xgboost
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hornbeam import (
    DataError,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    HornbeamError,
    ParameterError,
    RandomForestClassifier,
    RandomForestRegressor,
)
from hornbeam.explain import tree_text

TREES = [DecisionTreeRegressor(), DecisionTreeClassifier()]
FORESTS = [
    RandomForestRegressor(4, random_state=0),
    RandomForestClassifier(4, random_state=0),
]
LEARNERS = [*TREES, *FORESTS]
every = pytest.mark.parametrize(
    "learner", LEARNERS, ids=lambda learner: type(learner).__name__
)


def data_for(learner, n_classes=3):
    """Return a frame with a categorical column, and targets or class names."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(150, 3)).astype(np.float32), columns=list("abc"))
    carrier = rng.integers(5, size=150)
    X["carrier"] = pd.Categorical.from_codes(carrier, ["AA", "B6", "DL", "UA", "WN"])
    X.loc[::7, "b"] = np.nan
    y = X["a"].to_numpy() + carrier % 3
    if is_classifier(learner):
        names = np.array(["early", "late", "never"])[:n_classes]
        y = names[np.digitize(y, [0.8, 1.8][: n_classes - 1])]
    return X, y


def test_plots_of_forest_trees_show_class_names():
    for n_classes in (2, 3):
        X, y = data_for(FORESTS[1], n_classes)
        forest = clone(FORESTS[1]).set_params(max_depth=2).fit(X, y)
        texts = [tree_text(forest, tree=number) for number in range(4)]
        assert len(set(texts)) == 4
        assert all("early: " in text and "late: " in text for text in texts)


def numbers_of(X):
    return X[list("abc")].to_numpy()


def outcome(model, X):
    return model.predict_proba(X) if is_classifier(model) else model.predict(X)


# --- Data -----------------------------------------------------------------------------


@every
def test_data_frames_of_any_library_give_the_same_model(learner):
    X, y = data_for(learner)
    model = clone(learner).fit(X, y)
    assert list(model.feature_names_in_) == ["a", "b", "c", "carrier"]
    columns = {name: X[name].tolist() for name in X}
    columns["carrier"] = pl.Series(columns["carrier"]).cast(pl.Categorical)
    frame = pl.DataFrame(columns, schema_overrides=dict.fromkeys("abc", pl.Float32))
    other = clone(learner).fit(frame, y)
    assert other.get_booster().digest() == model.get_booster().digest()
    np.testing.assert_array_equal(outcome(model, frame), outcome(model, X))


@every
def test_entries_not_stored_in_sparse_matrices_are_missing(learner):
    X, y = data_for(learner)
    dense = np.round(numbers_of(X))
    dense[np.isnan(dense)] = 0
    sparse = scipy.sparse.csr_array(dense)
    model = clone(learner).fit(sparse, y)
    other = clone(learner).set_params(missing=0.0).fit(dense, y)
    np.testing.assert_array_equal(outcome(model, sparse), outcome(other, dense))


@every
def test_unseen_categories_are_an_error(learner):
    X, y = data_for(learner)
    model = clone(learner).fit(X, y)
    other = X.assign(carrier=pd.Categorical(["ZZ"] * len(X)))
    with pytest.raises(DataError, match=r"carrier.*ZZ"):
        model.predict(other)


@every
def test_columns_other_than_those_of_training_are_rejected(learner):
    X, y = data_for(learner)
    model = clone(learner).fit(X, y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X[["b", "a", "c", "carrier"]])
    model = clone(learner).fit(numbers_of(X), y)
    with pytest.raises(ValueError, match="X has 2 features, but"):
        model.predict(numbers_of(X)[:, :2])


@every
def test_an_unfitted_estimator_raises_not_fitted_error(learner):
    with pytest.raises(NotFittedError, match="call fit first"):
        clone(learner).predict([[1.0]])


@every
def test_data_frames_of_pipelines_are_accepted(learner):
    X, y = data_for(learner)
    steps = make_pipeline(StandardScaler(), clone(learner)).set_output(
        transform="pandas"
    )
    steps.fit(X[["a", "b", "c"]], y)
    assert list(steps[-1].feature_names_in_) == ["a", "b", "c"]


# --- Files ----------------------------------------------------------------------------


@every
def test_clones_pickles_and_copies_predict_the_same(learner, tmp_path):
    X, y = data_for(learner)
    model = clone(learner).fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    for again in (
        pickle.loads(pickle.dumps(model)),
        joblib.load(tmp_path / "model.joblib"),
        clone(model).fit(X, y),
    ):
        np.testing.assert_array_equal(outcome(again, X), outcome(model, X))
        assert again.get_booster().digest() == model.get_booster().digest()


@pytest.mark.parametrize("name", ["model.json", "model.ubj"])
@pytest.mark.parametrize("n_classes", [2, 3])
@every
def test_model_files_are_loaded(learner, n_classes, name, tmp_path):
    X, y = data_for(learner, n_classes)
    model = clone(learner).fit(X, y)
    model.save_model(tmp_path / name)
    again = clone(learner)
    again.load_model(tmp_path / name)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(outcome(again, X), outcome(model, X))
    np.testing.assert_allclose(
        again.feature_importances_, model.feature_importances_, atol=1e-6
    )
    if is_classifier(learner):
        assert list(again.classes_) == list(model.classes_)
    assert again.get_booster().digest() == model.get_booster().digest()


@pytest.mark.parametrize("name", ["model.json", "model.ubj"])
@pytest.mark.parametrize("n_classes", [2, 3])
@every
def test_xgboost_loads_the_model_files(learner, n_classes, name, tmp_path):
    X, y = data_for(learner, n_classes)
    model = clone(learner).fit(X, y)
    model.get_booster().save_model(tmp_path / name)
    theirs = xgboost.Booster(model_file=tmp_path / name)
    found = theirs.predict(xgboost.DMatrix(X, enable_categorical=True))
    expected = outcome(model, X)
    if is_classifier(learner) and n_classes == 2:
        expected = expected[:, 1]
    np.testing.assert_allclose(found, expected, atol=2e-6)


# --- Parameters -----------------------------------------------------------------------


def test_max_features():
    X = np.random.default_rng(0).normal(size=(40, 10))
    y = np.arange(40) % 2
    for wanted, number, of_classes in (
        ("auto", 3, 3),
        ("sqrt", 3, 3),
        ("log2", 3, 3),
        (4, 4, 4),
        (1.0, 10, 10),
        (0.01, 1, 1),
        (None, 10, 10),
    ):
        for learner, drawn in ((LEARNERS[2], number), (LEARNERS[3], of_classes)):
            model = clone(learner).set_params(max_features=wanted).fit(X, y)
            assert model.max_features_ == drawn


@every
def test_an_integer_weight_equals_copies_of_the_row(learner):
    if isinstance(learner, tuple(type(forest) for forest in FORESTS)):
        pytest.skip("bags draw rows, whatever they weigh")
    X, y = data_for(learner)
    times = np.random.default_rng(4).integers(3, size=len(y))
    weighted = clone(learner).fit(X, y, times)
    copied = clone(learner).fit(
        X.iloc[np.repeat(np.arange(150), times)], y.repeat(times)
    )
    np.testing.assert_allclose(outcome(weighted, X), outcome(copied, X), rtol=1e-6)


@every
def test_constant_targets_and_constant_features(learner):
    X, y = data_for(learner)
    same = np.repeat(y[:1], len(y))
    model = clone(learner).fit(X, same)
    assert len(set(model.predict(X))) == 1
    if is_classifier(learner):
        assert model.predict(X)[0] == same[0]
    else:
        assert model.predict(X)[0] == np.float32(same[0])
    assert model.get_booster().model.trees[0].n_leaves == 1
    np.testing.assert_array_equal(model.feature_importances_, np.zeros(4))
    model = clone(learner).fit(np.ones((150, 2)), y)
    assert len(np.unique(model.predict(np.ones((5, 2))))) == 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_targets_far_from_zero_keep_their_precision(dtype):
    X = np.arange(50.0)[:, None].astype(dtype)
    y = 1e9 + np.arange(50.0)
    for learner in (TREES[0], RandomForestRegressor(3, bootstrap=False)):
        model = clone(learner).fit(X, y)
        np.testing.assert_allclose(model.predict(X) - 1e9, np.arange(50.0), atol=1e-3)


def test_large_targets():
    X = np.arange(20.0)[:, None]
    for scale in (1e-30, 1e30):
        model = DecisionTreeRegressor().fit(X, scale * np.arange(20.0))
        np.testing.assert_allclose(model.predict(X) / scale, np.arange(20.0), atol=1e-5)
        np.testing.assert_allclose(model.feature_importances_, 1)


@pytest.mark.parametrize("splitter", ["best", "random"])
def test_thresholds_separate_adjacent_floats(splitter):
    # Two float64 numbers that are one float32.
    X = np.array([[1.0], [np.nextafter(1.0, 2.0)]])
    model = DecisionTreeRegressor(splitter=splitter).fit(X, [0.0, 1.0])
    assert list(model.predict(X)) == [0, 1]
    X = np.array([[1.0], [np.nextafter(np.float32(1), np.float32(2))]], np.float32)
    model = DecisionTreeRegressor(splitter=splitter).fit(X, [0.0, 1.0])
    assert list(model.predict(X)) == [0, 1]


def test_missing_values_are_split_from_others():
    X = np.array([[np.nan], [-3.0], [np.nan], [-1.0]])
    model = DecisionTreeRegressor().fit(X, [1.0, 0.0, 1.0, 0.0])
    assert model.get_n_leaves() == 2
    assert list(model.predict([[np.nan], [-9.0], [0.0], [1e30]])) == [1, 0, 0, 0]
    assert tree_text(model).startswith("f0 is known  (gain 1, cover 4)\n  yes: 0 ")
    names = pd.DataFrame({"name": pd.Categorical([None, "a", None, "b"])})
    model = DecisionTreeRegressor().fit(names, [1.0, 0.0, 1.0, 0.0])
    assert list(model.predict(names)) == [1, 0, 1, 0]
    assert tree_text(model).startswith("name is missing  (gain 1, cover 4)")
    assert "  yes, missing: 1 " in tree_text(model)


# --- Errors ---------------------------------------------------------------------------

ROWS = np.random.default_rng(0).normal(size=(30, 3))
NUMBERS, LABELS = ROWS[:, 0], np.arange(30) % 3
INTEGER = "must be an integer of"
FOREST = [RandomForestRegressor, RandomForestClassifier]
TREE = [DecisionTreeRegressor, DecisionTreeClassifier]
ALL = [*TREE, *FOREST]

# (parameters, estimators, patterns of the message)
INVALID = [
    ({"ccp_alpha": -1.0}, ALL, "ccp_alpha must be a number of 0 or more|-1.0"),
    ({"ccp_alpha": "x"}, ALL, "ccp_alpha must be a number of 0 or more|'x'"),
    ({"ccp_alpha": np.nan}, ALL, "ccp_alpha must be a number of 0 or more|nan"),
    ({"ccp_alpha": "cv"}, FOREST, "ccp_alpha must be a number|'cv'"),
    ({"max_features": 4}, ALL, "max_features|from 1 to 3|columns of X|not 4"),
    ({"max_features": 0}, ALL, "max_features|from 1 to 3|not 0"),
    ({"max_features": 1.5}, ALL, "max_features|a fraction above 0 and up to 1|1.5"),
    ({"max_features": "all"}, ALL, "max_features|'sqrt', 'log2', 'auto' or None"),
    (
        {"oob_score": True, "bootstrap": False},
        FOREST,
        "oob_score=True|bootstrap=False|use bootstrap=True",
    ),
    (
        {"oob_importances": True, "bootstrap": False},
        FOREST,
        "oob_importances=True|bootstrap=False|use bootstrap=True",
    ),
    (
        {"max_samples": 0.5, "bootstrap": False},
        FOREST,
        "max_samples=0.5|bootstrap=False|leave max_samples out",
    ),
    ({"max_samples": 31}, FOREST, "max_samples|from 1 to 30|not 31"),
    ({"max_samples": 0}, FOREST, "max_samples|from 1 to 30|not 0"),
    ({"criterion": "gin"}, ALL, "criterion must be one of|not 'gin'"),
    ({"criterion": "gini"}, TREE[:1], "criterion must be one of|squared_error"),
    (
        {"criterion": "squared_error"},
        TREE[1:],
        "criterion must be one of|'gini', 'entropy', 'log_loss', 'error'",
    ),
    ({"splitter": "worst"}, ALL, "splitter must be 'best' or 'random'|'worst'"),
    ({"voting": "loud"}, FOREST[1:], "voting must be 'soft' or 'hard'|'loud'"),
    ({"n_estimators": 0}, FOREST, f"n_estimators {INTEGER} 1 or more|not 0"),
    ({"n_estimators": 2.0}, FOREST, f"n_estimators {INTEGER} 1 or more|not 2.0"),
    ({"min_samples_leaf": 0}, ALL, f"min_samples_leaf {INTEGER} 1 or more|not 0"),
    ({"min_samples_leaf": 1.5}, ALL, f"min_samples_leaf {INTEGER} 1|up to 1, not 1.5"),
    ({"min_samples_split": 1}, ALL, f"min_samples_split {INTEGER} 2 or more|not 1"),
    ({"max_depth": 0}, ALL, f"max_depth {INTEGER} 1 or more|not 0"),
    ({"max_leaf_nodes": 1}, ALL, f"max_leaf_nodes {INTEGER} 2 or more|not 1"),
    (
        {"min_weight_fraction_leaf": 0.6},
        ALL,
        "min_weight_fraction_leaf must be a number from 0 to 0.5, not 0.6",
    ),
    ({"min_impurity_decrease": -1}, ALL, "min_impurity_decrease|of 0 or more, not -1"),
    ({"random_state": -1}, ALL, f"random_state {INTEGER} 0 or more|not -1"),
    ({"random_state": "x"}, ALL, f"random_state {INTEGER} 0 or more|not 'x'"),
    ({"cv": 1, "ccp_alpha": "cv"}, TREE, "cv must be from 2 to 30|rows, not 1"),
    ({"cv": 31, "ccp_alpha": "cv"}, TREE, "cv must be from 2 to 30|rows, not 31"),
    ({"class_weight": {9: 1.0}}, [TREE[1], FOREST[1]], "class_weight|9"),
    (
        {"class_weight": "even"},
        [TREE[1], FOREST[1]],
        "class_weight must be 'balanced'|a weight of 0 or more for each label|'even'",
    ),
    ({"class_weight": {0: -1.0}}, [TREE[1], FOREST[1]], "class_weight|{0: -1.0}"),
    (
        {"class_weight": dict.fromkeys(range(3), 0.0)},
        [TREE[1], FOREST[1]],
        "all weights are 0|give some rows a weight above 0",
    ),
]


@pytest.mark.parametrize(
    ("kind", "params", "needed"),
    [(kind, params, words) for params, kinds, words in INVALID for kind in kinds],
    ids=str,
)
def test_invalid_parameters(kind, params, needed):
    y = LABELS if is_classifier(kind()) else NUMBERS
    with pytest.raises(HornbeamError) as caught:
        kind(**params).fit(ROWS, y)
    message = str(caught.value)
    for words in needed.split("|"):
        assert words in message, message
    assert len(message) < 400 and "\n" not in message


def changed(values, row, value):
    values = np.array(values, float)
    values[row] = value
    return values


@every
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"sample_weight": np.zeros(30)}, DataError, "every weight is zero"),
        ({"sample_weight": changed(np.ones(30), 3, -1)}, DataError, "weight.*row 3"),
        ({"sample_weight": np.ones(29)}, DataError, "weight.*29"),
        ({"y": changed(LABELS, 4, np.nan)}, ValueError, "y contains NaN"),
        ({"y": np.ones((30, 2))}, ValueError, "y should be a 1d array"),
        ({"y": np.ones(29)}, ValueError, "inconsistent numbers of samples"),
        ({"X": changed(ROWS, (5, 1), np.inf)}, DataError, "inf.*row 5"),
        ({"X": ROWS[0]}, ValueError, "Expected 2D array"),
    ],
)
def test_invalid_data(learner, arguments, error, message):
    with pytest.raises(error, match=message):
        clone(learner).fit(**{"X": ROWS, "y": LABELS, **arguments})


def test_one_row_cannot_be_cross_validated():
    with pytest.raises(ParameterError, match="cv must be from 2 to 1"):
        DecisionTreeRegressor(ccp_alpha="cv").fit([[1.0]], [2.0])
