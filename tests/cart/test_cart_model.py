"""CART trees as boosters: bins and values lead a row to the same leaf."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam import DMatrix
from hornbeam.cart.bagging import BootstrapSampler
from hornbeam.cart.binned_features import BinnedFeatures
from hornbeam.cart.model import as_booster, as_tree
from hornbeam.cart.pruning import prune, pruning_path
from hornbeam.cart.targets import Targets
from hornbeam.cart.tree_builder import GrowthParams, Workspace, build_tree


@st.composite
def tables(draw):
    """Draw columns of normal, near-equal, integer, large and categorical values."""
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
@examples(60)
def test_bins_and_values_lead_to_the_same_leaf(table, random_cuts, n_classes, share):
    X, kinds, rng = table
    rows = np.arange(len(X), dtype=np.int32)
    y = rng.integers(3, size=len(X)).astype(float)
    data = DMatrix(X, feature_types=kinds, enable_categorical=True)
    features = BinnedFeatures.of(data)
    criterion = "entropy" if n_classes else "squared_error"
    targets = Targets.of(y, None, n_classes, criterion, len(X))
    params = GrowthParams(1, random_cuts=random_cuts, seed=int(rng.integers(99)))
    sample = BootstrapSampler(rows, len(X), len(X), params.seed).sample(0)
    workspace = Workspace(features, targets, params, len(X))
    tree = build_tree(
        0, features, targets, params, sample.rows, sample.counts, workspace
    )
    path = pruning_path(tree, len(X), 1.0)
    tree = prune(tree, path, share * path.alphas[-1])
    converted = as_tree(
        tree, features, targets.node_means(tree.sums), targets.node_weights(tree.sums)
    )
    booster = as_booster([converted], data, features, targets, (0.0, 2.0), 1)
    leaves = booster.predict(data, pred_leaf=True).reshape(-1).astype(int)
    np.testing.assert_array_equal(leaves, tree.apply(features, rows))
    # The cover of a leaf is the number of sampled rows in it.
    drawn = np.bincount(leaves, sample.counts, tree.nodes.size)
    is_leaf = tree.nodes["left"] < 0
    np.testing.assert_allclose(converted.cover[is_leaf], drawn[is_leaf])
    predicted = targets.node_means(tree.sums)[leaves]
    np.testing.assert_allclose(booster.predict(data), predicted, atol=1e-6)


def test_features_of_many_values_are_cut_at_quantiles():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 1))
    data = DMatrix(X)
    features = BinnedFeatures.of(data, max_bin=100)
    assert 90 <= features.n_bins[0] <= 100
    y = (X[:, 0] > 0.5).astype(float)
    targets = Targets.of(y, None, 2, "gini", 1000)
    rows = np.arange(1000, dtype=np.int32)
    params = GrowthParams(1, max_depth=1)
    workspace = Workspace(features, targets, params, 1000)
    tree = build_tree(0, features, targets, params, rows, None, workspace)
    assert tree.thresholds[0] == pytest.approx(0.5, abs=0.03)
    left = tree.apply(features, rows) == 1
    np.testing.assert_array_equal(left, X[:, 0] < tree.thresholds[0])
    # The threshold is the midpoint of two neighbouring values.
    low, high = X[left].max(), X[~left].min()
    assert tree.thresholds[0] == (low + high) / 2
