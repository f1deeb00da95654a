"""Partial dependence, beside scikit-learn's by brute force."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from samples import few_values, ranked
from sklearn.inspection import partial_dependence as theirs

import hornbeam
from hornbeam.errors import DataError, ParameterError
from hornbeam.explain import partial_dependence

NAMES = ["ash", "beech", "elm", "fir", "oak", "yew"]


@pytest.fixture(scope="module")
def table():
    """Numbers, a category and missing values: (frame, labels)."""
    rows, labels = few_values(600, 6, missing=0.1)
    frame = pd.DataFrame(rows, columns=NAMES)
    frame["fir"] = pd.Categorical(
        np.array(["x", "y", "z"])[frame["fir"].fillna(0).astype(int) % 3]
    )
    return frame, labels + 2.0 * (frame["fir"] == "y")


@pytest.fixture(scope="module")
def model(table):
    return hornbeam.HornbeamRegressor(n_estimators=10, max_depth=4).fit(*table)


@pytest.mark.parametrize("feature", ["ash", "fir"])
def test_one_feature_is_as_by_scikit_learn(model, table, feature):
    frame, _ = table
    found = partial_dependence(model, frame, feature)
    (column,), (grid,) = found.columns, found.grids
    values = (
        grid if column.levels is None else np.array(column.levels)[grid.astype(int)]
    )
    expected = theirs(
        model,
        frame,
        [feature],
        method="brute",
        kind="both",
        custom_values={feature: values},
        categorical_features=["fir"],
    )
    np.testing.assert_array_equal(found.individual, expected["individual"][0])
    np.testing.assert_allclose(found.average, expected["average"][0], rtol=1e-6)


def test_two_features_are_as_by_scikit_learn(model, table):
    frame, _ = table
    found = partial_dependence(model, frame, ["beech", "fir"], grid=7)
    levels = np.array(found.columns[1].levels)[found.grids[1].astype(int)]
    expected = theirs(
        model,
        frame,
        ["beech", "fir"],
        method="brute",
        custom_values={"beech": found.grids[0], "fir": levels},
        categorical_features=["fir"],
    )
    assert found.average.shape == (len(found.grids[0]), 3)
    np.testing.assert_allclose(found.average, expected["average"][0], rtol=1e-6)


def test_a_booster_predicts_as_with_the_column_replaced(table):
    frame, labels = table
    weights = np.random.default_rng(0).random(len(frame))
    margins = np.linspace(0, 3, len(frame))
    data = hornbeam.DMatrix(frame, labels, weight=weights, base_margin=margins)
    booster = hornbeam.train(
        {"objective": "count:poisson"}, hornbeam.DMatrix(frame, np.abs(labels)), 4
    )
    found = partial_dependence(booster, data, 0, grid=[1.0, 4.0], margins=True)
    for place, value in enumerate((1.0, 4.0)):
        changed = frame.assign(ash=np.float32(value))
        at = booster.predict(
            hornbeam.DMatrix(changed, base_margin=margins), output_margin=True
        )
        np.testing.assert_array_equal(found.individual[:, place], at)
        assert found.average[place] == pytest.approx(np.average(at, weights=weights))
    without = booster.predict(
        hornbeam.DMatrix(frame.assign(ash=np.nan), base_margin=margins),
        output_margin=True,
    )
    assert found.missing == pytest.approx(np.average(without, weights=weights))
    assert found.margins


def test_the_grid_is_of_quantiles_or_of_frequent_categories(model, table):
    frame, _ = table
    column = partial_dependence(model, frame, "ash", grid=9, percentiles=(0, 1))
    known = frame["ash"].dropna().to_numpy()
    shares = np.linspace(0, 1, 9)
    expected = np.unique(np.quantile(known, shares, method="nearest"))
    np.testing.assert_array_equal(column.grids[0], expected)
    np.testing.assert_allclose(
        column.columns[0].deciles, np.quantile(known, np.linspace(0.1, 0.9, 9))
    )
    frequent = partial_dependence(model, frame, "fir", grid=2)
    counts = frame["fir"].cat.codes.value_counts()
    assert set(frequent.grids[0]) == set(counts.index[:2])
    named = partial_dependence(model, frame, "fir", grid=["z", "x"])
    assert named.grids[0].tolist() == [0, 2]


def test_rows_are_spread_over_the_data(model, table):
    frame, _ = table
    few = partial_dependence(model, frame, "ash", max_rows=7)
    every = partial_dependence(model, frame, "ash", max_rows=None)
    assert few.individual.shape[0] == 7 and every.individual.shape[0] == 600
    rows = np.linspace(0, 599, 7).astype(int)
    np.testing.assert_array_equal(few.individual, every.individual[rows])


def test_centred_lines_begin_at_zero(model, table):
    found = partial_dependence(model, table[0], "ash")
    centred = found.centred()
    np.testing.assert_array_equal(centred.individual[:, 0], 0)
    np.testing.assert_allclose(
        np.diff(centred.average), np.diff(found.average), atol=1e-9
    )
    assert centred.missing == pytest.approx(found.missing - found.average[0])


def test_classes_are_chosen_by_name(cuts):
    model, frame, _ = cuts
    found = partial_dependence(model, frame, "carat", output="Good", max_rows=50)
    assert found.output == "Good"
    rows = np.linspace(0, len(frame) - 1, 50).astype(int)
    changed = frame.iloc[rows].assign(carat=found.grids[0][3])
    np.testing.assert_array_equal(
        found.individual[:, 3], model.predict_proba(changed)[:, 1]
    )
    with pytest.raises(ParameterError, match="the model has 5 outputs"):
        partial_dependence(model, frame, "carat")
    with pytest.raises(ParameterError, match="output='Best' is not an output"):
        partial_dependence(model, frame, "carat", output="Best")


def test_softmax_has_probabilities():
    rows, labels = few_values(200, 3)
    data = hornbeam.DMatrix(rows, ranked(labels, 3))
    kinds = {"objective": "multi:softmax"}, {"objective": "multi:softprob"}
    one, other = (
        partial_dependence(
            hornbeam.train(kind | {"num_class": 3}, data, 3), data, 0, output=2
        )
        for kind in kinds
    )
    np.testing.assert_allclose(one.average, other.average, rtol=1e-6)


def test_codes_without_names():
    rows, labels = few_values(200, 3)
    rows[:, 1] %= 4
    rows[:, 1] = np.floor(rows[:, 1])
    data = hornbeam.DMatrix(rows, labels, feature_types=["q", "c", "q"])
    booster = hornbeam.train({"max_depth": 3}, data, 3)
    found = partial_dependence(booster, data, 1)
    assert found.columns[0].levels == list("0123")
    rows[:, 1] = 2
    data = hornbeam.DMatrix(rows, feature_types=["q", "c", "q"])
    np.testing.assert_array_equal(found.individual[:, 2], booster.predict(data))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"features": "pine"}, "'pine' is not a feature of this model; it has 'ash'"),
        ({"features": 9}, "9 is not a feature of this model"),
        ({"features": ["ash", "ash"]}, "one feature or two different ones"),
        ({"features": []}, "one feature or two different ones"),
        ({"grid": 1}, "grid must be 2 points or more"),
        ({"grid": []}, "numbers, and one at least"),
        ({"features": "fir", "grid": ["w"]}, "'w' is not a category of 'fir'"),
        ({"features": ["ash", "elm"], "grid": [1.0]}, "for one feature"),
        ({"percentiles": (0.5, 0.2)}, "percentiles must be two shares that rise"),
        ({"max_rows": 0}, "max_rows must be 1 or more"),
        ({"output": 1}, "output=1 is not an output of this model"),
    ],
)
def test_what_cannot_be_asked_is_refused(model, table, arguments, words):
    with pytest.raises(ParameterError, match=words):
        partial_dependence(model, table[0], **{"features": "ash"} | arguments)


def test_columns_that_are_not_there_are_named(model, table):
    frame, _ = table
    with pytest.raises(DataError, match="missing: 'elm'"):
        partial_dependence(model, frame.drop(columns="elm"), "ash")
    with pytest.raises(DataError, match="'elm' has no values"):
        partial_dependence(model, frame.assign(elm=np.nan), "elm")
    with pytest.raises(DataError, match="no rows in the data"):
        partial_dependence(model, frame[:0], "elm")
