"""Fixtures: a cluster shared by all tests, and other clusters."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

distributed = pytest.importorskip("distributed")

from clusters import start_cluster  # noqa: E402

FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before unselected tests are removed
def pytest_collection_modifyitems(items):
    """Run slow tests that strike a cluster apart: their timeouts depend on the load."""
    for item in items:
        own = {"own_cluster", "own_scheduler"} & set(item.fixturenames)
        if own and item.get_closest_marker("slow") and FOLDER in item.path.parents:
            item.add_marker(pytest.mark.alone)
            item.add_marker(pytest.mark.strikes)


#: Variables that a worker's nanny sets in this process for the worker that it starts.
SET_BY_DASK = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
before = {name: os.environ.get(name) for name in SET_BY_DASK}


@pytest.fixture(autouse=True)
def same_environment():
    """Leave the processes of later tests the number of threads that they had."""
    yield
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


shared = []


@pytest.fixture
def cluster():
    """Return the shared cluster, which is closed after the last test of this folder."""
    if not shared:
        shared.append(start_cluster())
    return shared[0]


@pytest.hookimpl(trylast=True)  # after the fixtures of the test
def pytest_runtest_teardown(item, nextitem):
    if nextitem is None or FOLDER not in nextitem.path.parents:
        while shared:
            shared.pop().close()


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def own_cluster():
    """Return a function that starts a cluster whose workers a test may kill."""
    started = []

    def start(n_workers=2, **options):
        cluster = start_cluster(n_workers, **options)
        started.append(cluster)
        client = distributed.Client(cluster)
        started.append(client)
        return client

    yield start
    for one in reversed(started):
        one.close()


@pytest.fixture
def own_scheduler(tmp_path):
    """Return a function that starts a scheduler process, workers and a client."""
    processes, clients = [], []

    def start(n_workers):
        file = tmp_path / "scheduler.json"
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
        options = ["--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
        scheduler = run([*command, "--host", "127.0.0.1", *options])
        for _ in range(n_workers):
            command = [sys.executable, "-m", "distributed.cli.dask_worker"]
            options = ["--nthreads", "1", "--no-dashboard", "--no-nanny"]
            run([*command, "--scheduler-file", str(file), *options])
        client = distributed.Client(scheduler_file=str(file))
        clients.append(client)
        client.wait_for_workers(n_workers, timeout=30)
        return client, scheduler

    def run(command):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
    for client in clients:
        client.close(timeout=2)
