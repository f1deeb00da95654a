"""Scores along rounds."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot as plt

import hornbeam
from hornbeam.errors import DataError, ParameterError
from hornbeam.explain import learning_curves_of, plot_learning_curves

SCORES = {
    "train": {"rmse": [3.0, 2.0, 1.0], "auc": [0.5, 0.7, 0.9]},
    "test": {"rmse": [3.5, 2.5, 2.75], "auc": [0.5, 0.625, 0.6]},
}


def lines(ax):
    return [line for line in ax.lines if line.get_linestyle() == "-"]


def said(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_a_line_for_each_data_set():
    ax = plot_learning_curves(SCORES, metric="rmse")
    train, test = lines(ax)
    assert train.get_ydata().tolist() == [3.0, 2.0, 1.0]
    assert test.get_ydata().tolist() == [3.5, 2.5, 2.75]
    assert said(ax) == ["train", "test (best 2.5 in round 1)"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("round", "rmse")
    (mark,) = [line for line in ax.lines if line.get_marker() == "o"]
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (1, 2.5)


def test_a_name_that_begins_with_an_underscore_is_in_the_legend():
    ax = plot_learning_curves(
        {"_held out": {"rmse": [2.0, 1.0]}, "x": {"rmse": [3.0, 2.0]}}
    )
    assert said(ax)[0] == "_held out"


def test_a_panel_for_each_metric():
    rmse, auc = plot_learning_curves(SCORES)
    assert rmse.figure is auc.figure
    assert (rmse.get_ylabel(), auc.get_ylabel()) == ("rmse", "auc")
    assert said(auc)[1] == "test (best 0.625 in round 1)"
    _, axs = plt.subplots(1, 2)
    assert plot_learning_curves(SCORES, axs) == list(axs)


def test_an_estimator_knows_its_curves(diamonds):
    frame, labels = diamonds
    model = hornbeam.HornbeamRegressor(n_estimators=30, early_stopping_rounds=3)
    model.set_params(learning_rate=1.0)
    model.fit(
        frame[::2], labels[::2], eval_set=[(frame[1::2], labels[1::2])], verbose=False
    )
    (curve,) = learning_curves_of(model)
    assert curve.best == model.best_iteration
    assert curve.scores[curve.best] == model.best_score
    assert len(lines(plot_learning_curves(model))) == 1


@pytest.mark.parametrize("as_pandas", [True, False])
def test_folds_have_bands(diamonds, as_pandas):
    found = hornbeam.cv(
        {}, hornbeam.DMatrix(*diamonds), 5, nfold=3, as_pandas=as_pandas
    )
    ax = plot_learning_curves(found)
    mean, spread = (np.array(found[f"test-rmse-{of}"]) for of in ("mean", "std"))
    np.testing.assert_array_equal(lines(ax)[1].get_ydata(), mean)
    band = ax.collections[1].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx((mean + spread).max())
    assert band.min() == pytest.approx((mean - spread).min())


def test_a_single_round_is_a_point():
    (line,) = [
        line
        for line in plot_learning_curves({"test": {"rmse": [2.0]}}).lines
        if line.get_marker() == "."
    ]
    assert line.get_ydata().tolist() == [2.0]


def test_what_cannot_be_drawn_is_refused(prices):
    with pytest.raises(ParameterError, match="metric 'mae' is not among the scores"):
        plot_learning_curves(SCORES, metric="mae")
    with pytest.raises(DataError, match="nothing was evaluated"):
        plot_learning_curves({})
    with pytest.raises(ParameterError, match="not of Booster"):
        plot_learning_curves(prices)
    with pytest.raises(ParameterError, match=r"2 metrics .* and 1 axes; choose one"):
        plot_learning_curves(SCORES, plt.figure().add_subplot())
