"""Exchange of models with XGBoost: files in both directions, equal predictions."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xgboost
from forest_models import (
    grown_tree,
    hand_made,
    in_xgboost,
    rows_and_labels,
    trained,
)
from hypothesis import given
from hypothesis import strategies as st
from naive import leaf_of, predict_tree

from hornbeam.data.floats import nearest
from hornbeam.errors import ModelFileError
from hornbeam.forest import Model, decode, digest, encode
from hornbeam.forest.model_file import encode_for_xgboost

TRAINED = {
    "binary:logistic": {},
    "binary:logitraw": {},
    "reg:logistic": {"scale_pos_weight": 2.5},
    "reg:squarederror": {"base_score": 0.7},
    "reg:squarederror, lossguide": {"grow_policy": "lossguide", "max_leaves": 9},
    "reg:squarederror, forest": {"num_parallel_tree": 3, "subsample": 0.5},
    "reg:squarederror, pruned": {"tree_method": "exact", "gamma": 3.0, "max_depth": 6},
    "reg:squarederror, own classes": {"num_class": 3, "objective": "reg:squarederror"},
    "reg:squarederror, dart": {"booster": "dart", "rate_drop": 0.5},
    "binary:logistic, dart": {
        "booster": "dart",
        "rate_drop": 0.5,
        "normalize_type": "forest",
        "num_parallel_tree": 2,
    },
    "binary:hinge": {},
    "reg:absoluteerror": {},
    "reg:quantileerror": {"quantile_alpha": [0.1, 0.5]},
    "count:poisson": {},
    "reg:gamma": {},
    "reg:pseudohubererror": {"huber_slope": 0.5},
    "reg:squaredlogerror": {},
    "reg:tweedie": {"tweedie_variance_power": 1.25},
    "multi:softmax": {"num_class": 3},
    "multi:softprob": {"num_class": 3, "num_parallel_tree": 2},
}


@pytest.fixture(scope="module", params=TRAINED)
def booster_and_rows(request):
    params = dict(TRAINED[request.param])
    objective = request.param.partition(",")[0]
    if "own" in request.param:
        rows, labels = rows_and_labels()
        params |= {"nthread": 1}
        data = xgboost.DMatrix(rows, labels)
        classes = np.digitize(labels, np.quantile(labels, [0.33, 0.66]))

        def softmax(margins, _):
            expected = np.eye(3)[classes]
            return margins - expected, np.ones_like(margins)

        return xgboost.train(params, data, 3, obj=softmax), rows
    return trained(objective, **params)


@pytest.mark.parametrize("format", ["json", "ubj"])
def test_xgboosts_models_round_trip(booster_and_rows, format):
    booster, rows = booster_and_rows
    data = xgboost.DMatrix(rows)
    model = decode(booster.save_raw(format))
    assert not model.exact_features
    assert model.n_rounds == booster.num_boosted_rounds()
    leaves = booster.predict(data, pred_leaf=True).reshape(len(rows), -1)
    for tree, theirs in zip(model.trees, leaves.T, strict=True):
        assert [leaf_of(tree, row) for row in rows] == theirs.tolist()
    for written in ("json", "ubj"):
        again = in_xgboost(encode(model, written))
        for kind in ({}, {"output_margin": True}, {"pred_leaf": True}):
            np.testing.assert_array_equal(
                again.predict(data, **kind), booster.predict(data, **kind)
            )
        assert again.get_score(importance_type="gain") == booster.get_score(
            importance_type="gain"
        )


def test_xgboosts_json_and_ubjson_have_equal_models(booster_and_rows):
    booster, _ = booster_and_rows
    as_json, as_ubj = (decode(booster.save_raw(kind)) for kind in ("json", "ubj"))
    assert digest(as_json) == digest(as_ubj)


@pytest.mark.parametrize("params", [{}, {"booster": "dart", "rate_drop": 0.5}])
def test_written_documents_equal_xgboosts(params):
    booster, _ = trained("multi:softprob", num_class=3, **params)
    theirs = json.loads(booster.save_raw("json"))
    ours = json.loads(encode_for_xgboost(decode(booster.save_raw("json")), "json"))
    scores = [
        json.loads(document["learner"]["learner_model_param"].pop("base_score"))
        for document in (ours, theirs)
    ]
    np.testing.assert_array_equal(*np.array(scores, np.float32))
    assert ours == theirs


def test_names_attributes_and_early_stopping_round_trip():
    names = ["größe", "a b", "😀", 'say "so"', "back\\slash\\u0041"]
    rows, labels = rows_and_labels()
    data = xgboost.DMatrix(
        rows, labels, feature_names=names, feature_types=["float", "int", "i", "q", "q"]
    )
    booster = xgboost.train(
        {"nthread": 1}, data, 20, evals=[(data, "train")],
        early_stopping_rounds=2, custom_metric=lambda p, _: ("up", float(len(p))),
        verbose_eval=False,
    )  # fmt: skip
    booster.set_attr(note='tab\t, line\n, "quotes" and \\u0041')
    model = decode(booster.save_raw("ubj"))
    assert model.feature_names == names
    assert model.feature_types == ["float", "int", "i", "q", "q"]
    assert model.attributes == booster.attributes()
    assert model.attributes["best_iteration"] == "0"
    for format in ("json", "ubj"):
        again = in_xgboost(encode(model, format))
        assert again.feature_names == names
        assert again.attributes() == booster.attributes()
        assert again.best_iteration == 0


def test_xgboost_reads_control_characters():
    model = hand_made(attributes={"note": "".join(map(chr, range(1, 128)))})
    for format in ("json", "ubj"):
        assert decode(encode(model, format)).attributes == model.attributes
        in_xgboost(encode(model, format))


def margins(model, rows):
    """Return the float32 sums of base scores and leaf values in XGBoost's order."""
    sums = np.tile(model.base_score.astype(np.float32), (len(rows), 1))
    for tree, output in zip(model.trees, model.tree_output, strict=True):
        sums[:, output] += predict_tree(tree, rows)
    return sums


