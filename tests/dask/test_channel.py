"""Channels: values arrive as they were sent, or the broken connection is an error."""

import socket
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam.dask.channel import Channel, GarbledMessageError, pack


class StalledError(Exception):
    """Raised by a stalled channel."""


def give_up():
    raise StalledError


@pytest.fixture
def ends():
    """Return the two ends of a connection; the first one gives up when it stalls."""
    pair = socket.socketpair()
    yield Channel(pair[0], give_up), Channel(pair[1])
    for one in pair:
        one.close()


def sent(value):
    """Return a value that went through a channel."""
    ours, theirs = (Channel(one) for one in socket.socketpair())
    sending = threading.Thread(target=ours.send, args=(pack(value),))
    sending.start()
    received = theirs.receive()
    sending.join()
    ours.close()
    theirs.close()
    return received


@given(
    st.lists(
        st.tuples(
            st.integers(0, 40_000),
            st.sampled_from([np.uint8, np.int32, np.int64, np.float64]),
        ),
        max_size=4,
    )
)
def test_arrays_of_any_size_arrive_unchanged(shapes):
    arrays = [np.arange(size).astype(dtype) for size, dtype in shapes]
    name, received = sent(("name", arrays))
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
        ours.send(pack(value))
    assert theirs.receive() == 1
    np.testing.assert_array_equal(theirs.receive(), np.arange(5))
    assert theirs.receive() == "three"


def test_a_closed_channel_is_an_error_at_the_other_end(ends):
    ours, theirs = ends
    theirs.close()
    with pytest.raises(OSError, match="closed"):
        ours.receive()


def test_an_answer_that_ends_halfway_is_an_error(ends):
    ours, theirs = ends
    (message,) = pack(np.arange(100))
    theirs.send([message[:200]])
    theirs.close()
    with pytest.raises(OSError, match="closed"):
        ours.receive()


def send_bytes(channel, content):
    channel._connection.sendall(content)


def sent_bytes(value):
    """Return what a new channel sends for a value."""
    ours, theirs = socket.socketpair()
    Channel(ours).send(pack(value))
    with ours, theirs:
        return theirs.recv(1 << 16)


def test_a_message_that_comes_twice_is_an_error(ends):
    ours, theirs = ends
    send_bytes(theirs, 2 * sent_bytes("one"))
    assert ours.receive() == "one"
    with pytest.raises(GarbledMessageError, match="message 0 came twice"):
        ours.receive()


@given(place=st.floats(0, 1), value=st.integers(1, 255))
def test_a_changed_message_is_an_error(place, value):
    one, other = socket.socketpair()
    message = bytearray(sent_bytes(("name", np.arange(20))))
    message[int(place * (len(message) - 1))] ^= value
    with one, other:
        one.sendall(message)
        with pytest.raises(GarbledMessageError):
            Channel(other).receive()


@examples(40)
@given(st.binary(min_size=64))
def test_bytes_that_are_no_message_are_an_error(content):
    one, other = socket.socketpair()
    with one, other:
        one.sendall(content)
        with pytest.raises(GarbledMessageError, match="no message"):
            Channel(other).receive()


@pytest.mark.parametrize("size", [5, 100])
def test_a_message_that_does_not_go_on_is_an_error(size):
    one, other = socket.socketpair()
    with one, other:
        one.sendall(sent_bytes(np.arange(30))[:size])
        with pytest.raises(GarbledMessageError, match="does not go on"):
            Channel(other, lambda: None, patience=0.3).receive()


def test_a_stalled_channel_gives_up_if_it_is_told_to(ends):
    ours, _ = ends
    with pytest.raises(StalledError):
        ours.receive()
    with pytest.raises(
        StalledError
    ):  # nobody receives, and the socket's memory is full
        ours.send(pack(np.zeros(1 << 20)))
