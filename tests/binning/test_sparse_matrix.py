"""Bins of sparse tables equal those of the same dense tables."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from hornbeam import DMatrix, QuantileDMatrix
from hornbeam.binning.bin_table import bin_table, bin_with_cuts
from hornbeam.binning.dense import DenseMatrix
from hornbeam.binning.sparse import SparseMatrix
from hornbeam.data.containers.dispatch import as_table
from hornbeam.errors import DataError


def cells(rows=400, columns=30, share=0.05, seed=0, dtype=np.float64):
    """Return a table with few stored values, dense and sparse."""
    rng = np.random.default_rng(seed)
    dense = np.round(rng.normal(size=(rows, columns)), 2).astype(dtype)
    dense[rng.random(dense.shape) > share] = np.nan
    dense[:, 3] = np.nan  # a column of nothing
    here = ~np.isnan(dense)
    return dense, sp.csr_array((dense[here], here.nonzero()), shape=dense.shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("max_bin", [2, 5, 256, 1000])
def test_sparse_bins_equal_dense_bins(max_bin, weighted, dtype):
    dense, sparse = cells(dtype=dtype)
    weights = np.random.default_rng(1).integers(0, 3, 400) / 2 if weighted else None
    expected = bin_table(as_table(dense), max_bin, weights)
    for matrix in (sparse, sparse.tocsc(), sparse.tocoo()):
        found = bin_table(as_table(matrix), max_bin, weights)
        assert isinstance(found, SparseMatrix) and isinstance(expected, DenseMatrix)
        for name in ("pointers", "values", "minimums"):
            np.testing.assert_array_equal(
                getattr(found.cuts, name), getattr(expected.cuts, name)
            )
        np.testing.assert_array_equal(found.has_missing, expected.has_missing)
        assert found.is_float32 == expected.is_float32
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.decode(3, 90), expected.decode(3, 90))
        some = np.array([20, 3, 7])
        np.testing.assert_array_equal(
            found.decode(0, 400, some), expected.decode(0, 400, some)
        )
        np.testing.assert_array_equal(
            found.decode_column(5, dtype), expected.decode_column(5, dtype)
        )
        rows = np.array([7, 2, 2, 399])
        np.testing.assert_array_equal(
            found.take(rows).decode(0, 4), expected.take(rows).decode(0, 4)
        )


def test_sparse_bins_with_the_cuts_of_another_table():
    dense, _ = cells()
    other, other_sparse = cells(seed=1)
    cuts = bin_table(as_table(dense), 16).cuts
    found = bin_with_cuts(as_table(other_sparse), cuts)
    expected = bin_with_cuts(as_table(other), cuts)
    assert isinstance(found, SparseMatrix)
    np.testing.assert_array_equal(found.decode(0, 400), expected.decode(0, 400))


def test_a_sparse_quantile_dmatrix():
    dense, sparse = cells()
    found, expected = QuantileDMatrix(sparse), QuantileDMatrix(dense)
    assert isinstance(found.binned(256), SparseMatrix)
    np.testing.assert_array_equal(found.rows(0, 400), expected.rows(0, 400))
    for ours, theirs in zip(
        found.get_quantile_cut(), expected.get_quantile_cut(), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert found.num_nonmissing() == expected.num_nonmissing()
    assert (found.get_data() != expected.get_data()).nnz == 0


def test_stored_missing_values_are_left_out():
    _, stored = cells()
    stored.data[::7] = np.nan
    stored.data[::5] = -1
    values = np.where(stored.data == -1, np.nan, stored.data)
    dense = np.full(stored.shape, np.nan)
    for row in range(400):
        own = slice(stored.indptr[row], stored.indptr[row + 1])
        dense[row, stored.indices[own]] = values[own]
    binned = bin_table(as_table(stored, missing=-1), 256)
    assert isinstance(binned, SparseMatrix)
    assert binned.rows.size == np.count_nonzero(dense == dense)
    expected = bin_table(as_table(dense), 256)
    np.testing.assert_array_equal(binned.decode(0, 400), expected.decode(0, 400))


def test_an_infinite_value_raises_with_its_place():
    _, sparse = cells()
    sparse.data[50] = np.inf
    row = int(np.searchsorted(sparse.indptr, 50, side="right")) - 1
    with pytest.raises(DataError, match=rf"column {sparse.indices[50]} .*row {row}\b"):
        bin_table(as_table(sparse), 16)
    names = [f"n{f}" for f in range(30)]
    with pytest.raises(DataError, match=f"n{sparse.indices[50]}"):
        bin_table(as_table(sparse, names=names), 16)


def test_sparse_tables_with_category_codes_become_dense():
    _, sparse = cells()
    sparse.data[:] = np.arange(sparse.nnz) % 5
    types = ["c"] + ["float"] * 29
    binned = bin_table(DMatrix(sparse, feature_types=types).table, 16)
    assert isinstance(binned, DenseMatrix)
    assert binned.is_categorical.tolist() == [True] + [False] * 29


@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_sketches_equal_dense_sketches(weighted):
    dense, sparse = cells()
    weights = np.random.default_rng(1).random(400) if weighted else None
    found = bin_table(as_table(sparse), 5, weights, sketch="approximate")
    expected = bin_table(as_table(dense), 5, weights, sketch="approximate")
    assert isinstance(found, SparseMatrix)
    np.testing.assert_array_equal(found.decode(0, 400), expected.decode(0, 400))


def test_indicators_have_the_cuts_of_their_value():
    dense = np.full((50, 12), np.nan)
    for f, value in enumerate([1.0, 1.0, 2.0, -3.0, 0.0, -0.0, 1.0, 2.0]):
        dense[f : f + 4, f] = value
    dense[:, 8] = 1.0  # without a missing cell
    here = ~np.isnan(dense)
    sparse = sp.csr_array((dense[here], here.nonzero()), shape=dense.shape)
    found, expected = (bin_table(as_table(data), 16) for data in (sparse, dense))
    np.testing.assert_array_equal(found.cuts.values, expected.cuts.values)
    np.testing.assert_array_equal(found.cuts.minimums, expected.cuts.minimums)
    np.testing.assert_array_equal(found.decode(0, 50), expected.decode(0, 50))


def test_categories_in_a_sparse_matrix_too_large_to_be_dense():
    sparse = sp.csr_array((np.ones(1), ([0], [0])), shape=(2**20, 5000))
    table = as_table(sparse, types=["c"] * 5000)
    with pytest.raises(DataError, match=r"type 'c'.*1048576 x 5000.*frame"):
        bin_table(table, 16)
