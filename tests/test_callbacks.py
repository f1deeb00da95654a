"""Callbacks over real training, beside those of XGBoost where it has the same."""

from __future__ import annotations

import io
import os
import pickle
import pty
import time

import numpy as np
import pytest
import xgboost
from terminals import read_all

import hornbeam
from hornbeam import metrics
from hornbeam.callbacks import CallbackContainer, EvalsLog
from hornbeam.errors import DataError, HornbeamError, ParameterError
from hornbeam.explain.curves import learning_curves_of
from hornbeam.metrics import base as metrics_base

ROUNDS = 12


def rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 4)).astype(np.float32)
    return X, X[:, 0] * X[:, 1] + rng.normal(scale=0.5, size=200)


def fit(library, callbacks, rounds=ROUNDS, params=None, **arguments):
    """Train with `library`, which is Hornbeam or XGBoost, on the same small data."""
    train, valid = (library.DMatrix(*rows(seed)) for seed in (0, 1))
    arguments.setdefault("evals", [(train, "train"), (valid, "valid")])
    arguments.setdefault("verbose_eval", False)
    params = {"nthread": 1, "eta": 0.9} | (params or {})
    return library.train(params, train, rounds, callbacks=callbacks, **arguments)


class Recorder(hornbeam.TrainingCallback):
    """Writes down what it is asked, and stops where it is told to."""

    def __init__(self, stop_before: int | None = None, stop_after: int | None = None):
        self.stop_before = stop_before
        self.stop_after = stop_after
        self.calls: list[tuple[str, int]] = []
        self.log: EvalsLog = {}

    def before_training(self, model):
        self.calls.append(("before_training", model.num_boosted_rounds()))
        return model

    def after_training(self, model):
        self.calls.append(("after_training", model.num_boosted_rounds()))
        return model

    def before_iteration(self, model, epoch, evals_log):
        self.calls.append(("before", epoch))
        return epoch == self.stop_before

    def after_iteration(self, model, epoch, evals_log):
        self.calls.append(("after", epoch))
        self.log = evals_log
        return epoch == self.stop_after


def test_the_order_of_calls():
    recorder = Recorder()
    fit(hornbeam, [recorder], rounds=2)
    assert recorder.calls == [
        ("before_training", 0),
        ("before", 0),
        ("after", 0),
        ("before", 1),
        ("after", 1),
        ("after_training", 2),
    ]
    assert list(recorder.log) == ["train", "valid"]
    assert list(recorder.log["valid"]) == ["rmse"]
    assert len(recorder.log["valid"]["rmse"]) == 2


@pytest.mark.parametrize(
    ("stop", "rounds"), [({"stop_before": 3}, 3), ({"stop_after": 3}, 4)]
)
def test_a_callback_may_stop_training(stop, rounds):
    first, last = Recorder(**stop), Recorder()
    booster = fit(hornbeam, [first, last])
    assert booster.num_boosted_rounds() == rounds
    assert last.calls[-1] == ("after_training", rounds)


def test_every_callback_sees_the_round_that_ends_training():
    first, last = Recorder(stop_after=3), Recorder()
    fit(hornbeam, [first, last])
    assert ("after", 3) in last.calls


def test_a_callback_given_twice_runs_once():
    recorder = Recorder()
    fit(hornbeam, [recorder, recorder], rounds=1)
    assert recorder.calls.count(("after", 0)) == 1


@pytest.mark.parametrize("not_a_callback", [hornbeam.EvaluationMonitor, print, "bar"])
def test_what_is_no_callback_is_refused(not_a_callback):
    with pytest.raises(ParameterError, match="must be an instance of TrainingCallback"):
        fit(hornbeam, [not_a_callback])


def test_a_callback_that_loses_the_model_is_named():
    class Forgetful(hornbeam.TrainingCallback):
        def before_training(self, model):
            return None

    with pytest.raises(ParameterError, match="before_training must return the model"):
        fit(hornbeam, [Forgetful()])


def test_the_metric_must_be_a_function():
    with pytest.raises(ParameterError, match="eval_metric"):
        CallbackContainer([], metric="auc")


def test_a_name_with_a_dash_is_refused():
    matrix = hornbeam.DMatrix(*rows(0))
    with pytest.raises(DataError, match="another name"):
        fit(hornbeam, [], evals=[(matrix, "my-data")])


def test_scores_of_one_name_are_refused():
    matrix = hornbeam.DMatrix(*rows(0))
    with pytest.raises(DataError, match="two scores of a round have the same name"):
        fit(hornbeam, [], evals=[(matrix, "data"), (matrix, "data")])


def test_scores_are_not_rounded():
    recorder = Recorder()
    booster = fit(hornbeam, [recorder], rounds=1)
    X, y = rows(1)
    error = booster.predict(hornbeam.DMatrix(X)).astype(np.float64) - y
    (score,) = recorder.log["valid"]["rmse"]
    assert score == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-7)


