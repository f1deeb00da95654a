"""Model files: formats, checksums, damaged files and atomic saves."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pytest
from forest_models import hand_made, trained
from hypothesis import given
from hypothesis import strategies as st

from hornbeam.errors import ModelFileError, ParameterError
from hornbeam.forest import Tree, decode, digest, encode, load, save

FORMATS = ["json", "ubj"]


def tiny():
    """Return a model of one split with a threshold that float32 cannot represent."""
    model = hand_made(n_trees=1, exact=True, attributes={"note": "é"})
    model.trees[0] = Tree(
        left=np.array([1, -1, -1], np.int32),
        right=np.array([2, -1, -1], np.int32),
        parent=np.array([-1, 0, 0], np.int32),
        feature=np.array([2, 0, 0], np.int32),
        threshold=np.array([0.1, np.nan, np.nan]),
        default_left=np.array([1, 0, 0], np.uint8),
        split_type=np.zeros(3, np.uint8),
        category_counts=np.zeros(3, np.int64),
        categories=np.empty(0, np.int32),
        value=np.array([0, -0.5, 0.25], np.float32),
        gain=np.array([3, 0, 0], np.float32),
        cover=np.array([7, 4, 3], np.float32),
        weight=np.array([0, -0.5, 0.25], np.float32),
    )
    return model


TINY = {format: encode(tiny(), format) for format in FORMATS}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("model", [tiny(), hand_made(3), hand_made(0)])
def test_round_trips_keep_the_digest(format, model):
    assert digest(decode(encode(model, format))) == digest(model)


def test_the_digest_of_a_fixed_model_is_constant():
    assert digest(tiny()) == (
        "997384726dab1fab7ea63d137f5024c4506b104a31c08e0543452e5158c9eaa2"
    )


def test_the_digest_depends_on_every_field():
    assert digest(hand_made(seed=1)) != digest(hand_made(seed=2))
    other = tiny()
    other.exact_features = False
    assert digest(other) != digest(tiny())
    other = tiny()
    other.double_scores = True
    assert digest(other) != digest(tiny())


@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.slow), 7])
@pytest.mark.parametrize("format", FORMATS)
def test_flipped_bits_are_detected(format, stride):
    data, right = TINY[format], digest(tiny())
    errors, flipped = 0, range(0, 8 * len(data), stride)
    for bit in flipped:
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            assert digest(decode(damaged)) == right
        except ModelFileError:
            errors += 1
    assert errors > 7.5 / 8 * len(flipped)


@pytest.mark.parametrize("format", FORMATS)
def test_truncated_files_are_rejected(format):
    for end in range(len(TINY[format])):
        with pytest.raises(ModelFileError):
            decode(TINY[format][:end])


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_damaged_files_are_rejected(format, data):
    whole = TINY[format]
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
    damaged = whole[:start] + data.draw(st.binary(max_size=20)) + whole[stop:]
    try:
        assert digest(decode(damaged)) == digest(tiny())
    except ModelFileError as error:
        ways_out = ("restore it from a copy", "upgrade", "is not supported")
        assert any(way in str(error) for way in ways_out)


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_random_bytes_are_rejected(data):
    for start in (b"", b"{", b'{"', b"{L\0\0\0\0\0\0\0"):
        with pytest.raises(ModelFileError):
            decode(start + data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it is empty"),
        (b"binf\0\0", "neither JSON nor UBJSON"),
        (b"[1,2]", "neither JSON nor UBJSON"),
        (b"{}", "the file has no key 'learner'|1 bytes|length"),
        (b"\x80\x04\x95", "neither JSON nor UBJSON"),
    ],
)
def test_other_files_are_rejected(data, message):
    with pytest.raises(ModelFileError, match=message):
        decode(data)


def test_json_may_be_indented():
    text = json.dumps(json.loads(TINY["json"]), indent=2)
    assert digest(decode(b"\n " + text.encode())) == digest(tiny())


@pytest.mark.parametrize("name", ["model.json", "model.ubj", "MODEL.JSON"])
def test_save_and_load_round_trip(tmp_path, name):
    save(tiny(), tmp_path / name)
    assert digest(load(str(tmp_path / name))) == digest(tiny())
    assert (tmp_path / name).read_bytes() == TINY[name.lower()[6:]]
    assert os.listdir(tmp_path) == [name]


def test_xgboosts_files_are_loaded(tmp_path):
    booster, _ = trained("binary:logistic")
    for format in FORMATS:
        booster.save_model(tmp_path / f"model.{format}")
    one, other = (load(tmp_path / f"model.{format}") for format in FORMATS)
    assert digest(one) == digest(other)


def test_errors_name_the_file(tmp_path):
    path = tmp_path / "model.ubj"
    path.write_bytes(TINY["ubj"][:-1])
    with pytest.raises(ModelFileError, match=r"model\.ubj: this is not a valid"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.ubj")
    with pytest.raises(ParameterError, match=r"suffix \.json or \.ubj"):
        save(tiny(), tmp_path / "model.bin")
    with pytest.raises(ParameterError, match="'bin' is unknown"):
        encode(tiny(), "bin")
    with pytest.raises(FileNotFoundError):
        save(tiny(), tmp_path / "none" / "model.ubj")


def test_save_keeps_the_mode_and_follows_links(tmp_path):
    target, link = tmp_path / "target.ubj", tmp_path / "link.ubj"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    save(tiny(), link)
    assert link.is_symlink()
    assert target.read_bytes() == TINY["ubj"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def run(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE
    )


FULL_DISK = """
import resource, sys
from hornbeam.forest import load, save
model = load(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    save(model, sys.argv[1])
except OSError as error:
    print(error)
"""


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "model.ubj"
    save(tiny(), path)
    process = run(FULL_DISK, path)
    assert b"cannot save 'model.ubj'" in process.communicate()[0]
    assert path.read_bytes() == TINY["ubj"]
    assert os.listdir(tmp_path) == ["model.ubj"]


SAVE_FOR_EVER = """
import sys
from hornbeam.forest import load, save
models = [load(path) for path in sys.argv[2:]]
while True:
    for model in models:
        save(model, sys.argv[1])
        print("saved", flush=True)
"""


@pytest.mark.slow
def test_a_killed_save_leaves_a_complete_file(tmp_path):
    digests = set()
    for number in range(2):
        model = hand_made(n_trees=40, seed=number)
        save(model, tmp_path / f"{number}.ubj")
        digests.add(digest(model))
    path = tmp_path / "model.json"
    for attempt in range(3):
        process = run(SAVE_FOR_EVER, path, tmp_path / "0.ubj", tmp_path / "1.ubj")
        process.stdout.readline()
        time.sleep(random.Random(attempt).random() * 0.05)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert digest(load(path)) in digests
