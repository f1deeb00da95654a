"""Labels, weights and groups: getters equal XGBoost's; setting is all or nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from samples import few_values

import hornbeam
from hornbeam.data.dmatrix import DataSplitMode, DMatrix
from hornbeam.data.quantile_dmatrix import QuantileDMatrix
from hornbeam.errors import DataError

INF = float("inf")
X = np.arange(24.0).reshape(8, 3)
GRID = np.arange(16.0).reshape(8, 2)
FIELDS = {
    "label": [GRID[:, 0], GRID, GRID[:, :1]],
    "weight": [GRID[:, 1]],
    "base_margin": [GRID[:, 0], GRID, GRID[:, :1]],
    "label_lower_bound": [GRID[:, 0]],
    "label_upper_bound": [np.where(GRID[:, 0] > 8, INF, GRID[:, 0])],
    "feature_weights": [np.array([1.0, 0.0, 2.5])],
}


@pytest.mark.parametrize("kind", ["DMatrix", "QuantileDMatrix"])
@pytest.mark.parametrize(
    ("field", "values"), [(f, v) for f, each in FIELDS.items() for v in each]
)
def test_getters_return_what_xgboost_returns(field, values, kind):
    ours = getattr(hornbeam, kind)(X, **{field: values})
    theirs = getattr(xgboost, kind)(X, **{field: values})
    expected = theirs.get_float_info(field)
    got = ours.get_float_info(field)
    assert got.dtype == np.float64  # XGBoost keeps float32
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)
    late = getattr(hornbeam, kind)(X)
    late.set_float_info_npy2d(field, values)
    np.testing.assert_array_equal(late.get_float_info(field), got)
    if field in ("label", "weight", "base_margin"):
        np.testing.assert_array_equal(getattr(ours, f"get_{field}")(), got)


@pytest.mark.parametrize("field", FIELDS)
def test_unset_fields_are_empty(field):
    got = DMatrix(X).get_float_info(field)
    assert got.shape == xgboost.DMatrix(X).get_float_info(field).shape == (0,)


GROUPS = {
    "group": [3, 1, 4],
    "qid": [2, 2, 2, 5, 9, 9, 9, 9],
    "group_ptr": [0, 3, 4, 8],
}


@pytest.mark.parametrize("way", GROUPS)
def test_groups_by_sizes_ids_and_pointers(way):
    matrix = DMatrix(X)
    assert matrix.get_group().size == matrix.get_uint_info("group_ptr").size == 0
    matrix.set_uint_info(way, GROUPS[way])
    theirs = xgboost.DMatrix(X, group=[3, 1, 4])
    for got, expected in (
        (matrix.get_group(), theirs.get_group()),
        (matrix.get_uint_info("group_ptr"), theirs.get_uint_info("group_ptr")),
    ):
        assert got.dtype == expected.dtype == np.uint32
        np.testing.assert_array_equal(got, expected)
    if way != "group_ptr":
        given = DMatrix(X, **{way: GROUPS[way]})
        np.testing.assert_array_equal(given.get_group(), [3, 1, 4])
    matrix.set_group([8])
    assert matrix.get_group().tolist() == [8]


QIDS = {
    "list": list,
    "float": lambda ids: np.array(ids, float),
    "uint64": lambda ids: np.array(ids, np.uint64) + np.uint64(2**64 - 20),
    "hashes": lambda ids: np.array(ids) + 2**62,
    "negative": lambda ids: np.array(ids) - 100,
    "bool": lambda ids: np.array(ids) > 4,
    "pandas": pd.Series,
    "nullable": lambda ids: pd.Series(ids, dtype="Int64"),
    "polars": pl.Series,
    "arrow": pa.array,
    "column": lambda ids: np.array(ids)[:, None],
}


@pytest.mark.parametrize("container", QIDS)
def test_ids_of_any_integer_type(container):
    sizes = DMatrix(X, qid=QIDS[container](GROUPS["qid"])).get_group().tolist()
    assert sizes == ([3, 5] if container == "bool" else [3, 1, 4])


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_ids_and_sizes_give_the_same_groups(ids):
    ids = sorted(ids)
    data = np.zeros((len(ids), 1))
    by_id = DMatrix(data, qid=ids)
    by_size = DMatrix(data, group=by_id.get_group())
    assert by_id.get_group().sum() == len(ids)
    np.testing.assert_array_equal(
        by_id.get_uint_info("group_ptr"), by_size.get_uint_info("group_ptr")
    )
    np.testing.assert_array_equal(
        np.repeat(np.unique(ids), by_id.get_group().astype(int)), ids
    )


def test_weights_of_groups():
    matrix = DMatrix(X, group=[3, 1, 4], weight=[1, 2, 3])
    assert matrix.get_weight().tolist() == [1, 2, 3]
    assert matrix.row_weights.tolist() == [1, 1, 1, 2, 3, 3, 3, 3]
    theirs = xgboost.DMatrix(X, group=[3, 1, 4], weight=[1, 2, 3])
    assert theirs.get_weight().tolist() == [1, 2, 3]
    matrix.set_info(group=[7, 0, 1])  # as many groups of other rows
    assert matrix.row_weights.tolist() == [1] * 7 + [3]
    with pytest.raises(DataError, match=r"3 weights.*2 groups; set weight together"):
        matrix.set_group([4, 4])
    matrix.set_info(group=[4, 4], weight=[5, 6])
    assert matrix.row_weights.tolist() == [5] * 4 + [6] * 4
    matrix.set_weight(np.arange(8))
    assert matrix.row_weights is matrix.weights
    matrix.set_group([8])
    assert matrix.row_weights.tolist() == list(range(8))


def test_cuts_follow_the_weights_of_groups():
    data = np.random.default_rng(0).normal(size=(400, 1))
    by_group = DMatrix(data, qid=np.arange(400) // 100, weight=[1, 0, 5, 2])
    by_row = DMatrix(data, weight=np.repeat([1, 0, 5, 2], 100))
    np.testing.assert_array_equal(
        by_group.binned(8).cuts.values, by_row.binned(8).cuts.values
    )


def test_no_field_is_set_if_one_raises():
    matrix = DMatrix(X, np.arange(8), group=[4, 4], weight=[1, 2])
    for bad in (
        {"label": np.ones(8), "weight": [-1, 0]},
        {"label": np.ones(8), "base_margin": np.ones(3)},
        {"group": [8], "label": np.ones(8)},
        {"label": np.ones(8), "qid": [1, 0] * 4},
    ):
        with pytest.raises(DataError):
            matrix.set_info(**bad)
        assert matrix.get_label().tolist() == list(range(8))
        assert matrix.get_group().tolist() == [4, 4]
        assert matrix.row_weights.tolist() == [1] * 4 + [2] * 4


def test_bounds_are_compared_if_both_are_set():
    matrix = DMatrix(X, label_lower_bound=np.arange(8))
    with pytest.raises(DataError, match=r"label_lower_bound is 3.0 in row 3"):
        matrix.set_info(label_upper_bound=[9, 9, 9, 0, 9, 9, 9, 9])
    assert matrix.get_float_info("label_upper_bound").size == 0
    matrix.set_info(label_lower_bound=np.zeros(8), label_upper_bound=[INF] * 8)


def test_slices_have_all_fields():
    ours, theirs = (
        kind(
            X,
            GRID,
            weight=GRID[:, 1],
            base_margin=GRID,
            label_lower_bound=GRID[:, 0],
            label_upper_bound=GRID[:, 1],
            feature_weights=[1, 0, 2],
        ).slice([5, 0, 5, 2])
        for kind in (DMatrix, xgboost.DMatrix)
    )
    for field in FIELDS:
        np.testing.assert_array_equal(
            ours.get_float_info(field), theirs.get_float_info(field)
        )


def test_slices_keep_groups_of_adjacent_rows():
    matrix = DMatrix(X, group=[3, 1, 4], weight=[1, 2, 3])
    with pytest.raises(DataError, match="allow_groups=True"):
        matrix.slice([0, 1])
    part = matrix.slice([5, 6, 0, 2, 1, 0], allow_groups=True)
    assert part.get_group().tolist() == [2, 4]
    assert part.get_weight().tolist() == [3, 1]
    assert part.row_weights.tolist() == [3, 3, 1, 1, 1, 1]
    with pytest.raises(DataError, match=r"group 2 at positions 0 and 2.*together"):
        matrix.slice([5, 3, 6], allow_groups=True)
    nothing = matrix.slice([], allow_groups=True)
    assert nothing.get_group().size == 0 and nothing.get_uint_info("group_ptr")[0] == 0
    rows = DMatrix(X, group=[4, 4], weight=np.arange(8)).slice([7, 4], True)
    assert rows.get_weight().tolist() == [7, 4] and rows.get_group().tolist() == [2]


def test_data_is_split_by_rows():
    assert DMatrix(X).data_split_mode() is DataSplitMode.ROW
    assert DataSplitMode.ROW == xgboost.core.DataSplitMode.ROW


@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
def test_several_targets_are_kept_and_trained(kind):
    rows, labels = few_values(50, 3)
    data = kind(rows, np.column_stack([labels, -labels]))
    assert data.n_targets == 2 and DMatrix(rows).n_targets == 0
    assert hornbeam.train({}, data, 1).predict(data).shape == (50, 2)
    booster = hornbeam.train({}, kind(rows, labels), 1)
    with pytest.raises(DataError, match=r"labels have 2 columns"):
        booster.eval(data)

    def both(margins, matrix):
        return (margins[:, None] - matrix.get_label()).sum(axis=1), np.ones(50)

    assert hornbeam.train({}, data, 1, obj=both).num_boosted_rounds() == 1


def test_weights_of_groups_are_weights_of_their_rows():
    rows, labels = few_values(200, 3)
    sizes, weights = [50, 30, 120], [1.0, 0.25, 3.0]
    by_group = hornbeam.DMatrix(rows, labels, group=sizes, weight=weights)
    by_row = hornbeam.DMatrix(rows, labels, weight=np.repeat(weights, sizes))
    first, second = (hornbeam.train({}, data, 3) for data in (by_group, by_row))
    assert first.digest() == second.digest()
    assert first.eval(by_group) == second.eval(by_row)


ROWS, LABELS = few_values(300, 3)
CHANGES = {
    "label": {"label": -LABELS},
    "weight": {"weight": np.arange(300)},
    "weight of groups": {"weight": [3, 1]},
    "group": {"group": [30, 270]},
    "base_margin": {"base_margin": LABELS / 2},
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_between_rounds_take_effect(change):
    """A second round on changed data equals that of a booster without other data."""
    before = {"label": LABELS, "group": [100, 200], "weight": [1, 5]}
    data = hornbeam.DMatrix(ROWS, **before)
    booster = hornbeam.Booster({"max_bin": 16})
    booster.update(data, 0)
    resumed = booster.copy()
    data.set_info(**CHANGES[change])
    booster.update(data, 1)
    resumed.update(hornbeam.DMatrix(ROWS, **{**before, **CHANGES[change]}), 1)
    assert booster.digest() == resumed.digest()
    unchanged = hornbeam.train({"max_bin": 16}, hornbeam.DMatrix(ROWS, **before), 2)
    assert booster.digest() != unchanged.digest()
