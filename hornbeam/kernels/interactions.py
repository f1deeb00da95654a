"""The features on the path to a node, and those that may follow them.

Sets of features are bits of words.
"""

from __future__ import annotations

import numpy as np

from hornbeam.kernels.bits import lowest_bit
from hornbeam.kernels.jit import inline, kernel

__all__ = ["allow_nodes", "allow_together", "enter_paths", "extend_path", "is_used"]


@inline
def is_used(used, feature):
    """Return whether the feature is in the set ``used``."""
    return (used[feature >> 6] >> np.uint64(feature & 63)) & np.uint64(1) != 0


@inline
def extend_path(node, feature, left, used):
    """Write the features on the paths to both children of a node."""
    for word in range(used.shape[1]):
        bits = used[node, word]
        if word == feature >> 6:
            bits |= np.uint64(1) << np.uint64(feature & 63)
        used[left, word] = used[left + 1, word] = bits


@kernel
def enter_paths(
    nodes,  # (nodes,) int64: split nodes
    features,  # (nodes,) int32: of their splits
    left,  # (nodes,) int64: their left children
    used,  # (all nodes, words) uint64: features on the path to each node, in and out
):
    """Write the features on the paths to the children of split nodes."""
    for i in range(nodes.size):
        extend_path(nodes[i], features[i], left[i], used)


@kernel
def _mark(words, allowed):
    """Mark the features of a set with a second bit."""
    for word in range(words.size):
        bits = words[word]
        while bits != 0:
            allowed[64 * word + lowest_bit(bits)] |= np.uint8(2)
            bits &= bits - np.uint64(1)


@kernel
def allow_together(
    used,  # (words,) uint64: the features on the path to a node
    groups,  # (groups, words) uint64: sets of features that may interact
    allowed,  # (features,) uint8: whether the node may use each, in and out
):
    """Allow no others than those on the path and those of the groups that contain it.

    A group contains the path if all features on the path are in the group.
    """
    _mark(used, allowed)
    for group in range(groups.shape[0]):
        missing = np.uint64(0)
        for word in range(used.size):
            missing |= used[word] & ~groups[group, word]
        if missing == 0:
            _mark(groups[group], allowed)
    for feature in range(allowed.size):
        allowed[feature] = allowed[feature] == 3


@kernel
def allow_nodes(
    nodes,  # (nodes,) int64
    used,  # (all nodes, words) uint64
    groups,  # (groups, words) uint64
    allowed,  # (nodes, features) uint8, in and out
):
    """Call `allow_together` for each of these nodes."""
    for i in range(nodes.size):
        allow_together(used[nodes[i]], groups, allowed[i])
