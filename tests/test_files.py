"""Regular files are replaced atomically; devices, FIFOs and streams are written to."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest

import hornbeam
from hornbeam.files import replace_file

PIECES = [b"one ", memoryview(b"two")]
TO_STDOUT = """
import sys
from hornbeam.files import replace_file
print("before", flush=True)
replace_file(sys.argv[1], [b"one ", b"two"])
print("after", flush=True)
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def read_in_thread(path, received):
    thread = threading.Thread(target=lambda: received.append(path.read_bytes()))
    thread.start()
    return thread


def test_a_symbolic_link_stays_and_its_target_is_replaced(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    replace_file(link, PIECES)
    assert link.is_symlink()
    assert target.read_bytes() == b"one two"
    assert names(tmp_path) == ["link", "target"]


def test_a_symbolic_link_without_target_creates_the_target(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    replace_file(tmp_path / "link", PIECES)
    assert (tmp_path / "target").read_bytes() == b"one two"


@pytest.mark.parametrize("linked", [False, True])
def test_a_fifo_is_written_to(tmp_path, linked):
    fifo, path = tmp_path / "fifo", tmp_path / "path"
    os.mkfifo(fifo)
    if linked:
        path.symlink_to(fifo)
    received = []
    reader = read_in_thread(fifo, received)
    replace_file(path if linked else fifo, PIECES)
    reader.join()
    assert received == [b"one two"]
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert names(tmp_path) == (["fifo", "path"] if linked else ["fifo"])


def test_a_model_saved_to_a_fifo_can_be_loaded(tmp_path):
    X = np.random.default_rng(0).random((50, 3))
    y = X.sum(axis=1)
    booster = hornbeam.train({}, hornbeam.DMatrix(X, y), 2)
    fifo = tmp_path / "model.json"
    os.mkfifo(fifo)
    received = []
    reader = read_in_thread(fifo, received)
    booster.save_model(fifo)
    reader.join()
    loaded = hornbeam.Booster(model_file=bytearray(received[0]))
    assert loaded.digest() == booster.digest()
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_a_device_is_written_to(tmp_path):
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.stat("/dev/null").st_rdev)
        device.open("wb").close()
    except OSError:
        # Only root may create devices; others may not replace those in /dev.
        device = "/dev/null"
    replace_file(device, PIECES)
    assert stat.S_ISCHR(os.stat(device).st_mode)


def test_an_error_while_a_device_is_written_to_leaves_it(tmp_path):
    def pieces():
        yield b"one"
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        replace_file("/dev/null", pieces())
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("redirected", [False, True])
def test_standard_output_is_written_to(tmp_path, path, redirected):
    if not os.path.exists(os.path.dirname(path)):
        pytest.skip(f"{path} is of another system")
    command = [sys.executable, "-c", TO_STDOUT, path]
    if redirected:
        with open(tmp_path / "out", "wb") as file:
            subprocess.run(command, check=True, stdout=file)
        out = (tmp_path / "out").read_bytes()
    else:
        out = subprocess.run(command, check=True, capture_output=True).stdout
    assert out == b"before\none twoafter\n"


def test_a_closed_descriptor_is_an_error():
    with pytest.raises(OSError, match="cannot save '999' in '/dev/fd': Bad file"):
        replace_file("/dev/fd/999", PIECES)


def test_a_socket_is_an_error_and_stays(tmp_path):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        with pytest.raises(OSError, match="cannot save 'socket'"):
            replace_file(path, PIECES)
    assert names(tmp_path) == ["socket"]
