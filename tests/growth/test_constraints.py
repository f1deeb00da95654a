"""Interaction and monotone constraints, row limits and feature costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from samples import few_values

import hornbeam
from hornbeam import ParameterError
from hornbeam.params import Parameters

NAMES = list("abcdef")
ROWS, LABELS = few_values(900, 6, missing=0.1, seed=2)
POLICIES = ["depthwise", "lossguide"]


def train(params, rounds=5, rows=ROWS, labels=LABELS, **info):
    data = hornbeam.DMatrix(rows, labels, **info)
    return hornbeam.train({"nthread": 1, **params}, data, rounds)


def paths(tree):
    """Return the set of features on the way to each node."""
    found = [set()]
    for node in range(1, tree.n_nodes):
        parent = tree.parent[node]
        found.append(found[parent] | {int(tree.feature[parent])})
    return found


# --- Which features go together -------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_only_features_of_a_group_interact(policy):
    groups = [{0, 1}, {1, 2, 3}]
    params = {"interaction_constraints": groups, "grow_policy": policy, "max_depth": 5}
    together = set()
    for tree in train(params).model.trees:
        for path in paths(tree):
            assert len(path) < 2 or any(path <= group for group in groups)
            together.add(frozenset(path))
    assert {frozenset({0, 1}), frozenset({1, 2, 3})} <= together


def test_groups_by_names_numbers_and_strings_are_the_same():
    digests = {
        train(
            {"interaction_constraints": groups, "max_depth": 4}, feature_names=NAMES
        ).digest()
        for groups in (
            [[0, 1], [2, 3, 4]],
            (("b", "a"), ["c", 3, "e"]),
            [{"a", "b"}, {"c", "d", "e"}],
            "[[0, 1], [2, 3, 4]]",
            '[["a", "b"], ["c", "d", "e"]]',
            np.array([[0, 1, 1], [2, 3, 4]]).tolist(),
        )
    }
    assert len(digests) == 1
    assert train({"interaction_constraints": ""}).digest() == train({}).digest()


def test_one_group_of_all_features_has_no_effect():
    assert (
        train({"interaction_constraints": [range(6)], "colsample_bynode": 0.5}).digest()
        == train({"colsample_bynode": 0.5}).digest()
    )


@examples(25)
@given(
    groups=st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=1, max_size=4),
    policy=st.sampled_from(POLICIES),
    rates=st.tuples(*[st.sampled_from([1.0, 0.6])] * 3),
)
def test_any_groups_are_satisfied(groups, policy, rates):
    params = {"interaction_constraints": groups, "grow_policy": policy, "max_leaves": 9}
    drawn = ("colsample_bytree", "colsample_bylevel", "colsample_bynode")
    params |= dict(zip(drawn, rates, strict=True))
    for tree in train(params, 2).model.trees:
        for path in paths(tree):
            assert len(path) < 2 or any(path <= group for group in groups)


# --- Predictions that rise or fall ----------------------------------------------------


def steps_of(booster, feature, rows=ROWS[:40]):
    """Return how much predictions change from each value of a feature to the next."""
    values = np.arange(-1, 62, dtype=np.float32) / 8
    table = rows.repeat(values.size, axis=0)
    table[:, feature] = np.tile(values, len(rows))
    margins = booster.inplace_predict(table, predict_type="margin")
    return np.diff(margins.reshape(len(rows), values.size), axis=1)


METHODS = ["basic", "intermediate"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("smooth", [0.0, 20.0])
def test_predictions_are_monotone(policy, method, smooth):
    params = {
        "monotone_constraints": (1, 1, -1),
        "monotone_constraints_method": method,
        "grow_policy": policy,
        "path_smooth": smooth,
        "max_depth": 6,
    }
    booster = train(params, 12)
    for feature, direction in enumerate((1, 1, -1)):
        changes = direction * steps_of(booster, feature)
        assert (changes >= 0).all() and (changes > 0).any()
    free = steps_of(booster, 3)
    assert (free > 0).any() and (free < 0).any()


@examples(25)
@given(
    st.lists(st.sampled_from([-1, 0, 1]), min_size=4, max_size=4),
    st.fixed_dictionaries(
        {
            "monotone_constraints_method": st.sampled_from(METHODS),
            "grow_policy": st.sampled_from(POLICIES),
            "max_depth": st.integers(1, 7),
            "max_leaves": st.sampled_from([0, 7, 30]),
            "lambda": st.sampled_from([0.0, 1.0]),
            "alpha": st.sampled_from([0.0, 2.0]),
            "max_delta_step": st.sampled_from([0.0, 0.4]),
            "min_child_weight": st.sampled_from([0.0, 3.0]),
            "min_samples_leaf": st.sampled_from([0, 4]),
            "path_smooth": st.sampled_from([0.0, 5.0]),
            "gamma": st.sampled_from([0.0, 2.0]),
            "subsample": st.sampled_from([1.0, 0.6]),
            "colsample_bynode": st.sampled_from([1.0, 0.7]),
        }
    ),
    st.integers(0, 2**31),
)
def test_any_directions_are_satisfied(directions, params, seed):
    rows, labels = few_values(250, 4, 0.1, seed)
    params = {**params, "monotone_constraints": directions}
    booster = train(params, 3, rows, labels)
    for feature, direction in enumerate(directions):
        assert (direction * steps_of(booster, feature, rows[:20]) >= 0).all()


def test_bounds_that_follow_fit_better():
    """Over many data sets: what one side leaves free the other may use."""
    losses = {method: [] for method in METHODS}
    for seed in range(8):
        rows, labels = few_values(600, 4, 0.0, seed)
        for method, found in losses.items():
            params = {
                "monotone_constraints": (1, 1, 0, 0),
                "monotone_constraints_method": method,
                "max_depth": 6,
            }
            booster = train(params, 20, rows, labels)
            errors = booster.inplace_predict(rows) - labels
            found.append(np.sqrt(np.square(errors).mean()))
    assert np.mean(losses["intermediate"]) < np.mean(losses["basic"])


def test_directions_by_name_and_in_strings_are_the_same():
    digests = {
        train({"monotone_constraints": given}, feature_names=NAMES).digest()
        for given in (
            (1, 0, -1),
            [1, 0, -1, 0, 0, 0],
            "(1,0,-1)",
            "[1, 0, -1]",
            {"c": -1, "a": 1},
            {0: 1, 2: -1},
            '{"a": 1, "c": -1}',
            np.array([1, 0, -1, 0, 0, 0]),
        )
    }
    assert len(digests) == 1
    for none in ((), "()", (0, 0), {"b": 0}):
        params = {"monotone_constraints": none}
        assert train(params, feature_names=NAMES).digest() == train({}, 5).digest() or (
            train(params, feature_names=NAMES).digest()
            == train({}, 5, feature_names=NAMES).digest()
        )


def test_saved_parameters_are_loaded():
    given = {
        "monotone_constraints": {"a": 1, "c": -1},
        "feature_costs": {"b": 0.5},
        "interaction_constraints": [["a", 1], [2]],
    }
    params = Parameters.resolve(given)
    assert Parameters.resolve(params.changed()) == params


# --- How many rows --------------------------------------------------------------------


def leaves_of(booster, rows=ROWS):
    """Return the leaf of each row in each tree, (rows, trees)."""
    return booster.predict(hornbeam.DMatrix(rows), pred_leaf=True).astype(int)


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("least", [2, 13, 60])
def test_leaves_have_enough_rows(least, policy, objective):
    labels = LABELS > 4 if objective.startswith("binary") else LABELS
    params = {
        "min_samples_leaf": least,
        "grow_policy": policy,
        "objective": objective,
        "min_child_weight": 0,
        "max_depth": 8,
    }
    sizes = []
    for leaf in leaves_of(train(params, labels=labels)).T:
        sizes += np.unique(leaf, return_counts=True)[1].tolist()
    assert least <= min(sizes) < 2 * least


def test_rows_of_weight_zero_count_as_rows():
    weight = np.where(np.arange(900) % 3 == 0, 1.0, 0.0)
    booster = train({"min_samples_leaf": 30, "max_depth": 6}, weight=weight)
    leaves = leaves_of(booster)
    for leaf in leaves.T:
        assert np.unique(leaf, return_counts=True)[1].min() >= 30
    assert (
        min(
            np.unique(leaf[weight > 0], return_counts=True)[1].min()
            for leaf in leaves.T
        )
        < 15
    )


def test_min_samples_leaf_of_one_has_no_effect():
    params = {"min_child_weight": 0, "max_depth": 7}
    assert train({**params, "min_samples_leaf": 1}).digest() == train(params).digest()


def test_path_smooth_pulls_weights_towards_the_parent():
    """By hand: rows and gradients of each node, from the root down."""
    params = {"path_smooth": 15.0, "max_depth": 4, "eta": 1.0, "base_score": 0.0}
    (tree,) = train(params, 1).model.trees
    inside = np.zeros((tree.n_nodes, len(ROWS)), bool)
    inside[0] = True
    weights = np.zeros(tree.n_nodes)
    for node in range(tree.n_nodes):
        own = inside[node]
        weight = LABELS[own].astype(float).sum() / (own.sum() + 1)
        if node > 0:
            above = weights[tree.parent[node]]
            weight = (weight * own.sum() + 15 * above) / (own.sum() + 15)
        weights[node] = weight
        assert tree.weight[node] == pytest.approx(weight, rel=1e-5)
        if tree.left[node] >= 0:
            values = ROWS[:, tree.feature[node]]
            missing = tree.default_left[node] == 1
            left = np.where(np.isnan(values), missing, values < tree.threshold[node])
            inside[tree.left[node]], inside[tree.right[node]] = own & left, own & ~left


# --- What features cost ---------------------------------------------------------------


def used(tree):
    return set(tree.feature[tree.left >= 0].tolist())


@pytest.mark.parametrize("policy", POLICIES)
def test_a_feature_is_paid_once_for_the_model(policy):
    costs = [300.0, 0.0, 1e6, 0.0, 0.0, 0.0]
    params = {"feature_costs": costs, "grow_policy": policy, "max_depth": 4}
    free = train({"grow_policy": policy, "max_depth": 4, "eta": 0.1}, 30).model.trees
    assert 0 in used(free[0]) and 2 in used(free[0])
    trees = train(params, 30).model.trees
    assert not any(2 in used(tree) for tree in trees)
    found = [number for number, tree in enumerate(trees) if 0 in used(tree)]
    assert found, "it is worth its cost somewhere"
    halves = train({**params}, 10)
    again = hornbeam.train(
        {"nthread": 1, **params}, hornbeam.DMatrix(ROWS, LABELS), 20, xgb_model=halves
    )
    assert again.digest() == train(params, 30).digest()


def test_gains_are_less_the_costs():
    plain = train({"max_depth": 1}, 1).model.trees[0]
    feature = int(plain.feature[0])
    costs = [0.0] * 6
    costs[feature] = 1.0
    cheap = train({"max_depth": 1, "feature_costs": costs}, 1).model.trees[0]
    assert cheap.gain[0] == pytest.approx(plain.gain[0] - 1.0, rel=1e-5)
    rows = {"feature_costs_for": "rows", "max_depth": 1}
    costs[feature] = 1 / 900
    dear = train({**rows, "feature_costs": costs}, 1).model.trees[0]
    assert dear.gain[0] == pytest.approx(cheap.gain[0], rel=1e-5)


def test_a_node_pays_nothing_for_features_used_above():
    params = {"max_depth": 3, "base_score": 0.0}
    plain = train(params, 1).model.trees[0]
    first = int(plain.feature[0])
    costs = {feature: 1e7 for feature in range(6) if feature != first}
    (tree,) = train({**params, "feature_costs": costs}, 1).model.trees
    assert used(tree) == {first} and tree.depth() == 3
    only = dict.fromkeys(range(6), 1e-09) | {first: 200.0}
    for unit, cost in (("model", 200.0), ("rows", 0.2)):
        only[first] = cost
        held = {**params, "feature_costs": only, "feature_costs_for": unit}
        (tree,) = train(held, 1).model.trees
        assert first in used(tree)


@pytest.mark.parametrize("given", [5, [1, 2], "[[0, 1]", [[0.5]], [[True]], "a"])
def test_invalid_lists_of_groups(given):
    with pytest.raises(ParameterError, match="interaction_constraints"):
        Parameters.resolve({"interaction_constraints": given})
