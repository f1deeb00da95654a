"""The same numbers in every container are read exactly and without copies."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from profiles import examples

from hornbeam.data.containers.dispatch import as_table
from hornbeam.errors import DataError

NAN = float("nan")
# Small integers, which every type holds, so that all containers must agree.
NUMBERS = np.array(
    [[3, 0, 1, 7], [0, 5, 1, 2], [4, 4, 0, 1], [9, 1, 1, 0], [2, 8, 0, 6]]
)
REAL_TYPES = [
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "float32", "float64",
]  # fmt: skip
FITS_FLOAT32 = {"bool", "int8", "uint8", "int16", "uint16", "float16", "float32"}


def numbers_of(dtype):
    return NUMBERS.astype(dtype)


def float_of(dtype):
    return np.float32 if np.dtype(dtype).name in FITS_FLOAT32 else np.float64


def assert_reads(table, expected, dtypes=None):
    """Assert that all blocks of rows and columns equal `expected` and its layout."""
    n_rows, n_features = expected.shape
    assert (table.n_rows, table.n_features) == expected.shape
    if dtypes is None:
        dtypes = [table.dtype] * n_features
    wide = np.float64 in [np.dtype(dtype).type for dtype in dtypes]
    assert table.dtype == (np.float64 if wide else np.float32)
    for start in range(n_features):
        for stop in range(start, n_features + 1):
            columns = table.columns(start, stop)
            assert len(columns) == stop - start
            for feature, column in enumerate(columns, start):
                assert column.dtype == dtypes[feature]
                assert column.flags.c_contiguous and column.flags.aligned
                assert column.dtype.isnative and column.flags.writeable
                np.testing.assert_array_equal(column, expected[:, feature])
    for start in range(n_rows + 1):
        for stop in range(start, n_rows + 1):
            rows = table.rows(start, stop)
            assert rows.dtype == table.dtype
            assert rows.flags.c_contiguous and rows.flags.aligned
            assert rows.dtype.isnative and rows.flags.writeable
            np.testing.assert_array_equal(rows, expected[start:stop])


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def unaligned(array):
    buffer = np.empty(array.nbytes + 1, np.uint8)
    view = np.ndarray(array.shape, array.dtype, buffer.data, offset=1)
    view[...] = array
    return view


class Tensor:
    """An object with only the array interface."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.array, dtype)


