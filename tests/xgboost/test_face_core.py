"""The same code over both libraries, called by the same names."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hornbeam import xgboost as ours

xgboost = pytest.importorskip("xgboost")

FACES = [ours, xgboost]


def table(rows=60, columns=3, seed=0):
    features = np.random.default_rng(seed).random((rows, columns))
    return features, (features[:, 0] > 0.5).astype(float)


def both(run):
    """Return what a function of the module gives with ours, and with XGBoost's."""
    return tuple(run(face) for face in FACES)


def keys_of(tree, path=""):
    """Yield the path of every name in a tree."""
    if isinstance(tree, dict):
        for name, part in tree.items():
            yield f"{path}/{name}"
            yield from keys_of(part, f"{path}/{name}")
    elif isinstance(tree, list):
        for number, part in enumerate(tree):
            yield from keys_of(part, f"{path}/{number}")


def test_training_prints_and_returns_the_same(capsys):
    X, y = table()

    def run(xgb):
        result = {}
        data = xgb.DMatrix(X, y)
        params = {"max_depth": 3, "eval_metric": ["rmse", "mae"]}
        booster = xgb.train(
            params, data, 7, evals=[(data, "t")], evals_result=result, verbose_eval=3
        )
        return capsys.readouterr().out, result, booster.eval(data, "x", 3)

    (printed, result, line), (their_printed, their_result, their_line) = both(run)
    assert printed == their_printed
    assert result["t"].keys() == their_result["t"].keys()
    np.testing.assert_allclose(result["t"]["rmse"], their_result["t"]["rmse"], 1e-5)
    assert line.split(":")[0] == their_line.split(":")[0]


def test_an_unknown_parameter_is_told_in_a_warning():
    X, y = table()

    def run(xgb):
        with pytest.warns(UserWarning) as told:
            xgb.train({"foo": 1, "max_depth": 2}, xgb.DMatrix(X, y), 2)
        return str(told[0].message).splitlines()[1]

    mine, theirs = both(run)
    assert mine == theirs == 'Parameters: { "foo" } are not used.'


def test_configurations_have_the_same_names_and_values():
    X, y = table()

    def run(xgb):
        booster = xgb.train({"max_depth": 3, "eta": 0.1}, xgb.DMatrix(X, y), 2)
        return json.loads(booster.save_config())

    mine, theirs = both(run)
    assert sorted(keys_of(mine)) == sorted(keys_of(theirs))
    assert mine == theirs


def test_cross_validation_prints_and_returns_the_same(capsys):
    X, y = table()

    def run(xgb):
        frame = xgb.cv({"max_depth": 3}, xgb.DMatrix(X, y), 4, verbose_eval=True)
        return capsys.readouterr().out, frame

    (printed, frame), (their_printed, their_frame) = both(run)
    assert printed == their_printed
    assert list(frame.columns) == list(their_frame.columns)
    np.testing.assert_allclose(frame, their_frame, rtol=1e-5)
