"""Boosters compared with XGBoost: predictions, slices, attributes and model files."""

from __future__ import annotations

import copy
import json
import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from comparison import (
    BINARY,
    NAMES,
    THREE,
    X,
    Y,
    assert_close,
    both,
    ours,
    theirs,
    train,
)

import hornbeam
from hornbeam.errors import ModelFileError

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
def test_predictions_have_equal_shapes_types_and_values(model, kind, strict_shape):
    def run(xgb):
        return trained(xgb, model).predict(
            xgb.DMatrix(X), strict_shape=strict_shape, **KINDS[kind]
        )

    assert_close(*both(run))


@pytest.mark.parametrize("kind", ["value", "margin"])
@pytest.mark.parametrize("model", MODELS)
def test_inplace_predict(model, kind):
    def run(xgb):
        return trained(xgb, model).inplace_predict(X, predict_type=kind)

    assert_close(*both(run))


def test_inplace_predict_of_other_containers():
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


def test_columns_beyond_the_data_are_missing_values():
    def run(xgb):
        return train(xgb).predict(xgb.DMatrix(X[:, :2]))

    assert_close(*both(run))


def test_numbers_are_category_codes_of_categorical_features():
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
def test_slices_of_boosters(part):
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


def test_attributes_and_feature_names():
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
def test_model_files_with_and_without_a_suffix(tmp_path, suffix, recwarn):
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


def test_model_files_are_exchanged_with_xgboost(tmp_path):
    train(ours).save_model(tmp_path / "ours.json")
    train(theirs).save_model(tmp_path / "theirs.ubj")
    there = theirs.Booster(model_file=tmp_path / "ours.json")
    back = ours.Booster(model_file=tmp_path / "theirs.ubj")
    assert_close(back.predict(ours.DMatrix(X)), there.predict(theirs.DMatrix(X)))


def test_the_suffix_of_a_model_file_may_be_in_capitals(tmp_path):
    booster = train(ours)
    booster.save_model(tmp_path / "model.JSON")
    assert (tmp_path / "model.JSON").read_bytes() == booster.save_raw("json")
    assert ours.Booster(model_file=tmp_path / "model.JSON").num_boosted_rounds() == 3


@pytest.mark.parametrize(("kind", "other"), [("json", "ubj"), ("ubj", "json")])
def test_the_suffix_of_a_model_file_must_be_that_of_its_format(tmp_path, kind, other):
    def run(xgb):
        train(xgb).save_model(tmp_path / f"model.{kind}")
        renamed = (tmp_path / f"model.{kind}").rename(tmp_path / f"model.{other}")
        with pytest.raises(ValueError, match='Expecting: "'):
            xgb.Booster(model_file=renamed)

    both(run)


@pytest.mark.parametrize("kind", ["feature_names", "feature_types"])
def test_another_number_of_feature_names_is_an_error_when_they_are_used(kind):
    def run(xgb):
        booster = train(xgb)
        setattr(booster, kind, ["float"])
        assert getattr(booster, kind) == ["float"]
        for use in booster.get_fscore, booster.get_dump:
            with pytest.raises(ValueError, match=f"feature {kind[8:]}"):
                use()
        setattr(booster, kind, None)
        return booster.get_fscore()

    mine, other = both(run)
    assert mine == other
    booster = train(ours)
    setattr(booster, kind, ["float"])
    with pytest.raises(ValueError, match=f"1 {kind} for 4 features"):
        booster.save_raw()


def test_copies_and_pickles_are_independent():
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


def test_dumps_and_tables(tmp_path):
    def run(xgb):
        booster = train(xgb, rounds=1)
        booster.dump_model(tmp_path / "dump.txt")
        # The last digits of gains differ, so statistics are left out.
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


def test_boost_with_given_gradients():
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


def test_a_linear_model_cannot_be_sliced():
    booster = train(ours, {"booster": "gblinear", "max_depth": None})
    data = ours.DMatrix(X)
    first = booster.predict(data, iteration_range=(0, 1))
    np.testing.assert_array_equal(first, booster.predict(data))
    with pytest.raises(ValueError, match="Linear booster doesn't support prediction r"):
        booster.predict(ours.DMatrix(X), iteration_range=(1, 2))


def test_load_config():
    config = train(ours, {"eta": 0.1, "max_depth": 2, "subsample": 0.5}).save_config()
    booster = train(ours, {"eta": 0.5})
    booster.load_config(config)
    assert booster.save_config() == config
    assert json.loads(config)["version"] == [3, 2, 0]
    with pytest.raises(ours.core.XGBoostError, match=r"KeyError\('learner'\)"):
        booster.load_config("{}")
    for broken in ("", "[", "[1]", '{"learner": 3}', "[" * 100_000):
        with pytest.raises(ours.core.XGBoostError, match="not a result of save_config"):
            booster.load_config(broken)
    assert booster.save_config() == config


