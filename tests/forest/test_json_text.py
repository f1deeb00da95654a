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
    again = json_text.loads(json_text.dumps({"x": numbers}))["x"]
    assert set(map(type, again)) == {float}
    assert np.array(again).astype(dtype).tobytes() == numbers.tobytes()


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


BROKEN = {
    "nothing": (b"", "character 0: Expecting value"),
    "an open object": (b'{"a":', "character 5"),
    "more after the end": (b"{} {}", "character 3: Extra data"),
    "NaN": (b'{"a":NaN}', "NaN is not a valid number in a model"),
    "infinity": (b'{"a":-Infinity}', "-Infinity is not"),
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
