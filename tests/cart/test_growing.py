"""Whole trees: at each node the best split of all, whatever the rules and the data."""

from __future__ import annotations

import naive_cart
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam import DMatrix
from hornbeam.cart.codes import Codes
from hornbeam.cart.growing import Rules, Workspace, grow
from hornbeam.cart.targets import Targets

CRITERIA = ["squared_error", "gini", "entropy", "error"]


def planted(
    X, y, criterion, rules=None, kinds=None, weights=None, bag=None, times=None
):
    """Return a tree, and what it was grown on."""
    n_classes = 0 if criterion == "squared_error" else max(2, int(y.max()) + 1)
    codes = Codes.of(DMatrix(X, feature_types=kinds, enable_categorical=True))
    targets = Targets.of(y, weights, n_classes, criterion, 4 * y.size)
    rows = np.arange(y.size, dtype=np.int32) if bag is None else bag
    rules = rules or Rules(X.shape[1])
    workspace = Workspace(codes, targets, rules, rows.size)
    return codes, targets, grow(0, codes, targets, rules, rows, times, workspace)


def rows_of_nodes(codes, grown, rows):
    """Return the rows of each node, by the way of each row."""
    here = {node: [] for node in range(grown.nodes.size)}
    for row, leaf in zip(rows, grown.leaves_of(codes, rows), strict=True):
        while leaf >= 0:
            here[int(leaf)].append(row)
            leaf = grown.nodes["parent"][leaf]
    return {node: np.array(own, np.int64) for node, own in here.items()}


def check(X, y, criterion, rules, kinds, weights, times):
    """Assert that each node is split as well as can be, or is rightly a leaf."""
    bag = np.flatnonzero(times).astype(np.int32)
    codes, targets, grown = planted(
        X, y, criterion, rules, kinds, weights, bag, times.astype(np.int32)
    )
    total = weights * times
    by_category = [kind == "c" for kind in kinds]
    nodes = grown.nodes
    gains = np.zeros(nodes.size)
    for node, own in rows_of_nodes(codes, grown, bag).items():
        here, values, w = X[own], y[own], total[own]
        sums = grown.sums[node]
        assert targets.weights_of(sums[None])[0] == pytest.approx(w.sum())
        possible = list(
            naive_cart.gains(
                here,
                by_category,
                values,
                w,
                targets.n_classes,
                criterion,
                rules.min_samples_leaf,
                rules.min_weight_leaf,
            )
        )
        best = max(possible, default=-np.inf)
        if (
            own.size < rules.min_samples_split
            or nodes["depth"][node] >= (rules.max_depth or 99)
            or np.unique(values).size == 1
        ):
            best = -np.inf
        gains[node] = best
        left = nodes["left"][node]
        if left < 0:
            if rules.max_leaf_nodes is None:
                assert best < rules.min_gain + 1e-9
            continue
        assert nodes["gain"][node] == pytest.approx(best, rel=1e-9, abs=1e-9)
        assert best > rules.min_gain - 1e-9
        goes_left = np.isin(own, rows_below(nodes, codes, grown, bag, left))
        assert naive_cart.gain(criterion, values, w, goes_left) == pytest.approx(
            best, rel=1e-9, abs=1e-9
        )
        check_cut(grown, node, here[:, nodes["feature"][node]], by_category, goes_left)
    check_order(nodes, gains, rules)


def rows_below(nodes, codes, grown, rows, top):
    leaves = grown.leaves_of(codes, rows)
    below = np.zeros(nodes.size, bool)
    below[top] = True
    for node in range(top + 1, nodes.size):
        below[node] = below[nodes["parent"][node]] and node != top + 1
    return rows[below[leaves]]


def check_cut(grown, node, x, by_category, goes_left):
    """Assert that the cut of a node lies in the middle, and where others go."""
    split = grown.nodes[node]
    known = ~np.isnan(x)
    if known.all():
        assert split["missing_left"] == (2 * np.count_nonzero(~goes_left) <= x.size)
    if by_category[split["feature"]]:
        begin = split["first_category"]
        right = grown.categories[begin : begin + split["n_categories"]]
        # What the node does not have goes left.
        np.testing.assert_array_equal(right, np.unique(x[known & ~goes_left]))
        assert np.isnan(grown.thresholds[node])
        return
    low = x[known & goes_left].max()
    others = x[known & ~goes_left]
    assert grown.thresholds[node] > low
    if others.size:
        assert grown.thresholds[node] == (low + others.min()) / 2
    else:  # it asks only whether there is a value
        assert grown.thresholds[node] == np.finfo(np.float32).max


def check_order(nodes, gains, rules):
    """Assert that the best split was made first, where leaves are counted."""
    n_leaves = np.count_nonzero(nodes["left"] < 0)
    if rules.max_leaf_nodes is None:
        return
    open_nodes = {0} if gains[0] >= rules.min_gain else set()
    for left in range(1, nodes.size, 2):
        node = nodes["parent"][left]
        assert gains[node] > max(gains[list(open_nodes)]) - 1e-9
        open_nodes.remove(node)
        open_nodes |= {c for c in (left, left + 1) if gains[c] > rules.min_gain - 1e-9}
    assert n_leaves <= rules.max_leaf_nodes
    if n_leaves < rules.max_leaf_nodes:
        assert all(gains[node] < rules.min_gain + 1e-9 for node in open_nodes)


@st.composite
def tables(draw):
    """Draw rows of few values, of which some are missing, and how often each counts."""
    n_rows, n_features = draw(st.integers(2, 24)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.integers(draw(st.integers(1, 9)), size=(n_rows, n_features)).astype(float)
    kinds = [draw(st.sampled_from("qc")) for _ in range(n_features)]
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.2, 0.9]))] = np.nan
    for f in range(n_features):
        if np.isnan(X[:, f]).all():
            X[0, f] = 0
    weights = rng.integers(1, draw(st.sampled_from([2, 9])), size=n_rows) / 4
    times = rng.integers(draw(st.integers(0, 1)), 3, size=n_rows)
    times[0] += not times.any()
    return X, kinds, weights, times, rng


RULES = st.builds(
    Rules,
    max_features=st.just(3),
    max_depth=st.none() | st.integers(1, 4),
    max_leaf_nodes=st.none() | st.integers(2, 6),
    min_samples_split=st.integers(2, 6),
    min_samples_leaf=st.integers(1, 3),
    min_weight_leaf=st.sampled_from([0.0, 0.0, 1.1]),
    min_gain=st.sampled_from([0.0, 0.0, 0.3]),
)


@pytest.mark.parametrize("criterion", CRITERIA)
@given(tables(), RULES, st.integers(2, 5))
@settings(max_examples=40)
def test_each_split_is_the_best_of_all(criterion, table, rules, levels):
    X, kinds, weights, times, rng = table
    y = rng.integers(levels, size=len(X)).astype(float)
    check(X, y, criterion, rules, kinds, weights, times)
