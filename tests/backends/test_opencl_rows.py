"""Trees on rows on a device are those on rows in memory."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from opencl_device import SHAPES, device_of, shapes_with
from parts import GROWTH, KINDS, grow, grow_in_memory
from selection import half_slow

import hornbeam
from hornbeam.backends.opencl import bin_upload, staging
from hornbeam.backends.opencl.queue import DeviceQueue
from hornbeam.backends.opencl.rows import OpenCLRows
from hornbeam.kernels.layout import (
    COARSE_GRADIENT_BITS,
    COARSE_HESSIAN_BITS,
    SPLIT_DTYPE,
)
from hornbeam.kernels.team import take_team

WIDE = {"most_bins": 500}
#: Groups of categories, one formed after the other, are searched on the host.
GROUPED = replace(GROWTH, min_data_per_group=9)
#: What each way of compiling is tried on in the fast tests.
FEW = ("by level", "one-side", "numerical")


def on_device(shape):
    return partial(OpenCLRows, queue=DeviceQueue(device_of(SHAPES[shape])))


@pytest.mark.parametrize("kind", half_slow(KINDS))
def test_rows_on_a_device_give_the_same_trees(kind):
    assert grow(on_device("one item"), **KINDS[kind]) == grow_in_memory(kind)


@pytest.mark.parametrize("kind", FEW)
@pytest.mark.parametrize("shape", ["64 items, 32 bits"])
def test_groups_of_work_items_give_the_same_trees(shape, kind):
    assert grow(on_device(shape), **KINDS[kind]) == grow_in_memory(kind)


@pytest.mark.parametrize("kind", ["by level", "columns", "fine", "rows counted"])
@pytest.mark.parametrize("shape", ["one item, few columns", "64 items, 64 bits"])
def test_bins_may_arrive_in_pieces(monkeypatch, shape, kind):
    """The histograms of a group of columns are built as soon as its bins are there."""
    monkeypatch.setattr(bin_upload, "_PIECE_BYTES", 1)
    given = {**KINDS[kind], "most_bins": 40}
    assert grow(on_device(shape), **given) == grow(**given)


@pytest.mark.parametrize("shape", ["one item", "64 items, 64 bits"])
def test_pieces_are_of_whole_words_of_rows(monkeypatch, shape):
    """Pinned memory has a part of a piece at a time."""
    monkeypatch.setattr(staging, "_STAGE_BYTES", 999)
    queue = DeviceQueue(device_of(SHAPES[shape]))
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
        assert not by_row[:, 11].any()  # read with the others as one word


@pytest.mark.parametrize(
    "shape", ["one item", "64 items, 32 bits", "64 items, 64 bits"]
)
def test_packed_sums_are_added_to_the_histogram_before_they_overflow(shape):
    """All rows have the largest packed gradient and hessian, and the same bin."""
    n_rows = (8 << 14) + 12_345  # a compute unit gets eight parts of 2**14 and a rest
    two = hornbeam.DMatrix(np.arange(2.0)[:, None], np.ones(2)).binned(4).as_columns()
    bins = replace(two, by_feature=np.zeros((1, n_rows), np.uint8))
    bins.by_feature[0, -1] = 1
    device = replace(device_of(SHAPES[shape]), units=1)
    state = np.zeros((1, n_rows)), None, np.zeros((1, n_rows)), take_team(1)
    rows = OpenCLRows(bins, *state, DeviceQueue(device))
    rows.set_gradients(np.full((1, n_rows), -1.0), np.ones((1, n_rows)))
    scales = np.array([[2.0**-20, 2.0**-20]])
    rows.begin_tree(0, np.zeros(1, np.uint64), None, scales, scales)
    found = np.zeros((1, 1, 2, 2), np.int64)
    rows.build_histograms(np.zeros(1, np.intp), np.zeros(1, np.intp), found)
    least, most = -((1 << COARSE_GRADIENT_BITS) - 1), (1 << COARSE_HESSIAN_BITS) - 1
    counts = np.array([n_rows - 1, 1])
    assert np.array_equal(found[0, 0], [least * counts, most * counts])


@pytest.mark.parametrize("kind", ["columns", "rows counted", "grouped"])
def test_the_host_waits_once_a_level(monkeypatch, kind):
    """For the histograms or for the best splits, and for nothing between them."""
    given = {"growth": GROUPED} if kind == "grouped" else KINDS[kind]
    device = device_of(SHAPES["one item"])
    waits, levels, sizes = [], [], []
    read = DeviceQueue.read

    def count_read(queue, buffer, out):
        waits.append(out.nbytes)
        return read(queue, buffer, out)

    def count_level(method):
        def counted(*arguments):
            before = len(waits)
            found = method(*arguments)
            levels.append(len(waits) - before)
            sizes.append(sum(waits[before:]))
            return found

        return counted

    monkeypatch.setattr(DeviceQueue, "read", count_read)
    for name in ("build_histograms", "find_splits"):
        method = getattr(OpenCLRows, name)
        monkeypatch.setattr(OpenCLRows, name, count_level(method))
    grow(partial(OpenCLRows, queue=DeviceQueue(device)), **given)
    assert len(levels) >= 4
    assert {*levels} == {1}
    # And for each of two trees for the sums of its gradients, and of its leaves.
    assert len(waits) <= len(levels) + 2 * 2 + 2
    # Of 16 nodes and fewer, the splits are read only, with their sets of categories.
    assert (max(sizes) <= 16 * (SPLIT_DTYPE.itemsize + 8)) == (kind != "grouped")


@pytest.mark.slow
@pytest.mark.repeats
@pytest.mark.parametrize(("shape", "kind"), shapes_with([*KINDS]))
def test_any_size_of_groups_gives_the_same_trees(shape, kind):
    assert grow(on_device(shape), **KINDS[kind]) == grow_in_memory(kind)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_bins_of_two_bytes_give_the_same_trees(shape):
    assert grow(on_device(shape), **WIDE) == grow(**WIDE)
