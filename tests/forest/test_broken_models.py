"""Validation of models in files and in memory: each error is found and named."""

from __future__ import annotations

import copy
import json
import time
import tracemalloc

import numpy as np
import pytest
from forest_models import hand_made

from hornbeam.errors import HornbeamError, ModelFileError
from hornbeam.forest import decode, digest, encode, ubjson
from hornbeam.forest.model_file import encode_for_xgboost


def sound_document():
    """Return XGBoost's document of two trees with 5 and 9 nodes."""
    model = hand_made(
        n_trees=2, attributes={"note": "x"}, feature_names=["a", "b", "c"]
    )
    return json.loads(encode_for_xgboost(model, "json"))


SOUND = sound_document()
SHAPE = SOUND["learner"]["learner_model_param"]
ROOT = 2**31 - 1


def edited(edit):
    document = copy.deepcopy(SOUND)
    learner = document["learner"]
    forest = learner["gradient_booster"]["model"]
    edit(document, learner, forest, forest["trees"][1])
    return document


def ranking(param, **state):
    """Return the document of a ranking objective."""
    return {"name": "rank:ndcg", "lambdarank_param": param, **state}


def put(where, key, value):
    """Return an edit that sets a key of the learner, forest, tree, ... to `value`."""

    def edit(document, learner, forest, tree):
        places = {
            "document": document,
            "learner": learner,
            "booster": learner["gradient_booster"],
            "forest": forest,
            "tree": tree,
            "shape": learner["learner_model_param"],
            "objective": learner["objective"],
            "tree_param": tree["tree_param"],
            "forest_param": forest["gbtree_model_param"],
            "cats": forest["cats"],
        }
        target = places.get(where)
        (tree[where] if target is None else target)[key] = value

    return edit


def drop(where, key):
    def edit(*places):
        del places[["document", "learner", "forest", "tree"].index(where)][key]

    return edit


def link(**children):
    """Return an edit that changes left children in the second tree."""

    def edit(document, learner, forest, tree):
        for name, left in children.items():
            node = int(name[1:])
            tree["left_children"][node] = left
            tree["right_children"][node] = -1 if left < 0 else left + 1

    return edit


def cycle(document, learner, forest, tree):
    """Disconnect the last two nodes, and make the first of them their parent."""
    tree.update(json.loads(json.dumps(forest["trees"][0])))
    above = tree["parents"][-1]
    tree["left_children"][above] = tree["right_children"][above] = -1
    last = len(tree["parents"]) - 2
    tree["left_children"][last], tree["right_children"][last] = last, last + 1


