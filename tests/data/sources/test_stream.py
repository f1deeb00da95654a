"""Training on batches gives the model of the same rows in one table."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

import hornbeam
from hornbeam import DataError, DMatrix, QuantileDMatrix
from hornbeam.data.sources.batches import Batch

N = 240
RNG = np.random.default_rng(1)
X = RNG.normal(size=(N, 4)).astype(np.float32)
X[:, 1] = np.rint(X[:, 1] * 3)
X[::6, 2] = np.nan
Y = (X[:, 0] + X[:, 1] + RNG.normal(size=N) > 0).astype(np.float64)
W = np.ceil(RNG.random(N) * 3)
CITY = RNG.choice(["Rome", "Oslo", "Bern", "Prague", "Vaduz", "Minsk"], N)
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(city=CITY, y=Y, w=W)
FRAME.loc[::9, "city"] = None
FEATURES = ["a", "b", "c", "d", "city"]
PARAMS = {"objective": "binary:logistic", "max_depth": 3, "max_bin": 16}


def digest(matrix):
    return hornbeam.train(PARAMS, matrix, 3).digest()


@pytest.fixture(scope="module")
def expected():
    return digest(DMatrix(FRAME[FEATURES], Y, weight=W))


def pieces(frame, edges):
    return [frame[i:j] for i, j in zip([0, *edges], [*edges, N], strict=True)]


KINDS = {
    "pandas": FRAME,
    "polars": pl.from_pandas(FRAME, nan_to_null=False),
    "arrow": pa.Table.from_pandas(FRAME, preserve_index=False),
}


@examples(15)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    edges=st.lists(st.integers(0, N), max_size=6).map(sorted),
    matrix=st.sampled_from([DMatrix, QuantileDMatrix]),
    nthread=st.sampled_from([1, 2]),
)
def test_models_do_not_depend_on_batches(expected, kind, edges, matrix, nthread):
    batches = pieces(KINDS[kind], edges)
    if kind == "arrow":
        batches = [part.combine_chunks() for part in batches]
    more = {"max_bin": 16} if matrix is QuantileDMatrix else {}
    data = matrix(batches, label="y", weight="w", nthread=nthread, **more)
    assert digest(data) == expected


def test_a_file_gives_the_model_of_the_table(expected, tmp_path, monkeypatch):
    monkeypatch.setattr("hornbeam.data.sources.batches.BATCH_ROWS", 50)
    FRAME.to_parquet(tmp_path / "d.parquet")
    data = DMatrix(tmp_path / "d.parquet", label="y", weight="w")
    assert data.table.is_stream
    assert digest(data) == expected
    np.testing.assert_array_equal(data.get_label(), Y)


def make_iterator(library):
    """Return an iterator that works with both libraries."""

    class Batches(library.DataIter):
        def __init__(self):
            self.at = 0
            super().__init__()

        def next(self, input_data):
            if self.at == 3:
                return 0
            rows = slice(self.at * 80, self.at * 80 + 80)
            input_data(data=X[rows], label=Y[rows], weight=W[rows])
            self.at += 1
            return 1

        def reset(self):
            self.at = 0

    return Batches()


def test_a_data_iter_runs_with_both_libraries(expected):
    theirs = xgboost.QuantileDMatrix(make_iterator(xgboost), max_bin=16)
    ours = QuantileDMatrix(make_iterator(hornbeam), max_bin=16)
    assert (ours.num_row(), ours.num_col()) == (theirs.num_row(), theirs.num_col())
    np.testing.assert_array_equal(ours.get_label(), theirs.get_label())
    np.testing.assert_array_equal(ours.get_weight(), theirs.get_weight())
    model = hornbeam.train(PARAMS, ours, 3)
    one_piece = DMatrix(X, Y, weight=W)
    assert model.digest() == digest(one_piece)
    # XGBoost's class is accepted, too.
    again = DMatrix(make_iterator(xgboost))
    assert digest(again) == model.digest()


def test_streams_for_prediction_and_evaluation(expected):
    data = DMatrix(pieces(FRAME, [100, 130]), label="y", weight="w")
    whole = DMatrix(FRAME[FEATURES], Y, weight=W)
    heard: list[dict] = [{}, {}]
    for matrix, results in zip((data, whole), heard, strict=True):
        booster = hornbeam.train(
            PARAMS,
            whole,
            3,
            evals=[(matrix, "watched")],
            evals_result=results,
            verbose_eval=False,
        )
    assert heard[0] == heard[1]
    np.testing.assert_array_equal(booster.predict(data), booster.predict(whole))
    part = data.slice([5, 120, 7])
    np.testing.assert_array_equal(part.get_label(), Y[[5, 120, 7]])
    np.testing.assert_array_equal(part.rows(0, 3)[:, :4], X[[5, 120, 7]])


def test_fields_of_batches_are_fields_of_the_matrix():
    def batches():
        yield Batch(X[:100], {"qid": np.repeat([1, 2], 50), "weight": [1, 2]})
        yield Batch(X[100:], {"qid": np.repeat([2, 3], 70), "weight": [3]})

    data = DMatrix(batches, base_margin=np.ones((N, 3)))
    np.testing.assert_array_equal(data.get_group(), [50, 120, 70])
    np.testing.assert_array_equal(data.row_weights, np.repeat([1, 2, 3], [50, 120, 70]))
    assert data.get_base_margin().shape == (N, 3)
    labels = np.where(np.arange(100) == 50, np.nan, 1.0)
    with pytest.raises(DataError, match="label is nan in row 150"):
        DMatrix([(X[:100], Y[:100]), (X[100:200], labels)])


def test_validation_data_with_the_cuts_of_a_stream():
    train = QuantileDMatrix(pieces(FRAME, [90]), label="y", weight="w", max_bin=16)
    valid = QuantileDMatrix(pieces(FRAME, [33]), label="y", weight="w", ref=train)
    np.testing.assert_array_equal(
        train.binned(16).cuts.values, valid.binned(16).cuts.values
    )


def test_an_iterator_that_raises_leaves_no_state():
    count = [0]

    def batches():
        count[0] += 1
        yield X[:100], Y[:100]
        if count[0] == 2:
            raise OSError("the disk went away")
        yield X[100:], Y[100:]

    data = DMatrix(batches)
    with pytest.raises(OSError, match="the disk went away"):
        digest(data)
    # The next pass succeeds.
    assert digest(data) == digest(DMatrix(X, Y))


PEAK = """
import sys
import hornbeam

