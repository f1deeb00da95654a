"""Processes that build a cache, wait for it, fill the disk, or are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from block_samples import bins_of, build_of, make, read

import hornbeam
from hornbeam import DataError
from hornbeam.external_memory.cache import open_or_build, open_store
from hornbeam.external_memory.folders import make_folders

BINS = bins_of(6, 4000)
#: Builds a cache of BINS; sleeps between blocks.
BUILD = """
import signal, sys, time
from block_samples import bins_of
from hornbeam.external_memory.cache import open_or_build

# A job that a shell started in the background ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
folders, pause = sys.argv[2:], float(sys.argv[1])
bins = bins_of(6, 4000)

def build(new_writer):
    print("building", flush=True)
    writer = new_writer(4000, 6, bins.dtype, block_rows=100)
    for begin in range(0, 4000, 50):
        writer.write(bins[:, begin : begin + 50])
        time.sleep(pause)
    return writer.finish({"of": "a process"})

store = open_or_build(folders, "one", build)
print("done", store.facts["of"], flush=True)
"""
#: Waits for a line before it ends.
BUILD_AND_WAIT = BUILD.replace("    return", "    sys.stdin.readline()\n    return")


def start(folders, pause=0.0, script=BUILD):
    """Start a process that builds a cache."""
    path = [str(Path(__file__).parent), str(Path(hornbeam.__file__).parents[1])]
    return subprocess.Popen(
        [sys.executable, "-c", script, str(pause), *map(str, folders)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def left(*folders):
    """Return the names of all files in the folders."""
    return {path.name for folder in folders for path in folder.glob("*")}


@pytest.mark.slow
def test_files_of_a_killed_builder_are_cleaned(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    rng = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    for trial in range(4):
        process = start(folders, 0.005)
        assert process.stdout.readline() == "building\n"
        # Some builds end before they are killed.
        time.sleep(float(rng.uniform(0, 0.6)))
        process.kill()
        _, error = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL, error
        was_whole = (folders[0] / "hornbeam-pages.json").exists()
        store = open_store(folders, "one")
        assert (store is not None) == was_whole, trial
        if store is None:
            assert not left(*folders)
            continue
        with store:
            np.testing.assert_array_equal(read(store)[0], BINS)
        with make(folders, BINS, "other", block_rows=100):
            pass  # delete the cache before the next trial
    with make(folders, BINS, block_rows=100) as store:
        np.testing.assert_array_equal(read(store)[0], BINS)


def test_an_interrupted_builder_leaves_no_files(tmp_path):
    folder = tmp_path / "new" / "cache"
    process = start([folder], 0.2)  # longer than a busy machine takes to send it
    assert process.stdout.readline() == "building\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode != 0 and "KeyboardInterrupt" in error
    assert not folder.exists()


def test_of_two_builders_one_waits_and_opens_the_cache_of_the_other(tmp_path):
    first = start([tmp_path], script=BUILD_AND_WAIT)
    assert first.stdout.readline() == "building\n"
    second = start([tmp_path])
    assert "waiting for another process" in second.stderr.readline()
    out = first.communicate("\n", timeout=60)
    results = [out, second.communicate(timeout=60)]
    assert [process.returncode for process in (first, second)] == [0, 0], results
    assert results == [("done a process\n", "")] * 2
    with open_store(tmp_path, "one") as store:
        np.testing.assert_array_equal(read(store)[0], BINS)


@pytest.mark.slow
def test_concurrent_builders_make_one_cache(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    processes = [start(folders) for _ in range(3)]
    results = [process.communicate(timeout=120) for process in processes]
    for process, (out, error) in zip(processes, results, strict=True):
        assert process.returncode == 0, error
        assert out.endswith("done a process\n")


@pytest.mark.slow
def test_a_waiting_process_builds_when_the_builder_is_killed(tmp_path):
    first = start([tmp_path], 10.0)
    assert first.stdout.readline() == "building\n"
    second = start([tmp_path])
    time.sleep(0.2)
    first.kill()
    out, error = second.communicate(timeout=60)
    assert out == "building\ndone a process\n", error
    first.communicate(timeout=60)


# A limit on file size acts on a cache as a full disk does.
LIMITED = "import resource\n" + BUILD.replace(
    'print("building", flush=True)',
    "resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))",
)


def test_a_file_size_limit_raises_and_leaves_no_files(tmp_path):
    folder = tmp_path / "cache"
    process = start([folder], script=LIMITED)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "DataError: a limit on the size of files stopped the writing of" in error
    assert "on larger disks" in error and str(folder) in error
    assert not folder.exists()


@pytest.fixture
def small_disk(tmp_path):
    """Return a file system of 64 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    mounted = subprocess.run(["mount", *options], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("this user cannot mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_small_disk_raises_before_it_is_full(small_disk):
    bins = np.random.default_rng(0).integers(0, 256, (10, 20_000), dtype=np.uint8)
    with pytest.raises(ValueError, match=r"needs about 1 MB on the disk of .* free"):
        make(small_disk, bins, block_rows=1000)
    assert not left(small_disk)


def test_a_full_disk_raises_and_leaves_no_files(small_disk):
    bins = np.zeros((10, 20_000), np.uint8)
    # The estimate from the first block, which compresses well, is too small.
    bins[:, 1000:] = np.random.default_rng(0).integers(0, 256, (10, 19_000))
    with pytest.raises(ValueError, match="a full disk stopped the writing of"):
        make(small_disk, bins, block_rows=1000)
    assert not left(small_disk)
    with make(small_disk, bins[:, :2000], block_rows=1000) as store:
        np.testing.assert_array_equal(read(store)[0], bins[:, :2000])
        spill = store.open_spill()
        with pytest.raises(ValueError, match="a full disk stopped the writing of"):
            spill.save("scores", 0, np.zeros(100_000))
        spill.close()


def test_folders_on_one_disk_share_its_space(small_disk):
    bins = np.random.default_rng(0).integers(0, 256, (4, 12_000), dtype=np.uint8)
    folders = [small_disk / "a", small_disk / "b"]
    with pytest.raises(ValueError, match=r"needs about 1 MB on the disk of"):
        make(folders, bins, block_rows=1000)
    assert not left(small_disk)


def test_unusable_folders_raise(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    build = build_of(BINS)
    for folders, message in (
        (file, "which is a file"),
        (file / "below", "cannot be created"),
        ("/proc/hornbeam", "cannot be created"),
        ("/sys/kernel", "is not writable"),
        ([tmp_path / "a", tmp_path / "x" / ".." / "a"], "twice"),
        ([], "a folder or a list of folders"),
        ([3], "a folder or a list of folders"),
        (None, "a folder or a list of folders"),
    ):
        with pytest.raises(ValueError, match=message):
            open_or_build(folders, "one", build)
    assert file.read_text() == "mine"
    assert left(tmp_path) == {"file"}


def test_a_wrong_number_of_rows_is_a_changed_source(tmp_path):
    for rows in (3999, 4001):

        def build(new_writer, rows=rows):
            writer = new_writer(rows, 6, np.uint8, block_rows=100)
            writer.write(BINS)
            return writer.finish({})

        with pytest.raises(ValueError, match=f"the source yielded {rows} rows when"):
            open_or_build(tmp_path, "one", build)
        assert not left(tmp_path)


def test_a_second_writer_replaces_the_first(tmp_path):
    def build(new_writer):
        first = new_writer(4000, 6, np.uint8, block_rows=100)
        first.write(BINS[:, :1050])
        return build_of(BINS.astype(np.uint16), block_rows=500)(new_writer)

    with open_or_build(tmp_path, "one", build) as store:
        assert store.dtype == np.uint16 and store.n_blocks == 8
        assert len(list(tmp_path.glob("*.block"))) == 8
        np.testing.assert_array_equal(read(store)[0], BINS)


def test_folders_are_made_by_several_at_once(tmp_path):
    """Who finds that another one has just created a folder uses it."""
    together = Barrier(8, timeout=10)

    def make_all(_):
        for number in range(100):
            together.wait()
            make_folders([tmp_path / str(number) / "pages"])

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(make_all, range(8))) == [None] * 8
    assert len(list(tmp_path.glob("*/pages"))) == 100


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(DataError, match=r"file', which is a file; pass a folder"):
        make_folders([tmp_path / "new", tmp_path / "file"])
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "file").read_text() == "kept"
