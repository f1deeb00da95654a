"""EvaluationMonitor next to that of XGBoost, and progress bars."""

from __future__ import annotations

import io
import pty

import numpy as np
import pytest
import xgboost
from small_training import ROUNDS, fit
from terminals import read_all

import hornbeam
from hornbeam.errors import ParameterError


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


def test_invalid_arguments_of_the_monitor():
    with pytest.raises(ParameterError, match="period of EvaluationMonitor"):
        hornbeam.EvaluationMonitor(period=0)
    with pytest.raises(ParameterError, match="rank must be 0"):
        hornbeam.EvaluationMonitor(rank=1)


def test_progress_in_a_pipe_is_a_line_per_period():
    stream = io.StringIO()
    fit(hornbeam, [hornbeam.ProgressBar(ROUNDS, period=5, stream=stream)])
    lines = stream.getvalue().splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "round 5/12",
        "round 10/12",
        "round 12/12",
    ]
    assert "valid-rmse:" in lines[0]


def test_progress_without_a_number_of_rounds_prints_the_last_round():
    stream = io.StringIO()
    fit(hornbeam, [hornbeam.ProgressBar(period=10, stream=stream)], evals=[])
    assert stream.getvalue() == "round 10\nround 12\n"


def test_progress_with_period_0_prints_nothing():
    stream = io.StringIO()
    fit(hornbeam, [hornbeam.ProgressBar(period=0, stream=stream)])
    assert stream.getvalue() == ""


def test_a_forest_prints_the_number_of_trees(capsys):
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


def test_an_exception_in_training_restores_the_cursor():
    class Failing(hornbeam.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            raise RuntimeError

    def train(terminal):
        with pytest.raises(RuntimeError):
            fit(hornbeam, [hornbeam.ProgressBar(stream=terminal), Failing()])

    assert "\x1b[?25h" in on_a_terminal(train)


def test_invalid_arguments_of_the_bar():
    with pytest.raises(ParameterError, match="period of ProgressBar"):
        hornbeam.ProgressBar(period=-1)
