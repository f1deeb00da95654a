"""Messages: values arrive as they were sent, or the broken connection is an error."""

import pickle
import socket
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam import ClusterError
from hornbeam.distributed.connection import Connection
from hornbeam.distributed.messages import (
    GarbledMessageError,
    Message,
    sendable,
    unpack,
)


class StalledError(Exception):
    """Raised by a stalled connection."""


def give_up():
    raise StalledError


@pytest.fixture
def ends():
    """Return the two ends of a connection; the first one gives up when it stalls."""
    pair = socket.socketpair()
    yield Connection(pair[0], give_up), Connection(pair[1])
    for one in pair:
        one.close()


def sent(value):
    """Return a value that went through a connection."""
    ours, theirs = (Connection(one) for one in socket.socketpair())
    sending = threading.Thread(target=ours.send, args=(value,))
    sending.start()
    received = theirs.receive()
    sending.join()
    ours.close()
    theirs.close()
    return received


@pytest.mark.parametrize(
    "carry", [sent, lambda value: unpack(Message.of(value).packed())]
)
@given(
    shapes=st.lists(
        st.tuples(
            st.integers(0, 40_000),
            st.sampled_from([np.uint8, np.int32, np.int64, np.float64]),
        ),
        max_size=4,
    )
)
def test_arrays_of_any_size_arrive_unchanged(carry, shapes):
    arrays = [np.arange(size).astype(dtype) for size, dtype in shapes]
    name, received = carry(("name", arrays))
    assert name == "name"
    for array, other in zip(arrays, received, strict=True):
        assert array.dtype == other.dtype
        np.testing.assert_array_equal(array, other)
        # The receiver may add to its arrays, and kernels need them aligned.
        assert other.flags.writeable and other.flags.aligned


def test_non_contiguous_arrays_and_records():
    table = np.arange(60_000).reshape(200, 300)
    records = np.zeros(3, [("feature", np.int32), ("gain", np.float64)])
    records["gain"] = 1.5, 2.5, 3.5
    received = sent((table.T, table[:, ::2], records))
    np.testing.assert_array_equal(received[0], table.T)
    np.testing.assert_array_equal(received[1], table[:, ::2])
    assert received[2].tolist() == records.tolist()


def test_messages_keep_their_order(ends):
    ours, theirs = ends
    for value in (1, np.arange(5), "three"):
        ours.send(value)
    assert theirs.receive() == 1
    np.testing.assert_array_equal(theirs.receive(), np.arange(5))
    assert theirs.receive() == "three"


def test_one_message_can_be_sent_to_several(ends):
    message = Message.of(np.arange(5))
    for one, other in (ends, ends[::-1]):
        one.send("before")
        one.send_message(message)
        assert other.receive() == "before"
        np.testing.assert_array_equal(other.receive(), np.arange(5))


def test_a_closed_connection_is_an_error_at_the_other_end(ends):
    ours, theirs = ends
    theirs.close()
    with pytest.raises(OSError, match="closed"):
        ours.receive()


@given(place=st.floats(0, 1), value=st.integers(1, 255))
def test_a_changed_message_is_an_error(place, value):
    content = bytearray(Message.of(("name", np.arange(20))).packed())
    content[int(place * (len(content) - 1))] ^= value
    with pytest.raises(GarbledMessageError):
        unpack(bytes(content))


@given(share=st.floats(0, 1, exclude_max=True))
def test_a_message_cut_short_is_an_error(share):
    content = Message.of(("name", np.arange(20))).packed()
    with pytest.raises(GarbledMessageError, match="cut short"):
        unpack(content[: int(share * len(content))])


@examples(40)
@given(st.binary(min_size=64))
def test_bytes_that_are_no_message_are_an_error(content):
    one, other = socket.socketpair()
    with one, other:
        one.sendall(content)
        with pytest.raises(GarbledMessageError, match="no message"):
            Connection(other).receive()


@pytest.mark.parametrize("size", [40, 100])
def test_a_message_that_does_not_go_on_is_an_error(size):
    one, other = socket.socketpair()
    with one, other:
        one.sendall(Message.of(np.arange(30)).packed()[:size])
        with pytest.raises(GarbledMessageError, match="does not go on"):
            Connection(other, lambda: None, patience=0.3).receive()


def test_a_connection_gives_up_if_it_is_told_to(ends):
    ours, _ = ends
    with pytest.raises(StalledError):
        ours.receive()
    with pytest.raises(
        StalledError
    ):  # nobody receives, and the socket's memory is full
        ours.send(np.zeros(1 << 20))


@pytest.mark.parametrize("limit", [0.05, 0.4])
def test_a_limit_below_and_above_the_time_between_two_looks(limit):
    one, other = socket.socketpair()
    with one, other:
        connection = Connection(other)
        connection.wait_at_most(limit)
        with pytest.raises(TimeoutError):
            connection.receive()


class OwnError(Exception):
    """An error that can be pickled and not unpickled."""

    def __init__(self, row, column):
        super().__init__(f"row {row}, column {column}")


def test_errors_that_cannot_be_read_become_ones_that_can():
    plain = KeyError("absent")
    assert sendable(plain, "worker 1") is plain
    assert pickle.loads(pickle.dumps(plain)).__notes__ == ["It was raised on worker 1."]
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 / 0
    (note,) = sendable(caught.value, "worker 2").__notes__
    assert note.startswith("It was raised on worker 2:\n")
    assert "1 / 0" in note
    found = pickle.loads(pickle.dumps(sendable(OwnError(3, 4), "worker 1")))
    assert isinstance(found, ClusterError)
    assert "on worker 1: OwnError: row 3, column 4" in str(found)
