import contextlib
import pickle
import random
import socket
import threading

import numpy as np
import pytest

from hornbeam.distributed import connection as connections
from hornbeam.distributed.connection import Connection, HandshakeError, connect
from hornbeam.distributed.messages import GarbledMessageError, Message


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def serve(listener, token, action):
    """Accept a connection in a thread, and do something with it; return its errors."""
    errors = []

    def run():
        accepted, _ = listener.accept()
        connection = Connection(accepted)
        try:
            connection.accept(token)
            action(connection)
        except OSError as error:
            errors.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors


def test_values_and_texts_arrive_as_they_were_sent(listener):
    def echo(connection):
        connection.send(connection.receive())
        connection.send_text(**connection.receive_text())

    thread, errors = serve(listener, "secret", echo)
    connection = connect(*listener.getsockname(), "secret", 10)
    value = {"small": np.arange(3), "large": np.ones((500, 400)), "none": np.empty(0)}
    connection.send((value, "text"))
    found, text = connection.receive()
    connection.send_text(rank=3, names=["ä", "b"])
    assert connection.receive_text() == {"rank": 3, "names": ["ä", "b"]}
    thread.join()
    assert errors == []
    assert text == "text"
    for name, array in value.items():
        np.testing.assert_array_equal(found[name], array)
        found[name][...] = 7  # received arrays can be written to
    connection.close()


def test_another_token_is_refused_at_both_ends(listener):
    thread, errors = serve(listener, "secret", lambda connection: None)
    with pytest.raises(HandshakeError, match="refused the token"):
        connect(*listener.getsockname(), "wrong", 10)
    thread.join()
    assert [type(error) for error in errors] == [HandshakeError]


def test_nothing_of_a_stranger_is_unpickled(listener, tmp_path):
    class Trap:
        def __reduce__(self):
            return open, (str(tmp_path / "trap"), "w")

    thread, errors = serve(listener, "secret", lambda c: c.receive())
    with socket.create_connection(listener.getsockname()) as stranger:
        stranger.sendall(pickle.dumps(Trap()).ljust(1000, b"."))
        thread.join()
    assert "no process of a group" in str(errors[0])
    assert list(tmp_path.iterdir()) == []


def test_the_proof_of_one_connection_is_of_no_use_for_another(listener):
    taped = []
    thread, errors = serve(listener, "secret", lambda connection: None)
    with socket.create_connection(listener.getsockname()) as first:
        # What the other end sends is sent back to it, as if it were an own proof.
        for _ in range(2):
            taped.append(first.recv(4096))
            first.sendall(taped[-1] or b"x" * 32)
            if len(taped) == 1:
                first.sendall(b"x" * 32)
        thread.join()
    assert "does not know the token" in str(errors[0])


def sent(listener, change, receive=Connection.receive):
    """Return the error of a message that is changed on its way: frames to bytes."""
    thread, errors = serve(listener, "secret", receive)
    connection = connect(*listener.getsockname(), "secret", 10)

    if receive is Connection.receive:
        message = Message.of((np.arange(100), "text"))
    else:
        message = Message.of_text({"rank": 3})
    connection._socket.sendall(change(bytearray(message.packed())))
    with contextlib.suppress(OSError):  # the other end may have closed it by now
        connection._socket.shutdown(socket.SHUT_WR)
    thread.join()
    connection.close()
    (error,) = errors
    return error


RECEIVERS = [Connection.receive, Connection.receive_text]


@pytest.mark.parametrize("receive", RECEIVERS)
def test_each_byte_of_a_message_is_checked(listener, receive):
    def flip(place):
        def change(whole):
            whole[place % len(whole)] ^= 1 << place % 8
            return whole

        return change

    for place in [*range(60), -1, -2, -9, -200]:
        assert isinstance(sent(listener, flip(place), receive), GarbledMessageError)


@pytest.mark.parametrize("receive", RECEIVERS)
def test_garbage_and_messages_cut_short_are_errors(listener, receive):
    def garbage(whole):
        return random.Random(0).randbytes(10_000)

    assert "no message" in str(sent(listener, garbage, receive))
    for size in (1, 20, 40, -1):
        cut = sent(listener, lambda whole, size=size: whole[:size], receive)
        assert "is closed" in str(cut)


def test_a_message_that_comes_twice(listener):
    def receive_both(connection):
        connection.receive()
        connection.receive()

    thread, errors = serve(listener, "secret", receive_both)
    connection = connect(*listener.getsockname(), "secret", 10)
    connection._socket.sendall(2 * Message.of("once").packed())
    thread.join()
    assert "message 0 came twice" in str(errors[0])
    connection.close()


def test_a_message_must_go_on(listener, monkeypatch):
    monkeypatch.setattr(connections, "_PATIENCE", 0.1)
    for size in (10, 45, 200):
        thread, errors = serve(listener, "secret", Connection.receive)
        connection = connect(*listener.getsockname(), "secret", 10)
        connection._socket.sendall(Message.of(np.arange(100)).packed()[:size])
        thread.join()
        assert "does not go on" in str(errors[0])
        connection.close()


@pytest.mark.parametrize("text", [b"[1]", b"[" * 100_000, b"{", b"\xff"])
def test_a_text_that_is_no_mapping(listener, text):
    thread, errors = serve(listener, "secret", Connection.receive_text)
    connection = connect(*listener.getsockname(), "secret", 10)
    connection.send_message(Message.of_frames([text]))
    thread.join()
    assert isinstance(errors[0], GarbledMessageError)
    connection.close()


def test_a_message_above_the_limit_is_refused(listener):
    thread, errors = serve(listener, "secret", Connection.receive_text)
    connection = connect(*listener.getsockname(), "secret", 10)
    head, _ = Message.of_frames([bytes(1 << 25)]).parts(0)
    connection._socket.sendall(head)
    thread.join()
    assert "a frame of 33554432 bytes" in str(errors[0])
    connection.close()
