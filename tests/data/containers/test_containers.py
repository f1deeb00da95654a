"""Masked arrays, tensors, Arrow streams, sparse columns and frames of other kinds."""

from __future__ import annotations

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
import scipy.sparse

from hornbeam.data.align import align
from hornbeam.data.categories import Categories
from hornbeam.data.containers.dispatch import as_column, as_table
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.schema import Schema
from hornbeam.errors import DataError

NAN = float("nan")
X = np.array([[1.5, 0.0, 3.0], [4.0, -1.0, 6.0], [7.0, 8.0, 0.5]])
NAMES = ["a", "b", "c"]


def assert_reads(table, expected):
    np.testing.assert_array_equal(table.rows(0, table.n_rows), expected)
    for feature, column in enumerate(table.columns(0, table.n_features)):
        np.testing.assert_array_equal(column, expected[:, feature])
    order = np.array([2, 0])
    np.testing.assert_array_equal(table.rows(1, 3, order), expected[1:3][:, order])
    part = table.select([2, 0])
    np.testing.assert_array_equal(part.rows(0, 3), expected[:, order])
    np.testing.assert_array_equal(part.column(1), expected[:, 0])
    np.testing.assert_array_equal(part.rows(0, 2, np.array([1])), expected[:2, :1])
    (batch,) = part.batches([1])
    np.testing.assert_array_equal(batch.rows(0, 3), expected[:, :1])
    rows = np.array([2, 0])
    np.testing.assert_array_equal(table.take(rows).rows(0, 2), expected[rows])
    np.testing.assert_array_equal(part.take(rows).rows(0, 2), expected[rows][:, order])


# Masked arrays


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "int64", "bool"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_is_masked_is_missing(dtype, order):
    values = np.array([[0, 1, 1], [1, 0, 1], [0, 0, 1]], dtype, order=order)
    mask = np.array([[0, 0, 1], [1, 0, 0], [0, 0, 1]], bool)
    data = np.ma.MaskedArray(values, mask)
    expected = np.where(mask, NAN, values.astype(float))
    assert_reads(as_table(data), expected)
    expected[expected == 0] = NAN
    assert_reads(as_table(data, missing=0), expected)
    assert data.mask.tolist() == mask.tolist()


def test_masked_arrays_without_a_mask_and_with_bad_values_under_it():
    assert_reads(as_table(np.ma.MaskedArray(X)), X)
    assert np.shares_memory(as_table(np.ma.MaskedArray(X)).rows(0, 3), X)
    data = np.ma.masked_invalid([[1.0, np.inf, 3], [NAN, 2, 3], [4, 5, 6]])
    assert_reads(as_table(data), np.array([[1, NAN, 3], [NAN, 2, 3], [4, 5, 6]]))
    data = np.ma.masked_equal(np.array([[1, 2**60, 3]] * 3), 2**60)
    assert_reads(as_table(data), np.array([[1, NAN, 3]] * 3))


def test_masked_labels_are_missing():
    with pytest.raises(DataError, match="label is nan in row 1"):
        DMatrix(X, label=np.ma.masked_equal([1.0, 5.0, 2.0], 5.0))


# Tensors


class Capsule:
    """An array with only the DLPack interface."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class Elsewhere(Capsule):
    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **options):
        raise BufferError("the memory is on a device")


class NeedsGradients:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("call detach() first")


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "uint8"])
def test_dlpack(dtype):
    values = np.arange(9).reshape(3, 3).astype(dtype)
    table = as_table(Capsule(values))
    assert_reads(table, values.astype(float))
    if dtype == "float32":
        assert np.shares_memory(table.rows(0, 3), values)
    matrix = DMatrix(Capsule(values), label=Capsule(values[0]))
    assert matrix.get_label().tolist() == [0, 1, 2]


def test_unreadable_tensors_raise():
    with pytest.raises(DataError, match=r"Elsewhere.*on a device.*copy it to the CPU"):
        as_table(Elsewhere(X))
    with pytest.raises(DataError, match=r"NeedsGradients.*detach"):
        as_table(NeedsGradients())


def test_objects_that_are_numbers():
    data = np.array([[1, None, 2.5], [True, 3, 4], [0, 1, 2]], object)
    assert_reads(as_table(data), np.array([[1, NAN, 2.5], [1, 3, 4], [0, 1, 2.0]]))


# Arrow


class Stream:
    """A table with only the Arrow stream interface."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class Batch:
    """A batch with only the Arrow array interface."""

    def __init__(self, batch):
        self._batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self._batch.__arrow_c_array__(requested_schema)


ARROW = pa.table({name: X[:, i] for i, name in enumerate(NAMES)})
STREAMS = {
    "stream of arrow": lambda: Stream(ARROW),
    "stream of polars": lambda: Stream(pl.DataFrame(ARROW)),
    "stream of pandas": lambda: Stream(pd.DataFrame(X, columns=NAMES)),
    "batch": lambda: Batch(ARROW.to_batches()[0]),
    "reader": lambda: ARROW.to_reader(max_chunksize=2),
    "dataset": lambda: pyarrow.dataset.dataset(ARROW),
    "scanner": lambda: pyarrow.dataset.dataset(ARROW).scanner(),
    "lazy frame": lambda: pl.LazyFrame(ARROW),
}


