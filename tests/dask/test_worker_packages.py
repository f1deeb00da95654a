"""Workers without Hornbeam, or with another version of it, are an error."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import dask.array as da
import pytest
from clusters import start_cluster
from distributed import Client

import hornbeam
from hornbeam import ClusterError
from hornbeam.dask import DaskDMatrix

HERE = Path(hornbeam.__file__).parent


@pytest.fixture
def client_of_worker(tmp_path):
    """Return a function that starts a worker with a folder first on its path."""
    with start_cluster(0) as cluster, Client(cluster) as client:
        processes = []

        def start(folder):
            command = [sys.executable, "-m", "distributed.cli.dask_worker"]
            options = [cluster.scheduler_address, "--no-dashboard", "--no-nanny"]
            paths = os.pathsep.join([str(folder), *sys.path])
            process = subprocess.Popen(
                [*command, *options],
                env=os.environ | {"PYTHONPATH": paths},
                cwd=tmp_path,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            processes.append(process)
            client.wait_for_workers(1, timeout=30)
            return client

        yield start
        for process in processes:
            process.kill()
            process.wait()


def test_another_version(client_of_worker, tmp_path):
    ignored = shutil.ignore_patterns("*.nbi", "*.nbc")
    shutil.copytree(HERE, tmp_path / "hornbeam", ignore=ignored)
    face = tmp_path / "hornbeam" / "__init__.py"
    version = f'__version__ = "{hornbeam.__version__}"'
    assert version in face.read_text()
    face.write_text(face.read_text().replace(version, '__version__ = "0.0.1"'))
    client = client_of_worker(tmp_path)
    message = rf"tcp://.* has Hornbeam 0\.0\.1, and this process {hornbeam.__version__}"
    with pytest.raises(ClusterError, match=message):
        DaskDMatrix(client, da.ones((4, 2)))


def test_no_package(client_of_worker, tmp_path):
    missing = (
        'raise ModuleNotFoundError("No module named \'hornbeam\'", name="hornbeam")'
    )
    (tmp_path / "hornbeam.py").write_text(missing)
    client = client_of_worker(tmp_path)
    with pytest.raises(ClusterError, match=r"the worker at tcp://.* has no Hornbeam"):
        DaskDMatrix(client, da.ones((4, 2)))
