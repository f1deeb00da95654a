"""DMatrix: fields, getters, slices, and memory of the caller."""

from __future__ import annotations

import copy
import inspect
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import xgboost

from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.quantile_dmatrix import QuantileDMatrix
from hornbeam.errors import DataError

NAN = float("nan")
X = np.array([[1.0, NAN, 3.0], [0.0, 5.0, 6.0], [7.0, 8.0, NAN], [2.0, 2.0, 2.0]])
Y = [0, 1, 1, 0]


@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
def test_signatures_are_those_of_xgboost(kind):
    ours = inspect.signature(kind).parameters
    theirs = inspect.signature(getattr(xgboost, kind.__name__)).parameters
    more = {
        DMatrix: ["row_key", "sketch", "cache", "memory_limit", "codec", "dates"],
        QuantileDMatrix: ["row_key", "sketch", "unseen", "dates"],
    }
    assert [name for name in ours if name not in more[kind]] == list(theirs)
    assert [name for name in ours if name not in theirs] == more[kind]
    for name, other in theirs.items():
        assert ours[name].kind == other.kind
        # True from XGBoost 3.3 on.
        expected = True if name == "enable_categorical" else other.default
        assert ours[name].default == expected


@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
def test_methods_are_those_of_xgboost(kind):
    for name, other in inspect.getmembers(getattr(xgboost, kind.__name__)):
        if name.startswith("_"):
            continue
        own = getattr(kind, name)
        assert isinstance(own, property) == isinstance(other, property)
        if inspect.isfunction(other):
            known = set(inspect.signature(own).parameters)
            more = {"row_key"} if name == "set_info" else set()
            assert known == {*inspect.signature(other).parameters, *more}


LABELS = {
    "list": list,
    "tuple": tuple,
    "int array": np.array,
    "float32": lambda y: np.array(y, np.float32),
    "big-endian": lambda y: np.array(y, ">f8"),
    "strided": lambda y: np.repeat(np.array(y, float), 2)[::2],
    "bool": lambda y: np.array(y, bool),
    "column": lambda y: np.array(y)[:, None],
    "pandas": pd.Series,
    "pandas odd index": lambda y: pd.Series(y, index=[3, 3, 1, 0]),
    "pandas nullable": lambda y: pd.Series(y, dtype="Int64"),
    "pandas arrow": lambda y: pd.Series(y, dtype="int64[pyarrow]"),
    "pandas frame": lambda y: pd.DataFrame({"y": y}),
    "polars": pl.Series,
    "polars frame": lambda y: pl.DataFrame({"y": y}),
    "arrow": pa.array,
    "arrow chunks": lambda y: pa.chunked_array([y[:1], y[1:]]),
    "arrow table": lambda y: pa.table({"y": y}),
}


@pytest.mark.parametrize("container", LABELS)
def test_labels_and_weights_from_every_container(container):
    matrix = DMatrix(X, LABELS[container](Y), weight=LABELS[container](Y))
    for held in (matrix.labels, matrix.weights):
        assert held.dtype == np.float64 and held.flags.c_contiguous
        assert held.flags.writeable
        np.testing.assert_array_equal(held, Y)


def test_labels_keep_float64():
    labels = [1e9, 1e9 + 10, 0.1, 1e38]
    assert DMatrix(X, labels).get_label().tolist() == labels


def test_labels_are_copied_and_getters_are_read_only():
    own = np.array([1.0, 2.0, 3.0, 4.0])
    matrix = DMatrix(X, own, weight=own, base_margin=own)
    own[:] = 9
    for field in ("label", "weight", "base_margin"):
        held = matrix.get_float_info(field)
        assert held.tolist() == [1, 2, 3, 4]
        assert not np.shares_memory(held, own)
        with pytest.raises(ValueError, match="read-only"):
            held[0] = 5
    matrix.labels[0] = 7  # the learner's own view is not locked
    assert matrix.get_label()[0] == 7


def test_set_info():
    matrix = DMatrix(X)
    assert matrix.labels is None and matrix.get_label().shape == (0,)
    assert matrix.get_weight().size == matrix.get_base_margin().size == 0
    matrix.set_label(Y)
    matrix.set_weight([1, 2, 3, 4])
    matrix.set_base_margin(np.ones((4, 2), np.float32, order="F"))
    assert matrix.get_label().tolist() == Y
    assert matrix.get_weight().tolist() == [1, 2, 3, 4]
    assert matrix.get_base_margin().shape == (4, 2)
    assert matrix.base_margin.flags.c_contiguous
    matrix.set_float_info("weight", [4, 3, 2, 1])
    matrix.set_info(label=[1, 1, 0, 0], feature_names=["a", "b", "c"])
    assert matrix.get_weight().tolist() == [4, 3, 2, 1]
    assert matrix.get_label().tolist() == [1, 1, 0, 0]
    assert matrix.feature_names == ["a", "b", "c"]
    for call in (
        lambda: matrix.get_float_info("lable"),
        lambda: matrix.set_float_info("lable", Y),
    ):
        with pytest.raises(DataError, match=r"no field 'lable'.*'label', 'weight'"):
            call()
    with pytest.raises(DataError, match=r"no field 'qid'.*'group_ptr'"):
        matrix.get_uint_info("qid")
    with pytest.raises(DataError, match=r"no field 'label'.*'group', 'qid'"):
        matrix.set_uint_info("label", Y)
    with pytest.raises(DataError, match="label is None"):
        matrix.set_label(None)


