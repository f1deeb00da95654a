"""Models with scalar and with vector leaves, where `multi_strategy` changes."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from comparison import BINARY, NAMES, THREE, X, Y, assert_close, both, ours, theirs

import hornbeam
from hornbeam.errors import ParameterError

VECTORS = {"multi_strategy": "multi_output_tree"}
SCALARS = {"multi_strategy": "one_output_per_tree"}
CLASSES = {
    "objective": "multi:softprob",
    "num_class": 3,
    "base_score": 0,
    "max_depth": 3,
    "num_parallel_tree": 2,
    "min_child_weight": 0,
}
TARGETS = np.column_stack([Y, Y**2, BINARY])


def switching(xgb):
    """Return a callback that changes the strategy after each round."""

    class Switch(xgb.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            model.set_param(SCALARS if epoch % 2 else VECTORS)
            return False

    return Switch()


def mixed(xgb, params=CLASSES, labels=THREE, rounds=4):
    """Return a booster whose rounds take turns."""
    data = xgb.DMatrix(X, labels)
    return xgb.train(params, data, rounds, callbacks=[switching(xgb)])


def leaf_sizes(booster):
    document = json.loads(booster.save_raw("json"))
    forest = document["learner"]["gradient_booster"]["model"]
    return [int(tree["tree_param"]["size_leaf_vector"]) for tree in forest["trees"]]


def test_rounds_grow_trees_by_the_strategy_of_the_moment():
    def run(xgb):
        booster = mixed(xgb)
        document = json.loads(booster.save_raw("json"))
        forest = document["learner"]["gradient_booster"]["model"]
        scores = [booster.get_score(importance_type=k) for k in ("weight", "gain")]
        return (
            [leaf_sizes(booster), forest["tree_info"], forest["iteration_indptr"]],
            [len(list(booster)), booster.num_boosted_rounds()],
            [sorted(score) for score in scores],
            booster.predict(xgb.DMatrix(X)),
            [text.count("leaf") for text in booster.get_dump()],
        )

    mine, other = both(run)
    assert mine[:3] == other[:3]
    assert_close(mine[3], other[3])
    assert mine[4] == other[4]


def test_predictions_are_the_sums_of_all_rounds():
    booster = mixed(ours)
    data = ours.DMatrix(X)
    margins = booster.predict(data, output_margin=True)
    parts = [one.predict(data, output_margin=True) for one in booster]
    np.testing.assert_allclose(sum(parts), margins, rtol=0, atol=1e-6)
    for kind, axes in (("pred_contribs", -1), ("pred_interactions", (-1, -2))):
        found = booster.predict(data, **{kind: True}).sum(axis=axes)
        np.testing.assert_allclose(found, margins, rtol=0, atol=1e-5)
    assert booster.predict(data, pred_leaf=True).shape == (80, 16)
    strict = {"pred_leaf": True, "strict_shape": True}
    with pytest.raises(ParameterError, match="have no common shape"):
        booster.predict(data, **strict)
    one_round = booster.predict(data, iteration_range=(1, 2), **strict)
    assert one_round.shape == (80, 1, 1, 2)


def test_scores_of_each_round_are_those_of_its_predictions():
    data, log = ours.DMatrix(X, TARGETS), {}
    booster = ours.train(
        {"max_depth": 3}, data, 4, evals=[(data, "a")], evals_result=log,
        callbacks=[switching(ours)], verbose_eval=False,
    )  # fmt: skip
    for number, score in enumerate(log["a"]["rmse"], 1):
        found = booster.predict(data, iteration_range=(0, number))
        expected = np.sqrt(np.mean((found - TARGETS) ** 2))
        assert score == pytest.approx(expected, rel=1e-5)


def test_the_absolute_error_of_vector_leaves_falls_in_each_round():
    def run(xgb):
        data, log = xgb.DMatrix(X, 100 * TARGETS), {}
        params = {**VECTORS, "objective": "reg:absoluteerror"}
        options = {"evals": [(data, "a")], "evals_result": log, "verbose_eval": False}
        xgb.train(params, data, 16, **options)
        return log["a"]["mae"]

    mine, other = both(run)
    assert (np.diff(mine) < 0).all() and (np.diff(other) < 0).all()


@pytest.mark.parametrize("level", ["bytree", "bylevel", "bynode"])
def test_vector_leaves_use_the_columns_that_are_drawn(level):
    rows = np.random.default_rng(3).normal(size=(400, 12))
    labels = rows @ np.random.default_rng(4).normal(size=(12, 3))
    shares = np.repeat([1.0, 0.0], 6)  # the last six columns are never drawn

    def run(xgb):
        data = xgb.DMatrix(rows, labels, feature_weights=shares)
        booster = xgb.train({**VECTORS, f"colsample_{level}": 0.4}, data, 8)
        return sorted(booster.get_fscore())

    assert both(run) == ([f"f{i}" for i in range(6)],) * 2


@pytest.mark.parametrize("params", [{}, {"booster": "dart", "rate_drop": 0.5}], ids=str)
def test_any_number_of_threads_gives_the_same_model(params):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(3000, 6))
    labels = rows[:, :3] * rows[:, 3:] + rows[:, [1, 2, 0]]

    def digest(threads):
        given = {**params, "nthread": threads, "max_depth": 4}
        data = ours.DMatrix(rows, labels)
        booster = ours.train(given, data, 4, callbacks=[switching(ours)])
        return booster.digest()

    assert len({digest(threads) for threads in (1, 2, 3, 7)}) == 1


@pytest.mark.parametrize("format", ["json", "ubj"])
def test_files_are_exchanged_with_xgboost(format):
    for one, other in ((ours, theirs), (theirs, ours)):
        booster = mixed(one)
        again = other.Booster(model_file=booster.save_raw(format))
        expected = booster.predict(one.DMatrix(X))
        assert_close(again.predict(other.DMatrix(X)), expected)
    model = hornbeam.Booster(model_file=mixed(ours).save_raw(format))
    assert model.digest() == mixed(ours).digest()


def test_a_model_from_a_file_grows_scalar_leaves_unless_told_otherwise():
    def run(xgb):
        data = xgb.DMatrix(X, TARGETS)
        booster = xgb.train({**VECTORS, "max_depth": 2}, data, 1)
        loaded = xgb.Booster(model_file=booster.save_raw("ubj"))
        models = booster, pickle.loads(pickle.dumps(booster)), loaded
        return [
            leaf_sizes(xgb.train({"max_depth": 2, **given}, data, 1, xgb_model=model))
            for model in models
            for given in ({}, VECTORS, SCALARS)
        ]

    mine, other = both(run)
    assert mine == other


@pytest.mark.parametrize("start", [SCALARS, VECTORS], ids=str)
def test_hornbeam_itself_does_not_mix_leaves(start):
    booster = mixed(ours, {**start, "max_depth": 2}, TARGETS, 2)
    model = hornbeam.Booster(model_file=booster.save_raw())
    last, other = VECTORS, SCALARS
    if leaf_sizes(booster)[-1] == 1:
        last, other = SCALARS, VECTORS
    assert model.params.multi_strategy == last["multi_strategy"]
    with pytest.raises(ParameterError, match="differs from the model's"):
        model.set_param(other)


@pytest.mark.parametrize("updater", ["refresh", "prune"])
def test_trees_of_both_kinds_are_updated(updater):
    booster = mixed(ours)
    params = {**CLASSES, "process_type": "update", "updater": updater, "gamma": 0.5}
    with pytest.warns(UserWarning, match="updater"):
        updated = ours.train(params, ours.DMatrix(X, THREE), 4, xgb_model=booster)
    assert leaf_sizes(updated) == leaf_sizes(booster)
    assert np.isfinite(updated.predict(ours.DMatrix(X))).all()


@pytest.mark.parametrize("suffix", ["py", "c", "onnx"])
def test_exports_of_both_kinds(tmp_path, suffix):
    if suffix == "onnx":
        pytest.importorskip("onnx")
    path = tmp_path / f"model.{suffix}"
    booster = mixed(ours)
    booster.export(path)
    if suffix == "py":
        scope = {}
        exec(path.read_text(), scope)
        found = [scope["predict"](row) for row in X[:9].tolist()]
        np.testing.assert_allclose(found, booster.predict(ours.DMatrix(X[:9])), 1e-5)


def test_dumps_and_plots_of_both_kinds():
    data = ours.DMatrix(X, TARGETS, feature_names=NAMES)
    booster = ours.train({"max_depth": 2}, data, 2, callbacks=[switching(ours)])
    texts = booster.get_dump(with_stats=True)
    assert [text.count("leaf=[") > 0 for text in texts] == [False] * 3 + [True]
    table = booster.trees_to_dataframe()
    leaves = table[table["Feature"] == "Leaf"]
    assert leaves.groupby("Tree")["Target"].unique().map(sorted).tolist() == [
        *([0], [1], [2]),
        [0, 1, 2],
    ]
    assert (
        table["Target"].isna().sum() == (len(leaves) - leaves["ID"].nunique()) / 2 - 1
    )
    assert "a" in booster.get_fscore()
