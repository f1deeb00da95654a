"""The best split of a node of few rows, from packed sums.

The sums of at most BLOCK_ROWS rows fit one int64 a bin, the gradient in the high half
and the hessian in the low half: a packed histogram. Nodes of even fewer rows have no
histogram: their rows are summed into one that all such nodes share in turn, and only
the bins in use are read and cleared.

The cuts of a numerical feature are scored twice, see `cut_scores`, so that the split is
the one that `split` finds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.bits import lowest_bit
from hornbeam.kernels.cut_scores import (
    least_units,
    may_screen,
    score_packed_cuts,
)
from hornbeam.kernels.histogram import take_from_parent
from hornbeam.kernels.jit import inline, kernel
from hornbeam.kernels.layout import BLOCK_ROWS
from hornbeam.kernels.split import (
    NodeSums,
    ScreenedCuts,
    keep_best_cut,
    keep_candidate,
    search_feature,
    settle_split,
)
from hornbeam.kernels.sync import prefetch

__all__ = [
    "PackedSums",
    "SplitBuffers",
    "can_split",
    "is_packed",
    "node_size",
    "pack",
    "search_packed_node",
    "subtract_histogram",
    "subtract_packed",
    "subtract_rows",
    "sum_few_rows",
]

_LOW_HALF = 0xFFFFFFFF
#: How many rows ahead bins and gradients are prefetched.
_AHEAD = 8


class PackedSums(NamedTuple):
    """The packed histogram of a node.

    Attributes
    ----------
    sums
        (bins,) int64.
    total
        The sum of the node's packed gradients.
    few
        Whether it is the shared histogram, whose bins in use are marked.
    """

    sums: NDArray[np.int64]
    total: int
    few: bool


class SplitBuffers(NamedTuple):
    """Buffers of one thread for the split search.

    Attributes
    ----------
    values
        (8, most candidates of a feature + 1) float64.
    every_bin
        (the same,) int64: 0, 1, 2, ...
    sums
        (bins,) int64: the shared histogram of nodes of few rows; zeros in and out.
    touched
        (bins // 64 + 1,) uint64: bits of its bins that are in use; zeros in and out.
    """

    values: NDArray[np.float64]
    every_bin: NDArray[np.int64]
    sums: NDArray[np.int64]
    touched: NDArray[np.uint64]


@inline
def node_size(tables, node):
    """Return the number of rows of a node."""
    return tables.nodes[node]["end"] - tables.nodes[node]["begin"]


@inline
def is_packed(tables, node, rules):
    """Return whether the histogram of a node is packed."""
    return rules.packs and node_size(tables, node) <= BLOCK_ROWS


@kernel
def can_split(hessian, scales, rules):
    """Return whether a node with this sum of hessians, in units, may have a split."""
    return hessian >= 2.0 * least_units(scales, rules)


@kernel
def _sum_rows(bins, columns, rows, packed, buffers):
    chosen, cells = columns.chosen, columns.cells
    sums, touched = buffers.sums, buffers.touched
    width = np.uint64(columns.table.size)
    one = np.uint64(1)
    total = np.int64(0)
    for i in range(rows.size):
        prefetch(bins, np.uint64(rows[min(i + _AHEAD, rows.size - 1)]) * width)
        row = np.uint64(rows[i])
        value = packed[row]
        total += value
        for j in range(np.uint64(chosen.size)):
            cell = np.uint64(cells[j]) + np.uint64(bins[row * width + chosen[j]])
            sums[cell] += value
            touched[cell >> np.uint64(6)] |= one << (cell & np.uint64(63))
    return total


@inline
def sum_few_rows(columns, rows, packed, buffers):
    """Add rows to the shared histogram; return the sum of their packed gradients.

    `columns` are `BinColumns`.
    """
    if columns.wide.size > 0:
        return _sum_rows(columns.wide, columns, rows, packed, buffers)
    return _sum_rows(columns.narrow, columns, rows, packed, buffers)


@kernel
def _clear_touched(sums, touched):
    """Set the shared histogram to zero again."""
    for w in range(touched.size):
        word = touched[w]
        if word != 0:
            touched[w] = 0
            while word != 0:
                sums[64 * w + lowest_bit(word)] = 0
                word &= word - np.uint64(1)


@kernel
def _subtract_rows(bins, columns, rows, packed, is_packed, histogram):
    chosen, cells = columns.chosen, columns.cells
    gradients, hessians = histogram[0], histogram[1]
    width = np.uint64(columns.table.size)
    for i in range(rows.size):
        prefetch(bins, np.uint64(rows[min(i + _AHEAD, rows.size - 1)]) * width)
        row = np.uint64(rows[i])
        value = packed[row]
        for j in range(np.uint64(chosen.size)):
            cell = np.uint64(cells[j]) + np.uint64(bins[row * width + chosen[j]])
            if is_packed:
                gradients[cell] -= value
            else:
                gradients[cell] -= value >> 32
                hessians[cell] -= value & _LOW_HALF


@inline
def subtract_rows(columns, rows, packed, is_packed, histogram):
    """Subtract the gradients of rows from a histogram, which is packed or wide.

    `columns` are `BinColumns`.
    """
    if columns.wide.size > 0:
        _subtract_rows(columns.wide, columns, rows, packed, is_packed, histogram)
    else:
        _subtract_rows(columns.narrow, columns, rows, packed, is_packed, histogram)


@kernel
def subtract_packed(parent, child, was_packed, is_packed, begin, end):
    """Subtract a packed histogram from its parent's, which leaves the sibling's.

    The parent's may be wide and the sibling's packed.
    """
    gradients, hessians = parent[0], parent[1]
    own = child[0]
    if was_packed:
        for c in range(begin, end):
            gradients[c] -= own[c]
    elif not is_packed:
        for c in range(begin, end):
            gradients[c] -= own[c] >> 32
            hessians[c] -= own[c] & _LOW_HALF
    else:
        for c in range(begin, end):
            g = gradients[c] - (own[c] >> 32)
            h = hessians[c] - (own[c] & _LOW_HALF)
            gradients[c] = (g << 32) + h


@kernel
def subtract_histogram(
    histograms,  # (slots, 2, bins) int64, in and out
    parent,  # slots
    child,
    child_packed,  # the child's is packed; the parent's was; the sibling's is
    was_packed,
    is_packed,
    begin,  # bins
    end,
):
    """Subtract a node's histogram from its parent's, which leaves the sibling's."""
    if child_packed:
        subtract_packed(
            histograms[parent], histograms[child], was_packed, is_packed, begin, end
        )
    else:
        take_from_parent(histograms, parent, child, begin, end)


@kernel
def pack(histogram):
    """Pack a wide histogram of at most BLOCK_ROWS rows."""
    gradients, hessians = histogram[0], histogram[1]
    for c in range(gradients.size):
        gradients[c] = (gradients[c] << 32) + hessians[c]


@inline
def _prefix_touched(buffers, start, stop, prefix, places):
    """Write the sums up to each used bin of a feature; return the number of these."""
    every = ~np.uint64(0)
    first, last = start >> 6, (stop - 1) >> 6
    count = 0
    so_far = np.int64(0)
    for w in range(first, last + 1):
        word = buffers.touched[w]
        if w == first:
            word &= every << np.uint64(start & 63)
        if w == last:
            word &= every >> np.uint64(63 - ((stop - 1) & 63))
        while word != 0:
            cell = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            so_far += buffers.sums[cell]
            places[count] = cell - start
            count += 1
            prefix[count] = so_far
    return count


@kernel
def _search_order(prefix, places, count, total, feature, scales, rules, values, split):
    """Search the cuts between `count` bins in use; ``prefix[k]`` is below the k-th."""
    least = np.uint32(min(least_units(scales, rules), np.float64(_LOW_HALF)))
    ridge = np.float32(rules.reg_lambda / scales[1])
    unit = scales[0] * scales[0] / scales[1]
    scores = values[2].view(np.float32)
    node = NodeSums(total >> 32, total & _LOW_HALF, np.int64(0))
    missing = total - prefix[count]
    for down in range(2 if missing != 0 else 1):
        sums = prefix[1 - down : count + 1 - down]
        extra = missing * down
        highest = score_packed_cuts(sums, count, extra, total, least, ridge, scores)
        cuts = ScreenedCuts(sums, sums, -extra, -extra, 32, _LOW_HALF)
        place = keep_best_cut(
            cuts, scores, np.float64(highest), unit, down, node, scales, rules, split
        )
        if place >= 0:
            split["feature"] = feature
            split["bin"] = places[place] - down


@kernel
def search_packed_node(
    histogram,  # PackedSums of the node
    node,  # its number in `limits`
    candidates,  # CandidateFeatures of this node: all of them are searched
    features,  # table of FEATURE_DTYPE
    scales,  # (2,) float64: the value of one unit of gradient and hessian sums
    rules,  # SplitRules
    limits,  # NodeConstraints, or None
    buffers,  # SplitBuffers
    split,  # SPLIT_DTYPE, out
    rights,  # (words,) uint64, out: categories that go right, or (0,) uint8
):
    """Write the best split of one node, as `split.search_node` does."""
    sums, total, few = histogram
    values = buffers.values
    prefix = values[0].view(np.int64)
    total_g, total_h = total >> 32, total & _LOW_HALF
    split["total_gradient"] = total_g
    split["total_hessian"] = total_h
    keep_candidate(split, 0.0, -1, 0, 0, 0, np.int64(0), np.int64(0))
    fast = limits is None and may_screen(scales, rules)
    for j in range(candidates.chosen.size):
        feature = np.int64(candidates.chosen[j])
        if candidates.allowed.size > 0 and candidates.allowed[0, feature] == 0:
            continue
        start = features[feature]["cell"]
        stop = start + features[feature]["bins"]
        if fast and not features[feature]["is_categorical"]:
            prefix[0] = 0
            if few:
                places = values[1].view(np.int64)
                count = _prefix_touched(buffers, start, stop, prefix, places)
            else:
                places = buffers.every_bin
                count = stop - start
                so_far = np.int64(0)
                for b in range(count):
                    so_far += sums[start + b]
                    prefix[b + 1] = so_far
            _search_order(
                prefix, places, count, total, feature, scales, rules, values, split
            )
        else:
            own = sums[start:stop]
            own_g = values[6].view(np.int64)[: own.size]
            own_h = values[7].view(np.int64)[: own.size]
            for b in range(own.size):
                own_g[b] = own[b] >> 32
                own_h[b] = own[b] & _LOW_HALF
            search_feature(
                NodeSums(own_g, own_h, own_h),
                NodeSums(total_g, total_h, total_h),
                node,
                feature,
                features[feature]["is_categorical"],
                scales,
                rules,
                limits,
                values,
                split,
                rights,
            )
    if few:
        _clear_touched(buffers.sums, buffers.touched)
    settle_split(split, total_h, node, scales, rules, limits)
