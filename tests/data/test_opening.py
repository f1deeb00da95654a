"""Labels and other fields by column name, and fields that sources provide."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hornbeam
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.quantile_dmatrix import QuantileDMatrix
from hornbeam.errors import DataError

INF = float("inf")
COLUMNS = {
    "a": [1.0, 2.0, 3.0, 4.0],
    "y": [0.0, 1.0, 1.0, 0.0],
    "w": [1, 2, 3, 4],
    "b": [4.0, 3.0, 2.0, 1.0],
    "query": [7, 7, 9, 9],
    "margin": [0.5, 0.25, 0.125, 0.0],
    "low": [0.0, 1.0, 2.0, 3.0],
    "high": [1.0, 2.0, INF, 3.0],
}
NAMED = {
    "label": "y",
    "weight": "w",
    "qid": "query",
    "base_margin": "margin",
    "label_lower_bound": "low",
    "label_upper_bound": "high",
}


class Stream:
    """An object with only the Arrow stream interface."""

    def __init__(self, table):
        self.__arrow_c_stream__ = table.__arrow_c_stream__


FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "batches": lambda c: [pd.DataFrame(c)[:1], pd.DataFrame(c)[1:]],
    "lazy": pl.LazyFrame,
    "relation": lambda c: duckdb.from_arrow(pa.table(c)),
    "stream": lambda c: Stream(pa.table(c)),
}


@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
@pytest.mark.parametrize("container", FRAMES)
def test_columns_by_name(container, kind):
    matrix = kind(FRAMES[container](COLUMNS), **NAMED)
    assert matrix.feature_names == ["a", "b"] and matrix.num_col() == 2
    for field, name in NAMED.items():
        if field != "qid":
            assert matrix.get_float_info(field).tolist() == COLUMNS[name]
    assert matrix.get_group().tolist() == [2, 2]


@pytest.mark.parametrize("container", FRAMES)
def test_names_types_and_missing_apply_to_features_only(container):
    frame = FRAMES[container]({name: COLUMNS[name] for name in "ayb"})
    matrix = DMatrix(
        frame, "y", missing=1.0, feature_names=["p", "q"], feature_types=["q", "c"]
    )
    assert matrix.feature_names == ["p", "q"] and matrix.feature_types == ["q", "c"]
    # 1 stands for missing in features, but is a valid label.
    assert matrix.get_label().tolist() == COLUMNS["y"]
    assert matrix.num_nonmissing() == 6


def test_a_column_can_be_several_fields():
    matrix = DMatrix(pd.DataFrame(COLUMNS)[["a", "w"]], "w", weight="w")
    assert matrix.get_label().tolist() == matrix.get_weight().tolist() == [1, 2, 3, 4]


FRAME = pd.DataFrame(COLUMNS)
BAD = {
    "no such column": (lambda: DMatrix(FRAME, "Y"), ["'Y'", "label", "'y'"]),
    "a column misspelt": (
        lambda: DMatrix(FRAME, "y", weight="mragin"),
        ["'mragin' for weight", "did you mean 'margin'?"],
    ),
    "no names": (lambda: DMatrix(np.ones((4, 2)), "y"), ["label='y'", "no columns"]),
    "text as labels": (
        lambda: DMatrix(pd.DataFrame({"a": [1, 2], "y": ["x", "z"]}), "y"),
        ["label must be numbers", "HornbeamClassifier"],
    ),
    "categories as labels": (
        lambda: DMatrix(
            pd.DataFrame({"a": [1, 2], "y": pd.Categorical(["x", "z"])}), "y"
        ),
        ["label must be numbers", "HornbeamClassifier"],
    ),
    "text as weights": (
        lambda: DMatrix(pl.DataFrame({"a": [1, 2], "w": ["x", "z"]}), weight="w"),
        ["weight must be numbers"],
    ),
    "nulls in labels": (
        lambda: DMatrix(pl.DataFrame({"a": [1, 2], "y": [None, 1]}), "y"),
        ["label is nan in row 0"],
    ),
    "only the label": (lambda: DMatrix(FRAME[["y"]], "y"), ["no columns"]),
    "types of too many": (
        lambda: DMatrix(FRAME[["a", "y"]], "y", feature_types=["q", "q"]),
        ["feature_types", "2 entries for 1"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_columns(case):
    make, needed = BAD[case]
    with pytest.raises(DataError) as error:
        make()
    for words in needed:
        assert words in str(error.value)


def test_given_fields_replace_those_of_the_source():
    X, y = np.arange(12.0).reshape(6, 2), np.arange(6.0)
    batches = [(X[:4], y[:4], np.ones(4)), (X[4:], y[4:], 2 * np.ones(2))]
    matrix = DMatrix(batches)
    assert matrix.get_label().tolist() == y.tolist()
    assert matrix.get_weight().tolist() == [1, 1, 1, 1, 2, 2]
    other = DMatrix(batches, -y)
    assert other.get_label().tolist() == (-y).tolist()
    assert other.get_weight().tolist() == [1, 1, 1, 1, 2, 2]
    whole = DMatrix(X, y, weight=matrix.get_weight())
    digests = {hornbeam.train({}, data, 2).digest() for data in (matrix, whole)}
    assert len(digests) == 1
