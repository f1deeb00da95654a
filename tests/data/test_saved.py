"""Saved matrices are loaded exactly; damaged files raise."""

from __future__ import annotations

import os
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from samples import few_values

import hornbeam
from hornbeam.data import saved
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.quantile_dmatrix import QuantileDMatrix
from hornbeam.errors import DataError, MissingExtraError

NAN = float("nan")
ROWS, LABELS = few_values(120, 4)
FRAME = pd.DataFrame(
    {
        "a": np.where(ROWS[:, 0] > 0, ROWS[:, 0], NAN),
        "b": ROWS[:, 1] > 0,
        "kind": pd.Categorical(
            np.array(["oak", "elm", "Esche \U0001f333"])[np.arange(120) % 3],
            categories=["elm", "oak", "fir", "Esche \U0001f333"],
        ),
        "size": pd.Categorical(np.arange(120) % 5 * 10),
    }
)
BESIDE = {
    "label": LABELS,
    "weight": [1, 2.5, 0.1],
    "group": [20, 60, 40],
    "base_margin": np.column_stack([LABELS, -LABELS]),
    "label_lower_bound": LABELS,
    "label_upper_bound": np.where(LABELS > 0, np.inf, LABELS),
    "feature_weights": [1, 0, 0.3, 4],
}


def saved_and_loaded(matrix, tmp_path, **arguments):
    path = tmp_path / "data.buffer"
    matrix.save_binary(path)
    return DMatrix(path, **arguments)


def sparse_rows():
    matrix = sp.random_array((120, 40), density=0.05, format="csr", rng=0)
    matrix.data[:3] = [0.0, NAN, -1.5]
    return matrix


MATRICES = {
    "float32": lambda: DMatrix(ROWS.astype(np.float32), **BESIDE),
    "float64": lambda: DMatrix(ROWS / 3, **BESIDE),
    "integers": lambda: DMatrix((100 * ROWS).astype(np.int8), LABELS),
    "categories": lambda: DMatrix(FRAME, **BESIDE),
    "raw codes": lambda: DMatrix(
        np.column_stack([np.arange(120) % 7, LABELS]),
        LABELS,
        feature_types=["c", "q"],
    ),
    "sparse": lambda: DMatrix(sparse_rows(), LABELS),
    "frame that is mostly missing": lambda: DMatrix(
        pd.DataFrame(sparse_rows().toarray()).replace(0.0, NAN), LABELS
    ),
    "batches": lambda: DMatrix([FRAME[:50], FRAME[50:]], LABELS),
    "no rows": lambda: DMatrix(np.empty((0, 3), np.float32)),
}


@pytest.mark.parametrize("case", MATRICES)
def test_loaded_matrices_equal_the_saved_ones(case, tmp_path):
    matrix = MATRICES[case]()
    loaded = saved_and_loaded(matrix, tmp_path)
    assert loaded.schema == matrix.schema
    assert loaded.dtype in (matrix.dtype, np.float32)
    np.testing.assert_array_equal(
        loaded.rows(0, matrix.n_rows), matrix.rows(0, matrix.n_rows)
    )
    assert loaded.info.fields().keys() == matrix.info.fields().keys()
    for name, values in matrix.info.fields().items():
        np.testing.assert_array_equal(loaded.info.fields()[name], values)
    assert loaded.info.row_weights is None or loaded.row_weights.size == 120


@pytest.mark.parametrize("case", [case for case in MATRICES if case != "no rows"])
def test_loaded_matrices_give_the_same_model(case, tmp_path):
    matrix = MATRICES[case]()
    matrix.set_info(base_margin=np.zeros(120))
    loaded = saved_and_loaded(matrix, tmp_path)
    first, second = (
        hornbeam.train({"subsample": 0.9}, data, 3) for data in (matrix, loaded)
    )
    assert first.digest() == second.digest()


def test_sparse_matrices_make_small_files(tmp_path):
    path = tmp_path / "data.buffer"
    DMatrix(sp.random_array((3000, 100), density=0.01, rng=0)).save_binary(path)
    assert path.stat().st_size < 3000 * 100 * 8 / 10


