"""The calls of callbacks in training, and the former modules of callback classes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
from small_training import Recorder, fit, rows

import hornbeam
from hornbeam import callbacks
from hornbeam.callbacks import CallbackContainer
from hornbeam.errors import DataError, ParameterError


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
def test_other_types_than_callbacks_are_an_error(not_a_callback):
    with pytest.raises(ParameterError, match="must be an instance of TrainingCallback"):
        fit(hornbeam, [not_a_callback])


def test_a_callback_that_returns_no_model_is_an_error():
    class Forgetful(hornbeam.TrainingCallback):
        def before_training(self, model):
            return None

    with pytest.raises(ParameterError, match="before_training must return the model"):
        fit(hornbeam, [Forgetful()])


def test_a_custom_metric_must_be_a_function():
    with pytest.raises(ParameterError, match="eval_metric"):
        CallbackContainer([], metric="auc")


def test_a_name_with_a_dash_is_an_error():
    matrix = hornbeam.DMatrix(*rows(0))
    with pytest.raises(DataError, match="another name"):
        fit(hornbeam, [], evals=[(matrix, "my-data")])


def test_metric_values_of_the_same_name_are_an_error():
    matrix = hornbeam.DMatrix(*rows(0))
    with pytest.raises(
        DataError, match="two metric values of a round have the same name"
    ):
        fit(hornbeam, [], evals=[(matrix, "data"), (matrix, "data")])


def test_metric_values_are_not_rounded():
    recorder = Recorder()
    booster = fit(hornbeam, [recorder], rounds=1)
    X, y = rows(1)
    error = booster.predict(hornbeam.DMatrix(X)).astype(np.float64) - y
    (score,) = recorder.log["valid"]["rmse"]
    assert score == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-7)


@pytest.mark.parametrize("former", callbacks._RENAMED)
def test_former_modules_have_the_classes_of_the_present_ones(former):
    present = import_module(f"hornbeam.callbacks.{callbacks._RENAMED[former]}")
    module = import_module(f"hornbeam.callbacks.{former}")
    for name in present.__all__:
        assert getattr(module, name) is getattr(present, name)
    with pytest.raises(AttributeError):
        _ = module.nothing


@pytest.mark.parametrize(
    ("former", "name", "state"),
    [
        ("stopping", "EarlyStopping", {"rounds": 3, "best_iteration": 7}),
        ("stopping", "TimeLimit", {"seconds": 1.5}),
        ("showing", "EvaluationMonitor", {"period": 5}),
        ("schedule", "LearningRateScheduler", {"learning_rates": [0.5, 0.25]}),
        ("checkpoints", "TrainingCheckPoint", {"_interval": 3}),
        ("bagging", "OutOfBag", {"improvement": [0.5]}),
    ],
)
def test_pickles_that_name_former_modules_load(former, name, state):
    callback = object.__new__(getattr(hornbeam, name))
    vars(callback).update(state)
    present = type(callback).__module__
    data = pickle.dumps(callback, protocol=0)  # the name of the module as text
    old = data.replace(present.encode(), f"hornbeam.callbacks.{former}".encode())
    assert old != data
    # Alone: in this process the present module is loaded already.
    code = f"""
import pickle, sys
found = pickle.loads({old!r})
assert vars(found) == {state!r}, vars(found)
assert type(found).__module__ == {present!r}, type(found)
assert pickle.dumps(found, 0) == {data!r}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
