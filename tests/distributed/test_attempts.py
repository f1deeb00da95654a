"""Attempts of a training: each has a tracker of its own, and the last state."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

import hornbeam
from hornbeam.distributed.attempts import (
    Coordinator,
    Outcome,
    result_of,
    run_attempts,
)
from hornbeam.distributed.connection import connect
from hornbeam.distributed.group import is_group_failure, member
from hornbeam.distributed.run_state import RunState, StatesOnDisk, latest
from hornbeam.errors import ClusterError, ErrorCode


def state(epoch):
    return RunState(epoch, b"", {}, {})


def size_of_group(tracker):
    with member(*tracker) as group:
        return group.size


def test_an_attempt_has_another_tracker_and_the_state_that_came_farthest():
    seen = []

    def attempt(tracker, start):
        seen.append((tracker, start))
        if len(seen) < 3:
            yield {}
            yield {1: None}
            with pytest.raises(ClusterError) as caught, member(*tracker, retries=0):
                pass
            assert caught.value.code == ErrorCode.TRACKER_NOT_FOUND
            own = state(5 - len(seen))
            yield {0: Outcome("first", error=caught.value, state=own)}
        else:
            with ThreadPoolExecutor(2) as pool:
                sizes = list(pool.map(size_of_group, [tracker] * 2))
            yield {1: Outcome("second"), 0: Outcome("first", result=sizes)}

    assert run_attempts(attempt, ["first", "second"], "127.0.0.1", 2) == [2, 2]
    assert [start and start.epoch for _, start in seen] == [None, 4, 4]
    assert len({tracker for tracker, _ in seen}) == 3


def test_workers_that_are_lost_too_often_are_named():
    def attempt(tracker, start):
        yield {1: None, 0: Outcome("first", error=lost)}

    lost = ClusterError("another one", code=ErrorCode.GROUP_FAILED)
    with pytest.raises(ClusterError, match="lost 2 times: second, second;") as caught:
        run_attempts(attempt, ["first", "second"], "127.0.0.1", 1)
    assert caught.value.code == ErrorCode.WORKERS_LOST


def test_the_others_of_an_attempt_are_ended_when_one_fails_at_the_client():
    has_ended = False

    def attempt(tracker, start):
        nonlocal has_ended
        try:
            yield {}
            raise ClusterError("no", code=ErrorCode.WORKER_VERSION_MISMATCH)
        finally:
            has_ended = True

    with pytest.raises(ClusterError, match="no"):
        run_attempts(attempt, ["first"], "127.0.0.1", 1)
    assert has_ended


def test_the_latest_state_is_that_of_the_last_round():
    assert latest(state(1), state(3), None, state(2)).epoch == 3
    assert latest(None) is None


def test_the_error_that_led_to_the_others_is_raised():
    lost = ClusterError("another one", code=ErrorCode.GROUP_FAILED)
    assert is_group_failure(lost)
    found = [Outcome("first", error=lost), Outcome("second", error=KeyError("x"))]
    with pytest.raises(hornbeam.ClusterError, match="second raised KeyError"):
        result_of(found)
    assert result_of([Outcome("first", result=5), Outcome("second")]) == 5


def test_attempts_that_an_engine_begins_go_on_from_the_last_state():
    with Coordinator(2, "127.0.0.1", 0, 0) as coordinator:
        first = connect(*coordinator.address, 10.0)
        tracker, start = first.receive()
        assert start is None
        assert coordinator.failure is None
        for epoch in (2, 4, 3):
            first.send(state(epoch))
        first.close()
        deadline = time.monotonic() + 10.0
        while start is None and time.monotonic() < deadline:  # until all have come
            with closing(connect(*coordinator.address, 10.0)) as second:
                again, start = second.receive()
        assert start.epoch in (2, 4)
        with pytest.raises(ClusterError), member(*tracker, retries=0):
            pass
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(size_of_group, [again] * 2)) == [2, 2]
    with pytest.raises(OSError):
        connect(*coordinator.address, 10.0)


def test_states_on_disk_are_those_of_one_training(tmp_path):
    one, other = (StatesOnDisk(tmp_path, "run", task) for task in ("0", "1"))
    assert one.latest() is None
    one.keep(state(2))
    other.keep(state(4))
    one.keep(state(3))
    assert one.latest().epoch == other.latest().epoch == 4
    one.end()
    other.end()
    # Its results were lost, and it begins again.
    assert StatesOnDisk(tmp_path, "run", "0").latest().epoch == 4
    other.end()
    assert StatesOnDisk(tmp_path, "next", "0").latest() is None
    assert list(tmp_path.iterdir()) == []
