"""Numbers as text: round trips, and a reference with exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hornbeam.kernels.number_text import (
    HALF_GAPS,
    LONGEST,
    POWERS,
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
