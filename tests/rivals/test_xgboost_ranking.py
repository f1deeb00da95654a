"""Ranking trees and model files compared with the real XGBoost."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xgboost
from samples import few_values, ranked
from test_xgboost import assert_same_model, both

import hornbeam

OBJECTIVES = ["rank:ndcg", "rank:map", "rank:pairwise"]
SETTINGS = {
    "defaults": {},
    "five places": {"lambdarank_num_pair_per_sample": 5},
    "scores not normalised": {"lambdarank_score_normalization": False},
    "groups not normalised": {"lambdarank_normalization": False},
    "plain gains": {"ndcg_exp_gain": False},
    "unbiased": {"lambdarank_unbiased": True, "lambdarank_bias_norm": 0.5},
}
GROUPS = np.sort(np.random.default_rng(4).integers(50, size=1500))


def drawn(objective):
    rows, labels = few_values(missing=0.1)
    return rows, ranked(labels, 2 if objective == "rank:map" else 5)


def bias_of(booster):
    """Return the position bias in a model file, rounded as both libraries do."""
    objective = json.loads(booster.save_raw("json"))["learner"]["objective"]
    return [objective.get(name, []) for name in ("ti+", "tj-")]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", SETTINGS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_lambdarank_trees_equal_xgboosts(objective, case, weighted):
    weights = np.random.default_rng(5).uniform(0.5, 2, 50) if weighted else None
    params = {"objective": objective, "max_depth": 4, **SETTINGS[case]}
    ours, theirs, *_ = both(
        params, *drawn(objective), info={"qid": GROUPS, "weight": weights}
    )
    assert_same_model(ours, theirs)
    np.testing.assert_allclose(bias_of(ours), bias_of(theirs), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_groups_without_pairs_have_no_gradients(objective):
    """Real data has groups without pairs, some with a single row."""
    rows, labels = drawn(objective)
    groups = np.where(GROUPS < 5, np.arange(len(GROUPS)), GROUPS + len(GROUPS))
    labels[(GROUPS >= 5) & (GROUPS < 20)] = 1
    params = {"objective": objective, "max_depth": 4}
    ours, theirs, *_ = both(params, rows, labels, info={"qid": groups})
    assert_same_model(ours, theirs)


@pytest.mark.parametrize("case", ["defaults", "unbiased"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_model_files_are_exchanged(objective, case):
    rows, labels = drawn(objective)
    params = {"objective": objective, "nthread": 1, **SETTINGS[case]}
    ours = hornbeam.train(params, hornbeam.DMatrix(rows, labels, qid=GROUPS), 4)
    reader = xgboost.Booster()
    reader.load_model(bytearray(ours.save_raw("json")))
    data, other = hornbeam.DMatrix(rows), xgboost.DMatrix(rows)
    np.testing.assert_array_equal(reader.predict(other), ours.predict(data))
    for name in ("ndcg@7", "map@7-") if objective == "rank:map" else ("ndcg@7",):
        values = []
        for booster, library in ((ours, hornbeam), (reader, xgboost)):
            booster.set_param("eval_metric", name)
            matrix = library.DMatrix(rows, labels, qid=GROUPS)
            values.append(float(booster.eval(matrix).rpartition(":")[2]))
        assert values[0] == pytest.approx(values[1], abs=2e-3)  # ties in float32
    theirs = xgboost.train(params, xgboost.DMatrix(rows, labels, qid=GROUPS), 4)
    for kind in ("json", "ubj"):
        back = hornbeam.Booster(model_file=bytes(theirs.save_raw(kind)))
        np.testing.assert_array_equal(back.predict(data), theirs.predict(other))
        assert bias_of(back) == bias_of(theirs)


def test_files_of_older_versions_have_fewer_parameters():
    rows, labels = drawn("rank:ndcg")
    params = {"objective": "rank:ndcg", "ndcg_exp_gain": False}
    theirs = xgboost.train(params, xgboost.DMatrix(rows, labels, qid=GROUPS), 2)
    document = json.loads(theirs.save_raw("json"))
    del document["learner"]["objective"]["lambdarank_param"][
        "lambdarank_score_normalization"
    ]
    back = hornbeam.Booster(model_file=json.dumps(document).encode())
    assert not back.params.ndcg_exp_gain and back.params.lambdarank_score_normalization
    assert back.params.lambdarank_num_pair_per_sample is None


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_ranking_with_sampled_pairs_is_not_worse(objective):
    """The random draws differ, so only the metrics can be compared."""
    rows, labels = drawn(objective)
    metric = "map" if objective == "rank:map" else "ndcg"
    params = {
        "objective": objective, "max_depth": 3, "lambdarank_pair_method": "mean",
        "lambdarank_num_pair_per_sample": 4, "eval_metric": metric,
    }  # fmt: skip
    train, test = GROUPS < 35, GROUPS >= 35
    found = []
    for library in (hornbeam, xgboost):
        data, other = (
            library.DMatrix(rows[part], labels[part], qid=GROUPS[part])
            for part in (train, test)
        )
        booster = library.train({**params, "nthread": 1}, data, 20)
        found.append(float(booster.eval(other).rpartition(":")[2]))
    assert found[0] > found[1] - 0.02
