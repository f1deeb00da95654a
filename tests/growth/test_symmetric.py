"""Symmetric trees against a reference of their splits, and what may not change them."""

from __future__ import annotations

import json
from dataclasses import fields

import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from samples import few_values

import hornbeam
from hornbeam.kernels.jit import COMPILED
from hornbeam.params import GAIN_EPSILON

ROWS, LABELS = few_values(400, 4, missing=0.15, seed=5)
SYMMETRIC = {"grow_policy": "symmetric", "max_depth": 4, "eta": 1.0, "nthread": 1}
REGULARISED = {"lambda": 1.0, "alpha": 0.0, "max_delta_step": 0.0}

compiled = pytest.mark.skipif(not COMPILED, reason="long for plain Python")


def boosted(params, rows, gradients, hessians, types=None):
    """Return the first tree for these gradients."""
    data = hornbeam.DMatrix(rows, feature_types=types)
    booster = hornbeam.Booster({**SYMMETRIC, **params})
    booster.boost(data, 0, grad=gradients, hess=hessians)
    return booster.model.trees[0]


def trained(params, rounds=8, n_rows=400):
    data = hornbeam.DMatrix(ROWS[:n_rows], LABELS[:n_rows])
    return hornbeam.train({**SYMMETRIC, "eta": 0.3, **params}, data, rounds)


def splits_of_levels(tree):
    """Return the (feature, threshold, default_left) of each level of a complete tree.

    All nodes of a level have it, and nodes are numbered level by level.
    """
    depth = (tree.n_nodes + 1).bit_length() - 2
    assert tree.n_nodes == 2 ** (depth + 1) - 1
    inner = np.arange(2**depth - 1)
    assert tree.left[inner].tolist() == (2 * inner + 1).tolist()
    assert (tree.left[inner.size :] < 0).all()
    found = []
    for level in range(depth):
        nodes = range(2**level - 1, 2 ** (level + 1) - 1)
        starts = tree.category_starts
        (one,) = {
            (
                int(tree.feature[node]),
                None if tree.split_type[node] else float(tree.threshold[node]),
                int(tree.default_left[node]),
                tuple(tree.categories[starts[node] : starts[node + 1]].tolist()),
            )
            for node in nodes
        }
        found.append(one)
    return found


def goes_left(rows, split):
    feature, threshold, default_left, categories = split
    values = rows[:, feature]
    left = ~np.isin(values, categories) if threshold is None else values < threshold
    return np.where(np.isnan(values), default_left == 1, left)


# The reference


def weight(g, h, rules):
    pulled = np.sign(g) * max(abs(g) - rules["alpha"], 0.0)
    found = -pulled / (h + rules["lambda"])
    step = rules["max_delta_step"]
    return np.clip(found, -step, step) if step else found


def score(g, h, rules):
    w = weight(g, h, rules)
    loss = g * w + 0.5 * (h + rules["lambda"]) * w * w + rules["alpha"] * abs(w)
    return -2.0 * loss


def gain(left, node_of, g, h, least, rules):
    """Return the gain of a split, summed over the nodes with enough on both sides."""
    total = 0.0
    for node in np.unique(node_of):
        inside = node_of == node
        sums = [
            (g[inside & side].sum(), h[inside & side].sum()) for side in (left, ~left)
        ]
        if min(sums[0][1], sums[1][1]) >= max(least, 1e-300):
            whole = g[inside].sum(), h[inside].sum()
            total += sum(score(*one, rules) for one in sums) - score(*whole, rules)
    return total


def candidates(rows, types):
    """Yield the splits of rows in the order of ties."""
    for feature in range(rows.shape[1]):
        values = np.unique(rows[~np.isnan(rows[:, feature]), feature])
        has_missing = np.isnan(rows[:, feature]).any()
        if types[feature] == "c":
            for value in values.astype(int).tolist():
                for default_left in (1, 0):
                    yield feature, None, default_left, (value,)
            continue
        for place in range(1, values.size + 1):
            above = values[place] if place < values.size else np.inf
            yield feature, float(above), 0, ()
        if has_missing:
            for value in values[::-1].tolist():
                yield feature, value, 1, ()


