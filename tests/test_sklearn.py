"""The estimators: scikit-learn's own checks, and what they add to the learner."""

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
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import hornbeam
from hornbeam import HornbeamClassifier, HornbeamRanker, HornbeamRegressor
from hornbeam.errors import DataError, HornbeamError, ModelFileError, ParameterError
from hornbeam.params import parameter_table

ESTIMATORS = [HornbeamRegressor, HornbeamClassifier]


@parametrize_with_checks([HornbeamRegressor(), HornbeamClassifier()])
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def iris():
    """Three classes with names."""
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="module")
def two(iris):
    X, y = iris
    hard = y != "setosa"
    return X[hard], y[hard]


# --- The same as the learner, and as XGBoost ------------------------------------------


def test_a_fit_is_the_learner_on_the_same_data(diabetes):
    X, y = diabetes
    params = {"max_depth": 3, "learning_rate": 0.2, "subsample": 0.7}
    estimator = HornbeamRegressor(n_estimators=7, random_state=3, **params).fit(X, y)
    params |= {"objective": "reg:squarederror", "seed": 3}
    booster = hornbeam.train(params, hornbeam.DMatrix(X, y), 7)
    assert estimator.get_booster().digest() == booster.digest()
    np.testing.assert_array_equal(
        estimator.predict(X), booster.predict(hornbeam.DMatrix(X))
    )


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


@pytest.mark.parametrize("data", ["iris", "two"])
def test_probabilities_are_those_of_xgboost(data, request):
    X, y = request.getfixturevalue(data)
    codes = np.unique(y, return_inverse=True)[1]
    params = {"n_estimators": 5, "max_depth": 3, "n_jobs": 1}
    ours = HornbeamClassifier(**params).fit(X, y).predict_proba(X)
    theirs = xgboost.XGBClassifier(**params).fit(X, codes).predict_proba(X)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(ours, theirs, atol=0.02)


@pytest.mark.parametrize("objective", ["multi:softmax", "multi:softprob"])
def test_softmax_has_probabilities_too(iris, objective):
    X, y = iris
    plain = HornbeamClassifier(n_estimators=3).fit(X, y)
    named = HornbeamClassifier(n_estimators=3, objective=objective).fit(X, y)
    np.testing.assert_array_equal(named.predict_proba(X), plain.predict_proba(X))
    np.testing.assert_array_equal(named.predict(X), plain.predict(X))


def test_raw_logits_have_probabilities_too(two):
    X, y = two
    model = HornbeamClassifier(n_estimators=9, objective="binary:logitraw").fit(X, y)
    probabilities = model.predict_proba(X)
    margins = model.predict(X, output_margin=True).astype(np.float64)
    np.testing.assert_allclose(probabilities[:, 1], 1 / (1 + np.exp(-margins)), 1e-5)
    assert list(model.predict(X)) == list(model.classes_[probabilities.argmax(axis=1)])


def test_focal_loss_tells_two_classes_apart(two):
    X, y = two
    plain = HornbeamClassifier(n_estimators=9).fit(X, y).predict_proba(X)
    for gamma, rel in ((0, 1e-4), (2, 1.0)):
        model = HornbeamClassifier(
            n_estimators=9, objective="binary:focal", focal_gamma=gamma
        ).fit(X, y)
        shares = model.predict_proba(X)
        np.testing.assert_allclose(shares, plain, rtol=rel, atol=rel / 5)
        assert list(model.predict(X)) == list(model.classes_[shares.argmax(axis=1)])


def test_one_class_is_certain(two):
    X, _ = two
    model = HornbeamClassifier(n_estimators=2).fit(X, ["only"] * len(X))
    assert set(model.predict(X)) == {"only"}
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((len(X), 1)))


# --- Kinds of data --------------------------------------------------------------------

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


# --- Early stopping and evaluation ----------------------------------------------------


def split(data):
    X, y = data
    return (X[::2], y[::2]), (X[1::2], y[1::2])


def test_early_stopping_predicts_with_the_best_round(diabetes):
    train, valid = split(diabetes)
    model = HornbeamRegressor(n_estimators=200, early_stopping_rounds=5)
    model.fit(*train, eval_set=[train, valid], verbose=False)
    scores = model.evals_result()["validation_1"]["rmse"]
    assert len(scores) < 200
    assert model.best_iteration == int(np.argmin(scores))
    assert model.best_score == min(scores)
    best = (0, model.best_iteration + 1)
    X = valid[0]
    np.testing.assert_array_equal(
        model.predict(X), model.predict(X, iteration_range=best)
    )
    assert model.apply(X).shape == (len(X), model.best_iteration + 1)
    assert (model.predict(X) != model.predict(X, iteration_range=(0, 0))).any()