LEAF, INNER = 8, 0
EDITS = {
    # Missing and unknown keys
    "no learner": (drop("document", "learner"), "no key 'learner'"),
    "another key": (put("document", "hornbean", {}), "unknown key 'hornbean'"),
    "no attributes": (drop("learner", "attributes"), "no key 'attributes'"),
    "no trees": (drop("forest", "trees"), "no key 'trees'"),
    "no tree_info": (drop("forest", "tree_info"), "no key 'tree_info'"),
    "no parents": (drop("tree", "parents"), r"trees\[1\] has no key 'parents'"),
    "other tree key": (put("tree", "colour", 1), "unknown key 'colour'"),
    "other learner key": (put("learner", "colour", 1), "unknown key 'colour'"),
    "other objective key": (put("objective", "colour", {}), "unknown key 'colour'"),
    # Wrong types
    "learner is a list": (put("document", "learner", []), "learner is not an object"),
    "version is text": (put("document", "version", "3.2"), "version is not an array"),
    "attributes are numbers": (
        put("learner", "attributes", {"a": 1}),
        "is not a string",
    ),
    "names are numbers": (
        put("learner", "feature_names", [1, 2, 3]),
        "is not a string",
    ),
    "names are text": (put("learner", "feature_names", "abc"), "array of strings"),
    "half a character": (
        put("learner", "attributes", {"a": "\ud800"}),
        "not valid Unicode",
    ),
    "trees is an object": (put("forest", "trees", {}), "not an array of 2 trees"),
    "the objective is text": (put("learner", "objective", "x"), "is not an object"),
    "parameters are text": (put("objective", "reg_loss_param", "x"), "not an object"),
    "categories are text": (put("cats", "enc", "x"), "cats.enc is not an array"),
    "a tree is a number": (
        put("forest", "trees", [1, 2]),
        r"trees\[0\] is not an object",
    ),
    "ids are text": (put("tree", "id", "1"), r"trees\[1\].id is not an integer"),
    "a number for text": (put("shape", "num_class", 0), "num_class is not a string"),
    "an integer weight": (
        put("base_weights", 3, 1),
        "not an array of 9 floating-point",
    ),
    "a child with a fraction": (put("left_children", 3, 1.0), "array of 9 integers"),
    "a true child": (put("left_children", INNER, True), "array of 9 integers"),
    "a child in text": (put("left_children", INNER, "1"), "array of 9 integers"),
    "a child of 70 bits": (put("left_children", INNER, 2**70), "array of 9 integers"),
    "a child of 40 bits": (put("left_children", INNER, 2**40), "array of 9 integers"),
    "a column of no numbers": (put("tree", "parents", {}), "array of 9 integers"),
    # Invalid numbers
    "infinite threshold": (
        put("split_conditions", INNER, 1e60),
        "node 0: its threshold",
    ),
    "infinite leaf": (
        put("split_conditions", LEAF, -1e60),
        "node 8: its value is -inf",
    ),
    "infinite gain": (put("loss_changes", INNER, 1e60), "its gain is inf"),
    "infinite cover": (put("sum_hessian", LEAF, 1e60), "node 8: its cover is inf"),
    "infinite weight": (put("base_weights", LEAF, 1e60), "its weight is inf"),
    # Sizes
    "a short column": (put("tree", "sum_hessian", [1.0]), "array of 9 floating-point"),
    "more nodes": (put("tree_param", "num_nodes", "10"), "array of 10 floating-point"),
    "huge tree": (
        put("tree_param", "num_nodes", "2147483647"),
        "array of 2147483647 float",
    ),
    "no nodes": (put("tree_param", "num_nodes", "0"), "num_nodes is 0, not from 1"),
    "nodes below zero": (
        put("tree_param", "num_nodes", "-1"),
        "not a non-negative integer",
    ),
    "nodes in words": (
        put("tree_param", "num_nodes", "nine"),
        "not a non-negative integer",
    ),
    "long count": (
        put("tree_param", "num_nodes", "9" * 5000),
        "not a non-negative integer",
    ),
    "deleted nodes": (put("tree_param", "num_deleted", "2"), "num_deleted is 2"),
    "more trees": (put("forest_param", "num_trees", "3"), "not an array of 3 trees"),
    "no parallel trees": (put("forest_param", "num_parallel_tree", "0"), "not from 1"),
    "short tree_info": (put("forest", "tree_info", [0]), "1 entries for 2 trees"),
    "output 1": (put("forest", "tree_info", [0, 1]), r"tree_info\[1\] is 1"),
    "output -1": (put("forest", "tree_info", [0, -1]), r"tree_info\[1\] is -1"),
    "rounds too short": (put("forest", "iteration_indptr", [0, 1]), "does not ascend"),
    "rounds too long": (
        put("forest", "iteration_indptr", [0, 1, 3]),
        "does not ascend",
    ),
    "rounds fall": (put("forest", "iteration_indptr", [0, 3, 2]), "does not ascend"),
    "no whole rounds": (
        lambda *places: (
            drop("forest", "iteration_indptr")(*places),
            put("forest_param", "num_parallel_tree", "3")(*places),
        ),
        "2 trees, not a multiple of the 3",
    ),
    "no rounds": (put("forest", "iteration_indptr", []), "does not ascend"),
    "too few names": (
        put("learner", "feature_names", ["a"]),
        "1 entries for 3 features",
    ),
    "equal names": (put("learner", "feature_names", ["a", "a", "b"]), "the same name"),
    "odd types": (put("learner", "feature_types", ["q", "w", "q"]), "unknown type 'w'"),
    "many classes": (
        put("shape", "num_class", "2147483647"),
        "num_class is 2147483647",
    ),
    "classes and targets": (
        put(
            "learner",
            "learner_model_param",
            {**SHAPE, "num_class": "2", "num_target": "2"},
        ),
        "2 classes and 2 targets",
    ),
    "two base scores": (put("shape", "base_score", "[0.5,0.5]"), "1 finite numbers"),
    "no base score": (put("shape", "base_score", "[]"), "1 finite numbers"),
    "NaN base score": (put("shape", "base_score", "[nan]"), "1 finite numbers"),
    "infinite base score": (put("shape", "base_score", "[1e39]"), "1 finite numbers"),
    "half a bracket": (put("shape", "base_score", "[0.5"), "1 finite numbers"),
    "undecided": (put("shape", "boost_from_average", "2"), "not from 0 to 1"),
    "no objective": (put("learner", "objective", {}), "no key 'name'|is not a string"),
    "unknown objective": (put("objective", "name", "sausage"), "'sausage' is unknown"),
    "other parameters": (put("objective", "reg_loss_param", {"a": "1"}), "is expected"),
    "odd parameter": (
        put("objective", "reg_loss_param", {"scale_pos_weight": "nan"}),
        "scale_pos_weight is 'nan', not a finite number",
    ),
    "softmax without classes": (
        put("objective", "name", "multi:softmax"),
        "unknown key",
    ),
    "softmax of other classes": (
        put(
            "learner",
            "objective",
            {
                "name": "multi:softmax",
                "softmax_multiclass_param": {"num_class": "3"},
            },
        ),
        "num_class is '3' for the objective and 0 for the model",
    ),
    "weights of other trees": (
        put("forest", "weight_drop", [1.0, 1.0, 1.0]),
        "weight_drop has 3 entries for 2 trees",
    ),
    "whole weights": (put("forest", "weight_drop", [1]), "weight_drop is not an array"),
    "infinite weight of a tree": (
        put("forest", "weight_drop", [1.0, 1e39]),
        "weight_drop has a number that is not finite",
    ),
    "pairs by an unknown method": (
        put("learner", "objective", ranking({"lambdarank_pair_method": "all"})),
        "lambdarank_pair_method is 'all', not one of topk, mean",
    ),
    "an unknown parameter of pairs": (
        put("learner", "objective", ranking({"lambdarank_speed": "1"})),
        "is expected",
    ),
    "bias of positions as text": (
        put("learner", "objective", ranking({}, **{"ti+": "1", "tj-": [1.0]})),
        r"objective.ti\+ is not an array of numbers",
    ),
    "bias of one kind": (
        put("learner", "objective", ranking({}, **{"ti+": [1.0]})),
        "not arrays of finite numbers .* each of ti., tj-",
    ),
    "bias of other positions": (
        put("learner", "objective", ranking({}, **{"ti+": [1.0], "tj-": [1.0, 2.0]})),
        "of equal length for each",
    ),
    "bias beyond float32": (
        put("learner", "objective", ranking({}, **{"ti+": [1e39], "tj-": [1.0]})),
        "not arrays of finite numbers",
    ),
    "unknown booster": (put("booster", "name", "gbforest"), "'gbforest' is unknown"),
    "a split by category": (put("split_type", INNER, 1), "does not list the nodes"),
    "split_type 2": (
        put("split_type", INNER, 2),
        "is not an array of 9 numbers 0 or 1",
    ),
    "categories of no node": (put("tree", "categories", [1]), "not add up to 1"),
    # Structure of trees
    "left child beyond": (link(n0=9), "node 0: its left child is 9"),
    "left child at the end": (link(n0=8), "node 0: its left child is 8"),
    "left child huge": (
        put("left_children", INNER, ROOT),
        "its left child is 2147483647",
    ),
    "left child -2": (put("left_children", INNER, -2), "its left child is -2"),
    "the root as child": (link(n0=0), "its left child is 0"),
    "apart children": (put("right_children", INNER, 5), "not the node after"),
    "one child": (put("left_children", INNER, -1), "only a right child"),
    "a shared child": (link(n0=7), "is the child of 2 nodes"),
    "cycle": (cycle, "2 nodes are not reachable from the root"),
    "lost nodes": (link(n0=-1), "8 nodes are not reachable from the root"),
    "another parent": (put("parents", 1, 5), "node 1: its parent is stored as 5"),
    "a parent of the root": (put("parents", 0, 1), "node 0: its parent is stored as 1"),
    "feature 3": (put("split_indices", INNER, 3), "splits on feature 3 of 3"),
    "feature -1": (put("split_indices", INNER, -1), "splits on feature -1"),
    "no features": (put("shape", "num_feature", "0"), "3 entries for 0 features"),
    "direction 2": (put("default_left", INNER, 2), "default_left is 2"),
}


