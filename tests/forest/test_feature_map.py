"""Feature maps: valid and invalid files."""

from __future__ import annotations

import numpy as np
import pytest
from forest_models import grown_tree, hand_made

import hornbeam
from hornbeam.errors import ParameterError
from hornbeam.forest import Model, encode


@pytest.fixture(scope="module")
def booster():
    return hornbeam.Booster(model_file=encode(hand_made(), "json"))


def written(tmp_path, text):
    path = tmp_path / "features.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_names_and_types_are_read_from_the_file(booster, tmp_path):
    fmap = written(tmp_path, "0\tzürich q\n\n1 b int\r\n  2 c i\n")
    text = "".join(booster.get_dump(fmap))
    assert "[zürich<" in text and "[c]" in text and "f0" not in text
    assert "[f0<" in "".join(booster.get_dump())
    counts = booster.get_score(fmap)
    assert [*counts.values()] == [*booster.get_score().values()]
    assert [*counts] == ["zürich", "b", "c"]
    assert set(booster.trees_to_dataframe(fmap)["Feature"]) == {*counts, "Leaf"}
    assert booster.feature_names is None


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "has 0 features, and the model 3"),
        ("0 a q\n1 b q\n", "has 2 features, and the model 3"),
        ("0 a q\n2 b q\n", "line 2: the feature index is '2', but 1 is expected"),
        ("a 0 q\n", "line 1: the feature index is 'a', but 0 is expected"),
        ("0 a q\n1 b b q\n", "line 2: '1 b b q' is not a feature index"),
        ("0 a\n", "line 1: '0 a' is not a feature index"),
        ("0 a z\n", "line 1: 'z' is not a type; use one of 'float'"),
        ("0 a q\n1 a q\n2 b q\n", "repeated names: 'a'"),
        (b"0 a\xff q\n", "not UTF-8 at byte 3"),
        ("0 a c\n1 b c\n2 c c\n", "has the type 'c', categorical, .* by threshold"),
    ],
)
def test_invalid_maps_are_rejected(booster, tmp_path, text, match):
    with pytest.raises(ParameterError, match=match) as caught:
        booster.get_dump(written(tmp_path, text))
    assert "features.txt" in str(caught.value)


def test_a_missing_file_raises_an_error(booster, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.txt"):
        booster.get_dump(tmp_path / "none.txt")


def test_numerical_types_for_categorical_splits_are_rejected(tmp_path):
    rng = np.random.default_rng(0)
    model = Model(
        trees=[grown_tree(rng, n_splits=9, categorical=[0])],
        tree_output=[0],
        round_starts=[0, 1],
        num_feature=3,
        feature_types=["c", "q", "q"],
    )
    booster = hornbeam.Booster(model_file=encode(model, "json"))
    fmap = written(tmp_path, "0 a int\n1 b q\n2 c q\n")
    with pytest.raises(
        ParameterError, match=r"'int', numerical, for 'a'.* by category"
    ):
        booster.trees_to_dataframe(fmap)
    booster.feature_types = None
    with pytest.raises(ParameterError, match="feature_types has the type 'q'"):
        booster.get_dump()