# --- Early stopping -------------------------------------------------------------------

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
    monkeypatch.setattr(metrics_base._METRICS[name], "maximize", larger)
    reported = {"ams": "ams@0.15", "tweedie-nloglik": "tweedie-nloglik@1.5"}
    stopping = hornbeam.EarlyStopping(rounds=3)
    model = fit(hornbeam, [], rounds=1)
    for epoch, score in enumerate((0.5, 0.75, 0.25)):
        log = {"valid": {reported.get(name, name): [score]}}
        assert not stopping.after_iteration(model, epoch, log)
    assert stopping.best_score == (0.75 if larger else 0.25)


def test_early_stopping_maximises_a_registered_metric_that_says_so(monkeypatch):
    monkeypatch.setattr(metrics_base, "_METRICS", dict(metrics_base._METRICS))

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


def test_early_stopping_counts_on_when_training_goes_on():
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
def test_mistakes_of_early_stopping(arguments, message):
    with pytest.raises(HornbeamError) as caught:
        fit(hornbeam, [hornbeam.EarlyStopping(**arguments)])
    assert message in str(caught.value)


def test_early_stopping_needs_something_to_watch():
    with pytest.raises(DataError, match="pass evals to train"):
        fit(hornbeam, [hornbeam.EarlyStopping(rounds=1)], evals=[])


# --- Monitor and schedule -------------------------------------------------------------


@pytest.mark.parametrize("period", [1, 5])
def test_the_monitor_prints_what_xgboost_prints(period):
    ours: list[str] = []
    theirs: list[str] = []
    fit(hornbeam, [hornbeam.EvaluationMonitor(period=period, logger=ours.append)])
    monitor = xgboost.callback.EvaluationMonitor(period=period, logger=theirs.append)
    fit(xgboost, [monitor])
    assert ours == [line.rstrip("\n") for line in theirs]


def test_the_monitor_prints_deviations_over_folds():
    lines: list[str] = []
    monitor = hornbeam.EvaluationMonitor(show_stdv=True, logger=lines.append)
    monitor.after_iteration(hornbeam.Booster(), 3, {"test": {"rmse": [(0.5, 0.25)]}})
    assert lines == ["[3]\ttest-rmse:0.50000+0.25000"]


def test_mistakes_of_the_monitor():
    with pytest.raises(ParameterError, match="period of EvaluationMonitor"):
        hornbeam.EvaluationMonitor(period=0)
    with pytest.raises(ParameterError, match="rank must be 0"):
        hornbeam.EvaluationMonitor(rank=1)


RATES = [0.5 / (1 + epoch) for epoch in range(ROUNDS)]


@pytest.mark.parametrize("rates", [RATES, RATES.__getitem__], ids=["list", "function"])
def test_the_schedule_is_that_of_xgboost(rates):
    ours = fit(hornbeam, [hornbeam.LearningRateScheduler(rates)])
    theirs = fit(xgboost, [xgboost.callback.LearningRateScheduler(rates)])
    X, _ = rows(1)
    np.testing.assert_allclose(
        ours.predict(hornbeam.DMatrix(X)), theirs.predict(xgboost.DMatrix(X)), atol=1e-4
    )


def test_mistakes_of_the_schedule():
    with pytest.raises(ParameterError, match="a function of the epoch or a list"):
        hornbeam.LearningRateScheduler(0.1)
    with pytest.raises(ParameterError, match="holds 2 rates, too few for round 2"):
        fit(hornbeam, [hornbeam.LearningRateScheduler([0.1, 0.1])])


# --- Checkpoints ----------------------------------------------------------------------


@pytest.mark.parametrize("interval", [1, 5])
def test_checkpoints_have_the_names_of_xgboost(tmp_path, interval):
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    fit(hornbeam, [hornbeam.TrainingCheckPoint(tmp_path / "ours", interval=interval)])
    theirs = xgboost.callback.TrainingCheckPoint(tmp_path / "theirs", interval=interval)
    fit(xgboost, [theirs])
    assert sorted(os.listdir(tmp_path / "ours")) == sorted(
        os.listdir(tmp_path / "theirs")
    )


def test_training_goes_on_from_a_checkpoint(tmp_path):
    checkpoint = hornbeam.TrainingCheckPoint(tmp_path, name="part", interval=5)
    whole = fit(hornbeam, [checkpoint])
    half = hornbeam.Booster(model_file=tmp_path / "part_5.ubj")
    assert half.num_boosted_rounds() == 6
    resumed = fit(hornbeam, [checkpoint], xgb_model=half, rounds=ROUNDS - 6)
    assert resumed.digest() == whole.digest()
    assert (tmp_path / "part_11.ubj").exists()


