"""Pruning of complete trees by gamma, and splits that are never applied."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from samples import few_values

import hornbeam

ROWS, LABELS = few_values(600, 4, missing=0.1, seed=3)


def train(**params):
    data = hornbeam.DMatrix(ROWS, LABELS)
    return hornbeam.train({"max_depth": 6, "nthread": 1, **params}, data, 1).model


@cache
def grown(method, policy):
    """Return a tree that nothing is cut off from."""
    return train(tree_method=method, grow_policy=policy).trees[0]


@cache
def base_score():
    return train().base_score[0]


def leaves_after_cutting(tree, gamma):
    """Return the nodes that are leaves once splits above two leaves were cut off."""
    leaves = set(np.flatnonzero(tree.left < 0).tolist())
    cut = True
    while cut:
        cut = False
        for node in np.flatnonzero(tree.left >= 0).tolist():
            children = {int(tree.left[node]), int(tree.right[node])}
            if children <= leaves and tree.gain[node] < gamma:
                leaves = leaves - children | {node}
                cut = True
    return leaves


def rows_of(tree, node):
    """Return which rows come through a node."""
    if node == 0:
        return np.ones(len(ROWS), bool)
    above = tree.parent[node]
    values = ROWS[:, tree.feature[above]]
    left = np.where(
        np.isnan(values), tree.default_left[above] == 1, values < tree.threshold[above]
    )
    return rows_of(tree, above) & (left == (tree.left[above] == node))


@pytest.mark.parametrize("gamma", [0.0, 1.0, 4.0, 20.0, 1e9])
@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
@pytest.mark.parametrize("method", ["hist", "approx", "exact"])
def test_a_complete_tree_loses_splits_of_too_little_gain(method, policy, gamma):
    params = {"tree_method": method, "grow_policy": policy, "pruning": "after"}
    full = grown(method, policy)
    pruned = train(**params, gamma=gamma).trees[0]
    expected = [rows_of(full, node) for node in leaves_after_cutting(full, gamma)]
    found = [rows_of(pruned, node) for node in np.flatnonzero(pruned.left < 0)]
    assert {rows.tobytes() for rows in found} == {rows.tobytes() for rows in expected}
    for node in np.flatnonzero(pruned.left < 0):
        residuals = LABELS[rows_of(pruned, node)] - base_score()
        weight = 0.3 * residuals.sum() / (residuals.size + 1)
        assert pruned.value[node] == pytest.approx(weight, rel=1e-4, abs=1e-5)


def test_a_split_stays_if_there_are_better_ones_below():
    rows = np.array([[a, b] for a in (0.0, 1.0) for b in (0.0, 1.0)] * 50)
    labels = rows[:, 0] * (1 - rows[:, 1]) + rows[:, 1] * (1 - rows[:, 0])
    labels[rows[:, 0] == 0] += 0.05  # a root that gains next to nothing
    data = hornbeam.DMatrix(rows, labels)
    params = {"max_depth": 2, "gamma": 1.0, "learning_rate": 1.0, "lambda": 0.0}
    before = hornbeam.train({**params, "pruning": "before"}, data, 1)
    after = hornbeam.train({**params, "pruning": "after"}, data, 1)
    assert before.model.trees[0].n_leaves == 1
    assert after.model.trees[0].n_leaves == 4
    np.testing.assert_allclose(after.predict(data), labels, atol=1e-5)


def test_exact_prunes_after_growth_and_others_before_by_default():
    of_method = {"exact": "after", "hist": "before", "approx": "before"}
    for method, pruning in of_method.items():
        own = train(tree_method=method, gamma=6.0)
        said = train(tree_method=method, gamma=6.0, pruning=pruning)
        assert own.trees[0].left.tolist() == said.trees[0].left.tolist()


def test_margins_are_those_of_the_pruned_tree():
    data = hornbeam.DMatrix(ROWS, LABELS)
    params = {"tree_method": "exact", "gamma": 5.0, "subsample": 0.6}
    once = hornbeam.train(params, data, 4)
    begun = hornbeam.train(params, data, 2)
    again = hornbeam.train(params, hornbeam.DMatrix(ROWS, LABELS), 2, xgb_model=begun)
    assert again.digest() == once.digest()


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize(
    ("method", "policy"),
    [
        *[
            (m, p)
            for m in ("hist", "approx", "exact")
            for p in ("depthwise", "lossguide")
        ],
        ("hist", "symmetric"),
    ],
)
def test_a_split_has_to_gain_more_than_the_epsilon(method, policy, threads):
    unit = 2.0**-40
    params = {"max_depth": 4, "tree_method": method, "grow_policy": policy}
    params |= {"nthread": threads}
    data = hornbeam.DMatrix(ROWS, LABELS * unit)
    assert hornbeam.train(params, data, 1).model.trees[0].n_leaves == 1
    own = {"gain_epsilon": 1e-6 * unit**2}
    small = hornbeam.train({**params, **own}, data, 3).model.trees
    large = hornbeam.train(params, hornbeam.DMatrix(ROWS, LABELS), 3).model.trees
    for tree, other in zip(small, large, strict=True):
        assert tree.feature.tolist() == other.feature.tolist()
        assert tree.value.tolist() == (other.value * np.float32(unit)).tolist()
    if policy != "symmetric":  # whose gains are those of levels
        gains = large[0].gain[large[0].left >= 0]
        above = {"gain_epsilon": 1.001 * float(gains.min())}
        cut = hornbeam.train({**params, **above}, hornbeam.DMatrix(ROWS, LABELS), 1)
        assert cut.model.trees[0].n_leaves < large[0].n_leaves
