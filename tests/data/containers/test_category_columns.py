"""The same categories have the same codes in every container."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam.data.categories import Categories
from hornbeam.data.containers.dispatch import as_table
from hornbeam.errors import DataError

NAN = float("nan")
WORDS = ["pear", None, "apple", "pear", "zoë", None, "fig"]
SORTED = ["apple", "fig", "pear", "zoë"]
DECLARED = ["pear", "zoë", "nut", "apple", "fig"]
OBJECTS = np.array(WORDS, object)


def arrow_words(kind=None):
    return pa.array(WORDS, kind or pa.string())


def chunks(array):
    return pa.chunked_array([array.slice(0, 3), array.slice(3, 0), array.slice(3)])


def dictionary(values, levels):
    places = [None if value is None else levels.index(value) for value in values]
    return pa.DictionaryArray.from_arrays(
        pa.array(places, pa.int8()), pa.array(levels, pa.string())
    )


#: Data frames whose categories are sorted strings.
TEXT = {
    "pandas str": lambda: pd.DataFrame({"k": pd.Series(WORDS, dtype="str")}),
    "pandas string": lambda: pd.DataFrame({"k": pd.Series(WORDS, dtype="string")}),
    "pandas python string": lambda: pd.DataFrame(
        {"k": pd.Series(WORDS, dtype=pd.StringDtype("python"))}
    ),
    "pandas object": lambda: pd.DataFrame({"k": OBJECTS}),
    "pandas object with nan": lambda: pd.DataFrame(
        {"k": np.where(pd.isna(OBJECTS), NAN, OBJECTS)}
    ),
    "pandas object with all nulls there are": lambda: pd.DataFrame(
        {"k": [NAN if w is None else w for w in WORDS[:-2]] + [pd.NaT, "fig"]},
        dtype=object,
    ),
    "pandas arrow": lambda: pd.DataFrame(
        {"k": pd.Series(WORDS, dtype=pd.ArrowDtype(pa.string()))}
    ),
    "pandas odd index": lambda: pd.DataFrame(
        {"k": OBJECTS}, index=[5, 5, 1, 0, 2, 9, 9]
    ),
    "polars": lambda: pl.DataFrame({"k": WORDS}),
    "polars categorical": lambda: pl.DataFrame(
        {"k": pl.Series(WORDS, dtype=pl.Categorical)}
    ),
    "polars lazy": lambda: pl.LazyFrame({"k": WORDS}),
    "arrow": lambda: pa.table({"k": arrow_words()}),
    "arrow large": lambda: pa.table({"k": arrow_words(pa.large_string())}),
    "arrow view": lambda: pa.table({"k": arrow_words(pa.string_view())}),
    "arrow chunks": lambda: pa.table({"k": chunks(arrow_words())}),
    "arrow dictionaries that differ": lambda: pa.table(
        {
            "k": pa.chunked_array(
                [
                    dictionary(WORDS[:3], ["pear", "apple"]),
                    dictionary(WORDS[3:], ["pear", "zoë", "fig"]),
                ]
            )
        }
    ),
}
#: Data frames whose categories have a declared order.
DECLARING = {
    "pandas category": lambda: pd.DataFrame({"k": pd.Categorical(WORDS, DECLARED)}),
    "pandas arrow dictionary": lambda: pd.DataFrame(
        {"k": pd.arrays.ArrowExtensionArray(dictionary(WORDS, DECLARED))}
    ),
    "polars enum": lambda: pl.DataFrame(
        {"k": pl.Series(WORDS, dtype=pl.Enum(DECLARED))}
    ),
    "arrow dictionary": lambda: pa.table({"k": dictionary(WORDS, DECLARED)}),
    "arrow dictionary chunks": lambda: pa.table(
        {"k": chunks(dictionary(WORDS, DECLARED))}
    ),
    "record batch": lambda: pa.record_batch({"k": dictionary(WORDS, DECLARED)}),
}


def codes(levels):
    return np.array([NAN if w is None else levels.index(w) for w in WORDS])


def assert_reads_codes(table, levels, expected):
    assert table.types == ["c"] and table.names == ["k"]
    assert table.dtype == np.float32
    assert table.categories == Categories([levels])
    np.testing.assert_array_equal(table.column(0), expected)
    for start in range(len(expected)):
        for stop in range(start, len(expected) + 1):
            rows = table.rows(start, stop)
            np.testing.assert_array_equal(rows[:, 0], expected[start:stop])
    some = np.array([4, 1, 1])
    np.testing.assert_array_equal(table.take(some).column(0), expected[some])
    assert table.take(some).categories == table.categories


@pytest.mark.parametrize("container", TEXT)
def test_text_becomes_sorted_categories(container):
    assert_reads_codes(as_table(TEXT[container]()), SORTED, codes(SORTED))


@pytest.mark.parametrize("container", DECLARING)
def test_declared_categories_keep_their_order(container):
    assert_reads_codes(as_table(DECLARING[container]()), DECLARED, codes(DECLARED))


def test_polars_categoricals_do_not_depend_on_earlier_columns():
    pl.Series(["zoë", "quince", "fig"], dtype=pl.Categorical)
    table = as_table(pl.DataFrame({"k": pl.Series(WORDS, dtype=pl.Categorical)})[1:])
    assert table.categories == Categories([SORTED])
    np.testing.assert_array_equal(table.column(0), codes(SORTED)[1:])


def test_numbers_as_categories():
    values = [30, 10, None, 30]
    levels = [30, 20, 10]
    places = pa.array([0, 2, None, 0])
    for frame in (
        pd.DataFrame({"k": pd.Categorical(values, levels)}),
        pa.table({"k": pa.DictionaryArray.from_arrays(places, pa.array(levels))}),
    ):
        table = as_table(frame)
        assert table.categories == Categories([levels])
        assert table.categories.of(0).dtype == np.int64
        np.testing.assert_array_equal(table.column(0), [0, 2, NAN, 0])


def test_objects_that_are_numbers_are_numbers():
    frame = pd.DataFrame(
        {
            "whole": [1, None, 2**53],
            "real": [1.5, 2, None],
            "flag": [True, None, False],
            "none": [None, None, None],
            "both": [True, 2, 0.5],
        },
        dtype=object,
    )
    table = as_table(frame)
    assert table.types == ["int", "float", "i", "float", "float"]
    expected = [[1, NAN, 2**53], [1.5, 2, NAN], [1, NAN, 0], [NAN] * 3, [1, 2, 0.5]]
    for column, values in zip(table.columns(0, 5), expected, strict=True):
        np.testing.assert_array_equal(column, values)


def test_missing_does_not_apply_to_category_codes():
    frame = pd.DataFrame({"k": pd.Categorical(["x", "y"]), "n": [0.0, 1.0]})
    np.testing.assert_array_equal(as_table(frame, 0).rows(0, 2), [[0, NAN], [1, 1]])


def test_numeric_and_categorical_columns():
    frame = pl.DataFrame({"a": [1.5, 2.5], "k": ["y", "x"], "b": [True, None]})
    table = as_table(frame)
    assert table.types == ["float", "c", "i"]
    assert table.categories == Categories([None, ["x", "y"], None])
    np.testing.assert_array_equal(table.rows(0, 2), [[1.5, 1, 1], [2.5, 0, NAN]])
    part = table.select([2, 1])
    assert part.names == ["b", "k"] and part.types == ["i", "c"]
    assert part.categories == Categories([None, ["x", "y"]])
    assert part.dtype == np.float32
    np.testing.assert_array_equal(part.rows(0, 2), [[1, 1], [NAN, 0]])
    np.testing.assert_array_equal(
        table.rows(0, 2, np.array([1, 0])), [[1, 1.5], [0, 2.5]]
    )


def test_more_than_255_categories():
    words = [f"w{i:05}" for i in range(40_000)]
    for frame in (
        pd.DataFrame({"k": pd.Categorical(words)}),
        pl.DataFrame({"k": words}),
        pa.table({"k": words}),
    ):
        np.testing.assert_array_equal(as_table(frame).column(0), np.arange(40_000))


def test_categories_without_enable_categorical_raise():
    frame = pd.DataFrame({"n": [1], "k": ["x"], "q": pd.Categorical(["y"])})
    with pytest.raises(DataError, match=r"column 'k', column 'q'.*enable_categorical"):
        as_table(frame, enable_categorical=False)
    with pytest.raises(DataError, match=r"column 1.*enable_categorical"):
        as_table(np.eye(2), types=["q", "c"], enable_categorical=False)


def test_a_type_that_contradicts_the_column():
    with pytest.raises(DataError, match=r"feature_types has 'q' for column 'k'"):
        as_table(pl.DataFrame({"k": ["x"]}), types=["q"])


RAW = {
    "numpy": np.asarray,
    "fortran": np.asfortranarray,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "list": np.ndarray.tolist,
}


@pytest.mark.parametrize("container", RAW)
def test_raw_codes(container):
    array = np.array([[0.0, 7.0], [65_534.0, 0.5], [NAN, 1.0]])
    table = as_table(RAW[container](array), types=["c", "q"])
    assert table.types == ["c", "q"] and table.categories.empty()
    np.testing.assert_array_equal(table.rows(0, 3), array)
    np.testing.assert_array_equal(table.column(0), array[:, 0])


@pytest.mark.parametrize("container", RAW)
@pytest.mark.parametrize("value", [-1.0, 0.5, 65_535.0])
def test_invalid_category_codes_raise(container, value):
    array = np.array([[1.0, 0.0], [2.0, NAN], [0.5, value]])
    table = as_table(RAW[container](array), types=["q", "c"])
    table.rows(0, 2)
    table.rows(0, 3, np.array([0]))
    table.column(0)
    message = rf"row 2 of {table.label(1)} holds {value}.*whole numbers from 0 to 65534"
    for read in (
        lambda: table.rows(1, 3),
        lambda: table.rows(2, 3, np.array([1])),
        lambda: table.column(1),
        lambda: table.select([1]).column(0),
    ):
        with pytest.raises(DataError, match=message.replace("column 1", r"column \d")):
            read()


def test_a_code_that_means_missing():
    table = as_table(np.array([[-1.0], [2.0]]), missing=-1, types=["c"])
    np.testing.assert_array_equal(table.rows(0, 2), [[NAN], [2]])
    np.testing.assert_array_equal(table.column(0), [NAN, 2])


@given(st.lists(st.none() | st.text(max_size=3), max_size=12))
@examples(50)
def test_any_text(words):
    words = [None if w is None else w.replace("\x00", "") for w in words]
    levels = sorted({w for w in words if w is not None})
    expected = [NAN if w is None else levels.index(w) for w in words]
    try:
        "".join(levels).encode()
    except UnicodeEncodeError:
        return
    for frame in (
        pd.DataFrame({"k": pd.Series(words, dtype=object)}),
        pl.DataFrame({"k": pl.Series(words, dtype=pl.String)}),
        pl.DataFrame({"k": pl.Series(words, dtype=pl.Categorical)}),
        pa.table({"k": pa.array(words, pa.string())}),
    ):
        table = as_table(frame)
        if table.types == ["c"]:
            assert table.categories.of(0).tolist() == levels
        else:
            assert not levels  # objects that are all null say nothing of their kind
        np.testing.assert_array_equal(table.column(0), expected)
