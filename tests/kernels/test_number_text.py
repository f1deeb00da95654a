"""Numbers as text: round trips, and a reference with exact fractions."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hornbeam.kernels.number_text import (
    HALF_GAPS,
    LONGEST,
    POWERS,
    read_numbers,
    write_floats,
    write_integers,
)

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def floats(values):
    values = np.array(values, np.float32)
    text = np.empty(LONGEST * values.size, np.uint8)
    size = write_floats(values, POWERS, HALF_GAPS, text)
    return text[1:size].tobytes().decode().split(",")


def integers(values):
    text = np.empty(LONGEST * len(values), np.uint8)
    size = write_integers(np.array(values, np.int64), text)
    return text[1:size].tobytes().decode().split(",")


def half_distances(number):
    """Return half the distances of a float32 to its neighbours, exactly."""
    bits = np.abs(number).view(np.uint32)
    exponent = max(int(bits >> 23), 1) - 150
    above = Fraction(2) ** exponent / 2
    is_power = bits & (2**23 - 1) == 0 and bits >= 2**24
    return above / 2 if is_power else above, above


def shortest(number):
    """Return the decimal number of fewest digits that is clearly the float32's."""
    exact = abs(Fraction(float(number)))
    below, above = (gap * (1 - Fraction(1, 10**6)) for gap in half_distances(number))
    for digits in range(1, 10):
        found = Fraction(f"{float(exact):.{digits - 1}e}")
        if exact - below < found < exact + above:
            return found
    raise AssertionError(number)


@given(FLOATS)
@example(0.0)
@example(-0.0)
@example(float(np.float32(1e-45)))
@example(float(np.finfo(np.float32).tiny))
@example(float(np.finfo(np.float32).max))
@example(float(np.float32(9.999999e9)))
@example(2.0**25)
@example(2.0**-126)
def test_floats_have_the_fewest_digits_that_identify_them(value):
    number = np.float32(value)
    (text,) = floats([number])
    assert np.float32(text).tobytes() == number.tobytes()
    if number != 0:
        assert abs(Fraction(text)) == shortest(number)


def test_all_exponents_and_random_bits_round_trip():
    powers = np.arange(255, dtype=np.uint32) << 23
    random = np.random.default_rng(0).integers(0, 255 << 23, 20_000, np.uint32)
    bits = np.concatenate([powers, powers + 1, powers[1:] - 1, random])
    values = bits.view(np.float32)
    texts = floats(values)
    assert np.array(texts, np.float64).astype(np.float32).tobytes() == values.tobytes()
    assert max(map(len, texts)) < LONGEST - len("-,")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0.0"),
        (-1, "-1.0"),
        (0.1, "0.1"),
        (-2.5, "-2.5"),
        (100, "100.0"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1.5e-5, "1.5e-05"),
        (123456789, "123456790.0"),
        (1e9, "1e+09"),
        (-1.25e12, "-1.25e+12"),
        (3.4028235e38, "3.4028235e+38"),
    ],
)
def test_floats_are_written_as_json_has_them(number, text):
    assert floats([number]) == [text]


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_found(number):
    text = np.empty(3 * LONGEST, np.uint8)
    values = np.array([1, number, 2], np.float32)
    assert write_floats(values, POWERS, HALF_GAPS, text) == -1


@given(st.lists(st.integers(-(2**63) + 1, 2**63 - 1), min_size=1))
@example([0, 9, 10, 99, 100, 10**18, 2**63 - 1, -(2**63) + 1])
def test_integers_are_written_as_python_writes_them(values):
    assert integers(values) == list(map(str, values))


def read(text):
    """Return the numbers between brackets as an array, None if they are left out."""
    content = f"[{text}]".encode()
    size = content.count(b",") + 1
    integers, floats = np.empty(size, np.int64), np.empty(size)
    memory = np.frombuffer(bytearray(content), np.uint8)
    kind = read_numbers(memory, 1, len(content) - 1, integers, floats, POWERS)
    return (None, integers, floats)[kind]


NUMBERS = st.lists(
    st.integers(-(10**20), 10**20).map(str)
    | st.floats(allow_nan=False, allow_infinity=False).map(str)
    | FLOATS.map(lambda value: f"{value:.8E}")
    | st.from_regex(r"-?[0-9]{0,3}\.?[0-9]{0,20}([eE][-+]?[0-9]{0,4})?", fullmatch=True)
    | st.text("0123456789.-+eE,", max_size=8),
    min_size=1,
).map(",".join)


@given(NUMBERS)
@example("0.1")
@example("-0.0")
@example("1E5,2.5e-3,-1.25E+22")
@example("1,2,-3")
@example("1,2.0")
@example("01")
@example("1.")
@example(".5")
@example("+1")
@example("1e")
@example("1,")
@example("9007199254740993.0")
@example("1e23")
@example("999999999999999999")
@example("9" * 30)
def test_numbers_are_read_as_json_reads_them_or_left_out(text):
    found = read(text)
    if found is None:
        return
    expected = json.loads(f"[{text}]")
    assert set(map(type, expected)) == {type(found[0].item())}
    assert found.tobytes() == np.array(expected, found.dtype).tobytes()


@given(st.lists(FLOATS.filter(lambda value: value == 0 or 1e-13 < abs(value) < 1e30)))
def test_written_floats_are_read(values):
    if values:
        again = read(",".join(floats(values)))
        assert again.astype(np.float32).tobytes() == np.float32(values).tobytes()


@given(st.lists(st.integers(-(10**17), 10**17), min_size=1))
def test_written_integers_are_read(values):
    assert read(",".join(integers(values))).tolist() == values
