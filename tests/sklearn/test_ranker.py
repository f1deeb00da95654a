"""HornbeamRanker."""

from __future__ import annotations

import pickle

import numpy as np
import polars as pl
import pytest
import xgboost
from sklearn.base import clone

import hornbeam
from hornbeam import HornbeamRanker, HornbeamRegressor
from hornbeam.errors import DataError, ModelFileError


def rank(lists, **params):
    X, y, qid = lists
    return HornbeamRanker(**{"n_estimators": 5, **params}).fit(X, y, qid=qid)


def test_a_ranker_equals_train_with_groups(lists):
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


def test_groups_are_given_as_qid_group_or_column(lists):
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


def test_columns_with_integer_names_stay_features(lists):
    X, y, qid = lists
    frame = X.set_axis(range(3), axis=1)
    model = HornbeamRanker(n_estimators=5).fit(frame.assign(qid=qid), y)
    assert model.n_features_in_ == 3
    np.testing.assert_array_equal(
        model.predict(frame), rank((frame, y, qid)).predict(frame)
    )


def test_score_of_a_ranker(lists):
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


def test_missing_groups_are_an_error(lists):
    X, y, qid = lists
    with pytest.raises(DataError, match="ranking needs the query group of each row"):
        HornbeamRanker().fit(X, y)
    with pytest.raises(DataError, match="eval_set needs the query group of each row"):
        HornbeamRanker().fit(X, y, qid=qid, eval_set=[(X, y)])
    with pytest.raises(DataError, match="the score of a ranking needs the query group"):
        rank(lists).score(X, y)
    with pytest.raises(DataError, match="qid is not sorted"):
        HornbeamRanker().fit(X, y, qid=qid[::-1])
