"""Residuals along predictions."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot as plt

import hornbeam
from hornbeam.errors import DataError, ParameterError
from hornbeam.explain import Residuals, plot_residuals, residuals_of


def test_points_are_labels_less_predictions(prices, diamonds):
    data = hornbeam.DMatrix(*diamonds)
    ax = plot_residuals(prices, data)
    predicted = prices.predict(data).astype(float)
    points = ax.collections[0].get_offsets()
    np.testing.assert_allclose(points[:, 0], predicted)
    np.testing.assert_allclose(points[:, 1], diamonds[1] - predicted)
    found = residuals_of(prices, *diamonds)
    errors = diamonds[1] - predicted
    assert found.mean == pytest.approx(errors.mean())
    assert found.rmse == pytest.approx(np.sqrt(np.mean(errors**2)))


def test_many_rows_are_counted_in_cells():
    rng = np.random.default_rng(0)
    predictions, labels = rng.random(9000), rng.normal(size=9000)
    found = Residuals.of_labels(labels, predictions)
    ax = plot_residuals(found)
    counts = ax.collections[0].get_array()
    assert counts.sum() == 9000 and len(counts) < 6000
    (side,) = [other for other in ax.figure.axes if other is not ax]
    assert sum(bar.get_width() for bar in side.patches) == 9000
    assert side.get_ylim() == ax.get_ylim()


def test_the_trend_is_the_mean_of_windows():
    rng = np.random.default_rng(0)
    predictions = rng.permutation(1000) / 1000
    labels = predictions + np.where(predictions < 0.5, -1, 2)
    weights = rng.integers(1, 3, 1000).astype(float)
    found = Residuals.of_labels(labels, predictions, weights)
    x, y = found.trend()
    assert len(x) == 40
    order = np.argsort(predictions)
    for k, start in ((0, 0), (-1, 900)):
        rows = order[start : start + 100]
        assert x[k] == pytest.approx(
            np.average(predictions[rows], weights=weights[rows])
        )
    np.testing.assert_allclose([y[0], y[-1]], [-1, 2])
    line = plot_residuals(found).lines[1]
    np.testing.assert_allclose(line.get_ydata(), y)


def test_a_few_rows_have_no_trend():
    found = Residuals.of_labels([1.0, 2.0], [1.5, 1.0])
    assert found.trend()[0].size == 0
    assert len(plot_residuals(found).collections[0].get_offsets()) == 2


def test_of_several_targets_one_is_chosen(diamonds):
    frame, labels = diamonds
    both = np.stack([labels, np.log(labels)], axis=1)
    data = hornbeam.DMatrix(frame, both)
    booster = hornbeam.train({}, data, 3)
    found = residuals_of(booster, data, output=1)
    np.testing.assert_allclose(
        found.values, both[:, 1] - booster.predict(data)[:, 1], rtol=1e-5
    )
    with pytest.raises(ParameterError, match="the model has 2 outputs"):
        plot_residuals(booster, data)


def test_a_distribution_is_drawn_by_its_middle(diamonds):
    data = hornbeam.DMatrix(*diamonds)
    booster = hornbeam.train({"objective": "dist:lognormal"}, data, 3)
    found = residuals_of(booster, data)
    middle = np.exp(booster.predict(data)[:, 0].astype(float))
    np.testing.assert_allclose(found.predictions, middle)
    quantiles = {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5]}
    booster = hornbeam.train(quantiles, data, 3)
    found = residuals_of(booster, data, output="quantile 0.5")
    np.testing.assert_allclose(found.predictions, booster.predict(data)[:, 1])


def test_the_axes_given_are_drawn_in(prices, diamonds):
    _, (left, right) = plt.subplots(1, 2)
    plt.sca(left)
    assert plot_residuals(prices, *diamonds, right) is right
    assert plt.gca() is left and not left.collections


def test_what_cannot_be_drawn_is_refused(prices, diamonds, cuts):
    with pytest.raises(ParameterError, match="plot_calibration and plot_confusion"):
        plot_residuals(*cuts)
    with pytest.raises(DataError, match="the data has none; pass labels"):
        plot_residuals(prices, diamonds[0])
    with pytest.raises(DataError, match=r"\(2,\) labels and \(3,\) predictions"):
        Residuals.of_labels([1, 2], [1, 2, 3])
