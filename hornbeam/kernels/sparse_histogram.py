"""Gradient histograms of the stored entries of sparse features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.kernels.histogram import QuantisedGradients
from hornbeam.kernels.jit import kernel
from hornbeam.kernels.layout import COARSE_HESSIAN_BITS
from hornbeam.kernels.sparse import MOST_NODES
from hornbeam.kernels.sync import next_task

__all__ = ["SparseNodes", "build_sparse_histograms"]


class SparseNodes(NamedTuple):
    """The nodes whose histograms are built.

    Attributes
    ----------
    words
        (rows,) int64: the node of each row, as `mark_rows` writes them.
    gradients
        Of the rows.
    totals
        (nodes, 3) int64: the sums of gradients and hessians.
    slots
        (nodes,) int64: where the histograms are.
    """

    words: NDArray[np.int64]
    gradients: QuantisedGradients
    totals: NDArray[np.int64]
    slots: NDArray[np.int64]


@kernel
def build_sparse_histograms(
    thread_id,
    n_threads,
    sync,
    entries,  # SparseEntries
    nodes,  # SparseNodes
    features,  # (chosen features,) uint64
    block,  # features of one task
    bounds,  # (features + 1,) int64: the first histogram bin of each feature
    n_bins,  # (features,) int64: without the bin of missing values
    histograms,  # (slots, 2, bins) int64, out
):
    """Write the histogram of each node to its slot.

    What the stored entries of a feature lack of the node's sums is in its last bin,
    that of missing values.
    """
    starts, rows, bins = entries
    words, gradients, totals, slots = nodes
    packed, wide = gradients
    task = next_task(sync, 0)
    while task * block < features.size:
        for place in range(task * block, min((task + 1) * block, features.size)):
            feature = np.int64(features[place])
            begin, end = bounds[feature], bounds[feature + 1]
            for slot in slots:
                histograms[slot, :, begin:end] = 0
            for i in range(starts[feature], starts[feature + 1]):
                row = np.uint64(rows[i])
                number = (words[row] >> COARSE_HESSIAN_BITS) & MOST_NODES
                if number >= slots.size:
                    continue
                if wide.size > 0:
                    g = wide[0, row]
                    h = wide[1, row]
                else:
                    g = packed[row] >> 32
                    h = packed[row] & 0xFFFFFFFF
                own_bin = begin + np.int64(bins[i])
                histograms[slots[number], 0, own_bin] += g
                histograms[slots[number], 1, own_bin] += h
            if end - begin == n_bins[feature]:
                continue  # no value is missing
            for number in range(slots.size):
                for part in range(2):
                    own = histograms[slots[number], part]
                    rest = totals[number, part]
                    for b in range(begin, end - 1):
                        rest -= own[b]
                    own[end - 1] = rest
        task = next_task(sync, 0)
