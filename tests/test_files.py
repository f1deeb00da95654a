"""Regular files are replaced atomically; devices, FIFOs and streams are written to."""

from __future__ import annotations

import errno
import os
import resource
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

import hornbeam
from hornbeam.files import replace_file, replacing

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


def test_an_error_names_the_file_and_keeps_its_number(tmp_path):
    with pytest.raises(
        OSError, match="cannot save 'full' in '/dev': No space"
    ) as caught:
        replace_file("/dev/full", PIECES)
    assert caught.value.errno == errno.ENOSPC


def test_a_file_above_the_limit_is_an_error_and_stays(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, hard))
    try:
        with pytest.raises(OSError, match=r"cannot save 'model'.*ulimit -f"):
            replace_file(path, [bytes(2**17)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["model"]


@pytest.mark.skipif(not os.path.isdir("/sys/kernel"), reason="needs Linux")
def test_a_read_only_folder_is_an_error():
    with pytest.raises(OSError, match=r"cannot save 'model' in '/sys'.*is writable"):
        replace_file("/sys/model", PIECES)


def test_a_file_that_is_open_elsewhere_keeps_its_content_there(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    with path.open("rb") as file:
        replace_file(path, PIECES)
        assert file.read() == b"old"
    assert path.read_bytes() == b"one two"


def test_a_symbolic_link_to_another_file_system(tmp_path):
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other file system")
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        target, link = Path(folder) / "target", tmp_path / "link"
        target.write_bytes(b"old")
        link.symlink_to(target)
        replace_file(link, PIECES)
        assert link.is_symlink()
        assert target.read_bytes() == b"one two"
        assert names(Path(folder)) == ["target"]


def test_only_the_files_of_ended_processes_are_removed(tmp_path):
    path, other = tmp_path / "model", tmp_path / ".hornbeam-0123456789abcdef.tmp"
    other.write_bytes(b"of a killed process")
    with replacing(path) as file:
        file.write(b"one")
        replace_file(tmp_path / "another", PIECES)
        assert not other.exists()
        file.write(b"two")
    assert path.read_bytes() == b"onetwo"
    assert names(tmp_path) == ["another", "model"]


def test_the_permissions_of_a_file_stay(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(0o640)
    replace_file(path, PIECES)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_reader_that_goes_is_an_error(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    thread = threading.Thread(target=lambda: fifo.open("rb").close())
    thread.start()
    with pytest.raises(BrokenPipeError, match="cannot save 'fifo'"):
        replace_file(fifo, (bytes(2**16) for _ in range(100)))
    thread.join()
