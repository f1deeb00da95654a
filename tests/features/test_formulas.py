"""Formulas as texts, and their values."""

from __future__ import annotations

import numpy as np
import pytest
from derived_data import FORMULAS, frame, matrix

from hornbeam.data.schema import Schema
from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.features.derived import as_column
from hornbeam.features.formulas import Arithmetic, parse
from hornbeam.features.matrix import derive

NAMES = ["a", "a - b", "b", "b - c", "c", "mean(a | k)", "k", "l, m", "m"]
SCHEMA = Schema(9, NAMES, ["q"] * 6 + ["c"] * 3)


@pytest.mark.parametrize(
    "text",
    [
        *("a - b", "a * b", "a - b / b - c", "a - mean(a | k)", "mean(label | k)"),
        *("mean(label = 3 | k)", "mean(label | k, l, m)", "b - mean(b | m, k)"),
    ],
)
def test_a_formula_is_written_as_it_is_read(text):
    assert parse(text, SCHEMA).text(NAMES) == text


def test_columns_without_names_are_numbered():
    assert parse("f0 / f2", Schema(3)) == Arithmetic("/", 0, 2)


@pytest.mark.parametrize(
    "text",
    [
        *("a", "a - q", "a + b", "a - k", "mean(label | a)", "mean(label | k, k)"),
        *("mean(a | k)", "a - mean(b | k)", "mean(label = x | k)", 3, None, ""),
    ],
)
def test_what_is_no_formula_is_one_error(text):
    with pytest.raises(ParameterError, match="'a - b'") as error:
        parse(text, SCHEMA)
    assert error.value.code is ErrorCode.INVALID_FEATURE_FORMULA


def test_values_are_those_of_pandas():
    X, labels = frame(400)
    data = derive(matrix(400), FORMULAS)
    groups = X.fillna({"a": np.nan}).groupby("c", observed=False, dropna=False)
    means = groups["a"].transform("mean")
    missing = X["c"].isna()
    means[missing] = X["a"][missing].mean()
    expected = [X.a * X.b, X.a / X.b, X.a - X.b, X.a - means]
    columns = [data.table.column(3 + place) for place in range(4)]
    for column, values in zip(columns, expected, strict=True):
        np.testing.assert_allclose(column, values, rtol=1e-6, atol=1e-6)
    mean = data.derived.formulas[4].means
    by_level = np.array([labels[X["c"] == f"level {k:02}"].sum() for k in range(12)])
    counts = np.array([(X["c"] == f"level {k:02}").sum() for k in range(12)])
    prior = labels.mean()
    np.testing.assert_allclose(mean.values[:12], (by_level + prior) / (counts + 1))
    of_missing = (labels[missing].sum() + prior) / (missing.sum() + 1)
    np.testing.assert_allclose(mean.values[12:], [of_missing, prior])


def test_what_is_not_finite_is_missing():
    values = as_column(np.array([1.0, np.inf, -np.inf, np.nan, 1e39, 0.0]))
    assert np.isnan(values[1:5]).all()
    assert values.dtype == np.float32
    assert values[[0, 5]].tolist() == [1.0, 0.0]
