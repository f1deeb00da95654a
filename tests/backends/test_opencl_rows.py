"""Trees on rows on a device are those on rows in memory."""

from __future__ import annotations

from functools import partial

import pytest
from parts import KINDS, grow
from pocl import SHAPES, device_of

from hornbeam.backends.opencl.queue import DeviceQueue
from hornbeam.backends.opencl.rows import OpenCLRows

WIDE = {"most_bins": 500}
#: What each way of compiling is tried on in the fast tests.
FEW = ("by level", "one-side", "fine", "rows counted, best first")


def on_device(shape):
    return partial(OpenCLRows, queue=DeviceQueue(device_of(SHAPES[shape])))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_on_a_device_give_the_same_trees(kind):
    assert grow(on_device("one item"), **KINDS[kind]) == grow(**KINDS[kind])


@pytest.mark.parametrize("kind", FEW)
@pytest.mark.parametrize("shape", ["64 items, 32 bits"])
def test_groups_of_work_items_give_the_same_trees(shape, kind):
    assert grow(on_device(shape), **KINDS[kind]) == grow(**KINDS[kind])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_any_size_of_groups_gives_the_same_trees(shape, kind):
    assert grow(on_device(shape), **KINDS[kind]) == grow(**KINDS[kind])


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_bins_of_two_bytes_give_the_same_trees(shape):
    assert grow(on_device(shape), **WIDE) == grow(**WIDE)