def best_level_split(rows, types, node_of, g, h, least, rules):
    """Return the first candidate of the highest gain, and the gain."""
    best, highest = None, 1e-9
    for split in candidates(rows, types):
        left = goes_left(rows, split)
        own = gain(left, node_of, g, h, least, rules)
        if own > highest * (1 + 1e-12):
            best, highest = split, own
    return best, highest


@compiled
@pytest.mark.parametrize(
    ("rules", "least"),
    [
        ({}, 1.0),
        ({"lambda": 0.0}, 0.0),
        ({"alpha": 1.5, "lambda": 2.0}, 1.0),
        ({"max_delta_step": 0.3}, 1.0),
        ({}, 12.0),
    ],
    ids=["default", "free", "alpha", "max_delta_step", "min_child_weight"],
)
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_splits_are_those_of_the_reference(rules, least, missing):
    rng = np.random.default_rng(3)
    rows = rng.integers(9, size=(160, 4)).astype(np.float32)
    rows[rng.random(rows.shape) < missing] = np.nan
    types = ["float", "c", "float", "float"]
    # Multiples of 1/64 have exact sums.
    g = rng.integers(-99, 99, size=160) / 64 + (np.nan_to_num(rows[:, 1]) == 3)
    h = rng.integers(32, 64, size=160) / 64
    rules = {**REGULARISED, **rules}
    params = {**rules, "min_child_weight": least, "max_depth": 3}
    tree = boosted(params, rows, g, h, types)
    found = splits_of_levels(tree)
    node_of = np.zeros(160, int)
    gains = []
    for split in found:
        best, highest = best_level_split(rows, types, node_of, g, h, least, rules)
        left = goes_left(rows, split)
        assert split[0] == best[0] and split[3] == best[3]
        assert (left == goes_left(rows, best)).all()
        assert split[2] == best[2]
        gains.append(highest)
        node_of = 2 * node_of + ~left
    assert len(found) == 3
    levels = np.split(tree.gain[:7].astype(float), [1, 3])
    assert [level.sum() for level in levels] == pytest.approx(gains, rel=1e-5)
    # Leaves of too small a hessian have the weight of the nearest node above.
    for leaf in range(8):
        node, own = leaf, node_of == leaf
        shift = 0
        while shift < 3 and h[own].sum() < max(least, 1e-300):
            shift += 1
            own = node_of >> shift == node >> shift
        expected = weight(g[own].sum(), h[own].sum(), rules)
        assert tree.value[7 + leaf] == pytest.approx(expected, rel=1e-5)
        assert tree.cover[7 + leaf] == pytest.approx(h[node_of == leaf].sum())


def test_of_equal_gains_the_lowest_feature_and_the_first_direction_win():
    rows = np.array([[0, 0], [1, 1], [2, 2], [3, 3]], np.float32)
    tree = boosted(
        {"max_depth": 1, "min_child_weight": 0}, rows, [-1.0, -1, 1, 1], np.ones(4)
    )
    assert splits_of_levels(tree) == [(0, 2.0, 0, ())]


