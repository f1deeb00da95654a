"""Boosters beside XGBoost's: predictions in all shapes, parts, attributes and files."""

from __future__ import annotations

import copy
import json
import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from beside import BINARY, NAMES, THREE, X, Y, assert_close, both, ours, theirs, train

KINDS = {
    "value": {},
    "margin": {"output_margin": True},
    "leaf": {"pred_leaf": True},
    "contribs": {"pred_contribs": True},
    "approximate": {"pred_contribs": True, "approx_contribs": True},
    "approximate alone": {"approx_contribs": True},
    "interactions": {"pred_interactions": True},
    "first rounds": {"iteration_range": (0, 2)},
    "a round": {"iteration_range": (1, 2)},
}
MODELS = {
    "numbers": ({}, Y),
    "two classes": ({"objective": "binary:logistic"}, BINARY),
    "classes": ({"objective": "multi:softprob", "num_class": 3}, THREE),
    "the likeliest class": ({"objective": "multi:softmax", "num_class": 3}, THREE),
    "classes without objective": ({"num_class": 3}, THREE),
    "targets": ({}, np.stack([Y, -Y], axis=1)),
    "forest": ({"num_parallel_tree": 2}, Y),
    "dart": ({"booster": "dart"}, Y),
}


@cache
def trained(xgb, model):
    params, label = MODELS[model]
    return train(xgb, params, label)


