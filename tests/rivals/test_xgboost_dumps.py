"""Dumps and data frames of a model file are equal to those of the real XGBoost.

The tests note where Hornbeam differs because XGBoost's output is incomplete or invalid:
values of vector leaves, which XGBoost omits, their statistics, and indicators and
unusual names in data frames.
"""

from __future__ import annotations

import io
import json

import numpy as np
import pandas
import pytest
import xgboost
from samples import ranked

import hornbeam

NAMES = ["size", "is a flag", "count", 'the "kind"', "rest"]
TYPES = ["q", "i", "int", "c", "float"]
FORMATS = ["text", "json", "dot"]
STYLE = (
    "dot:{'graph_attrs': {'size': '7,5', 'rankdir': 'LR'}, 'edge': {'no_color': 'red'},"
    "'leaf_node_params': {'shape': 'box', 'fillcolor': '#e48038'},"
    "'condition_node_params': {'shape': 'box'}}"
)


def table(missing=0.1, dtype=np.float32):
    """Return a column of each type, and labels that depend on all of them."""
    rng = np.random.default_rng(0)
    rows = np.column_stack(
        [
            rng.normal(size=400),
            rng.integers(0, 2, 400),
            rng.integers(-4, 5, 400) + 0.5,
            rng.integers(0, 9, 400),
            rng.normal(size=400) * 1e-4,
        ]
    )
    labels = rows @ [1, 1, 0.3, 0, 3e3] + np.sin(5 * rows[:, 3]) * 2
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows.astype(dtype), labels.astype(np.float32)


def trained(rounds=3, dtype=np.float32, columns=True, label=None, **params):
    rows, labels = table(dtype=dtype)
    info = {}
    if columns:
        info = {"feature_names": NAMES, "feature_types": TYPES}
    labels = label(labels) if label else labels
    data = hornbeam.DMatrix(rows, labels, **info)
    depth = {} if params.get("booster") == "gblinear" else {"max_depth": 4}
    return hornbeam.train({"nthread": 1, **depth, **params}, data, rounds)


def in_xgboost(booster):
    other = xgboost.Booster({"nthread": 1})
    other.load_model(booster.save_raw("ubj"))
    return other


def two(labels):
    return np.column_stack([labels, -labels])


MADE = {
    "one-hot": lambda: trained(max_cat_to_onehot=100),
    "groups": lambda: trained(max_cat_to_onehot=1, max_depth=6),
    "numbers": lambda: trained(columns=False),
    "binary": lambda: trained(objective="binary:logistic", label=lambda x: x > 1),
    "classes": lambda: trained(
        objective="multi:softprob", num_class=3, label=lambda x: ranked(x, 3)
    ),
    "dart": lambda: trained(booster="dart", rate_drop=0.5, max_cat_to_onehot=1),
    "forest": lambda: trained(num_parallel_tree=3, subsample=0.5, rounds=2),
    "pruned": lambda: trained(gamma=20, max_depth=5),
    "stumps": lambda: trained(gamma=1e9),
    "leaves": lambda: trained(grow_policy="lossguide", max_leaves=9, max_depth=0),
    "float64": lambda: trained(dtype=np.float64, tree_method="exact", columns=False),
    "two targets": lambda: trained(label=two, columns=False),
    "linear": lambda: trained(booster="gblinear", columns=False),
    "linear classes": lambda: trained(
        booster="gblinear",
        objective="multi:softprob",
        num_class=3,
        columns=False,
        label=lambda x: ranked(x, 3),
    ),
}
VECTORS = {
    "two outputs": lambda: trained(
        multi_strategy="multi_output_tree", label=two, columns=False
    ),
    "three classes": lambda: trained(
        multi_strategy="multi_output_tree",
        objective="multi:softprob",
        num_class=3,
        columns=False,
        label=lambda x: ranked(x, 3),
    ),
}
OF_TREES = [name for name in MADE if not name.startswith("linear")]


