"""Data frames of trees and histograms of split values."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from forest_models import hand_made

import hornbeam
from hornbeam.errors import NotTrainedError, ParameterError
from hornbeam.forest import encode


@pytest.fixture(scope="module")
def booster():
    return hornbeam.Booster(model_file=encode(hand_made(), "json"))


def test_data_frames_have_one_row_per_node(booster):
    frame = booster.trees_to_dataframe()
    for number, tree in enumerate(booster.model.trees):
        rows = frame[frame["Tree"] == number]
        assert rows["Node"].tolist() == list(range(tree.n_nodes))
        assert rows["ID"].tolist() == [f"{number}-{i}" for i in range(tree.n_nodes)]
        inner = tree.left >= 0
        np.testing.assert_array_equal(rows["Feature"] != "Leaf", inner)
        np.testing.assert_allclose(rows["Split"], tree.threshold, rtol=1e-8)
        told = np.where(inner, tree.gain, tree.value)
        np.testing.assert_allclose(rows["Gain"], told, rtol=1e-8)
        np.testing.assert_allclose(rows["Cover"], tree.cover, rtol=1e-8)
        yes = [f"{number}-{left}" for left in tree.left[inner]]
        assert rows["Yes"][inner].tolist() == yes
        missing = np.where(tree.default_left, tree.left, tree.right)[inner]
        assert rows["Missing"][inner].tolist() == [f"{number}-{m}" for m in missing]


def test_models_without_trees_have_no_data_frame():
    rows = np.arange(12.0).reshape(6, 2)
    data = hornbeam.DMatrix(rows, rows[:, 0])
    linear = hornbeam.train({"booster": "gblinear"}, data, 2)
    with pytest.raises(ParameterError, match=r"get_score\(\) returns its weights"):
        linear.trees_to_dataframe()
    for call in ("trees_to_dataframe", "get_split_value_histogram"):
        with pytest.raises(NotTrainedError, match="train it"):
            getattr(hornbeam.Booster(), call)(*["f0"] * (call[0] == "g"))
    empty = hornbeam.train({}, data, 0)
    assert len(empty.trees_to_dataframe()) == len(empty.get_dump()) == 0
    assert empty.get_split_value_histogram("f0").shape == (0, 2)


def test_each_value_of_a_vector_leaf_has_a_row():
    rows = np.arange(40.0).reshape(20, 2)
    data = hornbeam.DMatrix(rows, np.column_stack([rows, rows[:, 0]]))
    booster = hornbeam.train({"multi_strategy": "multi_output_tree"}, data, 1)
    table, (tree,) = booster.trees_to_dataframe(), booster.model.trees
    leaves = table[table["Feature"] == "Leaf"]
    assert leaves["Target"].tolist() == [0, 1, 2] * tree.n_leaves
    values = tree.value[leaves["Node"], leaves["Target"].astype(int)]
    np.testing.assert_allclose(leaves["Gain"], values, 1e-6)
    splits = table[table["Feature"] != "Leaf"]
    assert splits["Node"].tolist() == np.flatnonzero(~tree.leaf_mask).tolist()
    assert splits["Target"].isna().all()


def test_split_value_histograms_count_each_threshold_once():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 50, (500, 2)).astype(np.float32)
    data = hornbeam.DMatrix(rows, np.sin(rows[:, 0] / 5), feature_names=["a", "a.b"])
    booster = hornbeam.train({"max_depth": 4}, data, 5)
    trees = booster.model.trees
    cuts = np.concatenate(
        [tree.threshold[(tree.left >= 0) & (tree.feature == 0)] for tree in trees]
    )
    table = booster.get_split_value_histogram("a", as_pandas=False)
    assert table[:, 1].sum() == len(cuts) == booster.get_fscore()["a"]
    assert table[-1, 0] == cuts.max()
    frame = booster.get_split_value_histogram("a", bins=4)
    assert isinstance(frame, pandas.DataFrame) and len(frame) <= 4
    assert list(frame.columns) == ["SplitValue", "Count"]
    assert frame["Count"].sum() == len(cuts)


def test_features_without_thresholds_have_no_histogram(booster):
    with pytest.raises(
        ParameterError, match="no feature 'f3'; it has 'f0', 'f1', 'f2'"
    ):
        booster.get_split_value_histogram("f3")
