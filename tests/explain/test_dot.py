"""Trees as graphs of Graphviz: the text is XGBoost's, and one tree at a time."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from samples import few_values

import hornbeam
from hornbeam.errors import NotTrainedError, ParameterError
from hornbeam.explain import to_graphviz

ROWS, LABELS = few_values(80, 3)
MODEL = hornbeam.train({"max_depth": 2}, hornbeam.DMatrix(ROWS, LABELS), 3)


def test_the_graph_is_the_dump_of_the_tree():
    for tree in range(3):
        source = to_graphviz(MODEL, tree).source
        assert source.rstrip("\n") == MODEL.get_dump(dump_format="dot")[tree]
    with_stats = to_graphviz(MODEL, 1, with_stats=True).source
    assert "gain=" in with_stats
    assert "cover=" in with_stats


def test_an_estimator_has_its_model_drawn():
    estimator = hornbeam.HornbeamRegressor(n_estimators=2, max_depth=2)
    estimator.fit(ROWS, LABELS)
    assert to_graphviz(estimator).source == to_graphviz(estimator.get_booster()).source


def test_colours_and_attributes_come_into_the_graph():
    source = to_graphviz(
        MODEL,
        yes_color="#00AA00",
        no_color="#AA0000",
        condition_node_params={"shape": "box", "style": "filled"},
        leaf_node_params={"shape": "oval"},
        rankdir="LR",
        splines="ortho",
    ).source
    assert 'color="#00AA00"' in source
    assert 'color="#AA0000"' in source
    assert source.count('shape="box" style="filled"') == 3
    assert source.count('shape="oval"') == 4
    assert 'graph [ rankdir="LR" ]' in source
    assert 'graph [ splines="ortho" ]' in source


def test_names_come_from_a_feature_map(tmp_path):
    path = tmp_path / "features.txt"
    path.write_text("0 first q\n1 second q\n2 third q\n")
    source = to_graphviz(MODEL, fmap=path).source
    assert any(name in source for name in ("first<", "second<", "third<"))


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs the program dot")
def test_dot_draws_it():
    assert b"<svg" in to_graphviz(MODEL, with_stats=True).pipe(format="svg")


@pytest.mark.parametrize(
    ("model", "tree", "error", "words"),
    [
        (MODEL, 3, ParameterError, r"tree=3 is not a tree of this model; .* 0 to 2"),
        (MODEL, "0", ParameterError, "tree='0' is not a tree"),
        ("model.json", 0, ParameterError, "must be a Booster or an estimator"),
        (hornbeam.Booster(), 0, NotTrainedError, "has no trees yet"),
    ],
)
def test_what_cannot_be_drawn_is_said(model, tree, error, words):
    with pytest.raises(error, match=words):
        to_graphviz(model, tree)


def test_an_attribute_is_a_string():
    with pytest.raises(ParameterError, match=r"graph_attrs .* object of strings"):
        to_graphviz(MODEL, size=np.pi)
