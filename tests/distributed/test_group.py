import os
import signal
import socket
import threading
import time

import pytest
from group_processes import (
    calculate,
    call_in_processes,
    call_until_lost,
    fail_in_a_call,
    place,
    run_group,
)

import hornbeam
from hornbeam import ClusterError
from hornbeam.distributed import connection
from hornbeam.distributed import group as groups
from hornbeam.distributed import tracker as trackers
from hornbeam.distributed.connection import connect
from hornbeam.distributed.group import Group
from hornbeam.distributed.tracker import PROTOCOL, Tracker


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6])
def test_values_are_merged_and_all_get_the_result(size):
    call = call_in_processes if size == 3 else None
    for total, large, first, every in run_group(calculate, size, call=call):
        ranks = list(range(size))
        assert total == [size * i + sum(ranks) for i in range(4)]
        assert large == size - 1
        assert first == ranks
        assert every == ["abc"] * size


def test_ranks_follow_the_names_of_tasks():
    assert run_group(place, 3) == [(0, 3), (1, 3), (2, 3)]


def test_an_error_in_a_call_is_raised_in_all_and_the_group_goes_on():
    found = run_group(fail_in_a_call, 4, 2)
    assert [total for _, total in found] == [4] * 4
    texts = [text for text, _ in found]
    assert texts[2] == "ValueError: no value"
    assert {text for text in texts if text != texts[2]} == {
        "ClusterError: ValueError: no value"
    }


WAYS = {
    "killed": "was lost: its process ended",
    "failed": "failed: it has had enough",
    "left": "has left it, or was lost",
    "different": "all processes must make the same calls in the same order",
}


@pytest.mark.parametrize("way", WAYS)
def test_all_get_one_error_if_a_process_does_not_go_on(way):
    rank = 2
    call = call_in_processes if way == "killed" else None
    found = run_group(call_until_lost, 4, rank, way, call=call)
    assert found.pop(rank) == {"killed": None, "different": found[0]}.get(way, "left")
    for text in found:
        assert text == found[0]
        assert text.startswith("ClusterError: the group of processes cannot go on: ")
        assert f"worker {rank} (127.0.0.1, process " in text
        assert WAYS[way] in text


def test_a_process_that_is_silent_is_given_up():
    tracker = Tracker(2, "127.0.0.1")
    tracker.start()
    others = []
    silent = threading.Thread(
        target=lambda: others.append(Group(tracker.host, tracker.port, tracker.token))
    )
    silent.start()
    own = Group(tracker.host, tracker.port, tracker.token, timeout=0.3)
    silent.join()
    with pytest.raises(ClusterError, match=r"sent nothing for 0\.3 seconds"):
        own.gather("wait", lambda: 1)
    (other,) = others
    with pytest.raises(ClusterError, match=r"sent nothing for 0\.3 seconds"):
        for _ in range(2):  # it may still have found the value of the first call
            other.gather("wait", lambda: 1)
    assert "sent nothing" in tracker.failure
    own.close()
    other.close()


@pytest.mark.parametrize("finish", [None, sorted])
@pytest.mark.parametrize("silent", [0, 1, 3, 5])
def test_the_silent_process_is_the_one_that_is_named(silent, finish, monkeypatch):
    monkeypatch.setattr(groups, "_LONGER", 0.2)
    monkeypatch.setattr(connection, "_TICK", 0.02)
    ended = threading.Event()

    def call(group):
        if group.rank == silent:
            ended.wait(10)
            return "silent"
        try:
            return group.combine("ranks", lambda: [group.rank], list.__add__, finish)
        finally:
            ended.set()

    found = run_group(call, 6, timeout=0.2)
    assert found.pop(silent) == "silent"
    for text in found:
        assert f"worker {silent} (" in text
        assert "sent nothing for 0.2 seconds" in text


