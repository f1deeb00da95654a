"""The estimators in tools of scikit-learn, joblib and cloudpickle."""

from __future__ import annotations

import cloudpickle
import joblib
import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    BaggingClassifier,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import PartialDependenceDisplay, permutation_importance
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    LearningCurveDisplay,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
    ValidationCurveDisplay,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.multioutput import (
    ClassifierChain,
    MultiOutputClassifier,
    MultiOutputRegressor,
    RegressorChain,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import hornbeam
from hornbeam import HornbeamClassifier, HornbeamRanker, HornbeamRegressor

matplotlib.use("Agg")
FOLDS = 3


def classifier(**params):
    return HornbeamClassifier(**{"n_estimators": 8, "max_depth": 3, **params})


def regressor(**params):
    return HornbeamRegressor(**{"n_estimators": 8, "max_depth": 3, **params})


@pytest.fixture(scope="module")
def cancer():
    """Two classes, with column names."""
    return load_breast_cancer(return_X_y=True, as_frame=True)


# --- Pipelines ------------------------------------------------------------------------


def test_a_pipeline_with_a_scaler(cancer):
    X, y = cancer
    pipeline = make_pipeline(StandardScaler(), classifier()).fit(X, y)
    alone = classifier().fit(StandardScaler().fit_transform(X), y)
    assert pipeline[-1].get_booster().digest() == alone.get_booster().digest()
    assert pipeline.score(X, y) > 0.95


def test_set_output_passes_column_names_on(cancer):
    X, y = cancer
    columns = ColumnTransformer(
        [("scaled", StandardScaler(), ["mean radius", "mean area"])],
        remainder="passthrough",
    )
    for form in ("pandas", "polars"):
        pipeline = Pipeline([("columns", columns), ("model", classifier())])
        pipeline.set_output(transform=form).fit(X, y)
        names = pipeline[-1].feature_names_in_
        assert list(names[:2]) == ["scaled__mean radius", "scaled__mean area"]
        assert pipeline[-1].get_booster().feature_names == list(names)


def test_a_column_transformer_with_sparse_output(cancer):
    X, y = cancer
    X = X.assign(size=np.where(X["mean radius"] > 14, "large", "small"))
    columns = ColumnTransformer(
        [("size", OneHotEncoder(), ["size"]), ("area", "passthrough", ["mean area"])],
        sparse_threshold=1.0,
    )
    assert make_pipeline(columns, classifier()).fit(X, y).score(X, y) > 0.88


def test_early_stopping_inside_of_a_pipeline(cancer):
    X, y = cancer
    model = classifier(n_estimators=50, early_stopping_rounds=2, learning_rate=1)
    pipeline = Pipeline([("model", model)])
    pipeline.fit(
        X[::2], y[::2], model__eval_set=[(X[1::2], y[1::2])], model__verbose=False
    )
    assert pipeline[-1].best_iteration < 49


def test_transformed_target_regressor(diabetes):
    X, y = diabetes
    model = TransformedTargetRegressor(
        regressor(), func=np.log1p, inverse_func=np.expm1
    )
    assert model.fit(X, y).score(X, y) > 0.4


# --- Metadata routing -----------------------------------------------------------------


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def test_weights_are_routed_through_a_pipeline(cancer, routing):
    X, y = cancer
    weights = np.random.default_rng(0).random(len(y))
    model = classifier().set_fit_request(sample_weight=True)
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    pipeline = make_pipeline(scaler, model).fit(X, y, sample_weight=weights)
    alone = classifier().fit(scaler.fit_transform(X), y, sample_weight=weights)
    assert pipeline[-1].get_booster().digest() == alone.get_booster().digest()
    without = classifier().fit(scaler.fit_transform(X), y)
    assert alone.get_booster().digest() != without.get_booster().digest()


def test_weights_are_routed_through_a_cross_validation(cancer, routing):
    X, y = cancer
    weights = np.random.default_rng(0).random(len(y))
    model = classifier().set_fit_request(sample_weight=True)
    model.set_score_request(sample_weight=True)
    weighted, plain = (
        cross_validate(model, X, y, cv=FOLDS, params=params)["test_score"]
        for params in ({"sample_weight": weights}, None)
    )
    assert len(weighted) == FOLDS
    assert not np.array_equal(weighted, plain)


def test_groups_are_routed_to_a_ranker(lists, routing):
    X, y, qid = lists
    model = HornbeamRanker(n_estimators=5).set_fit_request(qid=True)
    model.set_score_request(qid=True)
    scores = cross_val_score(
        model, X, y, cv=GroupKFold(FOLDS), params={"qid": qid, "groups": qid}
    )
    assert (scores > 0.6).all()
    search = GridSearchCV(model, {"max_depth": [2, 3]}, cv=GroupKFold(FOLDS))
    search.fit(X, y, qid=qid, groups=qid)
    assert search.best_score_ >= scores.min()


# --- Searches -------------------------------------------------------------------------


def test_grid_search_in_a_pipeline(cancer):
    X, y = cancer
    grid = {"hornbeamclassifier__max_depth": [1, 3]}
    search = GridSearchCV(
        make_pipeline(StandardScaler(), classifier()),
        grid,
        cv=FOLDS,
        scoring=["roc_auc", "neg_log_loss"],
        refit="roc_auc",
    )
    search.fit(X, y)
    assert search.best_score_ > 0.95
    (depth,) = search.best_params_.values()
    best = search.best_estimator_[-1]
    assert max(tree.depth() for tree in best.get_booster().model.trees) <= depth


def test_random_and_halving_searches(diabetes):
    X, y = diabetes
    chances = {"max_depth": [2, 3, 4], "subsample": [0.5, 1.0]}
    search = RandomizedSearchCV(
        regressor(), chances, n_iter=2, cv=FOLDS, random_state=0
    )
    assert search.fit(X, y).best_score_ > 0.2
    search = HalvingGridSearchCV(
        regressor(),
        {"max_depth": [2, 3]},
        cv=FOLDS,
        resource="n_estimators",
        min_resources=5,
        max_resources=20,
    )
    search.fit(X, y)
    n_rounds = search.best_estimator_.get_booster().num_boosted_rounds()
    assert n_rounds == search.best_estimator_.n_estimators in (5, 15)


def test_validation_and_learning_curves(cancer):
    X, y = cancer
    display = LearningCurveDisplay.from_estimator(
        classifier(), X, y, cv=FOLDS, train_sizes=[0.3, 1.0]
    )
    assert display.test_scores.shape == (2, FOLDS)
    display = ValidationCurveDisplay.from_estimator(
        classifier(), X, y, cv=FOLDS, param_name="max_depth", param_range=[1, 2]
    )
    assert display.train_scores[1].mean() > display.train_scores[0].mean()


def test_a_clone_is_not_fitted(diabetes):
    X, y = diabetes
    model = regressor(
        callbacks=[hornbeam.EarlyStopping(rounds=3)], eval_metric="mae", random_state=7
    )
    model.fit(X, y, eval_set=[(X, y)], verbose=False)
    copy = clone(model)
    assert not hasattr(copy, "_booster")
    params = model.get_params()
    own = copy.get_params()
    assert type(own.pop("callbacks")[0]) is type(params.pop("callbacks")[0])
    np.testing.assert_equal(own, params)
    copy.fit(X, y, eval_set=[(X, y)], verbose=False)
    assert copy.get_booster().digest() == model.get_booster().digest()


def test_cross_validation_of_data_frames(iris):
    X, y = iris
    frame = pl.DataFrame(dict(zip("abcd", X.T, strict=True)))
    scores = cross_val_score(classifier(), frame, y, cv=FOLDS)
    np.testing.assert_array_equal(scores, cross_val_score(classifier(), X, y, cv=FOLDS))
    categories = pd.DataFrame(X).assign(
        kind=pd.Categorical(np.where(X[:, 0] > 5, 1, 0))
    )
    categories.columns = categories.columns.map(str)
    shares = cross_val_predict(
        classifier(), categories, y, cv=FOLDS, method="predict_proba"
    )
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-6)