@pytest.mark.parametrize("format", ["json", "ubj"])
@pytest.mark.parametrize("exact", [False, True])
def test_random_models_predict_the_same_in_xgboost(format, exact):
    model = hand_made(n_trees=5, exact=exact, base_score=np.array([0.1]))
    rows = np.random.default_rng(1).normal(size=(200, 3)).astype(np.float32)
    rows[::7, 1] = np.nan
    predicted = in_xgboost(encode(model, format)).inplace_predict(rows)
    np.testing.assert_array_equal(predicted, margins(model, rows)[:, 0])


def test_random_multi_output_models_predict_the_same_in_xgboost():
    rng = np.random.default_rng(2)
    model = Model(
        trees=[grown_tree(rng) for _ in range(6)],
        tree_output=[0, 1, 2] * 2,
        round_starts=[0, 3, 6],
        base_score=np.array([0.25, -1.5, 3.0]),
        objective="multi:softprob",
        objective_config={"softmax_multiclass_param": {"num_class": "3"}},
        num_class=3,
        num_feature=3,
    )
    rows = rng.normal(size=(50, 3)).astype(np.float32)
    booster = in_xgboost(encode(model, "ubj"))
    predicted = booster.inplace_predict(rows, predict_type="margin")
    np.testing.assert_array_equal(predicted, margins(model, rows))


@pytest.mark.parametrize("n_targets", [2, 3])
def test_models_of_several_targets_round_trip(n_targets):
    rows, labels = rows_and_labels()
    labels = np.stack([labels * k for k in range(1, n_targets + 1)], axis=1)
    data = xgboost.DMatrix(rows, labels)
    booster = xgboost.train({"nthread": 1, "max_depth": 3}, data, 2)
    model = decode(booster.save_raw("ubj"))
    assert model.n_outputs == model.num_target == n_targets
    again = in_xgboost(encode(model, "json"))
    np.testing.assert_array_equal(again.predict(data), booster.predict(data))


