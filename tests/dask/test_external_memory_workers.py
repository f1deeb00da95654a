"""Workers whose codes are on disk: the same model, and folders that go with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from clusters import process_of

import hornbeam as hb
from hornbeam import DataError, ParameterError
from hornbeam.binning import external_build
from hornbeam.dask.matrix import DaskDMatrix
from hornbeam.dask.training import train

ROWS = 2000
HERE = str(Path(__file__).parent)


def draw():
    """Return a frame with missing cells and categories, labels and weights."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=ROWS),
            "b": np.where(rng.random(ROWS) < 0.2, np.nan, rng.normal(size=ROWS)),
            "kind": pd.Categorical(np.array(["x", "y", "z"])[np.arange(ROWS) % 3]),
        }
    )
    label = frame["a"] + (frame["kind"] == "y") * 2 + rng.normal(size=ROWS) / 4
    return frame, label, pd.Series(rng.random(ROWS))


def spread(client, **options):
    """Return the matrix of the rows in five partitions."""
    parts = [dd.from_pandas(part, npartitions=5) for part in draw()]
    return DaskDMatrix(client, parts[0], parts[1], weight=parts[2], **options)


@pytest.fixture(scope="module")
def expected():
    frame, label, weight = draw()
    params = {"subsample": 0.7}
    return hb.train(params, hb.DMatrix(frame, label, weight=weight), 3).digest()


def test_the_model_is_that_of_one_machine(client, tmp_path, expected):
    matrix = spread(
        client, cache=[tmp_path / "a", tmp_path / "b"], memory_limit="4GB", codec="lz4"
    )
    result = train(client, {"subsample": 0.7}, matrix, 3, verbose_eval=False)
    assert result["booster"].digest() == expected
    del matrix
    deadline = time.monotonic() + 10
    while list(tmp_path.glob("*/hornbeam-member-*")):
        assert time.monotonic() < deadline, list(tmp_path.glob("*/*"))
        time.sleep(0.1)


def part(number):
    """Return some rows, and their labels."""
    rng = np.random.default_rng(number)
    rows = rng.normal(size=(400, 4)).astype(np.float32)
    return rows, rows[:, 0] + rng.normal(size=400)


def features_of(number):
    return part(number)[0]


def labels_of(number):
    return part(number)[1]


class Killing(hb.TrainingCallback):
    """Kills a process after the second round."""

    def __init__(self, process):
        self.process = process

    def after_iteration(self, model, epoch, evals_log):
        if epoch == 1:
            os.kill(self.process, signal.SIGKILL)
        return False


@pytest.mark.slow
def test_a_killed_worker_does_not_matter(own_cluster, tmp_path):
    client = own_cluster(2)
    x, y = (
        [client.submit(of, number, pure=False) for number in range(5)]
        for of in (features_of, labels_of)
    )
    matrix = DaskDMatrix(client, x, y, cache=tmp_path)
    victim = process_of(client, next(iter(client.scheduler_info()["workers"])))
    result = train(
        client, {}, matrix, 4, verbose_eval=False, callbacks=[Killing(victim)]
    )
    x, y = (np.concatenate([part(i)[k] for i in range(5)]) for k in range(2))
    assert result["booster"].digest() == hb.train({}, hb.DMatrix(x, y), 4).digest()


def test_trees_of_all_outputs_on_disk(client, tmp_path):
    x = np.random.default_rng(0).normal(size=(900, 4))
    y = np.stack([x[:, 0] * x[:, 1], x[:, 2]], axis=1)
    parts = [da.from_array(part, chunks=(300, part.shape[1])) for part in (x, y)]
    params = {"multi_strategy": "multi_output_tree", "subsample": 0.7}
    matrix = DaskDMatrix(client, *parts, cache=tmp_path)
    result = train(client, params, matrix, 4, verbose_eval=False)
    alone = hb.train(params, hb.DMatrix(x, y), 4)
    assert result["booster"].digest() == alone.digest()


def test_too_little_memory_on_a_worker_is_said(client, tmp_path):
    matrix = spread(client, cache=tmp_path, memory_limit="10MB")
    with pytest.raises((DataError, ParameterError), match=r"give at least [\d,]+ MB"):
        train(client, {}, matrix, 1, verbose_eval=False)


def test_a_limit_without_a_cache(client):
    X = da.ones((10, 2), chunks=(5, 2))
    with pytest.raises(ParameterError, match="cache="):
        DaskDMatrix(client, X, X[:, 0], memory_limit="1GB")


@pytest.mark.slow
def test_what_a_killed_process_has_left_is_cleaned(tmp_path, monkeypatch):
    code = (
        "from test_external_memory_workers import page; import sys, time\n"
        "left = page(sys.argv[1]); print('ready', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([HERE, *sys.path])},
    )
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == b"ready\n"
    monkeypatch.setattr(external_build, "_JUST_MADE", 0.0)
    mine = page(tmp_path)
    assert len(list(tmp_path.glob("hornbeam-member-*"))) == 2  # it is still in use
    child.kill()
    child.wait()
    other = page(tmp_path)
    assert len(list(tmp_path.glob("hornbeam-member-*"))) == 2
    np.testing.assert_array_equal(mine.decode(0, 10), other.decode(0, 10))
    del mine, other
    assert not list(tmp_path.glob("hornbeam-member-*"))


def page(folder):
    """Return codes in a folder of their own."""
    from hornbeam.binning.bin_table import bin_table
    from hornbeam.binning.cuts import ColumnCuts
    from hornbeam.data.containers.dispatch import as_table
    from hornbeam.data.opening import CacheOptions

    table = as_table(np.arange(20.0).reshape(10, 2))
    cuts = bin_table(table, 4).cuts
    columns = [ColumnCuts(cuts.of(f), float(cuts.minimums[f]), False) for f in range(2)]
    caching = CacheOptions(str(folder), None, "auto")
    return external_build.build_worker_external(
        table, columns, 4, caching, own_cuts=True
    )
