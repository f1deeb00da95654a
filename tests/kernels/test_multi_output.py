"""Multi-output kernels against reference implementations in exact fractions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import naive
import numpy as np
import pytest
from kernel_calls import N_THREADS as THREADS
from kernel_calls import call, split_rules
from test_predict import FEATURES, TYPES, in_type, random_rows, random_tree
from test_split import RULES, random_codes

from hornbeam.forest.layout import Layout
from hornbeam.kernels.layout import FEATURE_DTYPE, SPLIT_DTYPE
from hornbeam.kernels.multi_output import (
    SHARE,
    MultiOutputBuffers,
    add_multi_output_trees,
    find_multi_output_splits,
    mix_outputs,
    weigh_children,
)
from hornbeam.kernels.node_constraints import NodeConstraints
from hornbeam.kernels.predict import PREDICT_ROWS, DescentScratch
from hornbeam.kernels.split import CandidateFeatures, NodeHistograms, find_splits

SCALES = 2.0 ** -np.array([[10, 12], [8, 11], [12, 10], [9, 9]])


class Data:
    """Bins of a few features in rows, and gradient histograms of some nodes.

    There is one histogram per gradient column and node.
    """

    def __init__(self, bins, n_bins, columns=3, nodes=1, seed=0, categorical=()):
        rng = np.random.default_rng(seed)
        rows = len(bins[0])
        self.bins, self.n_bins, self.categorical = bins, np.array(n_bins), categorical
        widths = [
            n + (max(column) == n) for column, n in zip(bins, n_bins, strict=True)
        ]
        self.offsets = np.concatenate([[0], np.cumsum(widths)])
        self.scales = SCALES[:columns]
        self.histograms = np.zeros((columns, nodes, 2, self.offsets[-1]), np.int64)
        self.parents = [[], []]
        for s in range(columns):
            g = rng.integers(-90_000, 90_000, rows)
            h = rng.integers(1, 90_000, rows)
            for node in range(nodes):
                own = np.arange(node, rows, nodes)
                pairs = np.stack([g, h], axis=1)
                every = range(len(bins))
                sums = naive.histogram(bins, self.offsets, every, own, pairs)
                self.histograms[s, node] = sums

    def find(self, rules, block=None, threads=1, allowed=None, limits=None):
        """Return the best splits, (nodes, tasks a node)."""
        columns, nodes = len(self.scales), self.histograms.shape[1]
        block = self.n_bins.size if block is None else block
        splits = np.zeros((nodes, -(-self.n_bins.size // block)), SPLIT_DTYPE)
        features = np.zeros(self.n_bins.size, FEATURE_DTYPE)
        features["bins"], features["cell"] = self.n_bins, self.offsets[:-1]
        features["is_categorical"][list(self.categorical)] = 1
        most = int(self.n_bins[list(self.categorical)].max(initial=0))
        words = -(-most // 64)
        self.sets = np.full((*splits.shape, words), 7, np.uint64 if words else np.uint8)
        self.searched = NodeHistograms(
            self.histograms,
            np.arange(nodes),
            *np.array(self.parents, np.int64),
            features,
            self.offsets[:2],
        )
        call(
            find_multi_output_splits,
            self.searched,
            CandidateFeatures(
                np.arange(self.n_bins.size, dtype=np.uint64),
                np.empty((0, 0), np.uint8) if allowed is None else allowed,
                block,
            ),
            self.scales,
            split_rules(*rules),
            limits,
            MultiOutputBuffers(
                np.full((threads, 7, 2 * self.n_bins.max() + 2), np.nan),
                np.full((threads, columns, most + 2), np.nan),
                np.full((threads, columns), np.nan),
                np.empty((threads, columns, 2), np.int64),
            ),
            splits,
            self.sets,
            n_threads=threads,
        )
        return splits

    def check(self, split, node, rules):
        """Assert that `split` is that of the reference implementation."""
        exact = naive.best_multi_output_split(
            self.histograms[:, node],
            self.offsets,
            self.n_bins.tolist(),
            self.scales,
            [*rules, 4, 64][:6],
            self.categorical,
        )
        if exact is None or exact[0] <= 0:
            assert split["gain"] <= 1e-12
            return
        gain, feature, chosen, missing_left, _ = exact
        if feature in self.categorical:
            assert self.rights_of(node) == chosen
            chosen = 0
        found = split[["feature", "bin", "missing_left"]].item()
        assert found == (feature, chosen, missing_left)
        assert split["gain"] == pytest.approx(float(gain), rel=1e-9, abs=1e-9)
        assert 0 < split["left_hessian"] < split["total_hessian"] == SHARE

    def rights_of(self, node):
        """Return the categories that go right in the split that was found last."""
        words = self.sets[node, 0].tolist()
        return tuple(c for c in range(64 * len(words)) if words[c // 64] >> c % 64 & 1)


@pytest.mark.parametrize("rules", RULES.values(), ids=list(RULES))
@pytest.mark.parametrize("missing", [[], [1, 3], [0, 1, 2, 3]])
def test_best_split_of_all_columns(missing, rules):
    n_bins = [7, 5, 1, 9]
    for seed in range(3):
        bins = random_codes(60, n_bins, missing, seed)
        data = Data(bins, n_bins, 1 + seed, 2, seed)
        splits = data.find(rules)
        for node in range(2):
            data.check(splits[node, 0], node, rules)


@pytest.mark.parametrize("rules", RULES.values(), ids=list(RULES))
def test_one_category_against_the_rest(rules):
    n_bins = [3, 3, 6]
    for seed in range(3):
        bins = random_codes(60, n_bins, [1], seed)
        data = Data(bins, n_bins, 3, 1, seed, categorical=(0, 1))
        data.check(data.find(rules)[0, 0], 0, rules)


def test_min_child_weight_bounds_the_mean_hessian_of_the_columns():
    # The hessians of the left side are 2 and 10.
    data = Data([[0, 0, 1, 1]], [2], columns=2)
    data.histograms[:, 0, 0] = [[3000, -3000], [2000, -2000]]
    data.scales = np.ones((2, 2))
    data.histograms[:, 0, 1] = [[2, 50], [10, 50]]
    for least, found in ((6.0, 0), (6.001, -1)):
        assert data.find([1, 0, 0, least])["feature"].item() == found


#: Constraints on a node with three gradient columns and four features, of which the
#: last one is categorical.
UNCONSTRAINED = {
    "directions": [0, 0, 0, 0],
    "bounds": [(-np.inf, np.inf)] * 3,
    "weights": None,
    "costs": None,
    "cost_of_rows": False,
    "least_rows": 0,
    "smooth": 0.0,
}
CASES = {
    "none": {},
    "rising": {"directions": [1, 1, 1, 0]},
    "falling": {"directions": [-1, -1, 0, 0]},
    "bounds": {"bounds": [(-0.25, 0.125), (0.25, np.inf), (-np.inf, np.inf)]},
    "rows": {"least_rows": 17},
    "smooth": {"smooth": 12.0},
    "smooth, towards weights": {"smooth": 30.0, "weights": [0.75, 0.0, -2.0]},
    "costs": {"costs": [40.0, 1.0, 0.0, 15.0]},
    "costs of rows": {"costs": [0.5, 0.0, 0.25, 0.125], "cost_of_rows": True},
    "max_delta_step": {"rules": [1.0, 2.0, 0.25, 8.0], "directions": [1, -1, 0, 0]},
    "one-hot": {"rules": [1.0, 0.0, 0.0, 1.0, 9, 64], "least_rows": 7},
    "all": {
        "rules": [0.5, 3.0, 0.75, 8.0],
        "directions": [1, -1, 1, 0],
        "bounds": [(-0.5, 0.5), (-1.0, 0.25), (-np.inf, 0.0)],
        "costs": [1.0, 0.5, 3.0, 0.0],
        "least_rows": 6,
        "smooth": 5.0,
    },
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(4))
def test_best_split_under_constraints(case, seed):
    constraints = {**UNCONSTRAINED, **CASES[case]}
    rules = [*constraints.pop("rules", [1.0, 0.0, 0.0, 1.0]), 4, 64][:6]
    n_bins = [7, 5, 9, 3]
    bins = random_codes(90, n_bins, [1, 2, 3], seed)
    data = Data(bins, n_bins, 3, 1, seed, categorical=(3,))
    every = np.ones((90, 2), np.int64)
    rows = naive.histogram(bins, data.offsets, range(4), range(90), every)
    counts = rows[1].copy()
    rows[0] = 0
    scales = data.scales
    totals = [
        [int(part[: data.offsets[1]].sum()) * Fraction(scale) for part, scale in pairs]
        for pairs in (
            zip(own, pair, strict=True)
            for own, pair in zip(data.histograms[:, 0], scales.tolist(), strict=True)
        )
    ]
    exact_rules = [Fraction(float(rule)) for rule in rules]
    weights = constraints["weights"] or [
        naive.leaf_weight(*pair, *exact_rules[:3]) for pair in totals
    ]
    constraints["weights"] = [
        Fraction(max(low, min(high, weight)))
        for (low, high), weight in zip(constraints["bounds"], weights, strict=True)
    ]
    data.histograms = np.concatenate([data.histograms, rows[None, None]])
    node_weights = CASES[case].get("weights") or [np.nan] * 3
    limits = NodeConstraints(
        np.array([constraints["bounds"]]),
        np.array([node_weights]),
        np.array(constraints["directions"], np.int8),
        np.array(constraints["costs"] or [], np.float64),
        np.zeros((1, 1), np.uint64),
        constraints["cost_of_rows"],
        sides=np.full((1, 3, 2), np.nan),
    )
    all_rules = [*rules, constraints["least_rows"], constraints["smooth"]]
    split = data.find(all_rules, limits=limits)[0]
    charged_rows = 90 if constraints["cost_of_rows"] else 1
    constraints["costs"] = [
        charged_rows * Fraction(cost) for cost in constraints["costs"] or [0.0] * 4
    ]
    constraints["smooth"] = Fraction(constraints["smooth"])
    best = naive.best_multi_output_split(
        data.histograms[:3, 0],
        data.offsets,
        n_bins,
        scales,
        rules,
        (3,),
        counts,
        constraints,
    )
    if best is None or best[0] <= 0:
        assert split["gain"] <= 1e-9
        return
    gain, feature, chosen, missing_left, sides = best
    if feature == 3:
        assert data.rights_of(0) == chosen
        chosen = 0
    found = split[["feature", "bin", "missing_left"]][0].item()
    assert found == (feature, chosen, missing_left)
    assert split["gain"][0] == pytest.approx(float(gain), rel=1e-9, abs=1e-9)
    assert split["total_rows"] == 90
    sets = data.sets[:, 0].view(np.uint64)
    weigh_children(data.searched, scales, split_rules(*all_rules), limits, split, sets)
    np.testing.assert_allclose(limits.sides[0], np.array(sides, float), rtol=1e-12)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("block", [1, 2, 3])
def test_many_tasks_find_the_split_of_one_task(threads, block):
    n_bins = [5, 4, 6]
    data = Data(random_codes(50, n_bins, [0], 1), n_bins, 4, 3)
    whole = data.find(RULES["plain"])[:, 0]
    parts = data.find(RULES["plain"], block, threads)
    best = parts[np.arange(3), parts["gain"].argmax(axis=1)]
    np.testing.assert_array_equal(best, whole)


def test_only_allowed_features_are_searched():
    n_bins = [5, 4, 6]
    data = Data(random_codes(50, n_bins, [], 1), n_bins, 2, 2)
    allowed = np.array([[0, 1, 0], [0, 0, 1]], np.uint8)
    found = data.find(RULES["no lambda"], allowed=allowed)[:, 0]
    assert found["feature"].tolist() == [1, 2]


def test_siblings_are_subtracted_from_their_parents():
    n_bins = [5, 4]
    data = Data(random_codes(40, n_bins, [], 2), n_bins, 3, 2)
    expected = data.find(RULES["plain"])
    # Slot 1 has the histograms of the parent, slot 0 those of the built child.
    data.histograms[:, 1] += data.histograms[:, 0]
    data.parents = [[0], [1]]
    np.testing.assert_array_equal(data.find(RULES["plain"]), expected)


def single_output_split(data, rules):
    """Return the split that `find_splits` finds in the first gradient column."""
    features = np.zeros(data.n_bins.size, FEATURE_DTYPE)
    features["bins"], features["cell"] = data.n_bins, data.offsets[:-1]
    features["is_categorical"][list(data.categorical)] = 1
    splits = np.zeros((1, 1), SPLIT_DTYPE)
    sets = np.zeros((1, 1, 1), np.uint64)
    call(
        find_splits,
        NodeHistograms(
            data.histograms[0].copy(),
            np.zeros(1, np.int64),
            *np.empty((2, 0), np.int64),
            features,
            data.offsets[:2],
        ),
        CandidateFeatures(
            np.arange(data.n_bins.size, dtype=np.uint64),
            np.empty((0, 0), np.uint8),
            data.n_bins.size,
        ),
        data.scales[0],
        split_rules(*rules),
        None,
        np.full((1, 6, 2 * data.n_bins.max() + 2), np.nan),
        splits,
        sets,
    )
    return splits[0, 0]


@pytest.mark.parametrize(
    "shrinkage",
    [
        [],
        [0, 0, 30, 0, 0.5, 0],
        [0, 0, 0, 20, -np.inf, 0],
        [0, 0, 5, 3, 1, 4],
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", range(6))
def test_categories_of_one_column_are_split_as_in_single_output_trees(seed, shrinkage):
    n_bins = [11, 4]
    bins = random_codes(90, n_bins, [0] if seed % 2 else [], seed)
    data = Data(bins, n_bins, 1, 1, seed, categorical=(0,))
    rules = [1, 0, 0, 0, *([4, 64, *shrinkage] if shrinkage else [])]
    split = data.find(rules)[0, 0]
    expected = single_output_split(data, rules)
    assert split["feature"] == expected["feature"]
    assert split["gain"] == pytest.approx(expected["gain"], rel=1e-12)


def test_categories_are_sorted_by_their_first_principal_component():
    """Two kinds of categories differ in all columns together more than in each."""
    rng = np.random.default_rng(0)
    n_categories, columns = 24, 4
    kinds = rng.integers(2, size=n_categories)
    bins = np.repeat(np.arange(n_categories), 5)
    data = Data([bins.tolist()], [n_categories], columns, categorical=(0,))
    data.scales = np.full((columns, 2), 2.0**-10)
    noise = rng.normal(size=(columns, n_categories))
    signs = np.array([1, -1, 1, -1])[:, None]
    g = (2 * kinds - 1) * signs * 1.5 + noise
    data.histograms[:, 0, 0] = np.rint(g * 5 * 2**10)
    data.histograms[:, 0, 1] = 5 * 2**10
    split = data.find([1, 0, 0, 0])[0, 0]
    rights = np.zeros(n_categories, bool)
    rights[list(data.rights_of(0))] = True
    weights = g / 1.2
    centred = weights - weights.mean(axis=1, keepdims=True)
    _, vectors = np.linalg.eigh(centred @ centred.T)
    projection = vectors[:, -1] @ weights
    # One set has the least projections, the other one the greatest.
    assert projection[rights].min() > projection[~rights].max() or (
        projection[rights].max() < projection[~rights].min()
    )
    assert np.mean(rights == kinds) in (0.0, 1.0) and split["gain"] > 0


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("dtype", TYPES)
def test_projections_of_gradients_and_mean_hessians(dtype, threads):
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(5, 300)).astype(dtype)
    hessians = rng.random((5, 300)).astype(dtype)
    mix = rng.normal(size=(2, 5))
    mixed, means = np.empty((2, 300)), np.empty(300)
    call(mix_outputs, mix, gradients, hessians, mixed, means, n_threads=threads)
    np.testing.assert_allclose(mixed, mix @ gradients.astype(float), atol=1e-12)
    np.testing.assert_allclose(means, hessians.mean(axis=0, dtype=float), rtol=1e-12)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("dtype", TYPES)
def test_leaf_values_are_added_to_the_margins_of_their_output(dtype, missing, threads):
    rng = np.random.default_rng(0)
    outputs = 3
    trees = [
        random_tree(rng, 0),
        random_tree(rng, 6),
        random_tree(rng, 20, deep=True),
        random_tree(rng, 5, categorical=(1,)),
    ]
    trees = [
        replace(tree, value=tree.value[:, None] * rng.random(outputs).astype("f4"))
        for tree in trees
    ]
    rows = random_rows(rng, 2 * PREDICT_ROWS + 5, dtype, missing)
    start = rng.normal(size=(len(rows), outputs)).astype(dtype)
    layout = Layout.of(trees, [0] * len(trees), rows.dtype, FEATURES)
    margins = start.copy()
    call(
        add_multi_output_trees,
        rows,
        layout.roots,
        layout.packed,
        layout.values,
        DescentScratch.of(threads, PREDICT_ROWS),
        margins,
        n_threads=threads,
    )
    expected = start.copy()
    for tree in trees:
        expected += naive.predict_tree(in_type(tree, dtype), rows)
    np.testing.assert_array_equal(margins, expected)