@pytest.mark.parametrize("format", ["json", "ubj"])
def test_float64_thresholds_and_base_scores_round_trip(format):
    model = hand_made(n_trees=3, exact=True, base_score=np.array([0.1]))
    model.trees[1].threshold[0] = 1e300
    model.trees[2].threshold[0] = -1e-300
    again = decode(encode(model, format))
    assert again.exact_features
    assert again.base_score.tolist() == [0.1]
    for tree, other in zip(model.trees, again.trees, strict=True):
        np.testing.assert_array_equal(tree.threshold, other.threshold)


@given(*[st.floats(allow_nan=False, allow_infinity=False)] * 2)
def test_rounded_thresholds_split_float32_copies_like_the_data(threshold, value):
    rounded = nearest(np.array([threshold]), np.float32)[0]
    copy = nearest(np.array([value]), np.float32)[0]
    assert np.isfinite(rounded)
    if copy != rounded or value >= threshold:
        assert (copy < rounded) == (value < threshold)


@pytest.mark.parametrize(
    "score", [0.1, 1e-30, 1e30, -0.0, 1e-300, 123456789.0, 2**24 + 1]
)
def test_xgboost_reads_hornbeams_base_scores(score):
    model = hand_made(base_score=np.array([score]))
    rows = np.zeros((1, 3), np.float32)
    predicted = in_xgboost(encode(model, "json")).inplace_predict(rows)
    np.testing.assert_array_equal(predicted, margins(model, rows)[:, 0])


def test_a_model_without_trees():
    data = xgboost.DMatrix(*rows_and_labels())
    booster = xgboost.train({"objective": "reg:squarederror"}, data, 0)
    model = decode(booster.save_raw("json"))
    assert (model.n_rounds, model.round_starts, model.trees) == (0, [0], [])
    again = in_xgboost(encode(model, "ubj"))
    np.testing.assert_array_equal(again.predict(data), booster.predict(data))


OPTIONAL = (
    "boost_from_average categories cats feature_names feature_types id "
    "iteration_indptr num_parallel_tree num_target reg_loss_param split_type version"
)


@pytest.mark.parametrize("key", OPTIONAL.split())
def test_fields_missing_in_older_files_have_defaults(key):
    booster, _ = trained("reg:squarederror")
    raw = booster.save_raw("json")

    def without(members):
        return {name: value for name, value in members.items() if name != key}

    assert key.encode() in raw
    data = json.dumps(json.loads(raw, object_hook=without)).encode()
    assert digest(decode(data)) == digest(decode(raw))


def test_formats_of_older_versions_are_read():
    booster, _ = trained("multi:softprob", num_class=3)
    document = json.loads(booster.save_raw("json"))
    document["version"] = [1, 5, 0]
    document["learner"]["learner_model_param"]["base_score"] = "5E-1"
    forest = document["learner"]["gradient_booster"]["model"]
    forest["gbtree_model_param"]["size_leaf_vector"] = "0"
    for tree in forest["trees"]:
        tree["tree_param"]["size_leaf_vector"] = "0"
        tree["default_left"] = [bool(left) for left in tree["default_left"]]
    model = decode(json.dumps(document).encode())
    assert model.base_score.tolist() == [0.5] * 3
    assert model.trees[0].default_left.dtype == np.uint8


@pytest.mark.parametrize("format", ["json", "ubj"])
def test_unsupported_objectives_are_named(format):
    raw = bytes(trained("reg:squarederror")[0].save_raw(format))
    # The same length as the original, because UBJSON stores the length.
    later = raw.replace(b"reg:squarederror", b"reg:quarticerror")
    with pytest.raises(ModelFileError, match="'reg:quarticerror' is not") as caught:
        decode(later)
    assert "not supported" in str(caught.value)
    assert "damaged" not in str(caught.value)


def test_parameters_of_logistic_models_round_trip():
    config = {"reg_loss_param": {"scale_pos_weight": "2.5"}}
    model = hand_made(objective="binary:logistic", objective_config=config)
    assert decode(encode(model, "ubj")).objective_config == config
