"""Pruning: each alpha gives the subtree that costs least, the smallest of equals."""

from __future__ import annotations

import naive_cart
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam import DMatrix
from hornbeam.cart.codes import Codes
from hornbeam.cart.growing import Rules, Workspace, grow
from hornbeam.cart.pruning import cut_back, losses_of_alphas, pruning_path
from hornbeam.cart.targets import Targets


def whole(n_classes, seed, rows=40):
    """Return a tree, and what it was grown on."""
    rng = np.random.default_rng(seed)
    X = rng.integers(8, size=(rows, 2)).astype(float)
    y = rng.integers(n_classes or 6, size=rows).astype(float)
    criterion = "gini" if n_classes else "squared_error"
    codes = Codes.of(DMatrix(X))
    targets = Targets.of(y, None, n_classes, criterion, rows)
    rules = Rules(2)
    bag = np.arange(rows, dtype=np.int32)
    workspace = Workspace(codes, targets, rules, rows)
    grown = grow(0, codes, targets, rules, bag, None, workspace)
    impurity = naive_cart.impurity(criterion, y, np.ones(rows)) / rows
    return codes, targets, y, grown, pruning_path(grown, rows, impurity)


def impurity_of_leaves(targets, grown, y, leaves):
    criterion = "gini" if targets.n_classes else "squared_error"
    parts = [y[leaves == leaf] for leaf in np.unique(leaves)]
    sums = [naive_cart.impurity(criterion, part, np.ones(part.size)) for part in parts]
    return sum(sums) / y.size


@given(st.sampled_from([0, 2, 3]), st.integers(0, 2**32))
@settings(max_examples=25)
def test_each_alpha_has_the_cheapest_subtree(n_classes, seed):
    codes, targets, y, grown, path = whole(n_classes, seed)
    rows = np.arange(y.size, dtype=np.int32)
    assert path.alphas[0] == 0
    assert (np.diff(path.alphas) >= 0).all()
    for alpha in path.alphas * (1 + 1e-7):  # rounding parts what is equal
        here = cut_back(grown, path, alpha)
        place = np.flatnonzero(path.alphas <= alpha).max() if alpha > 0 else 0
        if alpha > 0:
            _, n_leaves = naive_cart.best_subtree(grown.nodes, alpha * y.size)
            assert np.count_nonzero(here.nodes["left"] < 0) == n_leaves
            assert path.n_leaves[place] == n_leaves
        leaves = here.leaves_of(codes, rows)
        expected = impurity_of_leaves(targets, here, y, leaves)
        assert path.impurities[place] == pytest.approx(expected, abs=1e-9)


@given(st.sampled_from([0, 2, 3]), st.integers(0, 2**32), st.floats(0.001, 0.5))
@settings(max_examples=25)
def test_a_tree_cut_back_is_the_top_of_the_whole(n_classes, seed, share):
    codes, targets, y, grown, path = whole(n_classes, seed)
    rows = np.arange(y.size, dtype=np.int32)
    here = cut_back(grown, path, share * path.alphas[-1])
    assert here.nodes["parent"][0] == -1
    is_split = here.nodes["left"] >= 0
    lefts = here.nodes["left"][is_split]
    np.testing.assert_array_equal(np.sort(lefts), np.arange(1, is_split.size, 2))
    np.testing.assert_array_equal(here.nodes["parent"][lefts], np.flatnonzero(is_split))
    assert np.isnan(here.thresholds[~is_split]).all()
    # Each leaf has the sums of the rows that come to it.
    leaves = here.leaves_of(codes, rows)
    weights = np.bincount(leaves, minlength=is_split.size)[~is_split]
    np.testing.assert_allclose(targets.weights_of(here.sums)[~is_split], weights)


@pytest.mark.parametrize("n_classes", [0, 3])
def test_losses_of_all_subtrees_are_those_of_each(n_classes):
    codes, targets, y, grown, path = whole(n_classes, 5)
    rows = np.arange(y.size, dtype=np.int32)
    alphas = np.append(np.sqrt(path.alphas[:-1] * path.alphas[1:]), np.inf)
    predicted = targets.means_of(grown.sums)
    losses = losses_of_alphas(
        grown,
        path,
        alphas,
        grown.leaves_of(codes, rows),
        lambda nodes, chosen: targets.losses_of(predicted[nodes], y[chosen]),
    )
    for alpha, loss in zip(alphas, losses, strict=True):
        here = cut_back(grown, path, alpha)
        own = targets.means_of(here.sums)[here.leaves_of(codes, rows)]
        assert loss == pytest.approx(targets.losses_of(own, y).sum(), abs=1e-9)


def test_a_root_alone_has_a_path_of_one():
    _, _, _, grown, path = whole(0, 0, rows=1)
    assert path.alphas.tolist() == [0]
    assert path.n_leaves.tolist() == [1]
    assert path.impurities.tolist() == [0]
    assert cut_back(grown, path, 1.0) is grown
