"""The default number of threads: affinity, environment and container limits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hornbeam.cpu_count import available_threads, processor_count

ASK = "from hornbeam.cpu_count import available_threads; print(available_threads())"
CGROUPS = Path("/sys/fs/cgroup")


def asked(*, group=None, code=ASK, **environment):
    """Return the number that a new process determines, optionally in a cgroup."""
    if group:
        code = f"open({str(group)!r}, 'w').write('0'); {code}"
    kept = {key: os.environ[key] for key in os.environ if "_NUM_THREADS" not in key}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**kept, **environment},
    )
    return int(ran.stdout)


def test_all_processors_by_default():
    assert 1 <= available_threads() <= processor_count() <= (os.cpu_count() or 1)


@pytest.mark.parametrize("name", ["NUMBA_NUM_THREADS", "OMP_NUM_THREADS"])
def test_thread_limits_in_the_environment_are_respected(name):
    assert asked(**{name: "1"}) == 1
    assert asked(**{name: " 1,4"}) == 1
    assert asked(**{name: "4096"}) == asked()
    assert asked(**{name: "0"}) == asked(**{name: "many"}) == asked()


def test_the_smallest_limit_applies():
    assert asked(NUMBA_NUM_THREADS="4096", OMP_NUM_THREADS="1") == 1


def test_a_limit_that_dask_sets_for_its_workers_is_not_one_of_this_process():
    # Each worker's nanny sets it in the process that starts the worker.
    code = f"import os, hornbeam; os.environ['OMP_NUM_THREADS'] = '1'; {ASK}"
    assert asked(code=code) == asked()


def test_cpu_affinity_is_respected():
    allowed = sorted(os.sched_getaffinity(0))
    try:
        os.sched_setaffinity(0, allowed[:1])
        assert available_threads() == processor_count() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert processor_count() == len(allowed)


def test_cgroup_quota_is_respected():
    group = CGROUPS / "cpu" / f"hornbeam-{os.getpid()}"
    try:
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text("100000")
    except OSError:
        pytest.skip("needs to make control groups of version 1: root, on some systems")
    try:
        (group / "cpu.cfs_quota_us").write_text("60000")
        assert asked(group=group / "cgroup.procs") == 1
        (group / "cpu.cfs_quota_us").write_text("110000")
        assert asked(group=group / "cgroup.procs") == min(2, processor_count())
        (group / "cpu.cfs_quota_us").write_text("-1")
        assert asked(group=group / "cgroup.procs") == asked()
    finally:
        group.rmdir()