def test_a_pickled_checkpoint_is_a_booster(tmp_path):
    checkpoint = hornbeam.TrainingCheckPoint(tmp_path, as_pickle=True, interval=11)
    booster = fit(hornbeam, [checkpoint])
    saved = pickle.loads((tmp_path / "model_11.pkl").read_bytes())
    assert saved.digest() == booster.digest()


def test_mistakes_of_checkpoints(tmp_path):
    with pytest.raises(ParameterError, match="interval of TrainingCheckPoint"):
        hornbeam.TrainingCheckPoint(tmp_path, interval=0)
    with pytest.raises(ParameterError, match="which is no directory; make it first"):
        fit(hornbeam, [hornbeam.TrainingCheckPoint(tmp_path / "absent")])


# --- Progress -------------------------------------------------------------------------


def test_progress_in_a_pipe_is_a_few_lines():
    stream = io.StringIO()
    fit(hornbeam, [hornbeam.ProgressBar(ROUNDS, period=5, stream=stream)])
    lines = stream.getvalue().splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "round 5/12",
        "round 10/12",
        "round 12/12",
    ]
    assert "valid-rmse:" in lines[0]


def test_progress_without_an_end_still_prints_the_last_round():
    stream = io.StringIO()
    fit(hornbeam, [hornbeam.ProgressBar(period=10, stream=stream)], evals=[])
    assert stream.getvalue() == "round 10\nround 12\n"


def test_progress_may_be_silent_in_a_pipe():
    stream = io.StringIO()
    fit(hornbeam, [hornbeam.ProgressBar(period=0, stream=stream)])
    assert stream.getvalue() == ""


def test_a_forest_says_how_many_trees_are_grown(capsys):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 3))
    forest = hornbeam.RandomForestRegressor(25, oob_score=True, verbose=True)
    forest.fit(rows, rows[:, 0])
    shown = capsys.readouterr()
    assert shown.out == ""
    first, _, last = shown.err.splitlines()
    assert first.startswith("tree 10/25  oob-error:")
    assert last == f"tree 25/25  oob-error:{forest.oob_error_curve_[-1]:.5f}"
    forest.set_params(verbose=False).fit(rows, rows[:, 0])
    assert capsys.readouterr().err == ""


def on_a_terminal(train) -> str:
    """Return what `train` shows on a terminal that is passed to it."""
    reader, writer = pty.openpty()
    with open(writer, "w") as terminal:
        train(terminal)
    return read_all(reader)


def test_progress_on_a_terminal_is_a_bar():
    shown = on_a_terminal(
        lambda terminal: fit(hornbeam, [hornbeam.ProgressBar(ROUNDS, stream=terminal)])
    )
    assert "12/12" in shown
    assert "valid-rmse:" in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # the cursor is back


def test_an_error_in_training_gives_the_cursor_back():
    class Failing(hornbeam.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            raise RuntimeError

    def train(terminal):
        with pytest.raises(RuntimeError):
            fit(hornbeam, [hornbeam.ProgressBar(stream=terminal), Failing()])

    assert "\x1b[?25h" in on_a_terminal(train)


def test_mistakes_of_the_bar():
    with pytest.raises(ParameterError, match="period of ProgressBar"):
        hornbeam.ProgressBar(period=-1)


# --- A limit of time ------------------------------------------------------------------


class Slow(hornbeam.TrainingCallback):
    """Makes every round take some time."""

    def after_iteration(self, model, epoch, evals_log):
        time.sleep(0.03)
        return False


def test_training_ends_in_time_with_the_best_model():
    log = {}
    limit = hornbeam.TimeLimit(0.3)
    began = time.monotonic()
    model = fit(hornbeam, [Slow(), limit], rounds=10_000, evals_result=log)
    assert time.monotonic() - began < 10  # that is, not after so many rounds
    scores = log["valid"]["rmse"]
    assert 1 < len(scores) < 11
    assert model.num_boosted_rounds() == np.argmin(scores) + 1
    assert model.best_iteration == np.argmin(scores)
    assert model.best_score == min(scores)


def test_a_limit_without_data_to_measure_keeps_all_rounds():
    rounds = fit(hornbeam, [Slow(), hornbeam.TimeLimit(0.2)], 10_000, evals=())
    assert 1 <= rounds.num_boosted_rounds() < 8
    one = fit(hornbeam, [hornbeam.TimeLimit(1e-9)], evals=())
    assert one.num_boosted_rounds() == 1


def test_a_limit_that_is_not_reached_keeps_the_best_round_if_it_shall():
    whole = fit(hornbeam, [hornbeam.TimeLimit(1e6, save_best=False)], rounds=30)
    assert whole.num_boosted_rounds() == 30
    best = fit(hornbeam, [hornbeam.TimeLimit(1e6)], rounds=30)
    assert best.num_boosted_rounds() == whole.best_iteration + 1 < 30


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_limit_must_leave_some_time(seconds):
    with pytest.raises(ParameterError, match="seconds of TimeLimit must be above 0"):
        hornbeam.TimeLimit(seconds)