def test_another_token_is_an_error_and_the_group_still_comes_about():
    tracker = Tracker(1, "127.0.0.1")
    tracker.start()
    with pytest.raises(ClusterError, match="it has another token"):
        Group(tracker.host, tracker.port, "wrong")
    with socket.create_connection((tracker.host, tracker.port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
        group = Group(tracker.host, tracker.port, tracker.token)
    assert group.gather("place", lambda: group.rank) == [0]
    group.close()
    assert tracker.wait(10)
    assert tracker.failure is None


def test_a_process_that_connects_and_says_nothing_is_let_go(monkeypatch):
    monkeypatch.setattr(trackers, "_HELLO_TIMEOUT", 0.2)
    tracker = Tracker(1, "127.0.0.1")
    tracker.start()
    silent = connect(tracker.host, tracker.port, tracker.token, timeout=10)
    with pytest.raises(OSError):
        silent.receive_text()
    silent.close()
    group = Group(tracker.host, tracker.port, tracker.token)
    assert group.gather("place", lambda: group.rank) == [0]
    group.close()


def test_a_first_message_that_is_wrong_is_an_error_in_all():
    tracker = Tracker(2, "127.0.0.1")
    tracker.start()
    errors = []

    def join():
        with pytest.raises(ClusterError) as caught:
            Group(tracker.host, tracker.port, tracker.token)
        errors.append(str(caught.value))

    first = threading.Thread(target=join)
    first.start()
    while not tracker._workers:
        time.sleep(0.01)
    wrong = connect(tracker.host, tracker.port, tracker.token, timeout=10)
    wrong.send_text(host="127.0.0.1", port=[1])
    first.join()
    wrong.close()
    assert "at 127.0.0.1 has sent a wrong message" in errors[0]


def test_another_version_is_an_error_in_all(monkeypatch):
    tracker = Tracker(2, "127.0.0.1")
    tracker.start()
    errors = []

    def join():
        with pytest.raises(ClusterError) as caught:
            Group(tracker.host, tracker.port, tracker.token)
        errors.append(str(caught.value))

    first = threading.Thread(target=join)
    first.start()
    while not tracker._workers:
        time.sleep(0.01)
    monkeypatch.setattr(groups, "__version__", "99.0")
    join()
    first.join()
    assert errors[0] == errors[1]
    assert f"runs Hornbeam 99.0, protocol {PROTOCOL}" in errors[0]


def test_a_process_that_fails_before_it_has_connected_to_the_others():
    tracker = Tracker(2, "127.0.0.1", by_task=True)
    tracker.start()
    place = tracker.host, tracker.port, tracker.token
    failing = connect(*place, timeout=10)
    hello = {"host": "127.0.0.1", "port": 1, "pid": 2, "task": "1"}
    failing.send_text(**hello, version=hornbeam.__version__, protocol=PROTOCOL)

    def fail():
        assert failing.receive_text()["rank"] == 1
        failing.send_text(failure="no memory")

    failure = threading.Thread(target=fail)
    failure.start()
    with pytest.raises(ClusterError, match="cannot go on: no memory"):
        Group(*place, task="0")
    failure.join()
    failing.close()


def test_a_tracker_does_not_wait_for_ever():
    tracker = Tracker(3, "127.0.0.1", timeout=0.6)
    tracker.start()
    with pytest.raises(ClusterError, match="another token"):
        Group(tracker.host, tracker.port, "wrong")
    with pytest.raises(ClusterError) as caught:
        Group(tracker.host, tracker.port, tracker.token)
    assert "1 of 3 have joined" in str(caught.value)
    assert "connections without the token came from ['127.0.0.1']" in str(caught.value)


def test_no_tracker_and_a_port_in_use():
    tracker = Tracker(2, "127.0.0.1")
    with pytest.raises(ClusterError, match="cannot listen"):
        Tracker(2, "127.0.0.1", tracker.port)
    tracker.start()
    tracker.close("enough")
    tracker.wait()
    with pytest.raises(ClusterError, match="there is no tracker at"):
        Group(tracker.host, 1, tracker.token, retries=0)


def test_a_tracker_that_is_not_started(monkeypatch):
    monkeypatch.setattr(connection, "_HANDSHAKE_TIMEOUT", 0.1)
    tracker = Tracker(2, "127.0.0.1")
    with pytest.raises(ClusterError, match="start it before"):
        Group(tracker.host, tracker.port, tracker.token, retries=0)
    tracker.close("enough")


def test_more_processes_than_the_group_has():
    tracker = Tracker(1, "127.0.0.1")
    tracker.start()
    group = Group(tracker.host, tracker.port, tracker.token)
    with pytest.raises(ClusterError, match="all 1 processes have joined before"):
        Group(tracker.host, tracker.port, tracker.token)
    assert group.gather("place", lambda: group.rank) == [0]
    group.close()


@pytest.mark.slow
def test_a_stopped_process_is_given_up():
    tracker = Tracker(3, "127.0.0.1", by_task=True)

    def wake():
        tracker.wait(30)
        for worker in tracker._workers:
            os.kill(worker.pid, signal.SIGCONT)

    watcher = threading.Thread(target=wake)
    watcher.start()
    options = {"tracker": tracker, "timeout": 1.0, "call": call_in_processes}
    found = run_group(call_until_lost, 3, 1, "stopped", **options)
    watcher.join()
    assert found[0] == found[2]
    assert "worker 1" in found[0]
    assert "sent nothing for 1 seconds" in found[0]
