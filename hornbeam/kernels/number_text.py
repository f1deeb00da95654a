"""Numbers as the text of a JSON array: written with few digits, and read."""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import inline, kernel

__all__ = [
    "HALF_GAPS",
    "LONGEST",
    "POWERS",
    "read_numbers",
    "write_floats",
    "write_integers",
]

#: The most bytes of a number, with the comma before it.
LONGEST = 21
#: 1, 10, 100 and so on.
POWERS = np.array([float(f"1e{exponent}") for exponent in range(54)])
#: Half the distance of a float32 to the next larger one, by the bits of its exponent.
HALF_GAPS = 2.0 ** (np.maximum(np.arange(255), 1) - 151.0)
#: Digits identify a number that is within this part of half a distance of them. Those
#: at its end are left out, since numbers are scaled with an error of 2^-52.
_SAFE = 1.0 - 1e-6
_SIGN = np.uint32(1 << 31)
_INFINITY = np.uint32(0xFF << 23)
_MANTISSA = np.uint32((1 << 23) - 1)
_ZERO, _COMMA, _POINT, _MINUS, _PLUS, _E, _LARGE_E = 48, 44, 46, 45, 43, 101, 69
#: The largest number, and the largest power of ten, up to which float64 has all.
_EXACT, _EXACT_POWER = 1 << 53, 22


@inline
def _write_digits(number, count, text, at):
    """Write that many decimal digits of a number; return the place behind them."""
    for place in range(at + count - 1, at - 1, -1):
        rest = number // np.uint64(10)
        text[place] = _ZERO + np.int64(number - rest * np.uint64(10))
        number = rest
    return at + count


@inline
def _scaled(value, exponent, powers):
    """Return a number times a power of ten."""
    if exponent >= 0:
        return value * powers[exponent]
    return value / powers[-exponent]


@inline
def _shortest(value, field, is_power, powers, half_gaps):
    """Return the digits that identify a positive float32, as a number and a count, and
    the decimal exponent of the first one.

    Among the numbers of as few digits they are the nearest. `field` are the bits of the
    exponent. Above a power of two the distance to the next float32 is twice the one
    below it.
    """
    exponent = ((field - 127) * 1233) >> 12  # the binary exponent, times log10(2)
    scaled = _scaled(value, 8 - exponent, powers)
    while scaled < 1e8:
        exponent -= 1
        scaled = _scaled(value, 8 - exponent, powers)
    while scaled >= 1e9:
        exponent += 1
        scaled = _scaled(value, 8 - exponent, powers)
    above = _SAFE * _scaled(half_gaps[field], 8 - exponent, powers)
    below = 0.5 * above if is_power else above
    digits, count = np.rint(scaled), 9
    while count > 1:
        scaled, above, below = 0.1 * scaled, 0.1 * above, 0.1 * below
        shorter = np.rint(scaled)
        if shorter <= scaled - below or shorter >= scaled + above:
            break
        digits = shorter
        count -= 1
    number = np.uint64(digits)
    if digits == powers[count]:  # it was rounded up to a power of ten
        return np.uint64(1), 1, exponent + 1
    return number, count, exponent


@inline
def _write_positive(value, field, is_power, powers, half_gaps, text, at):
    """Write a positive float32; return the place behind it."""
    number, count, exponent = _shortest(value, field, is_power, powers, half_gaps)
    is_scientific = exponent < -4 or exponent > 8
    whole = 1 if is_scientific else exponent + 1  # digits before the point
    if whole <= 0:
        text[at] = _ZERO
        text[at + 1] = _POINT
        return _write_digits(number, count - whole, text, at + 2)
    if count <= whole:
        at = _write_digits(number * np.uint64(powers[whole - count]), whole, text, at)
        if not is_scientific:
            text[at] = _POINT
            text[at + 1] = _ZERO
            at += 2
    else:  # the digits before the point make place for it
        _write_digits(number, count, text, at + 1)
        for place in range(at, at + whole):
            text[place] = text[place + 1]
        text[at + whole] = _POINT
        at += count + 1
    if is_scientific:
        text[at] = _E
        text[at + 1] = _MINUS if exponent < 0 else _PLUS
        at = _write_digits(np.uint64(abs(exponent)), 2, text, at + 2)
    return at