# --- Meta-estimators ------------------------------------------------------------------


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
def test_calibration(method, iris):
    X, y = iris
    model = CalibratedClassifierCV(classifier(), method=method, cv=FOLDS).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-6)
    assert model.score(X, y) > 0.9


def test_calibration_of_a_fitted_classifier(cancer):
    X, y = cancer
    fitted = FrozenEstimator(classifier().fit(X[::2], y[::2]))
    model = CalibratedClassifierCV(fitted).fit(X[1::2], y[1::2])
    assert model.score(X, y) > 0.9
    display = CalibrationDisplay.from_estimator(model, X, y, n_bins=5)
    assert len(display.prob_true) == len(display.prob_pred)


def test_tuned_thresholds(cancer):
    X, y = cancer
    tuned = TunedThresholdClassifierCV(classifier(), cv=FOLDS).fit(X, y)
    assert 0 < tuned.best_threshold_ < 1
    assert FixedThresholdClassifier(classifier(), threshold=0.3).fit(X, y).score(X, y)


def test_stacking_and_voting(iris, diabetes):
    parts = [("slow", classifier(learning_rate=0.1)), ("fast", classifier())]
    for model in (
        StackingClassifier(parts, cv=FOLDS),
        VotingClassifier(parts, voting="soft"),
        BaggingClassifier(classifier(), 3, random_state=0),
    ):
        assert model.fit(*iris).score(*iris) > 0.9
    parts = [("slow", regressor(learning_rate=0.1)), ("fast", regressor())]
    for model in (StackingRegressor(parts, cv=FOLDS), VotingRegressor(parts)):
        assert model.fit(*diabetes).score(*diabetes) > 0.3