def test_the_unedited_document_is_valid():
    assert digest(decode(json.dumps(SOUND).encode())) != ""


@pytest.mark.parametrize(("edit", "message"), EDITS.values(), ids=EDITS.keys())
def test_an_edited_file_is_rejected(edit, message):
    data = json.dumps(edited(edit)).encode()
    tracemalloc.start()
    began = time.thread_time()
    try:
        with pytest.raises(ModelFileError, match=message):
            decode(data)
        assert time.thread_time() - began < 1
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def vector_document():
    """Return the document of two trees with vector leaves of two values."""
    model = hand_made(n_trees=2, num_target=2, base_score=np.zeros(2))
    for tree in model.trees:
        tree.value = np.stack([tree.value, -tree.value], axis=1)
        tree.weight = np.stack([tree.weight, -tree.weight], axis=1)
    return json.loads(encode_for_xgboost(model, "json"))


def of_leaves(key, value):
    """Return an edit of the second tree; `value` may be a function of the old value."""

    def edit(document):
        tree = document["learner"]["gradient_booster"]["model"]["trees"][1]
        tree[key] = value(tree[key])

    return edit


def other_outputs(document):
    shape = document["learner"]["learner_model_param"]
    shape["num_target"], shape["base_score"] = "3", "[0.0,0.0,0.0]"


