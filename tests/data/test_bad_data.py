"""Each kind of bad input raises an error with problem, place and advice."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from hornbeam.data.containers.dispatch import as_table
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.floats import check_finite
from hornbeam.errors import DataError

X = np.arange(12.0).reshape(4, 3)
DAY = datetime.date(2020, 1, 1)
NAN, INF = float("nan"), float("inf")

# name: (data, words that the message must hold)
FEATURES = {
    "1-d array": (np.arange(3.0), ["2-d", "(3,)", "reshape(-1, 1)"]),
    "3-d array": (np.zeros((2, 2, 2)), ["2-d", "(2, 2, 2)"]),
    "0-d array": (np.array(1.0), ["2-d", "()"]),
    "flat list": ([1.0, 2.0], ["2-d", "(2,)"]),
    "empty list": ([], ["2-d", "(0,)"]),
    "series": (pd.Series([1.0]), ["2-d", "pandas Series", "to_frame"]),
    "polars series": (pl.Series([1.0]), ["2-d", "polars Series", "to_frame"]),
    "arrow array": (pa.array([1.0]), ["2-d", "pyarrow DoubleArray"]),
    "1-d sparse": (sp.coo_array([1.0, 0.0]), ["2-d", "(2,)"]),
    "no columns": (np.empty((4, 0)), ["no columns", "(4, 0)"]),
    "pandas without columns": (pd.DataFrame(index=[1, 2]), ["no columns"]),
    "polars without columns": (pl.DataFrame(), ["no columns"]),
    "strings": (np.array([["a", "b"]]), ["<U1", "data frame"]),
    "numbers as strings": ([["1", "2"]], ["<U1"]),
    "bytes": (np.array([[b"a"]]), ["|S1"]),
    "complex": (np.array([[1j]]), ["complex128"]),
    "objects": (np.array([[1, "x"]], object), ["row 0, column 1", "'x'"]),
    "dates": (np.array([["2020-01-01"]], "datetime64[D]"), ["datetime64[D]", "days"]),
    "spans": (np.array([[3]], "timedelta64[s]"), ["timedelta64[s]"]),
    "records": (np.zeros((2, 2), [("a", float)]), ["dtype"]),
    "long doubles": (np.zeros((2, 2), np.longdouble), ["64 bits"]),
    "sparse complex": (sp.csr_array(np.array([[1j]])), ["complex128"]),
    "ragged list": ([[1, 2], [3, 4], [5]], ["row 2", "1 values", "row 0 has 2"]),
    "unevenly nested": ([[1, [2]], [3, 4]], ["unevenly"]),
    "list with a string": ([[1, None], [2, "x"]], ["row 1, column 1", "'x'"]),
    "list of dicts": ([{"a": 1}], ["row 0", "{'a': 1}"]),
    "dict": ({"a": [1]}, ["dict", "pandas.DataFrame"]),
    "path": ("train.csv", ["str", "DMatrix(path)"]),
    "none": (None, ["NoneType", "NumPy array"]),
    "number": (3.0, ["float", "NumPy array"]),
    "iterator": (iter([X]), ["DMatrix(batches)"]),
    "pandas mixture": (
        pd.DataFrame({"o": [None, 1, "x"]}, dtype=object),
        ["column 'o' holds a number in row 1 (1)", "text in row 2 ('x')", "all"],
    ),
    "pandas objects": (
        pd.DataFrame({"o": [[1, 2], [3]]}),
        ["'o' (object: list)", "one column for each part"],
    ),
    "pandas dates as objects": (pd.DataFrame({"t": [DAY]}), ["'t' (object: date)"]),
    "pandas decimals": (
        pd.DataFrame({"d": [decimal.Decimal("1.5")]}),
        ["'d' (object: Decimal)", "float64"],
    ),
    "pandas huge objects": (
        pd.DataFrame({"o": [1, 2**60]}, dtype=object),
        [f"the integer {2**60} in row 1 of column 'o'"],
    ),
    "pandas date": (
        pd.DataFrame({"t": [pd.Timestamp(DAY)]}),
        ["'t' (datetime64", "days since some date"],
    ),
    "pandas span": (
        pd.DataFrame({"t": [pd.Timedelta(1)]}),
        ["'t' (timedelta64", "seconds of a duration"],
    ),
    "pandas category of dates": (
        pd.DataFrame({"k": pd.Categorical([pd.Timestamp(DAY)])}),
        ["column 'k'", "all strings or all numbers"],
    ),
    "pandas category of both": (
        pd.DataFrame({"k": pd.Categorical([1, "x"])}),
        ["column 'k'", "int and str"],
    ),
    "pandas zone": (
        pd.DataFrame({"t": [pd.Timestamp(DAY, tz="UTC")]}),
        ["'t' (datetime64", "UTC"],
    ),
    "pandas interval": (
        pd.DataFrame({"k": pd.interval_range(0, 2)}),
        ["'k' (interval"],
    ),
    "pandas complex": (pd.DataFrame({"z": [1j]}), ["'z' (complex128)"]),
    "polars date": (pl.DataFrame({"t": [DAY]}), ["'t' (Date)", "days since"]),
    "polars binary": (pl.DataFrame({"b": [b"x"]}), ["'b' (Binary)", "decode"]),
    "polars object": (pl.DataFrame({"o": [object()]}), ["'o' (Object"]),
    "polars struct": (pl.DataFrame({"s": [{"a": 1}]}), ["'s' (Struct", "each part"]),
    "polars wide": (
        pl.DataFrame({"w": pl.Series([1], dtype=pl.Int128)}),
        ["'w' (Int128)", "cast them to integers, floats or strings"],
    ),
    "polars list": (pl.DataFrame({"l": [[1, 2]]}), ["'l' (List(Int64))"]),
    "arrow timestamp": (
        pa.table({"t": pa.array([0], pa.timestamp("s"))}),
        ["'t' (timestamp[s])", "days since"],
    ),
    "arrow dictionary of dates": (
        pa.table({"t": pa.array([DAY]).dictionary_encode()}),
        ["'t' (dictionary<values=date32", "days since"],
    ),
    "arrow dictionary with null": (
        pa.table(
            {
                "k": pa.DictionaryArray.from_arrays(
                    pa.array([0, 1]), pa.array(["x", None])
                )
            }
        ),
        ["column 'k'", "null among its categories"],
    ),
    "arrow dictionary with doubles": (
        pa.table(
            {
                "k": pa.DictionaryArray.from_arrays(
                    pa.array([0, 1]), pa.array(["x", "x"])
                )
            }
        ),
        ["column 'k'", "'x' more than once"],
    ),
    "too many words": (
        pl.DataFrame({"id": [f"u{i}" for i in range(70_000)]}),
        ["column 'id'", "70,000 categories", "65,535"],
    ),
    "arrow decimal": (pa.table({"d": [decimal.Decimal("1.5")]}), ["'d' (decimal128"]),
    "pandas arrow date": (
        pd.DataFrame({"t": pd.array([DAY], dtype=pd.ArrowDtype(pa.date32()))}),
        ["'t' (date32"],
    ),
    "duplicate names": (
        pd.DataFrame(X, columns=["a", "b", "a"]),
        ["'a'", "more than once", "rename"],
    ),
    "duplicate names in arrow": (
        pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]),
        ["'a'", "more than once"],
    ),
    "duplicate names as text": (
        pd.DataFrame(np.eye(2), columns=[1, "1"]),
        ["'1'", "more than once"],
    ),
    "bracket in a name": (pd.DataFrame({"a[0]": [1.0]}), ["'a[0]'", "rename"]),
}


@pytest.mark.parametrize("case", FEATURES)
def test_bad_features(case):
    data, needed = FEATURES[case]
    with pytest.raises(DataError) as error:
        as_table(data)
    for words in needed:
        assert words in str(error.value)


def test_many_bad_columns_are_listed_up_to_ten():
    frame = pd.DataFrame({f"c{i}": [DAY] for i in range(14)})
    with pytest.raises(DataError, match=r"'c9' \(object: date\) and 4 more"):
        as_table(frame)


# name: (arguments, words that the message must hold)
ARGUMENTS = {
    "label too short": ({"label": [1, 2]}, ["label", "2 values", "4 rows"]),
    "label a number": ({"label": 1.0}, ["label", "one value"]),
    "label nan": ({"label": [1, 2, NAN, NAN]}, ["label is nan in row 2", "2 of 4"]),
    "label inf": ({"label": [1, INF, 0, 1]}, ["label is inf in row 1"]),
    "label None": ({"label": [1, 2, 3, None]}, ["label is nan in row 3"]),
    "label null": (
        {"label": pl.Series([1, None, 0, 1])},
        ["label is nan in row 1"],
    ),
    "label strings": (
        {"label": ["a", "b", "a", "b"]},
        ["label must be numbers", "HornbeamClassifier"],
    ),
    "label text series": (
        {"label": pd.Series(["a", "b", "a", "b"])},
        ["label must be numbers", "str", "HornbeamClassifier"],
    ),
    "label categories": (
        {"label": pl.Series(["a", "b", "a", "b"], dtype=pl.Categorical)},
        ["label must be numbers", "Categorical"],
    ),
    "label complex": (
        {"label": [1j, 2, 3, 4]},
        ["label must be numbers", "complex128"],
    ),
    "label dates": (
        {"label": np.array(["2020-01-01"] * 4, "datetime64[D]")},
        ["label must be numbers", "datetime64[D]"],
    ),
    "label a word": ({"label": "target"}, ["label='target'", "no columns"]),
    "label 3-d": ({"label": np.ones((4, 2, 1))}, ["(4, 2, 1)", "row and target"]),
    "label a huge integer": (
        {"label": [1, 2, 2**60, 3]},
        [str(2**60), "row 2 of label", "2**53"],
    ),
    "weight too long": ({"weight": np.ones(5)}, ["weight", "5 values", "4 rows"]),
    "weight negative": ({"weight": [1, 1, -0.5, 1]}, ["weight is -0.5 in row 2"]),
    "weight nan": ({"weight": [NAN, 1, 1, 1]}, ["weight is nan in row 0"]),
    "weight inf": ({"weight": [1, INF, 1, 1]}, ["weight is inf in row 1"]),
    "weight all zero": ({"weight": np.zeros(4)}, ["every weight is zero"]),
    "weight of two columns": ({"weight": np.ones((4, 2))}, ["weight", "(4, 2)"]),
    "weight strings": ({"weight": ["a"] * 4}, ["weight must be numbers"]),
    "margin too short": ({"base_margin": [0.5]}, ["base_margin", "1 values", "4 rows"]),
    "margin nan": (
        {"base_margin": [[0, 0], [0, NAN], [0, 0], [0, 0]]},
        ["base_margin", "row 1"],
    ),
    "margin 3-d": ({"base_margin": np.zeros((4, 1, 1))}, ["base_margin", "(4, 1, 1)"]),
    "names too few": ({"feature_names": ["a"]}, ["feature_names", "1 entries", "3"]),
    "names doubled": ({"feature_names": ["a", "b", "b"]}, ["'b'", "more than once"]),
    "names not text": ({"feature_names": [1, 2, 3]}, ["strings", "int", "str(name)"]),
    "names with brackets": ({"feature_names": ["a", "b", "c<1"]}, ["'c<1'"]),
    "types too few": ({"feature_types": ["float"]}, ["feature_types", "1 entries"]),
    "types unknown": (
        {"feature_types": ["float", "num", "i"]},
        ["'num'", "column 1", "'float'"],
    ),
    "missing text": ({"missing": "NA"}, ["missing", "'NA'"]),
    "missing a list": ({"missing": [1]}, ["missing", "[1]"]),
    "missing complex": ({"missing": 1j}, ["missing", "1j"]),
    "group sizes": (
        {"group": [1, 2]},
        ["sizes in group add up to 3", "there are 4 rows"],
    ),
    "group negative": ({"group": [5, -1]}, ["group is -1 at position 1"]),
    "group of text": ({"group": ["a"]}, ["group must be numbers"]),
    "group of halves": ({"group": [2.0, 1.5, 0.5]}, ["group is 1.5 at position 1"]),
    "group of two columns": ({"group": np.ones((2, 2), int)}, ["group", "(2, 2)"]),
    "qid unsorted": (
        {"qid": [1, 1, 0, 2]},
        ["qid is not sorted", "falls from 1 to 0 in row 2", "sort the rows"],
    ),
    "qid too short": ({"qid": [1, 1]}, ["qid has 2 values for 4 rows"]),
    "qid of text": (
        {"qid": pd.Series(["a", "a", "b", "b"])},
        ["qid must be numbers", "number the groups"],
    ),
    "qid with nulls": (
        {"qid": pl.Series([1, 1, None, 2])},
        ["qid is missing at position 2"],
    ),
    "qid with nan": ({"qid": [1, 1, NAN, 2]}, ["qid is nan at position 2"]),
    "group and qid": ({"group": [4], "qid": [0] * 4}, ["group and qid", "one of them"]),
    "weights for groups, too few": (
        {"group": [2, 2], "weight": [1, 1, 1]},
        ["weight has 3 values", "4 rows", "2 groups"],
    ),
    "weights for groups that are not there": (
        {"weight": [1, 1]},
        ["weight has 2 values", "group or qid"],
    ),
    "weights for groups negative": (
        {"group": [2, 2], "weight": [1, -1]},
        ["weight is -1.0 in group 1"],
    ),
    "lower too short": ({"label_lower_bound": [0]}, ["label_lower_bound", "1 values"]),
    "lower infinite": (
        {"label_lower_bound": [0, INF, 0, 0]},
        ["label_lower_bound is inf in row 1"],
    ),
    "upper nan": (
        {"label_upper_bound": [0, INF, NAN, 0]},
        ["label_upper_bound is nan in row 2"],
    ),
    "bounds crossed": (
        {"label_lower_bound": [1, 2, 3, 4], "label_upper_bound": [1, 2, 2, INF]},
        ["label_lower_bound is 3.0 in row 2", "label_upper_bound 2.0"],
    ),
    "feature weights too few": (
        {"feature_weights": [1, 1]},
        ["feature_weights has 2 values for 3 columns"],
    ),
    "feature weights negative": (
        {"feature_weights": [1, -1, 1]},
        ["feature_weights is -1.0 in column 1"],
    ),
    "feature weights nan": (
        {"feature_weights": [1, NAN, 1]},
        ["feature_weights is nan in column 1"],
    ),
    "feature weights zero": (
        {"feature_weights": [0, 0, 0]},
        ["every feature_weights is zero", "drawn"],
    ),
    "sketch": ({"sketch": "rough"}, ["sketch", "'exact'", "'rough'"]),
    "split by columns": ({"data_split_mode": 1}, ["data_split_mode"]),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_bad_arguments(case):
    arguments, needed = ARGUMENTS[case]
    with pytest.raises(DataError) as error:
        DMatrix(X, **arguments)
    for words in needed:
        assert words in str(error.value)


INFINITE = {
    "numpy": np.array,
    "fortran": np.asfortranarray,
    "list": np.ndarray.tolist,
    "pandas": lambda x: pd.DataFrame(x, columns=["a", "b"]),
    "polars": lambda x: pl.DataFrame(x, schema=["a", "b"]),
    "arrow": lambda x: pa.table({"a": x[:, 0], "b": x[:, 1]}),
    "csr": sp.csr_array,
    "csc": sp.csc_array,
}


@pytest.mark.parametrize("value", [INF, -INF])
@pytest.mark.parametrize("container", INFINITE)
def test_infinite_features_raise_with_their_place(container, value):
    array = np.array([[1.0, NAN], [2.0, 3.0], [4.0, value], [5.0, value]])
    table = as_table(INFINITE[container](array))
    table.columns(0, 1)
    with pytest.raises(DataError, match=f"{table.label(1)} holds {value} in row 2"):
        table.columns(0, 2)
    # Trees can predict rows with infinite values.
    assert table.rows(0, 4)[3, 1] == value


def test_infinite_values_far_down():
    column = np.zeros(200_000, np.float32)
    column[5] = NAN
    check_finite(column, "column 'speed'")
    column[[150_000, 160_000]] = INF
    with pytest.raises(DataError, match="column 'speed' holds inf in row 150000"):
        check_finite(column, "column 'speed'")


def test_missing_inf_makes_infinite_values_missing():
    table = as_table(np.array([[1.0, INF], [INF, 2.0]]), missing=INF)
    assert np.isnan(table.columns(0, 2)).sum() == 2
    with pytest.raises(DataError, match="column 0 holds -inf in row 1"):
        as_table([[1.0], [-INF]], missing=INF).columns(0, 1)
