"""Groups of processes, or of threads that stand for them, and what they do in tests."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Pipe, wait

import numpy as np
from command_line import start_process

from hornbeam.distributed.group import Group
from hornbeam.distributed.tracker import Tracker


def run_group(task, n_workers, *args, tracker=None, call=None, **options):
    """Return the results of a task, or its errors as text, in the order of tasks.

    `task(group, *args)` runs in each worker, and `options` are those of its group.
    """
    own = tracker is None
    if own:
        tracker = Tracker(n_workers, "127.0.0.1", by_task=True)
    tracker.start()
    given = tracker.host, tracker.port, tracker.token
    call = call or call_in_threads
    results = call(_in_group, n_workers, given, options, task, args)
    if own:
        tracker.wait(10)
        tracker.close("the test has ended")
    return results


def call_in_threads(function, count, *args):
    """Return the results of `function(number, *args)` in threads of their own.

    An error is text. Threads start sooner than processes, and each has its own group.
    """

    def call(number):
        try:
            return function(number, *args)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(call, range(count)))


def call_in_processes(function, count, *args):
    """Return the results of `function(number, *args)` in processes of their own.

    An error is text; None stands for a process that was killed.
    """
    ends = []
    for number in range(count):
        here, there = Pipe(duplex=False)
        start_process(_call, there, function, number, *args)
        there.close()
        ends.append(here)
    results = []
    for end in ends:
        assert wait([end], 60)
        try:
            results.append(end.recv())
        except EOFError:
            results.append(None)
    return results


def _call(end, function, *args):
    try:
        end.send(function(*args))
    except Exception as error:
        end.send(f"{type(error).__name__}: {error}")


def _in_group(number, given, options, task, args):
    group = Group(*given, task=str(number), **options)
    try:
        return task(group, *args)
    finally:
        group.close()


# Tasks


def place(group):
    return group.rank, group.size


def calculate(group):
    """Return a sum, the values of all processes, and a result of the first one."""
    total = group.combine("sum", lambda: np.arange(4.0) + group.rank, np.add)
    large = group.combine("large", lambda: np.full(1 << 18, group.rank), np.maximum)
    first = group.combine("first", lambda: [group.rank], list.__add__, sorted)
    return total.tolist(), int(large.min()), first, group.gather("all", lambda: "abc")


def fail_in_a_call(group, rank):
    """Raise an error in a call of one process; then make another call."""

    def compute():
        if group.rank == rank:
            raise ValueError("no value")
        return 1

    try:
        group.combine("fail", compute, int.__add__)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    return text, group.combine("sum", lambda: 1, int.__add__)


def call_until_lost(group, rank, way):
    """Make calls for ever; one process stops in some way after ten of them."""
    for number in range(1 << 30):
        if number == 10 and group.rank == rank:
            if way == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if way == "stopped":
                os.kill(os.getpid(), signal.SIGSTOP)
            if way == "failed":
                group.fail("it has had enough")
            if way == "different":
                group.combine("other", lambda: 1, int.__add__)
            return "left"
        group.combine("sum", lambda: 1, int.__add__)
    return None
