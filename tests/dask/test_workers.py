"""`Workers` on a real cluster: waits for tasks end when workers are lost."""

import contextlib
import os
import signal
import threading
import time

import dask
import distributed
import numpy as np
import pytest
from clusters import process_of
from dask.delayed import delayed

from hornbeam import ClusterError
from hornbeam.dask.matrix import DaskDMatrix
from hornbeam.dask.workers import Workers


def slow_rows(seed, seconds=0.4):
    time.sleep(seconds)
    return np.random.default_rng(seed).normal(size=(50, 3))


def fail(message):
    raise ValueError(message)


@pytest.fixture
def stop():
    """Return a function that stops a process; all are killed at the end."""
    stopped = []

    def at_once(process):
        stopped.append(process)
        os.kill(process, signal.SIGSTOP)

    yield at_once
    for process in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def test_results_come_in_order(client):
    futures = client.map(slow_rows, range(4), seconds=0.1, pure=False)
    found = Workers(client).results(futures)
    for seed, rows in enumerate(found):
        np.testing.assert_array_equal(rows, slow_rows(seed, 0))


def test_an_error_of_a_task_is_raised(client):
    futures = [client.submit(fail, "of the task"), client.submit(slow_rows, 1)]
    with pytest.raises(ValueError, match="of the task"):
        Workers(client).results(futures)


@pytest.mark.slow
@pytest.mark.alone
def test_a_task_may_take_longer_than_patience(client):
    future = client.submit(slow_rows, 1, seconds=4, pure=False)
    assert len(Workers(client, patience=1.5).results([future])) == 1
    assert len(Workers(client).alive()) == 2


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_a_worker_stopped_while_a_matrix_is_made(own_cluster, stop):
    client = own_cluster(2)
    place = Workers(client).alive()[0]
    process = process_of(client, place)
    # At that time some partitions are computed, some in progress, some pending.
    threading.Timer(1.0, stop, [process]).start()
    begin = time.monotonic()
    with dask.config.set({"hornbeam.patience": "1.5s"}):
        matrix = DaskDMatrix(client, [delayed(slow_rows)(k) for k in range(8)])
    assert 2.0 < time.monotonic() - begin < 45
    assert matrix.num_row() == 8 * 50
    assert place not in Workers(client).alive()


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_a_stopped_worker_with_inputs_of_other_tasks(own_cluster, stop):
    client = own_cluster(2)
    place, other = Workers(client).alive()
    process = process_of(client, place)
    rows = client.submit(
        slow_rows, 3, workers=[place], allow_other_workers=True, pure=False
    )
    distributed.wait(rows)
    stop(process)
    needs = client.submit(np.sum, rows, workers=[other])
    begin = time.monotonic()
    total, again = Workers(client, patience=1.5).results([needs, rows])
    assert time.monotonic() - begin < 45
    assert total == again.sum() == slow_rows(3, 0).sum()


@pytest.mark.slow
@pytest.mark.timeout(90)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_scheduler_that_dies_while_tasks_are_pending(own_scheduler, how):
    client, process = own_scheduler(1)
    future = client.submit(time.sleep, 60)
    threading.Timer(1.0, os.kill, [process.pid, how]).start()
    with pytest.raises(ClusterError, match=r"scheduler at tcp://.* does not answer"):
        Workers(client, patience=2.0).results([future])


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_all_workers_leave_while_tasks_are_pending(own_cluster, monkeypatch):
    monkeypatch.setattr("hornbeam.dask.workers.NO_WORKER_TIMEOUT", 2.0)
    client = own_cluster(1)
    future = client.submit(time.sleep, 60)
    threading.Timer(1.0, client.cluster.scale, [0]).start()
    with pytest.raises(ClusterError, match="no worker left that answers"):
        Workers(client, patience=2.0).results([future])


@pytest.mark.slow
def test_a_client_that_is_closed_while_tasks_are_pending(own_cluster):
    client = own_cluster(1)
    other = distributed.Client(client.scheduler.address)
    future = other.submit(time.sleep, 60)
    threading.Timer(1.0, other.close).start()
    with pytest.raises(ClusterError, match="client was closed"):
        Workers(other, patience=2.0).results([future])
