import pickle
import socket
import struct
import threading

import numpy as np
import pytest

from hornbeam.distributed.connection import Connection, HandshakeError, connect


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


def test_garbage_is_an_error_of_the_connection(listener):
    thread, errors = serve(listener, "secret", lambda connection: connection.receive())
    connection = connect(*listener.getsockname(), "secret", 10)
    frame = b"garbage!"
    header = struct.pack("<IQ", 1, len(frame))
    connection._socket.sendall(header + frame)
    thread.join()
    assert "cannot be read" in str(errors[0])
    connection.close()


def test_a_message_above_the_limit_is_refused(listener):
    thread, errors = serve(listener, "secret", lambda connection: connection.receive())
    connection = connect(*listener.getsockname(), "secret", 10)
    connection._socket.sendall(b"\xff" * 20)
    thread.join()
    assert "frames" in str(errors[0])
    connection.close()
    thread, errors = serve(listener, "secret", lambda c: c.receive_text())
    connection = connect(*listener.getsockname(), "secret", 10)
    connection._socket.sendall(b"\xff" * 20)
    thread.join()
    assert "bytes" in str(errors[0])
    connection.close()
