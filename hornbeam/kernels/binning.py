"""Binning of values, and conversion of bins between column and row order."""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import inline, kernel

__all__ = ["bin_column", "decode_rows", "find_ends", "interleave"]

#: Values that are binned together: the step of the binary search is the outer loop, so
#: that the inner one becomes SIMD gathers (measured: eight times as fast).
_LANE = 1024
#: Steps that are replaced by comparing each value with all cuts that they reach: 15.
_COMPARED = 4
#: Rows transposed together: a block of a few columns of bins stays in the cache.
_BLOCK = 512


@inline
def _count_cuts(lane, cuts, distance, position):
    """Write to which of 16 equal parts of the cuts each value belongs, as its first."""
    for part in range(1, 16, 3):
        first = cuts[np.uint32(part) * distance]
        second = cuts[np.uint32(part + 1) * distance]
        third = cuts[np.uint32(part + 2) * distance]
        for i in range(lane.size):
            count = np.uint32(lane[i] >= first) + np.uint32(lane[i] >= second)
            count += np.uint32(lane[i] >= third)
            position[i] += np.uint32(count * distance)


@kernel
def bin_column(
    values,  # (rows,) float32 or float64; NaN is missing
    cuts,  # (2**depth,) of the same type: one unused, ascending, then infinity
    depth,
    missing_bin,
    position,  # (1024,) uint32, scratch: unsigned, so that no index is checked
    bins,  # (rows,) uint8 or uint16, out
):
    """Write the bin of each value: the number of cuts that are not above it.

    `cuts` are the upper ends of all bins except the last, which is unbounded.
    """
    rows = values.size
    for begin in range(0, rows, _LANE):
        lane = values[begin : begin + _LANE]
        out = bins[begin : begin + _LANE]
        for i in range(lane.size):
            position[i] = 0
        half, steps = np.uint32(1 << depth), depth
        if depth >= _COMPARED:
            _count_cuts(lane, cuts, np.uint32(half >> np.uint32(_COMPARED)), position)
            half, steps = np.uint32(half >> np.uint32(_COMPARED)), depth - _COMPARED
        for _ in range(steps):
            half = np.uint32(half >> np.uint32(1))
            for i in range(lane.size):
                probe = np.uint32(position[i] + half)
                position[i] = probe if lane[i] >= cuts[probe] else position[i]
        for i in range(lane.size):
            out[i] = missing_bin if lane[i] != lane[i] else position[i]


@kernel
def interleave(
    by_feature,  # (features, rows)
    begin,  # first row
    end,
    by_row,  # (rows * features,), out
):
    """Write rows ``begin`` to ``end`` of column-major bins in row-major order."""
    features = by_feature.shape[0]
    width = np.uint64(features)
    for block in range(begin, end, _BLOCK):
        stop = min(block + _BLOCK, end)
        for f in range(features):
            column = by_feature[f, block:stop]
            cell = np.uint64(block) * width + np.uint64(f)
            for i in range(column.size):
                by_row[cell] = column[i]
                cell += width


@kernel
def decode_rows(
    by_feature,  # (all features, all rows) bins
    begin,  # first row
    features,  # (some,) int64: the columns to write
    ends,  # float32 or float64: the value of each bin, feature after feature
    starts,  # (all features,) int64: the first bin of each feature
    values,  # (rows, some) of the same type, out
):
    """Write the values of bins in row-major order."""
    for block in range(0, values.shape[0], _BLOCK):
        stop = min(block + _BLOCK, values.shape[0])
        for place in range(features.size):
            f = np.uint64(features[place])
            column = by_feature[f, begin + block : begin + stop]
            start = np.uint64(starts[f])
            out = values[block:stop, place]
            for i in range(column.size):
                out[i] = ends[start + np.uint64(column[i])]


@kernel
def find_ends(
    bins,  # (rows,) uint8 or uint16
    values,  # (rows,) float32 or float64
    lows,  # (bins,) float64: the least value of each so far, in and out
    highs,  # (bins,) float64: the greatest
):
    """Update the least and the greatest value of each bin, except the missing one."""
    for i in range(bins.size):
        own_bin = np.int64(bins[i])
        if own_bin < lows.size:
            lows[own_bin] = min(lows[own_bin], values[i])
            highs[own_bin] = max(highs[own_bin], values[i])
