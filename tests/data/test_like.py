"""A matrix aligned with a model shares its fields with the original."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xgboost

import hornbeam
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.quantile_dmatrix import QuantileDMatrix
from hornbeam.errors import DataError, ParameterError

NAN = float("nan")
N = 90
TREES = np.array(["oak", "elm", "ash"])[np.arange(N) % 3]
RNG = np.random.default_rng(0)
TRAIN = pd.DataFrame(
    {
        "a": RNG.normal(size=N),
        "tree": pd.Categorical(TREES, categories=["oak", "elm", "ash", "fir"]),
        "b": RNG.normal(size=N),
    }
)
Y = RNG.normal(size=N)
EXPECTED = DMatrix(TRAIN).schema
# The same values, with other codes and another order of columns.
OTHER = pd.DataFrame(
    {
        "b": TRAIN["b"],
        "a": TRAIN["a"],
        "tree": pd.Categorical(TREES, categories=["ash", "elm", "oak"]),
    }
)
KINDS = [DMatrix, QuantileDMatrix]


@pytest.mark.parametrize("kind", KINDS)
def test_a_matching_matrix_is_returned_itself(kind):
    matrix = kind(TRAIN, Y)
    assert matrix.like(EXPECTED) is matrix
    unnamed = kind(np.ones((4, 2)))
    assert unnamed.like(DMatrix(np.zeros((1, 2))).schema) is unnamed


@pytest.mark.parametrize("kind", KINDS)
def test_columns_and_codes_are_aligned(kind):
    matrix = kind(OTHER, Y)
    aligned = matrix.like(EXPECTED)
    assert aligned.schema == EXPECTED
    assert aligned.feature_names == ["a", "tree", "b"]
    rows = matrix.rows(0, N)
    np.testing.assert_array_equal(aligned.rows(0, N)[:, [2, 0]], rows[:, :2])
    np.testing.assert_array_equal(aligned.rows(0, N)[:, 1], np.arange(N) % 3)
    assert matrix.like(EXPECTED) is aligned  # kept
    assert matrix.feature_names == ["b", "a", "tree"]


@pytest.mark.parametrize("kind", KINDS)
def test_fields_set_later_are_shared(kind):
    matrix = kind(OTHER, Y)
    aligned = matrix.like(EXPECTED)
    matrix.set_info(label=-Y, weight=np.ones(N), feature_weights=[1, 2, 3])
    assert aligned.labels is matrix.labels and aligned.row_weights is matrix.weights
    assert aligned.feature_weights.tolist() == [2, 3, 1]
    assert matrix.feature_weights.tolist() == [1, 2, 3]
    part = aligned.slice([3, 1]) if kind is DMatrix else aligned
    assert part.feature_weights.tolist() == [2, 3, 1]


def test_new_names_are_used():
    matrix = DMatrix(OTHER[["b", "a"]])
    expected = DMatrix(TRAIN[["a", "b"]]).schema
    np.testing.assert_array_equal(
        matrix.like(expected).rows(0, N), TRAIN[["a", "b"]].to_numpy()
    )
    matrix.feature_names = ["a", "b"]
    assert matrix.like(expected) is matrix


def test_unseen_categories():
    trees = TRAIN["tree"].astype(str)
    trees[[7, 9]] = "yew"
    matrix = DMatrix(TRAIN.assign(tree=trees))
    with pytest.raises(DataError, match=r"row 7 of column 'tree'.*'yew'"):
        matrix.like(EXPECTED).rows(0, N)
    aligned = matrix.like(EXPECTED, "missing")
    assert np.flatnonzero(np.isnan(aligned.rows(0, N)[:, 1])).tolist() == [7, 9]
    assert aligned.num_nonmissing() == 3 * N - 2
    with pytest.raises(ParameterError, match="unseen"):
        matrix.like(EXPECTED, "ignore")


def test_columns_that_differ_are_listed():
    other = TRAIN.rename(columns={"a": "A"}).assign(tree=1.0)
    with pytest.raises(DataError, match=r"not in training: 'A'.*missing: 'a'.*'tree'"):
        DMatrix(other).like(EXPECTED)


def test_bins_of_other_columns_cannot_be_trained_on():
    aligned = QuantileDMatrix(OTHER, Y).like(EXPECTED)
    with pytest.raises(DataError, match="make it with ref="):
        aligned.binned(256)


def test_ref_aligns_columns():
    ref = QuantileDMatrix(TRAIN, Y, max_bin=16)
    matrix = QuantileDMatrix(OTHER, ref=ref, feature_weights=[1, 2, 3])
    assert matrix.ref is ref and matrix.schema == EXPECTED
    np.testing.assert_array_equal(
        matrix.binned(16).by_feature, ref.binned(16).by_feature
    )
    assert matrix.like(EXPECTED) is matrix
    assert matrix.feature_weights.tolist() == [2, 3, 1]
    with pytest.raises(DataError, match="'yew'"):
        QuantileDMatrix(TRAIN.assign(tree="yew"), ref=ref)


@pytest.mark.parametrize("kind", KINDS)
def test_categories_as_feature_types_recode_new_data(kind):
    new = pd.DataFrame({"tree": ["fir", "ash", None, "oak"], "a": [1.0, 2.0, 3.0, 4.0]})
    known = TRAIN[["tree", "a"]]
    types = kind(known).get_categories()
    ours = kind(new, feature_types=types)
    theirs = xgboost.DMatrix(
        new.astype({"tree": "category"}),
        feature_types=xgboost.DMatrix(known, enable_categorical=True).get_categories(),
        enable_categorical=True,
    )
    assert ours.feature_types == theirs.feature_types == ["c", "float"]
    assert ours.get_categories() == types
    np.testing.assert_array_equal(ours.rows(0, 4)[:, 0], [3.0, 2.0, NAN, 0.0])
    np.testing.assert_array_equal(ours.get_data().indptr, theirs.get_data().indptr)
    expected = theirs.get_data().toarray()[:, 0]
    np.testing.assert_array_equal(ours.get_data().toarray()[:, 0], expected)
    with pytest.raises(DataError, match=r"categories of 2 columns.* has 1"):
        kind(new[["a"]], feature_types=types)
    with pytest.raises(DataError, match="'yew'"):
        kind(new.assign(tree="yew"), feature_types=types).rows(0, 4)
    with pytest.raises(DataError, match="make the matrix with feature_types="):
        ours.feature_types = types
    nothing = kind(new[["a"]]).get_categories()
    assert kind(new[["a"]], feature_types=nothing).feature_types == ["float"]


def test_types_of_numbers_can_be_set_and_change_the_bins():
    codes = np.column_stack([np.arange(40) % 5, np.arange(40) % 7])
    matrix = DMatrix(codes)
    assert not matrix.binned(4).is_categorical.any()
    matrix.feature_types = ["c", "q"]
    assert matrix.table.types == matrix.feature_types == ["c", "q"]
    assert matrix.binned(4).is_categorical.tolist() == [True, False]
    matrix.feature_types = ["c", "int"]
    assert matrix.schema.types == ["c", "int"]
    part = matrix.slice([0, 1])
    assert part.feature_types == ["c", "int"]
    bad = DMatrix(codes + 0.5)
    bad.feature_types = ["c", "q"]
    with pytest.raises(DataError, match=r"row 0 of column 0 holds 0\.5"):
        bad.binned(4)
    with pytest.raises(DataError, match="holds categories"):
        DMatrix(TRAIN).feature_types = ["q", "q", "q"]
    quantised = QuantileDMatrix(codes)
    quantised.feature_types = ["q", "int"]
    with pytest.raises(DataError, match="make a new one"):
        quantised.feature_types = ["c", "q"]


def test_feature_weights_follow_column_names():
    train, other = TRAIN[["a", "b"]], OTHER[["b", "a"]]
    booster = hornbeam.train({"colsample_bytree": 0.5}, DMatrix(train, Y), 1)
    again = hornbeam.train(
        {"colsample_bytree": 0.5},
        DMatrix(other, Y, feature_weights=[0, 1]),
        9,
        xgb_model=booster,
    )
    for tree in again.model.trees[1:]:
        assert set(tree.feature[tree.left >= 0].tolist()) == {0}


def test_predictions_do_not_depend_on_the_order_of_columns():
    train, other = (data[["b", "a"]] for data in (TRAIN, OTHER))
    booster = hornbeam.train({}, DMatrix(TRAIN[["a", "b"]], Y), 3)
    expected = DMatrix(TRAIN[["a", "b"]]).schema
    for data in (train, other):
        np.testing.assert_array_equal(
            booster.predict(DMatrix(data).like(expected)),
            booster.predict(DMatrix(TRAIN[["a", "b"]])),
        )
