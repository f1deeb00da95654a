"""Styles of graphs: which XGBoost takes, and which are refused."""

from __future__ import annotations

import pytest
from forest_models import hand_made

import hornbeam
from hornbeam.errors import ParameterError
from hornbeam.forest import encode


@pytest.fixture(scope="module")
def booster():
    return hornbeam.Booster(model_file=encode(hand_made(), "json"))


def test_a_style_is_for_its_parts(booster):
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
def test_styles_that_mean_nothing(booster, style, match):
    with pytest.raises(ParameterError, match=match):
        booster.get_dump(dump_format="dot:" + style)
