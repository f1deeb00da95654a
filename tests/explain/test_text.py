"""Trees as text: what each line says."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pandas as pd
import pytest

import hornbeam
from hornbeam.errors import NotTrainedError, ParameterError
from hornbeam.explain import tree_text

SALARIES = {"max_depth": 2, "learning_rate": 1, "reg_lambda": 0, "base_score": 0}


@pytest.fixture(scope="module")
def salaries():
    years = np.array([1, 2, 3, 4, 5, 6, 7, 8])
    hits = np.array([50, 60, 70, 80, 150, 60, 160, 70])
    frame = pd.DataFrame({"Years": years, "Hits": hits})
    pay = np.array([1, 1, 1, 1, 6, 4, 6, 4])
    return hornbeam.train(
        {**SALARIES, "tree_method": "exact"}, hornbeam.DMatrix(frame, pay), 1
    )


def test_a_tree(salaries):
    assert tree_text(salaries) == (
        "Years < 4.5  (gain 32, cover 8)\n"
        "  yes, missing: 1  (cover 4)\n"
        "  no: Hits < 110  (gain 4, cover 4)\n"
        "    yes, missing: 4  (cover 2)\n"
        "    no: 6  (cover 2)\n"
    )


def test_splits_are_left_out_from_a_depth_on(salaries):
    assert tree_text(salaries, max_depth=1) == (
        "Years < 4.5  (gain 32, cover 8)\n"
        "  yes, missing: 1  (cover 4)\n"
        "  no: … 2 leaves  (cover 4)\n"
    )
    assert tree_text(salaries, max_depth=0) == "… 3 leaves  (cover 8)\n"


def test_categories_by_name_and_where_the_missing_go():
    colours = ["red", "red", "blue", "blue", "green", "green", None, None]
    frame = pd.DataFrame({"colour": pd.Categorical(colours)})
    data = hornbeam.DMatrix(frame, [2, 2, 0, 0, 2, 2, 0, 0])
    booster = hornbeam.train({**SALARIES, "max_cat_to_onehot": 1}, data, 1)
    assert tree_text(booster) == (
        "colour is blue  (gain 8, cover 8)\n"
        "  yes, missing: 0  (cover 4)\n"
        "  no: 2  (cover 4)\n"
    )
    assert booster.predict(data).tolist() == [2, 2, 0, 0, 2, 2, 0, 0]


def test_codes_without_names_are_numbers():
    data = hornbeam.DMatrix(
        np.array([[0.0], [1.0], [2.0], [2.0]]),
        [0, 0, 3, 3],
        feature_types=["c"],
    )
    assert tree_text(hornbeam.train(SALARIES, data, 1)).startswith("f0 is 2  (")


def test_leaves_of_several_outputs_name_them():
    features = np.array([[0.0], [0.0], [1.0], [1.0]])
    targets = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0], [0.0, 2.0]])
    booster = hornbeam.train(
        {**SALARIES, "multi_strategy": "multi_output_tree"},
        hornbeam.DMatrix(features, targets),
        1,
    )
    assert "yes: 0: 1, 1: 0  (cover 4)" in tree_text(booster)
    said = tree_text(booster, class_names=["width", "height"])
    assert "yes: width: 1, height: 0  (cover 4)" in said


def test_trees_of_one_output_say_which():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(90, 2))
    species = np.repeat(["ash", "beech", "elm"], 30)
    features[:, 0] += np.repeat([0, 3, 6], 30)
    model = hornbeam.HornbeamClassifier(n_estimators=2, max_depth=1)
    model.fit(features, species)
    assert tree_text(model, 4).startswith("adds to beech\nf0 < ")
    assert tree_text(model.get_booster(), 4).startswith("adds to output 1\nf0 < ")
    named = tree_text(model.get_booster(), 5, class_names=["a", "b", "c"])
    assert named.startswith("adds to c\n")


def test_a_tree_of_two_classes_speaks_of_the_second():
    features = np.arange(8.0).reshape(-1, 1)
    model = hornbeam.HornbeamClassifier(n_estimators=1, max_depth=1)
    model.fit(features, np.repeat(["late", "on time"], 4))
    assert tree_text(model).startswith("adds to on time\nf0 < ")
    assert tree_text(model.get_booster()).startswith("f0 < ")


def test_a_tree_of_a_forest_says_what_it_predicts_alone():
    features = np.arange(8.0).reshape(-1, 1)
    data = hornbeam.DMatrix(features, np.repeat([0, 1], 4))
    params = {**SALARIES, "num_parallel_tree": 3}
    forest = hornbeam.train(params, data, 1)
    assert tree_text(forest, 2).endswith("no, missing: 1  (cover 4)\n")
    assert tree_text(forest, 2, class_names=["late", "on time"]).endswith(
        "no, missing: late: 0, on time: 1  (cover 4)\n"
    )
    boosted = hornbeam.train(params, data, 2)
    assert tree_text(boosted, 2).endswith("no, missing: 0.33333  (cover 4)\n")


def test_whole_trees_say_the_shares_of_their_classes():
    features = np.arange(12.0).reshape(-1, 1)
    species = np.repeat(["ash", "beech", "elm"], 4)
    tree = hornbeam.DecisionTreeClassifier().fit(features, species)
    lines = tree_text(tree).splitlines()
    assert lines[0].startswith("f0 < ")
    assert sum("ash: 0, beech: 1, elm: 0  (cover 4)" in line for line in lines) == 1
    forest = hornbeam.RandomForestClassifier(5, random_state=0)
    forest.fit(features, species == "elm")
    for number in range(5):
        said = tree_text(forest, number)
        assert "False: 0, True: 1  (" in said and "False: 1, True: 0  (" in said


def test_values_beyond_float32_say_what_they_add_to():
    rows = np.arange(60.0).reshape(-1, 1)
    tree = hornbeam.DecisionTreeRegressor().fit(rows, 1e8 + np.repeat([0, 1, 5], 20))
    said = tree_text(tree)
    assert said.startswith("adds to 100000000\nf0 < 39.5  (")
    assert "no: 5  (cover 20)" in said


def followed(lines, row):
    """Return the value that a row comes to if it goes where the text sends it."""
    line = next(lines)
    depth = len(line) - len(line.lstrip())
    said = line.strip().split("  (")[0].rpartition(": ")[2]
    if " < " not in said and " is " not in said:
        return float(said)
    if " < " in said:
        name, threshold = said.split(" < ")
        value = row[name]
        holds = value < float(threshold)
    else:
        name, levels = said.split(" is ")
        value = row[name]
        holds = value in levels.split(", ")
    wanted = "missing" if pd.isna(value) else "yes" if holds else "no"
    for line in lines:
        if len(line) - len(line.lstrip()) == depth + 2:
            answers = line.strip().partition(": ")[0].split(", ")
            if wanted in answers:
                return followed(chain([line], lines), row)
    raise AssertionError(f"no way on from {said} for {value}")


@pytest.mark.parametrize("max_cat_to_onehot", [1, 100, None])
def test_rows_go_where_the_text_sends_them(max_cat_to_onehot):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "wood": pd.Categorical(rng.choice(["ash", "elm", "fir", "oak"], 300)),
            "age": rng.integers(100, size=300).astype(float),
        }
    )
    grown = frame["wood"].isin(["elm", "oak"]) * frame["age"] + rng.normal(size=300)
    for column in frame:
        frame.loc[rng.random(300) < 0.2, column] = None
    if max_cat_to_onehot is None:
        model = hornbeam.DecisionTreeRegressor(max_depth=5).fit(frame, grown)
        expected = model.predict(frame)
    else:
        params = {**SALARIES, "max_depth": 5, "max_cat_to_onehot": max_cat_to_onehot}
        model = hornbeam.train(params, hornbeam.DMatrix(frame, grown), 1)
        expected = model.predict(hornbeam.DMatrix(frame))
    lines = tree_text(model).splitlines()
    found = [followed(iter(lines), row) for _, row in frame.iterrows()]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_leaf_values_of_dart_have_the_weight_of_their_tree():
    features = np.arange(40.0).reshape(-1, 1)
    labels = (features[:, 0] >= 20) * 8.0
    params = {**SALARIES, "max_depth": 1, "booster": "dart", "one_drop": True}
    booster = hornbeam.train(
        {**params, "rate_drop": 0.5, "learning_rate": 0.5},
        hornbeam.DMatrix(features, labels),
        4,
    )
    total = 0.0
    for number in range(4):
        last = tree_text(booster, number).splitlines()[-1]
        total += float(last.split(": ")[1].split()[0])
    highest = booster.predict(hornbeam.DMatrix(features))[-1]
    assert booster.model.weights.min() < 1.0
    assert total == pytest.approx(highest, rel=1e-4)


def test_cut_off_nodes_are_not_there():
    rng = np.random.default_rng(0)
    data = hornbeam.DMatrix(rng.normal(size=(200, 3)), rng.normal(size=200))
    grown = hornbeam.train({"max_depth": 4}, data, 1)
    update = {"process_type": "update", "updater": "prune", "gamma": 6.0}
    booster = hornbeam.train(update, data, 1, xgb_model=grown)
    tree = booster.model.trees[0]
    reached = tree.n_leaves + np.count_nonzero(tree.left >= 0)
    assert reached < tree.n_nodes
    assert len(tree_text(booster).splitlines()) == reached


def test_bad_input(salaries):
    with pytest.raises(ParameterError, match="from 0 to 0"):
        tree_text(salaries, 1)
    with pytest.raises(ParameterError, match="tree=-1 is not a tree"):
        tree_text(salaries, -1)
    with pytest.raises(ParameterError, match=r"tree=0\.5 is not a tree"):
        tree_text(salaries, 0.5)
    with pytest.raises(ParameterError, match="has 3 names; give 1, one for each"):
        tree_text(salaries, class_names=["a", "b", "c"])
    with pytest.raises(ParameterError, match="max_depth must be 0 or more, not -1"):
        tree_text(salaries, max_depth=-1)
    with pytest.raises(ParameterError, match="not str"):
        tree_text("model.ubj")
    with pytest.raises(NotTrainedError, match="no trees yet"):
        tree_text(hornbeam.Booster())
    data = hornbeam.DMatrix(np.arange(9.0).reshape(-1, 1), np.arange(9.0))
    linear = hornbeam.train({"booster": "gblinear"}, data, 1)
    with pytest.raises(ParameterError, match="gblinear"):
        tree_text(linear)
