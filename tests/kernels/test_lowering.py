"""Elements and parts of arrays in compiled kernels are those that NumPy returns."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_calls import needs_compiler

from hornbeam.kernels.jit import kernel

PAIR = np.dtype([("low", np.int64), ("high", np.float64)])
LIMITS = st.integers(0, 9)


def in_python(function):
    """Return the function itself: what the kernel has to do."""
    return getattr(function, "py_func", function)


@kernel
def _move_elements(cube, found):
    for i in range(cube.shape[0]):
        row = cube[i]
        for j in range(cube.shape[1]):
            for k in range(cube.shape[2]):
                found[0] += cube[i, j, k] * (i + 1)
                found[1] += row[j, k] * (j + 1)
                found[2] += cube[i, j][k] * (k + 1)
                found[3] += cube[np.uint64(i), np.uint8(j), k]
                cube[i, np.uint64(j), k] = found[0]
    found[4] = cube.size
    found[5] = found[-1]
    found[-2] = found[0]


@pytest.mark.parametrize("number", [np.uint8, np.int32, np.uint64, np.float32, bool])
def test_elements_of_all_types(number):
    cube = np.arange(24).reshape(2, 3, 4).astype(number)
    expected, found = np.zeros(9), np.zeros(9)
    expected[-1] = found[-1] = 7
    same = cube.copy()
    in_python(_move_elements)(same, expected)
    _move_elements(cube, found)
    assert np.array_equal(found, expected)
    assert np.array_equal(cube, same)


@kernel
def _cut(numbers, table, begin, end, row, found):
    first, inner, rest = numbers[begin:end], numbers[begin:][:end], numbers[:end]
    part, lower = table[row, begin:end], table[begin:end]
    for place, size in enumerate((first.size, inner.size, rest.size, part.size)):
        found[place] = size
    found[4], found[5] = lower.shape[0], lower.size
    for i in range(first.size):
        found[6] += first[i] * (i + 1)
    for i in range(part.shape[0]):
        found[7] += part[i] * (i + 1)
    for i in range(lower.shape[0]):
        for j in range(lower.shape[1]):
            found[8] += lower[i, j] * (i + 2 * j + 1)
    for value in inner:
        found[9] += value


@given(LIMITS, LIMITS, st.integers(0, 3))
def test_slices_end_where_the_array_does(begin, end, row):
    numbers, table = np.arange(6.0), np.arange(20).reshape(4, 5)
    expected, found = np.zeros(10), np.zeros(10)
    in_python(_cut)(numbers, table, begin, end, row, expected)
    _cut(numbers, table, begin, end, row, found)
    assert np.array_equal(found, expected)


@kernel
def _fill(numbers, table, begin, end):
    numbers[begin:end] = 3.0
    table[1][begin:end] = 5
    table[:, 0] = 9
    for i in range(table.shape[0]):
        table[:, 1][i] += 1


@given(LIMITS, LIMITS)
def test_parts_share_memory_with_their_array(begin, end):
    expected = np.arange(6.0), np.arange(20).reshape(4, 5)
    found = tuple(each.copy() for each in expected)
    in_python(_fill)(*expected, begin, end)
    _fill(*found, begin, end)
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])


@kernel
def _read_as_bytes(words, found):
    parts = words.view(np.uint8)
    whole = parts.view(np.uint64)
    for i in range(parts.size):
        found[0] += np.int64(parts[i]) * (i + 1)
    for i in range(whole.size):
        found[1] += whole[i] >> np.uint64(3)
    found[2] = words[1:].view(np.uint32).size
    parts[3] = 77


def test_views_of_other_types():
    words = np.arange(1, 6, dtype=np.uint64) * np.uint64(0x0123456789)
    same, expected, found = words.copy(), *np.zeros((2, 3))
    in_python(_read_as_bytes)(same, expected)
    _read_as_bytes(words, found)
    assert np.array_equal(found, expected)
    assert np.array_equal(words, same)


@kernel
def _of_records(records, grid, found):
    for i in range(records.size):
        records[i].low += i
        found[0] += records[i].high + grid[i, 1].low
    first = records[0]
    first.high = 4.5
    found[1] = records[0].high + records[-1].low


def test_records_are_changed_in_their_array():
    records = np.zeros(3, PAIR).view(np.recarray)
    grid = np.zeros((3, 2), PAIR).view(np.recarray)
    records["low"], records["high"] = [4, 5, 6], [0.5, 1.5, 2.5]
    grid["low"] = np.arange(6).reshape(3, 2)
    same, expected, found = records.copy(), *np.zeros((2, 2))
    in_python(_of_records)(same, grid, expected)
    _of_records(records, grid, found)
    assert np.array_equal(found, expected)
    assert np.array_equal(records, same)


CHECK = """
import json
import numpy as np
from hornbeam.kernels.jit import kernel

@kernel
def add(numbers, i):
    numbers[i] += 1.0

errors = []
for i in (0, 4, 5, -1):
    try:
        add(np.zeros(5), i)
        errors.append("")
    except IndexError as error:
        errors.append(str(error))
print(json.dumps(errors))
"""


@needs_compiler
def test_a_check_of_bounds_finds_indices_that_are_negative(tmp_path):
    script = tmp_path / "check.py"
    script.write_text(CHECK)
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1"}
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    message = "index is out of bounds"
    assert json.loads(done.stdout) == ["", "", message, message]
