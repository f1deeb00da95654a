"""Fixtures: a local Ray of three CPUs for all tests here."""

import os

# Ray reads these when it is imported.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("RAY_TRAIN_V2_ENABLED", "1")

import pytest

ray = pytest.importorskip("ray")

FOLDER = os.path.dirname(__file__)


@pytest.hookimpl(tryfirst=True)  # before unselected tests are removed
def pytest_collection_modifyitems(items):
    for item in items:
        if str(item.path).startswith(FOLDER):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.filterwarnings("default"))


def start(setup=None):
    """Start Ray, whose workers import what this process does, and call `setup`."""
    path = os.pathsep.join([FOLDER, os.getcwd()])
    environment = {"env_vars": {"PYTHONPATH": path}}
    if setup is not None:
        environment["worker_process_setup_hook"] = setup
    ray.init(
        num_cpus=3,
        object_store_memory=200_000_000,
        include_dashboard=False,
        logging_level="ERROR",
        runtime_env=environment,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False


@pytest.fixture(scope="session")
def cluster():
    start()
    yield
    ray.shutdown()