def one_scalar_tree(document):
    forest = document["learner"]["gradient_booster"]["model"]
    scalar = SOUND["learner"]["gradient_booster"]["model"]["trees"][1]
    forest["trees"][1] = copy.deepcopy(scalar)


def broken_scalar_tree(document):
    one_scalar_tree(document)
    forest = document["learner"]["gradient_booster"]["model"]
    forest["trees"][1]["left_children"][0] = 9


def no_leaf_weights(document):
    del document["learner"]["gradient_booster"]["model"]["trees"][1]["leaf_weights"]


VECTOR_EDITS = {
    "a short row": (
        of_leaves("leaf_weights", lambda all_values: all_values[:-1]),
        r"trees\[1\].leaf_weights is not an array of 10 floating-point",
    ),
    "leaf weights in text": (of_leaves("leaf_weights", str), "not an array of 10"),
    "an infinite value": (
        of_leaves("leaf_weights", lambda all_values: [1e60, *all_values[1:]]),
        "its value is",
    ),
    "a row beyond": (
        of_leaves("right_children", lambda rows: [*rows[:-1], 5]),
        "not the index of a row of leaf_weights",
    ),
    "a row below zero": (
        of_leaves("right_children", lambda rows: [*rows[:-1], -1]),
        "not the index of a row of leaf_weights",
    ),
    "weights of one output": (
        of_leaves("base_weights", lambda weights: weights[:8]),
        "base_weights is not an array of 18 floating-point",
    ),
    "no leaf weights": (no_leaf_weights, "2 values and no key 'leaf_weights'"),
    "leaf weights of one value": (
        of_leaves("tree_param", lambda param: {**param, "size_leaf_vector": "1"}),
        "1 values and the key 'leaf_weights'",
    ),
    "values of three outputs": (
        of_leaves("tree_param", lambda param: {**param, "size_leaf_vector": "3"}),
        r"trees\[1\].leaf_weights is not an array of 15 floating-point",
    ),
    "huge leaves": (
        of_leaves(
            "tree_param", lambda param: {**param, "size_leaf_vector": "2147483647"}
        ),
        "not from 0 to 1048576",
    ),
    "a node of a tree of one output": (
        broken_scalar_tree,
        r"trees\[1\], node 0: its left child is 9",
    ),
    "another number of outputs": (other_outputs, "2 values per leaf, .* 3 outputs"),
}