@given(data=st.data())
@examples(40)
def test_trees_are_complete_and_add_up(data):
    draw = data.draw
    n_rows = draw(st.integers(1, 60 if COMPILED else 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = rng.integers(5, size=(n_rows, 3)).astype(np.float32)
    rows[rng.random(rows.shape) < draw(st.sampled_from([0.0, 0.3]))] = np.nan
    g = rng.normal(size=n_rows)
    h = rng.random(n_rows)
    params = {
        "max_depth": draw(st.integers(1, 6 if COMPILED else 3)),
        "gamma": draw(st.sampled_from([0.0, 0.5])),
        "min_child_weight": draw(st.sampled_from([0.0, 0.5, 4.0])),
        "lambda": draw(st.sampled_from([0.0, 1.0])),
        "subsample": draw(st.sampled_from([1.0, 0.6])),
        "colsample_bylevel": draw(st.sampled_from([1.0, 0.5])),
        "max_cached_hist_node": draw(st.sampled_from([1, 12, 65536])),
    }
    types = draw(st.sampled_from([None, ["float", "c", "float"]]))
    tree = boosted(params, rows, g, h, types)
    levels = splits_of_levels(tree)
    assert len(levels) <= params["max_depth"]
    inner = tree.left >= 0
    assert tree.cover[inner] == pytest.approx(
        tree.cover[tree.left[inner]] + tree.cover[tree.right[inner]], rel=1e-5, abs=1e-6
    )
    assert np.isfinite(tree.value).all()
    for level in range(len(levels)):
        nodes = slice(2**level - 1, 2 ** (level + 1) - 1)
        assert tree.gain[nodes].sum() >= max(params["gamma"], GAIN_EPSILON) * 0.999
    full = boosted({**params, "max_cached_hist_node": 65536}, rows, g, h, types)
    for field in fields(tree):
        one, other = getattr(tree, field.name), getattr(full, field.name)
        assert one is other or one.tobytes() == other.tobytes()


# Where the tree is grown does not matter


@compiled
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"max_depth": 8, "min_child_weight": 0, "max_bin": 400},
        {"subsample": 0.5, "colsample_bytree": 0.7, "colsample_bynode": 0.6},
        {"objective": "binary:logistic", "max_cached_hist_node": 9},
        {"interaction_constraints": [[0, 1], [1, 2, 3]], "max_depth": 6},
        {"booster": "dart", "rate_drop": 0.4, "num_parallel_tree": 2},
        {"tree_method": "approx", "max_bin": 20},
        {"objective": "reg:absoluteerror", "leaf_solver": "line_search"},
    ],
    ids=lambda params: "-".join(params) or "default",
)
def test_the_model_does_not_depend_on_threads(params, thread_counts):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(60_000, 5)).astype(np.float32)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    labels = np.nan_to_num(rows[:, 0]) * np.nan_to_num(rows[:, 1]) > 0
    data = hornbeam.DMatrix(rows, labels.astype(np.float32))
    digests = {
        hornbeam.train({**SYMMETRIC, **params, "nthread": threads}, data, 2).digest()
        for threads in thread_counts
    }
    assert len(digests) == 1


class Batches(hornbeam.DataIter):
    """Three batches of the rows, in external memory."""

    def __init__(self, folder):
        super().__init__(cache_prefix=str(folder / "cache"))
        self.number = 0

    def next(self, input_data):
        if self.number == 3:
            return False
        own = slice(self.number, None, 3)
        input_data(data=ROWS[own], label=LABELS[own])
        self.number += 1
        return True

    def reset(self):
        self.number = 0


@compiled
@pytest.mark.parametrize("most", [65536, 9])
def test_external_memory_gives_the_same_model(tmp_path, most):
    params = {**SYMMETRIC, "max_cached_hist_node": most, "colsample_bylevel": 0.8}
    order = np.concatenate([np.arange(start, len(ROWS), 3) for start in range(3)])
    data = hornbeam.DMatrix(ROWS[order], LABELS[order])
    outside = hornbeam.ExtMemQuantileDMatrix(Batches(tmp_path))
    digests = {hornbeam.train(params, own, 4).digest() for own in (data, outside)}
    assert len(digests) == 1


def test_symmetric_tree_is_another_word_for_it():
    one, other = trained({}, 2), trained({"grow_policy": "SymmetricTree"}, 2)
    assert one.digest() == other.digest()


# What is drawn or allowed


def test_features_are_drawn_for_levels():
    booster = trained({"colsample_bylevel": 0.5, "colsample_bynode": 0.5}, 12)
    used = {
        split[0] for tree in booster.model.trees for split in splits_of_levels(tree)
    }
    assert used == {0, 1, 2, 3}


def test_interaction_constraints_hold_in_each_tree():
    booster = trained({"interaction_constraints": [[0, 2], [1, 3]]}, 12)
    groups = {
        frozenset(split[0] for split in splits_of_levels(tree))
        for tree in booster.model.trees
    }
    assert all(group <= {0, 2} or group <= {1, 3} for group in groups)
    assert len(frozenset().union(*groups)) > 2


def test_gamma_is_the_least_gain_of_a_level():
    free = trained({}, 1).model.trees[0]
    gains = [tree.sum() for tree in np.split(free.gain[:15].astype(float), [1, 3, 7])]
    limit = (gains[1] + max(gains[2:])) / 2
    tree = trained({"gamma": limit}, 1).model.trees[0]
    assert tree.n_nodes == 7


