"""Caller's threads, forks, interrupts, oversubscription and memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from samples import few_values

import hornbeam
from hornbeam import DMatrix

#: Enough rows for every kernel to use all threads.
N_ROWS = 200_000
PRELUDE = f"""
import os, signal, sys, threading, time
import numpy as np
import hornbeam

rng = np.random.default_rng(0)
rows = rng.normal(size=({N_ROWS}, 4)).astype(np.float32)
labels = rows[:, 0] * rows[:, 1] + rng.normal(size={N_ROWS})
data = hornbeam.DMatrix(rows, labels)

def train(rounds=2, **arguments):
    return hornbeam.train({{"nthread": 3}}, data, rounds, **arguments)
"""


def start(script):
    """Start Python with a script that has `data` and `train`."""
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(script, timeout=60):
    """Return what the script prints, and fail if it fails."""
    with start(script) as process:
        try:
            out, errors = process.communicate(timeout=timeout)
        finally:
            process.kill()
    assert process.returncode == 0, errors
    return out.split()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_small_tasks_run_on_the_calling_thread_and_a_fork_after_training_can_train():
    few, many, *digests = output_of(
        """
        small = hornbeam.DMatrix(rows[:2000], labels[:2000], nthread=4)
        booster = hornbeam.train({"nthread": 4}, small, 20, evals=[(small, "a")],
                                 verbose_eval=False)
        booster.inplace_predict(rows[:1000])
        print(threading.active_count())
        booster = train()
        print(threading.active_count())

        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        print(booster.digest(), flush=True)
        predicted = booster.inplace_predict(rows)
        for _ in range(2):
            child = os.fork()
            if child == 0:
                assert (booster.inplace_predict(rows) == predicted).all()
                print(train().digest(), flush=True)
                booster.update(data, 2)
                print(booster.digest(), flush=True)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        print(train().digest())
        booster.update(data, 2)
        print(booster.digest())
        """
    )
    assert few == "1"
    assert int(many) > 1
    two, three = digests[0], digests[-1]
    assert digests == [two, two, three, two, three, two, three]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_during_training_can_train():
    """The child process has none of its parent's threads and must not wait for them."""
    digests = output_of(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        train(1)
        busy = threading.Thread(target=train, args=(30,))
        busy.start()
        time.sleep(0.05)
        child = os.fork()
        if child == 0:
            print(train().digest(), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        busy.join()
        print(train().digest())
        """
    )
    assert len(digests) == 2
    assert digests[0] == digests[1]


@pytest.mark.alone
@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_an_interrupt_ends_training_within_a_second(threads):
    script = f"""
    # A shell starts a command in the background with interrupts ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    data.binned(256)
    def fit(rounds):
        return hornbeam.train({{"nthread": {threads}}}, data, rounds)
    before = fit(2).digest()
    print("ready", flush=True)
    try:
        fit(1_000_000)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print("same" if fit(2).digest() == before else "other", flush=True)
    """
    with start(script) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.5)
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n"
            assert time.monotonic() - sent < 1.0
            assert process.stdout.readline() == "same\n"
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_eight_threads_predict_while_four_train():
    rows, labels = few_values(20_000, 6)
    data = DMatrix(rows, labels)
    params = {"nthread": 2, "max_depth": 5}
    booster = hornbeam.train(params, data, 10)
    expected = booster.inplace_predict(rows)
    digest = hornbeam.train({**params, "subsample": 0.5}, data, 10).digest()
    done = threading.Event()

    def predict(number):
        times = 0
        while times < 3 or not done.is_set():
            part = rows[number * 1000 :]
            found = booster.inplace_predict(part)
            np.testing.assert_array_equal(found, expected[number * 1000 :])
            found = booster.predict(DMatrix(part), iteration_range=(0, number + 1))
            assert len(found) == len(part)
            times += 1
        return times

    def train(number):
        own = data if number % 2 else DMatrix(rows, labels)
        sampled = {**params, "subsample": 0.5}
        return {hornbeam.train(sampled, own, 10).digest() for _ in range(3)}

    with ThreadPoolExecutor(12) as pool:
        predicting = [pool.submit(predict, number) for number in range(8)]
        training = [pool.submit(train, number) for number in range(4)]
        try:
            assert all(each.result() == {digest} for each in training)
        finally:
            done.set()
        assert all(each.result() >= 3 for each in predicting)


def test_concurrent_first_predictions_of_one_booster():
    """Threads that need the same cached layout at the same time all get it."""
    rows, labels = few_values(3000, 6)
    booster = hornbeam.train({}, DMatrix(rows, labels), 30)
    expected = booster.copy().inplace_predict(rows)
    gate = threading.Barrier(8)

    def predict():
        gate.wait()
        return booster.inplace_predict(rows)

    with ThreadPoolExecutor(8) as pool:
        for each in [pool.submit(predict) for _ in range(8)]:
            np.testing.assert_array_equal(each.result(), expected)


def test_more_threads_than_processors():
    rows = np.random.default_rng(0).normal(size=(N_ROWS, 8)).astype(np.float32)
    labels = rows[:, 0] + rows[:, 1] ** 2
    digests = set()
    for threads in (1, 4 * (os.cpu_count() or 1) + 3, 0, -1):
        data = DMatrix(rows, labels, nthread=threads)
        booster = hornbeam.train({"nthread": threads}, data, 2)
        digests.add(booster.digest())
    assert len(digests) == 1


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_repeated_training_does_not_leak_memory():
    rows = np.random.default_rng(0).normal(size=(20_000, 20)).astype(np.float32)
    labels = rows[:, 0] + rows[:, 1]

    def once():
        data = DMatrix(rows, labels)
        params = {"nthread": 2, "subsample": 0.8, "max_depth": 6}
        booster = hornbeam.train(
            params, data, 3, evals=[(data, "a")], verbose_eval=False
        )
        booster.predict(data)
        booster.inplace_predict(rows)
        booster.update(data, 3)  # leaves a session open
        hornbeam.Booster(model_file=booster.save_raw())

    for _ in range(5):
        once()
    before = resident_bytes()
    for _ in range(40):
        once()
    # One training needs about 10 MB.
    assert resident_bytes() - before < 20e6


def test_training_memory_is_freed_after_training():
    """A trained booster keeps trees, but no rows."""
    import gc
    import weakref

    rows, labels = few_values(5000, 6)
    data = DMatrix(rows, labels)
    booster = hornbeam.train({}, data, 3)
    held = weakref.ref(data)
    del data
    gc.collect()
    assert held() is None
    assert booster.inplace_predict(rows).shape == (5000,)


@pytest.mark.slow
def test_a_booster_collected_during_training_does_no_harm():
    """The threads of its team have ended before the garbage collector runs."""
    output = output_of(
        """
        import gc
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60_000, 20))
        data = hornbeam.DMatrix(X, X[:, 0])
        for _ in range(3):
            booster = hornbeam.Booster({"nthread": 2})
            booster.update(data, 0)
            booster.itself = booster
            del booster
            gc.collect()
            hornbeam.train({"nthread": 2}, data, 1)
        print("done")
        """
    )
    assert output == ["done"]
