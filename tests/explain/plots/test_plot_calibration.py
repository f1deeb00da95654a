"""Reliability diagrams, beside scikit-learn's curves."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

import hornbeam
from hornbeam.errors import DataError, ParameterError
from hornbeam.explain import Calibration, calibration_of, plot_calibration


def curves(ax):
    """Return the lines of classes, without the diagonal and what is beneath."""
    return [line for line in ax.lines if line.get_marker() == "o"]


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_the_curve_of_two_classes_is_scikit_learns(titanic, strategy):
    model, frame, labels = titanic
    (found,) = calibration_of(model, frame, labels, bins=7, strategy=strategy)
    given = model.predict_proba(frame)[:, 1]
    true = labels == "yes"
    observed, predicted = calibration_curve(true, given, n_bins=7, strategy=strategy)
    known = found.counts > 0
    np.testing.assert_allclose(found.observed[known], observed, rtol=1e-6)
    np.testing.assert_allclose(found.predicted[known], predicted, rtol=1e-6)
    assert found.counts.sum() == len(labels)
    assert found.name == "yes"
    assert found.brier == pytest.approx(brier_score_loss(true, given), rel=1e-6)
    gaps = np.abs(observed - predicted)
    assert found.ece == pytest.approx(np.average(gaps, weights=found.counts[known]))

    ax = plot_calibration(model, frame, labels, bins=7, strategy=strategy)
    (line,) = curves(ax)
    np.testing.assert_allclose(line.get_xdata(), predicted, rtol=1e-6)
    np.testing.assert_allclose(line.get_ydata(), observed, rtol=1e-6)
    (said,) = ax.get_legend().get_texts()
    assert said.get_text() == f"yes: Brier {found.brier:.3f}, ECE {found.ece:.3f}"


def test_bars_beneath_are_the_rows_of_bins(titanic):
    ax = plot_calibration(*titanic, strategy="uniform", bins=5)
    (found,) = calibration_of(*titanic, strategy="uniform", bins=5)
    heights, edges, floor = ax.patches[0].get_data()
    shares = (heights - floor) / (heights - floor).max()
    np.testing.assert_allclose(shares, found.counts / found.counts.max())
    np.testing.assert_allclose(edges, np.linspace(0, 1, 6))
    assert heights.max() < 0
    assert f"rows, up to {found.counts.max():,} in a bin" in [
        text.get_text() for text in ax.texts
    ]


def test_several_classes_are_each_against_all_others(cuts):
    model, frame, labels = cuts
    ax = plot_calibration(model, frame, labels, bins=4)
    lines = curves(ax)
    names = [line.get_label().partition(":")[0] for line in lines]
    assert names == model.classes_.tolist()
    given = model.predict_proba(frame)
    for k, line in enumerate(lines):
        observed, predicted = calibration_curve(
            labels == names[k], given[:, k], n_bins=4, strategy="quantile"
        )
        np.testing.assert_allclose(line.get_xdata(), predicted, rtol=1e-5)
        np.testing.assert_allclose(line.get_ydata(), observed, rtol=1e-5)
    assert len({tuple(np.ravel(line.get_color())) for line in lines}) == len(lines)


@pytest.mark.parametrize("objective", ["binary:logitraw", "binary:logistic"])
def test_a_booster_with_names_for_its_classes(objective):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 3))
    labels = rows[:, 0] + rng.normal(size=500) > 0
    data = hornbeam.DMatrix(rows, labels)
    booster = hornbeam.train({"objective": objective}, data, 5)
    (found,) = calibration_of(booster, data, class_names=["ash", "elm"])
    margins = booster.predict(data, output_margin=True).astype(float)
    given = 1 / (1 + np.exp(-margins))
    assert found.name == "elm"
    assert found.brier == pytest.approx(np.mean((given - labels) ** 2), rel=1e-5)


def test_the_margins_of_softmax_become_probabilities(cuts):
    model, frame, labels = cuts
    codes = np.searchsorted(model.classes_, labels)
    data = hornbeam.DMatrix(frame, codes)
    params = {"objective": "multi:softmax", "num_class": 5}
    found = calibration_of(hornbeam.train(params, data, 6), data)
    same = calibration_of(
        hornbeam.train(params | {"objective": "multi:softprob"}, data, 6), data
    )
    for one, other in zip(found, same, strict=True):
        np.testing.assert_allclose(one.predicted, other.predicted, rtol=1e-5)
    assert [one.name for one in found] == list("01234")


def test_a_forest_tells_shares(titanic):
    _, frame, labels = titanic
    forest = hornbeam.RandomForestClassifier(n_estimators=5, random_state=0)
    forest.fit(frame, labels)
    (found,) = calibration_of(forest, frame, labels)
    given = forest.predict_proba(frame)[:, 1]
    assert found.brier == pytest.approx(np.mean((given - (labels == "yes")) ** 2))


def test_several_classes_of_a_tree(cuts):
    _, frame, labels = cuts
    tree = hornbeam.DecisionTreeClassifier(max_depth=4).fit(frame, labels)
    found = calibration_of(tree, frame, labels)
    given = tree.predict_proba(frame)
    assert [one.name for one in found] == tree.classes_.tolist()
    for k, one in enumerate(found):
        true = labels == one.name
        assert one.brier == pytest.approx(np.mean((given[:, k] - true) ** 2))


def test_several_targets_have_a_curve_each(diamonds):
    frame, prices = diamonds
    both = np.stack([prices > 900, prices > 5000], axis=1)
    data = hornbeam.DMatrix(frame, both)
    booster = hornbeam.train({"objective": "binary:logistic"}, data, 3)
    found = calibration_of(booster, data, class_names=["dear", "dearer"])
    given = booster.predict(data)
    for k, (one, name) in enumerate(zip(found, ["dear", "dearer"], strict=True)):
        assert one.name == name
        expected = np.mean((given[:, k] - both[:, k]) ** 2)
        assert one.brier == pytest.approx(expected, rel=1e-5)


def test_rows_count_as_they_weigh():
    rng = np.random.default_rng(0)
    given, weights = rng.random(300), rng.integers(1, 4, 300)
    true = rng.random(300) < given**2
    edges = {"bins": 5, "strategy": "uniform"}
    one = Calibration.of_outcomes(true, given, weights, **edges)
    each = [np.repeat(values, weights) for values in (true, given)]
    other = Calibration.of_outcomes(*each, **edges)
    np.testing.assert_allclose(one.observed, other.observed)
    assert (one.brier, one.ece) == pytest.approx((other.brier, other.ece))


def test_of_many_classes_the_worst_have_names():
    rng = np.random.default_rng(0)
    found = [
        Calibration.of_outcomes(rng.random(80) < 0.5, rng.random(80), name=str(k))
        for k in range(30)
    ]
    ax = plot_calibration(found)
    named = [text.get_text().split(":")[0] for text in ax.get_legend().get_texts()]
    worst = sorted(found, key=lambda one: -one.ece)[:12]
    assert sorted(named) == sorted(one.name for one in worst)
    assert len(curves(ax)) == 30
    ax.figure.canvas.draw()
    assert ax.figure.bbox.x1 >= ax.get_legend().get_window_extent().x1
    assert ax.get_window_extent().width > 150


def test_equal_probabilities_are_one_bin():
    found = Calibration.of_outcomes([0, 1, 1, 0], [0.4] * 4)
    assert found.counts.tolist() == [4]
    assert found.ece == pytest.approx(0.1)
    plot_calibration([found])


def test_the_axes_given_are_drawn_in(titanic):
    _, (left, right) = plt.subplots(1, 2)
    plt.sca(left)
    assert plot_calibration(*titanic, right) is right
    assert plt.gca() is left and not left.lines


def test_what_cannot_be_drawn_is_refused(titanic, diamonds, prices):
    model, frame, labels = titanic
    with pytest.raises(DataError, match="the data has none; pass labels"):
        plot_calibration(model, frame)
    with pytest.raises(DataError, match="there are 2 labels for 654 rows"):
        plot_calibration(model, frame, ["yes", "no"])
    with pytest.raises(DataError, match="label 'maybe' is not a class"):
        plot_calibration(model, frame, np.repeat("maybe", len(frame)))
    with pytest.raises(DataError, match="missing: 'age'"):
        plot_calibration(model, frame.drop(columns="age"), labels)
    with pytest.raises(ParameterError, match="predicts no probabilities of classes"):
        plot_calibration(prices, *diamonds)
    with pytest.raises(ParameterError, match="strategy must be one of"):
        plot_calibration(model, frame, labels, strategy="even")
    with pytest.raises(ParameterError, match="bins must be 1 or more"):
        plot_calibration(model, frame, labels, bins=0)
    with pytest.raises(DataError, match="probabilities must be from 0 to 1"):
        Calibration.of_outcomes([0, 1], [0.5, 1.5])
    with pytest.raises(DataError, match="outcomes must be 0 or 1"):
        Calibration.of_outcomes([0, 2], [0.5, 0.5])