def test_classes_of_eval_set_are_those_of_training(iris):
    train, valid = split(iris)
    model = HornbeamClassifier(n_estimators=3, eval_metric=["merror", "mlogloss"])
    model.fit(*train, eval_set=[valid], verbose=False)
    scores = model.evals_result()["validation_0"]
    assert scores["merror"][-1] == pytest.approx(1 - model.score(*valid))
    with pytest.raises(DataError, match="holds the label 'tulip' in row 0"):
        model.fit(*train, eval_set=[(valid[0], ["tulip"] * len(valid[1]))])


def test_scores_are_printed_where_asked(two, capsys):
    model = HornbeamClassifier(n_estimators=2)
    model.fit(*two, eval_set=[two])
    assert capsys.readouterr().out.startswith("[0]\tvalidation_0-logloss:")
    model.fit(*two, eval_set=[two], verbose=False)
    assert capsys.readouterr().out == ""


def test_weights_and_margins_reach_the_learner(diabetes):
    X, y = diabetes
    weight = np.linspace(0.5, 2, len(y))
    margin = np.full(len(y), 100.0)
    model = HornbeamRegressor(n_estimators=3).fit(
        X,
        y,
        sample_weight=weight,
        base_margin=margin,
        eval_set=[(X, y)],
        sample_weight_eval_set=[weight],
        base_margin_eval_set=[margin],
        verbose=False,
    )
    matrix = hornbeam.DMatrix(X, y, weight=weight, base_margin=margin)
    history: dict = {}
    booster = hornbeam.train(
        {"objective": "reg:squarederror"},
        matrix,
        3,
        evals=[(matrix, "validation_0")],
        evals_result=history,
        verbose_eval=False,
    )
    assert model.get_booster().digest() == booster.digest()
    assert model.evals_result() == history
    np.testing.assert_array_equal(
        model.predict(X, base_margin=margin), booster.predict(matrix)
    )


def test_a_metric_and_an_objective_of_ones_own(diabetes):
    X, y = diabetes

    def squared(labels, predictions, sample_weight=None):
        weight = np.ones_like(labels) if sample_weight is None else sample_weight
        return weight * (predictions - labels), weight

    def worst(labels, predictions, sample_weight=None):
        return np.abs(labels - predictions).max()

    weight = np.full(len(y), 2.0)
    model = HornbeamRegressor(n_estimators=5, objective=squared, eval_metric=worst)
    model.fit(X, y, sample_weight=weight, eval_set=[(X, y)], verbose=False)
    plain = HornbeamRegressor(n_estimators=5, base_score=0.5)
    plain.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-4)
    (score,) = model.evals_result()["validation_0"]["worst"][-1:]
    assert score == pytest.approx(np.abs(y - model.predict(X)).max(), rel=1e-6)


def test_training_goes_on_from_an_estimator(diabetes):
    first = HornbeamRegressor(n_estimators=4).fit(*diabetes)
    more = HornbeamRegressor(n_estimators=3).fit(*diabetes, xgb_model=first)
    whole = HornbeamRegressor(n_estimators=7).fit(*diabetes)
    assert more.get_booster().digest() == whole.get_booster().digest()


# --- Around the model -----------------------------------------------------------------


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


def test_a_mark_that_was_edited_is_refused(iris, tmp_path):
    X, y = iris
    booster = HornbeamClassifier(n_estimators=1).fit(X, y).get_booster()
    path = tmp_path / "model.json"
    for mark in ("{", "3", json.dumps({"classes": [1, 2, 3, 4]})):
        booster.set_attr(scikit_learn=mark)
        booster.save_model(path)
        with pytest.raises(ModelFileError):
            HornbeamClassifier().load_model(path)


def test_a_search_over_parameters(diabetes):
    X, y = diabetes
    search = GridSearchCV(
        HornbeamRegressor(n_estimators=5), {"max_depth": [1, 2], "eta": [0.1]}, cv=2
    )
    with pytest.raises(ValueError, match="eta"):
        search.fit(X, y)
    search = GridSearchCV(
        HornbeamRegressor(n_estimators=5), {"max_depth": [1, 2]}, cv=2
    ).fit(X, y)
    assert search.best_params_["max_depth"] in (1, 2)
    assert cross_val_score(search.best_estimator_, X, y, cv=2).shape == (2,)


