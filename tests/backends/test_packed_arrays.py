"""Calls and sums of workers arrive as they were sent, in few and small messages."""

import pickle

import numpy as np
import pytest

from hornbeam.backends.cluster_rows import PartialSums
from hornbeam.backends.packed_arrays import Calls
from hornbeam.kernels.layout import SPLIT_DTYPE


def carried(value):
    """Return a value that was pickled apart from its memory, and that memory."""
    buffers = []
    content = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    memory = [bytearray(buffer.raw()) for buffer in buffers]
    return pickle.loads(content, buffers=memory), memory


def in_one_piece(value):
    return pickle.loads(pickle.dumps(value, protocol=5)), []


def splits(count):
    table = np.zeros(count, SPLIT_DTYPE)
    table["gain"], table["feature"] = np.arange(count) / 3, np.arange(count)
    return table


ARRAYS = [
    np.arange(5),
    np.float32([[1.5, np.nan], [-0.0, np.inf]]),
    np.zeros((3, 0), np.uint64),
    np.array(2.5),
    np.array([True, False]),
    np.arange(6, dtype=np.int16),
    np.arange(12, dtype=np.int32).reshape(3, 4)[:, ::2],
    splits(3),
    np.arange(40_000.0),
]


@pytest.mark.parametrize("carry", [carried, in_one_piece])
def test_calls_have_their_arguments(carry):
    calls = Calls([("one", tuple(ARRAYS)), ("two", ((1, 2), None, "x")), ("three", ())])
    found, _ = carry(calls)
    assert isinstance(found, list)
    assert [operation for operation, _ in found] == ["one", "two", "three"]
    assert found[1:] == calls[1:]
    for array, other in zip(ARRAYS, found[0][1], strict=True):
        assert (array.dtype, array.shape) == (other.dtype, other.shape)
        assert array.tobytes() == other.tobytes()
        # Kernels write to arrays, and need them aligned.
        assert other.flags.aligned and other.flags.writeable


def test_small_arrays_are_in_the_message_and_large_ones_apart_from_it():
    _, memory = carried(Calls([("one", tuple(ARRAYS))]))
    assert sorted(map(len, memory)) == [12, 320_000]  # int16 is not packed


@pytest.mark.parametrize("carry", [carried, in_one_piece])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, None])
def test_sums_are_those_of_a_worker(carry, dtype):
    histograms = None
    if dtype is not None:
        histograms = np.arange(2 * 3 * 2 * 50, dtype=dtype).reshape(2, 3, 2, 50)
    ranges = None if dtype == np.int32 else np.array([[1.0, 2.0, 0.5, 0.25]])
    sums = [np.arange(7), np.arange(6.0).reshape(1, 3, 2)]
    found, memory = carry(PartialSums(ranges, sums, histograms))
    total = found + PartialSums(ranges, sums, histograms)
    assert len(memory) <= 1
    np.testing.assert_equal(found.gradient_ranges, ranges)
    np.testing.assert_equal(found.sums, sums)
    np.testing.assert_equal([one.tolist() for one in total.sums], [2 * s for s in sums])
    if dtype is None:
        assert found.histograms is None
    else:
        assert found.histograms.dtype == dtype
        np.testing.assert_array_equal(total.histograms, 2 * histograms)
