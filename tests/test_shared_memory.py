"""Shared memory: another process reads an array where it is, or gets it sent."""

import gc
import os
import signal
import socket
import threading
from pathlib import Path

import numpy as np
import pytest

from hornbeam import shared_memory
from hornbeam.distributed.connection import Connection
from hornbeam.distributed.messages import Message
from hornbeam.shared_memory import (
    NO_PLACE,
    PLACE_BYTES,
    MappedMemory,
    SharedMemory,
    can_map,
    own_place,
    place_of,
)

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="only Linux has memory without a name"
)

SIZE = 100_000


@pytest.fixture
def ends():
    """Return both ends of a connection that know whether they share memory."""
    pair = [Connection(one) for one in socket.socketpair()]
    other = threading.Thread(
        target=pair[1].find_shared_memory, kwargs={"begins": False}
    )
    other.start()
    pair[0].find_shared_memory(begins=True)
    other.join()
    yield pair
    for one in pair:
        one.close()


@pytest.fixture
def other_process():
    """Return a function that forks a process, and gives what it says and its end."""
    started = []

    def start(act):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(writing, act())
                signal.pause()
            finally:
                os._exit(0)
        started.append(pid)
        os.close(writing)
        with os.fdopen(reading, "rb", buffering=0) as said:
            return pid, said.read(1000)

    yield start
    for pid in started:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_an_array_is_read_where_it_is(ends):
    array = SharedMemory().array((10, SIZE // 10), np.int32)
    array[...] = np.arange(SIZE).reshape(10, -1)
    ends[0].send(("sums", array))
    name, found = ends[1].receive()
    assert name == "sums"
    np.testing.assert_array_equal(found, array)
    assert not found.flags.writeable and found.flags.aligned
    array[3, 4] = -5
    assert found[3, 4] == -5
    # And what was received is passed on in the same way.
    ends[1].send(found[1:])
    passed_on = ends[0].receive()
    array[3, 4] = -6
    assert passed_on[2, 4] == -6


def test_arrays_elsewhere_and_small_ones_are_sent(ends):
    array, small = np.ones(5_000), SharedMemory().array((10,), np.float64)
    small[...] = 1.0
    for sent in array, small:
        ends[1].send(sent)
        found = ends[0].receive()
        np.testing.assert_array_equal(found, sent)
        sent[0], found[1] = 2.0, 3.0
        assert found[0] == sent[1] == 1.0


def test_a_connection_does_not_share_memory_unasked():
    array = SharedMemory().array((SIZE,), np.int32)
    message = Message.of(array)
    assert message.n_bytes > array.nbytes
    assert Message.of(array, shares_memory=True).n_bytes < 1000


def test_the_memory_of_another_process(other_process):
    def act():
        array = SharedMemory().array((SIZE,), np.uint8)
        array[...] = np.arange(SIZE) % 251
        kept.append(array)
        return place_of(array.data) + own_place()

    kept = []
    pid, said = other_process(act)
    place, probe = said[:PLACE_BYTES], said[PLACE_BYTES:]
    assert can_map(probe) and probe != own_place()
    found = np.frombuffer(MappedMemory().at(place), np.uint8)
    np.testing.assert_array_equal(found, np.arange(SIZE) % 251)
    os.kill(pid, signal.SIGKILL)
    np.testing.assert_array_equal(found[:3], [0, 1, 2])  # mapped memory stays


def test_memory_that_is_not_there(ends, monkeypatch):
    array = SharedMemory().array((SIZE,), np.uint8)
    place = place_of(array.data)
    pid, rest = place[:4], place[4:]
    other_identity = place[:-1] + bytes([place[-1] ^ 1])
    beyond = place[:8] + (1 << 40).to_bytes(8, "little") + place[16:]
    gone = (2**22 + 1).to_bytes(4, "little") + rest
    gone = gone[:-1] + other_identity[-1:]
    assert len(pid) == 4
    for wrong in (other_identity, beyond, gone, NO_PLACE):
        assert not can_map(wrong)
    monkeypatch.setattr("hornbeam.distributed.messages.place_of", lambda _: gone)
    ends[0].send(array)
    with pytest.raises(ConnectionResetError, match="memory is not there"):
        ends[1].receive()


def test_where_there_is_none_arrays_are_sent(ends, monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(shared_memory, "_probes", {})
    assert own_place() == NO_PLACE
    memory = SharedMemory()
    array = memory.array((10_000,), np.int64)
    array[...] = 7
    ends[0].send(array)
    found = ends[1].receive()
    array[...] = 8
    np.testing.assert_array_equal(found, np.full(10_000, 7))
    assert memory.array((2, 3), np.int16).shape == (2, 3)


def test_memory_is_used_again_and_released():
    memory = SharedMemory()
    first = memory.array((SIZE,), np.int64)
    again = memory.array((SIZE // 2,), np.int32)
    assert np.shares_memory(first, again)
    files = len(os.listdir("/proc/self/fd"))
    larger = memory.array((2 * SIZE,), np.int64)
    assert not np.shares_memory(first, larger)
    assert place_of(first.data) is not None  # until nothing reads it any more
    del first, again
    assert len(os.listdir("/proc/self/fd")) == files
    assert place_of(larger.data) is not None


def test_few_segments_of_others_stay_mapped():
    def count():
        gc.collect()
        return Path("/proc/self/maps").read_text().count("memfd:hornbeam")

    memory = MappedMemory()
    own = [SharedMemory().array((SIZE,), np.uint8) for _ in range(20)]
    before = count()
    for number, array in enumerate(own):
        array[...] = number
        place = place_of(array.data)
        for _ in range(2):
            assert memory.at(place)[SIZE - 1] == number
    assert count() == before + 8
    held = memory.at(place)
    del memory
    assert count() == before + 1 and held[0] == 19