@pytest.mark.parametrize(
    "random_state", [np.random.RandomState(1), np.random.default_rng(1), np.int64(1)]
)
def test_random_states_of_any_kind(diabetes, random_state):
    model = HornbeamRegressor(n_estimators=2, subsample=0.5, random_state=random_state)
    assert clone(model).fit(*diabetes).predict(diabetes[0]).shape == (442,)


# --- Mistakes -------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_depth": -1}, "max_depth must be 0 or more"),
        ({"learning_rate": np.nan}, "learning_rate must be a finite number"),
        ({"tree_method": "gpu_hist"}, "not in Hornbeam yet"),
        ({"eval_metric": "acu"}, "acu"),
        ({"early_stopping_rounds": 2}, "eval_set"),
        ({"n_estimators": -1}, "-1"),
    ],
)
def test_mistakes_in_parameters(estimator, params, message, two):
    X, y = two
    with pytest.raises(HornbeamError) as caught:
        estimator(**params).fit(X, (y == y[0]).astype(int))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ("reg:squarederror", "does not tell classes apart"),
        ("binary:logistic", "tells two classes apart, and y has 3"),
    ],
)
def test_objectives_that_do_not_fit_the_classes(objective, message, iris):
    with pytest.raises(ParameterError, match=message):
        HornbeamClassifier(objective=objective).fit(*iris)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"eval_set": [1]}, "eval_set must be a list of pairs"),
        ({"sample_weight_eval_set": [[1]]}, "has 1 entries and eval_set 0"),
        ({"sample_weight": [1.0]}, "weight"),
        ({"base_margin": [1.0]}, "base_margin"),
    ],
)
def test_mistakes_in_data(arguments, message, diabetes):
    with pytest.raises(DataError, match=message):
        HornbeamRegressor(n_estimators=1).fit(*diabetes, **arguments)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_what_is_not_fitted_says_so(estimator):
    with pytest.raises(NotFittedError, match="call fit first"):
        estimator().predict([[1.0]])


def test_what_was_not_evaluated_says_so(diabetes):
    model = HornbeamRegressor(n_estimators=1).fit(*diabetes)
    with pytest.raises(DataError, match="pass eval_set"):
        model.evals_result()
    with pytest.raises(AttributeError, match="early_stopping_rounds"):
        _ = model.best_iteration


