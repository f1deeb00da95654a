"""Samples of columns and rows: sizes, nesting and reproducibility."""

from __future__ import annotations

import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from samples import few_values

import hornbeam
from hornbeam.growth.column_sampler import ColumnSampler

RATES = st.floats(0.01, 1.0)


def sampler(
    n_features=40, tree=1.0, level=1.0, node=1.0, seed=0, number=0, weights=None
):
    weights = None if weights is None else np.array(weights, float)
    return ColumnSampler(n_features, tree, level, node, seed, number, weights)


def taken(n, rate):
    return max(1, int(rate * n))


@given(st.integers(1, 60), RATES, RATES, RATES, st.integers(-5, 2**63 - 1))
def test_samples_are_nested_and_of_the_right_size(n, by_tree, by_level, by_node, seed):
    columns = sampler(n, by_tree, by_level, by_node, seed)
    of_tree = columns.columns
    assert of_tree.size == taken(n, by_tree)
    assert (np.diff(of_tree.astype(int)) > 0).all()
    assert of_tree.max() < n
    nodes = np.arange(3, 7)
    allowed = columns.allowed(nodes, 2)
    if allowed is None:
        assert by_level == by_node == 1.0
        return
    assert allowed.shape == (4, n)
    of_level = taken(of_tree.size, by_level)
    assert (allowed.sum(axis=1) == taken(of_level, by_node)).all()
    assert set(np.flatnonzero(allowed.any(axis=0))) <= set(of_tree.tolist())
    assert allowed.any(axis=0).sum() <= of_level


def test_a_level_shares_its_columns_and_nodes_do_not():
    by_level = sampler(level=0.5).allowed(np.arange(7, 15), 3)
    assert (by_level == by_level[0]).all()
    by_node = sampler(node=0.5).allowed(np.arange(7, 15), 3)
    assert len({row.tobytes() for row in by_node}) == 8
    both = sampler(level=0.5, node=0.5).allowed(np.arange(7, 15), 3)
    assert both.any(axis=0).sum() <= 20


def test_a_draw_depends_only_on_its_key():
    columns = sampler(level=0.6, node=0.5, number=3)
    together = columns.allowed(np.arange(3, 7), 2)
    for node in (5, 3, 6, 4):
        alone = sampler(level=0.6, node=0.5, number=3).allowed(np.array([node]), 2)
        np.testing.assert_array_equal(alone[0], together[node - 3])


def test_trees_levels_and_seeds_draw_differently():
    def drawn(**numbers):
        return tuple(sampler(tree=0.5, **numbers).columns)

    assert len({drawn(number=number) for number in range(50)}) == 50
    assert len({drawn(seed=seed) for seed in (-1, 0, 1, 2**32, 2**40, 2**63 - 1)}) == 6
    levels = {
        sampler(level=0.5).allowed(np.array([1]), depth).tobytes()
        for depth in range(20)
    }
    assert len(levels) == 20


def test_every_column_is_drawn_at_some_time():
    counts = np.zeros(40)
    for number in range(2000):
        counts[sampler(tree=0.25, number=number).columns] += 1
    # Binomial: 500 on average, with a deviation of 19.
    assert abs(counts - 500).max() < 100


# --- With weights ---------------------------------------------------------------------


@given(st.integers(2, 40), RATES, RATES, RATES, st.integers(0, 99), st.floats(0.1, 9))
def test_equal_weights_draw_the_same_as_no_weights(
    n, by_tree, by_level, by_node, number, weight
):
    nodes = np.arange(3, 6)
    plain = sampler(n, by_tree, by_level, by_node, number=number)
    same = sampler(n, by_tree, by_level, by_node, number=number, weights=[weight] * n)
    np.testing.assert_array_equal(plain.columns, same.columns)
    np.testing.assert_array_equal(plain.allowed(nodes, 1), same.allowed(nodes, 1))


def test_the_first_draw_follows_the_weights():
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    counts = np.zeros(4)
    for number in range(4000):
        counts[sampler(4, 0.25, number=number, weights=weights).columns] += 1
    deviation = np.sqrt(4000 * weights / 10 * (1 - weights / 10))
    assert (np.abs(counts - 400 * weights) < 4 * deviation).all()


def test_the_second_draw_follows_the_remaining_weights():
    """P(both of 0 and 1) = p0 p1/(1 - p0) + p1 p0/(1 - p1), as without replacement."""
    p = np.array([0.5, 0.3, 0.2])
    drawn = [
        tuple(sampler(3, 0.7, number=number, weights=p).columns)
        for number in range(4000)
    ]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        chance = p[i] * p[j] / (1 - p[i]) + p[j] * p[i] / (1 - p[j])
        deviation = np.sqrt(4000 * chance * (1 - chance))
        assert abs(drawn.count((i, j)) - 4000 * chance) < 4 * deviation


def test_columns_of_weight_zero_come_last():
    weights = [0, 1, 0, 1e-300, 0, 1e300]
    for number in range(50):
        few = sampler(6, 0.5, number=number, weights=weights)
        assert few.columns.tolist() == [1, 3, 5]
        more = sampler(6, 0.9, number=number, weights=weights)
        assert {1, 3, 5} < set(more.columns.tolist()) and more.columns.size == 5
        node = sampler(6, 0.5, node=0.7, number=number, weights=weights)
        assert not node.allowed(np.arange(1), 0)[0, [0, 2, 4]].any()