def test_multi_output_wrappers(iris, diabetes):
    X, y = diabetes
    for kind in (MultiOutputRegressor, RegressorChain):
        predictions = kind(regressor()).fit(X, np.stack([y, -y], 1)).predict(X)
        assert predictions.shape == (len(y), 2)
    X, y = iris
    targets = np.stack([y == "setosa", y == "virginica"], axis=1).astype(int)
    for kind in (MultiOutputClassifier, ClassifierChain):
        predictions = kind(classifier()).fit(X, targets).predict(X)
        assert (predictions == targets).mean() > 0.95


def test_feature_selection_by_importance(cancer):
    X, y = cancer
    chosen = RFE(classifier(), n_features_to_select=5, step=10).fit(X, y)
    assert chosen.n_features_ == 5
    some = SelectFromModel(classifier(), max_features=4).fit(X, y)
    assert some.transform(X).shape[1] <= 4


def test_permutation_importance(diabetes):
    X, y = diabetes
    model = regressor(n_estimators=20).fit(X, y)
    found = permutation_importance(model, X, y, n_repeats=2, random_state=0)
    assert found.importances_mean.argmax() in (2, 8)  # body mass index, triglycerides


def test_partial_dependence(diabetes, iris):
    model = regressor().fit(*diabetes)
    display = PartialDependenceDisplay.from_estimator(
        model, diabetes[0], [2, (2, 3)], grid_resolution=5
    )
    rising = display.pd_results[0]["average"][0]
    assert rising[-1] > rising[0]
    assert display.pd_results[1]["average"].shape == (1, 5, 5)
    PartialDependenceDisplay.from_estimator(
        classifier().fit(*iris), iris[0], [0], target="virginica", grid_resolution=5
    )
    matplotlib.pyplot.close("all")


# --- Processes ------------------------------------------------------------------------


def test_joblib_dump(cancer, tmp_path):
    X, y = cancer
    model = make_pipeline(StandardScaler(), classifier()).fit(X, y)
    for name, compress in (("plain", 0), ("small", 3)):
        joblib.dump(model, tmp_path / name, compress=compress)
        again = joblib.load(tmp_path / name)
        assert again[-1].get_booster().digest() == model[-1].get_booster().digest()
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_cloudpickle_of_custom_functions(diabetes):
    X, y = diabetes
    model = regressor(
        objective=lambda labels, margins: (margins - labels, np.ones_like(labels)),
        eval_metric=lambda labels, margins: float(np.abs(labels - margins).max()),
    ).fit(X, y)
    again = cloudpickle.loads(cloudpickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert clone(again).fit(X, y).get_booster().digest() == model.get_booster().digest()


def test_fit_and_predict_in_loky_workers(cancer):
    X, y = cancer
    model = classifier().fit(X, y)
    search = GridSearchCV(classifier(), {"max_depth": [2, 3]}, cv=2, n_jobs=2).fit(X, y)
    alone = clone(search).set_params(n_jobs=1).fit(X, y)
    for name in ("split0_test_score", "split1_test_score"):
        np.testing.assert_array_equal(search.cv_results_[name], alone.cv_results_[name])
    tasks = (joblib.delayed(model.predict_proba)(X) for _ in range(4))
    for shares in joblib.Parallel(n_jobs=2)(tasks):
        np.testing.assert_array_equal(shares, model.predict_proba(X))


@pytest.mark.parametrize("backend", ["threading", "multiprocessing"])
def test_fit_in_other_joblib_backends(backend, diabetes):
    X, y = diabetes
    model = regressor().fit(X, y)
    tasks = (joblib.delayed(digest_of)(regressor(), X, y) for _ in range(4))
    digests = joblib.Parallel(n_jobs=3, backend=backend)(tasks)
    assert set(digests) == {model.get_booster().digest()}


def digest_of(model, X, y):
    return model.fit(X, y).get_booster().digest()