@pytest.mark.parametrize("strict_shape", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", MODELS)
def test_predictions_have_the_same_shape_type_and_values(model, kind, strict_shape):
    def run(xgb):
        return trained(xgb, model).predict(
            xgb.DMatrix(X), strict_shape=strict_shape, **KINDS[kind]
        )

    assert_close(*both(run))


@pytest.mark.parametrize("kind", ["value", "margin"])
@pytest.mark.parametrize("model", MODELS)
def test_predictions_in_place(model, kind):
    def run(xgb):
        return trained(xgb, model).inplace_predict(X, predict_type=kind)

    assert_close(*both(run))


def test_predictions_in_place_of_other_containers():
    frame = pd.DataFrame(X, columns=NAMES)
    sparse = scipy.sparse.csr_matrix(np.nan_to_num(X))
    filled = np.where(np.isnan(X), -1.0, X)

    def run(xgb):
        booster = train(xgb)
        return np.stack(
            [
                booster.inplace_predict(frame),
                booster.inplace_predict(X.tolist()),
                booster.inplace_predict(sparse),
                booster.inplace_predict(filled, missing=-1.0),
                booster.inplace_predict(X, base_margin=Y),
                booster.inplace_predict(X, iteration_range=(0, 1)),
            ]
        )

    assert_close(*both(run))


def test_columns_that_are_not_there_are_missing():
    def run(xgb):
        return train(xgb).predict(xgb.DMatrix(X[:, :2]))

    assert_close(*both(run))


def test_numbers_are_codes_where_training_had_categories():
    frame = pd.DataFrame({"kind": pd.Categorical(list("abcd") * 20)})
    label = np.arange(80.0) % 4
    codes = frame["kind"].cat.codes.to_numpy()

    def run(xgb):
        data = xgb.DMatrix(frame, label, enable_categorical=True)
        booster = xgb.train({"max_depth": 3}, data, 3)
        named = xgb.DMatrix(codes.reshape(-1, 1), feature_names=["kind"])
        return np.stack([booster.predict(named), booster.inplace_predict(codes)])

    assert_close(*both(run))


PARTS = {
    "one": 0,
    "numpy": np.int64(2),
    "some": slice(1, 3),
    "a step": slice(0, 4, 2),
    "from": slice(1, None),
    "all": ...,
    "none is all": slice(0, 0),
    "beyond": 5,
    "ends beyond": slice(0, 9),
    "backwards": slice(3, 1),
    "two dimensions": (0, 1),
    "a name": "a",
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_parts_of_boosters(part):
    def run(xgb):
        booster = train(xgb, rounds=5)
        booster.set_attr(kept="yes")
        try:
            found = booster[part]
        except (IndexError, TypeError, ValueError) as error:
            return next(
                kind.__name__
                for kind in (IndexError, TypeError, ValueError)
                if isinstance(error, kind)
            )
        return found.num_boosted_rounds(), found.attributes()

    mine, other = both(run)
    assert mine == other
    assert [b.num_boosted_rounds() for b in train(ours, rounds=2)] == [1, 1]


def test_attributes_and_names():
    def run(xgb):
        booster = train(xgb)
        booster.set_attr(z="1", b=2, a=None)
        booster.best_iteration, booster.best_score = 1, 0.5
        booster.feature_names, booster.feature_types = NAMES, ["q"] * 4
        early = xgb.Booster()
        early.feature_names = ["x", "y"]
        return (
            booster.attributes(),
            list(booster.attributes()),
            booster.attr("none"),
            booster.best_iteration,
            booster.best_score,
            booster.feature_names,
            booster.feature_types,
            sorted(booster.get_score()),
            early.feature_names,
        )

    mine, other = both(run)
    assert mine == other


@pytest.mark.parametrize("suffix", [".json", ".ubj", "", ".model"])
def test_files_with_and_without_a_suffix(tmp_path, suffix, recwarn):
    def run(xgb):
        path = tmp_path / f"model{suffix}"
        train(xgb).save_model(path)
        loaded = xgb.Booster(model_file=path)
        told = [str(w.message)[-30:].strip() for w in recwarn]
        recwarn.clear()
        return loaded.predict(xgb.DMatrix(X)), told

    (mine, told), (other, their_words) = both(run)
    assert_close(mine, other)
    assert told == their_words


def test_files_go_to_the_other_library_and_back(tmp_path):
    train(ours).save_model(tmp_path / "ours.json")
    train(theirs).save_model(tmp_path / "theirs.ubj")
    there = theirs.Booster(model_file=tmp_path / "ours.json")
    back = ours.Booster(model_file=tmp_path / "theirs.ubj")
    assert_close(back.predict(ours.DMatrix(X)), there.predict(theirs.DMatrix(X)))


def test_copies_and_pickles_go_their_own_way():
    booster = train(ours, {"eta": 0.1, "eval_metric": "mae"})
    copies = [
        booster.copy(),
        copy.copy(booster),
        copy.deepcopy(booster),
        pickle.loads(pickle.dumps(booster)),
        ours.Booster(model_file=booster),
    ]
    for other in copies:
        assert type(other) is ours.Booster
        assert other.save_config() == booster.save_config()
        assert other.save_raw() == booster.save_raw()
        other.set_attr(mark="x")
        other.set_param("eta", 0.5)
    assert booster.attributes() == {}
    assert '"eta":"0.100000001"' in booster.save_config()


def test_dumps_and_tables_are_told_alike(tmp_path):
    def run(xgb):
        booster = train(xgb, rounds=1)
        booster.dump_model(tmp_path / "dump.txt")
        # The last digits of gains differ, so the dumps are without statistics.
        return (
            [line.partition("leaf=")[0] for line in booster.get_dump()[0].split("\n")],
            len((tmp_path / "dump.txt").read_text().splitlines()),
            booster.get_fscore(),
            list(booster.trees_to_dataframe().columns),
            booster.get_split_value_histogram("f0", as_pandas=False).tolist(),
            booster.get_split_value_histogram("no").shape,
            {
                kind: sorted(booster.get_score(importance_type=kind))
                for kind in ("gain", "cover", "total_gain", "total_cover")
            },
        )

    mine, other = both(run)
    assert mine == other


def test_boosting_by_hand():
    label = np.stack([Y, -Y], axis=1)

    def run(xgb):
        data = xgb.DMatrix(X, label)
        booster = xgb.Booster({"max_depth": 2}, [data])
        booster.update(data, 0)
        booster.update(data, 1, lambda p, d: (p - label, np.ones_like(p)))
        booster.boost(data, 2, grad=label, hess=np.ones_like(label))
        with pytest.warns(FutureWarning, match="n_samples, n_targets"):
            booster.boost(data, 3, grad=label.ravel(), hess=np.ones(label.size))
        return booster.predict(data)

    assert_close(*both(run))


def test_a_linear_model_has_no_parts():
    booster = train(ours, {"booster": "gblinear", "max_depth": None})
    data = ours.DMatrix(X)
    first = booster.predict(data, iteration_range=(0, 1))
    np.testing.assert_array_equal(first, booster.predict(data))


def test_configurations_are_taken_up():
    config = train(ours, {"eta": 0.1, "max_depth": 2, "subsample": 0.5}).save_config()
    booster = train(ours, {"eta": 0.5})
    booster.load_config(config)
    assert booster.save_config() == config
    assert json.loads(config)["version"] == [3, 2, 0]
    with pytest.raises(ours.core.XGBoostError, match="no configuration"):
        booster.load_config("{}")
