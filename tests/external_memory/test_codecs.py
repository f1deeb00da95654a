"""Codecs decode what they encode; auto chooses the fastest one to read."""

from __future__ import annotations

import subprocess
import sys

import blosc2
import numpy as np
import pytest
from block_samples import bins_of, make
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hornbeam.errors import ParameterError
from hornbeam.external_memory.codecs import (
    Encoding,
    check_codec,
    choose_encoding,
    decode,
    encode,
    fits_nibble,
)

RNG = np.random.default_rng(0)
N = 1 << 16


@given(
    bins=st.sampled_from([np.uint8, np.uint16]).flatmap(
        lambda dtype: arrays(dtype, st.integers(1, 300), elements=st.integers(0, 255))
    ),
    width=st.integers(1, 255),
    by_bits=st.booleans(),
)
def test_codecs_decode_what_they_encode(bins, width, by_bits):
    choices = [Encoding("raw"), Encoding("lz4", width, by_bits)]
    if fits_nibble(bins):
        choices.append(Encoding("nibble"))
    for choice in choices:
        stored = np.frombuffer(encode(choice, bins), np.uint8)
        out = np.full_like(bins, 99)
        decode(choice.codec, stored, out)
        np.testing.assert_array_equal(out, bins)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_auto_chooses_the_codec_of_a_column(dtype):
    noise = RNG.integers(0, 256, N).astype(dtype)
    skewed = np.minimum(RNG.geometric(0.3, N), 200).astype(dtype)
    few = RNG.integers(0, 16, N).astype(dtype)
    rare = (RNG.random(N) < 0.001).astype(dtype)
    # The upper bytes of noise in uint16 are 0.
    of_noise = "raw" if dtype == np.uint8 else "lz4"
    for bins, codec in ((noise, of_noise), (skewed, "lz4"), (few, "nibble")):
        assert choose_encoding("auto", bins, 1).codec == codec
    assert choose_encoding("auto", rare, 1).codec == "lz4"
    assert choose_encoding("nibble", few, 1).codec == "nibble"
    assert choose_encoding("nibble", noise, 1).codec == "raw"
    assert choose_encoding("raw", few, 1).codec == "raw"
    assert choose_encoding("lz4", noise, 1).codec == "lz4"


def test_row_major_bins_are_shuffled_by_column():
    columns = [RNG.integers(0, 2, N // 8) * 200 + f for f in range(8)]
    by_row = np.array(columns, np.uint8).T.reshape(-1)
    choice = choose_encoding("auto", by_row, 8)
    assert choice.codec == "lz4" and choice.width == 8
    assert len(encode(choice, by_row)) * 4 < by_row.size
    assert choose_encoding("lz4", by_row, 300).width == 1  # too wide for Blosc2


def test_a_chunk_of_another_size_raises():
    stored = np.frombuffer(blosc2.compress2(np.zeros(1000, np.uint8)), np.uint8)
    out = np.empty(10, np.uint8)
    with pytest.raises(ValueError, match="a chunk of 1000 bytes, not 10"):
        decode("lz4", stored, out)
    with pytest.raises((ValueError, RuntimeError)):
        decode("lz4", np.zeros(40, np.uint8), out)


def test_an_unknown_codec_raises():
    with pytest.raises(ParameterError, match="auto, raw, nibble, lz4, not 'zip'"):
        check_codec("zip")
    check_codec("lz4")


WITHOUT = """
import sys
sys.modules["blosc2"] = None  # as if not installed
import numpy as np
from hornbeam.errors import MissingExtraError
from hornbeam.external_memory.cache import open_store
from hornbeam.external_memory.codecs import check_codec, choose_encoding

assert choose_encoding("auto", np.zeros(1000, np.uint8), 1).codec == "nibble"
check_codec("auto")
for needs_it in (lambda: check_codec("lz4"), lambda: open_store(sys.argv[1], "one")):
    try:
        needs_it()
    except MissingExtraError as error:
        assert 'pip install "hornbeam[paged]"' in str(error)
        print("refused")
"""


def test_auto_works_without_blosc2(tmp_path):
    make(tmp_path, bins_of(3, 100), codec="lz4").close()
    command = [sys.executable, "-c", WITHOUT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n" * 2
