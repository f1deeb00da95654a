"""UBJSON: written bytes, accepted encodings and rejected data."""

from __future__ import annotations

import struct
import time
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam.errors import ModelFileError
from hornbeam.forest import json_text, ubjson
from hornbeam.forest.object_table import ObjectTable

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
DOCUMENTS = st.dictionaries(
    TEXT,
    st.recursive(
        TEXT | st.booleans() | INTEGERS,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4)
        ),
        max_leaves=12,
    ),
    max_size=4,
)


def length(count):
    return b"L" + struct.pack(">q", count)


def key(name):
    return length(len(name)) + name


@given(DOCUMENTS)
def test_documents_round_trip(document):
    assert ubjson.loads(ubjson.dumps(document)) == document


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "i8", "f4", "f8"])
def test_typed_arrays_round_trip(dtype):
    numbers = np.frombuffer(np.random.default_rng(0).bytes(80), dtype)
    data = ubjson.dumps({"numbers": numbers})
    again = ubjson.loads(data)["numbers"]
    assert again.dtype == numbers.dtype
    assert again.tobytes() == numbers.tobytes()
    assert data.endswith(numbers.byteswap().tobytes() + b"}")


ARRAYS = st.builds(
    lambda dtype, size: np.arange(size).astype(dtype),
    st.sampled_from(["u1", "i4", "i8", "f4", "f8"]),
    st.integers(0, 3),
)


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_equal(other[name], value, strict=True)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"a": ARRAYS, "n": INTEGERS, "t": TEXT, "o": st.just({"x": "1", "y": "é"})},
            optional={"z": TEXT | ARRAYS},
        ),
        max_size=4,
    )
)
def test_objects_with_arrays_round_trip(objects):
    written = ubjson.dumps({"objects": objects, "end": 1})
    read = ubjson.loads(written)
    assert read["end"] == 1
    assert len(read["objects"]) == len(objects)
    for one, other in zip(objects, read["objects"], strict=True):
        assert_same(one, other)
    assert ubjson.dumps(read) == written


def test_objects_of_one_kind_are_a_table_and_its_json_is_theirs():
    objects = [
        {"n": i, "x": np.full(i, 0.5 + i, np.float32), "o": {"s": str(i)}, "y": y}
        for i, y in enumerate(np.arange(6.0).reshape(3, 2))
    ]
    table = ubjson.loads(ubjson.dumps({"": objects}))[""]
    assert isinstance(table, ObjectTable)
    assert json_text.dumps({"": table}) == json_text.dumps({"": objects})
    table.set(1, "only here", np.ones(1))
    objects[1]["only here"] = np.ones(1)
    for format in (json_text, ubjson):
        assert format.dumps({"": table}) == format.dumps({"": objects})
    with pytest.raises(IndexError):
        table[3]


def test_a_table_that_is_cut_or_changed_anywhere_is_rejected_or_read():
    objects = [{"a": np.arange(i + 1), "o": {"s": "é"}, "t": True} for i in range(3)]
    data = ubjson.dumps({"": objects})
    for size in range(len(data)):
        with pytest.raises(ModelFileError):
            ubjson.loads(data[:size])
        changed = bytearray(data)
        changed[size] ^= 0xFF
        with suppress(ModelFileError):
            ubjson.loads(bytes(changed))


def test_nested_objects_are_not_read_again_at_each_level():
    document = {"x": np.ones(1)}
    for _ in range(15):
        document = {"x": np.ones(1), "a": [document, {}]}
    data = ubjson.dumps(document)
    began = time.thread_time()
    read = ubjson.loads(data)
    assert time.thread_time() - began < 0.5
    assert ubjson.dumps(read) == data


def test_documents_have_the_specified_bytes():
    document = {"b": [1, 300, -70_000, 2**40], "a": True, "c": np.array([1.5], "f4")}
    assert ubjson.dumps(document) == (
        b"{" + key(b"a") + b"T"
        + key(b"b") + b"[#" + length(4)
        + b"i\x01I\x01\x2cl\xff\xfe\xee\x90L" + struct.pack(">q", 2**40)
        + key(b"c") + b"[$d#" + length(1) + struct.pack(">f", 1.5)
        + b"}"
    )  # fmt: skip


def test_alternative_encodings_are_read():
    data = (
        b"{U\x01a[i\x01Z]i\x01bSU\x02hil\x00\x00\x00\x01cD"
        + struct.pack(">d", 0.1)
        + b"}"
    )
    assert ubjson.loads(data) == {"a": [1, None], "b": "hi", "c": 0.1}


HUGE = length(2**62)
BROKEN = {
    "nothing": (b"", "1 bytes are expected, but only 0 follow"),
    "no end": (b"{", "1 bytes are expected"),
    "more after the end": (b"{}}", "1 bytes follow it"),
    "a key without length": (b"{S", "a length has the invalid type b'S'"),
    "a negative length": (b"{" + length(-1), "the length -1 is negative"),
    "a huge key": (b"{" + HUGE + b"a", "bytes are expected"),
    "a huge text": (b"S" + HUGE + b"a", "bytes are expected"),
    "a huge array of numbers": (b"[$D#" + HUGE + bytes(8), "bytes are expected"),
    "a huge array": (b"[#" + HUGE + b"ZZ", "the file is too short"),
    "an array of nothing": (b"[$Z#" + HUGE, "has the invalid type b'Z'"),
    "an array of strings of one type": (b"[$S#" + length(1), "has the invalid type"),
    "numbers without length": (b"[$di", "has no count"),
    "an array without end": (b"[i\x01", "1 bytes are expected"),
    "an unknown value": (b"?", r"b'\?' is not a valid type marker"),
    "text that is not UTF-8": (b"S" + length(1) + b"\xff", "not UTF-8"),
    "a key twice": (b"{" + (key(b"a") + b"Z") * 2 + b"}", "the key 'a' is repeated"),
    "deep arrays": (b"[" * 100_000, "more than 32 levels"),
    "deep objects": ((b"{" + key(b"a")) * 100_000, "more than 32 levels"),
}


@pytest.mark.parametrize(("data", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_invalid_data_is_rejected_without_large_allocations(data, message):
    tracemalloc.start()
    began = time.thread_time()
    try:
        with pytest.raises(ModelFileError, match=message):
            ubjson.loads(data)
        assert time.thread_time() - began < 1
        assert tracemalloc.get_traced_memory()[1] < 2**20 + 4 * len(data)
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=200))
def test_random_bytes_are_rejected(data):
    with pytest.raises(ModelFileError):
        ubjson.loads(b"{" + data + b"\xff")