@pytest.mark.parametrize(
    ("edit", "message"), VECTOR_EDITS.values(), ids=VECTOR_EDITS.keys()
)
def test_invalid_vector_leaves_are_rejected(edit, message):
    document = vector_document()
    sound = decode(json.dumps(document).encode())
    assert sound.leaf_size == 2
    edit(document)
    with pytest.raises(ModelFileError, match=message):
        decode(json.dumps(document).encode())


@pytest.mark.parametrize("format", ["json", "ubj"])
def test_scalar_and_vector_leaves_may_be_in_one_file(format):
    document = vector_document()
    one_scalar_tree(document)
    model = decode(json.dumps(document).encode())
    assert [tree.leaf_size for tree in model.trees] == [2, 1]
    assert digest(decode(encode(model, format))) == digest(model)


def typed(document):
    """Return the document with the arrays of UBJSON, and with a list of trees."""
    model = decode(json.dumps(document).encode())
    found = ubjson.loads(encode_for_xgboost(model, "ubj"))
    forest = found["learner"]["gradient_booster"]["model"]
    forest["trees"] = list(forest["trees"])
    return found


@pytest.mark.parametrize(
    ("key", "values", "message"),
    [
        ("split_conditions", np.full(9, np.nan, np.float32), "its threshold is nan"),
        ("split_conditions", np.full(9, np.inf), "its threshold is inf"),
        ("sum_hessian", np.full(9, -np.inf, np.float32), "its cover is -inf"),
        ("sum_hessian", np.ones(9, np.int32), "not an array of 9 floating-point"),
        ("parents", np.ones(9, np.float32), "not an array of 9 integers"),
        ("parents", np.full(9, 2**40), "not an array of 9 integers"),
        ("default_left", np.full(9, -1, np.int8), "not an array of 9 integers"),
        ("left_children", np.zeros(8, np.int32), "not an array of 9 integers"),
    ],
)
def test_an_edited_array_is_rejected(key, values, message):
    document = typed(SOUND)
    document["learner"]["gradient_booster"]["model"]["trees"][1][key] = values
    with pytest.raises(ModelFileError, match=message):
        decode(ubjson.dumps(document))


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ([0.1], "one number per threshold"),
        ([1, 2, 3, 4], "one number per threshold"),
        ([0.1] * 4, "does not agree with split_conditions"),
    ],
)
def test_float64_thresholds_must_match_the_rounded_ones(thresholds, message):
    document = edited(put("tree", "hornbeam_thresholds", thresholds))
    with pytest.raises(ModelFileError, match=message):
        decode(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("digest", "0" * 64, "the checksum is"),
        ("digest", 1, "the checksum is"),
        ("format", 2, "a later version of Hornbeam wrote this file; upgrade"),
        ("format", 0, "hornbeam.format is 0"),
        ("format", True, "hornbeam.format is True"),
        ("exact_features", "yes", "not true or false"),
        ("colour", 1, "unknown key 'colour'"),
    ],
)
def test_the_extension_is_validated(key, value, message):
    document = json.loads(encode(hand_made(), "json"))
    param = document["learner"]["gradient_booster"]["model"]["gbtree_model_param"]
    own = json.loads(param["hornbeam"]) | {key: value}
    param["hornbeam"] = json.dumps(own)
    with pytest.raises(ModelFileError, match=message):
        decode(json.dumps(document).encode())
    # The position of the extension in a linear model.
    del param["hornbeam"]
    document["hornbeam"] = own
    with pytest.raises(ModelFileError, match=message):
        decode(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the value of the key 'hornbeam' is not valid"),
        (1, "the value of the key 'hornbeam' is not valid"),
        ("[]", "the value of the key 'hornbeam' is not valid"),
        ("[" * 100_000, "the value of the key 'hornbeam' is not valid"),
        ('{"thresholds": 1}', "the value of the key 'hornbeam' is not valid"),
        ('{"thresholds": {"0": "!"}}', "the value of the key 'hornbeam' is not valid"),
        ('{"thresholds": {"9": ""}}', "the value of the key 'hornbeam' is not valid"),
        ('{"thresholds": {"x": ""}}', "the value of the key 'hornbeam' is not valid"),
        (
            '{"thresholds": {"0": "AAAA"}}',
            "the value of the key 'hornbeam' is not valid",
        ),
        ('{"thresholds": {"0": ""}}', "hornbeam has no key 'digest'"),
    ],
)
def test_the_json_of_the_extension_is_validated(text, message):
    document = edited(put("forest_param", "hornbeam", text))
    with pytest.raises(ModelFileError, match=message):
        decode(json.dumps(document).encode())


