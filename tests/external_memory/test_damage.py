"""Truncated, edited and corrupted blocks and manifests raise errors or are rebuilt."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from block_samples import bins_of, build_of, make, read
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hornbeam.errors import DataError
from hornbeam.external_memory.cache import open_or_build, open_store

BINS = bins_of(5, 300)
OPTIONS = {"block_rows": 100}
CODECS = ["raw", "nibble", "lz4"]


def rebuild(begin, end):
    return BINS[:, begin:end]


def flip(path, place, bit):
    """Flip a bit of a file; `place` is from 0 (first byte) to 1 (last byte)."""
    content = bytearray(Path(path).read_bytes())
    content[int(place * (len(content) - 1))] ^= 1 << bit
    Path(path).write_bytes(content)


def cut(path, keep):
    """Truncate a file to its first bytes."""
    os.truncate(path, keep)


def lengthen(path):
    """Add a byte to a file."""
    Path(path).write_bytes(Path(path).read_bytes() + b"0")


DAMAGES = st.one_of(
    st.tuples(st.just(flip), st.floats(0, 1), st.integers(0, 7)),
    st.tuples(st.just(cut), st.integers(0, 90)),
    st.tuples(st.sampled_from([lengthen, os.unlink])),
)


@examples(30)
@given(damage=DAMAGES, codec=st.sampled_from(CODECS), opened_before=st.booleans())
def test_a_damaged_block_raises_an_error_that_names_it(
    tmp_path_factory, damage, codec, opened_before
):
    folder = tmp_path_factory.mktemp("cache")
    store = make(folder, BINS, codec=codec, **OPTIONS)
    path = store.path_of(1)
    if not opened_before:
        store.close()
    change, *how = damage
    change(path, *how)
    if not opened_before:
        store = open_store(folder, "one")
        if store is None:  # the file has the wrong length
            assert change is not flip
            return
    with store, pytest.raises(DataError, match=r"block 1 .*rows 100 to 200") as caught:
        read(store)
    assert str(path) in str(caught.value)


@examples(30)
@given(damage=DAMAGES, codec=st.sampled_from(CODECS))
def test_a_damaged_block_is_rebuilt_from_the_source(tmp_path_factory, damage, codec):
    folder = tmp_path_factory.mktemp("cache")
    with make(folder, BINS, codec=codec, **OPTIONS) as store:
        path = store.path_of(1)
    whole = path.read_bytes()
    change, *how = damage
    change(path, *how)
    with open_store(folder, "one", rebuild) as store:
        with pytest.warns(UserWarning, match=r"block 1 \(rows 100 to 200\)"):
            by_feature, by_row = read(store)
        np.testing.assert_array_equal(by_feature, BINS)
        np.testing.assert_array_equal(by_row, BINS.T.reshape(-1))
        read(store)  # without another warning
    assert path.read_bytes() == whole


def test_a_changed_source_does_not_rebuild_a_block(tmp_path):
    make(tmp_path, BINS, **OPTIONS).close()
    with open_store(tmp_path, "one", lambda *rows: 1 - rebuild(*rows) % 2) as store:
        flip(store.path_of(2), 0.5, 3)
        with pytest.raises(DataError, match="the rows of the source have changed"):
            read(store)


def test_a_folder_in_place_of_a_block_file_is_an_error(tmp_path):
    with make(tmp_path, BINS, **OPTIONS) as store:
        path = store.path_of(0)
        path.unlink()
        path.mkdir()
        with pytest.raises(DataError, match="block 0"):
            read(store)


@examples(40)
@given(place=st.floats(0, 1), bit=st.integers(0, 7), cut=st.booleans())
def test_a_damaged_manifest_is_rebuilt(tmp_path_factory, place, bit, cut):
    folder = tmp_path_factory.mktemp("cache")
    make(folder, BINS, **OPTIONS).close()
    manifest = folder / "hornbeam-pages.json"
    if cut:
        size = manifest.stat().st_size
        os.truncate(manifest, int(place * (size - 2)))  # all but the last line's end
    else:
        flip(manifest, place, bit)
    with open_or_build(folder, "one", build_of(BINS, **OPTIONS)) as store:
        np.testing.assert_array_equal(read(store)[0], BINS)
        blocks = list(folder.glob("*.block"))
        assert sorted(blocks) == [store.path_of(number) for number in range(3)]


def rewrite(folder, change):
    """Change the body of a manifest and give it the right checksum."""
    import hashlib

    path = folder / "hornbeam-pages.json"
    head, body = path.read_bytes().splitlines()
    content = json.loads(body)
    change(content)
    body = json.dumps(content).encode()
    old = json.loads(head)["sha256"].encode()
    head = head.replace(old, hashlib.sha256(body).hexdigest().encode())
    path.write_bytes(head + b"\n" + body + b"\n")


def set_in(*path):
    """Return what sets a value deep in a manifest."""
    *way, last, value = path

    def change(content):
        for step in way:
            content = content[step]
        content[last] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        set_in("blocks", 0, 1, "../precious.block"),
        set_in("blocks", 0, 1, "precious"),
        set_in("blocks", 0, 0, 1),
        set_in("blocks", 0, 0, -1),
        set_in("blocks", 1, 2, 0),
        set_in("blocks", 2, 3, 400),
        set_in("blocks", 2, 3, None),
        set_in("blocks", 1, 5, 0, 2, 10**9),
        set_in("blocks", 1, 5, 0, 1, -5),
        set_in("blocks", 1, 5, 0, 0, "zip"),
        set_in("blocks", 1, 5, []),
        set_in("blocks", [[]]),
        set_in("blocks", []),
        set_in("n_rows", 299),
        set_in("n_rows", 10**30),
        set_in("n_columns", 0),
        set_in("n_folders", 2),
        set_in("block_rows", -1),
        set_in("dtype", "object"),
        set_in("facts", 3),
        lambda content: content.pop("fingerprint"),
    ],
)
def test_a_manifest_with_invalid_values_is_rejected(tmp_path, change, capsys):
    folder, precious = tmp_path / "cache", tmp_path / "precious.block"
    make(folder, BINS, **OPTIONS).close()
    precious.write_text("mine")
    rewrite(folder, change)
    assert open_store(folder, "one") is None
    assert not list(folder.iterdir())
    make(folder, BINS, **OPTIONS).close()
    rewrite(folder, change)
    with make(folder, BINS, **OPTIONS) as store:
        np.testing.assert_array_equal(read(store)[0], BINS)
    assert "not a valid manifest" in capsys.readouterr().err
    assert precious.read_text() == "mine"


def test_manifests_of_other_versions_or_formats_are_replaced(tmp_path):
    manifest = tmp_path / "hornbeam-pages.json"
    for content in (b'{"format": "hornbeam pages", "version": 2}\n{}', b"[]", b"\xff"):
        manifest.write_bytes(content)
        with make(tmp_path, BINS) as store:
            np.testing.assert_array_equal(read(store)[0], BINS)
        store.close()


def test_other_files_in_the_folder_stay(tmp_path):
    others = {
        "hornbeam-model.json": "a model",
        "hornbeam-00000000.block": "similar name, other file",
        ".hornbeam-0123456789abcdef.tmp": "a model that is being saved",
        ".hornbeam-0123456789abcdef.temp": "similar name, other file",
        "data.parquet": "data",
    }
    for name, content in others.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "hornbeam-0123456789abcdef-00000000.block").write_text("left over")
    (tmp_path / ".hornbeam-aaaaaaaaaaaaaaaa.tmp").write_text("left over")
    (tmp_path / "hornbeam-0123456789abcdef-00000001.block").mkdir()
    with locked(tmp_path / ".hornbeam-0123456789abcdef.tmp"):
        check_others_stay(tmp_path, others)


@contextmanager
def locked(path):
    """Lock a file, as whoever saves under a temporary name does."""
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def check_others_stay(tmp_path, others):
    assert open_store(tmp_path, "one") is None
    (tmp_path / "hornbeam-0123456789abcdef-00000001.block").rmdir()
    assert {path.name for path in tmp_path.iterdir()} == set(others)
    with make(tmp_path, BINS):
        pass
    with pytest.raises(RuntimeError), make(tmp_path, BINS, "other"):
        raise RuntimeError
    for name, content in others.items():
        assert (tmp_path / name).read_text() == content


def test_a_cache_with_many_damaged_blocks_is_built_again(tmp_path, capsys):
    options = {"block_rows": 10}
    with make(tmp_path, BINS, **options) as store:
        paths = [store.path_of(number) for number in range(5)]
    for path in paths:
        path.unlink()

    def never(begin, end):
        raise AssertionError

    with make(tmp_path, BINS, rebuild=never, **options) as store:
        np.testing.assert_array_equal(read(store)[0], BINS)
    assert "is damaged (5 files in all)" in capsys.readouterr().err
