"""Trees as models: a row comes to the same leaf by its codes and by its values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam import DMatrix
from hornbeam.cart.bagging import Bags
from hornbeam.cart.codes import Codes
from hornbeam.cart.growing import Rules, Workspace, grow
from hornbeam.cart.model import as_booster, as_tree
from hornbeam.cart.pruning import cut_back, pruning_path
from hornbeam.cart.targets import Targets


@st.composite
def tables(draw):
    """Draw columns of every kind: close together, far apart, of whole numbers."""
    rows = draw(st.integers(2, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    columns, kinds = [], []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["normal", "near", "whole", "large", "c"]))
        column = rng.normal(size=rows)
        if kind == "near":
            column = np.spacing(dtype(1)) * rng.integers(-3, 3, size=rows) + 1
        elif kind in ("whole", "c"):
            column = rng.integers(9, size=rows).astype(float)
        elif kind == "large":
            column *= np.finfo(np.float32).max / 8
        columns.append(column)
        kinds.append("c" if kind == "c" else "q")
    X = np.stack(columns, axis=1).astype(dtype)
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.2]))] = np.nan
    return X, kinds, rng


@given(tables(), st.booleans(), st.sampled_from([0, 3]), st.floats(0, 0.9))
@settings(max_examples=60)
def test_codes_and_values_lead_to_the_same_leaf(table, random_cuts, n_classes, share):
    X, kinds, rng = table
    rows = np.arange(len(X), dtype=np.int32)
    y = rng.integers(3, size=len(X)).astype(float)
    data = DMatrix(X, feature_types=kinds, enable_categorical=True)
    codes = Codes.of(data)
    criterion = "entropy" if n_classes else "squared_error"
    targets = Targets.of(y, None, n_classes, criterion, len(X))
    rules = Rules(1, random_cuts=random_cuts, seed=int(rng.integers(99)))
    bag = Bags(rows, len(X), len(X), rules.seed).of(0)
    workspace = Workspace(codes, targets, rules, len(X))
    grown = grow(0, codes, targets, rules, bag.rows, bag.times, workspace)
    path = pruning_path(grown, len(X), 1.0)
    grown = cut_back(grown, path, share * path.alphas[-1])
    tree = as_tree(
        grown, codes, targets.means_of(grown.sums), targets.weights_of(grown.sums)
    )
    booster = as_booster([tree], data, codes, targets, (0.0, 2.0), 1)
    leaves = booster.predict(data, pred_leaf=True).reshape(-1).astype(int)
    np.testing.assert_array_equal(leaves, grown.leaves_of(codes, rows))
    # Every row of the bag is where its tree has counted it.
    drawn = np.bincount(leaves, bag.times, grown.nodes.size)
    is_leaf = grown.nodes["left"] < 0
    np.testing.assert_allclose(tree.cover[is_leaf], drawn[is_leaf])
    predicted = targets.means_of(grown.sums)[leaves]
    np.testing.assert_allclose(booster.predict(data), predicted, atol=1e-6)


def test_features_of_many_values_are_cut_at_quantiles():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 1))
    data = DMatrix(X)
    codes = Codes.of(data, max_bin=100)
    assert 90 <= codes.bins[0] <= 100
    y = (X[:, 0] > 0.5).astype(float)
    targets = Targets.of(y, None, 2, "gini", 1000)
    rows = np.arange(1000, dtype=np.int32)
    rules = Rules(1, max_depth=1)
    workspace = Workspace(codes, targets, rules, 1000)
    grown = grow(0, codes, targets, rules, rows, None, workspace)
    assert grown.thresholds[0] == pytest.approx(0.5, abs=0.03)
    left = grown.leaves_of(codes, rows) == 1
    np.testing.assert_array_equal(left, X[:, 0] < grown.thresholds[0])
    # The threshold lies between two values, in the middle.
    low, high = X[left].max(), X[~left].min()
    assert grown.thresholds[0] == (low + high) / 2
