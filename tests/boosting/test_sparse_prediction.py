"""Predictions of sparse rows equal those of the same rows as dense arrays."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csr_matrix

import hornbeam
from hornbeam.boosting import margins
from hornbeam.errors import DataError, ErrorCode

ROWS = 2000


def sparse_rows(rng, rows, columns, share, dtype=np.float32):
    """Return a CSR matrix with stored zeros and stored missing values."""
    stored = rng.random((rows, columns)) < share
    values = rng.normal(size=int(stored.sum())).astype(dtype)
    values[::7], values[::11] = 0, np.nan
    row, column = np.nonzero(stored)
    return csr_matrix((values, (row, column)), shape=(rows, columns))


def as_dense(matrix):
    """Return the rows with missing values where nothing is stored."""
    entries = matrix.tocoo()
    dense = np.full(matrix.shape, np.nan, matrix.dtype)
    dense[entries.row, entries.col] = entries.data
    return dense


@pytest.fixture
def uses_entries(monkeypatch):
    """Return a list that grows with each prediction from stored entries."""
    calls = []
    original = margins._add_to_entries

    def counted(*arguments):
        calls.append(1)
        original(*arguments)

    monkeypatch.setattr(margins, "_add_to_entries", counted)
    return calls


def trained(matrix, rng, **parameters):
    """Return a model of many small trees."""
    labels = np.nan_to_num(as_dense(matrix)) @ rng.normal(size=matrix.shape[1])
    data = hornbeam.DMatrix(matrix, labels + (matrix != 0).sum(axis=1).A1)
    return hornbeam.train(
        {"max_depth": 2, "nthread": 1, **parameters}, data, 40, verbose_eval=False
    )


@pytest.mark.parametrize("columns", [20, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_and_dense_predictions_are_equal(columns, dtype, uses_entries):
    rng = np.random.default_rng(columns)
    matrix = sparse_rows(rng, ROWS, columns, 8 / columns, dtype)
    booster = trained(matrix, rng)
    exact = booster.inplace_predict(as_dense(matrix))
    assert not uses_entries
    for rows in (matrix, matrix.tocsc(), matrix.tocoo(), hornbeam.DMatrix(matrix)):
        is_matrix = isinstance(rows, hornbeam.DMatrix)
        uses_entries.clear()
        predict = booster.predict if is_matrix else booster.inplace_predict
        np.testing.assert_array_equal(predict(rows), exact)
        assert uses_entries
    for threads in (2, 3, 7):
        booster.set_param({"nthread": threads})
        np.testing.assert_array_equal(booster.inplace_predict(matrix), exact)


def test_classes_and_a_missing_value(uses_entries):
    rng = np.random.default_rng(0)
    matrix = sparse_rows(rng, ROWS, 30, 0.2)
    labels = rng.integers(0, 3, ROWS)
    data = hornbeam.DMatrix(matrix, labels)
    parameters = {"objective": "multi:softprob", "num_class": 3, "max_depth": 2}
    booster = hornbeam.train(parameters, data, 40, verbose_eval=False)
    dense = as_dense(matrix)
    found = booster.inplace_predict(matrix, missing=0.0)
    dense[dense == 0] = np.nan
    np.testing.assert_array_equal(found, booster.inplace_predict(dense))
    assert uses_entries


def test_duplicate_entries_are_summed(uses_entries):
    rng = np.random.default_rng(0)
    matrix = sparse_rows(rng, ROWS, 20, 0.4)
    booster = trained(matrix, rng)
    entries = matrix.tocoo()
    both = [entries.data / 2, entries.data / 2]
    places = np.tile(entries.row, 2), np.tile(entries.col, 2)
    doubled = coo_matrix((np.concatenate(both), places), shape=matrix.shape)
    found = booster.inplace_predict(csr_matrix(doubled))
    np.testing.assert_array_equal(found, booster.inplace_predict(matrix))
    assert uses_entries


def test_an_integer_that_floats_do_not_hold_is_named():
    rng = np.random.default_rng(0)
    matrix = sparse_rows(rng, ROWS, 20, 0.4)
    booster = trained(matrix, rng)
    row = 1234
    integers = np.arange(matrix.nnz)
    integers[matrix.indptr[row]] = 2**53 + 1
    column = int(matrix.indices[matrix.indptr[row]])
    whole = csr_matrix((integers, matrix.indices, matrix.indptr), shape=matrix.shape)
    with pytest.raises(DataError, match=rf"row {row} of .*\b{column}\b") as caught:
        booster.inplace_predict(whole)
    assert caught.value.code == ErrorCode.INTEGER_NOT_EXACT
