"""The benchmark of threads tells the time of one thread from the time of many."""

from __future__ import annotations

import time

import pytest

from benchmarks.threads import amdahl_share, sharing, waiting_share
from hornbeam.binning.threads import in_threads
from hornbeam.kernels.team import Team

BUSY = 0.1


def work(*_):
    """Use the processor for `BUSY` seconds."""
    start = time.thread_time()
    while time.thread_time() - start < BUSY:
        pass


def test_time_alone_is_outside_shared_work():
    with sharing() as found:
        Team(2).run(work, 2)
        in_threads(work, range(2), 2)
    assert found.alone < BUSY / 2


def test_python_and_kernels_of_one_thread_are_time_alone():
    with sharing() as found:
        work()
        Team(2).run(work, 1)
        in_threads(work, range(1), 1)
    assert 3 * BUSY <= found.alone < 3.5 * BUSY
    assert found.dispatches == 0


def test_dispatches_are_counted_until_the_end():
    team = Team(2)
    with sharing() as found:
        team.run(work, 2)
        team.run(work, 2)
    team.run(work, 2)
    assert found.dispatches == 2


@pytest.mark.parametrize("threads", [2, 16])
def test_shares_are_those_that_the_times_were_made_from(threads):
    one, serial = 8.0, 0.05
    several = one * (serial + (1 - serial) / threads)
    assert amdahl_share(one, several, threads) == pytest.approx(serial)
    # All threads but one spin for the serial time.
    spent = one * (1 + serial * (threads - 1))
    assert waiting_share(one, spent, threads) == pytest.approx(serial)