# Nodes without rows


@compiled
def test_leaves_without_rows_explain_and_predict_finite_values():
    rows = np.repeat(np.arange(5, dtype=np.float32), 20)[:, None]
    labels = np.array([0, 3, 1, 4, 2.0], np.float32)[rows[:, 0].astype(int)]
    data = hornbeam.DMatrix(rows, labels)
    booster = hornbeam.train({**SYMMETRIC, "min_child_weight": 0}, data, 3)
    tree = booster.model.trees[0]
    assert (tree.cover[tree.left < 0] == 0).any()
    margins = booster.predict(data)
    assert margins == pytest.approx(labels, abs=0.5)
    for options in (
        {"pred_contribs": True},
        {"pred_contribs": True, "approx_contribs": True},
        {"pred_interactions": True},
    ):
        shares = booster.predict(data, **options)
        assert np.isfinite(shares).all()
        sums = shares.reshape(len(rows), -1).sum(axis=1)
        assert sums == pytest.approx(margins, abs=1e-4)
    shares = booster.shap_values(data, background=data)
    assert shares.sum(axis=1) == pytest.approx(margins, abs=1e-4)
    assert "cover=0" in booster.get_dump(with_stats=True)[0]


def test_empty_leaves_of_line_search_have_value_zero():
    rows = np.repeat(np.arange(5, dtype=np.float32), 4)[:, None]
    labels = np.array([0, 3, 1, 4, 2.0], np.float32)[rows[:, 0].astype(int)]
    for objective in ("reg:absoluteerror", "reg:pseudohubererror"):
        params = {"objective": objective, "leaf_solver": "line_search"}
        params = {**SYMMETRIC, **params, "min_child_weight": 0}
        booster = hornbeam.train(params, hornbeam.DMatrix(rows, labels), 1)
        tree = booster.model.trees[0]
        empty = (tree.left < 0) & (tree.cover == 0)
        assert empty.any() and (tree.value[empty] == 0).all()


# Prediction by bit index, and files


def descended(tree, rows):
    """Return the leaf of each row, level by level."""
    node = np.zeros(len(rows), int)
    for split in splits_of_levels(tree):
        node = 2 * node + 2 - goes_left(rows, split)
    return node


@compiled
@pytest.mark.parametrize("depth", [1, 4, 8, 10])
@pytest.mark.parametrize("n_rows", [1, 3, 70, 9000])
@pytest.mark.parametrize("missing", [False, True])
def test_predictions_are_those_of_a_descent(depth, n_rows, missing):
    booster = trained({"max_depth": depth, "min_child_weight": 0}, 12)
    rng = np.random.default_rng(n_rows)
    rows = rng.integers(70, size=(n_rows, 4)).astype(np.float32) / 8
    if missing:
        rows[rng.random(rows.shape) < 0.3] = np.nan
    expected = np.full(n_rows, booster.model.base_score[0], np.float64)
    leaves = np.stack([descended(tree, rows) for tree in booster.model.trees], axis=1)
    for tree, own in zip(booster.model.trees, leaves.T, strict=True):
        expected += tree.value[own]
    data = hornbeam.DMatrix(rows)
    assert booster.predict(data) == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert (booster.inplace_predict(rows) == booster.predict(data)).all()
    assert (booster.predict(data, pred_leaf=True).reshape(leaves.shape) == leaves).all()


def test_symmetric_trees_are_recognised_in_any_model():
    from hornbeam.forest.layout import Layout

    symmetric = trained({}, 2).model.trees
    other = trained({"grow_policy": "depthwise"}, 2).model.trees
    trees = [*symmetric, *other]
    layout = Layout.of(trees, [0] * 4, np.float32, 4)
    assert layout.roots[:, 4].tolist() == [1, 1, 0, 0]
    # One threshold, one direction or one feature that differs.
    for name in ("threshold", "default_left", "feature"):
        tree = trained({}, 1).model.trees[0]
        values = getattr(tree, name)
        values[5] = 1 - values[5] if name == "default_left" else values[5] + 1
        layout = Layout.of([tree], [0], np.float32, 9)
        assert layout.roots[:, 4].tolist() == [0]


