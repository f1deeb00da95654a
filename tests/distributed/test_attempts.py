"""Attempts of a training: each has a tracker of its own, and the last state."""

import pytest

import hornbeam
from hornbeam.distributed.attempts import Attempts, Outcome, result_of
from hornbeam.distributed.group import member
from hornbeam.distributed.run_state import RunState
from hornbeam.errors import ClusterError, ErrorCode


def state(epoch):
    return RunState(epoch, b"", {}, {})


def test_an_attempt_has_another_tracker_and_the_state_that_came_farthest():
    attempts = Attempts(1, "127.0.0.1")
    first, start = attempts.begin()
    assert start is None
    attempts.keep(state(1), state(3), None)
    attempts.keep(state(2))
    second, start = attempts.begin()
    assert start.epoch == 3
    with pytest.raises(ClusterError) as caught, member(*first, retries=0):
        pass
    assert caught.value.code == ErrorCode.TRACKER_NOT_FOUND
    with member(*second) as group:
        assert group.size == 1
        assert attempts.failure is None
    attempts.wait(10.0)
    attempts.end("the training has ended")


def test_the_error_that_led_to_the_others_is_raised():
    lost = ClusterError("another one", code=ErrorCode.GROUP_FAILED)
    found = [Outcome("first", error=lost), Outcome("second", error=KeyError("x"))]
    with pytest.raises(hornbeam.ClusterError, match="second raised KeyError"):
        result_of(found)
    assert result_of([Outcome("first", result=5), Outcome("second")]) == 5
