"""QuantileDMatrix keeps cuts and bins instead of features."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xgboost

from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.quantile_dmatrix import QuantileDMatrix
from hornbeam.errors import DataError, HornbeamError

NAN = float("nan")


def few_values(n_rows=300, dtype=np.float32, seed=0):
    """Columns of 1, 2, 16 and 40 distinct values, one with missing, one all missing."""
    rng = np.random.default_rng(seed)
    levels = rng.normal(scale=100, size=40)
    data = np.column_stack(
        [
            np.full(n_rows, 3.25),
            rng.integers(0, 2, n_rows),
            levels[rng.integers(0, 16, n_rows)],
            levels[rng.integers(0, 40, n_rows)],
            np.full(n_rows, NAN),
        ]
    ).astype(dtype)
    data[rng.random(n_rows) < 0.3, 2] = NAN
    return data


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("max_bin", [40, 64, 256])
def test_cuts_of_few_values_equal_xgboost(max_bin, weighted):
    data = few_values()
    weight = np.random.default_rng(1).random(300) if weighted else None
    ours = QuantileDMatrix(data, weight=weight, max_bin=max_bin, nthread=1)
    theirs = xgboost.QuantileDMatrix(data, weight=weight, max_bin=max_bin)
    (pointers, values), (their_pointers, their_values) = (
        matrix.get_quantile_cut() for matrix in (ours, theirs)
    )
    assert pointers.dtype == their_pointers.dtype == np.uint64
    assert values.dtype == their_values.dtype == np.float32
    np.testing.assert_array_equal(pointers[:-1], their_pointers[:-1])
    for feature in range(4):
        own, other = (
            column[int(start) : int(stop)]
            for column in (values, their_values)
            for start, stop in [pointers[feature : feature + 2]]
        )
        np.testing.assert_array_equal(own[1:-1], other[1:-1])
        # The ends lie beyond the data and need not be bitwise equal.
        np.testing.assert_array_equal(own, other)
        assert own[0] < np.nanmin(data[:, feature])
        assert own[-1] > np.nanmax(data[:, feature])


def test_cuts_of_categories_are_their_codes():
    frame = pd.DataFrame(
        {
            "tree": pd.Categorical(["elm", "oak", "elm", None, "yew"]),
            "size": [1.0, 2.0, 3.0, 4.0, 5.0],
            "kind": pd.Categorical(["a", "a", "b", "b", "c"]),
        }
    )
    ours, theirs = (
        kind(frame, enable_categorical=True, max_bin=8).get_quantile_cut()
        for kind in (QuantileDMatrix, xgboost.QuantileDMatrix)
    )
    for own, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(own, other)


def test_a_dmatrix_has_the_cuts_of_its_first_binning():
    data = few_values()
    matrix = DMatrix(data, nthread=1)
    first = matrix.binned(64)
    assert matrix.binned(64) is first
    other = matrix.binned(8)
    assert other is not first and matrix.binned(64) is first
    for ours, quantised in zip(
        matrix.get_quantile_cut(),
        QuantileDMatrix(data, max_bin=64).get_quantile_cut(),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, quantised)


def test_cuts_change_with_weights():
    data = np.random.default_rng(0).normal(size=(500, 1))
    matrix = DMatrix(data)
    plain = matrix.binned(8).cuts.values
    weight = np.where(data[:, 0] > 0, 9.0, 1.0)
    matrix.set_weight(weight)
    weighted = matrix.binned(8).cuts.values
    assert not np.array_equal(plain, weighted)
    same = DMatrix(data, weight=weight).binned(8).cuts.values
    np.testing.assert_array_equal(weighted, same)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_rows_are_decoded_from_their_bins(dtype):
    data = np.random.default_rng(0).integers(-500, 500, size=(700, 3)).astype(dtype)
    matrix = QuantileDMatrix(data, max_bin=16)
    assert matrix.num_row() == 700 and matrix.num_col() == 3
    codes = matrix.binned(16)
    rows = np.vstack([matrix.rows(0, 300), matrix.rows(300, 700)])
    assert rows.dtype == matrix.dtype
    for feature in range(3):
        cuts = codes.cuts.of(feature)
        np.testing.assert_array_equal(
            np.searchsorted(cuts, rows[:, feature], side="right"),
            np.searchsorted(cuts, data[:, feature], side="right"),
        )


def test_missing_values_stay_missing():
    data = few_values()
    matrix = QuantileDMatrix(data, missing=3.25)
    expected = np.isnan(data) | (data == 3.25)
    np.testing.assert_array_equal(np.isnan(matrix.rows(0, 300)), expected)
    assert matrix.num_nonmissing() == np.count_nonzero(~expected)
    stored = matrix.get_data()
    assert isinstance(stored, sp.csr_matrix) and stored.nnz == matrix.num_nonmissing()


@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
def test_ref_provides_the_cuts(kind):
    rng = np.random.default_rng(0)
    train, valid = rng.normal(size=(800, 2)), rng.normal(scale=3, size=(200, 2))
    max_bin = {"max_bin": 32} if kind is QuantileDMatrix else {}
    ref = kind(train, **max_bin)
    matrix = QuantileDMatrix(valid, ref=ref)
    assert matrix.max_bin == (32 if max_bin else 256)
    for own, other in zip(
        matrix.get_quantile_cut(), ref.get_quantile_cut(), strict=True
    ):
        np.testing.assert_array_equal(own, other)
    cuts = matrix.binned(matrix.max_bin).cuts
    for feature in range(2):
        inner = cuts.of(feature)[
            :-1
        ]  # what lies beyond the last cut is in the last bin
        np.testing.assert_array_equal(
            np.searchsorted(inner, matrix.rows(0, 200)[:, feature], side="right"),
            np.searchsorted(inner, valid[:, feature], side="right"),
        )
    empty = QuantileDMatrix(valid[:0], ref=ref)
    assert empty.num_row() == 0 and empty.rows(0, 0).shape == (0, 2)


def test_a_ref_of_float64_under_float32_data():
    ref = QuantileDMatrix(np.array([[0.1], [0.2], [0.3]]))
    values = np.float32([[0.1], [0.2], [0.3], [NAN]])
    cuts = ref.binned(256).cuts.of(0)
    matrix = QuantileDMatrix(values, ref=ref)
    np.testing.assert_array_equal(
        np.searchsorted(cuts, matrix.rows(0, 3)[:, 0], side="right"),
        np.searchsorted(cuts, values[:3, 0].astype(np.float64), side="right"),
    )


def test_labels_weights_and_names():
    frame = pd.DataFrame(few_values(4), columns=list("abcde"))
    matrix = QuantileDMatrix(frame, [0, 1, 1, 0], weight=[1, 2, 3, 4])
    assert matrix.feature_names == list("abcde")
    assert matrix.get_label().tolist() == [0, 1, 1, 0]
    cuts = matrix.get_quantile_cut()[1]
    matrix.set_weight([4, 3, 2, 1])  # too late for the cuts, as the features are gone
    np.testing.assert_array_equal(matrix.get_quantile_cut()[1], cuts)
    assert matrix.get_weight().tolist() == [4, 3, 2, 1]
    matrix.feature_names = list("vwxyz")
    assert matrix.schema.names == list("vwxyz")


def test_bins_do_not_depend_on_the_number_of_threads():
    data = np.random.default_rng(0).normal(size=(2000, 20)).astype(np.float32)
    one = QuantileDMatrix(data, nthread=1)
    for nthread in (0, 2, 3, 7, -1):
        other = QuantileDMatrix(data, nthread=nthread)
        np.testing.assert_array_equal(one.rows(0, 2000), other.rows(0, 2000))
        for own, same in zip(
            one.get_quantile_cut(), other.get_quantile_cut(), strict=True
        ):
            np.testing.assert_array_equal(own, same)


DATA = np.arange(12.0).reshape(4, 3)
NAMED = pd.DataFrame(DATA, columns=list("abc"))


@pytest.mark.parametrize(
    ("make", "needed"),
    [
        (lambda: QuantileDMatrix(DATA[:0]), "no rows"),
        (lambda: DMatrix(DATA[:0]).binned(16), "no rows"),
        (lambda: QuantileDMatrix(DATA, max_bin=1), "max_bin"),
        (lambda: QuantileDMatrix(DATA, max_bin=2**17), "max_bin"),
        (lambda: QuantileDMatrix(DATA, nthread="two"), "nthread"),
        (lambda: QuantileDMatrix(DATA, max_bin=8).binned(16), "max_bin=8.*max_bin=16"),
        (
            lambda: QuantileDMatrix(DATA, max_bin=8, ref=QuantileDMatrix(DATA)),
            "max_bin=256.*max_bin=8",
        ),
        (lambda: QuantileDMatrix(DATA, ref=DATA), "ref must be.*ndarray"),
        (lambda: QuantileDMatrix(DATA[:, :2], ref=DMatrix(DATA)), "3 columns"),
        (
            lambda: QuantileDMatrix(
                NAMED.rename(columns=str.upper), ref=DMatrix(NAMED)
            ),
            "missing: 'a', 'b', 'c'",
        ),
        (lambda: QuantileDMatrix(DATA, max_quantile_batches=0), "max_quantile_batches"),
        (lambda: QuantileDMatrix(DATA).slice([0]), "slice a DMatrix"),
        (lambda: QuantileDMatrix([[1.0], [np.inf]]), "column 0 holds inf in row 1"),
        (lambda: QuantileDMatrix(DATA, [1, 2, 3, NAN]), "label is nan in row 3"),
    ],
)
def test_bad_input(make, needed):
    with pytest.raises(HornbeamError, match=needed):
        make()


def test_it_cannot_be_pickled():
    with pytest.raises(ValueError, match="QuantileDMatrix cannot be pickled"):
        QuantileDMatrix(DATA).__reduce__()


def test_ref_without_names_needs_the_same_number_of_columns():
    assert QuantileDMatrix(DATA, ref=DMatrix(NAMED)).num_col() == 3
    with pytest.raises(DataError, match="has 2"):
        QuantileDMatrix(DATA[:, :2], ref=DMatrix(NAMED))