# --- Ranking --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lists():
    """Return rows, grades and groups, with names."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc"))
    y = np.clip(np.round(X["a"] + X["b"] + rng.normal(size=400)), 0, 3)
    return X, y, np.sort(rng.integers(30, size=400))


def rank(lists, **params):
    X, y, qid = lists
    return HornbeamRanker(**{"n_estimators": 5, **params}).fit(X, y, qid=qid)


def test_a_ranker_is_the_learner_on_groups(lists):
    X, y, qid = lists
    params = {"lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 2}
    model = rank(lists, random_state=3, objective="rank:pairwise", **params)
    data = hornbeam.DMatrix(X, y, qid=qid)
    params |= {"objective": "rank:pairwise", "seed": 3}
    plain = hornbeam.train(params, data, 5)
    assert model.get_booster().digest() == plain.digest()
    np.testing.assert_array_equal(model.predict(X), plain.predict(data))
    assert model.predict(X, output_margin=True).shape == (400,)
    default = rank(lists).get_booster()
    assert default.params.objective == "rank:ndcg"


def test_the_ways_to_give_groups_to_a_ranker(lists):
    X, y, qid = lists
    sizes = np.unique(qid, return_counts=True)[1]
    with_qid = X.assign(qid=qid)
    digest = rank(lists).get_booster().digest()
    by_size = HornbeamRanker(n_estimators=5).fit(X, y, group=sizes)
    for frame in (with_qid, pl.from_pandas(with_qid)):
        model = HornbeamRanker(n_estimators=5).fit(frame, y)
        assert model.get_booster().digest() == by_size.get_booster().digest() == digest
        assert list(model.feature_names_in_) == list("abc")
        np.testing.assert_array_equal(model.predict(frame), model.predict(X))


def test_the_scores_of_a_ranker(lists):
    X, y, qid = lists
    model = HornbeamRanker(
        n_estimators=30, early_stopping_rounds=3, eval_metric=["ndcg@3", "ndcg@5-"]
    )
    weights = np.arange(1.0, 31)
    model.fit(
        X, y, qid=qid, sample_weight=weights, eval_set=[(X[:200], y[:200])],
        eval_qid=[qid[:200]],
    )  # fmt: skip
    assert list(model.evals_result()["validation_0"]) == ["ndcg@3", "ndcg@5-"]
    found = model.score(X[:200], y[:200], qid=qid[:200])
    assert found == pytest.approx(model.best_score, abs=1e-3)
    assert model.score(X.assign(qid=qid), y) == model.score(X, y, qid=qid)
    again = HornbeamRanker(n_estimators=2).fit(
        X, y, qid=qid, eval_set=[(X.assign(qid=qid), y)]
    )
    assert list(again.evals_result()["validation_0"]) == ["ndcg@32"]


def test_functions_of_ones_own_see_groups(lists):
    X, y, qid = lists

    def first_is_best(labels, predictions):
        return float(labels[predictions.argmax()] == labels.max())

    def centred(labels, margins, group):
        ends = np.cumsum(group)[:-1]
        parts = zip(np.split(labels, ends), np.split(margins, ends), strict=True)
        gradient = [(m - m.mean()) - (y - y.mean()) for y, m in parts]
        return np.concatenate(gradient), np.ones(len(labels))

    model = HornbeamRanker(
        n_estimators=8, objective=centred, eval_metric=first_is_best, base_score=0.5
    )
    model.fit(X, y, qid=qid, eval_set=[(X, y)], eval_qid=[qid])
    values = model.evals_result()["validation_0"]["first_is_best"]
    assert values[-1] > values[0]


def test_rankers_are_cloned_pickled_and_saved(lists, tmp_path):
    X, *_ = lists
    model = rank(lists, max_depth=2, ndcg_exp_gain=False)
    assert clone(model).get_params() == model.get_params()
    assert "lambdarank_unbiased" in model.get_params()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    model.save_model(tmp_path / "model.json")
    loaded = HornbeamRanker()
    loaded.load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    theirs = xgboost.XGBRanker()
    theirs.load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(theirs.predict(X), model.predict(X))
    with pytest.raises(ModelFileError, match="holds a ranker, not a regressor"):
        HornbeamRegressor().load_model(tmp_path / "model.json")


def test_what_is_missing_for_a_ranking(lists):
    X, y, qid = lists
    with pytest.raises(DataError, match="ranking needs the group of each row"):
        HornbeamRanker().fit(X, y)
    with pytest.raises(DataError, match="eval_set needs the group of each row"):
        HornbeamRanker().fit(X, y, qid=qid, eval_set=[(X, y)])
    with pytest.raises(DataError, match="the score of a ranking needs the group"):
        rank(lists).score(X, y)
    with pytest.raises(DataError, match="qid is not sorted"):
        HornbeamRanker().fit(X, y, qid=qid[::-1])


# --- Every parameter ------------------------------------------------------------------

# What an estimator counts itself, or has no data for.
NOT_ITS_OWN = {
    "num_class",
    "num_target",
    "disable_default_eval_metric",
    "aft_loss_distribution",
    "aft_loss_distribution_scale",
}


def test_the_estimators_take_what_the_learner_takes():
    taken = set(HornbeamRanker._get_param_names())
    rows = parameter_table()
    missing = {row.name for row in rows if not {row.name, *row.aliases} & taken}
    assert missing == NOT_ITS_OWN
    of_pairs = {name for name in taken if name.startswith(("lambdarank", "ndcg"))}
    for kind in ESTIMATORS:
        assert set(kind._get_param_names()) == taken - of_pairs


@pytest.mark.parametrize(
    "params",
    [
        {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5]},
        {"objective": "reg:expectileerror", "expectile_alpha": 0.3},
        {"objective": "reg:pseudohubererror", "huber_slope": 2.0},
        {"objective": "reg:tweedie", "tweedie_variance_power": 1.2},
        {"booster": "dart", "rate_drop": 0.5, "sample_type": "weighted"},
        {"booster": "gblinear", "feature_selector": "greedy", "top_k": 2},
        {"max_cached_hist_node": 3},
    ],
    ids=str,
)
def test_parameters_of_every_kind_reach_the_learner(params, diabetes):
    X, y = diabetes
    model = clone(HornbeamRegressor(n_estimators=3, **params)).fit(X, y)
    plain = hornbeam.train(params, hornbeam.DMatrix(X, y), 3, verbose_eval=False)
    assert model.get_booster().digest() == plain.digest()
