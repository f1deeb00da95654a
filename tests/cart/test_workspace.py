"""The workspace that trees are built in."""

from __future__ import annotations

import numpy as np

from hornbeam import DMatrix
from hornbeam.cart.binned_features import BinnedFeatures
from hornbeam.cart.targets import Targets
from hornbeam.cart.tree_builder import GrowthParams, Workspace, build_tree


def test_workspace_grows_for_a_tree_of_many_categories():
    rng = np.random.default_rng(0)
    X = rng.integers(40, size=(400, 3)).astype(np.float64)
    y = rng.normal(size=400)
    features = BinnedFeatures.of(
        DMatrix(X, feature_types=["c"] * 3, enable_categorical=True)
    )
    targets = Targets.of(y, None, 0, "squared_error", y.size)
    params, rows = GrowthParams(3), np.arange(y.size, dtype=np.int32)
    workspace = Workspace(features, targets, params, rows.size)
    begun = workspace.categories.size
    tree = build_tree(0, features, targets, params, rows, None, workspace)
    assert tree.categories.size > begun
    again = build_tree(0, features, targets, params, rows, None, workspace)
    np.testing.assert_array_equal(again.categories, tree.categories)
    assert again.nodes.tobytes() == tree.nodes.tobytes()
    # The leaves are pure, so they predict the mean of equal rows.
    means = targets.node_means(tree.sums)[tree.apply(features, rows)]
    _, same = np.unique(X, axis=0, return_inverse=True)
    expected = np.bincount(same, y)[same] / np.bincount(same)[same]
    np.testing.assert_allclose(means, expected, atol=1e-9)
