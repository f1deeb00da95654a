"""DART compared with XGBoost's: equal weights and trees without random dropout."""

from __future__ import annotations

import numpy as np
import pytest
import xgboost
from samples import few_values, ranked
from test_xgboost import LIBRARIES, assert_same_model, both

import hornbeam
from hornbeam.forest import decode

#: Every tree is dropped in every round, so there are no random draws.
ALL = {"booster": "dart", "rate_drop": 1.0, "max_depth": 3}
CASES = {
    "tree": {},
    "forest": {"normalize_type": "forest"},
    "one": {"rate_drop": 0.0, "one_drop": True, "rounds": 2},
    "none": {"skip_drop": 1.0},
    "parallel": {"num_parallel_tree": 2, "eta": 0.7},
    "binary": {"objective": "binary:logistic"},
    "classes": {"objective": "multi:softprob", "num_class": 3},
}


@pytest.mark.parametrize("case", CASES)
def test_trees_and_weights_equal_xgboosts(case):
    params = {**ALL, **CASES[case]}
    rounds = params.pop("rounds", 5)
    rows, labels = few_values(missing=0.1)
    if "objective" in params:
        labels = ranked(labels, params.get("num_class", 2))
    ours, theirs, *_ = both(params, rows, labels, rounds)
    assert_same_model(ours, theirs)
    weights = decode(bytes(theirs.save_raw("ubj"))).tree_weights
    np.testing.assert_allclose(ours.model.tree_weights, weights, rtol=1e-6)


@pytest.mark.parametrize("kind", ["json", "ubj"])
def test_model_files_are_exchanged(kind):
    rows, labels = few_values(700, missing=0.1)
    params = {"booster": "dart", "rate_drop": 0.3, "one_drop": True, "nthread": 1}
    for booster in (
        library.train(params, library.DMatrix(rows, labels), 12)
        for library in LIBRARIES
    ):
        raw = bytes(booster.save_raw(kind))
        ours = hornbeam.Booster(model_file=raw)
        theirs = xgboost.Booster({"nthread": 1}, model_file=bytearray(raw))
        for part in (slice(0, 12), slice(3, 9), slice(None, 10, 2)):
            np.testing.assert_array_equal(
                ours[part].predict(hornbeam.DMatrix(rows)),
                theirs[part].predict(xgboost.DMatrix(rows)),
            )
        np.testing.assert_array_equal(
            ours.predict(hornbeam.DMatrix(rows), iteration_range=(2, 7)),
            theirs.predict(xgboost.DMatrix(rows), iteration_range=(2, 7)),
        )


def test_training_continues_from_xgboosts_model():
    rows, labels = few_values(700, missing=0.1)
    params = {**ALL, "nthread": 1}
    data = xgboost.DMatrix(rows, labels)
    raw = bytes(xgboost.train(params, data, 3).save_raw("ubj"))
    theirs = xgboost.train(params, data, 3, xgb_model=bytearray(raw))
    ours = hornbeam.train(params, hornbeam.DMatrix(rows, labels), 3, xgb_model=raw)
    np.testing.assert_allclose(
        ours.predict(hornbeam.DMatrix(rows)), theirs.predict(data), rtol=2e-5, atol=1e-5
    )


def test_the_loss_is_not_worse_than_xgboosts():
    """The random draws differ, so losses are means over seeds."""
    rows, labels = few_values(1200, missing=0.1)
    losses = {}
    for library in LIBRARIES:
        losses[library] = []
        for seed in range(4):
            params = {"booster": "dart", "rate_drop": 0.2, "seed": seed, "nthread": 1}
            booster = library.train(
                params, library.DMatrix(rows[:800], labels[:800]), 30
            )
            found = booster.predict(library.DMatrix(rows[800:]))
            losses[library].append(np.sqrt(np.mean((found - labels[800:]) ** 2)))
    ours, theirs = losses[hornbeam], losses[xgboost]
    assert np.mean(ours) <= np.mean(theirs) + np.ptp(theirs)