@compiled
@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic"])
@pytest.mark.parametrize("kind", ["json", "ubj"])
def test_xgboost_reads_the_file_and_predicts_the_same(tmp_path, objective, kind):
    labels = LABELS
    if objective == "binary:logistic":
        labels = (np.median(LABELS) < LABELS).astype(np.float32)
    rows = ROWS.copy()
    rows[:, 3] = np.floor(rows[:, 3])
    types = ["float", "float", "float", "c"]
    data = hornbeam.DMatrix(rows, labels, feature_types=types)
    params = {**SYMMETRIC, "objective": objective, "eta": 0.3}
    booster = hornbeam.train(params, data, 10)
    path = str(tmp_path / f"model.{kind}")
    booster.save_model(path)
    theirs = xgboost.Booster(model_file=path)
    their_data = xgboost.DMatrix(rows, feature_types=types, enable_categorical=True)
    for options in ({}, {"output_margin": True}, {"pred_leaf": True}):
        expected = theirs.predict(their_data, **options)
        own = booster.predict(data, **options)
        assert own == pytest.approx(expected, rel=1e-5, abs=1e-5)
    again = hornbeam.Booster(model_file=path)
    assert (again.predict(data) == booster.predict(data)).all()
    assert again.digest() == booster.digest()


@compiled
def test_a_model_that_xgboost_wrote_keeps_its_bit_indices(tmp_path):
    booster = trained({}, 5)
    booster.save_model(str(tmp_path / "own.json"))
    theirs = xgboost.Booster(model_file=str(tmp_path / "own.json"))
    theirs.save_model(str(tmp_path / "theirs.json"))
    found = hornbeam.Booster(model_file=str(tmp_path / "theirs.json"))
    for tree in found.model.trees:
        splits_of_levels(tree)
    rows = np.tile(ROWS, (20, 1))
    expected = theirs.predict(xgboost.DMatrix(rows))
    assert found.inplace_predict(rows) == pytest.approx(expected, rel=1e-5)
    with open(tmp_path / "theirs.json") as file:
        assert "symmetric" not in json.dumps(
            json.load(file)["learner"]["gradient_booster"]
        )


# Bad input

BAD = {
    "no depth": ({"max_depth": 0}, "max_depth=0.*from 1 to 16"),
    "too deep": ({"max_depth": 17}, "max_depth=17.*65,536 leaves"),
    "max_leaves": ({"max_leaves": 9}, "max_leaves=9.*limit max_depth"),
    "min_samples_leaf": ({"min_samples_leaf": 5}, "min_samples_leaf.*min_child_weight"),
    "path_smooth": ({"path_smooth": 1.0}, "path_smooth=1.0.*reg_lambda"),
    "monotone": ({"monotone_constraints": [1]}, "monotone_constraints.*depthwise"),
    "costs": ({"feature_costs": [1.0]}, "feature_costs.*depthwise"),
    "pruning": ({"pruning": "after"}, "pruning='after'.*never made"),
    "one hot": ({"max_cat_to_onehot": 9}, "max_cat_to_onehot=9.*one category"),
    "cat_l2": ({"cat_l2": 3.0}, "cat_l2=3.0.*one category"),
    "exact": ({"tree_method": "exact"}, "tree_method='exact' has none"),
    "local": (
        {"tree_method": "approx", "sketch_scope": "local"},
        "sketch_scope='local' has none",
    ),
    "multi-output": ({"multi_strategy": "multi_output_tree"}, "each tree has one"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_symmetric_trees_do_not_have_is_an_error(name):
    params, message = BAD[name]
    data = hornbeam.DMatrix(ROWS[:20], LABELS[:20])
    with pytest.raises(hornbeam.ParameterError, match=message):
        hornbeam.train({**SYMMETRIC, **params}, data, 1)


def test_sparse_rows_without_histograms_are_an_error():
    from scipy.sparse import random

    rows = random(300, 50, 0.02, format="csr", random_state=0)
    data = hornbeam.DMatrix(rows, np.arange(300.0))
    with pytest.raises(hornbeam.ParameterError, match="without histograms; make a"):
        hornbeam.train(SYMMETRIC, data, 1)
