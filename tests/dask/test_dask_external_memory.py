"""Workers with bins in external memory: the same model, and files are deleted."""

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
from dask import delayed

import hornbeam as hb
from hornbeam import DataError, ParameterError
from hornbeam.binning import external_build
from hornbeam.dask.matrix import DaskDMatrix, DaskQuantileDMatrix
from hornbeam.dask.training import train

# The first fit may compile the kernels.
pytestmark = pytest.mark.timeout(240)

ROWS = 2000
HERE = str(Path(__file__).parent)


def draw():
    """Return a data frame with missing values and categories, labels and weights."""
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
    """Return the matrix of these rows, in five partitions."""
    parts = [dd.from_pandas(part, npartitions=5) for part in draw()]
    return DaskDMatrix(client, parts[0], parts[1], weight=parts[2], **options)


@pytest.fixture(scope="module")
def expected():
    frame, label, weight = draw()
    params = {"subsample": 0.7}
    return hb.train(params, hb.DMatrix(frame, label, weight=weight), 3).digest()


def test_the_model_equals_that_of_one_machine(client, tmp_path, expected):
    matrix = spread(
        client, cache=[tmp_path / "a", tmp_path / "b"], memory_limit="4GB", codec="lz4"
    )
    result = train(client, {"subsample": 0.7}, matrix, 3, verbose_eval=False)
    assert result["booster"].digest() == expected
    del matrix
    assert_empty(tmp_path / "a", tmp_path / "b")


def assert_empty(*folders):
    """Wait until the folders are empty: workers delete files asynchronously."""
    deadline = time.monotonic() + 60
    while left := [file for folder in folders for file in folder.glob("*")]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("kind", "single_page"), [(DaskDMatrix, False), (DaskQuantileDMatrix, True)]
)
def test_partitions_in_files(client, tmp_path, kind, single_page):
    frame, label, weight = draw()
    frame = frame.assign(label=label, weight=weight)
    paths = [tmp_path / f"{number}.parquet" for number in range(3)]
    for number, path in enumerate(paths):
        frame[700 * number : 700 * number + 700].to_parquet(path)
    parts = [delayed(str(path)) for path in paths]
    folders = [tmp_path / "one", tmp_path / "two"]
    matrix = kind(
        client, parts, "label", weight="weight", cache=[str(f) for f in folders]
    )
    params = {"subsample": 0.7, "extmem_single_page": single_page}
    evals = [(matrix, "train")]
    result = train(client, params, matrix, 5, evals=evals, verbose_eval=False)
    data = hb.DMatrix(frame, "label", weight="weight")
    alone = hb.train({"subsample": 0.7}, data, 5, verbose_eval=False)
    assert result["booster"].digest() == alone.digest()
    assert len(result["history"]["train"]["rmse"]) == 5
    del result
    assert_empty(*folders)


@pytest.mark.parametrize(
    "params", [{}, {"cat_smooth": 2.0, "cat_l2": 1.5, "min_data_per_group": 9}], ids=str
)
def test_bins_of_one_partition_need_a_wider_type(client, tmp_path, params):
    levels = pd.Categorical(np.arange(512) % 256, range(256))
    frame = pd.DataFrame({"kind": levels, "label": np.arange(512) % 7})
    frame.loc[511, "kind"] = None  # a missing value in one partition only
    parts = [delayed(frame[:200]), delayed(frame[200:])]
    matrix = DaskDMatrix(client, parts, "label", cache=str(tmp_path))
    found = train(client, params, matrix, 3, verbose_eval=False)["booster"]
    alone = hb.train(params, hb.DMatrix(frame, "label"), 3, verbose_eval=False)
    assert found.digest() == alone.digest()


def part(number):
    """Return the features and labels of a partition."""
    rng = np.random.default_rng(number)
    rows = rng.normal(size=(400, 4)).astype(np.float32)
    return rows, rows[:, 0] + rng.normal(size=400)


def features_of(number):
    return part(number)[0]


def labels_of(number):
    return part(number)[1]


class Killing(hb.TrainingCallback):
    """A callback that kills a process after the second round."""

    def __init__(self, process):
        self.process = process

    def after_iteration(self, model, epoch, evals_log):
        if epoch == 1:
            os.kill(self.process, signal.SIGKILL)
        return False


@pytest.mark.slow
def test_a_killed_worker_does_not_change_the_model(own_cluster, tmp_path):
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


def test_multi_output_trees(client, tmp_path):
    x = np.random.default_rng(0).normal(size=(900, 4))
    y = np.stack([x[:, 0] * x[:, 1], x[:, 2]], axis=1)
    parts = [da.from_array(part, chunks=(300, part.shape[1])) for part in (x, y)]
    params = {"multi_strategy": "multi_output_tree", "subsample": 0.7}
    matrix = DaskDMatrix(client, *parts, cache=tmp_path)
    result = train(client, params, matrix, 4, verbose_eval=False)
    alone = hb.train(params, hb.DMatrix(x, y), 4)
    assert result["booster"].digest() == alone.digest()


def test_too_little_memory_on_a_worker_is_an_error(client, tmp_path):
    matrix = spread(client, cache=tmp_path, memory_limit="10MB")
    with pytest.raises((DataError, ParameterError), match=r"at least [\d,]+ MB"):
        train(client, {}, matrix, 1, verbose_eval=False)


def test_errors_name_the_worker(client, tmp_path):
    (tmp_path / "file").write_text("")
    matrix = spread(client, cache=str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"on the worker at tcp://.*which is a file"):
        train(client, {}, matrix, 1)
    matrix = spread(client, cache=str(tmp_path / "rows"), memory_limit="1MB")
    with pytest.raises(ParameterError, match=r"tcp://.*memory_limit=1 MB is too small"):
        train(client, {}, matrix, 1)


def test_a_memory_limit_without_a_cache_is_an_error(client):
    X = da.ones((10, 2), chunks=(5, 2))
    with pytest.raises(ParameterError, match="cache="):
        DaskDMatrix(client, X, X[:, 0], memory_limit="1GB")


@pytest.mark.slow
def test_files_of_a_killed_process_are_deleted(tmp_path, monkeypatch):
    code = (
        "from test_dask_external_memory import page; import sys, time\n"
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
    assert len(list(tmp_path.glob("hornbeam-member-*"))) == 2  # still in use
    child.kill()
    child.wait()
    other = page(tmp_path)
    assert len(list(tmp_path.glob("hornbeam-member-*"))) == 2
    np.testing.assert_array_equal(mine.decode(0, 10), other.decode(0, 10))
    del mine, other
    assert not list(tmp_path.glob("hornbeam-member-*"))


def page(folder):
    """Return bins in external memory, in a folder below `folder`."""
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