def test_rates_of_one_take_all_columns():
    only = sampler(3, weights=[0, 0, 1])
    assert only.columns.tolist() == [0, 1, 2] and only.allowed(np.arange(1), 0) is None


# --- Through training -----------------------------------------------------------------

ROWS, LABELS = few_values(2000, 12)


def train(params, rounds=20):
    data = hornbeam.DMatrix(ROWS, LABELS)
    return hornbeam.train({"max_depth": 4, **params}, data, rounds)


def used(tree):
    return set(tree.feature[tree.left >= 0].tolist())


def depths(tree):
    found = np.zeros(tree.n_nodes, int)
    for node in range(1, tree.n_nodes):
        found[node] = found[tree.parent[node]] + 1
    return found


def test_trees_use_only_their_columns():
    trees = train({"colsample_bytree": 0.25, "seed": 5}).model.trees
    for number, tree in enumerate(trees):
        allowed = sampler(12, tree=0.25, seed=5, number=number).columns
        assert used(tree) <= set(allowed.tolist())
    assert set().union(*map(used, trees)) > set(range(8))


def test_weights_of_columns_reach_the_trees():
    """Columns of no weight are never used, as in XGBoost, unless all columns are."""
    weights = np.r_[np.zeros(6), np.ones(6)]
    params = {"max_depth": 4, "colsample_bynode": 0.4}
    data = hornbeam.DMatrix(ROWS, LABELS, feature_weights=weights)
    trees = hornbeam.train(params, data, 10).model.trees
    assert set().union(*map(used, trees)) == set(range(6, 12))
    theirs = xgboost.train(
        params, xgboost.DMatrix(ROWS, LABELS, feature_weights=weights), 10
    )
    assert {int(name[1:]) for name in theirs.get_score()} == set(range(6, 12))
    every = hornbeam.train({"max_depth": 4}, data, 3)
    assert every.digest() == train({}, 3).digest()
    data.set_info(feature_weights=weights[::-1])  # seen from the next tree on
    booster = hornbeam.Booster(params)
    booster.update(data, 0)
    data.set_info(feature_weights=weights)
    booster.update(data, 1)
    first, second = booster.model.trees
    assert used(first) <= set(range(6)) and used(second) <= set(range(6, 12))


@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
def test_levels_and_nodes_use_only_their_columns(policy):
    params = {"colsample_bylevel": 0.5, "colsample_bynode": 0.4, "grow_policy": policy}
    for number, tree in enumerate(train(params).model.trees):
        columns = sampler(12, level=0.5, node=0.4, number=number)
        for node, depth in enumerate(depths(tree)):
            if tree.left[node] >= 0:
                allowed = columns.allowed(np.array([node]), int(depth))
                assert allowed[0, tree.feature[node]] == 1


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
def test_trees_are_grown_on_their_share_of_rows(rate):
    trees = train({"subsample": rate}).model.trees
    sizes = np.array([tree.cover[0] for tree in trees])
    deviation = np.sqrt(2000 * rate * (1 - rate))
    assert (np.abs(sizes - 2000 * rate) < 5 * deviation).all()
    assert len(set(sizes)) > 10


def test_rows_outside_the_sample_get_the_value_of_their_leaf():
    """A sample decides how the tree grows; its leaves count for everybody."""
    booster = train({"subsample": 0.3, "eval_metric": "rmse"}, rounds=0)
    data = hornbeam.DMatrix(ROWS, LABELS)
    for number in range(6):
        booster.update(data, number)
    errors = booster.predict(data) - LABELS
    reported = float(booster.eval(data).rpartition(":")[2])
    assert reported == pytest.approx(np.sqrt(np.square(errors).mean()), rel=1e-5)
    assert reported < 0.8 * LABELS.std()


def test_a_very_small_sample():
    """Trees on no rows at all are leaves of no weight."""
    data = hornbeam.DMatrix(ROWS[:3], LABELS[:3])
    booster = hornbeam.train({"subsample": 0.01}, data, 30)
    assert np.isfinite(booster.predict(data)).all()
    empty = [tree for tree in booster.model.trees if tree.cover[0] == 0]
    assert len(empty) > 20
    assert all(tree.n_nodes == 1 and tree.value[0] == 0 for tree in empty)


def test_parallel_trees_draw_different_samples():
    trees = train({"num_parallel_tree": 3, "subsample": 0.5}, 2).model.trees
    assert len({tree.cover[0] for tree in trees}) > 1
    same = train({"num_parallel_tree": 3}, 1).model.trees
    np.testing.assert_array_equal(same[0].threshold, same[1].threshold)


def test_seeds_and_repeats():
    params = {"subsample": 0.5, "colsample_bynode": 0.5}
    digests = [train({**params, "seed": seed}, 3).digest() for seed in (0, 1, 2, -1, 0)]
    assert digests[0] == digests[4]
    assert len(set(digests)) == 4
