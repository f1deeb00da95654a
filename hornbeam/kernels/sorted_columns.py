"""Passes over sorted columns: cumulative weights of values, and bins."""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import kernel

__all__ = ["bin_entries", "sum_weights"]

_ROW = np.uint64(0xFFFFFFFF)
_RANK_SHIFT = np.uint64(32)


@kernel
def sum_weights(
    entries,  # (entries,) uint64: rank of the value << 32 | row, ascending
    weights,  # (rows,) int64
    sums,  # (values,) int64, out
):
    """Write the cumulative weight of the entries up to and including each value."""
    total = np.int64(0)
    for i in range(entries.size):
        entry = entries[i]
        total += weights[entry & _ROW]
        sums[entry >> _RANK_SHIFT] = total


@kernel
def bin_entries(
    entries,  # (entries,) uint64: rank of the value << 32 | row, ascending
    ends,  # (bins,) int64: the rank of the first value after each bin
    bins,  # (rows,) uint8 or uint16, out: only of rows with an entry
):
    """Write the bin of each entry."""
    own_bin = 0
    for i in range(entries.size):
        entry = entries[i]
        while np.int64(entry >> _RANK_SHIFT) >= ends[own_bin]:
            own_bin += 1
        bins[entry & _ROW] = own_bin
