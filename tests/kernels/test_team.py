"""Teams of threads: tasks, barriers, failures, forks, and small work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from kernel_calls import needs_compiler
from numba import njit

import hornbeam
import hornbeam.kernels.intrinsics  # which functions of Numba's own need
from hornbeam.cpu_count import available_threads
from hornbeam.kernels.jit import COMPILED, NATIVE
from hornbeam.kernels.sync import (
    SYNC_SIZE,
    ask_to_stop,
    atomic_add,
    barrier,
    next_task,
    next_task_of_side,
    prefetch,
    sharers_for,
    threads_for,
    yield_processor,
)
from hornbeam.kernels.team import Team, lease


@njit(nogil=True)
def meet(member, n_threads, sync, rounds, places, errors):
    """Synchronise `rounds` times; count the threads in the wrong round."""
    for r in range(rounds):
        places[member, 0] = r
        barrier(sync, n_threads)
        for other in range(n_threads):
            errors[member] += places[other, 0] != r
        barrier(sync, n_threads)


@njit(nogil=True)
def work(member, n_threads, sync, done):
    """Run the tasks of three phases; none may begin before the previous phase ends."""
    for phase in range(3):
        task = next_task(sync, phase)
        while task < done.shape[1]:
            done[phase, task] += 1
            for before in range(done.shape[1]):
                if phase > 0 and done[phase - 1, before] == 0:
                    done[phase, task] += 1
            task = next_task(sync, phase)
        barrier(sync, n_threads)


@njit(nogil=True)
def work_from_sides(member, n_threads, sync, done, first):
    """Run the tasks of a phase; write the first one of each thread."""
    count = done.size
    task = next_task_of_side(sync, 0, member, count)
    first[member] = task
    while task < count:
        done[task] += 1
        task = next_task_of_side(sync, 0, member, count)


def check(team, n_threads, tasks=200):
    """Assert that the team runs all tasks of a job once, phase by phase."""
    done = np.zeros((3, tasks), np.int64)
    team.run(work, n_threads, done)
    assert (done == 1).all()


def hornbeam_threads():
    """Return the threads of all teams."""
    return {
        thread for thread in threading.enumerate() if thread.name.startswith("hornbeam")
    }


@needs_compiler
@pytest.mark.parametrize(
    ("n_threads", "rounds"),
    [
        *((2, 20_000), (3, 500), (7, 150)),
        # With more threads than cores each barrier waits for the operating system.
        *(
            pytest.param(*many, marks=pytest.mark.slow)
            for many in ((3, 4500), (7, 1500))
        ),
    ],
)
def test_no_thread_passes_a_barrier_alone(n_threads, rounds):
    with lease(n_threads) as team:
        places, errors = np.zeros((n_threads, 8), np.int64), np.zeros(n_threads)
        team.run(meet, n_threads, rounds, places, errors)
        assert not errors.any()


@needs_compiler
@pytest.mark.parametrize("n_threads", [2, 3, 7])
def test_every_task_is_done_once(n_threads):
    with lease(n_threads) as team:
        for tasks in [1, 2, 5, 1000] * 25:
            check(team, n_threads, tasks)


def test_one_thread():
    team = Team(7)
    before = hornbeam_threads()
    check(team, 1)
    assert hornbeam_threads() == before


@needs_compiler
def test_fewer_threads_than_the_team_has():
    team = Team(7)
    for n_threads in (2, 5, 1, 7, 3):
        check(team, n_threads)


@njit(nogil=True)
def note(member, n_threads, sync, number, notes, ended):
    """Note a call, and which tasks its threads had; end the job at the tenth call."""
    atomic_add(notes, 10 + next_task(sync, 0), 1)
    barrier(sync, n_threads)
    if member == 0:
        count = notes[-1]
        if count < 10:
            notes[count] = number
        notes[-1] += 1
        if notes[-1] == ended.size:
            ended[0] = 1


@pytest.mark.parametrize("most", [5, 7, 9, 100])
@pytest.mark.parametrize("n_threads", [1, 2, 3] if COMPILED else [1])
def test_calls_are_repeated_until_one_ends_them(n_threads, most):
    team = Team(4)
    notes = np.zeros(20, np.int64)
    ended = np.zeros(most, np.int64)
    calls = [
        (note, threads, number, notes, ended)
        for number, threads in enumerate([n_threads, 1, n_threads], 1)
    ]
    assert team.repeat(calls, 3, ended) == min(most - 1, 9) // 3
    made = min(most, 9)
    assert notes[:10].tolist() == ([1, 2, 3] * 3)[:made] + [0] * (10 - made)
    # The tasks of each call begin at 0.
    assert notes[10] == made and notes[10 + n_threads] == 0
    check(team, n_threads)


class OwnError(Exception):
    pass


@needs_compiler
@pytest.mark.parametrize("n_threads", [2, 3, 7])
@pytest.mark.parametrize("failing", [0, 1])
def test_a_failing_thread_does_not_leave_the_others_waiting(failing, n_threads):
    def fail(member, n_threads, sync):
        if member == failing:
            raise OwnError
        barrier(sync, n_threads)

    with lease(n_threads) as team:
        for _ in range(20):
            with pytest.raises(OwnError):
                team.run(fail, n_threads)
            check(team, n_threads)


@pytest.fixture
def interrupts():
    """Let interrupts raise: a shell ignores them in commands in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@needs_compiler
