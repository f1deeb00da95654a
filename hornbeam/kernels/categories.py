"""Order of categories by leaf weight, and bit sets of categories."""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.jit import inline

__all__ = [
    "list_rights",
    "order_key",
    "select_least",
    "sum_in_order",
    "sum_single",
    "toggle",
]


@inline
def sum_single(own, total, sums):
    """Write the sums of one category alone, then with the missing values."""
    missing = total
    for c in range(own.size):
        missing -= own[c]
    for c in range(own.size):
        sums[2 * c + 1] = own[c]
        sums[2 * c + 2] = own[c] + missing


@inline
def sum_in_order(own, order, flip, sums):
    """Write the cumulative sums of categories in an order."""
    sums[0] = 0
    for i in range(order.size):
        sums[i + 1] = sums[i] + own[(order[i] ^ flip) & 0xFFFFFFFF]


@inline
def order_key(value, category):
    """Return an int64 that orders categories by a value, then by their number.

    The value is rounded to float32, as in XGBoost.
    """
    # Adding zero turns -0.0 into 0.0. The bits of non-negative floats are ordered as
    # the floats are; those of negative ones in reverse.
    bits = np.int64(np.float32(value + 0.0).view(np.int32))
    return ((bits ^ ((bits >> 63) & 0x7FFFFFFF)) << 32) | category


@inline
def _sink(heap, place, size):
    """Sift the key at `place` down a max-heap."""
    key = heap[place]
    child = 2 * place + 1
    while child < size:
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= key:
            break
        heap[place] = heap[child]
        place = child
        child = 2 * place + 1
    heap[place] = key


@inline
def select_least(keys, flip, heap):
    """Fill `heap` with the least of ``keys ^ flip``, ascending.

    A max-heap of the least keys so far needs one pass over the keys, most of which
    are above its top.
    """
    size = heap.size
    for i in range(size):
        heap[i] = keys[i] ^ flip
    for place in range(size // 2 - 1, -1, -1):
        _sink(heap, place, size)
    for i in range(size, keys.size):
        key = keys[i] ^ flip
        if key < heap[0]:
            heap[0] = key
            _sink(heap, 0, size)
    for last in range(size - 1, 0, -1):
        greatest = heap[0]
        heap[0] = heap[last]
        _sink(heap, 0, last)
        heap[last] = greatest


@inline
def list_rights(categories, every, rights):
    """Write the bit set of all `categories`, or the empty set."""
    for word in range(rights.size):
        rights[word] = 0
    if every:
        for c in range(categories):
            toggle(c, rights)


@inline
def toggle(category, rights):
    """Add a category to a bit set, or remove it."""
    rights[category >> 6] ^= np.uint64(1) << np.uint64(category & 63)