def test_an_invalid_value_keeps_the_old_one():
    matrix = DMatrix(X, Y)
    with pytest.raises(DataError):
        matrix.set_label([1, 2, 3, NAN])
    assert matrix.get_label().tolist() == Y


def test_names_and_types():
    frame = pd.DataFrame({"a": [1, 2], "b": [True, False], "c": [0.5, NAN]})
    matrix = DMatrix(frame)
    assert matrix.feature_names == ["a", "b", "c"]
    assert matrix.feature_types == ["int", "i", "float"]
    theirs = xgboost.DMatrix(frame)
    assert matrix.feature_names == theirs.feature_names
    assert matrix.feature_types == theirs.feature_types
    matrix.feature_names = ["x", "y", "z"]
    assert matrix.schema.names == matrix.table.names == ["x", "y", "z"]
    matrix.feature_types = ["q", "q", "q"]
    assert matrix.feature_types == ["q", "q", "q"]
    matrix.feature_names = matrix.feature_types = None
    assert matrix.feature_names is None and matrix.feature_types is None
    with pytest.raises(DataError, match="2 entries for 3"):
        matrix.feature_names = ["a", "b"]
    given = DMatrix(frame, feature_names=["p", "q", "r"], feature_types=["q"] * 3)
    assert given.feature_names == ["p", "q", "r"] and given.feature_types == ["q"] * 3


def test_shape_and_values():
    matrix = DMatrix(X)
    assert (matrix.num_row(), matrix.num_col()) == (4, 3)
    assert matrix.num_nonmissing() == xgboost.DMatrix(X).num_nonmissing() == 10
    assert matrix.dtype == np.float64 and matrix.table is not None
    np.testing.assert_array_equal(matrix.rows(1, 3), X[1:3])
    assert np.shares_memory(matrix.rows(0, 4), X)
    empty = DMatrix(np.empty((0, 3)), label=[])
    assert empty.num_row() == empty.num_nonmissing() == 0
    assert empty.get_data().shape == (0, 3)


@pytest.mark.parametrize("missing", [None, 2.0])
def test_get_data_equals_xgboost(missing):
    ours, theirs = (
        kind(X, missing=missing).get_data() for kind in (DMatrix, xgboost.DMatrix)
    )
    assert isinstance(ours, sp.csr_matrix)
    np.testing.assert_array_equal(ours.indptr, theirs.indptr)
    np.testing.assert_array_equal(ours.indices, theirs.indices)
    np.testing.assert_array_equal(ours.data, theirs.data)
    tall = sp.random_array((40_000, 3), density=0.1, format="csr", rng=0)
    assert abs(DMatrix(tall).get_data() - tall).nnz == 0


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_stored_values_of_sparse_matrices(form):
    """Stored zeros are values, stored missing values are missing, as in XGBoost."""
    cells = sp.random_array((50, 30), density=0.2, format="coo", rng=0)
    cells.data[:9] = [0.0, 0.0, NAN, NAN, 7.0, 7.0, -1.0, 2.0, 3.0]
    ours, theirs = (
        kind(cells.asformat(form), missing=7.0) for kind in (DMatrix, xgboost.DMatrix)
    )
    assert ours.num_nonmissing() == theirs.num_nonmissing() == cells.nnz - 4
    for part in ("indptr", "indices", "data"):
        np.testing.assert_allclose(
            getattr(ours.get_data(), part), getattr(theirs.get_data(), part), rtol=1e-6
        )


def test_slice():
    matrix = DMatrix(
        pd.DataFrame(X, columns=list("abc")),
        Y,
        weight=[1, 2, 3, 4],
        base_margin=np.arange(8).reshape(4, 2),
        missing=2.0,
        feature_types=["q", "int", "float"],
    )
    part = matrix.slice([3, 1, 3])
    assert type(part) is DMatrix and part.num_row() == 3
    expected = np.where(X == 2, NAN, X)[[3, 1, 3]]
    np.testing.assert_array_equal(part.rows(0, 3), expected)
    assert part.get_label().tolist() == [0, 1, 0]
    assert part.get_weight().tolist() == [4, 2, 4]
    assert part.get_base_margin().tolist() == [[6, 7], [2, 3], [6, 7]]
    assert part.feature_names == list("abc")
    assert part.feature_types == ["q", "int", "float"]
    assert matrix.slice(np.array([], np.int64)).num_row() == 0
    assert matrix.slice([0, 1]).get_label().tolist() == [0, 1]


@pytest.mark.parametrize(
    ("rows", "needed"),
    [
        ([0, 4], "no row 4; rows are numbered 0 to 3"),
        ([-1], "no row -1"),
        ([True, False, True, True], "flatnonzero"),
        ([0.5], "row numbers, not float64"),
        ([[0, 1]], "shape"),
    ],
)
def test_slice_of_invalid_rows(rows, needed):
    with pytest.raises(DataError, match=needed):
        DMatrix(X, Y).slice(rows)


@pytest.mark.parametrize("make_other", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_matrix_cannot_be_pickled(make_other):
    with pytest.raises(ValueError, match="DMatrix cannot be pickled"):
        make_other(DMatrix(X, Y))


def test_features_are_held_by_reference():
    data = X.copy()
    matrix = DMatrix(data)
    data[0, 0] = 99
    assert matrix.rows(0, 1)[0, 0] == 99


def test_no_cuts_before_training():
    with pytest.raises(DataError, match="no cuts before"):
        DMatrix(X).get_quantile_cut()


def test_docstrings_name_every_argument():
    for kind in (DMatrix, QuantileDMatrix):
        text = inspect.getdoc(kind)
        for name in inspect.signature(kind).parameters:
            assert name in text
