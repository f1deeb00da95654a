"""The room that trees are grown in."""

from __future__ import annotations

import numpy as np

from hornbeam import DMatrix
from hornbeam.cart.codes import Codes
from hornbeam.cart.growing import Rules, Workspace, grow
from hornbeam.cart.targets import Targets


def test_a_tree_of_many_categories_takes_more_room():
    """There is some at first, which does for most trees."""
    rng = np.random.default_rng(0)
    X = rng.integers(40, size=(400, 3)).astype(np.float64)
    y = rng.normal(size=400)
    codes = Codes.of(DMatrix(X, feature_types=["c"] * 3, enable_categorical=True))
    targets = Targets.of(y, None, 0, "squared_error", y.size)
    rules, rows = Rules(3), np.arange(y.size, dtype=np.int32)
    workspace = Workspace(codes, targets, rules, rows.size)
    begun = workspace.categories.size
    grown = grow(0, codes, targets, rules, rows, None, workspace)
    assert grown.categories.size > begun
    again = grow(0, codes, targets, rules, rows, None, workspace)
    np.testing.assert_array_equal(again.categories, grown.categories)
    assert again.nodes.tobytes() == grown.nodes.tobytes()
    # Grown on all rows until it is pure, it knows all of them.
    means = targets.means_of(grown.sums)[grown.leaves_of(codes, rows)]
    _, same = np.unique(X, axis=0, return_inverse=True)
    expected = np.bincount(same, y)[same] / np.bincount(same)[same]
    np.testing.assert_allclose(means, expected, atol=1e-9)
