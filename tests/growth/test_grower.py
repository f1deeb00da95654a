"""Trees against their rows and their limits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from samples import few_values

import hornbeam

ROWS, LABELS = few_values(800, 4, missing=0.15, seed=5)
MEAN = float(np.float32(LABELS.astype(float).mean()))


def grow(params=None, rows=ROWS, gradients=None, hessians=None):
    """Return one tree for the squared error, or for the gradients given."""
    if gradients is None:
        gradients = MEAN - LABELS[: len(rows)].astype(float)
    if hessians is None:
        hessians = np.ones(len(rows))
    params = {"lambda": 1.0, "eta": 1.0, "nthread": 1, **(params or {})}
    booster = hornbeam.Booster(params)
    booster.boost(hornbeam.DMatrix(rows), 0, grad=gradients, hess=hessians)
    return booster.model.trees[0]


def rows_of_nodes(tree, rows):
    """Return which rows come through each node, (nodes, rows)."""
    inside = np.zeros((tree.n_nodes, len(rows)), bool)
    inside[0] = True
    for node in range(tree.n_nodes):
        if tree.left[node] < 0:
            continue
        values = rows[:, tree.feature[node]]
        left = np.where(
            np.isnan(values),
            tree.default_left[node] == 1,
            values < tree.threshold[node],
        )
        inside[tree.left[node]] = inside[node] & left
        inside[tree.right[node]] = inside[node] & ~left
    return inside


def depths(tree):
    found = np.zeros(tree.n_nodes, int)
    for node in range(1, tree.n_nodes):
        found[node] = found[tree.parent[node]] + 1
    return found


def weight_of(g, h, reg_lambda=1.0, alpha=0.0, step=0.0):
    weight = -np.sign(g) * max(abs(g) - alpha, 0.0) / (h + reg_lambda)
    return np.clip(weight, -step, step) if step else weight


def gain_of(g, h, reg_lambda=1.0, alpha=0.0, step=0.0):
    """Return what a leaf takes away from twice the loss, as the paper has it."""
    weight = weight_of(g, h, reg_lambda, alpha, step)
    return -(2 * g * weight + (h + reg_lambda) * weight**2 + 2 * alpha * abs(weight))


def best_split(rows, gradients, hessians, inside, rules, least=1.0):
    """Return the highest gain of all splits of a node, and how the best ones go."""
    g, h = gradients[inside], hessians[inside]
    parent = gain_of(g.sum(), h.sum(), *rules)
    best, found = 0.0, []
    for feature in range(rows.shape[1]):
        values = rows[inside, feature]
        for threshold in [
            *np.unique(rows[~np.isnan(rows[:, feature]), feature]),
            np.inf,
        ]:
            for missing_left in (False, True):
                left = np.where(np.isnan(values), missing_left, values < threshold)
                if (
                    min(h[left].sum(), h[~left].sum()) < least
                    or left.all()
                    or not left.any()
                ):
                    continue
                gain = (
                    gain_of(g[left].sum(), h[left].sum(), *rules)
                    + gain_of(g[~left].sum(), h[~left].sum(), *rules)
                    - parent
                )
                if gain > best * (1 + 1e-9):
                    best, found = gain, []
                if gain >= best * (1 - 1e-9):
                    found.append((feature, tuple(left)))
    return best, found


RULES = {
    "plain": {},
    "lambda": {"lambda": 0.0},
    "alpha": {"alpha": 4.0},
    "step": {"max_delta_step": 0.4},
    "all": {"lambda": 3.0, "alpha": 2.0, "max_delta_step": 0.5},
    "least": {"min_child_weight": 60.0},
    "exact": {"tree_method": "exact", "lambda": 3.0, "min_child_weight": 10.0},
    "exact, alpha": {"tree_method": "exact", "alpha": 2.0, "max_delta_step": 0.5},
    "approx": {"tree_method": "approx", "lambda": 0.5},
    "local": {"tree_method": "approx", "sketch_scope": "local", "alpha": 4.0},
}


@pytest.mark.parametrize("case", RULES)
def test_every_split_is_the_best_one(case):
    """Brute force over all thresholds and both directions finds nothing better."""
    params = {"max_depth": 3, **RULES[case]}
    rules = tuple(
        params.get(name, default)
        for name, default in (("lambda", 1.0), ("alpha", 0.0), ("max_delta_step", 0.0))
    )
    rows = ROWS[:200]
    rng = np.random.default_rng(0)
    gradients, hessians = rng.normal(size=200), 0.5 + rng.random(200)
    gradients += np.nan_to_num(rows[:, 1] - 3)
    least = params.get("min_child_weight", 1.0)
    tree = grow(params, rows, gradients, hessians)
    assert tree.n_nodes > 1
    inside = rows_of_nodes(tree, rows)
    for node in np.flatnonzero((tree.left >= 0) | (depths(tree) < 3)):
        best, found = best_split(rows, gradients, hessians, inside[node], rules, least)
        if tree.left[node] < 0:
            assert best <= 1e-6
            continue
        assert tree.gain[node] == pytest.approx(best, rel=1e-3)
        chosen = tuple(inside[tree.left[node]][inside[node]])
        assert (tree.feature[node], chosen) in found


@pytest.mark.parametrize("case", RULES)
@pytest.mark.parametrize("eta", [1.0, 0.3])
def test_leaf_weights_follow_from_their_rows(case, eta):
    params = {"max_depth": 4, "eta": eta, **RULES[case]}
    rng = np.random.default_rng(1)
    hessians = 0.1 + rng.random(800)
    gradients = MEAN - LABELS
    tree = grow(params, gradients=gradients, hessians=hessians)
    rules = [
        params.get(name, default)
        for name, default in (("lambda", 1.0), ("alpha", 0.0), ("max_delta_step", 0.0))
    ]
    for node, inside in enumerate(rows_of_nodes(tree, ROWS)):
        g, h = gradients[inside].sum(), hessians[inside].sum()
        weight = weight_of(g, h, *rules)
        is_leaf = tree.left[node] < 0
        assert tree.cover[node] == pytest.approx(h, rel=1e-6)
        assert tree.weight[node] == pytest.approx(
            weight * (eta if is_leaf else 1), rel=1e-5, abs=1e-6
        )
        assert tree.value[node] == (tree.weight[node] if is_leaf else 0)


def test_nodes_are_numbered_in_order_of_creation():
    tree = grow({"max_depth": 5})
    inner = np.flatnonzero(tree.left >= 0)
    np.testing.assert_array_equal(tree.right[inner], tree.left[inner] + 1)
    np.testing.assert_array_equal(tree.left[inner], 1 + 2 * np.arange(inner.size))
    np.testing.assert_array_equal(tree.parent[tree.left[inner]], inner)
    assert tree.parent[0] == -1
    assert (np.diff(depths(tree)) >= 0).all()  # level by level
    assert np.isnan(tree.threshold[tree.left < 0]).all()
    assert not tree.gain[tree.left < 0].any()


@examples(40)
@given(
    method=st.sampled_from(["hist", "approx", "exact"]),
    policy=st.sampled_from(["depthwise", "lossguide"]),
    max_depth=st.integers(0, 6),
    max_leaves=st.integers(0, 20),
    gamma=st.sampled_from([0.0, 3.0, 30.0]),
    least=st.sampled_from([0.0, 1.0, 25.0]),
)
def test_limits_are_satisfied(method, policy, max_depth, max_leaves, gamma, least):
    tree = grow(
        {
            "tree_method": method,
            "pruning": "before",
            "grow_policy": policy,
            "max_depth": max_depth,
            "max_leaves": max_leaves,
            "gamma": gamma,
            "min_child_weight": least,
        }
    )
    inner = tree.left >= 0
    assert max_depth == 0 or tree.depth() <= max_depth
    assert max_leaves == 0 or tree.n_leaves <= max_leaves
    assert (tree.gain[inner] >= gamma).all()
    assert tree.n_nodes == 1 or (tree.cover >= least).all()
    assert (rows_of_nodes(tree, ROWS).sum(axis=1) > 0).all()


def test_the_best_leaf_is_split_first():
    tree = grow({"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 30})
    full = grow({"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 31})
    inner = np.flatnonzero(tree.left >= 0)
    # Whoever was split could not wait longer: its gain beats all that were open then.
    order = inner[np.argsort(tree.left[inner])]
    for before, after in itertools.pairwise(order):
        opened_later = tree.parent[after] == before
        assert tree.gain[before] >= tree.gain[after] or opened_later
    # One leaf more changes one node.
    assert full.n_nodes == tree.n_nodes + 2
    changed = np.flatnonzero(full.left[: tree.n_nodes] != tree.left)
    assert changed.size == 1
    assert full.gain[changed[0]] <= tree.gain[order[-1]] or (
        full.parent[changed[0]] == order[-1]
    )


def test_without_limits_both_policies_grow_the_same_leaves():
    trees = [
        grow({"grow_policy": policy, "max_depth": 0})
        for policy in ("depthwise", "lossguide")
    ]
    leaves = []
    for tree in trees:
        inside = rows_of_nodes(tree, ROWS)[tree.left < 0]
        leaves.append({row.tobytes() for row in inside})
    assert leaves[0] == leaves[1]


def test_the_default_direction_is_the_better_one():
    rows = np.array([[1.0], [2.0], [np.nan]] * 50)
    for labels, missing_left in (([0.0, 5.0, 0.0], 1), ([0.0, 5.0, 5.0], 0)):
        tree = grow({"max_depth": 1}, rows, -np.tile(labels, 50))
        assert tree.threshold[0] == 2.0
        assert tree.default_left[0] == missing_left
    # Apart from all that is there, by the last cut.
    tree = grow({"max_depth": 1}, rows, -np.tile([0.0, 0.0, 5.0], 50))
    assert tree.threshold[0] > 2.0
    assert tree.default_left[0] == 0
    # Who never missed a value in training goes right, as in XGBoost.
    tree = grow({"max_depth": 1}, rows[:2], np.array([1.0, -1.0]))
    assert tree.default_left[0] == 0


def test_ties_go_to_the_lowest_feature_and_threshold():
    column = np.repeat([0.0, 1.0, 2.0], 40)
    rows = np.stack([np.zeros(120), column, -column, column], axis=1)
    tree = grow({"max_depth": 1}, rows, np.repeat([-1.0, 0.0, 1.0], 40))
    assert tree.feature[0] == 1
    # Both cuts gain the same: the lower one wins.
    assert tree.threshold[0] == 1.0


def test_nodes_without_gain_stay_leaves():
    constant = np.ones((50, 2))
    assert grow(rows=constant).n_nodes == 1
    assert grow(gradients=np.zeros(800)).n_nodes == 1
    assert grow({"gamma": 1e9}).n_nodes == 1
    assert grow({"max_leaves": 1}).n_nodes == 1
    assert grow({"alpha": 1e9}).n_nodes == 1
    lonely = grow({"alpha": 1e9})
    assert lonely.value[0] == 0.0
    assert grow(hessians=np.zeros(800)).n_nodes == 1


@pytest.mark.parametrize("method", ["hist", "approx", "exact"])
def test_rows_with_only_missing_values_share_a_leaf(method):
    rows = np.full((60, 2), np.nan)
    tree = grow({"tree_method": method}, rows, -np.ones(60))
    assert tree.n_nodes == 1
    assert tree.value[0] == pytest.approx(60 / 61)


@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
def test_without_limits_every_row_has_its_leaf(policy):
    rng = np.random.default_rng(0)
    rows = np.arange(3000.0)[:, np.newaxis]
    labels = rng.normal(size=3000)
    params = {"max_depth": 0, "lambda": 0, "max_bin": 3000, "grow_policy": policy}
    tree = grow(params, rows, -labels)
    # But for neighbours whose split would gain less than 1e-6.
    assert tree.n_leaves > 2990
    leaves = np.flatnonzero(tree.left < 0)
    of_row = leaves[rows_of_nodes(tree, rows)[leaves].argmax(axis=0)]
    np.testing.assert_allclose(tree.value[of_row], labels, atol=1e-3)


@pytest.mark.parametrize("n_slots", [1, 7, 50])
@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
def test_few_histograms_grow_the_same_tree(n_slots, policy):
    params = {"grow_policy": policy, "max_depth": 0, "max_leaves": 100}
    full, small = grow(params), grow({**params, "max_cached_hist_node": n_slots})
    for name in ("left", "feature", "threshold", "default_left", "gain", "value"):
        np.testing.assert_array_equal(getattr(full, name), getattr(small, name))
