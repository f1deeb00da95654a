"""Blocks and manifests that were cut, edited or flipped: named, mended, or refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from page_samples import build_of, codes_of, make, read

from hornbeam.errors import DataError
from hornbeam.external_memory.cache import open_or_build, open_store

CODES = codes_of(5, 300)
OPTIONS = {"block_rows": 100}
CODECS = ["raw", "nibble", "lz4"]


def mend(begin, end):
    return CODES[:, begin:end]


def flip(path, place, bit):
    """Flip a bit of a file, `place` from 0 to 1 of the way through it."""
    content = bytearray(Path(path).read_bytes())
    content[int(place * (len(content) - 1))] ^= 1 << bit
    Path(path).write_bytes(content)


def cut(path, keep):
    """Leave the first bytes of a file."""
    os.truncate(path, keep)


def lengthen(path):
    """Add a byte to a file."""
    Path(path).write_bytes(Path(path).read_bytes() + b"0")


DAMAGES = st.one_of(
    st.tuples(st.just(flip), st.floats(0, 1), st.integers(0, 7)),
    st.tuples(st.just(cut), st.integers(0, 90)),
    st.tuples(st.sampled_from([lengthen, os.unlink])),
)


@settings(max_examples=30)
@given(damage=DAMAGES, codec=st.sampled_from(CODECS), opened_before=st.booleans())
def test_a_damaged_block_is_refused_with_its_name(
    tmp_path_factory, damage, codec, opened_before
):
    folder = tmp_path_factory.mktemp("cache")
    pages = make(folder, CODES, codec=codec, **OPTIONS)
    path = pages.path_of(1)
    if not opened_before:
        pages.close()
    change, *how = damage
    change(path, *how)
    if not opened_before:
        pages = open_store(folder, "one")
        if pages is None:  # its length gave it away
            assert change is not flip
            return
    with pages, pytest.raises(DataError, match=r"block 1 .*rows 100 to 200") as caught:
        read(pages)
    assert str(path) in str(caught.value)


@settings(max_examples=30)
@given(damage=DAMAGES, codec=st.sampled_from(CODECS))
def test_a_damaged_block_is_made_again_from_the_source(tmp_path_factory, damage, codec):
    folder = tmp_path_factory.mktemp("cache")
    with make(folder, CODES, codec=codec, **OPTIONS) as pages:
        path = pages.path_of(1)
    whole = path.read_bytes()
    change, *how = damage
    change(path, *how)
    with open_store(folder, "one", mend) as pages:
        with pytest.warns(UserWarning, match=r"block 1 \(rows 100 to 200\)"):
            by_feature, by_row = read(pages)
        np.testing.assert_array_equal(by_feature, CODES)
        np.testing.assert_array_equal(by_row, CODES.T.reshape(-1))
        read(pages)  # without another warning
    assert path.read_bytes() == whole


def test_a_source_that_changed_does_not_mend(tmp_path):
    make(tmp_path, CODES, **OPTIONS).close()
    with open_store(tmp_path, "one", lambda *rows: 1 - mend(*rows) % 2) as pages:
        flip(pages.path_of(2), 0.5, 3)
        with pytest.raises(DataError, match="the source gives other rows now"):
            read(pages)


def test_a_folder_in_the_place_of_a_block_is_an_error(tmp_path):
    with make(tmp_path, CODES, **OPTIONS) as pages:
        path = pages.path_of(0)
        path.unlink()
        path.mkdir()
        with pytest.raises(DataError, match="block 0"):
            read(pages)


@settings(max_examples=40)
@given(place=st.floats(0, 1), bit=st.integers(0, 7), cut=st.booleans())
def test_a_damaged_manifest_is_made_again(tmp_path_factory, place, bit, cut):
    folder = tmp_path_factory.mktemp("cache")
    make(folder, CODES, **OPTIONS).close()
    manifest = folder / "hornbeam-pages.json"
    if cut:
        size = manifest.stat().st_size
        os.truncate(manifest, int(place * (size - 2)))  # all but the last line's end
    else:
        flip(manifest, place, bit)
    with open_or_build(folder, "one", build_of(CODES, **OPTIONS)) as pages:
        np.testing.assert_array_equal(read(pages)[0], CODES)
        blocks = list(folder.glob("*.block"))
        assert sorted(blocks) == [pages.path_of(number) for number in range(3)]


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
def test_a_manifest_that_leads_astray_is_not_followed(tmp_path, change, capsys):
    folder, precious = tmp_path / "cache", tmp_path / "precious.block"
    make(folder, CODES, **OPTIONS).close()
    precious.write_text("mine")
    rewrite(folder, change)
    assert open_store(folder, "one") is None
    assert not list(folder.iterdir())
    make(folder, CODES, **OPTIONS).close()
    rewrite(folder, change)
    with make(folder, CODES, **OPTIONS) as pages:
        np.testing.assert_array_equal(read(pages)[0], CODES)
    assert "not the sound manifest" in capsys.readouterr().err
    assert precious.read_text() == "mine"


def test_another_version_or_a_foreign_file_is_no_manifest(tmp_path):
    manifest = tmp_path / "hornbeam-pages.json"
    for content in (b'{"format": "hornbeam pages", "version": 2}\n{}', b"[]", b"\xff"):
        manifest.write_bytes(content)
        with make(tmp_path, CODES) as pages:
            np.testing.assert_array_equal(read(pages)[0], CODES)
        pages.close()


def test_what_is_not_ours_stays(tmp_path):
    others = {
        "hornbeam-model.json": "a model",
        "hornbeam-00000000.block": "near, but not ours",
        ".hornbeam-0123456789abcdef.tmp": "a model that is being saved",
        "data.parquet": "data",
    }
    for name, content in others.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "hornbeam-0123456789abcdef-00000000.block").write_text("rubbish")
    (tmp_path / "hornbeam-0123456789abcdef.spill").write_text("rubbish")
    half = b'{"format": "hornbeam pages", "ver'
    (tmp_path / ".hornbeam-aaaaaaaaaaaaaaaa.tmp").write_bytes(half)
    (tmp_path / "hornbeam-0123456789abcdef-00000001.block").mkdir()
    assert open_store(tmp_path, "one") is None
    (tmp_path / "hornbeam-0123456789abcdef-00000001.block").rmdir()
    assert {path.name for path in tmp_path.iterdir()} == set(others)
    with make(tmp_path, CODES):
        pass
    with pytest.raises(RuntimeError), make(tmp_path, CODES, "other"):
        raise RuntimeError
    for name, content in others.items():
        assert (tmp_path / name).read_text() == content


def test_a_cache_of_which_much_is_gone_is_made_again(tmp_path, capsys):
    options = {"block_rows": 10}
    with make(tmp_path, CODES, **options) as pages:
        paths = [pages.path_of(number) for number in range(5)]
    for path in paths:
        path.unlink()

    def never(begin, end):
        raise AssertionError

    with make(tmp_path, CODES, mend=never, **options) as pages:
        np.testing.assert_array_equal(read(pages)[0], CODES)
    assert "is damaged (5 files in all)" in capsys.readouterr().err
