"""CART trees: each node has the best of all splits that the stopping rules allow."""

from __future__ import annotations

import naive_cart
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam import DMatrix
from hornbeam.cart.binned_features import BinnedFeatures
from hornbeam.cart.targets import Targets
from hornbeam.cart.tree_builder import GrowthParams, Workspace, build_tree

CRITERIA = ["squared_error", "gini", "entropy", "error"]


def build(
    X, y, criterion, params=None, kinds=None, weights=None, sample=None, counts=None
):
    """Return the binned features, the targets and the tree."""
    n_classes = 0 if criterion == "squared_error" else max(2, int(y.max()) + 1)
    features = BinnedFeatures.of(
        DMatrix(X, feature_types=kinds, enable_categorical=True)
    )
    targets = Targets.of(y, weights, n_classes, criterion, 4 * y.size)
    rows = np.arange(y.size, dtype=np.int32) if sample is None else sample
    params = params or GrowthParams(X.shape[1])
    workspace = Workspace(features, targets, params, rows.size)
    return (
        features,
        targets,
        build_tree(0, features, targets, params, rows, counts, workspace),
    )


def rows_of_nodes(features, tree, rows):
    """Return the rows of each node, by the path of each row."""
    here = {node: [] for node in range(tree.nodes.size)}
    for row, leaf in zip(rows, tree.apply(features, rows), strict=True):
        while leaf >= 0:
            here[int(leaf)].append(row)
            leaf = tree.nodes["parent"][leaf]
    return {node: np.array(own, np.int64) for node, own in here.items()}


def check(X, y, criterion, params, kinds, weights, counts):
    """Assert that each node has the best split, or no split that is allowed."""
    sample = np.flatnonzero(counts).astype(np.int32)
    features, targets, tree = build(
        X, y, criterion, params, kinds, weights, sample, counts.astype(np.int32)
    )
    total = weights * counts
    by_category = [kind == "c" for kind in kinds]
    nodes = tree.nodes
    gains = np.zeros(nodes.size)
    for node, own in rows_of_nodes(features, tree, sample).items():
        here, values, w = X[own], y[own], total[own]
        sums = tree.sums[node]
        assert targets.node_weights(sums[None])[0] == pytest.approx(w.sum())
        possible = list(
            naive_cart.gains(
                here,
                by_category,
                values,
                w,
                targets.n_classes,
                criterion,
                params.min_samples_leaf,
                params.min_weight_leaf,
            )
        )
        best = max(possible, default=-np.inf)
        if (
            own.size < params.min_samples_split
            or nodes["depth"][node] >= (params.max_depth or 99)
            or np.unique(values).size == 1
        ):
            best = -np.inf
        gains[node] = best
        left = nodes["left"][node]
        if left < 0:
            if params.max_leaf_nodes is None:
                assert best < params.min_gain + 1e-9
            continue
        assert nodes["gain"][node] == pytest.approx(best, rel=1e-9, abs=1e-9)
        assert best > params.min_gain - 1e-9
        goes_left = np.isin(own, rows_below(nodes, features, tree, sample, left))
        assert naive_cart.gain(criterion, values, w, goes_left) == pytest.approx(
            best, rel=1e-9, abs=1e-9
        )
        check_cut(tree, node, here[:, nodes["feature"][node]], by_category, goes_left)
    check_order(nodes, gains, params)


def rows_below(nodes, features, tree, rows, top):
    leaves = tree.apply(features, rows)
    below = np.zeros(nodes.size, bool)
    below[top] = True
    for node in range(top + 1, nodes.size):
        below[node] = below[nodes["parent"][node]] and node != top + 1
    return rows[below[leaves]]


def check_cut(tree, node, x, by_category, goes_left):
    """Assert that the threshold is a midpoint, and where unseen values go."""
    split = tree.nodes[node]
    known = ~np.isnan(x)
    if known.all():
        assert split["missing_left"] == (2 * np.count_nonzero(~goes_left) <= x.size)
    if by_category[split["feature"]]:
        begin = split["first_category"]
        right = tree.categories[begin : begin + split["n_categories"]]
        # Categories that the node does not contain go left.
        np.testing.assert_array_equal(right, np.unique(x[known & ~goes_left]))
        assert np.isnan(tree.thresholds[node])
        return
    low = x[known & goes_left].max()
    right_values = x[known & ~goes_left]
    assert tree.thresholds[node] > low
    if right_values.size:
        assert tree.thresholds[node] == (low + right_values.min()) / 2
    else:  # the split only separates missing values
        assert tree.thresholds[node] == np.finfo(np.float32).max


def check_order(nodes, gains, params):
    """Assert that a tree with max_leaf_nodes grew best-first."""
    n_leaves = np.count_nonzero(nodes["left"] < 0)
    if params.max_leaf_nodes is None:
        return
    open_nodes = {0} if gains[0] >= params.min_gain else set()
    for left in range(1, nodes.size, 2):
        node = nodes["parent"][left]
        assert gains[node] > max(gains[list(open_nodes)]) - 1e-9
        open_nodes.remove(node)
        open_nodes |= {c for c in (left, left + 1) if gains[c] > params.min_gain - 1e-9}
    assert n_leaves <= params.max_leaf_nodes
    if n_leaves < params.max_leaf_nodes:
        assert all(gains[node] < params.min_gain + 1e-9 for node in open_nodes)


@st.composite
def tables(draw):
    """Draw rows with few distinct and some missing values, and their counts."""
    n_rows, n_features = draw(st.integers(2, 24)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.integers(draw(st.integers(1, 9)), size=(n_rows, n_features)).astype(float)
    kinds = [draw(st.sampled_from("qc")) for _ in range(n_features)]
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.2, 0.9]))] = np.nan
    for f in range(n_features):
        if np.isnan(X[:, f]).all():
            X[0, f] = 0
    weights = rng.integers(1, draw(st.sampled_from([2, 9])), size=n_rows) / 4
    counts = rng.integers(draw(st.integers(0, 1)), 3, size=n_rows)
    counts[0] += not counts.any()
    return X, kinds, weights, counts, rng


PARAMS = st.builds(
    GrowthParams,
    max_features=st.just(3),
    max_depth=st.none() | st.integers(1, 4),
    max_leaf_nodes=st.none() | st.integers(2, 6),
    min_samples_split=st.integers(2, 6),
    min_samples_leaf=st.integers(1, 3),
    min_weight_leaf=st.sampled_from([0.0, 0.0, 1.1]),
    min_gain=st.sampled_from([0.0, 0.0, 0.3]),
)


@pytest.mark.parametrize("criterion", CRITERIA)
@given(tables(), PARAMS, st.integers(2, 5))
@examples(40)
def test_each_split_is_the_best_that_is_allowed(criterion, table, params, levels):
    X, kinds, weights, counts, rng = table
    y = rng.integers(levels, size=len(X)).astype(float)
    check(X, y, criterion, params, kinds, weights, counts)
