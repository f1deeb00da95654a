"""ExtMemQuantileDMatrix, and DMatrix with a cache."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import xgboost

import hornbeam
from hornbeam import (
    DataIter,
    DMatrix,
    ExtMemQuantileDMatrix,
    QuantileDMatrix,
    read,
    train,
)
from hornbeam.binning import external_build
from hornbeam.errors import DataError, HornbeamError, ParameterError

ROWS = 3000
PARAMS = {"max_depth": 4, "nthread": 2}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Reduce the size of blocks, so that few rows make many blocks."""
    monkeypatch.setattr(external_build, "BLOCK_ROWS", 512)


def made(rows=ROWS, seed=0):
    """Return a data frame with missing values and categories, labels and weights."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=rows).astype(np.float32),
            "b": np.where(rng.random(rows) < 0.2, np.nan, rng.normal(size=rows)),
            "c": rng.integers(0, 7, rows),
            "d": pd.Categorical(np.array(["x", "y", "z"])[rng.integers(0, 3, rows)]),
        }
    )
    label = frame["a"] * 2 + np.where(frame["d"] == "x", 1, frame["c"] % 3)
    return frame, (label + rng.normal(size=rows) / 9).to_numpy(), rng.random(rows)


X, Y, W = made()


class Loader(DataIter):
    """Batches of the data frame."""

    def __init__(self, rows=400, **options):
        self.rows, self.at = rows, 0
        super().__init__(**options)

    def reset(self):
        self.at = 0

    def next(self, input_data):
        part = slice(self.at, self.at + self.rows)
        if self.at >= ROWS:
            return False
        input_data(data=X[part], label=Y[part], weight=W[part])
        self.at += self.rows
        return True


def sources(folder):
    """Return sources of various kinds with the same rows."""
    table = pa.Table.from_pandas(X, preserve_index=False)
    table = table.append_column("y", pa.array(Y)).append_column("w", pa.array(W))
    (folder / "parquet").mkdir()
    for number, start in enumerate(range(0, ROWS, 1100)):
        pa.parquet.write_table(
            table.slice(start, 1100),
            folder / "parquet" / f"{number}.parquet",
            row_group_size=300,
        )
    connection = duckdb.connect()
    connection.register("frame", table)
    connection.sql("CREATE TABLE made AS SELECT * FROM frame")
    named = {"label": "y", "weight": "w"}
    return {
        "parquet": (str(folder / "parquet"), named),
        "duckdb": (read("SELECT * FROM made", connection=connection), named),
        "DataIter": (Loader(), {}),
        "list": (
            [(X[i : i + 7], Y[i : i + 7], W[i : i + 7]) for i in range(0, ROWS, 7)],
            {},
        ),
        "frame": (X, {"label": Y, "weight": W}),
    }


def files_of(folder):
    """Return the files of a folder and their modification times."""
    return {path: path.stat().st_mtime_ns for path in Path(folder).iterdir()}


def test_rows_equal_those_of_a_matrix_in_memory(tmp_path):
    memory = QuantileDMatrix(X, Y, weight=W)
    for name, (data, beside) in sources(tmp_path).items():
        paged = ExtMemQuantileDMatrix(data, **beside, cache=tmp_path / name)
        assert (paged.num_row(), paged.num_col()) == (ROWS, 4)
        assert paged.feature_names == list("abcd")
        assert paged.feature_types == memory.feature_types
        np.testing.assert_array_equal(paged.get_label(), Y)
        np.testing.assert_array_equal(paged.rows(0, ROWS), memory.rows(0, ROWS))
        for mine, theirs in zip(
            paged.get_quantile_cut(), memory.get_quantile_cut(), strict=True
        ):
            np.testing.assert_array_equal(mine, theirs)
        assert paged.num_nonmissing() == memory.num_nonmissing()
        assert (paged.get_data() != memory.get_data()).nnz == 0
        assert paged.get_categories() == memory.get_categories()


def test_predictions_and_metrics_read_blocks(tmp_path):
    memory = QuantileDMatrix(X, Y, weight=W)
    model = train(PARAMS, memory, 5)
    paged = ExtMemQuantileDMatrix(Loader(cache_prefix=str(tmp_path / "cache")))
    assert Path(tmp_path / "cache").is_dir()
    np.testing.assert_array_equal(model.predict(paged), model.predict(memory))
    leaves = model.predict(paged, pred_leaf=True)
    np.testing.assert_array_equal(leaves, model.predict(memory, pred_leaf=True))
    assert model.eval(paged) == model.eval(memory)


def test_validation_sets_with_the_cuts_of_training_data(tmp_path):
    memory = QuantileDMatrix(X, Y)
    other, label, _ = made(1000, 1)
    paged = ExtMemQuantileDMatrix(other, label, ref=memory, cache=tmp_path)
    assert paged.ref is memory and paged.max_bin == 256
    plain = QuantileDMatrix(other, label, ref=memory)
    np.testing.assert_array_equal(paged.rows(0, 1000), plain.rows(0, 1000))
    results = {}
    train(
        PARAMS,
        memory,
        20,
        evals=[(paged, "paged"), (plain, "plain")],
        early_stopping_rounds=3,
        evals_result=results,
        verbose_eval=False,
    )
    assert results["paged"] == results["plain"]


def test_a_path_can_name_the_cache(tmp_path):
    path = tmp_path / "rows.parquet"
    X.assign(y=Y).to_parquet(path)
    matrix = DMatrix(f"{path}?label_column=y#{tmp_path / 'cache'}")
    assert not (tmp_path / "cache").exists()  # codes are written when they are needed
    matrix.binned(16)
    assert (tmp_path / "cache" / "hornbeam-pages.json").is_file()
    np.testing.assert_array_equal(matrix.get_label(), Y)


def test_changed_labels_keep_the_blocks(tmp_path):
    ExtMemQuantileDMatrix(X, Y, cache=tmp_path)
    before = files_of(tmp_path)
    matrix = ExtMemQuantileDMatrix(X, Y + 1, cache=tmp_path)
    assert files_of(tmp_path) == before
    matrix.set_info(label=Y + 2, base_margin=W)
    assert files_of(tmp_path) == before


def test_blocks_depend_on_weights_and_max_bin(tmp_path):
    matrix = DMatrix(X, Y, cache=tmp_path)
    plain = matrix.binned(16)
    assert matrix.binned(16) is plain
    matrix.set_weight(W)
    weighted = matrix.binned(16)
    expected = DMatrix(X, Y, weight=W).binned(16)
    np.testing.assert_array_equal(weighted.cuts.values, expected.cuts.values)
    with pytest.raises(DataError, match=r"max_bin=16, and max_bin=8 .* another folder"):
        matrix.binned(8)
    assert matrix.binned(16) is weighted


def test_several_folders_store_blocks_in_turn(tmp_path):
    folders = [tmp_path / name for name in "abc"]
    paged = ExtMemQuantileDMatrix(X, Y, cache=folders)
    counts = [len(list(folder.glob("*.block"))) for folder in folders]
    assert counts == [2, 2, 2]
    memory = QuantileDMatrix(X, Y)
    np.testing.assert_array_equal(paged.rows(0, ROWS), memory.rows(0, ROWS))


def test_the_arguments_of_xgboost(tmp_path):
    paged = ExtMemQuantileDMatrix(
        Loader(cache_prefix=str(tmp_path), on_host=True, min_cache_page_bytes=0),
        missing=np.nan,
        nthread=1,
        max_bin=32,
        ref=None,
        enable_categorical=True,
        max_quantile_batches=4,
        cache_host_ratio=0.5,
    )
    assert paged.max_bin == 32


def test_the_names_and_defaults_of_xgboost():
    ours = inspect.signature(ExtMemQuantileDMatrix).parameters
    theirs = inspect.signature(xgboost.ExtMemQuantileDMatrix).parameters
    for name, other in theirs.items():
        assert ours[name].kind == other.kind
        # True from XGBoost 3.3 on.
        expected = True if name == "enable_categorical" else other.default
        assert ours[name].default == expected


def test_ext_mem_quantile_dmatrix_is_exported():
    assert hornbeam.ExtMemQuantileDMatrix is ExtMemQuantileDMatrix
    assert issubclass(ExtMemQuantileDMatrix, DMatrix)


class Changing(DataIter):
    """Batches with other rows in each pass."""

    def __init__(self):
        self.readings = 0
        super().__init__()

    def reset(self):
        self.readings += 1
        self.more = True

    def next(self, input_data):
        if self.more:
            input_data(data=X["a"].to_numpy()[:, None] * self.readings)
        self.more, again = False, self.more
        return again


def bad(tmp_path):
    """Return invalid calls and the expected messages."""
    file = tmp_path / "file"
    file.write_text("")
    cached = str(tmp_path / "named")
    new = tmp_path / "new"
    return [
        (lambda: ExtMemQuantileDMatrix(X), "pass a folder"),
        (lambda: ExtMemQuantileDMatrix(Loader()), "cache_prefix of the DataIter"),
        (lambda: ExtMemQuantileDMatrix(X, cache=file), "which is a file"),
        (lambda: ExtMemQuantileDMatrix(X, cache=[]), "folder or a list of folders"),
        (lambda: ExtMemQuantileDMatrix(X, cache=3), "folder or a list of folders"),
        (lambda: ExtMemQuantileDMatrix(X, cache=[new, new]), "twice"),
        (lambda: ExtMemQuantileDMatrix(X, cache=new, codec="zip"), "codec"),
        (lambda: ExtMemQuantileDMatrix(X.iloc[:0], cache=new), "no rows"),
        (lambda: ExtMemQuantileDMatrix(list, cache=new), "no batches"),
        (lambda: ExtMemQuantileDMatrix(Changing(), cache=new), "same rows"),
        (lambda: ExtMemQuantileDMatrix(X, cache=new, memory_limit="9MB"), "too small"),
        (lambda: ExtMemQuantileDMatrix(X, cache=new, memory_limit="much"), "'700MB'"),
        (lambda: ExtMemQuantileDMatrix(X, cache=new, memory_limit=-1), "'700MB'"),
        (lambda: ExtMemQuantileDMatrix(X, cache=new, memory_limit=True), "'700MB'"),
        (lambda: ExtMemQuantileDMatrix(X, cache=new, cache_host_ratio=2), "0 to 1"),
        (lambda: ExtMemQuantileDMatrix(X, cache=new, ref=X), "ref must be"),
        (
            lambda: ExtMemQuantileDMatrix(Loader(cache_prefix=cached), cache=new),
            "pass one",
        ),
        (lambda: QuantileDMatrix(Loader(cache_prefix=cached)), "ExtMemQuantileDMatrix"),
        (lambda: ExtMemQuantileDMatrix(Loader(cache_prefix=3)), "path of a folder"),
        (lambda: DMatrix(X, memory_limit="1GB"), "memory_limit='1GB' has no .* cache="),
        (lambda: DMatrix(X, codec="raw"), "codec='raw' has no effect"),
        (lambda: DMatrix(X.assign(a=np.inf), cache=new).binned(16), "inf in row 0"),
    ]


@pytest.mark.parametrize("number", range(22))
def test_bad_input_raises_and_leaves_no_files(tmp_path, number):
    call, words = bad(tmp_path)[number]
    with pytest.raises(HornbeamError, match=words):
        call()
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_created():
    with pytest.raises(DataError, match="cannot be created"):
        ExtMemQuantileDMatrix(X, cache="/proc/hornbeam")


def test_unsupported_methods_of_a_matrix_in_external_memory(tmp_path):
    paged = ExtMemQuantileDMatrix(X, Y, cache=tmp_path)
    with pytest.raises(DataError, match="rows to slice"):
        paged.slice([0])
    with pytest.raises(DataError, match="features to save"):
        paged.save_binary(tmp_path / "saved")
    with pytest.raises(
        DataError, match="max_bin=256 and cannot be used with max_bin=8"
    ):
        train({"max_bin": 8}, paged, 1)
    with pytest.raises(ValueError, match="cannot be pickled"):
        pickle.dumps(paged)


@pytest.mark.parametrize(
    ("size", "count"),
    [
        ("700MB", 700_000_000),
        ("1.5 GiB", 3 << 29),
        ("2g", None),
        ("2GB", 2 * 10**9),
        (" 64 kb ", 64_000),
        ("1e9", None),
        ("", None),
        ("123456", 123_456),
        (7e8, 700_000_000),
        (np.int64(10**9), 10**9),
        (float("nan"), None),
        (0, None),
        ([1], None),
    ],
)
def test_sizes(size, count):
    if count is not None:
        assert hornbeam.memory.as_bytes(size, "memory_limit") == count
        return
    with pytest.raises(ParameterError, match="memory_limit must be a size"):
        hornbeam.memory.as_bytes(size, "memory_limit")


def test_multi_output_trees_do_not_keep_samples(tmp_path):
    rows = np.random.default_rng(0).normal(size=(600, 3))
    params = {"multi_strategy": "multi_output_tree", "subsample": 0.5}
    data = DMatrix(rows, rows[:, :2], cache=tmp_path)
    paged = train(params, data, 2)
    assert paged.digest() == train(params, DMatrix(rows, rows[:, :2]), 2).digest()
    with pytest.raises(ParameterError, match="extmem_single_page caches the samples"):
        train({**params, "extmem_single_page": True}, data, 1)
