"""What notebooks and prompts show of models and matrices."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import hornbeam
from hornbeam import xgboost as face


@pytest.fixture(scope="module")
def matrix() -> hornbeam.DMatrix:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(size=200),
            "city &c.": pd.Categorical(rng.choice(["Oslo", "Rome"], 200)),
        }
    )
    frame.loc[:49, "age"] = np.nan
    return hornbeam.DMatrix(frame, rng.random(200), weight=np.ones(200))


@pytest.fixture(scope="module")
def booster(matrix) -> hornbeam.Booster:
    return hornbeam.train(
        {"max_depth": 2}, matrix, 5, evals=[(matrix, "train")], verbose_eval=False
    )


class Tags(HTMLParser):
    """Checks that every element is closed, and collects the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_a_booster_is_told_in_one_line(booster, matrix):
    said = "Booster(objective='reg:squarederror', rounds=5, trees=5, features=2)"
    assert repr(booster) == said
    assert repr(booster.model) == said.replace("Booster", "Model")
    assert repr(booster.model.trees[0]) == "Tree(leaves=4, depth=2)"
    linear = hornbeam.train(
        {"booster": "gblinear"}, hornbeam.DMatrix([[1], [2]], [1, 2]), 2
    )
    assert "booster='gblinear', rounds=2, features=1" in repr(linear)
    assert repr(hornbeam.Booster()).endswith("rounds=0, trees=0, features=0)")
    stopped = hornbeam.train(
        {"max_depth": 2},
        matrix,
        5,
        evals=[(matrix, "train")],
        early_stopping_rounds=2,
        verbose_eval=False,
    )
    assert "best_iteration=4" in repr(stopped)


def test_a_matrix_is_told_in_one_line(matrix):
    assert repr(matrix) == "DMatrix(200 rows x 2 columns, 1 categorical, label, weight)"
    binned = hornbeam.QuantileDMatrix(np.ones((3, 1)), [1, 2, 3], group=[1, 2])
    assert repr(binned) == "QuantileDMatrix(3 rows x 1 columns, label, group_ptr)"
    assert repr(face.DMatrix([[1.0]])) == "DMatrix(1 rows x 1 columns)"


def test_html_of_a_booster_has_curve_importances_and_tree(booster):
    page = Tags(booster._repr_html_()).text
    assert "rmse by round: train" in page
    assert "importance (gain), the first 2" in page
    assert "age <" in page or "in {" in page
    assert booster._repr_html_().count("<polyline") == 1
    loaded = hornbeam.Booster(model_file=booster.save_raw())
    assert "by round" not in Tags(loaded._repr_html_()).text
    Tags(hornbeam.Booster()._repr_html_())


def test_html_of_a_matrix_has_kinds_and_missing_shares(matrix):
    html = matrix._repr_html_()
    page = Tags(html).text
    assert "city &c." in page and "city &c." not in html
    assert "25.0%" in page and "categorical, 2 levels" in page
    wide = hornbeam.DMatrix(np.ones((2, 50)))
    assert "and 30 more columns" in Tags(wide._repr_html_()).text
    Tags(hornbeam.QuantileDMatrix(np.ones((4, 2)), np.ones(4))._repr_html_())
    times = pd.DataFrame({"t": pd.date_range("2020-01-01", periods=4, tz="UTC")})
    for kind in (hornbeam.DMatrix, hornbeam.QuantileDMatrix):
        page = Tags(kind(times, np.ones(4), dates="expand")._repr_html_()).text
        assert "times with a time zone" in page and "100.0%" not in page