def test_a_repeated_extension_is_rejected():
    document = json.loads(encode(hand_made(), "json"))
    document["hornbeam"] = {}
    with pytest.raises(ModelFileError, match="is present twice"):
        decode(json.dumps(document).encode())


def chain(n_splits):
    """Return the document of a tree in which each right child is split."""
    document = copy.deepcopy(SOUND)
    n_nodes = 2 * n_splits + 1
    numbers = list(range(n_nodes))
    inner = [node == 0 or (node % 2 == 0 and node < n_nodes - 1) for node in numbers]
    tree = document["learner"]["gradient_booster"]["model"]["trees"][0]
    tree.update(
        left_children=[n + 1 if i else -1 for n, i in zip(numbers, inner, strict=True)],
        right_children=[
            n + 2 if i else -1 for n, i in zip(numbers, inner, strict=True)
        ],
        parents=[ROOT] + [(n - 1) // 2 * 2 for n in numbers[1:]],
    )
    for key in ("default_left", "split_indices", "split_type"):
        tree[key] = [0] * n_nodes
    for key in ("base_weights", "loss_changes", "split_conditions", "sum_hessian"):
        tree[key] = [0.5] * n_nodes
    tree["tree_param"]["num_nodes"] = str(n_nodes)
    return json.dumps(document).encode()


def test_a_deep_tree_is_read_and_one_beyond_the_limit_is_rejected():
    model = decode(chain(5_000))
    assert model.trees[0].depth() == 5_000
    assert digest(decode(encode(model, "ubj"))) == digest(model)
    with pytest.raises(ModelFileError, match="deeper than 65535"):
        decode(chain(70_000))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda model: model.tree_output.pop(), "1 entries for 2 trees"),
        (lambda model: model.round_starts.append(2), "does not ascend"),
        (lambda model: setattr(model, "num_feature", 0), "splits on feature"),
        (lambda model: setattr(model, "num_feature", -1), "num_feature is -1"),
        (lambda model: setattr(model, "objective", "own"), "'own' is unknown"),
        (lambda model: setattr(model, "objective_config", {}), "is expected"),
        (lambda model: setattr(model, "base_score", np.array([np.nan])), "finite"),
        (lambda model: model.attributes.update(a="\udc80"), "not valid Unicode"),
        (lambda model: model.trees[1].value.fill(np.nan), "its value is nan"),
        (
            lambda model: model.trees[1].left.fill(1),
            "the child of|only|not both nodes|not the node",
        ),
    ],
)
def test_an_invalid_model_in_memory_is_not_written(spoil, message):
    model = hand_made()
    spoil(model)
    for write in (digest, lambda model: encode(model, "json")):
        with pytest.raises(HornbeamError, match=message):
            write(model)
