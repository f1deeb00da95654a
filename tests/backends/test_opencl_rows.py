"""Trees on rows on a device are those on rows in memory."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from parts import KINDS, grow
from pocl import SHAPES, device_of

from hornbeam.backends.opencl import bin_upload
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


@pytest.mark.parametrize("kind", ["by level", "columns", "fine", "rows counted"])
@pytest.mark.parametrize("shape", ["one item, few columns", "64 items, 64 bits"])
def test_bins_may_arrive_in_pieces(monkeypatch, shape, kind):
    """The histograms of a group of columns are built as soon as its bins are there."""
    monkeypatch.setattr(bin_upload, "_PIECE_BYTES", 1)
    given = {**KINDS[kind], "most_bins": 40}
    assert grow(on_device(shape), **given) == grow(**given)


def test_pieces_are_of_whole_words_of_rows():
    queue = DeviceQueue(device_of(SHAPES["one item"]))
    bins = np.arange(22_000, dtype=np.uint8).reshape(11, 2000)
    for given in (bins, np.asfortranarray(bins), bins[:, 100:1900]):
        upload = bin_upload.BinUpload(queue, given)
        assert [*upload.arrive()] == [range(3)]
        assert upload.has_arrived
        found = np.empty(given.shape, np.uint8)
        assert np.array_equal(queue.read(upload.by_feature, found), given)
        by_row = np.empty((given.shape[1], 12), np.uint8)
        queue.read(upload.by_row, by_row)
        assert np.array_equal(by_row[:, :11], given.T)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_any_size_of_groups_gives_the_same_trees(shape, kind):
    assert grow(on_device(shape), **KINDS[kind]) == grow(**KINDS[kind])


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_bins_of_two_bytes_give_the_same_trees(shape):
    assert grow(on_device(shape), **WIDE) == grow(**WIDE)