LAYOUTS = {
    "c order": np.ascontiguousarray,
    "fortran order": np.asfortranarray,
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "little-endian": lambda x: x.astype(x.dtype.newbyteorder("<")),
    "big-endian fortran": lambda x: np.asfortranarray(
        x.astype(x.dtype.newbyteorder(">"))
    ),
    "read-only": read_only,
    "read-only fortran": lambda x: read_only(x.T).T,
    "every other row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "every other column": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "backwards": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "unaligned": unaligned,
    "one row for all": lambda x: x,
    "matrix": np.asmatrix,
    "array-like": Tensor,
    "list of lists": lambda x: x.tolist(),
    "list of rows": list,
    "tuple of tuples": lambda x: tuple(map(tuple, x.tolist())),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_of_every_type_and_layout(layout, dtype):
    array = numbers_of(dtype)
    table = as_table(LAYOUTS[layout](array))
    assert table.names is None and table.types is None
    if not layout.startswith(("list of lists", "tuple")):
        assert table.dtype == float_of(dtype)
    assert_reads(table, array.astype(np.float64))


def test_a_broadcast_array():
    table = as_table(np.broadcast_to(np.float32([1, 2, 3]), (4, 3)))
    assert_reads(table, np.tile([1.0, 2.0, 3.0], (4, 1)))


def test_block_transposition_past_one_step():
    array = np.random.default_rng(1).normal(size=(10_001, 5)).astype(np.float32)
    array[::7, 2] = NAN
    table = as_table(array)
    for feature, column in enumerate(table.columns(0, 5)):
        np.testing.assert_array_equal(column, array[:, feature])


COLUMNS = [f"c{i}" for i in range(4)]


def arrow_types(dtype):
    return pa.from_numpy_dtype(np.dtype(dtype))


def arrow_of(dtype):
    return pa.table(
        {
            name: pa.array(column, arrow_types(dtype))
            for name, column in zip(COLUMNS, numbers_of(dtype).T, strict=True)
        }
    )


def chunked(table):
    return pa.concat_tables([table.slice(0, 1), table.slice(1, 0), table.slice(1, 4)])


PANDAS_NULLABLE = {"bool": "boolean"} | {
    name: name.replace("u", "U", 1).replace("i", "I", 1).replace("f", "F", 1)
    if not name.startswith("u")
    else name.replace("uint", "UInt")
    for name in REAL_TYPES
    if name not in ("bool", "float16")
}


def pandas_of(dtype):
    return pd.DataFrame(numbers_of(dtype), columns=COLUMNS)


FRAMES = {
    "pandas": pandas_of,
    "pandas by column": lambda dtype: pd.DataFrame(
        dict(zip(COLUMNS, numbers_of(dtype).T, strict=True))
    ),
    "pandas odd index": lambda dtype: pandas_of(dtype).set_index([[5, 5, 1, 0, 2]]),
    "pandas arrow": lambda dtype: pandas_of(dtype).astype(
        pd.ArrowDtype(arrow_types(dtype))
    ),
    "pandas nullable": lambda dtype: pandas_of(dtype).astype(PANDAS_NULLABLE[dtype]),
    "polars": lambda dtype: pl.DataFrame(arrow_of(dtype)),
    "polars chunks": lambda dtype: pl.concat(
        [pl.DataFrame(arrow_of(dtype))[:2], pl.DataFrame(arrow_of(dtype))[2:]],
        rechunk=False,
    ),
    "arrow": arrow_of,
    "arrow chunks": lambda dtype: chunked(arrow_of(dtype)),
    "arrow slice": lambda dtype: (
        pa.concat_tables([arrow_of(dtype)] * 3).combine_chunks().slice(5, 5)
    ),
    "record batch": lambda dtype: arrow_of(dtype).to_batches()[0],
}


@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize("container", FRAMES)
def test_frames_of_every_type(container, dtype):
    if dtype == "float16" and container == "pandas nullable":
        pytest.skip("pandas has no nullable float16")
    table = as_table(FRAMES[container](dtype))
    assert table.names == COLUMNS
    word = {"b": "i", "i": "int", "u": "int", "f": "float"}[np.dtype(dtype).kind]
    assert table.types == [word] * 4
    assert table.dtype == float_of(dtype)
    assert_reads(table, numbers_of(dtype).astype(np.float64))


NULL_NUMBERS = [
    [1, None, 3, 2],
    [None, None, None, None],
    [0, 250, None, 9],
    [7, 8, 9, 1],
]
NULL_EXPECTED = np.array(NULL_NUMBERS, dtype=np.float64).T


def null_arrow(dtype):
    return pa.table(
        {
            name: pa.array(column, arrow_types(dtype))
            for name, column in zip(COLUMNS, NULL_NUMBERS, strict=True)
        }
    )


NULL_FRAMES = {
    "pandas nullable": lambda dtype: pd.DataFrame(
        {
            name: pd.array(column, dtype=PANDAS_NULLABLE[dtype])
            for name, column in zip(COLUMNS, NULL_NUMBERS, strict=True)
        }
    ),
    "pandas arrow": lambda dtype: null_arrow(dtype).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "polars": lambda dtype: pl.DataFrame(null_arrow(dtype)),
    "arrow": null_arrow,
    "arrow chunks": lambda dtype: chunked(null_arrow(dtype)),
    "arrow slice": lambda dtype: (
        pa.concat_tables([null_arrow(dtype)] * 5).combine_chunks().slice(12, 4)
    ),
    "record batch": lambda dtype: null_arrow(dtype).to_batches()[0],
}


@pytest.mark.parametrize(
    "dtype", ["uint8", "int16", "int32", "int64", "float32", "float64"]
)
@pytest.mark.parametrize("container", NULL_FRAMES)
def test_null_is_missing(container, dtype):
    table = as_table(NULL_FRAMES[container](dtype))
    assert table.dtype == float_of(dtype)
    assert_reads(table, NULL_EXPECTED)


@pytest.mark.parametrize("container", NULL_FRAMES)
def test_null_and_the_missing_value_are_missing(container):
    table = as_table(NULL_FRAMES[container]("uint8"), missing=250)
    assert_reads(table, np.where(NULL_EXPECTED == 250, NAN, NULL_EXPECTED))


def test_missing_booleans():
    flags = [True, None, False, None, True, False, None, True, True, None]
    expected = np.array([flags, flags[::-1]], dtype=np.float64).T
    arrow = pa.table({"a": flags, "b": flags[::-1]})
    for frame in (
        arrow,
        arrow.slice(0, 10),
        pl.DataFrame(arrow),
        arrow.to_pandas(types_mapper=pd.ArrowDtype),
        pd.DataFrame({"a": flags, "b": flags[::-1]}, dtype="boolean"),
    ):
        table = as_table(frame)
        assert table.types == ["i", "i"]
        assert_reads(table, expected)
    assert_reads(as_table(arrow.slice(3, 5)), expected[3:8])
    assert_reads(as_table([*map(list, zip(flags, flags[::-1], strict=True))]), expected)


def test_columns_of_the_null_type_are_missing():
    for frame in (
        pa.table({"a": [1.5, 2.5], "b": pa.nulls(2)}),
        pl.DataFrame({"a": [1.5, 2.5], "b": [None, None]}),
    ):
        table = as_table(frame)
        expected = np.array([[1.5, NAN], [2.5, NAN]])
        assert_reads(table, expected, [np.float64, np.float32])


def test_columns_keep_their_own_types():
    data = {
        "a": np.array([1, 2, 3], np.int8),
        "b": np.array([0.1, 0.2, 0.3]),
        "c": np.array([0.1, 0.2, 0.3], np.float32),
        "d": np.array([True, False, True]),
        "e": np.array([2**40, 2**41 + 1, 5]),
    }
    dtypes = [np.float32, np.float64, np.float32, np.float32, np.float64]
    expected = np.column_stack([column.astype(np.float64) for column in data.values()])
    for frame in (pd.DataFrame(data), pl.DataFrame(data), pa.table(data)):
        table = as_table(frame)
        assert table.types == ["int", "float", "float", "i", "int"]
        assert_reads(table, expected, dtypes)


SPARSE = {
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "coo": sp.coo_array,
    "csr matrix": sp.csr_matrix,
    "csc matrix": sp.csc_matrix,
    "coo matrix": sp.coo_matrix,
    "lil": sp.lil_array,
    "dok": sp.dok_array,
    "bsr": lambda x: sp.bsr_array(x, blocksize=(1, 1)),
}


@pytest.mark.parametrize("dtype", [name for name in REAL_TYPES if name != "float16"])
@pytest.mark.parametrize("form", SPARSE)
def test_values_not_stored_are_missing(form, dtype):
    array = numbers_of(dtype)
    table = as_table(SPARSE[form](array))
    assert table.dtype == float_of(dtype)
    stored = np.where(array == 0, NAN, array.astype(np.float64))
    assert_reads(table, stored)


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_stored_zeros_are_zeros(form):
    matrix = sp.coo_array(
        (np.float32([0, 5, -0.0, NAN]), ([0, 0, 2, 1], [0, 2, 1, 0])), shape=(3, 3)
    ).asformat(form)
    expected = np.array([[0, NAN, 5], [NAN, NAN, NAN], [NAN, 0, NAN]])
    assert_reads(as_table(matrix), expected)
    expected[expected == 0] = NAN
    assert_reads(as_table(matrix, missing=0), expected)


def test_duplicate_entries_are_summed_without_changing_the_caller():
    values, columns = np.float64([1, 2, 4, 8]), np.array([2, 0, 2, 1])
    matrix = sp.csr_matrix((values, columns, [0, 3, 4]), shape=(2, 3))
    expected = np.array([[2, NAN, 5], [NAN, 8, NAN]])
    assert_reads(as_table(matrix), expected)
    assert matrix.nnz == 4
    np.testing.assert_array_equal(matrix.indices, columns)


@pytest.mark.parametrize(
    ("dtype", "values", "missing", "absent"),
    [
        ("int8", [-1, 0, 1], -1, [0]),
        ("int8", [-1, 0, 1], 0.0, [1]),
        ("int8", [-1, 0, 1], 255, []),  # would be -1 if cut to 8 bits
        ("uint8", [255, 0, 1], -1, []),
        ("int64", [-(2**63), 5, 6], -(2**63), [0]),
        ("int64", [2**63 - 1, 5, 6], 2**63 - 1, [0]),
        ("uint64", [2**64 - 1, 5, 6], 2**64 - 1, [0]),
        ("int32", [-999, 5, 6], -999.0, [0]),
        ("int32", [1, 5, 6], 1.5, []),
        ("int32", [1, 5, 6], float("inf"), []),
        ("bool", [True, False, True], 1, [0, 2]),
        ("bool", [True, False, True], 2, []),
        ("float16", [0.1, 2, 3], 0.1, [0]),
        ("float32", [-999.9, 2, 3], -999.9, [0]),
        ("float32", [float("inf"), 2, 3], float("inf"), [0]),
        ("float64", [0.1, np.float32(0.1), 3], 0.1, [0]),
        ("float64", [0.0, -0.0, NAN], 0, [0, 1, 2]),
        ("float64", [NAN, -1, 3], -1, [0, 1]),
        (">f4", [NAN, -1, 3], -1, [0, 1]),
    ],
)
def test_a_missing_value(dtype, values, missing, absent):
    column = np.array(values, dtype=dtype)
    expected = column.astype(np.float64)
    expected[absent] = NAN
    both = np.column_stack([column, column])
    for array in (both, np.asfortranarray(both)):
        assert_reads(as_table(array, missing), np.column_stack([expected, expected]))
    if column.dtype.isnative:
        frame = pd.DataFrame({"a": column, "b": column})
        assert_reads(as_table(frame, missing), np.column_stack([expected, expected]))


def test_a_missing_value_beyond_float32_is_not_infinity():
    rows = as_table(np.float32([[float("inf"), 1.0]]), missing=1e300).rows(0, 1)
    assert rows.tolist() == [[float("inf"), 1.0]]


def test_data_of_the_caller_is_not_changed():
    array = np.array([[1.0, -1.0], [-1.0, 2.0]])
    for data in (array, np.asfortranarray(array), pd.DataFrame(array)):
        table = as_table(data, missing=-1.0)
        assert np.isnan(table.rows(0, 2)).sum() == 2
        assert np.isnan(table.columns(0, 2)).sum() == 2
        np.testing.assert_array_equal(np.asarray(data), [[1, -1], [-1, 2]])


@given(
    arrays.arrays(
        st.sampled_from(["float32", "float64", "float16", "int32", "int16"]),
        arrays.array_shapes(min_dims=2, max_dims=2, max_side=6),
    ).filter(lambda array: not np.isinf(array).any()),
    st.booleans(),
)
@examples(60)
def test_numbers_are_never_rounded(array, fortran):
    table = as_table(np.asfortranarray(array) if fortran else array)
    exact = array.astype(np.float64)
    np.testing.assert_array_equal(table.rows(0, len(array)), exact)
    for feature, column in enumerate(table.columns(0, array.shape[1])):
        np.testing.assert_array_equal(column.astype(np.float64), exact[:, feature])


def test_float64_precision_is_kept():
    neighbours = np.array([[1.0, 16_777_216.0], [np.nextafter(1.0, 2.0), 16_777_217.0]])
    integers = np.array([[2**53, -(2**53)], [2**53 - 1, 1 - 2**53]])
    for array in (neighbours, integers):
        for data in (array, pd.DataFrame(array), pa.table(pd.DataFrame(array))):
            table = as_table(data)
            assert table.dtype == np.float64
            (first, second) = table.columns(0, 2)
            assert first[0] != first[1] and second[0] != second[1]
            assert len(np.unique(table.rows(0, 2))) == 4


def as_int64(values):
    return {
        "numpy": np.array([[1, 2], *[[0, v] for v in values]]),
        "fortran": np.asfortranarray([[1, 2], *[[0, v] for v in values]]),
        "list": [[1, 2], *[[0, v] for v in values]],
        "list with None": [[None, 2], *[[0, v] for v in values]],
        "pandas": pd.DataFrame({"a": [1, *[0 for _ in values]], "b": [2, *values]}),
        "nullable": pd.DataFrame(
            {"a": [None, *[0 for _ in values]], "b": [2, *values]}, dtype="Int64"
        ),
        "polars": pl.DataFrame({"a": [None, *[0 for _ in values]], "b": [2, *values]}),
        "arrow": pa.table({"a": [None, *[0 for _ in values]], "b": [2, *values]}),
        "sparse": sp.csr_array(np.array([[1, 2], *[[0, v] for v in values]])),
    }


@pytest.mark.parametrize("container", as_int64([1]))
@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 2**62])
def test_integers_that_floats_cannot_hold_raise(container, value):
    data = as_int64([5, value])[container]

    def read_rows():
        as_table(data).rows(1, 3)

    def read_columns():
        as_table(data).columns(1, 2)

    for read in (read_rows, read_columns):
        with pytest.raises(DataError, match=rf"{value} in row 2.*2\*\*53") as error:
            read()
        assert "column 'b'" in str(error.value) or "column 1" in str(error.value)
    as_table(as_int64([5, 2**53])[container]).rows(0, 3)


