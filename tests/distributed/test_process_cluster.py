"""Plain worker processes with a client: models, predictions, and refused strangers."""

import os
import socket
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from command_line import start_workers

import hornbeam
from hornbeam import ClusterError, DataError, ErrorCode, ParameterError
from hornbeam.distributed.process_cluster import ProcessCluster
from hornbeam.distributed.processes import ProcessDMatrix, predict, train
from hornbeam.distributed.worker_process import TOKEN
from hornbeam.shared_memory import MappedMemory

PARAMS = {"objective": "multi:softprob", "num_class": 3, "subsample": 0.7}
SIZES = [200, 0, 150, 250]
X = np.random.default_rng(2).normal(size=(600, 5)).astype(np.float32)
Y = np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5]).astype(float)
ENDS = np.cumsum(SIZES).tolist()


def read(number, **more):
    own = slice(ENDS[number] - SIZES[number], ENDS[number])
    return {"data": X[own], "label": Y[own]} | {k: v[own] for k, v in more.items()}


def as_rows(x):
    return {"data": x, "label": x[:, 0]}


def squared(margins, data):
    return margins - data.get_label(), np.ones_like(margins)


def fail():
    raise OSError("no such disk")


@pytest.fixture(scope="module")
def cluster():
    with ProcessCluster() as cluster:
        start_workers(cluster, 2)
        yield cluster


def matrix(cluster, **options):
    reads = [partial(read, k) for k in range(len(SIZES))]
    return ProcessDMatrix(cluster, reads, **options)


def many_columns(number):
    rows = np.random.default_rng(number).normal(size=(1_500, 40))
    return as_rows(rows)


def test_the_client_reads_histograms_in_the_memory_of_workers(cluster, monkeypatch):
    places, at = [], MappedMemory.at
    monkeypatch.setattr(
        MappedMemory, "at", lambda own, place: places.append(place) or at(own, place)
    )
    data = ProcessDMatrix(cluster, [partial(many_columns, k) for k in range(3)])
    found = train(cluster, {"max_depth": 5}, data, 3, verbose_eval=False)["booster"]
    parts = [many_columns(k) for k in range(3)]
    x, y = (np.concatenate([part[name] for part in parts]) for name in parts[0])
    alone = hornbeam.train({"max_depth": 5}, hornbeam.DMatrix(x, y), 3)
    assert found.digest() == alone.digest()
    assert len(set(places)) > 3


def test_models_and_predictions_are_those_of_one_process(cluster):
    data, alone = matrix(cluster), hornbeam.DMatrix(X, Y)
    found = train(cluster, PARAMS, data, 5, evals=[(data, "train")], verbose_eval=False)
    history = {}
    booster = hornbeam.train(
        PARAMS,
        alone,
        5,
        evals=[(alone, "train")],
        evals_result=history,
        verbose_eval=False,
    )
    assert found["booster"].digest() == booster.digest()
    assert found["history"] == history
    for options in ({}, {"output_margin": True}, {"pred_contribs": True}):
        np.testing.assert_array_equal(
            predict(cluster, booster, data, **options),
            booster.predict(alone, **options),
        )


def test_long_columns_have_the_cuts_of_one_process(cluster):
    x = np.random.default_rng(3).normal(size=(1 << 15, 3))
    x[:, 2] = np.round(x[:, 2], 1)
    half = len(x) // 2
    parts = [x[:half], x[half:]]
    reads = [partial(as_rows, part) for part in parts]
    found = train(cluster, {}, ProcessDMatrix(cluster, reads), 2, verbose_eval=False)
    alone = hornbeam.train({}, hornbeam.DMatrix(x, x[:, 0]), 2, verbose_eval=False)
    assert found["booster"].digest() == alone.digest()


