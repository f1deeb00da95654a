"""Minimal cost-complexity pruning: the sequence of a tree's weakest links.

An indexed min-heap holds the splits by the strength of their branches.
"""

from __future__ import annotations

from hornbeam.kernels.jit import inline, kernel

__all__ = ["link_strengths"]


@kernel
def link_strengths(
    left,  # (nodes,) int32: the left child, the right one follows; -1 at leaves
    parent,  # (nodes,) int32; -1 at the root
    gains,  # (nodes,) float64: the decrease of impurity of a split
    sums,  # (nodes,) float64, scratch: of the gains of a branch
    splits,  # (nodes,) int64, scratch: of the splits of a branch
    heap,  # (nodes,) int32, scratch
    places,  # (nodes,) int32, scratch: the position of each node in the heap
    strengths,  # (nodes,) float64, out: of each node when it is pruned or removed
    cut,  # (nodes,) int32, out: the nodes that become leaves, in this order
    lost_gains,  # (nodes,) float64, out: the gain that each of them removes
    lost_splits,  # (nodes,) int64, out: and the number of splits
):
    """Prune the weakest link repeatedly; return the number of prunings.

    The weakest link is the node whose branch has the least gain per split: at this
    penalty for each leaf, the tree without it is better (Breiman et al. 1984, section
    3.3).
    """
    n = left.size
    for node in range(n):
        sums[node] = gains[node] if left[node] >= 0 else 0.0
        splits[node] = left[node] >= 0
        places[node] = -1
        strengths[node] = 0.0
    for i in range(n - 1):  # children come after their parents
        node = n - 1 - i
        sums[parent[node]] += sums[node]
        splits[parent[node]] += splits[node]
    size = 0
    for node in range(n):
        if left[node] >= 0:
            strengths[node] = sums[node] / splits[node]
            _lift(heap, places, strengths, size, node)
            size += 1
    cuts = 0
    least = 0.0
    while size > 0:
        top = heap[0]
        least = max(least, strengths[top])
        cut[cuts] = top
        lost_gains[cuts] = sums[top]
        lost_splits[cuts] = splits[top]
        # Remove the whole branch from the heap, children first.
        node = top
        while True:
            if left[node] >= 0 and places[left[node]] >= 0:
                node = left[node]
            elif left[node] >= 0 and places[left[node] + 1] >= 0:
                node = left[node] + 1
            else:
                size -= 1
                _take_out(heap, places, strengths, size, places[node])
                places[node] = -1
                strengths[node] = least
                if node == top:
                    break
                node = parent[node]
        node = parent[top]
        while node >= 0:
            sums[node] -= lost_gains[cuts]
            splits[node] -= lost_splits[cuts]
            strengths[node] = sums[node] / splits[node]
            _sink(heap, places, strengths, size, places[node])
            _lift(heap, places, strengths, places[node], node)
            node = parent[node]
        cuts += 1
    return cuts


@inline
def _is_weaker(strengths, node, other):
    weak, strong = strengths[node], strengths[other]
    return weak < strong or (weak == strong and node < other)


@kernel
def _lift(heap, places, strengths, place, node):
    """Insert a node at `place` and sift it up."""
    while place > 0:
        above = (place - 1) >> 1
        if not _is_weaker(strengths, node, heap[above]):
            break
        heap[place] = heap[above]
        places[heap[place]] = place
        place = above
    heap[place] = node
    places[node] = place


@kernel
def _sink(heap, places, strengths, size, place):
    """Sift the node at `place` of a heap of `size` down."""
    node = heap[place]
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and _is_weaker(strengths, heap[below + 1], heap[below]):
            below += 1
        if not _is_weaker(strengths, heap[below], node):
            break
        heap[place] = heap[below]
        places[heap[place]] = place
        place = below
    heap[place] = node
    places[node] = place


@kernel
def _take_out(heap, places, strengths, size, place):
    """Replace the node at `place` by the last one; `size` is the new size."""
    node = heap[size]
    if place == size:
        return
    heap[place] = node
    places[node] = place
    _sink(heap, places, strengths, size, place)
    _lift(heap, places, strengths, places[node], node)
