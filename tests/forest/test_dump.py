"""Dumps: equal to XGBoost's for random trees; dot styles; dump files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from forest_models import grown_tree, hand_made, in_xgboost

import hornbeam
from hornbeam.errors import NotTrainedError, ParameterError
from hornbeam.forest import Model, encode

FORMATS = ["text", "json", "dot"]
MAP = "0 a c\n1 b float\n2 c q\n"


def booster_of(model):
    return hornbeam.Booster(model_file=encode(model, "json"))


def of_any_numbers(seed):
    """Return a booster of random trees with numbers over the range of float32."""
    rng = np.random.default_rng(seed)
    trees = [grown_tree(rng, n_splits=20, exact=True, categorical=[0]) for _ in "ab"]
    for tree in trees:
        for column in (tree.value, tree.gain, tree.cover, tree.threshold):
            column *= (10.0 ** rng.uniform(-40, 36, len(column))).astype(column.dtype)
    model = Model(
        trees=trees,
        tree_output=[0, 0],
        round_starts=[0, 1, 2],
        num_feature=3,
        feature_types=["c", "q", "q"],
    )
    return booster_of(model)


@pytest.mark.parametrize("with_stats", [False, True])
@pytest.mark.parametrize("kind", FORMATS)
def test_dumps_of_random_trees_equal_xgboosts(tmp_path, kind, with_stats):
    fmap = tmp_path / "names.txt"
    fmap.write_text(MAP)
    for seed in range(5):
        ours = of_any_numbers(seed)
        theirs = in_xgboost(ours.save_raw())
        dumps = ours.get_dump(fmap, with_stats, kind)
        assert dumps == theirs.get_dump(fmap, with_stats, kind)


def margin_by(node, row):
    """Return the value of the leaf that a row reaches in a JSON dump."""
    while "leaf" not in node:
        value, limit = row[int(node["split"][1:])], node["split_condition"]
        if np.isnan(value):
            after = node["missing"]
        else:
            holds = value in limit if isinstance(limit, list) else value < limit
            after = node["yes"] if holds else node["no"]
        node = next(child for child in node["children"] if child["nodeid"] == after)
    return node["leaf"]


def test_paths_in_a_dump_lead_to_the_predictions():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 3)).astype(np.float32)
    rows[:, 2] = rng.integers(0, 9, 300)
    rows[rng.random(rows.shape) < 0.2] = np.nan
    labels = np.nan_to_num(rows[:, 0]) + np.sin(3 * np.nan_to_num(rows[:, 2]))
    data = hornbeam.DMatrix(rows, labels, feature_types=["q", "q", "c"])
    params = {"max_cat_to_onehot": 1, "base_score": 0, "max_depth": 5}
    booster = hornbeam.train(params, data, 4)
    trees = [json.loads(text) for text in booster.get_dump(dump_format="json")]
    told = [sum(margin_by(tree, row) for tree in trees) for row in rows]
    np.testing.assert_allclose(booster.predict(data), told, rtol=1e-5, atol=1e-6)


def test_a_tree_with_one_split_per_level():
    n_nodes = 4001
    tree = grown_tree(np.random.default_rng(0), n_splits=2000)
    inner = np.arange(0, n_nodes - 1, 2)
    tree.left[:], tree.right[:], tree.parent[:] = -1, -1, -1
    tree.left[inner], tree.right[inner] = inner + 1, inner + 2
    tree.parent[inner + 1] = tree.parent[inner + 2] = inner
    split = tree.left >= 0
    tree.feature[:] = 0
    tree.threshold[:] = np.where(split, 0.5, np.nan)
    tree.default_left[:] = 0
    model = Model(trees=[tree], tree_output=[0], round_starts=[0, 1], num_feature=3)
    text, document, graph = (booster_of(model).get_dump("", 1, f)[0] for f in FORMATS)
    assert text.count("\n") == n_nodes and "\t" * 2000 + "4000:leaf" in text
    assert document.count("{") == document.count("}") == n_nodes
    assert document.count("[") == document.count("]") == 2000
    assert graph.count("label=") == 2 * n_nodes - 1
    assert len(booster_of(model).trees_to_dataframe()) == n_nodes


def test_unknown_formats_are_rejected():
    booster = booster_of(hand_made())
    for kind in ("yaml", "", "text:{}", "JSON"):
        with pytest.raises(ParameterError, match="one of text, json, dot, not"):
            booster.get_dump(dump_format=kind)
    with pytest.raises(NotTrainedError, match="train it"):
        hornbeam.Booster().get_dump()


def test_a_linear_model_has_no_dot_dump():
    rows = np.arange(12.0).reshape(6, 2)
    data = hornbeam.DMatrix(rows, rows[:, 0])
    booster = hornbeam.train({"booster": "gblinear"}, data, 2)
    with pytest.raises(ParameterError, match="dump it as text or json"):
        booster.get_dump(dump_format="dot")
    (document,) = booster.get_dump(dump_format="json")
    assert len(json.loads(document)["weight"]) == 2


def test_a_dump_file_is_replaced_atomically(tmp_path):
    booster = booster_of(hand_made())
    path = tmp_path / "dump.json"
    booster.dump_model(path, dump_format="json")
    assert len(json.loads(path.read_text())) == 2
    before = path.read_bytes()
    with pytest.raises(ParameterError):
        booster.dump_model(path, dump_format="yaml")
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["dump.json"]
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        booster.dump_model(tmp_path / "nowhere" / "dump.txt")


def test_dot_styles_apply_to_their_parts():
    booster = booster_of(hand_made())
    style = (
        '{"edge": {"yes_color": "green"}, "graph_attrs": {"rankdir": "LR"},'
        ' "leaf_node_params": {"shape": "box"}}'
    )
    plain, styled = booster.get_dump("", False, "dot")[0], "dot:" + style
    (text, _) = booster.get_dump("", False, styled)
    assert '    graph [ rankdir="LR" ]\n' in text
    assert text.count('shape="box"') == plain.count("leaf=") == 5
    assert text.count('color="green"') == text.count("missing") == 4
    assert booster.get_dump("", False, styled.replace('"', "'"))[0] == text
    assert booster.get_dump("", False, "dot:{}")[0] == plain


@pytest.mark.parametrize(
    ("style", "match"),
    [
        ("{", "not JSON at character 1"),
        ("[]", "must be an object with condition_node_params"),
        ('{"colour": {}}', "must be an object with condition_node_params"),
        ('{"edge": {"yes_color": 1}}', "edge .* must be an object of strings"),
        ('{"graph_attrs": "LR"}', "graph_attrs .* must be an object of strings"),
        ('{"edge": {"color": "red"}}', "edge .* has color; it may have yes_color"),
    ],
)
def test_invalid_dot_styles_are_rejected(style, match):
    with pytest.raises(ParameterError, match=match):
        booster_of(hand_made()).get_dump(dump_format="dot:" + style)