@kernel
def write_floats(
    values,  # (values,) float32
    powers,  # POWERS
    half_gaps,  # HALF_GAPS
    text,  # (LONGEST * values,) uint8, out
):
    """Write numbers, each behind a comma; return how many bytes they take.

    The result is -1 if one of them is not finite.
    """
    bits = values.view(np.uint32)
    at = np.int64(0)
    for i in range(values.size):
        text[at] = _COMMA
        at += 1
        if (bits[i] & _SIGN) != 0:
            text[at] = _MINUS
            at += 1
        magnitude = bits[i] & ~_SIGN
        if magnitude >= _INFINITY:
            return np.int64(-1)
        if magnitude == 0:
            text[at] = _ZERO
            text[at + 1] = _POINT
            text[at + 2] = _ZERO
            at += 3
        else:
            at = _write_positive(
                abs(np.float64(values[i])),
                np.int64(magnitude >> np.uint32(23)),
                (magnitude & _MANTISSA) == 0 and magnitude > 2 * _MANTISSA,
                powers,
                half_gaps,
                text,
                at,
            )
    return at


@kernel
def write_integers(
    values,  # (values,) int64, above -2^63
    text,  # (LONGEST * values,) uint8, out
):
    """Write numbers, each behind a comma; return how many bytes they take."""
    at = np.int64(0)
    for i in range(values.size):
        text[at] = _COMMA
        at += 1
        if values[i] < 0:
            text[at] = _MINUS
            at += 1
        number, count, bound = np.uint64(abs(values[i])), 1, np.uint64(10)
        while count < 19 and number >= bound:
            bound *= np.uint64(10)
            count += 1
        at = _write_digits(number, count, text, at)
    return at


@inline
def _is_digit(byte):
    return _ZERO <= byte <= _ZERO + 9


@kernel
def read_numbers(
    text,  # (bytes,) uint8
    begin,  # int: where the numbers are, with commas between them
    end,  # int
    integers,  # (numbers,) int64, out
    floats,  # (numbers,) float64, out
    powers,  # POWERS
):
    """Read the numbers of a JSON array, as many as `integers` has places.

    Returns 1 if all are integers, 2 if all are floating-point numbers, and 0 if not all
    are of one kind, if one has so many digits or such an exponent that it is not simply
    a product or a quotient of two float64 that are exact (Clinger, How to read floating
    point numbers accurately, 1990), or if this is not an array of JSON.
    """
    at, kind = begin, 0
    for i in range(integers.size):
        is_negative = at < end and text[at] == _MINUS
        if is_negative:
            at += 1
        first, number = at, np.int64(0)
        while at < end and _is_digit(text[at]) and at - first < 18:
            number = 10 * number + (np.int64(text[at]) - _ZERO)
            at += 1
        if at == first or (text[first] == _ZERO and at - first > 1):
            return 0
        own, exponent = 1, 0
        if at < end and text[at] == _POINT:
            own = 2
            at += 1
            point = at
            while at < end and _is_digit(text[at]) and at - first < 19:
                number = 10 * number + (np.int64(text[at]) - _ZERO)
                at += 1
            exponent = point - at
            if at == point:
                return 0
        if at < end and (text[at] == _E or text[at] == _LARGE_E):
            own = 2
            at += 1
            is_small = at < end and text[at] == _MINUS
            if at < end and (text[at] == _MINUS or text[at] == _PLUS):
                at += 1
            written, place = 0, at
            while at < end and _is_digit(text[at]) and at - place < 3:
                written = 10 * written + (np.int64(text[at]) - _ZERO)
                at += 1
            if at == place:
                return 0
            exponent += -written if is_small else written
        is_last = i == integers.size - 1
        if (at != end) if is_last else (at >= end or text[at] != _COMMA):
            return 0
        at += 1
        if own == 2 and (number > _EXACT or abs(exponent) > _EXACT_POWER):
            return 0
        if i > 0 and own != kind:
            return 0
        kind = own
        integers[i] = -number if is_negative else number
        magnitude = _scaled(np.float64(number), exponent, powers)
        floats[i] = -magnitude if is_negative else magnitude
    return kind