def peak():
    with open("/proc/self/status") as status:
        return next(int(x.split()[1]) for x in status if x.startswith("VmHWM")) << 10

path = sys.argv[1]
# Compile kernels and load modules.
small = hornbeam.DMatrix(path + "/small.parquet", label="y")
model = hornbeam.train({"max_depth": 2}, small, 1)
model.predict(small)
with open("/proc/self/clear_refs", "w") as forget:
    forget.write("5")
before = peak()
if sys.argv[2] == "predict":
    data = hornbeam.DMatrix(path + "/large.parquet", label="y")
    model.predict(data)
else:
    data = hornbeam.QuantileDMatrix(path + "/large.parquet", label="y")
print(peak() - before)
"""


def peak_of(what, folder, n_rows, n_columns, dtype):
    """Return the peak memory of a streamed Parquet file."""
    rng = np.random.default_rng(0)
    for name, rows in (("small", 70_000), ("large", n_rows)):
        columns = {
            f"x{i}": rng.normal(size=rows).astype(dtype) for i in range(n_columns)
        }
        columns["y"] = rng.normal(size=rows)
        pyarrow.parquet.write_table(pa.table(columns), folder / f"{name}.parquet")
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(folder), what],
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout)


needs_peak = pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK), reason="the peak cannot be reset"
)


@pytest.mark.slow
@needs_peak
def test_prediction_does_not_load_a_whole_file(tmp_path):
    peak = peak_of("predict", tmp_path, 600_000, 20, np.float64)
    held = 600_000 * 20 * 8
    # Labels and predictions take 10 MB, a few batches and their copies 60 MB.
    assert peak < held, (peak, held)


@pytest.mark.slow
@needs_peak
def test_training_on_three_million_rows_needs_bins_and_300_megabytes(tmp_path):
    peak = peak_of("codes", tmp_path, 3_000_000, 28, np.float32)
    assert peak < 3_000_000 * 28 + 300_000_000, peak
