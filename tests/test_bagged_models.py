"""Bagged models: out-of-bag predictions, their average, standard errors, and files."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.metrics import accuracy_score, r2_score

import hornbeam
from hornbeam import HornbeamClassifier, HornbeamRanker, HornbeamRegressor
from hornbeam.bagging import bags_of, shortened, train_bags
from hornbeam.boosting.booster import Booster
from hornbeam.callbacks import EarlyStopping, LearningRateScheduler
from hornbeam.errors import ParameterError

FEW = {"n_estimators": 20, "learning_rate": 0.2, "max_depth": 3}


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def lists():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = np.clip(np.round(X[:, 0] + rng.normal(size=400)), 0, 3)
    return X, y, np.repeat(np.arange(40), 10)


def test_the_margins_are_the_mean_of_those_of_the_bags(diabetes):
    X, y = diabetes
    model = HornbeamRegressor(n_bags=5, **FEW).fit(X, y)
    bags = bags_of(model.get_booster())
    assert len(bags) == 5
    mean = np.mean([bag.inplace_predict(X) for bag in bags], axis=0)
    np.testing.assert_allclose(model.predict(X), mean, rtol=1e-5)


@pytest.mark.parametrize("multi", ["one_output_per_tree", "multi_output_tree"])
def test_the_bags_of_a_model_are_those_that_were_trained(multi):
    X, y = load_iris(return_X_y=True)
    params = {"objective": "multi:softprob", "num_class": 3, "multi_strategy": multi}
    params |= {"num_parallel_tree": 2, "subsample": 0.7, "max_depth": 3}
    data = hornbeam.DMatrix(X, y)
    bagged = train_bags(params, data, 6, 4)
    for number, bag in enumerate(bags_of(bagged.booster)):
        out = bagged.bag_of == number
        found = bag.inplace_predict(X[out], predict_type="margin")
        np.testing.assert_allclose(found, bagged.margins[out], rtol=1e-5, atol=1e-6)


def test_out_of_bag_predictions_are_of_models_that_did_not_see_the_row(diabetes):
    X, y = diabetes
    plain = HornbeamRegressor(n_bags=5, **FEW).fit(X, y)
    assert plain.oob_prediction_.shape == y.shape
    assert plain.oob_score_ == pytest.approx(r2_score(y, plain.oob_prediction_))
    assert 0.3 < plain.oob_score_ < 0.55 < r2_score(y, plain.predict(X))
    # A changed label changes all predictions but that of its own row.
    base = {"base_score": 150.0, **FEW}
    before = HornbeamRegressor(n_bags=5, **base).fit(X, y).oob_prediction_
    changed = y.copy()
    changed[7] += 1000
    after = HornbeamRegressor(n_bags=5, **base).fit(X, changed).oob_prediction_
    assert before[7] == after[7]
    assert (before != after).mean() > 0.5


def test_target_means_of_a_bag_do_not_see_the_rows_out_of_it():
    rng = np.random.default_rng(0)
    level = rng.integers(400, size=800)
    X = pd.DataFrame({"level": pd.Categorical(level), "x": rng.normal(size=800)})
    y = rng.normal(size=800)
    model = HornbeamRegressor(
        cat_method="ordered_target", conformal="cv+", n_bags=4, **FEW
    )
    model.fit(X[:400], y[:400])
    # The labels are noise: levels of one or two rows seem to predict them if they leak.
    assert model.oob_score_ < 0.0
    low, high = model.predict_interval(X[400:], 0.8).T
    assert 0.72 < ((low <= y[400:]) & (y[400:] <= high)).mean() < 0.88


def test_bags_are_better_than_one_model_and_know_their_error(diabetes):
    X, y = diabetes
    train, test = np.arange(300), np.arange(300, 442)
    scores = {}
    for n_bags in (None, 8):
        model = HornbeamRegressor(n_bags=n_bags, random_state=1).fit(X[train], y[train])
        scores[n_bags] = model.score(X[test], y[test])
    assert scores[8] > scores[None]
    assert abs(model.oob_score_ - scores[8]) < 0.12
    assert model.chosen_["held_out"] == "8 bags"
    assert model.chosen_["n_estimators"] == model.get_num_boosting_rounds()


def grown_rows(monkeypatch, fit):
    """Return the rows that all rounds of a fit are trained on."""
    rows = []
    update = Booster.update

    def counting(self, dtrain, iteration, fobj=None, rounds=1):
        rows.extend([dtrain.num_row()] * rounds)
        return update(self, dtrain, iteration, fobj, rounds)

    with monkeypatch.context() as patch:
        patch.setattr(Booster, "update", counting)
        fit()
    return np.array(rows)


@pytest.mark.parametrize(
    "options",
    [{}, {"leaf_model": "linear"}, {"n_estimators": 60}, {"learning_rate": 0.1}],
)
def test_eight_bags_take_at_most_five_times_the_rounds_of_a_fit(
    diabetes, monkeypatch, options
):
    X, y = diabetes
    one, bags = (
        grown_rows(
            monkeypatch,
            lambda n=n_bags: HornbeamRegressor(n_bags=n, **options).fit(X, y),
        )
        for n_bags in (None, 8)
    )
    assert 0 < bags.sum() <= 5 * one.sum()
    assert len(bags) <= 5 * len(one)


@pytest.mark.parametrize(("rate", "rounds"), [(0.3, 100), (0.1, 31), (0.02, 2)])
def test_bags_fit_as_closely_as_one_model_in_half_of_its_rounds(rate, rounds):
    params, fewer = shortened({"eta": rate, "max_depth": 2}, rounds)
    assert fewer == -(-rounds // 2)
    assert (1 - params["learning_rate"]) ** fewer == pytest.approx((1 - rate) ** rounds)
    assert shortened({"learning_rate": 1.0}, 1) == ({"learning_rate": 1.0}, 1)
    assert shortened({}, 0)[1] == 0
    with pytest.raises(ParameterError, match="num_boost_round must be 0 or more"):
        shortened({}, -1)


@pytest.mark.slow
def test_standard_errors_are_about_those_of_repeated_samples():
    rng = np.random.default_rng(0)
    new = rng.normal(size=(200, 3))
    predicted, errors = [], []
    for _ in range(12):
        X = rng.normal(size=(600, 3))
        y = X[:, 0] + np.sin(2 * X[:, 1]) + rng.normal(size=600)
        model = HornbeamRegressor(n_bags=8, **FEW).fit(X, y)
        predicted.append(model.predict(new))
        errors.append(model.predict_std(new))
    ratio = np.mean(errors) / np.mean(np.std(predicted, axis=0, ddof=1))
    assert 0.7 < ratio < 1.8


def test_classes_have_probabilities_and_their_errors():
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    model = HornbeamClassifier(n_bags=4, **FEW).fit(X, names)
    assert model.oob_decision_function_.shape == (150, 3)
    found = model.classes_[model.oob_decision_function_.argmax(axis=1)]
    assert model.oob_score_ == accuracy_score(names, found) > 0.9
    assert model.predict_std(X).shape == (150, 3)
    assert not hasattr(model, "oob_prediction_")


def test_groups_of_rankings_stay_together(lists):
    X, y, qid = lists
    model = HornbeamRanker(n_bags=4, **FEW).fit(X, y, qid=qid)
    assert 0.5 < model.oob_score_ < model.score(X, y, qid=qid)
    data = hornbeam.DMatrix(X, y, qid=qid)
    bagged = train_bags({"objective": "rank:ndcg"}, data, 3, 4)
    assert all(len(np.unique(bagged.bag_of[qid == q])) == 1 for q in range(40))


def test_digests_do_not_depend_on_threads(diabetes, thread_counts):
    X, y = diabetes
    models = [
        HornbeamRegressor(n_bags=3, n_jobs=n, subsample=0.8, conformal="cv+", **FEW)
        for n in thread_counts
    ]
    assert len({model.fit(X, y).get_booster().digest() for model in models}) == 1


def test_files_pickles_and_clones_keep_the_bags(diabetes, tmp_path):
    X, y = diabetes
    model = HornbeamRegressor(n_bags=4, **FEW).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_std(X), model.predict_std(X))
    assert again.oob_score_ == model.oob_score_
    model.save_model(tmp_path / "model.json")
    loaded = HornbeamRegressor()
    loaded.load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict_std(X), model.predict_std(X))
    theirs = xgboost.Booster(model_file=tmp_path / "model.json")
    np.testing.assert_allclose(
        theirs.predict(xgboost.DMatrix(X)), model.predict(X), rtol=1e-5
    )
    assert clone(model).get_params() == model.get_params()
    assert "n_bags=4" in repr(model)


def test_weights_and_early_stopping_on_the_rows_out_of_bag():
    X, y = load_breast_cancer(return_X_y=True)
    weights = np.random.default_rng(0).random(len(y))
    model = HornbeamClassifier(
        n_bags=4, n_estimators=300, learning_rate=0.3, early_stopping_rounds=5
    ).fit(X, y, sample_weight=weights)
    losses = model.evals_result()["oob"]["logloss"]
    assert len(losses) == model.get_booster().num_boosted_rounds() < 300
    assert min(losses) == losses[-1]
    hits = model.oob_decision_function_.argmax(axis=1) == y
    assert model.oob_score_ == pytest.approx(np.average(hits, weights=weights))


def test_callbacks_see_all_bags(diabetes):
    X, y = diabetes
    rates = LearningRateScheduler([0.5] * 5 + [0.1] * 15)
    scheduled = HornbeamRegressor(n_bags=3, callbacks=[rates], **FEW).fit(X, y)
    plain = HornbeamRegressor(n_bags=3, **FEW).fit(X, y)
    assert (scheduled.predict(X) != plain.predict(X)).any()
    stop = EarlyStopping(rounds=2, save_best=True)
    stopped = HornbeamRegressor(
        n_bags=3, callbacks=[stop], **FEW | {"n_estimators": 200}
    ).fit(X, y)
    assert stopped.get_booster().num_boosted_rounds() < 200


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_bags": 1}, "n_bags must be an integer from 2 to 442"),
        ({"n_bags": 443}, "n_bags must be an integer from 2 to 442"),
        ({"n_bags": True}, "n_bags must be an integer"),
        ({"n_bags": 2.0}, "n_bags must be an integer"),
        ({"n_bags": 4, "booster": "gblinear"}, "n_bags averages trees"),
    ],
)
def test_bad_numbers_of_bags_are_errors(diabetes, params, message):
    with pytest.raises(ParameterError, match=message):
        HornbeamRegressor(**FEW | params).fit(*diabetes)


def test_one_row_has_no_bags():
    with pytest.raises(ParameterError, match="there is 1 sample; fit with more"):
        HornbeamRegressor(n_bags=2, **FEW).fit([[1.0]], [1.0])


def test_arguments_that_exclude_bags_are_errors(diabetes):
    X, y = diabetes
    model = HornbeamRegressor(n_bags=4, **FEW)
    with pytest.raises(ParameterError, match="eval_set cannot be combined with bags"):
        model.fit(X, y, eval_set=[(X, y)])
    one = HornbeamRegressor(**FEW).fit(X, y)
    with pytest.raises(ParameterError, match="xgb_model cannot be combined"):
        model.fit(X, y, xgb_model=one)
    with pytest.raises(ParameterError, match="fit with n_bags, such as 8"):
        one.predict_std(X)


def test_continued_models_have_no_bags_and_no_scores(diabetes):
    X, y = diabetes
    bagged = HornbeamRegressor(n_bags=4, conformal="cv+", **FEW).fit(X, y)
    continued = HornbeamRegressor(num_parallel_tree=4, **FEW).fit(
        X, y, xgb_model=bagged
    )
    attributes = continued.get_booster().attributes()
    assert not {"hornbeam_bags", "hornbeam_conformal"} & attributes.keys()
    assert json.loads(bagged.get_booster().attr("hornbeam_bags")) == 4
