"""Early stopping next to that of XGBoost, and time limits."""

from __future__ import annotations

import numpy as np
import pytest
import xgboost
from small_training import Recorder, fit

import hornbeam
from hornbeam import metrics
from hornbeam.callbacks import EvalsLog, early_stopping
from hornbeam.errors import DataError, HornbeamError, ParameterError
from hornbeam.explain.curves import learning_curves_of
from hornbeam.metrics import base as metrics_base

STOPPING = [
    {"rounds": 2},
    {"rounds": 1, "min_delta": 0.05},
    {"rounds": 2, "data_name": "train"},
    {"rounds": 2, "metric_name": "rmse"},
    {"rounds": 3, "maximize": True},
    {"rounds": 2, "save_best": True},
]


@pytest.mark.parametrize("arguments", STOPPING, ids=str)
def test_early_stopping_stops_where_xgboost_does(arguments):
    params = {"eval_metric": ["rmse", "mae"]}
    ours, theirs = (
        fit(library, [stopping(**arguments)], rounds=25, params=params)
        for library, stopping in (
            (hornbeam, hornbeam.EarlyStopping),
            (xgboost, xgboost.callback.EarlyStopping),
        )
    )
    assert ours.num_boosted_rounds() == theirs.num_boosted_rounds()
    assert ours.attr("best_iteration") == theirs.attr("best_iteration")
    assert float(ours.attr("best_score")) == pytest.approx(
        float(theirs.attr("best_score")), rel=1e-5
    )


@pytest.mark.parametrize(
    ("metric", "larger"),
    [
        ("auc", True),
        ("aucpr", True),
        ("rmse", False),
        ("mape", False),
        ("ndcg@3", True),
        ("precision", True),
        ("accuracy", False),
    ],
)
def test_the_name_of_a_custom_metric_decides_whether_it_is_maximised(metric, larger):
    def score(predictions, matrix):
        return metric, 1.0 - np.mean((predictions - matrix.get_label()) ** 2)

    recorder = Recorder()
    stopping = hornbeam.EarlyStopping(rounds=3)
    booster = fit(
        hornbeam,
        [stopping, recorder],
        custom_metric=score,
        params={"disable_default_eval_metric": True},
    )
    scores = recorder.log["valid"][metric]
    best = int(booster.attr("best_iteration"))
    assert best == (np.argmax(scores) if larger else np.argmin(scores))


@pytest.mark.parametrize("larger", [False, True])
@pytest.mark.parametrize("name", metrics.names())
def test_early_stopping_follows_the_maximize_of_every_metric(name, larger, monkeypatch):
    # Both values, so that neither the name nor a table can decide instead.
    monkeypatch.setattr(metrics_base.METRICS[name], "maximize", larger)
    reported = {"ams": "ams@0.15", "tweedie-nloglik": "tweedie-nloglik@1.5"}
    stopping = hornbeam.EarlyStopping(rounds=3)
    model = fit(hornbeam, [], rounds=1)
    for epoch, score in enumerate((0.5, 0.75, 0.25)):
        log = {"valid": {reported.get(name, name): [score]}}
        assert not stopping.after_iteration(model, epoch, log)
    assert stopping.best_score == (0.75 if larger else 0.25)


def test_early_stopping_maximises_a_registered_metric(monkeypatch):
    # Removed from the registry afterwards.
    monkeypatch.setitem(metrics_base.METRICS, "negative-error", None)

    @metrics_base.register
    class NegativeError(metrics_base.Metric):
        base_name = "negative-error"
        maximize = True

        def measure(self, predictions, labels, weights):
            return -float(np.mean(np.abs(predictions.ravel() - labels.ravel())))

    stopping = hornbeam.EarlyStopping(rounds=3, save_best=True)
    log: EvalsLog = {}
    booster = fit(
        hornbeam,
        [stopping],
        rounds=40,
        params={"eval_metric": "negative-error"},
        evals_result=log,
    )
    scores = log["valid"]["negative-error"]
    assert stopping.best_iteration == np.argmax(scores)
    assert 1 < booster.num_boosted_rounds() == stopping.best_iteration + 1
    curve = learning_curves_of(log, "negative-error")[-1]
    assert curve.best == stopping.best_iteration


