"""The best cut of a whole tree's root, against a plain twin that tries them all."""

from __future__ import annotations

import naive_cart
import numpy as np
import pytest

from hornbeam import DMatrix
from hornbeam.cart.codes import Codes
from hornbeam.cart.growing import Rules, Workspace, grow
from hornbeam.cart.targets import Targets


def stump(X, y, n_classes, criterion, bag):
    codes = Codes.of(DMatrix(X))
    targets = Targets.of(y, None, n_classes, criterion, y.size)
    rules = Rules(X.shape[1], max_depth=1)
    workspace = Workspace(codes, targets, rules, bag.size)
    return grow(0, codes, targets, rules, bag, None, workspace)


@pytest.mark.parametrize("criterion", ["squared_error", "gini", "entropy", "error"])
@pytest.mark.parametrize(
    ("n_rows", "levels"),
    [(9, 9), (60, 6), (60, 70), (60, 2000)],
    ids=["inserted", "in cells", "counted", "by digits"],
)
def test_rows_are_sorted_in_every_way(n_rows, levels, criterion):
    """Assert the best split, however many rows there are and values they may have."""
    rng = np.random.default_rng(n_rows + levels)
    X = rng.permutation(np.resize(np.arange(levels), max(levels, n_rows)))[:, None] / 8
    y = rng.integers(3, size=X.size).astype(float)
    bag = np.sort(rng.choice(X.size, n_rows, replace=False)).astype(np.int32)
    n_classes = 0 if criterion == "squared_error" else 3
    grown = stump(X, y, n_classes, criterion, bag)
    gains = naive_cart.gains(
        X[bag], [False], y[bag], np.ones(n_rows), n_classes, criterion, 1, 0.0
    )
    assert grown.nodes["gain"][0] == pytest.approx(max(gains))
    left = X[bag, 0] < grown.thresholds[0]
    best = naive_cart.gain(criterion, y[bag], np.ones(n_rows), left)
    assert grown.nodes["gain"][0] == pytest.approx(best)


def test_ties_go_to_the_first_feature_and_the_first_cut():
    X = np.array([[0, 0], [1, 1], [2, 2], [3, 3]], float)
    y = np.array([1.0, 0.0, 0.0, 1.0])
    bag = np.arange(4, dtype=np.int32)
    for criterion, n_classes in (("squared_error", 0), ("gini", 2), ("entropy", 2)):
        grown = stump(X, y, n_classes, criterion, bag)
        assert grown.nodes["feature"][0] == 0
        assert grown.thresholds[0] == 0.5


def test_ties_send_the_missing_right():
    X = np.array([[0.0], [np.nan], [2.0]])
    bag = np.arange(3, dtype=np.int32)
    # The row in the middle is as near to either side.
    grown = stump(X, np.array([0.0, 1.0, 2.0]), 0, "squared_error", bag)
    assert grown.nodes["missing_left"][0] == 0
    assert grown.thresholds[0] == 1.0