@pytest.fixture(scope="module")
def both():
    """Return a model trained once as boosters of both libraries."""
    known = {}

    def made(name):
        if name not in known:
            ours = (MADE | VECTORS)[name]()
            known[name] = ours, in_xgboost(ours)
        return known[name]

    return made


@pytest.mark.parametrize("with_stats", [False, True])
@pytest.mark.parametrize("name", MADE)
def test_dumps_equal_xgboosts(both, name, with_stats):
    ours, theirs = both(name)
    for kind in FORMATS if name in OF_TREES else FORMATS[:2]:
        dumps = ours.get_dump("", with_stats, kind)
        assert dumps == theirs.get_dump("", with_stats, kind)
        if kind == "json":
            assert all(isinstance(json.loads(text), dict) for text in dumps)


@pytest.mark.parametrize("method", ["hist", "exact"])
def test_dumps_of_xgboosts_models_are_equal(method):
    rows, labels = table()
    data = xgboost.DMatrix(rows, labels, feature_names=list("abcde"))
    params = {"tree_method": method, "gamma": 9, "max_depth": 6, "nthread": 1}
    theirs = xgboost.train(params, data, 3)
    ours = hornbeam.Booster(model_file=theirs.save_raw())
    for tree in ours.model.trees:  # pruning leaves nodes behind that are cut off
        assert (tree.n_nodes > 2 * tree.n_leaves - 1) == (method == "exact")
    for kind in FORMATS:
        assert ours.get_dump("", True, kind) == theirs.get_dump("", True, kind)
    pandas.testing.assert_frame_equal(
        ours.trees_to_dataframe(), theirs.trees_to_dataframe()
    )


def test_the_test_models_have_splits_of_each_kind(both):
    text = "".join(both("groups")[0].get_dump())
    for asked in ("[size<", "[is a flag]", "[count<", '[the \\"kind\\":{', "e-05]"):
        assert asked in text
    trees = both("float64")[0].model.trees
    cuts = np.concatenate([tree.threshold[tree.left >= 0] for tree in trees])
    assert np.any(cuts.astype(np.float32) != cuts)


@pytest.mark.parametrize("name", ["one-hot", "dart", "classes", "numbers"])
def test_dot_styles_equal_xgboosts(both, name):
    ours, theirs = both(name)
    assert ours.get_dump(dump_format=STYLE) == theirs.get_dump(dump_format=STYLE)


@pytest.mark.parametrize("name", VECTORS)
def test_dumps_of_vector_leaves(both, name):
    ours, theirs = both(name)
    for kind in FORMATS:
        assert ours.get_dump(dump_format=kind) == theirs.get_dump(dump_format=kind)
        with pytest.raises(xgboost.core.XGBoostError, match="not yet implemented"):
            theirs.get_dump(with_stats=True, dump_format=kind)
        assert "cover" in ours.get_dump(with_stats=True, dump_format=kind)[0]


def test_xgboost_omits_values_of_large_vector_leaves():
    ours = trained(
        multi_strategy="multi_output_tree",
        columns=False,
        label=lambda x: np.column_stack([x, -x, 2 * x, x + 1]),
        max_depth=1,
    )
    theirs = in_xgboost(ours)
    with pytest.raises(json.JSONDecodeError):
        json.loads(theirs.get_dump(dump_format="json")[0])
    for child in json.loads(ours.get_dump(dump_format="json")[0])["children"]:
        assert len(child["leaf"]) == 4
    assert "..." in theirs.get_dump()[0] and "..." not in ours.get_dump()[0]
    assert ours.get_dump(dump_format="dot") == theirs.get_dump(dump_format="dot")


def test_names_are_escaped():
    """XGBoost does not escape a backslash before u, so its JSON is invalid."""
    names = ['a"b', "\b\f\n\t\x1f", "東\x7f/", "\\\\", "\\u"]
    ours = trained(columns=False)
    ours.feature_names = names
    for kind in FORMATS:
        (text, *_), (other, *_) = (
            booster.get_dump(dump_format=kind) for booster in (ours, in_xgboost(ours))
        )
        assert text.replace("\\\\u", "\\u") == other
    assert "\\\\u" in text and "f4" not in text
    assert set(ours.trees_to_dataframe()["Feature"]) <= {*names, "Leaf"}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", ["one-hot", "stumps", "linear"])
