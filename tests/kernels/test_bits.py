"""Bit operations, against those of Python integers."""

from __future__ import annotations

import numpy as np
import pytest

from hornbeam.kernels.bits import count_bits, lowest_bit
from hornbeam.kernels.jit import kernel


@kernel
def _both(words, found):
    for i in range(words.size):
        found[i, 0], found[i, 1] = count_bits(words[i]), lowest_bit(words[i])


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_count_and_lowest_bit(dtype):
    most = np.iinfo(dtype).max
    words = np.random.default_rng(0).integers(1, most, 50, dtype, endpoint=True)
    words[:3] = 1, most, most - most // 2
    found = np.empty((words.size, 2), np.int64)
    _both(words, found)
    written = [f"{word:b}" for word in words.tolist()]
    assert found[:, 0].tolist() == [text.count("1") for text in written]
    assert found[:, 1].tolist() == [text[::-1].index("1") for text in written]
