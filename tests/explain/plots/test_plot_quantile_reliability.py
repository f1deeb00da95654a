"""Shares of labels below predicted quantiles."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot as plt

import hornbeam
from hornbeam.errors import DataError, ParameterError
from hornbeam.explain import Reliability, plot_quantile_reliability, reliability_of


@pytest.fixture(scope="module")
def noisy():
    """Rows whose labels spread by what the first column says: training and test."""
    rng = np.random.default_rng(0)
    rows = rng.random((4000, 2))
    labels = rows[:, 1] + (0.2 + rows[:, 0]) * rng.normal(size=4000)
    return [hornbeam.DMatrix(rows[k::2], labels[k::2]) for k in (0, 1)]


def test_quantiles_have_their_own_levels(noisy):
    train, test = noisy
    levels = [0.1, 0.5, 0.9]
    params = {"objective": "reg:quantileerror", "quantile_alpha": levels}
    booster = hornbeam.train(params | {"max_depth": 3}, train, 20)
    found = reliability_of(booster, test)
    assert found.levels.tolist() == levels
    predicted = booster.predict(test)
    expected = (test.get_label()[:, None] < predicted).mean(axis=0)
    np.testing.assert_allclose(found.shares, expected)
    assert found.largest_gap == np.abs(expected - levels).max()
    assert found.coverage == pytest.approx(expected[2] - expected[0])

    ax = plot_quantile_reliability(booster, test)
    (line,) = [line for line in ax.lines if line.get_marker() == "o"]
    assert line.get_xdata().tolist() == levels
    np.testing.assert_allclose(line.get_ydata(), expected)
    (said,) = ax.get_legend().get_texts()
    assert f"{100 * found.coverage:.1f} % inside, for 80 %" in said.get_text()


def test_a_distribution_has_quantiles_at_any_level(noisy):
    train, test = noisy
    booster = hornbeam.train({"objective": "dist:normal", "max_depth": 3}, train, 20)
    found = reliability_of(booster, test)
    assert found.levels.tolist() == pytest.approx(np.arange(1, 20) / 20)
    assert found.largest_gap < 0.05
    interval = booster.predict_interval(test, 0.8).astype(float)
    labels = test.get_label()
    inside = np.mean((labels > interval[:, 0]) & (labels < interval[:, 1]))
    outer = reliability_of(booster, test, levels=[0.1, 0.9])
    assert outer.coverage == pytest.approx(inside, abs=1e-3)


def test_counts_that_equal_a_quantile_are_half_below():
    found = Reliability.of_quantiles([0, 1, 2, 2], np.full((4, 1), 2.0), [0.75])
    assert found.shares.tolist() == [0.75]
    rng = np.random.default_rng(0)
    rows = rng.random((3000, 1))
    counts = rng.poisson(1 + 3 * rows[:, 0])
    data = hornbeam.DMatrix(rows, counts)
    booster = hornbeam.train(
        {"objective": "dist:negbinomial", "max_depth": 2}, data, 20
    )
    assert reliability_of(booster, data).largest_gap < 0.06


def test_the_band_is_what_chance_does():
    rng = np.random.default_rng(0)
    levels = np.array([0.1, 0.5, 0.8])
    samples = [
        Reliability.of_quantiles(rng.random(400), np.tile(levels, (400, 1)), levels)
        for _ in range(500)
    ]
    inside = [np.abs(one.shares - levels) <= one.spread for one in samples]
    np.testing.assert_allclose(np.mean(inside, axis=0), 0.95, atol=0.03)
    weights = np.repeat([1.0, 0.0], 200)
    half = Reliability.of_quantiles(
        rng.random(400), np.tile(levels, (400, 1)), levels, weights
    )
    np.testing.assert_allclose(half.spread, samples[0].spread * np.sqrt(2))


def test_an_estimator_is_drawn_in_the_axes_given(noisy):
    train, _ = noisy
    rows, labels = train.get_data().toarray(), train.get_label()
    model = hornbeam.HornbeamRegressor(
        objective="reg:quantileerror", quantile_alpha=0.5, n_estimators=5
    )
    model.fit(rows, labels)
    _, (left, right) = plt.subplots(1, 2)
    plt.sca(left)
    assert plot_quantile_reliability(model, rows, labels, right) is right
    assert plt.gca() is left and not left.lines


def test_what_cannot_be_drawn_is_refused(noisy, prices, diamonds):
    train, test = noisy
    with pytest.raises(ParameterError, match="predicts no quantiles; train with"):
        plot_quantile_reliability(prices, *diamonds)
    params = {"objective": "reg:quantileerror", "quantile_alpha": 0.5}
    booster = hornbeam.train(params, train, 1)
    with pytest.raises(ParameterError, match=r"quantiles at \[0.5\]; leave levels out"):
        plot_quantile_reliability(booster, test, levels=[0.2])
    with pytest.raises(DataError, match="the data has none; pass labels"):
        plot_quantile_reliability(booster, test.get_data().toarray())
    with pytest.raises(ParameterError, match="levels must rise, above 0 and below 1"):
        Reliability.of_quantiles([1.0], [[1.0, 2.0]], [0.5, 0.2])
    with pytest.raises(DataError, match="give one for each row and level"):
        Reliability.of_quantiles([1.0], [[1.0, 2.0]], [0.5])