def test_attributes_of_the_object_are_copied():
    def run(xgb):
        booster = train(xgb)
        booster.owner = ["me"]
        parts = (
            pickle.loads(pickle.dumps(booster)),
            copy.copy(booster),
            copy.deepcopy(booster),
            train(xgb, rounds=1, xgb_model=booster),
        )
        return [part.owner for part in parts]

    mine, other = both(run)
    assert mine == other


def test_a_continued_model_keeps_num_parallel_tree_and_accepts_a_base_score():
    def run(xgb):
        first = train(xgb, {"objective": "binary:logistic"}, BINARY, 2)
        more = {"objective": "binary:logistic", "num_parallel_tree": 3}
        wide = train(xgb, more, BINARY, 1, xgb_model=first)
        more["base_score"] = 0.2
        moved = train(xgb, more, BINARY, 1, xgb_model=first)
        first.set_param({"base_score": 0.9})
        boosters = wide, moved, xgb.Booster(model_file=moved.save_raw()), first
        assert [len(booster.get_dump()) for booster in boosters] == [3, 3, 3, 2]
        return np.stack([booster.predict(xgb.DMatrix(X)) for booster in boosters])

    assert_close(*both(run))


def test_a_model_without_feature_names_takes_those_of_later_data():
    booster = train(ours)
    ours.train({}, named := ours.DMatrix(X, Y, feature_names=NAMES), 1)
    booster.update(named, 3)
    assert booster.feature_names == NAMES


def test_a_trained_model_keeps_its_default_metric():
    """A copy keeps the metric too; a model file does not, since it has no metrics."""

    def run(xgb):
        data = xgb.DMatrix(X, BINARY)
        first = train(xgb, label=BINARY)
        boosters = [first, first.copy(), pickle.loads(pickle.dumps(first))]
        boosters += [xgb.Booster(model_file=first.save_raw())]
        for booster in boosters:
            booster.set_param("eval_metric", "mae")
        other = train(xgb, label=BINARY)
        other.set_param("objective", "binary:logistic")
        lines = [booster.eval(data) for booster in [*boosters, other]]
        log = {}
        options = {"evals": [(data, "x")], "evals_result": log}
        train(xgb, {"eval_metric": "mape"}, BINARY, 1, xgb_model=first, **options)
        scores = [score for line in lines for score in line.split()]
        return [score.split(":")[0] for score in scores], list(log["x"])

    mine, other = both(run)
    assert mine == other


@pytest.mark.parametrize("kind", ["gbtree", "dart", "gblinear"])
@pytest.mark.parametrize("format", ["json", "ubj"])
def test_names_in_a_file_may_be_edited(kind, format, recwarn):
    booster = train(ours, {"booster": kind})
    before = booster.predict(ours.DMatrix(X))
    content = json.loads(booster.save_raw("json"))
    content["learner"] |= {"feature_names": NAMES, "feature_types": ["float"] * 4}
    # Thresholds are still those of float64 features, without a warning.
    for name in (ours.Booster, hornbeam.Booster):
        again = name(model_file=bytearray(json.dumps(content).encode()))
        data = ours.DMatrix(X, feature_names=NAMES)
        assert np.array_equal(again.predict(data), before)
        assert name(model_file=booster.save_raw(format)).digest() == booster.digest()
    assert not any("was edited" in str(warning.message) for warning in recwarn)


def test_an_edited_file_is_read_as_a_file_of_xgboost():
    booster = train(ours, {"base_score": 0.5})
    content = json.loads(booster.save_raw("json"))
    learner = content["learner"]
    learner["learner_model_param"]["base_score"] = "[1.5E0]"
    learner["feature_names"] = NAMES
    learner["gradient_booster"]["model"]["trees"][0]["split_conditions"][0] = 0.25
    edited = bytearray(json.dumps(content).encode())
    with pytest.warns(UserWarning, match="was edited after Hornbeam wrote it"):
        mine = ours.Booster(model_file=edited)
    data = {"data": X, "feature_names": NAMES}
    other = theirs.Booster(model_file=edited).predict(theirs.DMatrix(**data))
    assert_close(mine.predict(ours.DMatrix(**data)), other)
    with pytest.raises(ModelFileError, match="damaged or edited"):
        hornbeam.Booster(model_file=edited)
    del learner["objective"]
    with pytest.raises(ModelFileError, match="has no key 'objective'"):
        ours.Booster(model_file=bytearray(json.dumps(content).encode()))


@pytest.mark.parametrize("part", ["-1:0", "1:1", "2:1", "::0", "::-1"])
def test_invalid_slices(part):
    numbers = [int(number) if number else None for number in part.split(":")]
    for xgb in (ours, theirs):
        with pytest.raises(ValueError, match=r">= 0|Empty slice|Invalid slice|>= 1"):
            trained(xgb, "numbers")[slice(*numbers)]


def test_positional_arguments_of_predict_warn():
    def run(xgb):
        booster = trained(xgb, "two classes")
        with pytest.warns(FutureWarning, match="Pass `output_margin` as keyword args"):
            return booster.predict(xgb.DMatrix(X), True)

    assert_close(*both(run))