def test_early_stopping_continues_the_count_of_rounds():
    booster = fit(hornbeam, [], rounds=3)
    stopping = hornbeam.EarlyStopping(rounds=2, save_best=True)
    longer = fit(hornbeam, [stopping], xgb_model=booster, rounds=30)
    assert stopping.best_iteration >= 3
    assert longer.num_boosted_rounds() == stopping.best_iteration + 1


def test_an_early_stopping_can_be_used_again():
    stopping = hornbeam.EarlyStopping(rounds=2)
    first = fit(hornbeam, [stopping], rounds=40)
    second = fit(hornbeam, [stopping], rounds=40)
    assert first.digest() == second.digest()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rounds": 0}, "rounds of EarlyStopping must be 1 or more"),
        (
            {"rounds": 1, "min_delta": -1},
            "min_delta of EarlyStopping must be 0 or more",
        ),
        ({"rounds": 1, "min_delta": np.nan}, "min_delta of EarlyStopping"),
        ({"rounds": 1, "data_name": "test"}, "'test', which is not among ['train'"),
        ({"rounds": 1, "metric_name": "auc"}, "'auc', which is not among ['rmse']"),
    ],
)
def test_invalid_arguments_of_early_stopping(arguments, message):
    with pytest.raises(HornbeamError) as caught:
        fit(hornbeam, [hornbeam.EarlyStopping(**arguments)])
    assert message in str(caught.value)


def test_early_stopping_requires_evals():
    with pytest.raises(DataError, match="pass evals to train"):
        fit(hornbeam, [hornbeam.EarlyStopping(rounds=1)], evals=[])


class Clock(hornbeam.TrainingCallback):
    """A clock by which every round takes a quarter of a second."""

    now = 0.0

    def monotonic(self):
        return self.now

    def after_iteration(self, model, epoch, evals_log):
        self.now += 0.25
        return False


@pytest.fixture
def clock(monkeypatch):
    """Let time limits read a clock, which does not depend on what else runs."""
    clock = Clock()
    monkeypatch.setattr(early_stopping, "time", clock)
    return clock


def test_a_time_limit_returns_the_best_model(clock):
    log = {}
    limit = hornbeam.TimeLimit(2.5)
    model = fit(hornbeam, [clock, limit], rounds=10_000, evals_result=log)
    scores = log["valid"]["rmse"]
    assert len(scores) == 10  # another round would end later
    assert model.num_boosted_rounds() == np.argmin(scores) + 1
    assert model.best_iteration == np.argmin(scores)
    assert model.best_score == min(scores)


def test_a_time_limit_without_evals_keeps_all_rounds(clock):
    rounds = fit(hornbeam, [clock, hornbeam.TimeLimit(1.0)], 10_000, evals=())
    assert rounds.num_boosted_rounds() == 4
    one = fit(hornbeam, [clock, hornbeam.TimeLimit(1e-9)], evals=())
    assert one.num_boosted_rounds() == 1


def test_a_time_limit_that_is_not_reached_returns_the_best_model():
    whole = fit(hornbeam, [hornbeam.TimeLimit(1e6, save_best=False)], rounds=30)
    assert whole.num_boosted_rounds() == 30
    best = fit(hornbeam, [hornbeam.TimeLimit(1e6)], rounds=30)
    assert best.num_boosted_rounds() == whole.best_iteration + 1 < 30


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_time_limit_must_be_positive(seconds):
    with pytest.raises(ParameterError, match="seconds of TimeLimit must be above 0"):
        hornbeam.TimeLimit(seconds)
