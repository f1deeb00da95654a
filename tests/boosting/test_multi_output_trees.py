"""Multi-output trees: leaves have one value per output."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from selection import half_slow

import hornbeam
from hornbeam import Booster, DMatrix, QuantileDMatrix
from hornbeam.errors import ParameterError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1500, 6)).astype(np.float32)
X[RNG.random(X.shape) < 0.1] = np.nan
FULL = np.nan_to_num(X)
#: Twelve outputs that depend on two features in different ways.
WEIGHTS = RNG.normal(size=(2, 12))
Y = np.sin(2 * FULL[:, :2]) @ WEIGHTS + 0.1 * RNG.normal(size=(1500, 12))
ONES = np.ones(len(X))
VECTOR = {"multi_strategy": "multi_output_tree", "nthread": 1, "max_depth": 4}
KINDS = {
    "plain": {},
    "sketched": {"sketch_outputs": 2},
    "best first": {"grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0},
    "sampled": {"subsample": 0.5, "colsample_bynode": 0.5, "num_parallel_tree": 2},
    "by gradients": {"subsample": 0.4, "sampling_method": "gradient_based"},
    "one side": {"sampling_method": "goss", "sketch_outputs": 3},
    "held": {
        "monotone_constraints": (0, 1),
        "min_samples_leaf": 9,
        "path_smooth": 3.0,
        "feature_costs": (1.0, 0.0, 2.0),
    },
    "dropout": {"booster": "dart", "rate_drop": 0.4, "one_drop": True},
    "few histograms": {"max_cached_hist_node": 1},
}


def train(params=None, labels=Y, rounds=4, rows=X, **arguments):
    info = {name: arguments.pop(name) for name in ("weight",) if name in arguments}
    data = DMatrix(rows, labels, **info)
    return hornbeam.train(
        {**VECTOR, **(params or {})}, data, rounds, verbose_eval=False, **arguments
    )


def rmse(booster, labels=Y, rows=X):
    return float(np.sqrt(((booster.predict(DMatrix(rows)) - labels) ** 2).mean()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_grows_one_tree(kind):
    booster = train(KINDS[kind])
    parallel = KINDS[kind].get("num_parallel_tree", 1)
    trees = booster.model.trees
    assert len(trees) == 4 * parallel and booster.model.tree_output == [0] * len(trees)
    assert {tree.leaf_size for tree in trees} == {12}
    assert booster.predict(DMatrix(X)).shape == (1500, 12)
    assert rmse(booster) < 0.8 * np.sqrt((Y**2).mean())
    leaves = booster.predict(DMatrix(X), pred_leaf=True)
    assert leaves.shape == (1500, len(trees))
    strict = booster.predict(DMatrix(X), pred_leaf=True, strict_shape=True)
    assert strict.shape == (1500, 4, 1, parallel)
    assert set(booster.get_score()) <= {f"f{i}" for i in range(6)}


@pytest.mark.parametrize("kind", KINDS)
def test_cached_margins_equal_predictions(kind):
    data, report = DMatrix(X, Y), {}
    held_out = DMatrix(X[:300], Y[:300])
    booster = hornbeam.train(
        {**VECTOR, **KINDS[kind]}, data, 4, evals=[(data, "a"), (held_out, "b")],
        evals_result=report, verbose_eval=False,
    )  # fmt: skip
    assert report["a"]["rmse"][-1] == pytest.approx(rmse(booster), rel=1e-6)
    expected = rmse(booster, Y[:300], X[:300])
    assert report["b"]["rmse"][-1] == pytest.approx(expected, rel=1e-6)


def test_equal_outputs_grow_the_tree_of_one_output():
    """With equal gradients the splits are equal, and leaves have three equal values."""
    label = Y[:, 0]
    alone = train({"multi_strategy": "one_output_per_tree"}, label, 3).model
    together = train({}, np.stack([label] * 3, axis=1), 3).model
    for one, all_outputs in zip(alone.trees, together.trees, strict=True):
        for name in ("left", "feature", "threshold", "default_left"):
            np.testing.assert_array_equal(
                getattr(one, name), getattr(all_outputs, name), err_msg=name
            )
        np.testing.assert_array_equal(all_outputs.value, np.stack([one.value] * 3, 1))
        np.testing.assert_array_equal(all_outputs.weight, np.stack([one.weight] * 3, 1))
        np.testing.assert_array_equal(all_outputs.cover, 3 * one.cover)
        np.testing.assert_allclose(all_outputs.gain, 3 * one.gain, rtol=1e-5)


def test_a_single_output_has_scalar_leaves():
    models = [
        train({"multi_strategy": strategy}, Y[:, 0])
        for strategy in ("one_output_per_tree", "multi_output_tree")
    ]
    assert models[0].digest() == models[1].digest()


@pytest.mark.parametrize("kind", half_slow(KINDS))
def test_training_continues_from_files_and_pickles(kind):
    weight = RNG.random(len(X))
    whole = train(KINDS[kind], weight=weight)
    half = train(KINDS[kind], rounds=2, weight=weight)
    loaded = Booster(model_file=half.save_raw("json"))
    for first in (half, loaded, pickle.loads(pickle.dumps(half))):
        more = train(KINDS[kind], rounds=2, weight=weight, xgb_model=first)
        assert more.digest() == whole.digest()
    if kind != "dropout":  # what is dropped weighs less from then on
        assert whole[:2].digest() == half.digest()
    assert loaded.params.multi_strategy == "multi_output_tree"


def test_scalar_and_vector_leaves_cannot_be_mixed():
    for first, then in (
        ("one_output_per_tree", "multi_output_tree"),
        ("multi_output_tree", "one_output_per_tree"),
    ):
        booster = train({"multi_strategy": first}, rounds=1)
        with pytest.raises(ParameterError, match="differs from the model's"):
            train({"multi_strategy": then}, rounds=1, xgb_model=booster)


def test_each_output_has_its_own_quantisation():
    """Outliers in one output do not change the quantisation of the others."""
    wild = Y[:, :4].copy()
    wild[::500, 3] = 1e7
    alone = train({}, Y[:, :3])
    # Noise is too small to matter for the split search.
    together = train({}, wild * [1, 1, 1, 1e-20])
    for one, more in zip(alone.model.trees, together.model.trees, strict=True):
        np.testing.assert_array_equal(one.feature, more.feature)
        np.testing.assert_array_equal(one.value, more.value[:, :3])
    assert np.isfinite(train(labels=wild).predict(DMatrix(X))).all()


@pytest.mark.parametrize("objective", ["multi:softprob", "multi:softmax"])
def test_multiclass_models_have_one_tree_per_round(objective):
    labels = (FULL[:, 0] > 0) + 2.0 * (FULL[:, 1] > 0.3)
    params = {"objective": objective, "num_class": 4}
    booster = train(params, labels, 8)
    assert len(booster.model.trees) == 8
    found = booster.predict(DMatrix(X))
    classes = found.argmax(axis=1) if objective == "multi:softprob" else found
    assert (classes == labels).mean() > 0.95


def test_custom_objective():
    def squared(margins, data):
        return margins - Y, np.ones_like(margins)

    data = DMatrix(X, Y)
    params = {**VECTOR, "base_score": 0.0, "num_target": 12}
    own = hornbeam.train(params, data, 3, obj=squared, verbose_eval=False)
    ours = hornbeam.train(params, data, 3, verbose_eval=False)
    np.testing.assert_allclose(own.predict(data), ours.predict(data), atol=1e-5)


@pytest.mark.parametrize("method", ["hist", "approx"])
def test_splits_by_separate_gradients(method):
    """Splits are those of the separate gradients, leaf values those of all outputs."""
    labels = Y.astype(np.float32)

    def mean(margins, data):
        gradients = margins - labels
        return gradients, 2 * np.ones_like(margins), gradients.mean(axis=1), ONES

    params = {**VECTOR, "base_score": 0.0, "num_target": 12, "tree_method": method}
    params |= {"lambda": 3.0, "eta": 0.7}
    rows = DMatrix(X, labels)
    booster = hornbeam.train(params, rows, 2, obj=mean, verbose_eval=False)
    alone = hornbeam.train(
        {**params, "num_target": 1, "multi_strategy": "one_output_per_tree"},
        DMatrix(X),
        1,
        obj=lambda margins, data: (-labels.mean(axis=1), ONES),
        verbose_eval=False,
    )
    tree, expected = booster.model.trees[0], alone.model.trees[0]
    for name in ("left", "feature", "threshold", "default_left", "cover"):
        np.testing.assert_array_equal(getattr(tree, name), getattr(expected, name))
    np.testing.assert_allclose(tree.gain, expected.gain, rtol=1e-5)
    leaves = booster.predict(rows, pred_leaf=True)[:, 0].astype(int)
    for leaf in np.unique(leaves):
        own = labels[leaves == leaf]
        value = 0.7 * own.sum(axis=0) / (2.0 * len(own) + 3.0)
        np.testing.assert_allclose(tree.value[leaf], value, rtol=1e-5, atol=1e-6)


def test_separate_gradients_in_some_rounds_only():
    def squared(margins, data):
        gradients = margins - Y
        pair = gradients, np.ones_like(margins)
        calls.append(margins)
        if len(calls) % 2:
            return *pair, *pair
        return pair

    calls = []
    params = {**VECTOR, "base_score": 0.0, "num_target": 12}
    data = DMatrix(X, Y)
    mixed = hornbeam.train(params, data, 4, obj=squared, verbose_eval=False)
    calls.append(None)
    other = hornbeam.train(params, data, 4, obj=squared, verbose_eval=False)
    assert mixed.digest() == other.digest()


def test_categorical_splits():
    codes = RNG.integers(30, size=1500)
    kinds = RNG.integers(3, size=30)
    labels = np.eye(3)[kinds[codes]] * 4 + 0.1 * RNG.normal(size=(1500, 3))
    rows = np.column_stack([codes, RNG.normal(size=1500)])
    data = DMatrix(rows, labels, feature_types=["c", "q"])
    params = {**VECTOR, "max_depth": 2, "eta": 1, "lambda": 0}
    booster = hornbeam.train(params, data, 1, verbose_eval=False)
    tree = booster.model.trees[0]
    assert tree.split_type[0] == 1
    # Two splits separate three groups of categories.
    off = booster.predict(data) - labels
    assert np.sqrt((off**2).mean()) < 0.2
    again = Booster(model_file=booster.save_raw())
    np.testing.assert_array_equal(again.predict(data), booster.predict(data))


def test_sketch_outputs_is_nearly_as_good_and_random_per_round():
    full, sketched = train(rounds=20), train({"sketch_outputs": 3}, rounds=20)
    assert full.digest() != sketched.digest()
    assert rmse(sketched) < 1.15 * rmse(full)
    other = train({"sketch_outputs": 3, "seed": 1}, rounds=20)
    assert sketched.digest() != other.digest()
    as_many = train({"sketch_outputs": 12}, rounds=2)
    assert as_many.digest() == train(rounds=2).digest()


def test_quantile_matrix_and_interaction_constraints():
    params = {**VECTOR, "interaction_constraints": "[[0, 2], [1, 3, 4, 5]]"}
    quantile = QuantileDMatrix(X, Y)
    booster = hornbeam.train(params, quantile, 3, verbose_eval=False)
    same = hornbeam.train(params, DMatrix(X, Y), 3, verbose_eval=False)
    assert booster.digest() == same.digest()
    for tree in booster.model.trees:
        used = set(tree.feature[tree.left >= 0].tolist())
        root = tree.feature[0]
        for child in (tree.left[0], tree.right[0]):
            if tree.left[child] >= 0:
                pair = {int(root), int(tree.feature[child])}
                assert pair <= {0, 2} or pair <= {1, 3, 4, 5}
        assert used


@pytest.mark.parametrize("growth", ["plain", "best first"])
@pytest.mark.parametrize("method", ["basic", "intermediate"])
@pytest.mark.parametrize("smooth", [0.0, 9.0])
def test_monotone_constraints_hold_for_all_outputs(growth, method, smooth):
    """Outputs that would violate the constraint are constant."""
    params = {
        **KINDS[growth],
        "monotone_constraints": (1, -1),
        "monotone_constraints_method": method,
        "path_smooth": smooth,
        "max_depth": 5,
    }
    labels = np.stack([FULL[:, 0] - FULL[:, 1], -(FULL[:, 0] ** 3), FULL[:, 2]], axis=1)
    booster = train(params, labels + 0.3 * Y[:, :3], 8)
    grid = np.linspace(-3, 3, 49, dtype=np.float32)
    for feature, direction in ((0, 1), (1, -1)):
        table = X[:50].repeat(grid.size, axis=0)
        table[:, feature] = np.tile(grid, 50)
        margins = booster.predict(DMatrix(table)).reshape(50, grid.size, 3)
        changes = direction * np.diff(margins, axis=1)
        assert (changes >= 0).all() and (changes[..., 0] > 0).any()


def test_constraints_of_equal_outputs_equal_those_of_one_output():
    held = {"min_samples_leaf": 30, "path_smooth": 5.0, "max_delta_step": 0.4}
    held["feature_costs"] = (1.0, 0.0, 0.5)
    label = Y[:, 0]
    twice = {**held, "feature_costs": (2.0, 0.0, 1.0)}
    alone = train({**held, "multi_strategy": "one_output_per_tree"}, label, 3).model
    together = train(twice, np.stack([label] * 2, axis=1), 3).model
    for one, both in zip(alone.trees, together.trees, strict=True):
        np.testing.assert_array_equal(one.feature, both.feature)
        np.testing.assert_array_equal(one.threshold, both.threshold)
        np.testing.assert_array_equal(np.stack([one.value] * 2, 1), both.value)
