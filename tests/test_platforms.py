"""Systems that lack what Linux has: simulated by taking it from Python's modules."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hornbeam
from hornbeam import files, memory, system

ROOT = Path(__file__).parent.parent
#: What a system lacks, as statements that take it away.
MACOS = """
import builtins, mmap, os, sys
for name in ("posix_fadvise", "sched_getaffinity"):
    delattr(os, name)
del mmap.MADV_HUGEPAGE
"""
WINDOWS = f"""{MACOS}
sys.modules["fcntl"] = sys.modules["resource"] = None
for name in "preadv pwrite fchmod O_DIRECTORY O_CLOEXEC O_NOFOLLOW O_NONBLOCK".split():
    delattr(os, name)
for name in ("MAP_PRIVATE", "MAP_ANONYMOUS"):
    delattr(mmap, name)
"""
NO_PROC = """
plain_open = builtins.open
def without_proc(path, *args, **options):
    if str(path).startswith(("/proc", "/sys")):
        raise FileNotFoundError(path)
    return plain_open(path, *args, **options)
builtins.open = without_proc
import hornbeam.cgroups
def no_file(path):
    raise FileNotFoundError(path)
hornbeam.cgroups.read = no_file
"""
TRAIN = """
import json
from pathlib import Path
import numpy as np
import hornbeam
import hornbeam.external_memory.spill as spill
import hornbeam.files as files
if windows:
    files.REPLACES_OPEN_FILES = spill.REPLACES_OPEN_FILES = False
X = np.random.default_rng(0).normal(size=(4000, 5))
params = {"nthread": 2, "max_depth": 4}
plain = hornbeam.train(params, hornbeam.DMatrix(X, X[:, 0] * X[:, 1]), 5)
# Without /proc the peak counts as used, and in it that of the process of the test.
disk = hornbeam.DMatrix(X, X[:, 0] * X[:, 1], cache="cache", memory_limit="64GB")
paged = hornbeam.train(params | {"subsample": 0.9}, disk, 2)
paged = hornbeam.train(params, disk, 5)
for _ in range(2):  # the second one replaces the first
    plain.save_model("model.ubj")
loaded = hornbeam.Booster(model_file="model.ubj")
from hornbeam.memory import available_bytes, give_back_freed, resident_bytes
give_back_freed()
print(json.dumps({
    "digests": [plain.digest(), paged.digest(), loaded.digest()],
    "left": sorted(path.name for path in Path().rglob("*.tmp")),
    "memory": [available_bytes(), resident_bytes()],
}))
"""


@pytest.mark.parametrize(
    "lacks", [pytest.param("macos", marks=pytest.mark.slow), "windows"]
)
def test_training_saving_and_external_memory(lacks, tmp_path):
    windows = lacks == "windows"
    script = f"windows = {windows}\n{WINDOWS if windows else MACOS}{NO_PROC}{TRAIN}"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    X = np.random.default_rng(0).normal(size=(4000, 5))
    data = hornbeam.DMatrix(X, X[:, 0] * X[:, 1])
    expected = hornbeam.train({"nthread": 1, "max_depth": 4}, data, 5).digest()
    assert found["digests"] == [expected] * 3
    assert found["left"] == []
    available, resident = found["memory"]
    assert available > 2**40  # no limit is known
    assert (resident == 0) == windows


def test_without_locks_files_are_replaced_and_none_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(system, "fcntl", None)
    other = tmp_path / ".hornbeam-0123456789abcdef.tmp"
    other.write_bytes(b"of another process")
    files.replace_file(tmp_path / "file", [b"content"])
    assert (tmp_path / "file").read_bytes() == b"content"
    assert other.exists()
    with pytest.raises(OSError) as error:
        system.lock(0, exclusive=True, wait=False)
    assert error.value.errno == errno.ENOLCK


def test_reading_and_writing_at_an_offset(tmp_path, monkeypatch):
    for name in ("preadv", "pwrite"):
        monkeypatch.delattr(os, name)
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT | system.FLAGS)
    try:
        assert system.write_at(file, b"0123456789", 5) == 10
        first, second = bytearray(4), bytearray(4)
        assert system.read_at(file, [memoryview(first), memoryview(second)], 7) == 4
        assert first == b"2345"
        assert system.read_at(file, [memoryview(first)], 100) == 0
    finally:
        os.close(file)


def test_an_unknown_limit_is_no_limit(monkeypatch):
    monkeypatch.setattr(memory, "resource", None)

    def missing(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(memory, "read", missing)
    monkeypatch.setattr(memory, "group_folders", lambda controller: iter(()))
    assert memory.available_bytes() == sys.maxsize
