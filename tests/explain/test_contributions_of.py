"""What features contribute, as the pictures take it from a model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import hornbeam
from hornbeam.errors import DataError, ParameterError
from hornbeam.explain import (
    Contributions,
    contributions_by_output,
    contributions_of,
    interactions_of,
)


def test_they_are_those_of_predict(prices, diamonds):
    frame, _ = diamonds
    data = hornbeam.DMatrix(frame)
    found = contributions_of(prices, frame)
    expected = prices.predict(data, pred_contribs=True)
    np.testing.assert_array_equal(found.values, expected[:, :-1])
    np.testing.assert_array_equal(found.base, expected[:, -1])
    np.testing.assert_allclose(found.margins, prices.predict(data), rtol=1e-5)
    assert [column.name for column in found.columns] == list(frame.columns)
    np.testing.assert_array_equal(found.columns[0].values, frame["carat"])
    cut = found.columns[1]
    assert [cut.levels[int(code)] for code in cut.values] == frame["cut"].tolist()
    means = np.abs(expected[:, :-1].astype(float)).mean(axis=0)
    np.testing.assert_allclose(found.importances, means)
    assert found.ranked(2).tolist() == np.argsort(-found.importances)[:2].tolist()


def test_columns_in_another_order_have_the_codes_of_the_model(prices, diamonds):
    frame, _ = diamonds
    order = frame.columns[::-1]
    other = frame[order].assign(
        cut=frame["cut"].cat.reorder_categories(frame["cut"].cat.categories[::-1])
    )
    one, two = contributions_of(prices, frame), contributions_of(prices, other)
    np.testing.assert_array_equal(one.values, two.values)
    assert one.columns[1].levels == two.columns[1].levels
    np.testing.assert_array_equal(one.columns[1].values, two.columns[1].values)


def test_rows_are_spread_and_outputs_chosen(cuts):
    model, frame, _ = cuts
    every = contributions_by_output(model, frame)
    assert [one.output for one in every] == model.classes_.tolist()
    few = contributions_of(model, frame, output="Ideal", max_rows=5)
    rows = np.linspace(0, len(frame) - 1, 5).astype(int)
    np.testing.assert_array_equal(few.values, every[2].values[rows])
    np.testing.assert_array_equal(
        few.columns[0].values, frame["carat"].to_numpy()[rows]
    )
    with pytest.raises(ParameterError, match="the model has 5 outputs"):
        contributions_of(model, frame)


def test_an_estimator_uses_the_rounds_up_to_its_best(diamonds):
    frame, labels = diamonds
    model = hornbeam.HornbeamRegressor(
        n_estimators=60, learning_rate=1.0, early_stopping_rounds=4
    )
    seen, rest = frame[::2], frame[1::2]
    model.fit(seen, labels[::2], eval_set=[(rest, labels[1::2])], verbose=False)
    found = contributions_of(model, rest)
    np.testing.assert_allclose(found.margins, model.predict(rest), rtol=1e-4)
    booster = model.get_booster()
    assert booster.num_boosted_rounds() > model.best_iteration + 1
    every = contributions_of(booster, rest)
    expected = booster.predict(hornbeam.DMatrix(rest))
    np.testing.assert_allclose(every.margins, expected, rtol=1e-4)


def test_interactions_are_those_of_predict(prices, diamonds):
    frame, _ = diamonds
    data = hornbeam.DMatrix(frame[:200])
    pairs = prices.predict(data, pred_interactions=True)[:, 0, :-1]
    expected = 2 * np.abs(pairs).mean(axis=0)
    expected[0] = 0
    found = interactions_of(prices, frame[:200], "carat")
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_interactions_of_too_many_features_are_not_looked_for():
    rows = np.zeros((4, 6000))
    booster = hornbeam.train({}, hornbeam.DMatrix(rows, np.arange(4.0)), 1)
    with pytest.raises(ParameterError, match="interactions of 6,000 features"):
        interactions_of(booster, rows, 0)


def test_values_of_ones_own():
    frame = pd.DataFrame({"a": [1.0, np.nan], "b": pd.Categorical(["x", "y"])})
    found = Contributions.of_values([[1, 2], [3, -4]], 0.5, frame)
    assert found.margins.tolist() == [3.5, -0.5]
    assert found.columns[1].levels == ["x", "y"]
    assert np.isnan(found.columns[0].values[1])
    with pytest.raises(
        DataError, match=r"of shape \(2, 3\) for data of shape \(2, 2\)"
    ):
        Contributions.of_values(np.zeros((2, 3)), 0, frame)


def test_there_must_be_rows(prices, diamonds):
    with pytest.raises(DataError, match="there are no rows in the data"):
        contributions_of(prices, diamonds[0][:0])
    with pytest.raises(ParameterError, match="max_rows must be 1 or more"):
        contributions_of(prices, diamonds[0], max_rows=0)
