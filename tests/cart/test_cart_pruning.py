"""Cost-complexity pruning: each alpha gives the smallest subtree of minimal cost."""

from __future__ import annotations

import naive_cart
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam import DMatrix
from hornbeam.cart.binned_features import BinnedFeatures
from hornbeam.cart.pruning import losses_by_alpha, prune, pruning_path
from hornbeam.cart.targets import Targets
from hornbeam.cart.tree_builder import GrowthParams, Workspace, build_tree


def unpruned(n_classes, seed, rows=40):
    """Return an unpruned tree, its training data and its pruning path."""
    rng = np.random.default_rng(seed)
    X = rng.integers(8, size=(rows, 2)).astype(float)
    y = rng.integers(n_classes or 6, size=rows).astype(float)
    criterion = "gini" if n_classes else "squared_error"
    features = BinnedFeatures.of(DMatrix(X))
    targets = Targets.of(y, None, n_classes, criterion, rows)
    params = GrowthParams(2)
    sample = np.arange(rows, dtype=np.int32)
    workspace = Workspace(features, targets, params, rows)
    tree = build_tree(0, features, targets, params, sample, None, workspace)
    impurity = naive_cart.impurity(criterion, y, np.ones(rows)) / rows
    return features, targets, y, tree, pruning_path(tree, rows, impurity)


def impurity_of_leaves(targets, tree, y, leaves):
    criterion = "gini" if targets.n_classes else "squared_error"
    parts = [y[leaves == leaf] for leaf in np.unique(leaves)]
    sums = [naive_cart.impurity(criterion, part, np.ones(part.size)) for part in parts]
    return sum(sums) / y.size


@given(st.sampled_from([0, 2, 3]), st.integers(0, 2**32))
@examples(25)
def test_each_alpha_gives_the_subtree_of_minimal_cost(n_classes, seed):
    features, targets, y, tree, path = unpruned(n_classes, seed)
    rows = np.arange(y.size, dtype=np.int32)
    assert path.alphas[0] == 0
    assert (np.diff(path.alphas) >= 0).all()
    for alpha in path.alphas * (1 + 1e-7):  # clear of rounding errors
        here = prune(tree, path, alpha)
        place = np.flatnonzero(path.alphas <= alpha).max() if alpha > 0 else 0
        if alpha > 0:
            _, n_leaves = naive_cart.best_subtree(tree.nodes, alpha * y.size)
            assert np.count_nonzero(here.nodes["left"] < 0) == n_leaves
            assert path.n_leaves[place] == n_leaves
        leaves = here.apply(features, rows)
        expected = impurity_of_leaves(targets, here, y, leaves)
        assert path.impurities[place] == pytest.approx(expected, abs=1e-9)


@given(st.sampled_from([0, 2, 3]), st.integers(0, 2**32), st.floats(0.001, 0.5))
@examples(25)
def test_a_pruned_tree_is_the_top_of_the_whole_tree(n_classes, seed, share):
    features, targets, y, tree, path = unpruned(n_classes, seed)
    rows = np.arange(y.size, dtype=np.int32)
    here = prune(tree, path, share * path.alphas[-1])
    assert here.nodes["parent"][0] == -1
    is_split = here.nodes["left"] >= 0
    lefts = here.nodes["left"][is_split]
    np.testing.assert_array_equal(np.sort(lefts), np.arange(1, is_split.size, 2))
    np.testing.assert_array_equal(here.nodes["parent"][lefts], np.flatnonzero(is_split))
    assert np.isnan(here.thresholds[~is_split]).all()
    # Each leaf has the sums of the rows that reach it.
    leaves = here.apply(features, rows)
    weights = np.bincount(leaves, minlength=is_split.size)[~is_split]
    np.testing.assert_allclose(targets.node_weights(here.sums)[~is_split], weights)


@pytest.mark.parametrize("n_classes", [0, 3])
def test_losses_by_alpha_equal_the_losses_of_each_pruned_tree(n_classes):
    features, targets, y, tree, path = unpruned(n_classes, 5)
    rows = np.arange(y.size, dtype=np.int32)
    alphas = np.append(np.sqrt(path.alphas[:-1] * path.alphas[1:]), np.inf)
    predicted = targets.node_means(tree.sums)
    losses = losses_by_alpha(
        tree,
        path,
        alphas,
        tree.apply(features, rows),
        lambda nodes, chosen: targets.losses(predicted[nodes], y[chosen]),
    )
    for alpha, loss in zip(alphas, losses, strict=True):
        here = prune(tree, path, alpha)
        own = targets.node_means(here.sums)[here.apply(features, rows)]
        assert loss == pytest.approx(targets.losses(own, y).sum(), abs=1e-9)


def test_the_pruning_path_of_a_root_has_one_alpha():
    _, _, _, tree, path = unpruned(0, 0, rows=1)
    assert path.alphas.tolist() == [0]
    assert path.n_leaves.tolist() == [1]
    assert path.impurities.tolist() == [0]
    assert prune(tree, path, 1.0) is tree
