"""The linear booster: compared with XGBoost, model files, and unsupported methods."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xgboost
from samples import few_values, ranked, squared_gradients

import hornbeam
from hornbeam import Booster, DMatrix, QuantileDMatrix

ROWS, LABELS = few_values(700, 6, missing=0.1)
LINEAR = {"booster": "gblinear"}


def fit(params=None, rows=ROWS, labels=LABELS, rounds=6, **arguments):
    info = {n: arguments.pop(n) for n in ("weight", "base_margin") if n in arguments}
    data = DMatrix(rows, labels, **info)
    arguments.setdefault("verbose_eval", False)
    return hornbeam.train({**LINEAR, **(params or {})}, data, rounds, **arguments)


def rival(params=None, rows=ROWS, labels=LABELS, rounds=6, **info):
    params = {**LINEAR, "updater": "coord_descent", **(params or {})}
    return xgboost.train(params, xgboost.DMatrix(rows, labels, **info), rounds)


CONFIGURATIONS = {
    "plain": {},
    "penalties": {"alpha": 0.05, "lambda": 0.3, "eta": 0.8},
    "thrifty": {"feature_selector": "thrifty", "top_k": 2},
    "greedy": {"feature_selector": "greedy", "top_k": 4},
    "stops": {"tolerance": 0.2},
    "stops late": {"tolerance": 0.01, "eta": 0.2},
    "logistic": {"objective": "binary:logistic"},
    "classes": {"objective": "multi:softprob", "num_class": 3, "base_score": 0.5},
}


def labels_for(params):
    if "objective" not in params:
        return LABELS
    return ranked(LABELS, params.get("num_class", 2))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_models_and_files_equal_xgboosts(name, weighted):
    params = CONFIGURATIONS[name]
    labels = labels_for(params)
    info = {"weight": np.linspace(0.5, 3, len(ROWS))} if weighted else {}
    ours = fit(params, labels=labels, **info)
    theirs = rival(params, labels=labels, **info)
    data, other = DMatrix(ROWS), xgboost.DMatrix(ROWS)
    expected = theirs.predict(other)
    np.testing.assert_allclose(ours.predict(data), expected, rtol=2e-5, atol=2e-5)
    for format in ("json", "ubj"):
        read = xgboost.Booster(model_file=bytearray(ours.save_raw(format)))
        assert read.num_boosted_rounds() == 6
        np.testing.assert_allclose(
            read.predict(other), ours.predict(data), rtol=2e-6, atol=2e-6
        )
        taken = Booster(model_file=theirs.save_raw(format))
        assert taken.num_boosted_rounds() == 6
        np.testing.assert_allclose(taken.predict(data), expected, rtol=2e-6, atol=2e-6)
    assert Booster(model_file=ours.save_raw()).digest() == ours.digest()
    assert pickle.loads(pickle.dumps(ours)).digest() == ours.digest()


SELECTORS = ["cyclic", "shuffle", "random", "greedy", "thrifty"]


@pytest.mark.parametrize("selector", SELECTORS)
def test_every_selector_trains_and_continues_to_the_same_model(selector):
    params = {"feature_selector": selector, "tolerance": 1e-4, "seed": 5}
    whole = fit(params, rounds=8)
    part = fit(params, rounds=5)
    onwards = fit(params, rounds=3, xgb_model=part.save_raw())
    assert onwards.digest() == whole.digest()
    assert onwards.num_boosted_rounds() == 8
    error = np.sqrt(np.square(whole.predict(DMatrix(ROWS)) - LABELS).mean())
    assert error < LABELS.std()
    others = [fit({**params, "feature_selector": own}, rounds=8) for own in SELECTORS]
    if selector in ("shuffle", "random"):
        assert fit({**params, "seed": 6}, rounds=8).digest() != whole.digest()
        assert sum(other.digest() == whole.digest() for other in others) == 1


def test_every_container_gives_the_same_model():
    rows = np.where(np.isnan(ROWS), 0, ROWS)
    models = [
        fit(rows=kind)
        for kind in (rows, scipy.sparse.csr_matrix(rows), scipy.sparse.csc_matrix(rows))
    ]
    assert len({model.digest() for model in models}) == 1
    frame = pd.DataFrame(rows, columns=list("abcdef"))
    named = fit(rows=frame)
    np.testing.assert_array_equal(
        named.inplace_predict(frame[list("fedcba")]), models[0].inplace_predict(rows)
    )


def test_weights_are_returned():
    model = hornbeam.HornbeamRegressor(booster="gblinear", n_estimators=300)
    rows = np.nan_to_num(ROWS)
    model.fit(rows, LABELS)
    by_hand = rows @ model.coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(rows), by_hand, rtol=1e-5, atol=1e-5)
    scores = model.get_booster().get_score()
    np.testing.assert_array_equal(list(scores.values()), model.coef_)
    assert model.feature_importances_.sum() == pytest.approx(1)
    least = np.linalg.lstsq(np.c_[rows, np.ones(len(rows))], LABELS, rcond=None)[0]
    np.testing.assert_allclose(model.coef_, least[:-1], atol=0.02)
    classes = hornbeam.HornbeamClassifier(booster="gblinear", n_estimators=3)
    classes.fit(rows, ranked(LABELS, 3))
    assert classes.coef_.shape == (3, 6) and classes.intercept_.shape == (3,)
    with pytest.raises(AttributeError, match="only with booster='gblinear'"):
        _ = hornbeam.HornbeamRegressor(n_estimators=1).fit(rows, LABELS).coef_


def test_custom_objective_and_early_stopping():
    own = fit({"base_score": 0.5}, obj=squared_gradients)
    np.testing.assert_allclose(
        own.predict(DMatrix(ROWS)),
        fit({"base_score": 0.5}).predict(DMatrix(ROWS)),
        rtol=1e-5,
    )
    valid = [(DMatrix(ROWS[:200], LABELS[:200] * 3), "valid")]
    log = {}
    stop = hornbeam.EarlyStopping(rounds=3, save_best=True)
    best = fit(rounds=50, evals=valid, callbacks=[stop], evals_result=log)
    scores = log["valid"]["rmse"]
    assert best.num_boosted_rounds() == np.argmin(scores) + 1 <= len(scores)
    error = best.eval(valid[0][0]).split(":")[1]
    assert float(error) == pytest.approx(min(scores))


def test_both_updaters_give_the_same_model():
    digests = {fit({"updater": own}).digest() for own in ("shotgun", "coord_descent")}
    assert digests == {fit().digest()}


def test_folds_of_cv_have_the_features():
    table = hornbeam.cv(LINEAR, DMatrix(ROWS, LABELS), 5)
    params = {**LINEAR, "updater": "coord_descent"}
    theirs = xgboost.cv(params, xgboost.DMatrix(ROWS, LABELS), 5)
    np.testing.assert_allclose(table, theirs, rtol=1e-4)


def test_defaults_of_gblinear():
    model = fit()
    assert (model.params.learning_rate, model.params.reg_lambda) == (0.5, 0.0)
    given = fit({"learning_rate": 0.3, "reg_lambda": 1.0})
    again = pickle.loads(pickle.dumps(given))
    assert (again.params.learning_rate, again.params.reg_lambda) == (0.3, 1.0)
    assert Booster().params.learning_rate == 0.3


BAD = {
    "quantiles": (
        lambda: hornbeam.train(LINEAR, QuantileDMatrix(ROWS, LABELS), 1),
        "stores only their bins; make a DMatrix",
    ),
    "quantiles to predict": (
        lambda: fit().predict(QuantileDMatrix(ROWS)),
        "stores only their bins",
    ),
    "categories": (
        lambda: fit(rows=pd.DataFrame({"a": pd.Categorical(["x", "y"] * 350)})),
        "'a'.* is categorical, and booster='gblinear' takes numbers",
    ),
    "leaves": (
        lambda: fit().predict(DMatrix(ROWS), pred_leaf=True),
        "has no leaves",
    ),
    "a part of the rounds": (
        lambda: fit().predict(DMatrix(ROWS), iteration_range=(0, 2)),
        "changes all weights",
    ),
    "a slice": (lambda: fit()[:2], "has no separate rounds"),
    "gains": (
        lambda: fit().get_score(importance_type="gain"),
        "supports importance_type=.weight. only",
    ),
    "trees after weights": (
        lambda: fit({"booster": "gbtree"}, xgb_model=fit()),
        "cannot continue a model of booster='gblinear'",
    ),
    "weights after trees": (
        lambda: fit(xgb_model=fit({"booster": "gbtree"})),
        "booster='gblinear' cannot continue a model of booster='gbtree'",
    ),
    "a rate that is too high": (
        lambda: fit({"learning_rate": 1e30}, rounds=9),
        "beyond the range of float32|finite",
    ),
    "an updater of trees": (
        lambda: fit({"updater": "prune"}),
        "updater='prune' does not go with booster='gblinear'",
    ),
    "an updater of weights": (
        lambda: fit({"booster": "gbtree", "updater": "shotgun"}),
        "updater='shotgun' does not go with booster='gbtree'",
    ),
    "a selector for trees": (
        lambda: fit({"booster": "gbtree", "top_k": 3}),
        "top_k=3 has no effect with booster='gbtree'",
    ),
    "forests of weights": (
        lambda: fit({"num_parallel_tree": 3}),
        "num_parallel_tree=3 has no effect with booster='gblinear'",
    ),
    "selector": (
        lambda: fit({"feature_selector": "best"}),
        "feature_selector must be",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_raises_a_clear_error(case):
    action, words = BAD[case]
    with pytest.raises(hornbeam.HornbeamError, match=words):
        action()


def test_copies_are_independent():
    data = DMatrix(ROWS, LABELS)
    booster = Booster(LINEAR)
    booster.update(data, 0)
    copied, before = booster.copy(), booster.model.linear.weights.copy()
    booster.update(data, 1)
    np.testing.assert_array_equal(copied.model.linear.weights, before)
    assert np.abs(booster.model.linear.weights - before).max() > 0.0
