"""A model grown on codes on disk is the one grown in memory, byte for byte.

From any source, in any batches, laid down in any way, in any folders, on any number of
threads, within any memory that is enough.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from selection import half_slow

import hornbeam
from hornbeam import DataIter, DMatrix, ExtMemQuantileDMatrix, QuantileDMatrix, memory
from hornbeam.binning import external_build

ROWS = 20_000


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Make some rows as many blocks as pages have."""
    monkeypatch.setattr(external_build, "BLOCK_ROWS", 1 << 12)


def made(rows=ROWS, seed=0):
    """Return a frame with missing cells and categories, a label, and weights."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=rows).astype(np.float32),
            "b": np.where(rng.random(rows) < 0.2, np.nan, rng.normal(size=rows)),
            "few": rng.integers(0, 7, rows),
            "more": np.round(rng.exponential(3, rows), 2),
            "kind": pd.Categorical(
                np.array(["u", "v", "w", "x", "y", "z"])[rng.integers(0, 6, rows)]
            ),
        }
    )
    frame.loc[rng.random(rows) < 0.1, "kind"] = None
    label = frame["a"] * frame["few"] + (frame["kind"] == "v") * 3 + frame["more"]
    return frame, label.to_numpy() + rng.normal(size=rows), rng.random(rows)


X, Y, W = made()


class Loader(DataIter):
    """Batches of some rows."""

    def __init__(self, step):
        self.step, self.at = step, 0
        super().__init__()

    def reset(self):
        self.at = 0

    def next(self, input_data):
        part = slice(self.at, self.at + self.step)
        self.at += self.step
        if part.start < ROWS:
            input_data(data=X[part], label=Y[part], weight=W[part])
        return part.start < ROWS


def parquet(folder):
    table = pa.Table.from_pandas(X, preserve_index=False)
    table = table.append_column("y", pa.array(Y)).append_column("w", pa.array(W))
    (folder / "rows").mkdir()
    for number, start in enumerate(range(0, ROWS, 7777)):
        pa.parquet.write_table(
            table.slice(start, 7777), folder / "rows" / f"{number}.parquet"
        )
    return str(folder / "rows"), {"label": "y", "weight": "w"}


def query(folder):
    name, beside = parquet(folder)
    connection = duckdb.connect()
    connection.sql("SET preserve_insertion_order = true; SET threads = 1")
    text = f"SELECT * FROM read_parquet('{name}/*.parquet') ORDER BY filename"
    text = text.replace(" ORDER BY filename", "")
    return hornbeam.read(text, connection=connection), beside


SOURCES = {
    "parquet": parquet,
    "query": query,
    "loader": lambda folder: (Loader(3000), {}),
    "one row more than a block": lambda folder: (Loader((1 << 12) + 1), {}),
    "list": lambda folder: (
        [(X[i : i + 501], Y[i : i + 501], W[i : i + 501]) for i in range(0, ROWS, 501)],
        {},
    ),
    "frame": lambda folder: (X, {"label": Y, "weight": W}),
}


def train(params, data, rounds=4, **arguments):
    params = {"max_depth": 5, "seed": 3} | params
    return hornbeam.train(params, data, rounds, verbose_eval=False, **arguments)


@pytest.fixture(scope="module")
def expected():
    """Return the digest in memory."""
    return train({}, DMatrix(X, Y, weight=W)).digest()


@pytest.mark.parametrize("source", half_slow(SOURCES))
def test_any_source(source, tmp_path, expected):
    data, beside = SOURCES[source](tmp_path)
    paged = ExtMemQuantileDMatrix(data, **beside, cache=tmp_path / "a")
    assert train({}, paged).digest() == expected
    kept = DMatrix(data, **beside, cache=tmp_path / "b")
    assert train({}, kept).digest() == expected


@pytest.mark.parametrize("codec", ["auto", "raw", "nibble", "lz4"])
@pytest.mark.parametrize("folders", [1, 3])
def test_any_codec_and_folders(codec, folders, tmp_path, expected):
    cache = [tmp_path / str(number) for number in range(folders)]
    paged = ExtMemQuantileDMatrix(X, Y, weight=W, cache=cache, codec=codec)
    assert train({}, paged).digest() == expected
    again = ExtMemQuantileDMatrix(X, Y, weight=W, cache=cache, codec=codec)
    assert train({}, again).digest() == expected


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_any_threads(threads, tmp_path, expected):
    paged = ExtMemQuantileDMatrix(X, Y, weight=W, cache=tmp_path, nthread=threads)
    assert train({"nthread": threads}, paged).digest() == expected


CONFIGURATIONS = {
    "sampled rows": {"subsample": 0.5},
    "sampled columns": {"colsample_bytree": 0.8, "colsample_bynode": 0.7},
    "best first": {"grow_policy": "lossguide", "max_leaves": 25, "max_depth": 0},
    "deep": {"max_depth": 10, "min_child_weight": 3},
    "binary": {"objective": "binary:logistic", "max_bin": 16},
    "classes": {"objective": "multi:softprob", "num_class": 3, "max_depth": 3},
    "parallel": {"num_parallel_tree": 2, "subsample": 0.6},
    "more bins": {"max_bin": 400, "alpha": 1, "gamma": 2},
}


@pytest.mark.parametrize("name", half_slow(CONFIGURATIONS))
def test_any_configuration(name, tmp_path):
    params = CONFIGURATIONS[name]
    label = Y
    if "objective" in params:
        label = np.digitize(Y, np.quantile(Y, [0.3, 0.7]))
        label = label if "num_class" in params else label > 0
    bins = params.get("max_bin", 256)
    memory = QuantileDMatrix(X, label, weight=W, max_bin=bins)
    paged = ExtMemQuantileDMatrix(
        Loader(999), label, weight=W, max_bin=bins, cache=tmp_path
    )
    models = [train(params, data) for data in (memory, paged)]
    assert models[0].digest() == models[1].digest()
    np.testing.assert_array_equal(models[0].predict(paged), models[1].predict(memory))


def test_validation_early_stopping_and_resuming(tmp_path):
    other, label, _ = made(5000, 1)
    results, digests = [], []
    for kind, cache in (("memory", False), ("disk", True)):

        def matrix(name, data, labels, ref=None, cache=cache):
            if not cache:
                return QuantileDMatrix(data, labels, ref=ref)
            return ExtMemQuantileDMatrix(data, labels, ref=ref, cache=tmp_path / name)

        dtrain = matrix("train", X, Y)
        valid = matrix("valid", other, label, dtrain)
        found = {}
        model = train(
            {"eta": 1.0},
            dtrain,
            30,
            evals=[(dtrain, "train"), (valid, "valid")],
            evals_result=found,
            early_stopping_rounds=2,
        )
        assert model.num_boosted_rounds() < 30, kind
        more = train({"eta": 1.0}, dtrain, 2, xgb_model=model)
        results.append(found)
        digests.append((model.digest(), more.digest()))
    assert results[0] == results[1]
    assert digests[0] == digests[1]


def test_own_objectives(tmp_path):
    def squared(margins, data):
        return margins - data.get_label(), np.ones(margins.size)

    memory = QuantileDMatrix(X, Y)
    paged = ExtMemQuantileDMatrix(X, Y, cache=tmp_path)
    digests = {train({}, data, obj=squared).digest() for data in (memory, paged)}
    assert len(digests) == 1


def test_columns_in_another_order(tmp_path):
    model = train({}, DMatrix(X, Y))
    turned = X[["more", "kind", "b", "few", "a"]]
    memory = DMatrix(turned, Y)
    paged = DMatrix(turned, Y, cache=tmp_path)
    more = [train({}, data, 2, xgb_model=model) for data in (memory, paged)]
    assert more[0].digest() == more[1].digest()


def test_codes_without_names(tmp_path):
    rng = np.random.default_rng(0)
    data = np.column_stack([rng.integers(0, 300, ROWS), rng.normal(size=ROWS)])
    data[rng.random(ROWS) < 0.01, 0] = np.nan
    batches = [(data[i : i + 700], Y[i : i + 700]) for i in range(0, ROWS, 700)]
    memory = DMatrix(data, Y, feature_types=["c", "q"])
    paged = ExtMemQuantileDMatrix(batches, feature_types=["c", "q"], cache=tmp_path)
    assert train({}, memory).digest() == train({}, paged).digest()


def test_little_memory(tmp_path, expected):
    """State of rows goes to disk, too, and the trees are the same."""
    taken = memory.resident_bytes()
    paged = ExtMemQuantileDMatrix(
        Loader(3000), cache=tmp_path, memory_limit=taken + (90 << 20)
    )
    assert train({}, paged).digest() == expected