def test_views_without_a_copy():
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        array = rng.normal(size=(50, 6)).astype(dtype)
        for source in (array, read_only(array)):
            table = as_table(source)
            assert np.shares_memory(table.rows(10, 20), source)
            assert not any(np.shares_memory(c, source) for c in table.columns(0, 6))
            assert not np.shares_memory(
                as_table(source, missing=1.0).rows(0, 9), source
            )
        fortran = np.asfortranarray(array)
        for source in (fortran, read_only(fortran.T).T):
            columns = as_table(source).columns(2, 5)
            assert all(np.shares_memory(column, source) for column in columns)
        frame = pd.DataFrame(array)
        for feature, column in enumerate(as_table(pd.DataFrame(fortran)).columns(0, 6)):
            np.testing.assert_array_equal(column, array[:, feature])
        by_column = pd.DataFrame({str(i): array[:, i] for i in range(6)})
        for data in (
            by_column,
            pl.DataFrame(by_column),
            pa.table(by_column),
            pl.DataFrame(by_column)[10:20],
        ):
            table = as_table(data)
            first, second = table.columns(0, 1)[0], table.columns(0, 1)[0]
            assert np.shares_memory(first, second)
        assert np.shares_memory(as_table(frame).rows(0, 50), frame) is False


def test_a_view_keeps_read_only_memory_alive():
    table = as_table(read_only(np.arange(6.0).reshape(3, 2)))
    rows = table.rows(1, 3)
    del table
    np.testing.assert_array_equal(rows, [[2, 3], [4, 5]])