@pytest.mark.parametrize("width", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_sums_of_a_tree_and_errors_in_it(width):
    with ProcessCluster(tree_from=2, tree_width=width) as cluster:
        start_workers(cluster, 3)
        data = matrix(cluster)
        result = train(cluster, PARAMS, data, 3, verbose_eval=False)
        alone = hornbeam.train(PARAMS, hornbeam.DMatrix(X, Y), 3, verbose_eval=False)
        assert result["booster"].digest() == alone.digest()
        with pytest.raises(DataError, match=r"partition \d: ") as raised:
            train(cluster, {"objective": "reg:gamma"}, data, 3)
        assert "It was raised on worker" in raised.value.__notes__[0]
        assert len(raised.value.__notes__) == 1


def test_custom_objectives_and_bins_on_disk(cluster, tmp_path):
    data = matrix(cluster, cache=str(tmp_path))
    found = train(cluster, {"base_score": 0}, data, 3, obj=squared, verbose_eval=False)
    alone = hornbeam.DMatrix(X, Y)
    booster = hornbeam.train(
        {"base_score": 0}, alone, 3, obj=squared, verbose_eval=False
    )
    assert found["booster"].digest() == booster.digest()


@pytest.mark.parametrize(
    ("act", "kind", "code", "text"),
    [
        (
            lambda c: ProcessDMatrix(c, []),
            DataError,
            ErrorCode.EMPTY_DATA,
            "no partitions",
        ),
        (
            lambda c: ProcessDMatrix(c, [lambda: None]),
            ClusterError,
            ErrorCode.UNSUPPORTED_COLLECTION,
            "partition 0: .* cannot be sent",
        ),
        (
            lambda c: ProcessDMatrix(c, [partial(read, 0), fail]),
            ClusterError,
            ErrorCode.PARTITION_LOST,
            "partition 1 cannot be read: OSError: no such disk",
        ),
        (
            lambda c: ProcessDMatrix(c, [partial(read, 0, label=Y[:7])]),
            DataError,
            None,
            "partition 0: ",
        ),
        (
            lambda c: train(c, {}, matrix(c), 1, obj=lambda a, b: (a, b)),
            ParameterError,
            ErrorCode.INVALID_CUSTOM_OBJECTIVE,
            "cannot be sent",
        ),
        (
            lambda _: ProcessCluster(0, patience=0),
            ParameterError,
            ErrorCode.PARAMETER_OUT_OF_RANGE,
            "patience must be above 0",
        ),
    ],
)
def test_bad_input_is_one_clear_error(cluster, act, kind, code, text):
    with pytest.raises(kind, match=text) as raised:
        act(cluster)
    assert code is None or raised.value.code == code


def start_worker(cluster, token):
    environment = os.environ | {TOKEN: token, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "hornbeam.distributed", cluster.host]
    return subprocess.run(
        [*command, str(cluster.port)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_strangers_are_refused(cluster):
    before = cluster.pids()
    with socket.create_connection((cluster.host, cluster.port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(100))
        assert stranger.recv(16).startswith(b"hornbeam")
    ended = start_worker(cluster, "another token")
    assert ended.returncode == 1
    assert "has refused this worker" in ended.stderr
    assert cluster.pids() == before


def test_a_worker_of_another_version_is_refused(cluster, monkeypatch):
    monkeypatch.setattr("hornbeam.distributed.process_cluster.__version__", "0.0.1")
    ended = start_worker(cluster, cluster.token)
    assert ended.returncode == 1
    assert "has Hornbeam 0.0.1, and this worker" in ended.stderr


def test_without_workers_there_is_one_error(monkeypatch):
    monkeypatch.setattr("hornbeam.distributed.process_cluster.NO_WORKER_TIMEOUT", 0.5)
    with ProcessCluster(0) as cluster, pytest.raises(ClusterError, match="no worker"):
        matrix(cluster)


def test_workers_end_with_their_client():
    cluster = ProcessCluster(1)
    (pid,) = cluster.pids().values()
    cluster.end()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert cluster.alive() == []