@pytest.mark.parametrize("container", STREAMS)
def test_objects_with_an_arrow_interface(container):
    table = as_table(STREAMS[container]())
    assert table.names == NAMES and table.types == ["float"] * 3
    assert_reads(table, X)


def test_a_stream_is_not_copied():
    first = as_table(Stream(ARROW)).column(0)
    buffer = ARROW.column(0).chunk(0).buffers()[1]
    assert first.__array_interface__["data"][0] == buffer.address


def test_an_arrow_stream_of_one_column_raises():
    with pytest.raises(DataError, match=r"Stream gives no table to Arrow"):
        as_table(Stream(pa.chunked_array([[1.0]])))


def test_relations_of_duckdb():
    relation = duckdb.from_arrow(ARROW).project(
        "a, b, c, CASE WHEN a > 2 THEN 'y' END AS k, "
        "('n'::ENUM('m', 'n')) AS e, a > 2 AS t"
    )
    table = as_table(relation)
    assert table.types == ["float", "float", "float", "c", "c", "i"]
    assert table.categories == Categories([None, None, None, ["y"], ["m", "n"], None])
    expected = np.column_stack([X, [NAN, 0, 0], [1, 1, 1], [0, 1, 1]])
    np.testing.assert_array_equal(table.rows(0, 3), expected)
    with pytest.raises(DataError, match=r"'s' \(decimal128.*cast decimals to float64"):
        as_table(duckdb.sql("SELECT sum(range) AS s FROM range(3)"))


# pandas


@pytest.mark.parametrize("fill", [0.0, 7.0, NAN])
def test_sparse_columns_of_pandas_have_their_fill_value(fill):
    values = np.array([[0, 7.0], [NAN, 1], [7, 0]])
    frame = pd.DataFrame(
        {
            name: pd.arrays.SparseArray(values[:, i], fill_value=fill)
            for i, name in enumerate("ab")
        }
    )
    table = as_table(frame)
    assert table.types == ["float", "float"]
    np.testing.assert_array_equal(table.rows(0, 3), values)
    np.testing.assert_array_equal(table.rows(1, 2), values[1:2])
    np.testing.assert_array_equal(table.column(1), values[:, 1])


def test_sparse_integers_and_booleans_of_pandas():
    frame = pd.DataFrame(
        {
            "n": pd.arrays.SparseArray([0, 5, 0]),
            "t": pd.arrays.SparseArray([False, True, False]),
        }
    )
    table = as_table(frame)
    assert table.types == ["int", "i"]
    np.testing.assert_array_equal(table.rows(0, 3), [[0, 0], [5, 1], [0, 0]])


# narwhals


def test_frames_of_narwhals():
    for frame in (pl.DataFrame(ARROW), ARROW, pd.DataFrame(X, columns=NAMES)):
        assert_reads(as_table(nw.from_native(frame)), X)
    lazy = nw.from_native(pl.LazyFrame(ARROW))
    assert_reads(as_table(lazy), X)


def test_a_single_column_raises():
    for column in (pl.Series([1.0]), pd.Series([1.0]), pa.chunked_array([[1.0]])):
        with pytest.raises(DataError, match="is one column"):
            as_table(column)


def test_a_categorical_column_is_not_numeric():
    for column in (pl.Series(["x"]), pd.Series(["x"]), pa.array(["x"])):
        with pytest.raises(DataError, match="not a number"):
            as_column(column)


def test_an_unknown_object_raises():
    with pytest.raises(DataError, match=r"cannot read features from this .*Capsule"):
        as_table(type("Capsule", (), {})())


# Selections


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_columns_of_a_sparse_matrix_stay_sparse(form):
    matrix = scipy.sparse.coo_array(X).asformat(form)
    expected = np.where(X == 0, NAN, X)
    table = as_table(matrix, names=NAMES, types=["q", "int", "float"])
    assert_reads(table, expected)
    wanted = Schema(3, ["c", "a", "b"], ["float"] * 3)
    for part in (table.select([2, 0, 1]), align(table, wanted)):
        assert type(part) is type(table)
        assert part.names == ["c", "a", "b"] and part.types == ["float", "q", "int"]
        np.testing.assert_array_equal(part.rows(0, 3), expected[:, [2, 0, 1]])
    np.testing.assert_array_equal(
        as_table(matrix, missing=6.0).select([2]).column(0), [3, NAN, 0.5]
    )


def test_a_selection_of_a_selection_and_its_batches():
    table = as_table(pd.DataFrame(X, columns=NAMES)).select([2, 1]).select([1])
    assert table.names == ["b"]
    np.testing.assert_array_equal(table.rows(0, 3), X[:, 1:2])
    table = align(as_table(X), as_table(X).schema).select([2, 1]).select([1, 0])
    np.testing.assert_array_equal(table.rows(0, 3), X[:, 1:])
    np.testing.assert_array_equal(table.columns(0, 2), X[:, 1:].T)
    (batch,) = table.batches()
    np.testing.assert_array_equal(batch.rows(0, 3), X[:, 1:])
    scratch = np.empty(3 * 2 * 8, np.uint8)
    np.testing.assert_array_equal(table.columns(0, 2, scratch), X[:, 1:].T)
