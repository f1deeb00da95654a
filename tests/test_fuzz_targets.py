"""Bytes that others may have written are read, or are an error, in little memory."""

from __future__ import annotations

import tracemalloc
from time import process_time

import pytest
from fuzz_targets import MAX_BYTES, TARGETS, corpus, run
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

# Those of the drop-in about what it reads, which are XGBoost's.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

#: What is put into a seed: numbers at limits, and tokens of JSON and UBJSON.
TOKENS = [
    *(b"-1", b"0", b"1.5", b"1e999", b"2147483648", b"99999999999", b"9" * 30),
    *(b"[", b"{", b"}", b'"', b",", b"null", b"true", b"NaN", b"inf", b"\xff"),
    *(b"L\x7f\xff\xff\xff\xff\xff\xff\xff", b"#L", b"$d", b"\x00" * 8),
]
CHANGES = st.lists(
    st.tuples(
        st.floats(0, 1), st.integers(0, 30), st.sampled_from(TOKENS) | st.binary()
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture(scope="module")
def seeds():
    """Return a function of the name of a target to its seeds."""
    known = {}

    def of(name):
        if name not in known:
            known[name] = list(TARGETS[name][1]())
        return known[name]

    return of


def limited(name, data):
    """Run a target; return whether the bytes are valid."""
    begin = process_time()
    tracemalloc.start()
    try:
        is_valid = run(name, data)
        assert tracemalloc.get_traced_memory()[1] < MAX_BYTES
    finally:
        tracemalloc.stop()
    assert process_time() - begin < 5
    return is_valid


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_valid(seeds, name):
    assert all(run(name, seed) for seed in seeds(name))


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus(name):
    for data in corpus(name):
        limited(name, data)


@pytest.mark.parametrize("name", TARGETS)
@examples(60)
@given(place=st.floats(0, 1), changes=CHANGES)
def test_changed_seeds(seeds, name, place, changes):
    chosen = seeds(name)
    data = bytearray(chosen[int(place * (len(chosen) - 1))])
    for where, length, token in changes:
        begin = int(where * len(data))
        data[begin : begin + length] = token
    limited(name, bytes(data))
