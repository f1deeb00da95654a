"""Tables of classes, beside scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.metrics import accuracy_score, confusion_matrix

import hornbeam
from hornbeam.errors import DataError, ParameterError
from hornbeam.explain import Confusion, confusion_of, plot_confusion


def test_counts_and_shares_of_several_classes(cuts):
    model, frame, labels = cuts
    found = confusion_of(model, frame, labels)
    predicted = model.predict(frame)
    np.testing.assert_array_equal(found.counts, confusion_matrix(labels, predicted))
    shares = confusion_matrix(labels, predicted, normalize="true")
    np.testing.assert_allclose(found.shares, shares)
    assert found.accuracy == accuracy_score(labels, predicted)

    ax = plot_confusion(model, frame, labels)
    np.testing.assert_allclose(ax.images[0].get_array(), shares)
    assert ax.get_title() == f"{100 * found.accuracy:.1f} % predicted rightly"
    for labelled in (ax.get_xticklabels(), ax.get_yticklabels()):
        assert [text.get_text() for text in labelled] == model.classes_.tolist()
    for text in ax.texts:
        predicted, true = map(int, text.get_position())
        count, _, share = text.get_text().partition("\n")
        assert int(count.replace(",", "")) == found.counts[true, predicted]
        if share:
            assert float(share[:-2]) == pytest.approx(
                100 * shares[true, predicted], abs=0.5
            )
        dark = shares[true, predicted] > 0.55
        assert text.get_color() == ("#ffffff" if dark else "#222222")
    assert len(ax.texts) == 25


def test_the_threshold_of_two_classes(titanic):
    model, frame, labels = titanic
    given = model.predict_proba(frame)[:, 1] > 0.3
    found = confusion_of(model, frame, labels, threshold=0.3)
    np.testing.assert_array_equal(
        found.counts, confusion_matrix(labels == "yes", given)
    )
    usual = confusion_of(model, frame, labels)
    np.testing.assert_array_equal(
        usual.counts, confusion_matrix(labels, model.predict(frame))
    )


def test_several_classes_of_a_forest(cuts):
    _, frame, labels = cuts
    forest = hornbeam.RandomForestClassifier(n_estimators=3, random_state=0)
    forest.fit(frame, labels)
    found = confusion_of(forest, frame, labels)
    expected = confusion_matrix(labels, forest.predict(frame))
    np.testing.assert_array_equal(found.counts, expected)


def test_rows_count_as_they_weigh():
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(size=(200, 2)), rng.random(200)
    labels = rows[:, 0] > 0.3
    data = hornbeam.DMatrix(rows, labels, weight=weights)
    booster = hornbeam.train({"objective": "binary:hinge", "max_depth": 1}, data, 2)
    found = confusion_of(booster, data, class_names=["low", "high"])
    predicted = booster.predict(data)
    expected = confusion_matrix(labels, predicted, sample_weight=weights)
    np.testing.assert_allclose(found.counts, expected, rtol=1e-6)
    assert found.names == ["low", "high"]


def test_letters_fit_into_their_cells():
    rng = np.random.default_rng(0)
    for n_classes, size in ((3, (4, 3)), (12, (6, 6)), (25, (6, 5))):
        true, predicted = rng.integers(n_classes, size=(2, 3000))
        names = [f"the class number {k}" for k in range(n_classes)]
        found = Confusion.of_classes(true, predicted, names=names)
        figure, ax = plt.subplots(figsize=size, layout="constrained")
        assert plot_confusion(found, ax=ax) is ax
        figure.canvas.draw()
        cell = np.array([ax.bbox.width, ax.bbox.height]) / n_classes
        for text in ax.texts:
            extent = text.get_window_extent()
            assert extent.width <= cell[0] and extent.height <= cell[1]
        for label in ax.get_xticklabels():
            assert label.get_window_extent().width <= cell[0]


def test_a_class_without_rows_has_no_shares():
    found = Confusion.of_classes([0, 0, 2], [0, 1, 2])
    assert np.isnan(found.shares[1]).all()
    ax = plot_confusion(found, title="t")
    assert ax.get_title() == "t"
    assert [text.get_text() for text in ax.texts][3:6] == ["0", "0", "0"]


def test_what_cannot_be_drawn_is_refused(titanic, diamonds, prices):
    model, frame, labels = titanic
    with pytest.raises(ParameterError, match="predicts no probabilities"):
        plot_confusion(prices, *diamonds)
    with pytest.raises(DataError, match="the data has none; pass labels"):
        plot_confusion(model, frame)
    with pytest.raises(ParameterError, match="threshold must be from 0 to 1"):
        plot_confusion(model, frame, labels, threshold=2)
    with pytest.raises(ParameterError, match="class_names has 3 names"):
        plot_confusion(model, frame, labels, class_names=list("abc"))
    with pytest.raises(DataError, match="whole numbers from 0 on"):
        Confusion.of_classes([0.5], [1])
    with pytest.raises(DataError, match="one row at least"):
        Confusion.of_classes([], [])
    with pytest.raises(DataError, match="there is a class 2, and 2 classes"):
        Confusion.of_classes([0, 2], [0, 1], names=["a", "b"])
    two = np.stack([diamonds[1] > 900, diamonds[1] > 5000], axis=1)
    data = hornbeam.DMatrix(diamonds[0], two)
    both = hornbeam.train({"objective": "binary:logistic"}, data, 1)
    with pytest.raises(ParameterError, match="2 targets, each of two classes"):
        plot_confusion(both, data)
