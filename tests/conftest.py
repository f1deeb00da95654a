"""Configures the import path for `naive`, libraries' threads, hypothesis, processes."""

import gc
import logging
import os
from zlib import crc32

# Threads of OpenMP and OpenBLAS would spin while they wait, which takes the processor
# from the other processes that run tests. Their libraries read this when they load.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Spark's Java ends after a minute or two: its second compiler and collecting garbage in
# parallel would take two fifths of the processor's time that the tests of Spark take.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
# Hypothesis would import trio, for tests that are asynchronous.
os.environ.setdefault("HYPOTHESIS_NO_PLUGINS", "1")

import profiles  # noqa: F401
import pytest
from native_signatures import pytest_runtest_teardown  # noqa: F401
from selection import (
    pytest_ignore_collect,  # noqa: F401
    pytest_itemcollected,  # noqa: F401
    share_of,
    takes_part,
)
from xdist.scheduler import LoadFileScheduling

#: Beginnings of the paths of tests that share a cluster, a session, the programs of a
#: device, or the process from which theirs are forked. A process of tests has one of
#: these, with the modules of commands or of Dask's workers, and to load them takes
#: seconds.
SHARING = (
    ("tests/dask/",),
    ("tests/ray/test_ray_train",),
    ("tests/spark/",),
    (
        *("tests/cli/", "tests/distributed/", "tests/features/test_dates"),
        *("tests/backends/test_opencl_devices", "tests/xgboost/test_collective"),
        *("tests/xgboost/test_group_faults", "tests/test_killed_training"),
    ),
    ("tests/backends/test_opencl_",),
)

#: Beginnings of the paths of the tests that take longest. They run first, so that at
#: the end no process has a long file left while the others have none.
LONGEST = (
    *("tests/spark/", "tests/ray/", "tests/dask/", "tests/cli/"),
    *("tests/backends/test_opencl", "tests/test_quality"),
    *("tests/properties/", "tests/test_site"),
    *("tests/test_docs", "tests/benchmarks/", "tests/test_io_faults"),
    *("tests/test_contributing", "tests/test_digests"),
    *("tests/kernels/test_jit", "tests/explain/report/"),
    *("tests/xgboost/test_group_machines", "tests/data/sources/test_stream"),
    *("tests/test_warm_up", "tests/test_demo", "tests/kernels/test_native"),
    *("tests/test_gallery", "tests/test_threads"),
)


#: The files of which this process has run a test.
begun = set()


@pytest.fixture
def thread_counts(request):
    """Return the numbers of threads on which a case has to give the same bits.

    A run that leaves cases out takes one thread and, in turn, two, three or seven.
    """
    counts = (1, 2, 3, 7)
    if not takes_part(request.config):
        return counts
    return 1, counts[1 + crc32(request.node.nodeid.encode()) % 3]


class ByFileOrShare(LoadFileScheduling):
    """Runs the tests of a file in one process, and files that share in one."""

    def _split_scope(self, nodeid):
        file = super()._split_scope(nodeid)
        return next((own[0] for own in SHARING if file.startswith(own)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    config.option.loadscopereorder = False  # to the files with the most tests first
    return ByFileOrShare(config, log) if config.option.dist == "loadfile" else None


@pytest.hookimpl(trylast=True)  # when unselected tests are removed
def pytest_collection_modifyitems(config, items):
    if takes_part(config):
        kept = share_of(items)
        left_out = set(items).difference(kept)
        config.hook.pytest_deselected(items=[one for one in items if one in left_out])
        items[:] = kept
    places = {beginning: place for place, beginning in enumerate(LONGEST)}

    def place(item):
        found = (at for own, at in places.items() if item.nodeid.startswith(own))
        return next(found, len(places))

    items.sort(key=place)


def pytest_collectstart():
    """Stop the garbage collector while objects are made that stay.

    To search them would take a sixth of the time that collecting takes.
    """
    gc.disable()


def pytest_collection_finish():
    """Keep the garbage collector from searching all imported modules again and again.

    Compiling sets it off often, and some tests do. What collecting left over is kept
    as well: to search for it here would take a second of each process.
    """
    gc.freeze()
    gc.set_threshold(10_000)  # objects, not 700: tests that need collecting ask for it
    gc.enable()


def pytest_runtest_setup(item):
    """Keep the garbage collector from searching what tests of other files have left.

    Tests that ask for it would search modules, figures and syntax trees, for a second.
    """
    if item.path not in begun:
        begun.add(item.path)
        gc.collect(1)
        gc.freeze()
    # Optuna's databases disable it with all others.
    logging.getLogger("hornbeam").disabled = False