@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "float64"])
def test_reading_a_block_of_columns_allocates_only_the_block(dtype):
    array = np.ones((200_000, 10), dtype)
    names = [f"x{i}" for i in range(10)]
    for data in (array, pd.DataFrame(array, columns=names), pl.DataFrame(array)):
        table = as_table(data)
        block = 4 * len(array) * table.dtype.itemsize
        tracemalloc.start()
        columns = table.columns(2, 6)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        # A data frame converts a column of another type as a whole.
        assert peak < block * 1.1 + 500_000
        assert len(columns) == 4


def test_take():
    array = np.array([[1, -1, 3], [4, 5, -1], [7, 8, 9]], np.int16)
    rows = np.array([2, 0, 0])
    expected = np.where(array == -1, NAN, array)[rows]
    names = ["x", "y", "z"]
    for data in (
        array,
        pd.DataFrame(array, columns=names),
        pl.DataFrame(array, schema=names),
        sp.csr_array(array),
        sp.csc_array(array),
    ):
        table = as_table(data, missing=-1).take(rows)
        assert_reads(table, expected)
    table = as_table(pd.DataFrame(array, columns=names)).take(rows)
    assert table.names == names and table.types == ["int"] * 3


def test_names():
    frame = pd.DataFrame(
        np.eye(2), columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])
    )
    assert as_table(frame).names == ["a 1", "b 2"]
    assert as_table(pd.DataFrame(np.eye(2))).names == ["0", "1"]
    assert as_table(pd.DataFrame(np.eye(2)), names=["x", "y"]).names == ["x", "y"]
    twice = pd.DataFrame(np.eye(2), columns=["a", "a"])
    table = as_table(twice, names=["x", "y"])
    assert_reads(table, np.eye(2))


@pytest.mark.parametrize(
    "data",
    [
        np.empty((0, 3), np.float32),
        np.empty((0, 3), np.int64),
        pd.DataFrame({"a": [], "b": [], "c": []}, dtype=float),
        pl.DataFrame(schema={"a": pl.Int64, "b": pl.Float32, "c": pl.Boolean}),
        pa.table(
            {"a": pa.array([], pa.int8())} | {c: pa.array([], pa.bool_()) for c in "bc"}
        ),
        sp.csr_array((0, 3)),
    ],
    ids=lambda data: type(data).__module__,
)
def test_no_rows(data):
    table = as_table(data)
    assert table.n_rows == 0
    assert table.rows(0, 0).shape == (0, 3)
    assert [len(column) for column in table.columns(0, 3)] == [0, 0, 0]
    assert table.take(np.empty(0, np.intp)).n_rows == 0


def test_reading_arrays_imports_no_library_of_frames():
    program = """
import sys
import tracemalloc
import numpy
from hornbeam.data.opening import open_features
table, _ = open_features(numpy.eye(3), {"label": [1, 2, 3]})
table.rows(0, 3)
heavy = {"pandas", "polars", "pyarrow", "scipy", "numba", "sklearn"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ)