def test_dump_files_equal_xgboosts(both, tmp_path, name, kind):
    ours, theirs = both(name)
    if (name, kind) == ("linear", "dot"):
        return
    ours.dump_model(tmp_path / "ours", with_stats=True, dump_format=kind)
    theirs.dump_model(tmp_path / "theirs", with_stats=True, dump_format=kind)
    written = (tmp_path / "ours").read_bytes()
    assert written == (tmp_path / "theirs").read_bytes()
    file = io.StringIO()
    ours.dump_model(file, with_stats=True, dump_format=kind)
    assert file.getvalue().encode() == written


@pytest.mark.parametrize("name", ["numbers", "classes", "linear", "linear classes"])
def test_dumps_with_feature_maps_equal_xgboosts(both, tmp_path, name):
    ours, theirs = both(name)
    lines = ["0 width float", "1\tflag i", "2 count int", "3 zürich q", '4 a"b\\c q']
    if name == "classes":
        lines[3] = "3 zürich c"
    fmap = tmp_path / "names.txt"
    fmap.write_text("\n".join(lines), encoding="utf-8")
    for kind in FORMATS[:2] if name.startswith("linear") else FORMATS:
        assert ours.get_dump(fmap, True, kind) == theirs.get_dump(fmap, True, kind)
    assert [*ours.get_score(fmap).items()] == [*theirs.get_score(fmap).items()]
    assert ours.get_fscore(fmap) == theirs.get_fscore(fmap)


@pytest.mark.parametrize("name", MADE)
def test_scores_equal_xgboosts(both, name):
    ours, theirs = both(name)
    assert ours.get_fscore() == theirs.get_fscore()
    if name not in OF_TREES:
        return
    for kind in ("weight", "gain", "cover", "total_gain", "total_cover"):
        # XGBoost sums in float32.
        assert ours.get_score(importance_type=kind) == pytest.approx(
            theirs.get_score(importance_type=kind), rel=1e-5
        )


@pytest.mark.parametrize("name", OF_TREES)
def test_data_frames_and_histograms_equal_xgboosts(both, tmp_path, name):
    ours, theirs = both(name)
    fmap, features = "", [f"f{i}" for i in range(5)]
    if ours.feature_names:
        fmap, features = tmp_path / "names.txt", ["size", "flag", "count", "rest"]
        fmap.write_text("0 size q\n1 flag q\n2 count int\n3 kind c\n4 rest q\n")
    pandas.testing.assert_frame_equal(
        ours.trees_to_dataframe(fmap), theirs.trees_to_dataframe(fmap)
    )
    for feature in features:
        for bins in (None, 3, 0):
            pandas.testing.assert_frame_equal(
                ours.get_split_value_histogram(feature, fmap, bins),
                theirs.get_split_value_histogram(feature, fmap, bins),
            )
        np.testing.assert_array_equal(
            ours.get_split_value_histogram(feature, fmap, as_pandas=False),
            theirs.get_split_value_histogram(feature, fmap, as_pandas=False),
        )


def test_xgboost_does_not_support_indicators_in_data_frames(both):
    ours, theirs = both("groups")
    with pytest.raises(ValueError, match="Failed to parse"):
        theirs.trees_to_dataframe()
    frame = ours.trees_to_dataframe()
    assert set(frame["Feature"]) == {*NAMES, "Leaf"}
    # 2 is above both values: only missing values go right.
    cuts = set(frame["Split"][frame["Feature"] == "is a flag"].round(2))
    assert cuts <= {1.0, 2.0}
    assert len(theirs.get_split_value_histogram("is a flag")) == 0
    counted = ours.get_split_value_histogram("is a flag")["Count"].sum()
    assert counted == ours.get_fscore()["is a flag"]
