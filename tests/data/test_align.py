"""Data is aligned with the columns and categories of a model, or raises."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam.data.align import align
from hornbeam.data.categories import Categories
from hornbeam.data.containers.dispatch import as_table
from hornbeam.data.schema import Schema
from hornbeam.data.sources.dispatch import open_source
from hornbeam.errors import DataError, ParameterError

NAN = float("nan")
FRUIT = ["apple", "fig", "pear"]
EXPECTED = Schema(
    3, ["a", "k", "b"], ["float", "c", "i"], Categories([None, FRUIT, None])
)


def frame_of(**columns):
    return pl.DataFrame(columns)


def rows_of(data, expected=EXPECTED, unseen="error", **reading):
    table = align(as_table(data, **reading), expected, unseen)
    rows = table.rows(0, table.n_rows)
    for feature, column in enumerate(table.columns(0, table.n_features)):
        np.testing.assert_array_equal(column, rows[:, feature])
        np.testing.assert_array_equal(table.column(feature), rows[:, feature])
    backwards = np.arange(table.n_features)[::-1].copy()
    np.testing.assert_array_equal(table.rows(0, table.n_rows, backwards), rows[:, ::-1])
    (batch,) = table.batches(backwards.tolist())
    np.testing.assert_array_equal(batch.rows(0, table.n_rows), rows[:, ::-1])
    some = np.arange(table.n_rows)[::-2]
    np.testing.assert_array_equal(table.take(some).rows(0, len(some)), rows[some])
    return rows


def test_a_matching_table_is_returned_itself():
    for data, types in (
        (np.eye(3), None),
        (np.eye(3), ["c", "q", "i"]),
        (frame_of(a=[1.0], k=pl.Series(["fig"], dtype=pl.Enum(FRUIT)), b=[True]), None),
        (pd.DataFrame({"a": [1], "b": [2]}), None),
    ):
        table = as_table(data, types=types)
        assert align(table, table.schema) is table
        unnamed = Schema(table.n_features, None, table.types, table.categories)
        assert align(table, unnamed) is table
    table = as_table(pd.DataFrame({"a": [1], "b": [2.5]}))
    assert align(table, Schema(2, ["a", "b"], ["float", "int"])) is table
    assert align(as_table(np.eye(2)), table.schema) is not None


def test_columns_by_name_in_any_order():
    data = frame_of(b=[True, None], k=["pear", "apple"], a=[0.5, 1.5])
    np.testing.assert_array_equal(rows_of(data), [[0.5, 2, 1], [1.5, 0, NAN]])
    for other in (data.to_pandas(), data.to_arrow()):
        np.testing.assert_array_equal(rows_of(other), rows_of(data))


def test_categories_are_matched_by_name():
    for values in (
        pd.Categorical(["pear", None, "apple"], ["pear", "nut", "apple"]),
        pd.Series(["pear", None, "apple"]),
        pd.Series(["pear", None, "apple"], dtype=object),
    ):
        data = pd.DataFrame({"a": [1, 2, 3], "k": values, "b": [True, False, True]})
        np.testing.assert_array_equal(rows_of(data)[:, 1], [2, NAN, 0])


def test_numbers_as_categories():
    expected = Schema(1, ["k"], ["c"], Categories([[10, 20, 30]]))
    data = pd.DataFrame({"k": pd.Categorical([30, 10, None])})
    assert rows_of(data, expected).ravel().tolist()[:2] == [2, 0]
    data = pd.DataFrame({"k": pd.Categorical([30.0, 10.0])})
    assert rows_of(data, expected).ravel().tolist() == [2, 0]
    with pytest.raises(DataError, match="numbers as categories in training, strings"):
        rows_of(pd.DataFrame({"k": ["30"]}), expected)
    with pytest.raises(DataError, match="strings as categories in training, numbers"):
        rows_of(pd.DataFrame({"a": [1.0], "k": pd.Categorical([3]), "b": [True]}))


def test_an_unseen_category():
    data = frame_of(a=[0.0] * 4, k=["fig", "nut", None, "nut"], b=[True] * 4)
    table = align(as_table(data), EXPECTED)
    assert table.rows(0, 1)[0, 1] == 1  # only a row that has it is an error
    for read in (
        lambda: table.rows(1, 4),
        lambda: table.rows(0, 4, np.array([2, 1])),
        lambda: table.columns(0, 3),
        lambda: next(table.batches()).column(1),
    ):
        with pytest.raises(
            DataError,
            match=r"row 1 of column 'k' holds the category 'nut', which training did "
            r'not see.*unseen="missing"',
        ):
            read()
    rows = rows_of(data, unseen="missing")
    np.testing.assert_array_equal(rows[:, 1], [1, NAN, NAN, NAN])
    with pytest.raises(ParameterError, match="unseen"):
        align(table, EXPECTED, "drop")


def test_unused_unseen_categories_are_ignored():
    data = frame_of(
        a=[0.0], k=pl.Series(["pear"], dtype=pl.Enum(["nut", "pear"])), b=[True]
    )
    assert rows_of(data)[0, 1] == 2


def test_a_column_without_values_matches_any_kind():
    for data in (
        frame_of(a=[None], k=[None], b=[None]),
        pa.table({"a": pa.nulls(1), "k": pa.nulls(1), "b": pa.nulls(1)}),
        pd.DataFrame({"b": [None], "k": [None], "a": [None]}),
        frame_of(a=[None], k=pl.Series([None], dtype=pl.String), b=[None]),
    ):
        assert np.isnan(rows_of(data)).all()


def test_codes_without_names_are_those_of_the_expected_categories():
    array = np.array([[0.5, 2, 1], [0.5, NAN, 0]])
    np.testing.assert_array_equal(rows_of(array, types=["q", "c", "i"]), array)
    array[1, 1] = 3
    with pytest.raises(DataError, match="row 1 of column 1 holds the code 3"):
        rows_of(array, types=["q", "c", "i"])
    rows = rows_of(array, unseen="missing", types=["q", "c", "i"])
    np.testing.assert_array_equal(rows[:, 1], [2, NAN])


def test_raw_codes():
    expected = Schema(2, None, ["c", "q"])
    array = np.array([[3.0, 0.5], [NAN, 1.5]])
    np.testing.assert_array_equal(rows_of(array, expected), array)
    np.testing.assert_array_equal(rows_of(array, expected, types=["c", "q"]), array)
    with pytest.raises(DataError, match="row 1 of column 0 holds -1"):
        rows_of(np.array([[3.0, 1], [-1, 1]]), expected)
    for data in (pd.DataFrame(array), pl.DataFrame(array)):
        np.testing.assert_array_equal(rows_of(data, expected), array)
    with pytest.raises(
        DataError, match=r"names of categories where training had codes"
    ):
        rows_of(frame_of(x=["u"], y=[0.5]), expected)


@pytest.mark.parametrize(
    ("data", "needed"),
    [
        (frame_of(a=[1.0], b=[True]), ["missing: 'k'"]),
        (
            frame_of(a=[1.0], k=["fig"], b=[True], z=[1], y=[1]),
            ["not in training: 'z', 'y'"],
        ),
        (
            frame_of(A=[1.0], k=[3], b=["x"]),
            [
                "missing: 'a'",
                "not in training: 'A'",
                "numbers where training had categories: 'k'",
                "categories where training had numbers: 'b'",
            ],
        ),
        (np.eye(3), ["numbers where training had categories: 'k'"]),
        (np.eye(2), ["3 columns in training ('a', 'k', 'b')", "this data has 2"]),
        (np.eye(4), ["3 columns", "has 4"]),
    ],
)
def test_one_error_lists_all_mismatches(data, needed):
    with pytest.raises(DataError) as error:
        align(as_table(data), EXPECTED)
    for words in needed:
        assert words in str(error.value)


def test_a_numeric_model_and_text():
    for expected in (Schema(1), Schema(1, ["k"]), Schema(1, ["k"], ["float"])):
        with pytest.raises(DataError, match=r"categories where training had numbers"):
            align(as_table(frame_of(k=["x"])), expected)


def test_errors_name_the_expected_data():
    with pytest.raises(DataError, match="not in the first batch: 'z'"):
        align(as_table(frame_of(z=[1.0])), Schema(1, ["a"]), of="the first batch")


@given(
    st.permutations(["a", "k", "q"]),
    st.lists(st.sampled_from([*FRUIT, None]), min_size=1, max_size=8),
    st.permutations([*FRUIT, "nut"]),
)
@examples(40)
def test_any_order_of_columns_and_codes(order, values, levels):
    n = len(values)
    columns = {
        "a": np.arange(n) / 2,
        "k": pd.Categorical(values, levels),
        "q": pd.Categorical(values, FRUIT),
    }
    expected = Schema(
        3, ["a", "k", "q"], ["float", "c", "c"], Categories([None, FRUIT, FRUIT])
    )
    rows = rows_of(pd.DataFrame({name: columns[name] for name in order}), expected)
    codes = [NAN if value is None else FRUIT.index(value) for value in values]
    np.testing.assert_array_equal(rows, np.column_stack([columns["a"], codes, codes]))


def test_batches_are_recoded():
    def part(values, **more):
        n = len(values)
        return frame_of(b=[True] * n, k=values, a=[0.5] * n, **more)

    stream = open_source([part(["pear", "nut"]), part(["fig", None, "nut"])])
    with pytest.raises(
        DataError, match=r"row 1 of column 'k' holds the category 'nut'"
    ):
        align(stream, EXPECTED).rows(0, 5)
    table = align(stream, EXPECTED, "missing")
    assert table.is_stream and table.names == ["a", "k", "b"]
    expected = np.array([[0.5, k, 1] for k in (2, NAN, 1, NAN, NAN)])
    np.testing.assert_array_equal(table.rows(0, 5), expected)
    np.testing.assert_array_equal(table.rows(3, 5), expected[3:])
    np.testing.assert_array_equal(table.column(1), expected[:, 1])
    for chosen in ([0, 1, 2], [1, 2], [2, 1]):
        batches = list(table.batches(chosen))
        assert [batch.n_rows for batch in batches] == [2, 3]
        for batch in batches:
            assert batch.categories == table.categories.select(chosen)
        rows = np.concatenate([batch.rows(0, batch.n_rows) for batch in batches])
        np.testing.assert_array_equal(rows, expected[:, chosen])
        some = table.select(chosen)
        assert some.is_stream
        np.testing.assert_array_equal(some.rows(0, 5), expected[:, chosen])
    with pytest.raises(
        DataError, match=r"row 4 of column 'k' holds the category 'nut'"
    ):
        stream = open_source([part(["pear", "fig"]), part(["fig", None, "nut"])])
        for batch in align(stream, EXPECTED).batches():
            batch.columns(0, 3)