def test_arguments_replace_saved_values(tmp_path):
    matrix = MATRICES["float32"]()
    loaded = saved_and_loaded(
        matrix,
        tmp_path,
        label=-LABELS,
        qid=np.repeat([0, 1, 2], 40),
        missing=float(np.float32(ROWS[0, 0])),
        feature_names=list("wxyz"),
        feature_types=["q"] * 4,
    )
    np.testing.assert_array_equal(loaded.get_label(), -LABELS)
    assert loaded.get_group().tolist() == [40, 40, 40]
    assert loaded.get_weight().tolist() == [1, 2.5, 0.1]
    assert np.isnan(loaded.rows(0, 1)[0, 0])
    assert loaded.feature_names == list("wxyz") and loaded.feature_types == ["q"] * 4
    with pytest.raises(DataError, match="label='y' is the name of a column"):
        DMatrix(tmp_path / "data.buffer", "y")


def test_a_loaded_matrix_does_not_depend_on_the_file(tmp_path):
    loaded = saved_and_loaded(MATRICES["float64"](), tmp_path)
    before = loaded.rows(0, 120).copy()
    (tmp_path / "data.buffer").write_bytes(b"")
    np.testing.assert_array_equal(loaded.rows(0, 120), before)
    loaded.save_binary(tmp_path / "data.buffer")  # over what it came from
    again = DMatrix(str(tmp_path / "data.buffer"))
    np.testing.assert_array_equal(again.rows(0, 120), before)


SMALL = pd.DataFrame({"a": [1.5, 2.5], "b": pd.Categorical(["x", "y"])})


def test_a_truncated_file_raises(tmp_path):
    path = tmp_path / "data.buffer"
    DMatrix(SMALL, [0, 1]).save_binary(path)
    whole = path.read_bytes()
    for length in range(len(saved.KIND), len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"data\.buffer is not a sound DMatrix"):
            DMatrix(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(DataError, match="checksum"):
        DMatrix(path)


def test_a_corrupted_file_raises(tmp_path):
    path = tmp_path / "data.buffer"
    DMatrix(SMALL, [0, 1]).save_binary(path)
    whole = path.read_bytes()
    for place in range(len(saved.KIND), len(whole)):
        for flip in (1, 0x80):
            damaged = bytearray(whole)
            damaged[place] ^= flip
            path.write_bytes(damaged)
            with pytest.raises(DataError, match=r"not a sound DMatrix|has version"):
                DMatrix(path)


def test_another_version_raises_with_its_number(tmp_path):
    path = tmp_path / "data.buffer"
    DMatrix(SMALL).save_binary(path)
    path.write_bytes(path.read_bytes().replace(b"\r\n01", b"\r\n02", 1))
    with pytest.raises(DataError, match=r"version 02 .* reads 01"):
        DMatrix(path)


def test_a_pickle_is_not_loaded(tmp_path):
    path = tmp_path / "data.buffer"
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(DataError):
        DMatrix(path)


def test_a_failed_save_keeps_the_old_file(tmp_path):
    path = tmp_path / "data.buffer"
    DMatrix(SMALL).save_binary(path)
    before = path.read_bytes()
    wrong = DMatrix(np.array([[0.5], [1.0]]), feature_types=["c"])
    with pytest.raises(DataError, match=r"holds 0\.5"):
        wrong.save_binary(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["data.buffer"]
    with pytest.raises(FileNotFoundError, match="no folder"):
        DMatrix(SMALL).save_binary(tmp_path / "none" / "data.buffer")


def test_a_quantile_dmatrix_is_not_saved():
    with pytest.raises(DataError, match="save a DMatrix"):
        QuantileDMatrix(ROWS).save_binary("data.buffer")


def test_a_sparse_file_needs_scipy(tmp_path, monkeypatch):
    MATRICES["sparse"]().save_binary(tmp_path / "data.buffer")
    monkeypatch.setitem(__import__("sys").modules, "scipy.sparse", None)
    with pytest.raises(MissingExtraError, match="scipy"):
        DMatrix(tmp_path / "data.buffer")


def test_loading_aligning_and_saving_make_no_large_copies(tmp_path):
    rows = np.ones((1_000_000, 12), np.float32)  # 48 MB
    expected = DMatrix(np.zeros((1, 12)), feature_names=list("abcdefghijkl")).schema
    path = tmp_path / "data.buffer"
    tracemalloc.start()
    try:
        matrix = DMatrix(rows, feature_names=list("lkjihgfedcba"))
        assert matrix.like(expected) is not matrix
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        matrix.save_binary(path)
        assert tracemalloc.get_traced_memory()[1] < rows.nbytes / 4
        tracemalloc.reset_peak()
        loaded = DMatrix(path)
        assert tracemalloc.get_traced_memory()[1] < 1.1 * rows.nbytes
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(loaded.rows(999_990, 1_000_000), rows[-10:])