@pytest.mark.parametrize("n_threads", [2, 7])
@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_leaves_a_usable_team(n_threads):
    def interrupt(member, n_threads, sync):
        if member == 0:
            signal.raise_signal(signal.SIGINT)
        barrier(sync, n_threads)

    with lease(n_threads) as team:
        for _ in range(20):
            with pytest.raises(KeyboardInterrupt):
                team.run(interrupt, n_threads)
            check(team, n_threads)


def test_an_error_in_one_thread():
    def fail(member, n_threads, sync):
        raise OwnError

    team = Team(2)
    with pytest.raises(OwnError):
        team.run(fail, 1)
    check(team, 1)


@needs_compiler
def test_many_threads_lease_at_once():
    start = threading.Barrier(8)
    taken, most = [], 0
    lock = threading.Lock()

    def use(number):
        nonlocal most
        start.wait()
        for _ in range(20):
            with lease(3) as team:
                with lock:
                    assert all(team is not other for other in taken)
                    taken.append(team)
                    most = max(most, len(taken))
                check(team, 3, 20)
                with lock:
                    taken[:] = [other for other in taken if other is not team]
        return number

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(use, range(8))) == list(range(8))
    assert most > 1 and not taken


def test_a_team_is_reused_after_an_error():
    with pytest.raises(OwnError), lease(5) as first:
        raise OwnError
    with lease(5) as again, lease(5) as other:
        assert again is first and other is not first


def test_size_of_a_team():
    assert available_threads() >= 1
    assert Team(3).size == 3
    for size in (0, -1):
        assert Team(size).size == available_threads()
        with lease(size) as team:
            assert team.size == available_threads()


def test_small_work_uses_one_thread():
    team = Team(4)
    assert team.threads_for(0) == team.threads_for(100_000) == 1
    if COMPILED:
        # Threads of a binary begin sooner than those of Python.
        assert team.threads_for(10**6) == (3 if NATIVE is None else 4)
        assert team.threads_for(10**9) == threads_for(4, 10**9) == 4
        assert sharers_for(4, 10**6, False) == 3
        # Threads that wait need not be woken.
        assert sharers_for(4, 40_000, True) == 2
        assert sharers_for(4, 20_000, True) == sharers_for(1, 10**9, True) == 1
    else:
        assert team.threads_for(10**9) == 1


def test_a_small_fit_starts_no_threads():
    rng = np.random.default_rng(0)
    rows = 200 if COMPILED else 20
    X, y = rng.normal(size=(rows, 2)), rng.integers(0, 2, rows)
    before = hornbeam_threads()
    params = {"nthread": 6, "max_depth": 2, "objective": "binary:logistic"}
    matrix = hornbeam.DMatrix(X, y)
    booster = hornbeam.train(params, matrix, 2, evals=[(matrix, "data")])
    booster.predict(matrix)
    assert hornbeam_threads() == before


FORK = """
    import os
    import threading
    import numpy as np
    import hornbeam

    def digest():
        rng = np.random.default_rng(0)
        X = rng.normal(size=(80_000, 8))
        y = X[:, 0] * X[:, 1] + rng.normal(size=len(X))
        params = {"nthread": 3, "max_depth": 3}
        return hornbeam.train(params, hornbeam.DMatrix(X, y), 3).digest()

    first = digest()
    names = [thread.name for thread in threading.enumerate()]
    assert any(name.startswith("hornbeam") for name in names), names
    for _ in range(2):
        child = os.fork()
        if child == 0:
            os._exit(0 if digest() == first else 3)
        assert digest() == first
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
    print("both")
"""


@pytest.mark.slow
@needs_compiler
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_parent_and_child_of_a_fork_both_work():
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(FORK)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "both\n", done.stderr


def test_the_words_of_a_team():
    sync = np.zeros(SYNC_SIZE, np.int64)
    assert [next_task(sync, 1) for _ in range(3)] == [0, 1, 2]
    assert next_task(sync, 0) == 0
    assert atomic_add(sync, 5, 7) == 0 and atomic_add(sync, 5, 1) == 7
    barrier(sync, 1)
    prefetch(sync, np.uint64(3))
    yield_processor()
    ask_to_stop(sync)
    if COMPILED:
        barrier(sync, 2)  # no other thread arrives, and none is waited for


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_threads_of_odd_ids_take_tasks_from_the_back(count):
    sync = np.zeros(SYNC_SIZE, np.int64)
    taken = [next_task_of_side(sync, 1, thread, count) for thread in (0, 1, 3, 2)]
    expected = [0, count - 1, count - 2, 1]
    for i, task in enumerate(taken):
        assert task == (expected[i] if i < count else count)
    rest = [next_task_of_side(sync, 1, 1, count) for _ in range(count + 1)]
    assert sorted({*taken, *rest} - {count}) == list(range(count))
    assert rest[-1] == count


@needs_compiler
@pytest.mark.parametrize("n_threads", [1, 2, 3, 7])
def test_each_task_of_two_sides_is_run_once(n_threads):
    done, first = np.zeros(5_000, np.int64), np.zeros(n_threads, np.int64)
    with lease(n_threads) as team:
        team.run(work_from_sides, n_threads, done, first)
    assert (done == 1).all()
