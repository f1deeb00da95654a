"""Sessions of Spark, of which a process has one at a time; all tests here are slow."""

import os
import shutil
import sys
from contextlib import chdir
from pathlib import Path
from tempfile import mkdtemp

import pytest

FOLDER = Path(__file__).parent
has_java = shutil.which("java") or "JAVA_HOME" in os.environ


@pytest.hookimpl(tryfirst=True)  # before unselected tests are removed
def pytest_collection_modifyitems(items):
    # What pyspark says of the pandas that is installed, which it takes tables by.
    newer = pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning")
    # CrossValidator leaves its threads to the garbage collector.
    pool = pytest.mark.filterwarnings("ignore:unclosed running multi:ResourceWarning")
    skip = pytest.mark.skip(reason="Spark needs Java: make java")
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(newer)
            item.add_marker(pool)
            if not has_java:
                item.add_marker(skip)


#: By its master: the session that runs.
running = {}


def start(master, **settings):
    """Return a session, the one that runs if it has this master."""
    from pyspark.sql import SparkSession

    if master not in running:
        stop()
        os.environ["PYSPARK_PYTHON"] = sys.executable
        # What workers unpickle is in modules of this folder.
        paths = [str(FOLDER), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        builder = SparkSession.builder.master(master).appName("hornbeam-tests")
        for name, value in {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.python.worker.reuse": "true",
            "spark.log.level": "OFF",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "240s",
        }.items():
            builder = builder.config(name, value)
        # Java works in the folder where it starts, also for later tests of the process.
        with chdir(mkdtemp()):
            running[master] = builder.getOrCreate()
    return running[master]


def stop():
    for master in list(running):
        running.pop(master).stop()


@pytest.hookimpl(trylast=True)  # after the fixtures of the test
def pytest_runtest_teardown(item, nextitem):
    if nextitem is None or FOLDER not in nextitem.path.parents:
        stop()


@pytest.fixture
def spark():
    """Return a session whose tasks are threads of one Java process."""
    return start("local[3]")


@pytest.fixture(scope="module")
def module_spark():
    """Return the same session, for the frames of a module that has no other one."""
    return start("local[3]")


@pytest.fixture
def spark_cluster():
    """Return a session with two executors, which are processes."""
    return start("local-cluster[2,1,1024]")
