"""JSON in the subset that XGBoost accepts."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hornbeam.errors import ModelFileError
from hornbeam.forest import json_text

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXT)
def test_strings_are_valid_json(text):
    document = {text: text}
    data = json_text.dumps(document)
    assert json.loads(data) == document
    assert json_text.loads(data) == document


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(data=st.data())
def test_numbers_keep_their_bits_and_read_as_floating_point(dtype, data):
    finite = st.floats(
        width=np.dtype(dtype).itemsize * 8, allow_nan=False, allow_infinity=False
    )
    numbers = data.draw(arrays.arrays(dtype, 5, elements=finite))
    again = np.array(json_text.loads(json_text.dumps({"x": numbers}))["x"])
    assert again.dtype == np.float64
    assert again.astype(dtype).tobytes() == numbers.tobytes()


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_json_lacks_are_refused(number):
    with pytest.raises(ModelFileError, match=f"{number} is not a valid number"):
        json_text.dumps({"x": np.array([1.0, number], np.float32)})


def test_documents_have_no_spaces_and_sorted_keys():
    document = {
        "b": [1, "x", {}],
        "a": {"d": True, "c": False},
        "e": [],
        "f": np.arange(3),
    }
    assert json_text.dumps(document) == (
        b'{"a":{"c":false,"d":true},"b":[1,"x",{}],"e":[],"f":[0,1,2]}'
    )


@given(
    st.recursive(
        st.sampled_from(['k":[1,2]', "NaN", ":[1]", "x"])
        | st.text('":[1,2]\\x', max_size=12)
        | st.lists(st.integers(), max_size=3)
        | st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3),
        lambda inner: st.dictionaries(st.text('":[1]\\x', max_size=6), inner),
    )
)
def test_documents_are_those_that_json_reads(document):
    content = json.dumps({"a": document}, separators=(",", ":")).encode()
    again = json_text.loads(content)

    def listed(value):
        if isinstance(value, dict):
            return {key: listed(one) for key, one in value.items()}
        return value.tolist() if isinstance(value, np.ndarray) else value

    assert listed(again) == json.loads(content)


def test_arrays_of_numbers_become_arrays_and_others_lists():
    content = b'{"a":[1,-2],"b":[1.5,2E3],"c":[],"d":[1,2.5],"e":[1e-40],"f":[1, 2]}'
    found = json_text.loads(content)
    assert (found["a"].dtype, found["a"].tolist()) == (np.int64, [1, -2])
    assert (found["b"].dtype, found["b"].tolist()) == (np.float64, [1.5, 2000.0])
    assert [found[key] for key in "cdef"] == [[], [1, 2.5], [1e-40], [1, 2]]


BROKEN = {
    "nothing": (b"", "character 0: Expecting value"),
    "an open object": (b'{"a":', "character 5"),
    "more after the end": (b"{} {}", "character 3: Extra data"),
    "NaN": (b'{"a":NaN}', "NaN is not a valid number in a model"),
    "infinity": (b'{"a":-Infinity}', "-Infinity is not"),
    "NaN beside an array": (b'{"a":[1,2],"b":NaN}', "NaN is not a valid number"),
    "infinity beside an array": (b'{"a":[1,2],"b":Infinity}', "Infinity is not"),
    "an error behind an array": (b'{"a":[1,2],}', "character 1[12]: Expecting|Illegal"),
    "an array in no place": (b'{"a":"1":[1,2]}', "character 8: Expecting"),
    "a number with two points": (b'{"a":[1.2.3]}', "character 9: Expecting"),
    "a key twice": (b'{"a":1,"a":2}', "the key 'a' is repeated"),
    "deep arrays": (b'{"a":' + b"[" * 1_000_000, "nested too deep"),
    "deep objects": (b'{"a":' * 1_000_000, "nested too deep"),
    "a number of very many digits": (b"9" * 1_000_000, "thousands of digits"),
    "text that is not UTF-8": (b'{"a":"\xff"}', "byte 6: the text is not UTF-8"),
    "UTF-16": ('{"a":1}'.encode("utf-16"), "not UTF-8"),
    "a raw control character": (b'{"a":"\x01"}', "Invalid control character"),
}


@pytest.mark.parametrize(("data", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_invalid_json_is_rejected(data, message):
    with pytest.raises(ModelFileError, match=message):
        json_text.loads(data)
