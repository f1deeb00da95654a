"""The best cut of a CART root, against an exhaustive reference implementation."""

from __future__ import annotations

import naive_cart
import numpy as np
import pytest

from hornbeam import DMatrix
from hornbeam.cart.binned_features import BinnedFeatures
from hornbeam.cart.targets import Targets
from hornbeam.cart.tree_builder import GrowthParams, Workspace, build_tree


def stump(X, y, n_classes, criterion, sample):
    features = BinnedFeatures.of(DMatrix(X))
    targets = Targets.of(y, None, n_classes, criterion, y.size)
    params = GrowthParams(X.shape[1], max_depth=1)
    workspace = Workspace(features, targets, params, sample.size)
    return build_tree(0, features, targets, params, sample, None, workspace)


@pytest.mark.parametrize("criterion", ["squared_error", "gini", "entropy", "error"])
@pytest.mark.parametrize(
    ("n_rows", "levels"),
    [(9, 9), (60, 6), (60, 70), (60, 2000)],
    ids=["inserted", "in cells", "counted", "by digits"],
)
def test_best_cut_with_every_sorting_method(n_rows, levels, criterion):
    """Assert the best split for different numbers of rows and values."""
    rng = np.random.default_rng(n_rows + levels)
    X = rng.permutation(np.resize(np.arange(levels), max(levels, n_rows)))[:, None] / 8
    y = rng.integers(3, size=X.size).astype(float)
    sample = np.sort(rng.choice(X.size, n_rows, replace=False)).astype(np.int32)
    n_classes = 0 if criterion == "squared_error" else 3
    tree = stump(X, y, n_classes, criterion, sample)
    gains = naive_cart.gains(
        X[sample], [False], y[sample], np.ones(n_rows), n_classes, criterion, 1, 0.0
    )
    assert tree.nodes["gain"][0] == pytest.approx(max(gains))
    left = X[sample, 0] < tree.thresholds[0]
    best = naive_cart.gain(criterion, y[sample], np.ones(n_rows), left)
    assert tree.nodes["gain"][0] == pytest.approx(best)


def test_ties_go_to_the_first_feature_and_the_first_cut():
    X = np.array([[0, 0], [1, 1], [2, 2], [3, 3]], float)
    y = np.array([1.0, 0.0, 0.0, 1.0])
    sample = np.arange(4, dtype=np.int32)
    for criterion, n_classes in (("squared_error", 0), ("gini", 2), ("entropy", 2)):
        tree = stump(X, y, n_classes, criterion, sample)
        assert tree.nodes["feature"][0] == 0
        assert tree.thresholds[0] == 0.5


def test_ties_send_missing_values_right():
    X = np.array([[0.0], [np.nan], [2.0]])
    sample = np.arange(3, dtype=np.int32)
    # The row in the middle is equally close to both sides.
    tree = stump(X, np.array([0.0, 1.0, 2.0]), 0, "squared_error", sample)
    assert tree.nodes["missing_left"][0] == 0
    assert tree.thresholds[0] == 1.0
