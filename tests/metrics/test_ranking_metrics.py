"""Ranking metrics next to those of XGBoost and scikit-learn, and to plain formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sklearn.metrics
import xgboost
from hypothesis import given
from hypothesis import strategies as st

import hornbeam
from hornbeam.errors import DataError, ParameterError
from hornbeam.metrics import create
from hornbeam.params import Parameters

NAMES = [
    f"{base}{suffix}"
    for base in ("ndcg", "map", "pre")
    for suffix in ("", "-", "@1", "@3", "@3-", "@1000")
]


def reported(library, name, margins, labels, **info):
    """Return what a library calls a metric of these margins, and its value."""
    rows = np.zeros((len(labels), 1))
    data = library.DMatrix(rows, labels, base_margin=margins, **info)
    params = {"objective": "rank:pairwise", "eval_metric": name, "base_score": 0.0}
    booster = library.Booster({**params, "nthread": 1}, [data])
    found = booster.eval_set([(data, "d")]).partition("\td-")[2]
    printed, _, value = found.rpartition(":")
    return printed, float(value)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_ranking_metrics_agree_with_xgboost(name, weighted, ties):
    rng = np.random.default_rng(1)
    groups = np.sort(rng.integers(20, size=400))
    margins = rng.normal(size=400).astype(np.float32)
    margins = np.round(margins) if ties else margins
    labels = rng.integers(0, 5, 400) * (rng.random(400) < 0.3)
    # XGBoost counts a group without a gain once in a weighted ndcg.
    labels[groups % 6 == 0] = name.startswith("ndcg") and weighted
    if not name.startswith("ndcg"):
        labels = labels > 2
    info = {"qid": groups, "weight": rng.integers(1, 9, 20) if weighted else None}
    ours = reported(hornbeam, name, margins, labels, **info)
    theirs = reported(xgboost, name, margins, labels, **info)
    assert ours[0] == theirs[0] == name
    assert ours[1] == pytest.approx(theirs[1], rel=1e-12)


def test_labels_may_be_gains():
    rng = np.random.default_rng(2)
    gains, scores = rng.uniform(0, 9, 50), rng.normal(size=50)
    settings = Parameters.resolve({"ndcg_exp_gain": False})
    found = create("ndcg@7", 1, settings)(scores, gains)
    assert found == pytest.approx(sklearn.metrics.ndcg_score([gains], [scores], k=7))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), min_size=2))
def test_ndcg_agrees_with_scikit_learn(rows):
    grades, scores = np.array(rows, float).T
    scores += np.arange(len(rows)) / 1e6  # no ties, which scikit-learn averages
    found = create("ndcg-")(scores, grades)
    expected = sklearn.metrics.ndcg_score([2**grades - 1], [scores])
    assert found == pytest.approx(expected, rel=1e-12)
    relevant = (grades > 1) * 1.0
    if relevant.any():
        found = create("map")(scores, relevant)
        expected = sklearn.metrics.average_precision_score(relevant, scores)
        assert found == pytest.approx(expected, rel=1e-12)


def test_the_mean_over_groups_is_weighted():
    labels, scores = np.array([1, 0, 0, 1.0]), np.array([2, 1, 2, 1.0])
    info = {"group": [2, 2], "weight": [3, 1]}
    _, value = reported(hornbeam, "ndcg", scores, labels, **info)
    assert value == pytest.approx((3 + 1 / math.log2(3)) / 4)
    _, value = reported(hornbeam, "ndcg-", scores, 0 * labels, **info)
    assert value == 0.0
    _, value = reported(hornbeam, "ndcg", scores, 0 * labels, **info)
    assert value == 1.0


def test_a_nan_prediction_gives_nan():
    assert math.isnan(create("map")(np.array([1.0, np.nan]), np.array([0.0, 1.0])))


MISTAKES = {
    "ndcg@": "needs a number of ranks",
    "ndcg@0": "such as 'ndcg@5'",
    "map@x": "such as 'map@5'",
    "pre@5x": "such as 'pre@5'",
    "pre@-3": "needs a number",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_invalid_names_are_an_error(name):
    with pytest.raises(ParameterError, match=MISTAKES[name]):
        create(name)
    with pytest.raises(ParameterError, match="unknown eval_metric 'auc-'"):
        create("auc-")


def test_labels_outside_the_domain_are_an_error_of_the_metric():
    scores = np.array([1.0, 2.0])
    for name, labels, message in (
        ("ndcg", [0, 1.5], "label 1.5 in row 1: ndcg needs whole grades from 0 to 31"),
        ("ndcg", [32, 1], "label 32 in row 0"),
        ("map@3", [0, 2], "label 2 in row 1: map@3 needs labels of 1 for relevant"),
        ("pre", [0.5, 0], "label 0.5 in row 0"),
    ):
        with pytest.raises(DataError, match=message):
            create(name)(scores, np.array(labels, float))
    with pytest.raises(DataError, match="6 predictions for 2 labels"):
        create("ndcg")(np.ones((2, 3)), np.ones(2))
